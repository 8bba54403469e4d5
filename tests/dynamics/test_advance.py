"""The one loop: in bursts or step by step, in one go or in pieces, a run is the same to the last bit."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import engram
from engram import dynamics as D
from engram.dynamics._ledger import filed
from engram.dynamics._run import BURST
from engram.memory import MemorySystem
from engram.observables import Events

PROBLEM = engram.two_tokens(0.95, 0.75)
SYSTEM = MemorySystem(PROBLEM)
LENGTHS = [0, 1, BURST - 1, BURST, BURST + 1, 2 * BURST, 5 * BURST + 7]
STEPS = LENGTHS[-1]
# Another rate at each step, so that it matters which step is which.
RUNS = {
    "oscillating": D.GradientDescent(np.linspace(10, 11, STEPS), STEPS),
    "calm": D.GradientDescent(np.linspace(0.1, 0.2, STEPS), STEPS),
}
FOLD = Events(np.asarray(1.1))


class Attentive(Events):
    """Never takes in a burst at once."""

    def is_quiet(self, watched):
        return jnp.zeros((), bool)


@eqx.filter_jit
def begin(dynamics, fold):
    return D.Context(SYSTEM, dynamics, fold).begin(jnp.zeros((2, 2)))


@eqx.filter_jit
def advance(dynamics, carry, until, fold, problem=PROBLEM):
    return D.advance(MemorySystem(problem), dynamics, carry, until, fold=fold)


def run(dynamics, stops, fold):
    carry = begin(dynamics, fold)
    for until in stops:
        carry = advance(dynamics, carry, np.asarray(until), fold)
        assert carry.index == until
    return carry


def leaves(inner, folded):
    """All numbers; of the ledger what it holds, since it may have been written to beyond."""
    events = FOLD.describe(jax.tree.map(np.asarray, filed(folded)), STEPS)
    bare = eqx.tree_at(lambda found: found.ledger, folded, None)
    return [*jax.tree.leaves((inner, bare)), *(value for _, value in events.values())]


def assert_same(one, other):
    for ours, theirs in zip(leaves(*one), leaves(*other), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def seen(carry):
    return carry.inner, carry.folded


@pytest.fixture(scope="module")
def paths():
    """Every state of a plain loop, one step after the other, and what the fold knows before each."""
    with jax.enable_x64(True):

        @eqx.filter_jit
        def step(dynamics, index, inner, folded):
            look = SYSTEM.look(dynamics.state_of(inner))
            folded = filed(FOLD.update(folded, index, D.Moment(SYSTEM, dynamics, None, look)))
            return dynamics.step(SYSTEM, inner, index, None), folded

        paths = {}
        for name, dynamics in RUNS.items():
            start = jnp.zeros((2, 2))
            inner, folded = dynamics.init(SYSTEM, start), FOLD.init(SYSTEM, start)
            path = paths[name] = [(inner, folded)]
            for t in range(STEPS):
                inner, folded = step(dynamics, jnp.asarray(t), inner, folded)
                path.append((inner, folded))
        return jax.device_get(paths)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", RUNS)
def test_bursts_are_the_steps_of_a_plain_loop(name, length, paths):
    carry = run(RUNS[name], [length], FOLD)
    assert_same(seen(carry), paths[name][length])


@pytest.mark.usefixtures("x64")
def test_the_tested_runs_include_some_with_and_without_events():
    loud, calm = (run(each, [STEPS], FOLD) for each in RUNS.values())
    assert loud.folded.num_spikes > 2
    assert loud.folded.last_rise > 10
    assert (calm.folded.num_spikes, calm.folded.last_rise) == (0, -1)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("piece", [1, 3, BURST - 1, BURST, BURST + 1])
@pytest.mark.parametrize("dynamics", RUNS.values(), ids=RUNS)
def test_advancing_in_pieces_equals_one_run(dynamics, piece):
    pieces = run(dynamics, [*range(piece, STEPS, piece), STEPS], FOLD)
    assert_same(seen(pieces), seen(run(dynamics, [STEPS], FOLD)))


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("dynamics", RUNS.values(), ids=RUNS)
def test_bursts_folded_at_once_equal_bursts_folded_step_by_step(dynamics):
    attentive = Attentive(FOLD.spike_factor)
    quick, slow = (run(dynamics, [STEPS], fold) for fold in (FOLD, attentive))
    assert_same(seen(quick), seen(slow))


@pytest.mark.usefixtures("x64")
def test_a_run_without_a_fold_is_the_same_run():
    bare = run(RUNS["oscillating"], [STEPS], None)
    np.testing.assert_array_equal(bare.inner, run(RUNS["oscillating"], [STEPS], FOLD).inner)
    assert bare.folded is None


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("bad", [0, BURST - 2, BURST - 1, BURST, BURST + 5])
def test_a_run_ends_at_the_last_finite_state(bad):
    rates = np.zeros(STEPS)
    rates[bad] = 1e308  # times a gradient that is longer than 2
    problem = engram.Problem(10 * np.eye(2), np.eye(2), [0.5, 0.5], [0, 1])
    dynamics = D.GradientDescent(rates, STEPS)
    carry = advance(dynamics, begin(dynamics, None), np.asarray(STEPS), None, problem)
    assert D.Status(int(carry.status)) == D.Status.NOT_FINITE
    assert carry.index == bad
    assert np.isfinite(carry.inner.state).all()
