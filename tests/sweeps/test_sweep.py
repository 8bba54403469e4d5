"""Sweeps: every cell is the run it stands for, whatever the chunks, the order or the restarts."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import engram
from engram import sweeps
from engram._checks import InputError
from engram.dynamics import AbstractFold
from engram.memory import MemorySystem
from engram.particles import MarginSystem
from engram.registry import Entry, Field, entries
from engram.sweeps._outcomes import CLASSES, TAIL, endings, glance
from engram.sweeps._store import Store

TWO = {
    "problem": {"family": "two"},
    "dynamics": {"kind": "gd", "steps": 150},
    "axes": {
        "p1": [0.6, 0.9],
        "correlation": {"linspace": [0.5, 1.0, 5]},
        "learning_rate": {"logspace": [-1, 1.3, 7]},
    },
    "sweep": {"observables": ["first_perfect"]},
}
EVERYTHING = [
    "first_perfect", "perfect_from", "final_loss", "final_error", "final_margins", "likeliest_margin",
    "max_loss", "spike_height", "num_spikes", "num_peaks", "last_rise", "first_learnt", "num_forgotten",
]  # fmt: skip


def spec(base=TWO, **tables):
    return {**base, **{name: {**base.get(name, {}), **table} for name, table in tables.items()}}


def test_every_observable_is_that_of_the_run():
    found = engram.sweep(spec(sweep={"observables": EVERYTHING}))
    assert found.first_perfect.dims == ("p1", "correlation", "learning_rate")
    for p1, alpha, rate in ((0, 3, 5), (1, 1, 6), (0, 4, 2), (1, 3, 6)):
        here = found.isel(p1=p1, correlation=alpha, learning_rate=rate)
        run = engram.simulate(
            engram.two_tokens(float(here.correlation), float(here.p1)),
            engram.GradientDescent(float(here.learning_rate), 150),
            space="margins",
        )
        np.testing.assert_equal(float(here.first_perfect), float(run.first_perfect))
        np.testing.assert_equal(float(here.perfect_from), float(run.perfect_from))
        np.testing.assert_equal(float(here.last_rise), float(run.last_rise))
        assert float(here.num_spikes) == int(run.num_spikes)
        assert float(here.num_peaks) == int(run.num_peaks)
        for name in ("first_learnt", "num_forgotten"):
            np.testing.assert_array_equal(here[name], run[name])
        np.testing.assert_allclose(here.final_loss, run.loss[-1], rtol=1e-12)
        np.testing.assert_allclose(here.final_margins, run.margins[-1], rtol=1e-12)
        assert float(here.final_error) == float(run.error[-1])
        np.testing.assert_allclose(here.max_loss, run.loss.max(), rtol=1e-12)
        if int(run.num_spikes):
            np.testing.assert_allclose(here.spike_height, run.highest_spike, rtol=1e-12)


class Longest(AbstractFold):
    """The largest margin that any step has seen, and when: `init` and `update` are enough."""

    def init(self, system, state):
        return {"most": -jnp.inf * jnp.ones(()), "when": jnp.zeros((), int)}

    def update(self, folded, index, moment):
        most = moment.look.margins.max()
        grows = most > folded["most"]
        return {
            "most": jnp.where(grows, most, folded["most"]),
            "when": jnp.where(grows, index, folded["when"]),
        }


def test_an_event_of_ones_own_is_swept_by_name_and_in_a_function(monkeypatch):
    monkeypatch.setitem(entries("event"), "longest", Entry("event", "longest", Longest))
    names = ["first_perfect", "longest"]
    found = engram.sweep(spec(sweep={"observables": names}))
    assert set(found.data_vars) == {"first_perfect", "most", "when"}
    here = found.isel(p1=1, correlation=2, learning_rate=5)
    alpha, p1, rate = (float(here[name]) for name in ("correlation", "p1", "learning_rate"))
    descent = engram.GradientDescent(rate, 150)
    run = engram.simulate(engram.two_tokens(alpha, p1), descent, events=["longest", True])
    np.testing.assert_allclose(here.most, run.most, rtol=1e-12)
    assert int(here.when) == int(run.when)

    def longest(learning_rate):
        system = MarginSystem(engram.two_tokens(alpha, p1))
        descent = engram.GradientDescent(learning_rate, 150)
        note = lambda system, dynamics, carry: ()
        path = engram.dynamics.run(
            system, descent, system.start(), at=[150], record=note, fold=Longest()
        )
        return path.folded

    alone = engram.sweep(longest, {"learning_rate": found.learning_rate.values})
    np.testing.assert_array_equal(alone.when, found.when.isel(p1=1, correlation=2))


class Above(AbstractFold):
    """How many steps have a loss above a level."""

    level: float = 1.0

    def init(self, system, state):
        return {"num_above": jnp.zeros((), int)}

    def update(self, folded, index, moment):
        return {"num_above": folded["num_above"] + (moment.look.loss > self.level)}


def test_the_optimizer_and_fields_of_events_are_axes(monkeypatch):
    fields = {"level": Field(type=float, default=1.0)}
    monkeypatch.setitem(entries("event"), "above", Entry("event", "above", Above, fields))
    tables = {
        "problem": {"family": "two", "correlation": 0.95, "p1": 0.75},
        "dynamics": {"kind": "descent", "learning_rate": 5.0, "steps": 40},
        "sweep": {"observables": ["num_spikes", "final_loss", "above"]},
    }
    axes = {"optimizer": ["plain", "sign"], "spike_factor": [1.01, 1.6, 3.0], "level": [0.5, 1.0]}
    found = engram.sweep(tables, axes)
    assert found.optimizer.values.tolist() == ["plain", "sign"]
    problem = engram.two_tokens(0.95, 0.75)
    for optimizer in axes["optimizer"]:
        for factor in axes["spike_factor"]:
            descent = tables["dynamics"] | {"optimizer": optimizer}
            run = engram.simulate(problem, descent, spike_factor=factor)
            here = found.sel(optimizer=optimizer, spike_factor=factor)
            np.testing.assert_array_equal(here.num_spikes, int(run.num_spikes))
            np.testing.assert_allclose(here.final_loss, float(run.loss[-1]), rtol=1e-9)
            counts = [int((run.loss > level).sum()) for level in axes["level"]]
            assert here.num_above.values.tolist() == counts
    assert len(np.unique(found.num_spikes)) > 2
    with pytest.raises(InputError, match="(?s)at optimizer = sine:.*Did you mean 'sign'"):
        engram.sweep(tables, axes | {"optimizer": ["plain", "sine"]})


def test_each_optimizer_of_an_axis_has_its_own_fields_and_defaults():
    tables = {
        "problem": {"family": "two", "correlation": 0.95, "p1": 0.75},
        "dynamics": {"kind": "descent", "steps": 20},
        "sweep": {"observables": ["final_loss"]},
    }
    names = ["adam", "adamw", "nesterov", "muon", "plain"]  # muon has a momentum of its own
    axes = {"optimizer": names, "learning_rate": [0.5, 2.0]}
    swept = engram.sweep(tables, axes).final_loss
    for name in names:
        for rate in axes["learning_rate"]:
            descent = tables["dynamics"] | {"optimizer": name, "learning_rate": rate}
            run = engram.simulate(engram.two_tokens(0.95, 0.75), descent, events=False)
            here = float(swept.sel(optimizer=name, learning_rate=rate))
            np.testing.assert_allclose(here, float(run.loss[-1]), rtol=1e-9)


def test_the_averages_of_adam_are_axes_and_observables_are_tables(tmp_path):
    tables = {
        "problem": {"family": "two", "correlation": 0.5, "p1": 0.75},
        "dynamics": {"kind": "adam", "learning_rate": 0.2, "steps": 25},
        "sweep": {"observables": ["final_loss", {"kind": "events", "parts": ["tokens"]}]},
    }
    axes = {"b1": [0.5, 0.9], "b2": [0.9, 0.999]}
    found = engram.sweep(tables, axes, store=tmp_path / "s.zarr")
    for b1, b2 in ((0.5, 0.999), (0.9, 0.9)):
        descent = tables["dynamics"] | {"b1": b1, "b2": b2}
        run = engram.simulate(engram.two_tokens(0.5, 0.75), descent)
        here = found.sel(b1=b1, b2=b2)
        np.testing.assert_allclose(here.final_loss, run.loss[-1], rtol=1e-9)
        np.testing.assert_array_equal(here.first_learnt, run.first_learnt)
    assert "max_loss" not in found
    assert "computed 0 units" in engram.sweep(tables, axes, store=tmp_path / "s.zarr").summary
    tables["sweep"]["observables"][1] |= {"part": []}
    with pytest.raises(InputError, match=r"sweep.observables.part: no such field.*mean 'parts'"):
        engram.sweep(tables, axes)


def test_a_sweep_shows_itself_on_one_screen():
    found = engram.sweep(spec(axes={"learning_rate": {"linspace": [0.1, 9, 400]}}))
    assert max(len(str(value)) for value in found.attrs.values()) < 300
    assert len(found.attrs) <= 6
    assert sweeps.boundary(found, "one_step").wrong[1] == 2 * 5 * 400


def test_compaction_changes_no_bit_and_costs_less():
    # Asking for more than the first hit runs every cell to its end.
    fine = {"learning_rate": {"logspace": [-1, 1.3, 300]}}
    alone = engram.sweep(spec(axes=fine))
    both = {"observables": ["first_perfect", "final_error"]}
    whole = engram.sweep(spec(axes=fine, sweep=both))
    np.testing.assert_array_equal(alone.first_perfect, whole.first_perfect)
    assert whole.first_perfect.isnull().any()  # alpha = 1: never
    assert (whole.first_perfect > 32).any()  # some beyond the first burst


@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_chunks_and_threads_do_not_matter(chunk):
    whole = engram.sweep(TWO)
    parts = engram.sweep(spec(sweep={"observables": ["first_perfect"], "chunk": chunk}), threads=3)
    np.testing.assert_array_equal(whole.first_perfect, parts.first_perfect)


SPHERE = {
    "problem": {"family": "sphere", "num_classes": 3, "dim": 2},
    "dynamics": {"kind": "sgd", "steps": 40, "batch_size": 2, "learning_rate": 2.0},
    "axes": {"num_tokens": [3, 5], "seed": {"seeds": 6}},
    "run": {"start_scale": 0.5},
    "sweep": {"observables": ["final_loss", "likeliest_forgotten"]},
}


def test_random_cells_do_not_depend_on_their_neighbours(tmp_path):
    whole = engram.sweep(SPHERE)
    again = engram.sweep(spec(SPHERE, sweep={**SPHERE["sweep"], "chunk": 4}), threads=1)
    np.testing.assert_array_equal(whole.final_loss, again.final_loss)
    assert len(np.unique(whole.final_loss)) == whole.final_loss.size  # each has its own noise


def test_a_seed_is_the_problem_of_that_seed():
    table = {"kind": "gd", "steps": 30, "learning_rate": 3.0}
    found = engram.sweep(
        {"problem": {"family": "sphere", "num_tokens": 5, "num_classes": 3, "dim": 4}, "dynamics": table,
         "axes": {"seed": [4, 9]}, "sweep": {"observables": ["final_loss"]}}
    )  # fmt: skip
    for seed in (4, 9):
        run = engram.simulate(
            engram.on_sphere(seed, 5, 3, 4), engram.GradientDescent(3.0, 30), record=("loss",)
        )
        np.testing.assert_allclose(found.final_loss.sel(seed=seed), run.loss[-1], rtol=1e-12)


def test_layer_norm_is_that_of_the_run():
    tables = {
        "problem": {"family": "sphere", "num_tokens": 4, "num_classes": 3, "dim": 3, "seed": 5},
        "dynamics": {"kind": "momentum", "steps": 20, "layer_norm": True},
        "axes": {"learning_rate": [0.5]},
        "sweep": {"observables": ["final_loss", "final_margins"]},
    }
    with pytest.raises(InputError, match="start_scale"):
        engram.sweep(tables)
    found = engram.sweep({**tables, "run": {"start_scale": 1.0}})
    with jax.enable_x64(True):
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(0), 0), 1)
        W = np.asarray(jax.random.normal(key, (3, 3), float)) / np.sqrt(3.0)
    descent = engram.PracticalDescent(engram.dynamics.momentum(0.5), 20)
    system = engram.memory.MemorySystem(engram.on_sphere(5, 4, 3, 3), layer_norm=True)
    run = engram.simulate(system, descent, start=W, events=False)
    np.testing.assert_allclose(found.final_loss[0], run.loss[-1], rtol=1e-11)
    np.testing.assert_allclose(found.final_margins[0], run.margins[-1], rtol=1e-10)


def test_how_runs_end():
    """A separable pair grows; three tokens in the plane settle, cycle or wander."""
    observables = ["convergence", "period", "tail_loss"]
    pair = engram.sweep(
        {"problem": {"family": "two", "p1": 0.75, "correlation": 0.5},
         "dynamics": {"kind": "gd", "steps": 600},
         "axes": {"learning_rate": [1.0, 5.0]}, "sweep": {"observables": observables}}
    )  # fmt: skip
    assert pair.convergence.values.tolist() == [2, 2]
    assert np.isnan(pair.period).all()
    found = engram.sweep(
        {"problem": {"family": "sphere", "num_tokens": 6, "num_classes": 2, "dim": 2, "seed": 2},
         "dynamics": {"kind": "gd", "steps": 6000}, "axes": {"learning_rate": {"linspace": [1.0, 60.0, 40]}},
         "sweep": {"observables": observables}}
    )  # fmt: skip
    problem = engram.on_sphere(2, 6, 2, 2)
    best = engram.capacity.loss_minimiser(problem)
    assert best.exists
    threshold = 2 / float(engram.memory.sharpness(problem, best.weights))
    stable = found.learning_rate.values < 0.8 * threshold
    assert 3 < stable.sum() < 37
    assert (found.convergence.values[stable] == 0).all()
    assert (found.period.values[stable] == 1).all()
    unstable = found.learning_rate.values > 1.05 * threshold
    assert (found.convergence.values[unstable] != 0).all()
    cycles = found.isel(learning_rate=found.convergence.values == 1)
    assert cycles.sizes["learning_rate"] > 0
    for index in range(cycles.sizes["learning_rate"]):
        tail, k = cycles.tail_loss.values[index], int(cycles.period[index])
        np.testing.assert_allclose(tail[k:], tail[:-k], rtol=1e-6)
        assert np.ptp(tail) > 1e-6


def test_with_layer_norm_runs_end_by_their_directions():
    """W and 7 W recall alike: a run whose norm alone changes is settled, one that turns is not."""
    problem = engram.two_tokens(0.5, 0.6)
    times = np.arange(2 * TAIL + 1.0)[:, None, None]
    away = np.array([[0.0, 0.2], [0.4, 0.0]])
    # Rows are W e_x: towards the token's own class, and away from the other.
    W, turned, turning = (
        np.linalg.solve(problem.inputs, np.eye(2) - factor * away).mT
        for factor in (1.0, 2.0, 1 + times / 200)
    )
    longer = 1.01**times
    paths = np.stack([longer * W, longer * np.where(times % 2, W, turned), turning])

    @jax.jit
    def ended(paths):
        def one(path, layer_norm):
            system = MemorySystem(problem, layer_norm=layer_norm)
            tail = jax.vmap(lambda W: glance(system, W))(path)
            wanted = frozenset({"convergence", "period"})
            return endings(system, path[-1], tail, wanted)

        by_norm = jax.vmap(lambda path: one(path, True))(paths)
        return by_norm, one(paths[0], False)

    with jax.enable_x64(True):
        by_norm, plain = jax.device_get(ended(paths))
    assert [CLASSES[k] for k in by_norm["convergence"]] == ["fixed point", "cycle", "growing"]
    np.testing.assert_equal(by_norm["period"], [1, 2, np.nan])
    assert CLASSES[int(plain["convergence"])] == "growing"


def test_a_function_of_your_own(tmp_path):
    def height(x, y, key):
        import jax

        return {"height": jnp.sin(x) * y, "noise": jax.random.normal(key, (3,))}

    axes = {"x": np.linspace(0, 1, 5), "y": [1, 2, 3]}
    found = engram.sweep(height, axes, chunk=4)
    np.testing.assert_allclose(found.height, np.sin(found.x) * found.y, rtol=1e-14)
    assert found.noise.dims == ("x", "y", "noise_0")
    assert len(np.unique(found.noise)) == 45
    other = engram.sweep(height, axes, seed=1)
    assert (other.noise != found.noise).all()
    again = engram.sweep(height, axes, chunk=5, store=tmp_path / "own.zarr")
    np.testing.assert_array_equal(found.noise, again.noise)
    with pytest.raises(InputError, match="source"):
        engram.sweep(
            lambda x, y, key: {"height": x, "noise": y}, axes, chunk=5, store=tmp_path / "own.zarr"
        )


def test_a_store_resumes_and_holds_the_same_bits(tmp_path):
    chunked = spec(sweep={"observables": ["first_perfect"], "chunk": 14})
    whole = engram.sweep(chunked)
    plan = sweeps.make_plan(chunked, None)
    store = Store.open(tmp_path / "s.zarr", plan)
    assert len(plan.units()) == 6
    for unit in plan.units()[1:4]:
        store.begin(unit)
        store.write(unit, plan.compute(unit))
    store.begin(plan.units()[0])  # begun and killed
    reports = []
    found = engram.sweep(
        chunked, store=tmp_path / "s.zarr", progress=lambda *both: reports.append(both)
    )
    assert "computed 3 units, reused 3" in found.attrs["summary"]
    assert reports[-1] == (70, 70)
    np.testing.assert_array_equal(found.first_perfect, whole.first_perfect)
    with xr.open_zarr(tmp_path / "s.zarr", consolidated=False, chunks=None) as raw:
        assert raw.attempts.values.ravel().tolist() == [2, 1, 1, 1, 1, 1]
        assert (raw.done.values == 1).all()
        assert json.loads(raw.attrs["spec"])["axes"]["p1"] == [0.6, 0.9]
    assert (
        "computed 0 units, reused 6"
        in engram.sweep(chunked, store=tmp_path / "s.zarr").attrs["summary"]
    )


def test_a_chunk_of_nothing_reached_is_done(tmp_path):
    never = spec(axes={"correlation": [1.0]}, sweep={"observables": ["first_perfect"], "chunk": 7})
    engram.sweep(never, store=tmp_path / "n.zarr")
    assert (
        "computed 0 units, reused 2"
        in engram.sweep(never, store=tmp_path / "n.zarr").attrs["summary"]
    )
    chunks = [
        path for path in (tmp_path / "n.zarr" / "first_perfect" / "c").rglob("*") if path.is_file()
    ]
    assert len(chunks) == 2  # NaN is a result, and has its file


def test_another_spec_is_refused_with_what_changed(tmp_path):
    engram.sweep(spec(axes={"p1": [0.7]}), store=tmp_path / "s.zarr")
    with pytest.raises(InputError, match=r"dynamics.steps: 150 in the store, 151 now") as error:
        engram.sweep(
            spec(axes={"p1": [0.7]}, dynamics={"kind": "gd", "steps": 151}),
            store=tmp_path / "s.zarr",
        )
    assert "axes" not in str(error.value)
    with pytest.raises(
        InputError, match=r"axes.correlation: 5 values from 0.5 to 1 in the store, \[0.5\] now"
    ):
        engram.sweep(spec(axes={"p1": [0.7], "correlation": [0.5]}), store=tmp_path / "s.zarr")


def test_a_folder_that_is_not_a_store_is_refused_and_kept(tmp_path):
    (tmp_path / "file.zarr").write_text("mine")
    (tmp_path / "folder.zarr").mkdir()
    (tmp_path / "folder.zarr" / "letter.txt").write_text("mine")
    for name in ("file.zarr", "folder.zarr"):
        with pytest.raises((InputError, OSError)):
            engram.sweep(TWO, store=tmp_path / name)
    assert (tmp_path / "file.zarr").read_text() == "mine"
    assert [path.name for path in (tmp_path / "folder.zarr").iterdir()] == ["letter.txt"]
    xr.Dataset({"a": ("x", [1.0])}).to_zarr(
        tmp_path / "foreign.zarr", zarr_format=3, consolidated=False
    )
    with pytest.raises(InputError, match="not a sweep of engram"):
        engram.sweep(TWO, store=tmp_path / "foreign.zarr")
    engram.sweep(TWO, store=tmp_path / "damaged.zarr")
    (tmp_path / "damaged.zarr" / "zarr.json").write_text("{")
    with pytest.raises(InputError, match="damaged.zarr cannot be read"):
        engram.sweep(TWO, store=tmp_path / "damaged.zarr")


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"axes": {"colour": [1.0]}}, "axis `colour` cannot vary"),
        ({"problem": {"family": "twoo"}}, "problem.family: must be .* Did you mean 'two'"),
        ({"axes": {"p1": [0.5, 0.5]}}, "must not repeat"),
        ({"axes": {"p1": [0.5, 1.5]}}, "p1 = 1.5"),
        ({"axes": {"p1": {"linspace": [0, 1]}}}, "axis `p1` must be"),
        ({"axes": {"p1": {"linspace": [0, 1, 0]}}}, "linspace"),
        ({"axes": {"p1": []}}, "axis `p1` must be"),
        ({"axes": {"p1": {"linspace": [0, 1, 10**11]}}}, "axes.p1.linspace` must have at most"),
        ({"axes": {"p1": {"linspace": [0, 10**400, 3]}}}, "axes.p1.linspace` must be a number"),
        ({"axes": {"p1": {"linspace": [True, False, 3]}}}, "must be a number, got True"),
        ({"axes": {"p1": {"linspace": [-1.7e308, 1.7e308, 3]}}}, "must be finite"),
        ({"axes": {"p1": {"logspace": [0, 400, 3]}}}, "must be finite"),
        ({"axes": {"p1": {"geomspace": [0, 1, 3]}}}, "axis `p1` must be a list"),
        ({"axes": {"p1": {"values": [[1], [1, 2]]}}}, "axis `p1` must be a list"),
        ({"axes": {"seed": {"seeds": [1, 2, 3]}}}, "axes.seed.seeds` must be a whole number"),
        ({"axes": {"seed": {"seeds": 10**11}}}, "axes.seed.seeds` must have at most"),
        ({"problem": {"family": "two", "p1": 0.5}}, "is an axis and also set"),
        ({"sweep": {"observables": ["height"]}}, "unknown 'height'"),
        ({"sweep": {"observables": ["period"]}, "dynamics": {"kind": "gd", "steps": 99}}, "last 128 steps"),
        ({"dynamics": {"kind": "flow", "end": 1.0}}, "learning_rate"),
        ({"run": {"every": 3}}, "no meaning in a sweep"),
        ({"nonsense": {"a": 1}}, "no such table"),
    ],
)  # fmt: skip
def test_invalid_specs_are_reported_before_any_work(tables, message):
    with pytest.raises(InputError, match=message):
        sweeps.make_plan(spec(**tables), None)


def test_messages_name_what_the_spec_names_first():
    names = ["tail_loss", "period", "convergence"]
    axes = ["momentum", "p1", "weight_decay", "correlation"]
    for _ in range(3):
        names, axes = names[1:] + names[:1], axes[1:] + axes[:1]
        tables = {
            "dynamics": {"kind": "momentum", "steps": 50},
            "axes": {"start_scale": [0.1], **dict.fromkeys(axes, [0.5]), "learning_rate": [1.0]},
        }
        with pytest.raises(InputError, match=f"the spec: {', '.join(names)} looks at the last"):
            sweeps.make_plan({**tables, "sweep": {"observables": names}}, None)
        data = xr.Dataset(
            {"convergence": 0}, {"learning_rate": [1.0]}, {"spec": json.dumps(tables)}
        )
        with pytest.raises(InputError, match=f"`{axes[0]}` varies the problem"):
            sweeps.boundary(data, "stability")


def test_arguments_that_do_not_fit_are_reported():
    with pytest.raises(InputError, match="does not take `y`"):
        engram.sweep(lambda x: x, {"x": [0.0], "y": [1.0]})
    with pytest.raises(InputError, match="must be a spec or a function"):
        engram.sweep(3, {"x": [0.0]})


def test_lines_of_theory_agree_with_the_cells():
    # A sweep in memory has no store to tell its spec: it carries it.
    found = engram.sweep(
        {"problem": {"family": "two", "p1": 0.75}, "dynamics": {"kind": "gd", "steps": 60},
         "axes": {"correlation": {"linspace": [0.0, 0.97, 30]}, "learning_rate": {"logspace": [-1, 1.5, 20]}},
         "sweep": {"observables": ["first_perfect", "max_loss"]}}
    )  # fmt: skip
    one = sweeps.boundary(found, "one_step")
    assert one.wrong == (0, 600)
    assert sweeps.boundary(found, "spike").wrong[0] == 0
    with pytest.raises(InputError, match="needs `convergence`"):
        sweeps.boundary(found, "stability")
    # The check can fail: a map that is shifted by one cell contradicts it.
    moved = found.assign(first_perfect=found.first_perfect.roll(correlation=1, roll_coords=False))
    assert sweeps.boundary(moved, "one_step").wrong[0] > 0


def test_the_likeliest_token_is_an_input_also_with_noisy_targets(tmp_path):
    inputs, outputs = np.eye(3), np.eye(3)
    targets = np.array([[0.34, 0.33, 0.33], [0.0, 0.1, 0.9], [0.1, 0.8, 0.1]])
    noisy = engram.Problem(inputs, outputs, np.array([0.5, 0.45, 0.05]), targets)
    noisy.save(tmp_path / "noisy.npz")
    found = engram.sweep(
        {"problem": {"family": "file", "path": str(tmp_path / "noisy.npz")},
         "dynamics": {"kind": "gd", "steps": 5}, "axes": {"learning_rate": [1.0]},
         "sweep": {"observables": ["final_margins", "likeliest_margin"]}}
    )  # fmt: skip
    assert float(found.likeliest_margin[0]) == float(found.final_margins[0, 0])


@pytest.mark.settings
def test_a_cell_that_has_diverged_is_nan_not_a_number():
    found = engram.sweep(
        spec(
            axes={"p1": [0.6], "correlation": [0.5], "learning_rate": [1.0, 1e308]},
            dynamics={"kind": "momentum", "steps": 200},
            sweep={"observables": ["final_loss", "final_error", "likeliest_forgotten"]},
        )
    )
    assert np.isnan(found.final_loss.values.ravel()).tolist() == [False, True]
    assert np.isnan(found.final_error.values.ravel()).tolist() == [False, True]
    assert np.isnan(found.likeliest_forgotten.values.ravel()).tolist() == [False, True]


def test_the_spike_line_is_drawn_for_any_problem():
    found = engram.sweep(
        {"problem": {"family": "sphere", "num_tokens": 4, "num_classes": 3, "dim": 3, "probs": "uniform"},
         "dynamics": {"kind": "gd", "steps": 20},
         "axes": {"seed": {"seeds": 3}, "learning_rate": {"logspace": [-1, 2.5, 12]}},
         "sweep": {"observables": ["max_loss"]}}
    )  # fmt: skip
    line = sweeps.boundary(found, "spike")
    for seed in found.seed.values:
        problem = engram.on_sphere(int(seed), 4, 3, 3, probs="uniform")
        level = line.level.sel(seed=seed).values
        predicted = found.learning_rate.values > engram.theory.spike.spike_threshold(problem)
        np.testing.assert_array_equal(level > 0, predicted)
    assert line.wrong[0] == 0
    assert 0 < int((line.level > 0).sum()) < line.level.size
    moved = found.assign(max_loss=found.max_loss * 0)  # the check can fail
    assert sweeps.boundary(moved, "spike").wrong[0] > 0


def test_lines_of_theory_know_the_defaults_of_a_spec():
    found = engram.sweep(
        {"dynamics": {"kind": "gd", "steps": 5}, "axes": {"learning_rate": [1.0, 9.0]},
         "sweep": {"observables": ["first_perfect", "max_loss"]}}
    )  # fmt: skip
    assert sweeps.boundary(found, "one_step").wrong[0] == 0
    assert sweeps.boundary(found, "spike").wrong[0] == 0


def test_a_sweep_of_the_same_form_compiles_nothing_and_mixes_nothing_up():
    def found(low, p1=0.75, seed=0):
        return engram.sweep(
            {
                "problem": {"family": "two", "p1": p1},
                "dynamics": {"kind": "sgd", "steps": 5, "batch_size": 2},
                "axes": {"correlation": {"linspace": [low, 0.9, 3]}, "learning_rate": [0.5, 2.0]},
                "sweep": {"observables": ["final_loss"], "seed": seed},
            }
        )

    first, moved, again = found(0.0), found(0.3), found(0.0)
    assert "compiling" in first.attrs["summary"]
    assert "compiling" not in moved.attrs["summary"]
    assert np.array_equal(first.final_loss, again.final_loss)
    for other in (moved, found(0.0, p1=0.6), found(0.0, seed=1)):
        assert not np.array_equal(first.final_loss, other.final_loss)
