"""Whatever JAX settings a user has on, every public function gives the same: NumPy values, bit for bit."""

import functools
import inspect
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import engram
from engram import (
    _precision,
    audits,
    capacity,
    dynamics,
    memory,
    observables,
    particles,
    planes,
    problem,
    simulation,
    special,
    sweeps,
    theory,
    transformer,
)
from engram.system import Look

RNG = np.random.default_rng(0)
PROBLEM = engram.on_sphere(0, 4, 3, 3)
PAIR = engram.two_tokens(0.95, 0.75)
W = RNG.standard_normal((3, 3))
SCORES = PROBLEM.inputs @ (PROBLEM.outputs @ W).T
SERIES = RNG.random((2, 5))
MARGINS = RNG.standard_normal((5, 4))
DESCENT = engram.GradientDescent(10.0, 34)
CONFIG = transformer.Config(dim=4, sequences=3, length=12, dtype="float64")


@functools.cache
def tiny():
    return transformer.prepare(CONFIG)


def single(array):
    """A JAX array of single precision, which has no place in a result."""
    return jnp.asarray(array, jnp.float32)


def own_sweep():
    return engram.sweep(lambda x: {"y": jnp.sin(x)}, {"x": [0.0, 1.0]})


def events():
    return observables.events_of_series(observables.Events(np.asarray(1.5)), Look(*SERIES, MARGINS))


