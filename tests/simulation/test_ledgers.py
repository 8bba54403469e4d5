"""Events of runs: the ledger holds what the records of every step show, however it was emptied on the way."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import engram
from engram import memory
from engram._checks import InputError
from engram.dynamics import (
    AbstractFold,
    Curriculum,
    Descent,
    Ledger,
    Plain,
    _ledger,
    empty_ledger,
    run,
)
from engram.memory import MemorySystem
from engram.observables import Events
from engram.registry import Entry, entries
from engram.simulation import Interrupted

STEPS = 3000
PROBLEM = engram.on_sphere(2, 7, 4, 2, targets="random")
NOISY = engram.StochasticGradientDescent(20.0, STEPS, 2)
LEDGER = ("event_step", "event_token", "margin_before", "margin_after")


@pytest.fixture(scope="module")
def every():
    """An oscillating run with a record of each step."""
    return engram.simulate(PROBLEM, NOISY, key=0)


def same(ours, theirs, names=None):
    names = names or [name for name in theirs.data_vars if "step" not in theirs[name].dims]
    for name in names:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)


def test_the_ledger_is_what_the_records_of_every_step_show(every):
    margins = np.concatenate([np.full((1, 7), np.nan), every.margins.values])
    step, token = np.nonzero((margins[1:] > 0) != (margins[:-1] > 0))
    assert len(step) > 1000
    np.testing.assert_array_equal(every.event_step, step)
    np.testing.assert_array_equal(every.event_token, token)
    np.testing.assert_array_equal(every.margin_before, margins[step, token])
    np.testing.assert_array_equal(every.margin_after, margins[step + 1, token])
    assert every.attrs["events_lost"] == 0


def test_counts_are_those_of_the_ledger(every):
    lost = every.event_token.values[every.margin_before.values > 0]
    np.testing.assert_array_equal(np.bincount(lost, minlength=7), every.num_forgotten)
    assert every.sizes["spike"] == int(every.num_spikes) > 1
    assert every.sizes["peak"] == int(every.num_peaks) > every.sizes["spike"]
    for token in range(7):
        learnt = every.event_step.values[every.event_token.values == token]
        np.testing.assert_equal(
            float(every.first_learnt[token]), learnt[0] if len(learnt) else np.nan
        )


@pytest.mark.parametrize("capacity", [None, 64])
def test_a_ledger_emptied_during_a_run_loses_nothing(capacity, every):
    sparse = engram.simulate(
        PROBLEM, NOISY, key=0, at=[0, 10, 1000, 2500], events=Events(capacity=capacity)
    )
    # Bursts and single steps round alike on this problem, so all agree to the last bit.
    same(sparse, every)


def test_entries_beyond_a_ledgers_capacity_are_counted():
    system = MemorySystem(PROBLEM)
    fold = Events(capacity=8)
    note = lambda system, dynamics, carry: ()
    with jax.enable_x64(True):
        path = run(
            system,
            NOISY,
            jnp.zeros((2, 2)),
            at=[STEPS],
            record=note,
            fold=fold,
            key=jax.random.key(0),
        )
        assert int(path.folded.ledger.count) > 1000
    found = {name: value for name, (_, value) in fold.describe(path.folded, STEPS).items()}
    assert len(np.unique(found["event_step"])) <= 8
    assert len(found["event_step"]) < found["num_forgotten"].sum()


def test_events_beyond_the_limit_of_the_host_are_counted_and_reported(monkeypatch, every):
    monkeypatch.setattr(_ledger, "MOST_ENTRIES", 10)
    few = engram.simulate(PROBLEM, NOISY, key=0, at=[0, STEPS])
    assert few.sizes["event"] == 10
    same(few, every, ("num_forgotten", "num_learnt", "num_spikes", "num_peaks", "last_rise"))
    np.testing.assert_array_equal(few.event_step, every.event_step[:10])
    kept, all_ = (
        sum(data.sizes[name] for name in ("spike", "peak", "event")) for data in (few, every)
    )
    assert few.attrs["events_lost"] == all_ - kept > 1000
    assert engram.events(few).attrs["events_lost"] == few.attrs["events_lost"]


def test_the_table_of_events(every):
    table = engram.events(every)
    assert (np.diff(table.step) >= 0).all()
    count = lambda what: int((table.what == what).sum())
    assert count("spike") == int(every.num_spikes)
    assert count("peak") == int(every.num_peaks)
    assert count("forgotten") == int(every.num_forgotten.sum())
    assert count("learnt") == int(np.isfinite(every.first_learnt).sum())
    assert count("learnt") + count("re-learnt") == int(every.num_learnt.sum())
    rows = table.isel(event=table.what.values == "forgotten")
    margins = every.margins.sel(step=rows.step, token=rows.token.astype(int))
    np.testing.assert_array_equal(rows.margin_after, margins)
    assert np.isnan(rows.height).all()
    tops = table.isel(event=table.what.values == "spike")
    np.testing.assert_array_equal(tops.height, every.spike_height)
    assert np.isnan(tops.token).all()


def test_the_table_of_a_file_and_of_records_is_the_same(every, tmp_path):
    table = engram.events(every)
    every.to_netcdf(tmp_path / "run.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "run.nc", engine="h5netcdf") as stored:
        xr.testing.assert_identical(engram.events(stored), table)
    table.to_netcdf(tmp_path / "table.nc", engine="h5netcdf")
    records = engram.events(every[["loss", "error", "margins"]])
    xr.testing.assert_equal(records, table)
    log = every[["loss"]].assign(accuracy=1 - every.error, margins_wo2=every.margins)
    xr.testing.assert_equal(engram.events(log, margins="margins_wo2"), table)


def test_names_of_tokens_are_in_the_table(every):
    named = every.assign_coords(token=list("abcdefg"))
    table = engram.events(named)
    assert set(table.token.values) <= {"", *"abcdefg"}
    assert table.token.values[table.what.values == "spike"].tolist() == [""] * int(every.num_spikes)


def test_a_table_needs_a_run():
    with pytest.raises(InputError, match="must have a dimension `step` or `time`"):
        engram.events(xr.Dataset())
    several = xr.Dataset({"loss": (("step", "run"), np.ones((3, 2)))})
    with pytest.raises(InputError, match="Select one run"):
        engram.events(several)


def test_an_interrupted_run_has_its_events(every):
    def interrupt(done, total):
        if done > 1500:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as caught:
        engram.simulate(PROBLEM, NOISY, key=0, progress=interrupt)
    partial = caught.value.partial
    last = partial.attrs["stopped_at"]
    before = every.event_step.values <= last
    np.testing.assert_array_equal(partial.event_step, every.event_step[before])
    table, whole = engram.events(partial), engram.events(every)
    tokens = lambda data: data.isel(
        event=np.isfinite(data.token.values) & (data.step.values <= last)
    )
    xr.testing.assert_equal(tokens(table), tokens(whole))


class Wrong(AbstractFold):
    """Every step with an error, in a ledger, and how many there were."""

    def init(self, system, state):
        return {"steps": empty_ledger(64, jnp.zeros((), int)), "num_wrong": jnp.zeros((), int)}

    def update(self, folded, index, moment):
        wrong = moment.look.error > 0
        steps = folded["steps"].put(wrong, jnp.asarray(index))
        return {"steps": steps, "num_wrong": folded["num_wrong"] + wrong}

    def describe(self, folded, last):
        return {
            "wrong_step": (("wrong",), folded["steps"].entries()),
            "num_wrong": ((), np.asarray(folded["num_wrong"])),
        }


def test_a_user_defined_fold_may_have_a_ledger_and_a_name(every, monkeypatch):
    monkeypatch.setitem(entries("event"), "wrong", Entry("event", "wrong", Wrong))
    found = engram.simulate(PROBLEM, NOISY, key=0, at=[0, 2000], events=["events", "wrong"])
    np.testing.assert_array_equal(found.wrong_step, np.flatnonzero(every.error.values > 0))
    assert int(found.num_wrong) == found.sizes["wrong"] > 64
    same(found, every)


def test_a_user_defined_fold_sees_the_recorded_times_of_a_flow():
    class Largest(AbstractFold):
        def init(self, system, state):
            return {"largest": jnp.zeros(())}

        def update(self, folded, index, moment):
            size = jnp.abs(moment.system.weights(moment.state)).max()
            return {"largest": jnp.maximum(folded["largest"], size)}

    flow = engram.GradientFlow(np.linspace(0, 20, 7))
    record = ("weights", "loss", "error", "margins")
    found = engram.simulate(PROBLEM, flow, events=[True, Largest()], record=record, space="weights")
    assert float(found.largest) == np.abs(found.weights.values).max()
    plain = engram.simulate(PROBLEM, flow, record=record, space="weights")
    same(found, plain, [name for name in plain.data_vars if "time" not in plain[name].dims])
    learnt = engram.events(plain)
    assert set(learnt.time.values) <= set(flow.times)


def test_the_loss_of_a_batch_is_that_of_its_samples():
    batches = np.random.default_rng(0).integers(0, 7, (40, 3))
    replay = engram.StochasticGradientDescent(5.0, 40, 3, batches=batches)
    found = engram.simulate(
        PROBLEM, replay, record=("loss", "batch_loss", "token_losses", "weights"), space="weights"
    )
    own = found.token_losses.values[np.arange(40)[:, None], batches].mean(axis=1)
    np.testing.assert_allclose(found.batch_loss[:-1], own, rtol=1e-12)
    assert np.isnan(found.batch_loss[-1])
    np.testing.assert_allclose(
        found.loss[7], memory.loss(PROBLEM, found.weights.values[7]), rtol=1e-12
    )
    full = engram.simulate(PROBLEM, engram.GradientDescent(5.0, 40), record=("loss", "batch_loss"))
    np.testing.assert_array_equal(full.loss, full.batch_loss)


def test_drawn_batches_are_those_that_the_step_sees():
    record = ("batch_loss", "loss")
    drawn = engram.simulate(
        PROBLEM, engram.StochasticGradientDescent(5.0, 20, 3), key=1, record=record
    )
    law = engram.dynamics.Batches(3)
    with jax.enable_x64(True):
        laws = [law.law(MemorySystem(PROBLEM), None, t, jax.random.key(1))[0] for t in range(20)]
    counts = np.rint(3 * np.array(laws)).astype(int)
    batches = np.array([np.repeat(np.arange(7), row) for row in counts])
    again = engram.StochasticGradientDescent(5.0, 20, 3, batches=batches)
    replayed = engram.simulate(PROBLEM, again, record=record)
    np.testing.assert_allclose(drawn.batch_loss, replayed.batch_loss, rtol=1e-12)


def test_the_recorded_loss_and_events_are_of_the_problems_own_law():
    laws = np.kron(np.eye(2), np.ones(4) / 4)[:, :7]
    laws = laws / laws.sum(axis=1, keepdims=True)
    tasks = Descent(Plain(5.0), Curriculum(laws, [20, 20]), steps=40)
    found = engram.simulate(PROBLEM, tasks, record=("loss", "batch_loss", "token_losses"))
    np.testing.assert_allclose(found.loss, found.token_losses.values @ PROBLEM.probs, rtol=1e-12)
    seen = np.repeat(laws, 20, axis=0)
    expected = (seen * found.token_losses.values[:-1]).sum(axis=1)
    np.testing.assert_allclose(found.batch_loss[:-1], expected, rtol=1e-12)
    assert found.attrs["events_loss"] == "loss under the data's own law"
    assert float(found.max_loss) == float(found.loss.max())


def test_ledgers_count_beyond_their_capacity():
    ledger = empty_ledger(5, jnp.zeros((), int))
    for k in range(9):
        ledger = ledger.put(jnp.asarray(k != 3), jnp.asarray(k)).filed()
    assert isinstance(ledger, Ledger)
    assert int(ledger.count) == 8
    assert ledger.entries().tolist() == [0, 1, 2, 4, 5]
