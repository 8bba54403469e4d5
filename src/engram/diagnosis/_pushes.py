"""Who pushed whom between two moments of a run: the change of every margin, divided among tokens.

Three accounts, by what a dynamics does with gradients. *Coefficients*: updates that are linear in gradients
add up to coefficients of the tokens' pulls on every class, whatever the space of the run. *Particles*: the
state of a particle system carries these coefficients itself, so a flow needs no sum at all. *States*: any
other optimizer, any other system; each token's part of every gradient is followed through the optimizer.
"""

from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from engram._checks import InputError
from engram._types import Array, PyTree
from engram.dynamics import AbstractFlow, Carry, Descent, Status, Update, advance, run
from engram.memory import MemorySystem
from engram.particles import MarginSystem, ParticleSystem, pull
from engram.problem import Problem
from engram.system import AbstractSystem

Moment = Literal["first", "last"]
_NUMBERS = 2**22  # in the parts of gradients that are followed at once


class Path(NamedTuple):
    """A run that can be made again: what moves, how, from where, with which random numbers."""

    system: AbstractSystem
    dynamics: Any
    state: PyTree
    key: PRNGKeyArray | None


class Pushes(NamedTuple):
    """What changed the margins between two moments.

    Args:
        push: By how much the margin of x (row) against its rival was changed by x' (column).
        decay: By how much weight decay changed it.
        noise: By how much noise on W itself did.
        before: Margins against every class at the first moment.
        after: The same at the second.
        rivals: The class that came closest to the target at the first moment, or at the last.
        frequency: How often each token came, on average over the steps.
        coefficients: What each token added to the coefficients of its pulls on every class, where the
            changes are linear in gradients; otherwise None.
        losses: Losses of the tokens at the two moments.
        embeddings: What embeddings that moved did to the margins; None where they do not move.
        method: How pushes between records were found; None where they were followed.
        fit: Of those, the share of the change of W that is met.
    """

    push: np.ndarray
    decay: np.ndarray
    noise: np.ndarray
    before: np.ndarray
    after: np.ndarray
    rivals: np.ndarray
    frequency: np.ndarray
    coefficients: np.ndarray | None
    losses: tuple[Any, Any]
    embeddings: np.ndarray | None = None
    method: str | None = None
    fit: float = np.nan


def follow(path: Path) -> "Follower":
    """Whoever can say what changed the margins of a run."""
    system, dynamics = path.system, path.dynamics
    is_plain = has_linear_scores(system)
    if isinstance(dynamics, Follower):  # a recording
        return dynamics
    if isinstance(dynamics, Descent):
        linear = dynamics.optimizer.is_linear and not dynamics.decays
        return _ByCoefficients(path) if linear and is_plain else _ByStates(path)
    if is_plain:
        return _ByParticles(path)
    raise InputError(
        f"`dynamics` must be a descent for a {type(system).__name__}, got {type(dynamics).__name__}. "
        "Whose pushes a flow adds up is known of a Problem only."
    )


@runtime_checkable
class Follower(Protocol):
    """Follows a run."""

    def between(self, first: float, last: float, rival: Moment = "first") -> Pushes:
        """What changed the margins between two steps, or times; none before the last ones asked for.

        `rival` says at which of the two a token's rival is its strongest.
        """
        ...


def has_linear_scores(system: AbstractSystem) -> bool:
    """Whether it is a matrix W, in whichever space, whose scores are linear in it."""
    if isinstance(system, MemorySystem):
        return not system.layer_norm
    return isinstance(system, ParticleSystem | MarginSystem)


def carried_at(path: Path, step: int) -> Any:
    """What a stepwise run carries at a step."""
    first = path.dynamics.init_with(path.system, path.state, path.key)
    return _go(path, first, jnp.asarray(0), jnp.asarray(step))


def strongest_rivals(system: AbstractSystem, against: np.ndarray) -> np.ndarray:
    """The class closest to the target, by the margins against every class."""
    labels = np.asarray(system.problem.labels)  # pyright: ignore[reportAttributeAccessIssue]
    wrong = np.arange(against.shape[1])[None, :] != labels[:, None]
    return np.where(wrong, against, np.inf).argmin(axis=1)


@eqx.filter_jit
def _ask(system: Any, state: PyTree) -> tuple[Any, Any]:
    return system.class_margins(state), system.look(state).token_losses


def _asked(system: Any, state: PyTree) -> tuple[np.ndarray, Any]:
    return jax.device_get(_ask(system, state))


def output_gaps(problem: Problem, rivals: np.ndarray) -> np.ndarray:
    """How each token's target differs from its rival, one row per token."""
    U = np.asarray(problem.outputs)
    return U[problem.labels] - U[rivals]