# Functions that return arrays, by module: their arguments, or a call.
MEMORY = {name: (PROBLEM, W) for name, each in vars(memory).items() if inspect.isfunction(each)}
MEMORY |= {"hvp": (PROBLEM, W, W), "update_bases": (PROBLEM,), "top_eigenpairs": (PROBLEM, W, 2)}
PARTICLES = {
    name: (PROBLEM, SCORES) for name, each in vars(particles).items() if inspect.isfunction(each)
}
PARTICLES |= dict.fromkeys(("input_gram", "output_gram", "output_gaps"), (PROBLEM,))
PARTICLES |= dict.fromkeys(("weights_to_scores", "unseen_part"), (PROBLEM, W))
PARTICLES |= {
    "hvp": (PROBLEM, SCORES, SCORES),
    "coefficients_to_weights": (PROBLEM, SCORES, W),
    "gradient_noise": (PROBLEM, SCORES, np.ones(4)),
    "isotropic_noise": (PROBLEM, 0),
    "top_eigenvalues": (PROBLEM, SCORES, 2),
}
del PARTICLES["pull"]  # for JAX programs
TABLE = {
    memory: MEMORY,
    particles: PARTICLES,
    problem: {
        "as_key": (-1,),
        "canonical_rows": (2, 3),
        "gaussian_rows": (0, 2, 3),
        "orthonormal_rows": (2**40, 2, 3),
        "sphere_rows": (0, 2, 3),
        "rows_with_gram": (single(np.eye(2)),),
        "from_gram": (np.eye(2), single(np.eye(2))),
        "facts": lambda: problem.facts(0, 2, 2, 2, 4),
        "from_text": lambda: problem.from_text(None, 3, top=4),
        "from_text_file": lambda: problem.from_text_file(None, 3, top=4),
        "from_counts": lambda: problem.from_counts(np.eye(3, 4), 3),
        "gaussian": (0, 4, 3, 3),
        "on_sphere": lambda: engram.on_sphere(0, 4, 3, 3, exponent=single(0.7), targets="random"),
        "one_hot": (3, 2),
        "orthonormal": lambda: engram.orthonormal(3, 2, key=0),
        "two_tokens": (single(0.5), 0.75),
        "count_pairs": ([0, 1, 0], 2),
        "uniform": (3,),
        "zipf": (3, single(0.7)),
    },
    special: {
        "largest_eigenpairs": (lambda v: jnp.asarray(W + W.T) @ v, np.ones(3)),
        "log_omega": (single([1.0, 2.0]),),
        "normals": (0, (2, 3), np.float32),
        "logsumexp": (single([1.0, 2.0]),),
        "sigmoid": (single([1.0, 2.0]),),
        "softmax": (single([1.0, 2.0]),),
        "softplus": (single([1.0, 2.0]),),
        "bisect": lambda: special.bisect(lambda x: x * x < 2, single([0.0]), single([2.0])),
    },
    capacity: {
        "calibration": (PROBLEM,),
        "storage_probability": (single([4, 5]).astype(int), 3),
        "forgetting_rate": lambda: capacity.forgetting_rate([3], [2], draws=2),
        "min_error": (PROBLEM,),
        "max_margin": (PAIR,),
        "max_margin_multipliers": (PAIR,),
        "loss_minimiser": (PROBLEM,),
        "turning_angles": (np.asarray(PAIR.inputs),),
        "is_separable": (PROBLEM,),
        "separate": (PROBLEM,),
        "storage_error": (single(np.eye(3)), single(np.eye(3)), np.arange(3), "frequency"),
        "num_stored": (single(np.eye(3)), single(np.eye(3))),
        "capacity_curve": lambda: capacity.capacity_curve([2], draws=2),
        "outer_product_errors": lambda: capacity.outer_product_errors(
            single(np.eye(3)), single(np.eye(3)), np.arange(3), np.full((1, 3), 1 / 3), np.full(3, 1 / 3)
        ),
        "scheme_errors": lambda: capacity.scheme_errors([2], 4, 2, 1.5, 2, 0, lambda *_: None),
        "sampled_scheme_errors": lambda: capacity.sampled_scheme_errors(
            [2], [8], 4, 2, 1.5, 2, 0, lambda *_: None
        ),
        "learned_errors": lambda: capacity.learned_errors(
            {"optimizer": "adam", "learning_rate": 0.1}, 3, [2], 4, 2, 1.5, 2, 0, lambda *_: None
        ),
        "one_pass_errors": lambda: capacity.one_pass_errors(
            2, {"optimizer": "plain"}, False, [2], [8], [0.1], 4, 2, 1.5, 2, 0, lambda *_: None
        ),
        "trained_capacity": lambda: capacity.trained_capacity(2, steps=3, draws=2, most=4),
    },
    planes: {
        "landscape": lambda: engram.landscape(
            PAIR, planes.memory_plane(PAIR), planes.QUANTITIES, first=(-1, 1, 3), second=(-1, 1, 3)
        ),
        "curvature_plane": (PROBLEM, W),
        "max_margin_plane": (PAIR, W[:2, :2]),
        "memory_plane": (PAIR,),
        "plane_through": (single(W), np.eye(3)),
        "principal_plane": (single(RNG.standard_normal((3, 3, 3))),),
        "error_regions": (PAIR,),
        "sharpness_along": (PROBLEM, single(W[None])),
        "span_size": (PROBLEM,),
        "wrong_margins": (PROBLEM, W),
    },
    observables: {
        "events_of_series": events,
        "make_record": (("loss", "alignment"), memory.MemorySystem(PAIR), DESCENT),
    },
    simulation: {
        "simulate": (PAIR, DESCENT),
        "simulate_arrays": (PAIR, DESCENT),
        "compare": (PAIR, {"once": DESCENT, "again": DESCENT}),
        "events": lambda: engram.events(engram.simulate(PAIR, DESCENT)),
        "log_spaced": (10, 3),
    },
    sweeps: {
        "sweep": own_sweep,
        "loaded": lambda: sweeps.loaded(own_sweep().y).values,
    },
    transformer: {
        "attention_patterns": lambda: transformer.attention_patterns(
            tiny()[0], tiny()[1].inputs[0]
        ),
        "bigram_task": (CONFIG,),
        "causal_margins": lambda: transformer.causal_margins(*transformer.memories(tiny()[0])["wk1"]),
        "contributions": lambda: transformer.contributions(*tiny(), 2 * [{"wo2": tiny()[0]["wo2"]}]),
        "evaluate": lambda: transformer.evaluate(*tiny()),
        "formation": lambda: transformer.formation(
            transformer.train(CONFIG, engram.GradientDescent(0.1, 1)).log
        ),
        "induction_scores": lambda: transformer.induction_scores(*tiny()),
        "make_model": (CONFIG, 5),
        "memories": lambda: transformer.memories(tiny()[0]),
        "plain_loss": lambda: transformer.plain_loss(*tiny()),
        "prepare": (CONFIG,),
        "read": lambda: transformer.read(tiny()[0], tiny()[1].inputs[0]),
        "train": lambda: transformer.train(CONFIG, engram.GradientDescent(0.1, 1)),
    },
    audits: {
        "audit": lambda: vars(engram.audit("C04")[0].printed),
        "curves_of": lambda: vars(audits.curves_of(engram.audit("C04")[0])),
    },
}  # fmt: skip
# What has no arrays to return, and what JAX programs are made of, which stays with JAX.
OTHERS = {
    particles: {"pull"},
    problem: {
        "from_file", "count_bigrams", "check_problem", "function_of", "one_line", "read_npz", "read_vectors",
        "show_name",
    },
    observables: {"make_observable", "stability_gap"},
    dynamics: {name for name, each in vars(dynamics).items() if inspect.isfunction(each)},
    simulation: {
        "segment_size", "choose_space", "make_system", "drive", "label_events", "label_problem",
        "about_events_in", "common_part", "differences", "stored_problem", "expected",
    },
    sweeps: {"read_sweep", "open_sweep", "make_plan", "boundary", "local_client", "remote_client"},
    transformer: {
        "count_bigrams", "explain", "fingerprint", "open_log", "read_sequences", "read_weights", "sized",
        "use_devices", "write_start",
    },
    audits: {
        "audit_each", "select", "load_claim", "errata", "where", "as_text", "draw", "bound", "in_words",
        "root_causes",
    },
}  # fmt: skip
# What other tests that are marked call too, or costs seconds to compile.
COSTLY = (simulation, sweeps, transformer, audits)
LANCZOS = ("largest_eigenpairs", "top_eigenpairs", "top_eigenvalues", "sharpness")
CALLS = [
    pytest.param(
        getattr(module, name),
        row,
        id=f"{module.__name__.removeprefix('engram.')}.{name}",
        marks=() if module in COSTLY or name in LANCZOS else pytest.mark.settings,
    )
    for module, rows in TABLE.items()
    for name, row in rows.items()
]


