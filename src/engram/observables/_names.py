"""The observables: how each is read off a moment of a run; the registry has their names and axes."""

import abc
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from engram._checks import InputError
from engram._types import Array
from engram.dynamics import AbstractDynamics, Moment
from engram.registry import entries, find, make
from engram.special import largest_eigenpairs, normals
from engram.system import AbstractSystem, Registered

OBSERVABLES = entries("observable")  # by name, yours among them once they are registered


class AbstractObservable(Registered):
    """A quantity along a path: its axes other than the step, its symbol, what it means."""

    role = "observable"
    axes = None  # names; by default numbered ones
    symbol = ""
    meaning = ""

    def prepare(self, system: AbstractSystem, dynamics: AbstractDynamics) -> "AbstractObservable":
        """Compute what is the same at all moments, or refuse a system; on the host, before the run."""
        del system, dynamics
        return self

    @abc.abstractmethod
    def __call__(self, moment: Moment) -> Array:
        """The value at a moment."""


class Observable(AbstractObservable):
    """An observable that is a function of the moment."""

    axes: tuple[str, ...] | None = eqx.field(static=True)
    symbol: str = eqx.field(static=True)
    meaning: str = eqx.field(static=True)
    compute: Callable[[Moment], Array] = eqx.field(static=True)

    def __call__(self, moment: Moment) -> Array:
        return self.compute(moment)


def make_observable(item: str | Mapping[str, Any]) -> AbstractObservable:
    """The observable of a name, or of a table with a name (`kind`) and fields."""
    table = {"kind": item} if isinstance(item, str) else item
    entry = find("observable", table["kind"])
    target = entry.load()
    if isinstance(target, type):
        return make("observable", table)
    if isinstance(target, AbstractObservable):
        return target
    return Observable(entry.about.get("axes"), entry.about.get("symbol", ""), entry.help, target)


def _shown(name: str) -> Callable[[Moment], Array]:
    return lambda moment: moment.system.shown(moment.look, name)


def _asked(name: str) -> Callable[[Moment], Array]:
    return lambda moment: getattr(moment.system, name)(moment.state)


loss, error, token_losses, margins = map(_shown, ("loss", "error", "token_losses", "margins"))
class_margins, scores, probabilities = map(_asked, ("class_margins", "scores", "recall_probs"))
grad_norm, sharpness, weights = map(_asked, ("grad_norm", "sharpness", "weights"))


def weight_norm(moment: Moment) -> Array:
    return jnp.linalg.norm(weights(moment))


def batch_loss(moment: Moment) -> Array:
    carry = moment.carry
    law = moment.dynamics.law_at(moment.system, carry.inner, carry.index, moment.key)
    if law is None:
        return moment.look.loss
    loss = moment.system.loss(moment.state, law)
    return jnp.where(carry.index < moment.dynamics.steps, loss, jnp.nan)


def stability_gap(moment: Moment) -> Array:
    """How far the sharpness is below what the method bears; preconditioned where the method is."""
    system, state = moment.system, moment.state
    threshold = moment.dynamics.threshold(moment.carry.index)
    preconditioner = moment.dynamics.preconditioner(moment.carry.inner)
    if preconditioner is None:
        return threshold - system.sharpness(state)
    # Adam and its kin: the Hessian seen in the coordinates in which their steps are plain.
    root = jax.tree.map(jnp.sqrt, preconditioner)
    divided = lambda V: jax.tree.map(jnp.divide, V, root)
    operator = lambda V: divided(system.hvp(state, divided(V)))
    start = jax.tree.map(lambda x: normals(0, x.shape, x.dtype), root)
    return threshold - largest_eigenpairs(operator, start).value[0]


class Alignment(AbstractObservable):
    """The cosine of W with the max-margin direction."""

    direction: Array | None = None

    axes = ()

    def prepare(self, system: AbstractSystem, dynamics: AbstractDynamics) -> "Alignment":
        from engram.capacity import max_margin  # loads SciPy's optimizers, half a second

        return Alignment(direction=np.asarray(max_margin(_problem_of(system, "alignment"))))

    def __call__(self, moment: Moment) -> Array:
        W, V = weights(moment), jnp.asarray(self.direction)
        size = jnp.linalg.norm(W) * jnp.linalg.norm(V)
        return jnp.where(size > 0, (W * V).sum() / jnp.where(size > 0, size, 1.0), jnp.nan)


def singular_values(moment: Moment) -> Array:
    return jnp.linalg.svd(weights(moment), compute_uv=False)


def effective_rank(moment: Moment) -> Array:
    s = singular_values(moment)
    total = s.sum()
    q = s / jnp.where(total > 0, total, 1.0)
    entropy = -(q * jnp.where(q > 0, jnp.log(jnp.where(q > 0, q, 1.0)), 0.0)).sum()
    return jnp.where(total > 0, jnp.exp(entropy), jnp.nan)


class Invariants(AbstractObservable):
    """Per token: the weighted sum of scores at its own class, differences at the others."""

    axes = ("token", "class")

    def prepare(self, system: AbstractSystem, dynamics: AbstractDynamics) -> "Invariants":
        """They exist only when inputs, and outputs, are orthogonal among themselves."""
        problem = _problem_of(system, "invariants")
        for name, rows in (("inputs", problem.inputs), ("outputs", problem.outputs)):
            gram = np.asarray(rows) @ np.asarray(rows).T
            off = np.abs(gram - np.diag(np.diag(gram))).max(initial=0.0)
            if off > 1e-12 * np.abs(gram).max() or (np.diag(gram) == 0).any():
                raise InputError(
                    f"`record` = 'invariants' needs orthogonal {name}, got inner products up to "
                    f"{off:.3g}. The flow has these invariants only without interference."
                )
        return self

    def __call__(self, moment: Moment) -> Array:
        problem, w = moment.system.problem, moment.system.scores(moment.state)
        inverse = 1 / jnp.square(jnp.asarray(problem.outputs)).sum(axis=1)
        own = jax.nn.one_hot(problem.labels, problem.num_classes, dtype=bool)
        decay = inverse[None, :] * jnp.exp(-w)
        # Measured from the first wrong class: class 0, or class 1 where 0 is the token's own.
        other = jnp.where(jnp.asarray(problem.labels) == 0, 1, 0)
        base = jnp.take_along_axis(decay, other[:, None], axis=1)
        total = (inverse[None, :] * w).sum(axis=1, keepdims=True)
        return jnp.where(own, total, decay - base)


def _problem_of(system: Any, name: str) -> Any:
    if not hasattr(system, "problem"):
        raise InputError(
            f"`record` = {name!r} needs a problem, and a {type(system).__name__} has none. Leave it out."
        )
    return system.problem
