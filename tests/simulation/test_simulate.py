"""The one call: what it records, when, how it ends, and how it says no."""

import json
import subprocess
import sys

import jax
import numpy as np
import optax
import pytest
import xarray as xr

import cases
import engram
from engram import _memory_limits, memory
from engram import dynamics as D
from engram.simulation import When, _compare, _segments, _simulate, log_spaced

TWO = engram.two_tokens(0.95, 0.75)
GD = engram.GradientDescent(10.0, 34)


def test_the_dataset_is_labelled():
    names = [name for name in engram.observables.OBSERVABLES if name != "invariants"]
    run = engram.simulate(TWO, GD, record=names)
    assert run.loss.dims == ("step",)
    assert run.margins.dims == ("step", "token")
    assert run.scores.dims == ("step", "token", "class")
    assert run.weights.dims == ("step", "row", "col")
    assert run.sizes["step"] == 35
    np.testing.assert_allclose(run.time, 10.0 * run.step)
    assert run.loss.attrs["long_name"]
    assert json.loads(run.attrs["settings"]) == {"kind": "gd", "learning_rate": 10.0, "steps": 34}
    for name, variable in run.data_vars.items():
        assert variable.dtype.kind in "fi", name
    for name in engram.observables.OBSERVABLES:
        if name in run:
            assert np.isfinite(run[name].values[1:]).all(), name


@pytest.mark.parametrize("space", ["weights", "particles", "margins"])
def test_observables_agree_with_the_library(space):
    names = ("token_losses", "class_margins", "probabilities", "sharpness", "grad_norm", "weights")
    names += ("loss", "error", "margins", "scores", "weight_norm", "singular_values", "alignment")
    run = engram.simulate(TWO, GD, record=names, space=space, start=0.1 * np.ones((2, 2)))
    W = run.weights.values[17]
    for name, value in {
        "loss": memory.loss(TWO, W),
        "error": memory.error_rate(TWO, W),
        "margins": memory.margins(TWO, W),
        "scores": memory.scores(TWO, W),
        "token_losses": memory.token_losses(TWO, W),
        "class_margins": memory.class_margins(TWO, W),
        "probabilities": memory.recall_probs(TWO, W),
        "sharpness": memory.sharpness(TWO, W),
        "grad_norm": np.linalg.norm(memory.grad(TWO, W)),
        "weight_norm": np.linalg.norm(W),
        "singular_values": np.linalg.svd(W)[1],
    }.items():
        np.testing.assert_allclose(run[name].values[17], value, rtol=1e-9, atol=1e-12)
    # In closed form the max-margin direction is (u1 - u2) x (e1 - e2).
    direction = np.outer(TWO.outputs[0] - TWO.outputs[1], TWO.inputs[0] - TWO.inputs[1])
    cosine = np.vdot(W, direction) / np.linalg.norm(W) / np.linalg.norm(direction)
    assert float(run.alignment[17]) == pytest.approx(cosine, abs=1e-7)


def _events_by_hand(loss, error, margins, factor=1.1):
    """The definitions, read slowly."""
    perfect = error == 0
    first = np.argmax(perfect) if perfect.any() else np.nan
    wrong = np.flatnonzero(~perfect)
    stays = wrong[-1] + 1 if len(wrong) else 0
    spikes, lowest, open_ = [], np.inf, None
    for t, value in enumerate(loss):
        if value > factor * lowest:
            if open_ is None:
                open_ = [t, t, value / lowest, np.nan]
                spikes.append(open_)
            if value / lowest > open_[2]:
                open_[1:3] = [t, value / lowest]
        elif open_ is not None:
            open_[3] = t
            open_ = None
        lowest = min(lowest, value)
    right = margins > 0
    lost = right[:-1] & ~right[1:]
    rises = np.flatnonzero(np.diff(loss) > 0)
    return {
        "first_perfect": float(first),
        "perfect_from": float(stays) if stays < len(loss) else np.nan,
        "last_rise": float(rises[-1] + 1) if len(rises) else np.nan,
        "num_spikes": len(spikes),
        "spikes": np.array(spikes).reshape(-1, 4),
        "num_forgotten": lost.sum(axis=0),
    }


