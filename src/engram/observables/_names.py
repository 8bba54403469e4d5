"""The observables: what each is called, its axes, and how it is computed in either space."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from engram import memory, particles
from engram._checks import InputError
from engram._types import Array
from engram.memory import MemorySystem
from engram.particles import MarginSystem, ParticleSystem
from engram.special import largest_eigenpairs, normals


class View(eqx.Module):
    """A moment of a run, in either space, with what some observables need besides the state.

    `start` are the weights at the beginning, `direction` the max-margin weights when asked for,
    `threshold` and `preconditioner` those of the method at hand.
    """

    system: Any
    state: Any
    start: Array
    direction: Array | None
    threshold: Array
    preconditioner: Array | None

    @property
    def problem(self):
        return self.system.problem

    @property
    def weights(self) -> Array:
        if isinstance(self.system, MemorySystem):
            return self.state
        return self.system.weights(self.state, self.start)

    def read(self, name: str) -> Array:
        """A quantity that `memory` and `particles` both have, from the account of this space."""
        if isinstance(self.system, ParticleSystem):
            return getattr(particles, name)(self.problem, self.state.scores)
        if isinstance(self.system, MarginSystem):
            if name in ("margins", "error_rate"):
                return self.state.margins if name == "margins" else self.system.error(self.state)
            return getattr(memory, name)(self.problem, self.weights)
        options = {"layer_norm": True} if self.system.layer_norm else {}
        return getattr(memory, name)(self.problem, self.state, **options)


@dataclasses.dataclass(frozen=True)
class Observable:
    """A quantity along a path: its axes besides the step, its symbol, what it means."""

    axes: tuple[str, ...]
    symbol: str
    meaning: str
    compute: Callable[[View], Array]


def _scores(view: View) -> Array:
    if isinstance(view.system, ParticleSystem):
        return view.state.scores
    return view.read("scores")


def _grad_norm(view: View) -> Array:
    g = view.system.grad(view.state)
    if not isinstance(view.system, MemorySystem):
        # Formed once per record: the particles' own norm is exact only to the root of the rounding.
        g = view.system.weights(g, jnp.zeros((view.problem.dim, view.problem.dim)))
    return jnp.linalg.norm(g)


def _stability(view: View) -> Array:
    if view.preconditioner is None:
        return view.threshold - view.read("sharpness")
    # Adam and its kin: the Hessian seen in the coordinates in which their steps are plain.
    root = jnp.sqrt(view.preconditioner)
    options = {"layer_norm": True} if view.system.layer_norm else {}
    operator = lambda V: memory.hvp(view.problem, view.state, V / root, **options) / root
    start = normals(0, root.shape, root.dtype)
    return view.threshold - largest_eigenpairs(operator, start).value[0]


def _alignment(view: View) -> Array:
    W, V = view.weights, view.direction
    if V is None:
        raise InputError("`alignment` needs the max-margin direction.")
    size = jnp.linalg.norm(W) * jnp.linalg.norm(V)
    return jnp.where(size > 0, (W * V).sum() / jnp.where(size > 0, size, 1.0), jnp.nan)


def _singular_values(view: View) -> Array:
    return jnp.linalg.svd(view.weights, compute_uv=False)


def _effective_rank(view: View) -> Array:
    s = _singular_values(view)
    total = s.sum()
    q = s / jnp.where(total > 0, total, 1.0)
    entropy = -(q * jnp.where(q > 0, jnp.log(jnp.where(q > 0, q, 1.0)), 0.0)).sum()
    return jnp.where(total > 0, jnp.exp(entropy), jnp.nan)


def _invariants(view: View) -> Array:
    """Per token: the weighted sum of scores at its own class, differences at the others."""
    problem = view.problem
    w = _scores(view)
    inverse = 1 / jnp.square(jnp.asarray(problem.outputs)).sum(axis=1)
    own = jax.nn.one_hot(problem.labels, problem.num_outputs, dtype=bool)
    decay = inverse[None, :] * jnp.exp(-w)
    # Measured from the first wrong class: class 0, or class 1 where 0 is the token's own.
    other = jnp.where(jnp.asarray(problem.labels) == 0, 1, 0)
    base = jnp.take_along_axis(decay, other[:, None], axis=1)
    total = (inverse[None, :] * w).sum(axis=1, keepdims=True)
    return jnp.where(own, total, decay - base)


def check_invariants(problem: Any) -> None:
    """The invariants exist only when inputs, and outputs, are orthogonal among themselves."""
    for name, rows in (("inputs", problem.inputs), ("outputs", problem.outputs)):
        gram = np.asarray(rows) @ np.asarray(rows).T
        off = np.abs(gram - np.diag(np.diag(gram))).max(initial=0.0)
        if off > 1e-12 * np.abs(gram).max() or (np.diag(gram) == 0).any():
            raise InputError(
                f"`record` = 'invariants' needs orthogonal {name}, got inner products up to "
                f"{off:.3g}. The flow has these invariants only without interference."
            )


def _read(name: str) -> Callable[[View], Array]:
    return lambda view: view.read(name)


OBSERVABLES: dict[str, Observable] = {
    "loss": Observable((), "L", "cross-entropy (eq:obj)", lambda view: view.system.loss(view.state)),
    "error": Observable((), "L_01", "0-1 error (Section 1)", _read("error_rate")),
    "token_losses": Observable(("token",), "l(x)", "loss of each token (eq:loss)", _read("token_losses")),
    "margins": Observable(("token",), "m(x)", "margin of each token (Section 5.2)", _read("margins")),
    "class_margins": Observable(
        ("token", "class"), "m_i(x)", "margin against each class (eq:margin)", _read("class_margins")
    ),
    "scores": Observable(("token", "class"), "w_xy", "scores (eq:particles)", _scores),
    "probabilities": Observable(
        ("token", "class"), "p_W(y|x)", "recall probabilities (eq:model-prob)", _read("recall_probs")
    ),
    "grad_norm": Observable((), "|grad L|", "norm of the gradient in W (eq:grad)", _grad_norm),
    "sharpness": Observable((), "|H|", "largest eigenvalue of the Hessian (eq:hess)", _read("sharpness")),
    "stability_gap": Observable(
        (), "threshold - |H|", "distance to the method's stability threshold; below 0 is unstable", _stability
    ),
    "weight_norm": Observable((), "|W|", "Frobenius norm of W", lambda v: jnp.linalg.norm(v.weights)),
    "alignment": Observable((), "cos(W, W_mm)", "cosine with the max-margin direction", _alignment),
    "singular_values": Observable(("rank",), "s_k", "singular values of W", _singular_values),
    "effective_rank": Observable(
        (), "exp H(s)", "exponential of the entropy of normalised singular values", _effective_rank
    ),
    "invariants": Observable(
        ("token", "class"),
        "sum w_i/|u_i|^2, e^-w_i/|u_i|^2 - e^-w_j/|u_j|^2",
        "constants of the flow for orthogonal embeddings (Section 4.1, with norms)",
        _invariants,
    ),
    "weights": Observable(("row", "col"), "W", "the weights (eq:model)", lambda view: view.weights),
}  # fmt: skip
