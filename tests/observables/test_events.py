"""Events against their definitions, read slowly along tables of losses, errors and margins."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from engram.dynamics import Moment
from engram.dynamics._ledger import filed
from engram.observables import Events, events_of_series
from engram.observables._events import PARTS
from engram.observables._series import Shown
from engram.system import Look

STEPS, TOKENS, FACTOR = 24, 2, 1.1


def by_definition(loss, error, margins):
    """One step after the other; what did not happen is NaN."""
    events = {
        "first_perfect": np.nan, "perfect_from": np.nan, "last_rise": np.nan, "num_spikes": 0,
        "highest_spike": np.nan, "highest_spike_step": np.nan, "highest_rise": 1.0, "max_loss": -np.inf,
        "num_learnt": np.zeros(TOKENS, int), "first_learnt": np.full(TOKENS, np.nan),
        "num_forgotten": np.zeros(TOKENS, int), "first_forgotten": np.full(TOKENS, np.nan),
        "last_forgotten": np.full(TOKENS, np.nan), "last_relearnt": np.full(TOKENS, np.nan),
    }  # fmt: skip
    spikes, in_spike, lowest, changes = [], False, np.inf, []
    for t in range(len(loss)):
        if error[t] == 0 and np.isnan(events["first_perfect"]):
            events["first_perfect"] = t
        if error[t] != 0:
            events["perfect_from"] = np.nan
        elif np.isnan(events["perfect_from"]):
            events["perfect_from"] = t
        if t > 0 and loss[t] > loss[t - 1]:
            events["last_rise"] = t
        above = loss[t] > FACTOR * lowest
        if above and not in_spike:
            spikes.append({"start": t, "step": t, "end": np.nan, "height": 0.0})
            events["num_spikes"] += 1
        if above:
            height = loss[t] / lowest if lowest else np.inf
            if height > spikes[-1]["height"]:
                spikes[-1] |= {"step": t, "height": height}
            if not events["highest_spike"] >= height:
                events["highest_spike"], events["highest_spike_step"] = height, t
        elif in_spike:
            spikes[-1]["end"] = t
        in_spike = above
        if t and not (lowest == 0 and loss[t] == 0):
            events["highest_rise"] = np.fmax(
                events["highest_rise"], loss[t] / lowest if lowest else np.inf
            )
        events["max_loss"] = np.fmax(events["max_loss"], loss[t])
        lowest = np.minimum(lowest, loss[t])
        for x in range(TOKENS):
            was_right, is_right = t > 0 and margins[t - 1, x] > 0, margins[t, x] > 0
            if was_right != is_right:
                changes.append((t, x, margins[t - 1, x] if t else np.nan, margins[t, x]))
            if is_right and not was_right:
                events["num_learnt"][x] += 1
                events["first_learnt"][x] = np.fmin(events["first_learnt"][x], t)
            if was_right and not is_right:
                events["num_forgotten"][x] += 1
                events["last_forgotten"][x] = t
                if np.isnan(events["first_forgotten"][x]):
                    events["first_forgotten"][x] = t
            elif is_right and not was_right and events["num_forgotten"][x]:
                events["last_relearnt"][x] = t
    for name in ("start", "step", "end", "height"):
        events[f"spike_{name}"] = np.array([spike[name] for spike in spikes], float)
    columns = zip(*changes, strict=True) if changes else ((),) * 4
    events |= dict(
        zip(("event_step", "event_token", "margin_before", "margin_after"), columns, strict=True)
    )
    peaks = zigzag(loss)
    events["num_peaks"] = len(peaks)
    events |= {f"peak_{name}": [peak[name] for peak in peaks] for name in ("step", "height")}
    return events


def zigzag(loss):
    """Its maxima: reached after a rise by the factor from a trough, left by a fall by the factor."""
    peaks, trough, crest = [], 0, None
    for t in range(1, len(loss)):
        if crest is None:
            if loss[t] > FACTOR * loss[trough]:
                crest = t
            elif loss[t] < loss[trough]:
                trough = t
        elif loss[t] > loss[crest]:
            crest = t
        elif FACTOR * loss[t] < loss[crest]:
            height = loss[crest] / loss[trough] if loss[trough] else np.inf
            peaks.append({"step": crest, "height": height})
            trough, crest = t, None
    return peaks


def check(loss, error=None, margins=None):
    """All events of a table; losses that end early go on falling."""
    loss = np.asarray(loss, float)
    tail = np.full(STEPS - len(loss), loss[-1])
    loss = np.concatenate([loss, tail])
    error = np.ones(STEPS) if error is None else np.asarray(error, float)
    margins = np.full((STEPS, TOKENS), -1.0) if margins is None else np.asarray(margins, float)
    with jax.enable_x64(True):
        found = jax.device_get(
            events_of_series(Events(np.asarray(FACTOR)), Look(loss, error, margins))
        )
    events = {name: value for name, (_, value) in Events().describe(found, STEPS - 1).items()}
    expected = by_definition(loss, error, margins)
    assert set(events) == set(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(events[name], value, err_msg=name)
    return events


@pytest.mark.parametrize("seed", range(40))
def test_random_tables(seed):
    rng = np.random.default_rng(seed)
    # Few values, so that ties, exact factors and returns to the very minimum are common.
    loss = rng.choice([1.0, 1.05, FACTOR, 1.2, 2.0, 0.5, FACTOR * 0.5], STEPS)
    error = rng.choice([0.0, 0.0, 0.5], STEPS)
    margins = rng.choice([-1.0, 0.0, 1.0, 2.0], (STEPS, TOKENS))
    check(loss, error, margins)


def test_a_spike_may_begin_at_the_first_step_after_the_start():
    events = check([1.0, 3.0, 2.0, 0.5])
    assert (events["num_spikes"], events["last_rise"]) == (1, 1)
    for name, value in {"start": 1, "step": 1, "end": 3, "height": 3}.items():
        assert events[f"spike_{name}"].tolist() == [value]


def test_the_start_itself_is_not_a_spike():
    events = check([7.0, 6.0, 5.0])
    assert events["num_spikes"] == 0
    assert np.isnan(events["highest_spike"])
    assert np.isnan(events["last_rise"])


def test_a_spike_that_does_not_end_has_no_end():
    events = check([1.0, 2.0, 4.0])
    assert (events["num_spikes"], events["spike_height"][0], events["spike_step"][0]) == (1, 4, 2)
    assert np.isnan(events["spike_end"][0])


def test_a_loss_of_exactly_the_factor_is_not_a_spike_and_ends_one():
    assert check([1.0, FACTOR])["num_spikes"] == 0
    assert check([1.0, np.nextafter(FACTOR, 2)])["num_spikes"] == 1
    assert check([1.0, 2.0, FACTOR, 2.0])["spike_end"][0] == 2


def test_the_first_of_two_equal_peaks_is_the_step_of_a_spike():
    assert check([1.0, 2.0, 2.0, 1.0])["spike_step"].tolist() == [1]


def test_a_loss_that_has_underflowed_is_infinitely_far_below_its_spike():
    events = check([1.0, 0.0, 0.0, 1e-300, 0.0])
    assert (events["num_spikes"], events["highest_spike"]) == (1, np.inf)
    assert (events["spike_start"][0], events["spike_end"][0]) == (3, 4)


def test_every_spike_is_kept():
    loss = [1.0, *[value for k in range(10) for value in (2.0 + k, 1.0)]]
    events = check(loss)
    assert (events["num_spikes"], len(events["spike_start"])) == (10, 10)
    assert (events["highest_spike"], events["highest_spike_step"]) == (11, 19)


def test_peaks_of_a_zigzag_over_its_troughs():
    # One spike that does not return to its minimum, with three maxima; the last is not left by the factor.
    events = check([4.0, 2.0, 1.0, 3.0, 2.0, 5.0, 4.9, 2.5, 2.6, 7.0, 6.9])
    assert (events["num_spikes"], events["num_peaks"]) == (1, 2)
    assert list(events["peak_step"]) == [3, 5]
    assert list(events["peak_height"]) == [3.0, 2.5]


def test_a_nan_loss_is_neither_a_spike_nor_a_rise_nor_perfect():
    loss, error = np.ones(STEPS), np.zeros(STEPS)
    margins = np.ones((STEPS, TOKENS))
    loss[-1], error[-1], margins[-1] = np.nan, np.nan, np.nan
    events = check(loss, error, margins)
    assert (events["num_spikes"], events["first_perfect"]) == (0, 0)
    assert np.isnan(events["perfect_from"])
    assert np.isnan(events["last_rise"])
    assert events["last_forgotten"].tolist() == [STEPS - 1] * TOKENS


def test_perfect_for_good_differs_from_perfect_once():
    for perfect, first, stays in (
        ([], np.nan, np.nan),
        (range(STEPS), 0, 0),
        ([3, 4, *range(9, STEPS)], 3, 9),
        ([STEPS - 1], STEPS - 1, STEPS - 1),
        (range(STEPS - 1), 0, np.nan),
    ):
        error = np.ones(STEPS)
        error[list(perfect)] = 0
        events = check(np.ones(STEPS), error)
        np.testing.assert_array_equal(events["first_perfect"], first)
        np.testing.assert_array_equal(events["perfect_from"], stays)


def test_forgetting_is_falling_from_above_zero():
    margins = np.ones((STEPS, TOKENS))
    margins[:, 0] = np.r_[-1, 0, 1, 0, 1, -1, 2, np.full(STEPS - 7, 3.0)]
    events = check(np.ones(STEPS), margins=margins)
    assert events["num_forgotten"].tolist() == [2, 0]
    assert (events["first_forgotten"][0], events["last_forgotten"][0]) == (3, 5)
    assert events["last_relearnt"][0] == 6
    assert np.isnan(events["last_relearnt"][1])


def test_a_quiet_stretch_is_taken_in_at_once_as_step_by_step():
    events = Events(np.asarray(FACTOR))
    right, wrong = np.array([1.0, 1.0]), np.array([1.0, -1.0])
    with jax.enable_x64(True):
        moment = lambda row: Moment(None, None, None, Look(*row))
        take = eqx.filter_jit(lambda found, t, *row: filed(events.update(found, t, moment(row))))
        step = lambda found, t, loss, error, margin: take(
            found, *map(jnp.asarray, (t, loss, error, margin))
        )
        start = events.init(Shown(), Look(np.asarray(1.0), np.asarray(0.5), wrong))
        before = step(step(start, 0, 1.0, 0.5, wrong), 1, 0.9, 0.5, wrong)
        for error, margin in ((0.5, wrong), (0.0, right)):
            start = slow = step(before, 2, 0.8, error, margin)
            for t, loss in ((3, 0.7), (4, 0.7), (5, 0.4)):
                slow = step(slow, t, loss, error, margin)
            watched = events.watch(start, np.asarray(3))
            assert watched.quiet
            assert watched.perfect == (error == 0)
            watched = eqx.tree_at(lambda watched: watched.loss, watched, jnp.asarray(0.4))
            quick = events.skip(start, watched, np.asarray(5))
            assert_same(events.describe(quick, 5), events.describe(slow, 5))


def assert_same(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, (_, value) in ours.items():
        np.testing.assert_array_equal(value, theirs[name][1], err_msg=name)


def test_parts_find_what_the_whole_finds():
    rng = np.random.default_rng(0)
    looks = Look(
        rng.random(STEPS), rng.choice([0.0, 0.5], STEPS), rng.standard_normal((STEPS, TOKENS))
    )
    with jax.enable_x64(True):
        whole = Events().describe(events_of_series(Events(), looks), STEPS - 1)
        named = {}
        for part in PARTS:
            some = Events(parts=(part,))
            described = some.describe(events_of_series(some, looks), STEPS - 1)
            assert_same(described, {name: whole[name] for name in described})
            named |= described
    assert named.keys() == whole.keys()
