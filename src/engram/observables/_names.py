"""The observables: what each is called, its axes, and how it is read off a moment of a run."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from engram._checks import InputError
from engram._types import Array
from engram.dynamics import Moment
from engram.special import largest_eigenpairs, normals


class AbstractObservable(eqx.Module):
    """A quantity along a path: its axes besides the step, its symbol, what it means."""

    axes: eqx.AbstractVar[tuple[str, ...]]
    symbol: eqx.AbstractVar[str]
    meaning: eqx.AbstractVar[str]

    def prepare(self, system: Any, dynamics: Any) -> "AbstractObservable":
        """Compute what is the same at all moments, or refuse a system; on the host, before the run."""
        del system, dynamics
        return self

    @abc.abstractmethod
    def __call__(self, moment: Moment) -> Array:
        """The value at a moment."""


class Observable(AbstractObservable):
    """An observable that is a function of the moment."""

    axes: tuple[str, ...] = eqx.field(static=True)
    symbol: str = eqx.field(static=True)
    meaning: str = eqx.field(static=True)
    compute: Callable[[Moment], Array] = eqx.field(static=True)

    def __call__(self, moment: Moment) -> Array:
        return self.compute(moment)


def _seen(name: str) -> Callable[[Moment], Array]:
    return lambda moment: moment.system.shown(moment.look, name)


def _asked(name: str) -> Callable[[Moment], Array]:
    return lambda moment: getattr(moment.system, name)(moment.state)


_weights = _asked("weights")


def _batch_loss(moment: Moment) -> Array:
    carry = moment.carry
    law = moment.dynamics.law_at(moment.system, carry.inner, carry.index, moment.key)
    if law is None:
        return moment.look.loss
    loss = moment.system.loss(moment.state, law)
    return jnp.where(carry.index < moment.dynamics.steps, loss, jnp.nan)


def _stability(moment: Moment) -> Array:
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


class _Alignment(AbstractObservable):
    direction: Array | None = None
    axes: tuple[str, ...] = eqx.field(static=True, default=())
    symbol: str = eqx.field(static=True, default="cos(W, W_mm)")
    meaning: str = eqx.field(static=True, default="cosine with the max-margin direction")

    def prepare(self, system: Any, dynamics: Any) -> "_Alignment":
        from engram.capacity import max_margin  # loads SciPy's optimizers, half a second

        return _Alignment(direction=np.asarray(max_margin(_problem_of(system, "alignment"))))

    def __call__(self, moment: Moment) -> Array:
        W, V = _weights(moment), jnp.asarray(self.direction)
        size = jnp.linalg.norm(W) * jnp.linalg.norm(V)
        return jnp.where(size > 0, (W * V).sum() / jnp.where(size > 0, size, 1.0), jnp.nan)


def _singular_values(moment: Moment) -> Array:
    return jnp.linalg.svd(_weights(moment), compute_uv=False)


def _effective_rank(moment: Moment) -> Array:
    s = _singular_values(moment)
    total = s.sum()
    q = s / jnp.where(total > 0, total, 1.0)
    entropy = -(q * jnp.where(q > 0, jnp.log(jnp.where(q > 0, q, 1.0)), 0.0)).sum()
    return jnp.where(total > 0, jnp.exp(entropy), jnp.nan)


class _Invariants(AbstractObservable):
    """Per token: the weighted sum of scores at its own class, differences at the others."""

    axes: tuple[str, ...] = eqx.field(static=True, default=("token", "class"))
    symbol: str = eqx.field(static=True, default="sum w_i/|u_i|^2, e^-w_i/|u_i|^2 - e^-w_j/|u_j|^2")
    meaning: str = eqx.field(
        static=True, default="constants of the flow for orthogonal embeddings (Section 4.1, with norms)"
    )  # fmt: skip

    def prepare(self, system: Any, dynamics: Any) -> "_Invariants":
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
        own = jax.nn.one_hot(problem.labels, problem.num_outputs, dtype=bool)
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


OBSERVABLES: dict[str, AbstractObservable] = {
    "loss": Observable((), "L", "cross-entropy (eq:obj)", _seen("loss")),
    "batch_loss": Observable((), "L_B", "loss on what the next step sees; NaN after the last", _batch_loss),
    "error": Observable((), "L_01", "0-1 error (Section 1)", _seen("error")),
    "token_losses": Observable(("token",), "l(x)", "loss of each token (eq:loss)", _seen("token_losses")),
    "margins": Observable(("token",), "m(x)", "margin of each token (Section 5.2)", _seen("margins")),
    "class_margins": Observable(
        ("token", "class"), "m_i(x)", "margin against each class (eq:margin)", _asked("class_margins")
    ),
    "scores": Observable(("token", "class"), "w_xy", "scores (eq:particles)", _asked("scores")),
    "probabilities": Observable(
        ("token", "class"), "p_W(y|x)", "recall probabilities (eq:model-prob)", _asked("recall_probs")
    ),
    "grad_norm": Observable((), "|grad L|", "norm of the gradient in W (eq:grad)", _asked("grad_norm")),
    "sharpness": Observable((), "|H|", "largest eigenvalue of the Hessian (eq:hess)", _asked("sharpness")),
    "stability_gap": Observable(
        (), "threshold - |H|", "distance to the method's stability threshold; below 0 is unstable", _stability
    ),
    "weight_norm": Observable((), "|W|", "Frobenius norm of W", lambda m: jnp.linalg.norm(_weights(m))),
    "alignment": _Alignment(),
    "singular_values": Observable(("rank",), "s_k", "singular values of W", _singular_values),
    "effective_rank": Observable(
        (), "exp H(s)", "exponential of the entropy of normalised singular values", _effective_rank
    ),
    "invariants": _Invariants(),
    "weights": Observable(("row", "col"), "W", "the weights (eq:model)", _weights),
}  # fmt: skip