def pushes_of(problem: Problem, rivals: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    r"""$\langle e_x, e_{x'} \rangle \langle u_{f^*(x)} - u_{y_0(x)}, \sum_y C[x', y]\, u_y \rangle$.

    Paper: thm:inter, for one class against another.
    """
    E, U = np.asarray(problem.inputs), np.asarray(problem.outputs)
    return (E @ E.T) * (output_gaps(problem, rivals) @ (coefficients @ U).T)


# --- particles --------------------------------------------------------------------------------------------


class _State(eqx.Module):
    """Records the state itself."""

    def __call__(self, *args: Any) -> Any:
        if len(args) == 1:
            return args[0]
        _, dynamics, carry = args
        return dynamics.state_of(carry.inner)


@eqx.filter_jit
def _solved(system: Any, flow: Any, at: Any) -> Any:
    return run(system, flow, system.start(), at=at, record=_State())


def _states_at(system: Any, dynamics: Any, at: np.ndarray, key: Any) -> Any:
    """The states at some times, or steps."""
    if not isinstance(dynamics, AbstractFlow):
        return run(system, dynamics, system.start(), at=at, record=_State(), key=key).records
    first, *others = dynamics.attempts()
    path = _solved(system, first, jnp.asarray(at))
    for flow in others:
        if path.status == Status.STEP_LIMIT:
            path = _solved(system, flow, jnp.asarray(at))
    return path.records


class _ByParticles:
    def __init__(self, path: Path):
        self.path, self.problem = path, path.system.problem  # pyright: ignore
        origin = jax.device_get(path.system.weights(path.state))
        self.system = ParticleSystem(self.problem, origin, shaken=path.dynamics.is_isotropic)

    def between(self, first: float, last: float, rival: Moment = "first") -> Pushes:
        problem, system, dynamics = self.problem, self.system, self.path.dynamics
        at: Any = np.asarray([first, last], float)
        if not isinstance(dynamics, AbstractFlow):
            times = dynamics.time_at(np.arange(dynamics.num_steps + 1))
            at = np.searchsorted(times, at * (1 - 1e-12))
        states = _states_at(system, dynamics, at, self.path.key)
        pick = lambda k: jax.tree.map(lambda x: jnp.asarray(x)[k], states)
        (before, losses), (after, last_losses) = (_asked(system, pick(k)) for k in (0, 1))
        rivals = strongest_rivals(system, before if rival == "first" else after)
        coefficients = np.diff(np.asarray(states.coefficients), axis=0)[0]
        push = pushes_of(problem, rivals, coefficients)
        noise = zero = np.zeros(len(before))
        if states.shaken is not None:
            shaken = np.diff(np.asarray(states.shaken), axis=0)[0]
            noise = (output_gaps(problem, rivals) @ shaken * problem.inputs).sum(axis=1)
        often, losses = np.asarray(problem.probs), (losses, last_losses)
        return Pushes(push, zero, noise, before, after, rivals, often, coefficients, losses)


# --- coefficients, and states -----------------------------------------------------------------------------


class _Coefficients(eqx.Module):
    """Parts of a gradient as coefficients, one row per token; what they add up to."""

    def splitter(self, dynamics: Any) -> Any:
        return dynamics.optimizer  # there is no decay

    def parts(self, system: Any, state: PyTree, law: Any) -> Any:
        law = jnp.asarray(system.law if law is None else law)
        return pull(system.problem, system.scores(state), law)

    def nothing(self, system: Any) -> Any:
        shape = (system.problem.num_tokens, system.problem.num_classes)
        return jnp.zeros(shape), jnp.zeros(shape[0])

    def effect(self, system: Any, state: PyTree, shares: PyTree) -> Any:
        return shares.changes, jnp.zeros(len(shares.changes))


class _States(eqx.Module):
    """Parts of a gradient as directions of the state; what they do to the margins against the rivals."""

    samples: Array
    rivals: Array

    def splitter(self, dynamics: Any) -> Any:
        return dynamics

    def parts(self, system: Any, state: PyTree, law: Any) -> Any:
        return system.grad_parts(state, law, self.samples)

    def nothing(self, system: Any) -> Any:
        return jnp.zeros((len(self.samples), len(self.rivals))), jnp.zeros(len(self.rivals))

    def effect(self, system: Any, state: PyTree, shares: PyTree) -> Any:
        margins = lambda state: jnp.take_along_axis(
            system.class_margins(state), self.rivals[:, None], axis=1
        )[:, 0]
        along = lambda change: jax.jvp(margins, (state,), (change,))[1]
        decay = jnp.zeros(len(self.rivals)) if shares.decay is None else along(shares.decay)
        return jax.vmap(along)(shares.changes), decay


@eqx.filter_jit
def _start(path: Path, kind: Any) -> tuple[Any, Any]:
    inner = path.dynamics.init_with(path.system, path.state, path.key)
    parts = jax.tree.map(jnp.zeros_like, kind.parts(path.system, path.state, None))
    return inner, kind.splitter(path.dynamics).begin_split(parts, path.state)


@eqx.filter_jit
def _go(path: Path, inner: PyTree, index: Any, until: Any) -> Any:
    carry = Carry(index, inner, None, jnp.asarray(int(Status.RUNNING)))
    return advance(path.system, path.dynamics, carry, until, key=path.key).inner


@eqx.filter_jit
def _walk(path: Path, kind: Any, inner: PyTree, past: PyTree, first: Any, last: Any) -> Any:
    """Steps `first` to `last`, following the parts: the end, what is left of them, their effects, the law."""
    system, dynamics, key = path.system, path.dynamics, path.key

    def step(index: Any, carry: PyTree) -> PyTree:
        inner, past, sums, laws = carry
        state = dynamics.state_of(inner)
        law = dynamics.law_at(system, inner, index, key)
        laws = laws + (whole if law is None else jnp.asarray(law))
        ahead = dynamics.step(system, inner, index, key)
        update = Update(system.grad(state, law), ahead.memory, state, index, system)
        shares = kind.splitter(dynamics).split(kind.parts(system, state, law), past, update)
        if shares is None:
            return ahead, past, sums, laws
        effects = kind.effect(system, state, shares)
        return ahead, shares.past, jax.tree.map(jnp.add, sums, effects), laws

    whole = jnp.asarray(system.law)
    nothing = kind.nothing(system), jnp.zeros_like(whole)
    inner, past, sums, laws = jax.lax.fori_loop(first, last, step, (inner, past, *nothing))
    return (
        inner,
        past,
        (*sums, laws.reshape(len(laws), -1).sum(axis=1) / jnp.maximum(last - first, 1)),
    )


class _Walker:
    """A run on its way, with what the optimizer keeps of the parts of gradients."""

    def __init__(self, path: Path, kind: Any):
        self.path, self.index = path, 0
        self.inner, self.past = _start(path, kind)

    @property
    def state(self) -> Any:
        return self.path.dynamics.state_of(self.inner)

    def ahead(self, until: int) -> Any:
        """The state at a later step; nobody moves."""
        return self.path.dynamics.state_of(self._gone(until))

    def go(self, until: int) -> None:
        """On to a step, when nothing is kept of the parts."""
        self.inner, self.index = self._gone(until), until

    def _gone(self, until: int) -> Any:
        return _go(self.path, self.inner, jnp.asarray(self.index), jnp.asarray(until))

    def walk(self, kind: Any, until: int) -> Any:
        """On to a step; what the parts did on the way, what decay did, and how often each sample came."""
        here, there = jnp.asarray(self.index), jnp.asarray(until)
        self.inner, self.past, sums = _walk(self.path, kind, self.inner, self.past, here, there)
        self.index = until
        return jax.device_get(sums)

    def arrive(self, kind: Any, first: float) -> None:
        if self.past is None:
            self.go(int(first))
        else:
            self.walk(kind, int(first))


class _ByCoefficients:
    def __init__(self, path: Path):
        self.path, self.kind = path, _Coefficients()
        self.walker = _Walker(path, self.kind)

    def between(self, first: float, last: float, rival: Moment = "first") -> Pushes:
        system, walker = self.path.system, self.walker
        walker.arrive(self.kind, first)
        before, losses = _asked(system, walker.state)
        coefficients, zero, often = walker.walk(self.kind, int(last))
        after, last_losses = _asked(system, walker.state)
        rivals = strongest_rivals(system, before if rival == "first" else after)
        problem = system.problem  # pyright: ignore[reportAttributeAccessIssue]
        push, losses = pushes_of(problem, rivals, coefficients), (losses, last_losses)
        return Pushes(push, zero, zero, before, after, rivals, often, coefficients, losses)


class _ByStates:
    """Follows as many tokens at once as there is room for, the run once for each lot of them."""

    def __init__(self, path: Path):
        self.path = path
        count = np.shape(path.system.law)[0]
        numbers = sum(np.size(leaf) for leaf in jax.tree.leaves(path.state))
        some = min(count, max(1, _NUMBERS // numbers))
        # The last ones are taken twice rather than compiling for fewer.
        starts = [min(k, count - some) for k in range(0, count, some)]
        none = jnp.zeros(count, int)
        kinds = [_States(jnp.arange(k, k + some), none) for k in starts]
        self.lots = [(k, kind, _Walker(path, kind)) for k, kind in zip(starts, kinds, strict=True)]

    def between(self, first: float, last: float, rival: Moment = "first") -> Pushes:
        system = self.path.system
        for _, kind, walker in self.lots:
            walker.arrive(kind, first)
        guide = self.lots[0][2]
        before, losses = _asked(system, guide.state)
        rivals = strongest_rivals(
            system, before if rival == "first" else _asked(system, guide.ahead(int(last)))[0]
        )
        rows, decay, often = [], np.zeros(len(before)), np.zeros(len(before))
        for k, kind, walker in self.lots:
            kind = _States(kind.samples, jnp.asarray(rivals))
            rows[k:], decay, often = walker.walk(kind, int(last))
        after, last_losses = _asked(system, guide.state)
        push, zero, losses = np.asarray(rows).T, np.zeros(len(before)), (losses, last_losses)
        return Pushes(push, decay, zero, before, after, rivals, often, None, losses)