@pytest.mark.parametrize("space", ["weights", "particles", "margins"])
@pytest.mark.parametrize("rate", [1.0, 10.0, 100.0])
def test_events_are_what_their_definitions_say(rate, space):
    run = engram.simulate(TWO, engram.GradientDescent(rate, 200), space=space)
    by_hand = _events_by_hand(run.loss.values, run.error.values, run.margins.values)
    for name in ("first_perfect", "perfect_from", "last_rise", "num_spikes", "num_forgotten"):
        np.testing.assert_array_equal(run[name], by_hand[name], err_msg=name)

    found = np.stack([run.spike_start, run.spike_step, run.spike_height, run.spike_end], axis=1)
    np.testing.assert_allclose(found, by_hand["spikes"], rtol=1e-12)


def test_events_do_not_depend_on_what_is_recorded():
    every = engram.simulate(TWO, engram.GradientDescent(10.0, 500))
    sparse = engram.simulate(TWO, engram.GradientDescent(10.0, 500), points=5)
    for name in ("first_perfect", "perfect_from", "num_spikes", "num_forgotten", "spike_height"):
        np.testing.assert_array_equal(every[name], sparse[name])
    assert sparse.sizes["step"] < 10


def test_figure_2_events():
    run = engram.simulate(TWO, GD)
    assert float(run.first_perfect) == 2
    assert float(run.perfect_from) == 15
    assert int(run.spike_step[1]) == 5
    slow = engram.simulate(TWO, engram.GradientDescent(1.0, 34))
    assert np.isnan(slow.first_perfect)
    assert np.isnan(slow.perfect_from), "not reached is not the horizon"


def test_when_to_record():
    assert When().steps(5).tolist() == [0, 1, 2, 3, 4, 5]
    assert When(every=4).steps(10).tolist() == [0, 4, 8, 10]
    assert When([2, 7]).steps(10).tolist() == [2, 7]
    log = log_spaced(10**7, 200)
    assert (log[0], log[-1]) == (0, 10**7)
    assert 150 < len(log) <= 202
    for at in ([3, 2], [-1, 2], [0, 11], [], [0.5]):
        with pytest.raises(ValueError, match="`at` must"):
            When(at).steps(10)
    with pytest.raises(ValueError, match="exclude each other"):
        When([1], 2)
    short = engram.simulate(TWO, GD, every=4)
    assert engram.simulate(TWO, GD, when=When(every=4)).identical(short)
    with pytest.raises(ValueError, match="Give `when` alone"):
        engram.simulate(TWO, GD, when=When(every=4), points=5)


def test_variables_come_in_the_order_asked_for():
    flow = engram.GradientFlow([0.0, 1.0])
    for dynamics, names in (
        (GD, ("margins", "loss", "error")),
        (flow, ("error", "margins", "loss")),
    ):
        run = engram.simulate(TWO, dynamics, record=names, events=False)
        assert tuple(run.data_vars)[:3] == names


def test_sparse_records_are_those_of_the_full_path():
    full = engram.simulate(TWO, engram.GradientDescent(3.0, 300))
    for options in ({"every": 7}, {"points": 20}, {"at": [0, 8, 9, 63, 64, 65, 300]}):
        part = engram.simulate(TWO, engram.GradientDescent(3.0, 300), **options)
        np.testing.assert_array_equal(part.loss, full.loss.sel(step=part.step))