def leaves(result):
    """The arrays and numbers of a result, in one order."""
    if isinstance(result, xr.Dataset):
        result = {str(name): result[name].values for name in result.variables}
    if isinstance(result, tuple) and any(isinstance(part, xr.Dataset) for part in result):
        return [leaf for part in result for leaf in leaves(part)]
    return jax.tree.leaves(result)


def is_key(leaf):
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def check_same(one, other):
    assert len(one) == len(other) > 0
    for a, b in zip(one, other, strict=True):
        assert type(a) is type(b)
        if is_key(a):
            a, b = (np.asarray(jax.random.key_data(key)) for key in (a, b))
        assert not isinstance(a, jax.Array)
        if isinstance(a, np.ndarray | np.generic):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)


def results(function, arguments):
    """What a call gives with x64 off, and with x64 on."""
    both = []
    for switch in (False, True):
        with jax.enable_x64(switch):
            both.append(leaves(arguments() if callable(arguments) else function(*arguments)))
    return both


@pytest.mark.parametrize(("function", "arguments"), CALLS)
def test_public_functions_return_the_same_numpy_values_with_x64_off_and_on(function, arguments):
    check_same(*results(function, arguments))


DYNAMICS = {
    "descent": engram.GradientDescent(1.0, 3),
    "sgd": engram.StochasticGradientDescent(1.0, 3, 2),
    "practical": engram.PracticalDescent(dynamics.adam(0.1), 3),
    "flow": engram.GradientFlow(np.linspace(0.0, 1.0, 3)),
    "stochastic flow": engram.StochasticGradientFlow([0.0, 1.0], 0.5, 2, time_step=0.5),
}


@pytest.mark.settings
@pytest.mark.parametrize("kind", DYNAMICS)
def test_runs_are_the_same_with_x64_off_and_on(kind):
    run = lambda: engram.simulate(PAIR, DYNAMICS[kind], record=("loss",), events=False, key=-1)
    check_same(*results(None, run))


@pytest.mark.parametrize("kind", ["sgd", "stochastic flow"])
def test_results_do_not_depend_on_the_generator_or_the_promotion_that_is_set(kind):
    def run():
        problem = engram.on_sphere(3, 4, 2, 3, targets="random")
        drawn = engram.simulate(PAIR, DYNAMICS[kind], record=("loss",), events=False, key=-1)
        return [*jax.tree.leaves(problem), drawn.loss.values, special.normals(0, (3,), np.float32)]

    usual = run()
    strict = jax.numpy_dtype_promotion("strict")
    for setting in (jax.default_prng_impl("rbg"), jax.threefry_partitionable(False), strict):
        with setting:
            check_same(run(), usual)
    jax.config.update("jax_random_seed_offset", 5)
    try:
        check_same(run(), usual)
    finally:
        jax.config.update("jax_random_seed_offset", 0)


def test_what_is_set_for_debugging_does_not_stop_a_sweep_or_a_run():
    spec = {"dynamics": {"kind": "gd", "steps": 3}, "sweep": {"observables": ["final_loss"]}}

    def run():
        axes = {"learning_rate": [0.5, 2.0]}
        swept = engram.sweep(spec, axes), engram.sweep(lambda learning_rate: learning_rate**2, axes)
        values = swept[0].final_loss.values, swept[1].value.values
        return [*values, memory.loss(PROBLEM, W), engram.simulate(PAIR, DESCENT).loss.values]

    usual = run()
    with jax.transfer_guard("disallow"):
        check_same(run(), usual)
    with jax.disable_jit():
        check_same(run()[:2], usual[:2])


def test_fast_arithmetic_is_refused(monkeypatch):
    _precision.check_backend.cache_clear()
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
    with pytest.raises(engram.InputError, match="fast_math, with which numbers are wrong"):
        engram.simulate(PAIR, DESCENT)