@pytest.mark.slow
def test_ten_million_steps_fit_in_a_gibibyte():
    code = (
        "import engram\n"
        "from engram.bench import peak_bytes\n"
        "run = engram.simulate(engram.two_tokens(.5, .7), engram.GradientDescent(1., 10**7), points=200)\n"
        "assert run.sizes['step'] > 150 and run.status == 'completed'\n"
        "print(peak_bytes() / 2**30)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert float(done.stdout) < 1.0


def test_more_steps_than_fit_into_memory_are_compared_or_refused():
    """A constant rate needs no table of all steps; a schedule, and a batch, do."""
    slow = engram.GradientDescent(1e-300, 10**12)
    assert _compare._nearest(slow, np.array([0.0, 1e-300, 2.4e-300, 1e-288])).tolist() == [
        0,
        1,
        2,
        10**12,
    ]
    uneven = engram.GradientDescent([1.0, 3.0, 0.0, 2.0], 4)  # at 0, 1, 4, 4 and 6
    assert _compare._nearest(uneven, np.array([0.4, 0.6, 2.6, 4.9, 5.1, 6.0])).tolist() == [
        0,
        1,
        2,
        3,
        4,
        4,
    ]
    with pytest.raises(engram.InputError, match="`steps`.*1000000000000"):
        engram.GradientDescent(D.warmup(1.0, 10), 10**12)
    with pytest.raises(engram.InputError, match="`batch_size`.*1000000000000"):
        engram.StochasticGradientDescent(1.0, 2, 10**12)


def test_runs_that_do_not_fit_into_memory_are_refused(monkeypatch):
    monkeypatch.setattr(_memory_limits, "_memory", lambda: 2**20)
    monkeypatch.setattr(_segments, "_LARGE", 0)
    with pytest.raises(
        engram.InputError, match=r"`records` = 100001 would.*leave 'margins' out of `record`"
    ):
        engram.simulate(TWO, engram.GradientDescent(10.0, 100_000), every=1)
    many = engram.Problem(np.ones((1000, 1)), np.eye(2), np.full(1000, 1e-3), np.zeros(1000, int))
    with pytest.raises(engram.InputError, match=r"`num_tokens` = 1000.* would need about 0 GiB"):
        engram.simulate(many, engram.GradientDescent(10.0, 1), space="particles")


def test_a_run_stops_at_the_first_step_below_its_bound():
    run = engram.simulate(TWO, engram.GradientDescent(10.0, 1000), stop="perfect")
    assert run.attrs["status"] == "stopped"
    assert run.attrs["stopped_at"] == 2
    assert run.sizes["step"] == 3
    assert float(run.perfect_from) == 2, "the last step counts"
    run = engram.simulate(TWO, engram.GradientDescent(10.0, 1000), stop={"loss": 0.1})
    assert run.loss.values[-1] <= 0.1 < run.loss.values[:-1].min()
    same = engram.simulate(TWO, engram.GradientDescent(10.0, 1000), stop=0.1)
    xr.testing.assert_identical(same, run)
    with pytest.raises(ValueError, match=r"`stop` must be 'perfect', a loss, or a bound"):
        engram.simulate(TWO, GD, stop={"margins": 1.0})


def test_a_nonfinite_run_reports_its_step():
    problem = engram.Problem([[1e200, 0.0]], np.eye(2), [1.0], [0])
    run = engram.simulate(problem, engram.GradientDescent(1e200, 20), space="weights")
    assert run.attrs["status"] == "not finite"
    assert run.attrs["stopped_at"] == 0
    assert np.isfinite(run.final_weights).all()
    assert run.sizes["step"] == 1


def test_changing_only_numbers_does_not_recompile():
    options = {"record": ("loss", "weight_norm"), "space": "weights"}
    compiled = []
    listener = lambda event, duration, **_: compiled.append(event)
    jax.monitoring.register_event_duration_secs_listener(listener)
    count = lambda: sum("backend_compile" in event for event in compiled)
    try:
        engram.simulate(TWO, engram.GradientDescent(1.0, 50), **options)
        assert count() > 0  # so this does see what is compiled
        compiled.clear()
        other, start = engram.two_tokens(-0.3, 0.6), np.ones((2, 2))
        engram.simulate(other, engram.GradientDescent(7.0, 50), start=start, **options)
        assert count() == 0
    finally:
        jax.monitoring.clear_event_listeners()


@pytest.mark.usefixtures("x64")
def test_runs_can_be_mapped():
    import jax.numpy as jnp

    def final_loss(correlation, rate):
        problem = engram.two_tokens(correlation, 0.75)
        system = memory.MemorySystem(problem)
        path = D.run(
            system,
            D.GradientDescent(rate, 30),
            jnp.zeros((2, 2)),
            at=jnp.asarray([0, 15, 30]),
            record=lambda system, dynamics, carry: system.loss(dynamics.state_of(carry.inner)),
        )
        return path.records

    alphas, rates = jnp.array([-0.5, 0.5, 0.95]), jnp.array([1.0, 10.0])
    grid = jax.jit(jax.vmap(jax.vmap(final_loss, (None, 0)), (0, None)))(alphas, rates)
    for i, alpha in enumerate(alphas):
        for j, rate in enumerate(rates):
            run = engram.simulate(
                engram.two_tokens(float(alpha), 0.75),
                engram.GradientDescent(float(rate), 30),
                at=[0, 15, 30],
            )
            np.testing.assert_allclose(grid[i, j], run.loss, rtol=1e-9)


def test_optimizers_by_name_run_and_are_refused_in_particles_when_they_must():
    problem = cases.PROBLEMS["sphere, d > N"]
    for make in (D.adam, D.adamw, D.rmsprop, D.sign, D.muon):
        dynamics = engram.PracticalDescent(make(0.01), 30)
        names = ("loss", "stability_gap") if make is D.adam else ("loss",)
        run = engram.simulate(problem, dynamics, record=names, events=False)
        assert run.loss[-1] < run.loss[0]
        with pytest.raises(
            ValueError, match=r"'particles' is impossible here.*acts on the entries"
        ):
            engram.simulate(problem, dynamics, space="particles")
    lion = engram.PracticalDescent(optax.lion(0.01), 30)
    run = engram.simulate(problem, lion, record=("loss",), events=False)
    assert run.loss[-1] < run.loss[0]
    momentum, normed = (
        engram.PracticalDescent(D.momentum(0.1), 30),
        {"kind": "memory", "layer_norm": True},
    )
    run = engram.simulate(problem, momentum, system=normed, start=np.eye(problem.dim))
    assert run.loss[-1] < run.loss[0]
    with pytest.raises(
        ValueError, match="`space` belongs to a Problem, got 'particles' with a system"
    ):
        engram.simulate(problem, momentum, system=normed, space="particles")
    with pytest.raises(ValueError, match=r"W e_x = 0 for token 0.*small random"):
        engram.simulate(problem, momentum, system=normed)


def test_named_optimizers_are_optax_ones():
    problem = cases.PROBLEMS["sphere, d > N"]
    pairs = [
        (D.adam(0.02), optax.adam(0.02)),
        (D.momentum(0.1, 0.8), optax.sgd(0.1, 0.8)),
        (D.nesterov(0.1, 0.8), optax.sgd(0.1, 0.8, nesterov=True)),
        (D.sign(0.02), optax.sign_sgd(0.02)),
        (D.rmsprop(0.02), optax.rmsprop(0.02)),
    ]
    for ours, theirs in pairs:

        @jax.jit
        def step(_, carry, theirs=theirs):
            W, state = carry
            moves, state = theirs.update(memory.grad(problem, W), state, W)
            return optax.apply_updates(W, moves), state

        with jax.enable_x64(True):
            W = jax.numpy.zeros((8, 8))
            W, _ = jax.lax.fori_loop(0, 20, step, (W, theirs.init(W)))
        dynamics = engram.PracticalDescent(ours, 20)
        run = engram.simulate(problem, dynamics, record=("loss",), events=False)
        np.testing.assert_allclose(run.final_weights, W, atol=1e-12)


def test_stability_thresholds():
    quadratic = engram.simulate(
        TWO,
        engram.PracticalDescent(D.momentum(0.5, 0.8), 5),
        record=("stability_gap", "sharpness"),
    )
    np.testing.assert_allclose(
        quadratic.stability_gap, 2 * 1.8 / 0.5 - quadratic.sharpness, rtol=1e-10
    )
    plain = engram.simulate(TWO, GD, record=("stability_gap", "sharpness"))
    np.testing.assert_allclose(plain.stability_gap, 0.2 - plain.sharpness, atol=1e-10)


def test_comparing_aligns_in_time():
    found = engram.compare(
        TWO,
        {
            "fast": engram.GradientDescent(1.0, 40),
            "slow": engram.GradientDescent(0.01, 4000),
            "flow": engram.GradientFlow([40.0]),
            "short": engram.GradientDescent(1.0, 10),
        },
        num=9,
    )
    assert found.loss.dims == ("dynamics", "time")
    np.testing.assert_allclose(found.time, np.linspace(0, 40, 9))
    gap = np.abs(found.loss.sel(dynamics="slow") - found.loss.sel(dynamics="flow")).max()
    assert gap < 5e-3  # first order in eta = 0.01
    assert np.isnan(found.loss.sel(dynamics="short").values[-1])
    assert found.run_time.sel(dynamics="fast").values.tolist() == found.time.values.tolist()
    noisy = engram.compare(
        TWO,
        {"sgf": engram.StochasticGradientFlow([4.0], 0.5, 4), "gd": engram.GradientDescent(1.0, 4)},
        num=5,
        key=0,
    )
    assert np.isfinite(noisy.loss).all()
    with pytest.raises(ValueError, match="must be a dictionary"):
        engram.compare(TWO, [GD])  # pyright: ignore


REFUSED = {
    "no dynamics": (lambda: engram.simulate(TWO, "gd"), "`dynamics` must be one of engram's"),
    "no key": (
        lambda: engram.simulate(TWO, engram.StochasticGradientDescent(1.0, 5, 2)),
        "draws random numbers: pass `key`",
    ),
    "start": (lambda: engram.simulate(TWO, GD, start=np.zeros(3)), r"`start` must be the weights"),
    "nan": (lambda: engram.simulate(TWO, GD, start=[[np.nan, 0], [0, 0]]), "`start` must be finite"),
    "record": (lambda: engram.simulate(TWO, GD, record=("los",)), "'loss'.*got 'los'. Did you mean 'loss'"),
    "space": (lambda: engram.simulate(TWO, GD, space="here"), "`space` must be one of 'auto'"),
    "steps of a flow": (
        lambda: engram.simulate(TWO, engram.GradientFlow([1.0]), every=2),
        "a flow has none",
    ),
    "rate": (lambda: engram.GradientDescent(-1.0, 5), "`learning_rate` must be finite and not neg"),
    "nan rate": (lambda: engram.GradientDescent(float("nan"), 5), "must be finite"),
    "rates": (lambda: engram.GradientDescent([1.0, 2.0], 5), r"got shape \(2,\) for 5 steps"),
    "negative steps": (lambda: engram.GradientDescent(1.0, -5), "`steps` must be at least 0"),
    "batch": (lambda: engram.StochasticGradientDescent(1.0, 5, 0), "`batch_size` must be at least 1"),
    "batches": (
        lambda: engram.StochasticGradientDescent(1.0, 5, 2, batches=[[0, 1]]),
        r"\(steps, batch_size\) = \(5, 2\), got",
    ),
    "foreign batches": (
        lambda: engram.simulate(TWO, engram.StochasticGradientDescent(1.0, 1, 2, batches=[[0, 7]])),
        r"samples of the problem, 0..1, got 7",
    ),
    "foreign noise": (
        lambda: engram.simulate(
            TWO,
            engram.StochasticGradientFlow([1.0], 1.0, 1, time_step=1.0, brownian=np.ones((1, 3))),
        ),
        r"the shape of the law, \(2,\), got \(3,\)",
    ),
    "optimizer rate": (lambda: D.adam(-1.0), "`learning_rate` of adam must not be negative"),
    "times": (lambda: engram.GradientFlow([2.0, 1.0]), "`times` must increase"),
    "noise": (lambda: engram.StochasticGradientFlow([1.0]), "must be given, got neither"),
    "half": (lambda: engram.StochasticGradientFlow([1.0], 0.1), "go together, got one"),
    "optimizer": (lambda: engram.PracticalDescent("adam", 5), r"Try `engram.dynamics.adam"),
    "not separable": (
        lambda: engram.simulate(
            cases.PROBLEMS["not separable"], GD, record=("alignment",)
        ),
        "`problem` must be separable",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_invalid_arguments_are_refused(case):
    call, message = REFUSED[case]
    with pytest.raises(engram.InputError, match=message):
        call()


def test_interrupting_keeps_what_was_recorded():
    def interrupt(done, total):
        if done > 100:
            raise KeyboardInterrupt

    with pytest.raises(_simulate.Interrupted) as caught:
        engram.simulate(TWO, engram.GradientDescent(1.0, 5000), progress=interrupt)
    partial = caught.value.partial
    assert isinstance(partial, xr.Dataset)
    assert partial.attrs["status"] == "interrupted"
    assert 100 < partial.sizes["step"] < 5000
    whole = engram.simulate(TWO, engram.GradientDescent(1.0, 5000))
    np.testing.assert_array_equal(partial.loss, whole.loss[: partial.sizes["step"]])


def test_the_last_state_of_a_run_is_recorded():
    run = engram.simulate(TWO, engram.GradientDescent(10.0, 2), stop="perfect")
    assert run.attrs["status"] == "stopped", "met at the very last step"
    run = engram.simulate(TWO, engram.GradientDescent(10.0, 1000), stop={"loss": 0.1}, every=100)
    assert run.step.values.tolist() == [0, run.attrs["stopped_at"]]
    assert run.loss.values[-1] <= 0.1


def test_a_run_completes_whatever_is_recorded():
    run = engram.simulate(TWO, engram.GradientDescent(10.0, 34), at=[0, 10])
    whole = engram.simulate(TWO, engram.GradientDescent(10.0, 34))
    assert run.step.values.tolist() == [0, 10]
    assert run.attrs["stopped_at"] == 34
    np.testing.assert_array_equal(run.final_weights, whole.final_weights)
    np.testing.assert_array_equal(run.perfect_from, whole.perfect_from)


def test_runs_of_zero_steps_have_one_record():
    schedule = engram.GradientDescent(optax.constant_schedule(1.0), 0)
    assert engram.simulate(TWO, schedule, record=("loss", "stability_gap")).sizes["step"] == 1
    still = engram.StochasticGradientFlow([0.0], 0.1, 2)
    assert engram.simulate(TWO, still, key=0).sizes["time"] == 1


def test_normalised_descent_with_decay_needs_weights():
    dynamics = engram.PracticalDescent(D.normalised(0.3), 5, weight_decay=0.1)
    start = np.random.default_rng(0).standard_normal((2, 2))
    run = engram.simulate(TWO, dynamics, start=start)
    assert run.attrs["space"] == "weights"
    with pytest.raises(ValueError, match="depends on all of W"):
        engram.simulate(TWO, dynamics, space="margins")


def test_comparing_what_ends_early_gives_nan():
    found = engram.compare(
        TWO,
        {"long": engram.GradientDescent(1.0, 10), "short": engram.GradientDescent(0.1, 10)},
        times=[5.0, 8.0],
    )
    assert np.isfinite(found.loss.sel(dynamics="long")).all()
    assert np.isnan(found.loss.sel(dynamics="short")).all()


def test_stochastic_flow_is_labelled_with_the_times_asked_for():
    times = np.linspace(0, 1, 11)
    run = engram.simulate(TWO, engram.StochasticGradientFlow(times, 0.5, 4), key=0)
    np.testing.assert_array_equal(run.time, times)
    with pytest.raises(ValueError, match="more than 50 million"):
        engram.StochasticGradientFlow([1e25], 0.1, 2)
    with pytest.raises(ValueError, match="`noise_scale` must not be negative"):
        engram.StochasticGradientFlow([1.0], noise_scale=-1.0)


def test_adam_has_no_stability_gap_before_its_first_step():
    run = engram.simulate(TWO, engram.PracticalDescent(D.adam(0.1), 3), record=("stability_gap",))
    assert np.isnan(run.stability_gap[0])
    assert np.isfinite(run.stability_gap[1:]).all()


def test_a_problem_in_single_precision_is_run_in_double():
    problem = engram.two_tokens(0.3, 0.6)
    descent = engram.GradientDescent(1.0, 50)
    single = engram.simulate(problem.astype("float32"), descent)
    assert single.loss.dtype == np.float64
    # Frequencies and embeddings are rounded to 2^-24; fifty steps of a convex loss amplify no error.
    np.testing.assert_allclose(single.loss, engram.simulate(problem, descent).loss, rtol=1e-6)


def test_arrays_are_those_of_the_dataset():
    problem, descent = engram.two_tokens(0.3, 0.6), engram.GradientDescent(9.0, 70)
    plain = engram.simulation.simulate_arrays(problem, descent)
    run = engram.simulate(problem, descent)
    assert plain.attrs.items() <= run.attrs.items()
    arrays = plain.arrays()
    assert set(arrays) == set(run.variables)
    for name, values in arrays.items():
        np.testing.assert_array_equal(values, run[name].values)


def test_a_flow_uses_the_spike_factor_and_stops_at_a_time():
    problem = engram.two_tokens(0.95, 0.75)
    times = np.linspace(0.0, 3.0, 31)
    flow = engram.StochasticGradientFlow(times, learning_rate=1.0, batch_size=1, time_step=0.1)
    noisy = engram.simulate(problem, flow, key=0, record=("loss",))
    assert noisy.attrs["stopped_at"] == pytest.approx(3.0)
    # Uphill from a recorded minimum there is none, so any loss is a spike of factor zero.
    smooth = engram.GradientFlow(times)
    assert int(engram.simulate(problem, smooth).num_spikes) == 0
    assert int(engram.simulate(problem, smooth, spike_factor=0.5).num_spikes) == 1