def test_keys_of_both_kinds_are_the_same_key():
    raw, typed = jax.random.PRNGKey(5), jax.random.key(5)
    for key in (raw, typed, 5):
        check_same(*(jax.tree.leaves(engram.on_sphere(k, 3, 2, 2)) for k in (key, 5)))


def test_a_missing_platform_is_reported_in_one_line(monkeypatch):
    def fail():
        raise AssertionError

    _precision.check_backend.cache_clear()
    monkeypatch.setattr(jax, "default_backend", fail)
    with pytest.raises(engram.InputError, match=r"`JAX_PLATFORMS` = .* names no platform"):
        engram.simulate(PAIR, DESCENT)


@pytest.mark.parametrize("name", ["grad", "predict", "margins", "sharpness", "loss_and_grad"])
def test_single_precision_stays_single_with_x64_off_and_on(name):
    off, on = results(getattr(memory, name), (PROBLEM.astype("float32"), single(W)))
    check_same(off, on)
    assert {leaf.dtype.name for leaf in off} <= {"float32", "int32"}


# One value for each argument that a formula of theory must be given, by name.
ORTHOGONAL = engram.two_tokens(0.0, 0.75)
GIVEN = {
    "exponent": 2.0,
    "problem": ORTHOGONAL, "W": single(np.eye(2)), "margins": single([1.0, 2.0]), "probs": single([0.5, 0.5]),
    "scores": single([1.0, 0.5]), "num_classes": 3, "dim": 3, "i": 0, "j": 1, "rates": single([1.0, 1.0]),
    **dict.fromkeys(("times", "time", "steps", "s", "rate"), single(1.5)), "learning_rate": single(2.0),
    **dict.fromkeys(("half_gap", "margin", "margin_1", "margin_2", "kappa"), single(0.1)),
    "half_sum": single(1.0), "correlation": single(0.5), "p1": single(0.75), "contrast": 2.0, "origin": 0.0,
    "multipliers": single([[0.0, 0.5], [0.5, 0.0]]),
    **dict.fromkeys(("reach", "max_margin_norm", "own_time", "speed"), single(1.5)), "loss": single(0.2),
    "least_prob": single(0.5),
    "tokens": single([1.0, -1.0]), "position": single(0.1), "start": single(0.1), "period": 1, "share": 1.5,
    "skip": 2, "keep": 2, "count": 1, "signals": single([0.5, 1.0]), "num_tokens": 50,
}  # fmt: skip
UNLIKE = {
    "scaling.list_parameters": {"share": 0.5},
    "binary.weights_from_margins": {"start": np.eye(2)},
    "large_steps.horizon_bound": {"steps": single(500.0)},
    "binary.expansion_constant": {"rate": 1.5, "learning_rate": 2.0},
    "binary.log_bound_failure": {"learning_rate": single(1.0)},
    "cycles.doublings": {
        "start": 1.34,
        "learning_rate": 10.5,
        "tokens": single([1.0, -8.0, -0.5]),
        "probs": single([0.679, 0.021, 0.3]),
    },
    "interference.flow_solution": {"correlation": 0.0},
    "interference.half_gap_deviation_lower_bound": {"correlation": single(-0.5)},
    "multiclass.flow_scores_from": {"times": single([1.0]), "start": single([0.1, 0.2])},
    "multiclass.one_step_threshold": {"scores": single(np.eye(2))},
    "recovery.muon_signals": {"probs": single([0.5, 0.25, 0.125, 0.125])},
}
FORMULAS = {
    f"{module.__name__.split('.')[-1]}.{name}": each
    for module in (
        theory.binary, theory.cycles, theory.interference, theory.large_steps, theory.multiclass, theory.muon,
        theory.printed, theory.recovery, theory.scaling, theory.separable, theory.spike,
    )
    for name, each in vars(module).items()
    if inspect.isfunction(each) and each.__module__ == module.__name__ and not name.startswith("_")
}  # fmt: skip


@pytest.mark.settings
@pytest.mark.parametrize("name", FORMULAS)
def test_formulas_return_the_same_numpy_values_with_x64_off_and_on(name):
    unlike = UNLIKE.get(name, {})
    arguments = {
        each.name: unlike.get(each.name, GIVEN.get(each.name))
        for each in inspect.signature(FORMULAS[name]).parameters.values()
        if each.default is inspect.Parameter.empty or each.name in unlike
    }
    check_same(*results(functools.partial(FORMULAS[name], **arguments), ()))


def test_every_public_function_has_a_row():
    for module in {*TABLE, *OTHERS}:
        public = {
            name
            for name, each in vars(module).items()
            if isinstance(each, types.FunctionType) and not name.startswith("_")
        }
        assert public == {*TABLE.get(module, ()), *OTHERS.get(module, ())}, module
