r"""How a change of the state divides among the parts of the gradients that made it.

Every named optimizer makes the change $-\eta_t P_t[\sum_s c_{ts}\, g_s]$: an average of gradients, linear in
them, then a map $P_t$ that depends on their sizes. With $P_t$ held at the value that it had, the change is
linear in the gradients, so each part of them, a token's say, has its share of the change, exactly.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from engram._types import Array, PyTree

Numbers = dict[str, Any]


class Update(NamedTuple):
    """An update that was made: its gradient, what the optimizer remembered after it, and where it was."""

    gradient: PyTree
    memory: PyTree
    state: PyTree
    index: Array  # pyright: ignore[reportIncompatibleMethodOverride]
    system: Any


class Shares(NamedTuple):
    """Changes of the state: those by the parts of the gradients, along a first axis; and by decay alone.

    `past` is what is remembered of earlier parts.
    """

    changes: PyTree
    decay: PyTree | None
    past: PyTree


class Sharing(NamedTuple):
    """The two halves of an optimizer, apart.

    Args:
        average: From the numbers, what earlier parts have left, a part, and how many updates there were
            with this one: what the parts leave now, and the average that the change is made of. None
            if the change is made of the gradient itself.
        scale: From the numbers, the average of the whole gradient, and the update: the linear map from an
            average to a change, without the learning rate.
    """

    average: Callable[[Numbers, Any, Any, Any], tuple[Any, Any]] | None
    scale: Callable[[Numbers, Any, Update], Callable[[Any], Any]]

    def split(
        self, numbers: Numbers, rate: Any, parts: PyTree, past: PyTree, update: Update
    ) -> Shares:
        """The changes that parts of the gradient make; `past` holds the parts', and the whole's, past."""
        count = update.index + 1
        if self.average is None:
            averages, whole, left = parts, update.gradient, None
        else:
            average = lambda which: jax.tree.map(
                lambda p, g: self.average(numbers, p, g, count)[which],  # pyright: ignore
                past,
                (parts, update.gradient),
            )
            left, (averages, whole) = average(0), average(1)
        change = self.scale(numbers, whole, update)
        return Shares(jax.tree.map(lambda x: -(rate * x), change(averages)), None, left)


def keep_all(numbers: Numbers, whole: Any, update: Update) -> Callable[[Any], Any]:
    """The identity: momentum, Nesterov."""
    del numbers, whole, update
    return lambda averages: averages


def to_unit_length(numbers: Numbers, whole: Any, update: Update) -> Callable[[Any], Any]:
    """Division by the length of the gradient."""
    del numbers, whole
    norm = update.system.norm(update.gradient)
    factor = jnp.where(norm > 0, 1 / jnp.where(norm > 0, norm, 1.0), 0.0)
    return lambda averages: jax.tree.map(lambda x: factor * x, averages)


def to_signs(numbers: Numbers, whole: Any, update: Update) -> Callable[[Any], Any]:
    """Division of each entry by the size of the gradient's."""
    del numbers
    inverse = lambda g: jnp.where(g != 0, 1 / jnp.where(g != 0, jnp.abs(g), 1.0), 0.0)
    factors = jax.tree.map(inverse, whole)
    return lambda averages: jax.tree.map(lambda x, f: x * f[None], averages, factors)


def divided(divisor: Callable[[Numbers, Any], Any]) -> Callable[[Numbers, Any, Update], Any]:
    """Division of each entry by a preconditioner, as it was in the update."""

    def scale(numbers: Numbers, whole: Any, update: Update) -> Callable[[Any], Any]:
        del whole
        factors = divisor(numbers, update.memory)
        return lambda averages: jax.tree.map(lambda x, f: x / f[None], averages, factors)

    return scale


def heavy_ball(numbers: Numbers, past: PyTree, g: Any, count: Any) -> tuple[Any, Any]:
    """Of heavy ball: v = beta v + g."""
    del count
    v = numbers["momentum"] * past + g
    return v, v


def nesterov_average(numbers: Numbers, past: PyTree, g: Any, count: Any) -> tuple[Any, Any]:
    """Of Nesterov: v = beta v + g, then beta v + g once more."""
    v, _ = heavy_ball(numbers, past, g, count)
    return v, numbers["momentum"] * v + g


def adam_average(numbers: Numbers, past: PyTree, g: Any, count: Any) -> tuple[Any, Any]:
    """An exponential average, less its bias towards the zero that it began at."""
    beta = numbers["b1"]
    v = beta * past + (1 - beta) * g
    return v, v / (1 - beta**count)


def muon_average(numbers: Numbers, past: PyTree, g: Any, count: Any) -> tuple[Any, Any]:
    """Nesterov's form of an exponential average, each part less its bias, as optax has it."""
    beta = numbers["momentum"]
    v = beta * past + (1 - beta) * g
    ahead = v / (1 - beta ** (count + 1))
    return v, beta * ahead + (1 - beta) * (g / (1 - beta**count))


_QUINTIC = (3.4445, -4.7750, 2.0315)  # of Newton and Schulz, as Muon has it
_ROUNDS = 5
_EPS = 1e-8


def to_orthogonal(numbers: Numbers, whole: Any, update: Update) -> Callable[[Any], Any]:
    r"""Muon's polynomial in $G G^\top$, held at the averaged gradient: $Q\,G$, or $G\,Q$ where G is tall."""
    del numbers, update
    return _turned_by(_newton_schulz, whole)


def to_polar(numbers: Numbers, whole: Any, update: Update) -> Callable[[Any], Any]:
    r"""The polar factor, $(G G^\top)^{-1/2} G$ on the kept singular values, its root held at the gradient."""
    del update
    return _turned_by(lambda G: _inverse_root(G, numbers["cutoff"]), whole)


def _newton_schulz(G: Array) -> tuple[Any, bool]:
    is_tall = G.shape[0] > G.shape[1]
    width = jnp.sqrt(max(1.0, G.shape[1] / G.shape[0]))
    size = jnp.linalg.norm(G) + _EPS
    X = (G.T if is_tall else G) / size
    eye = jnp.eye(len(X), dtype=G.dtype)
    Q = width / size * eye
    a, b, c = _QUINTIC
    for _ in range(_ROUNDS):
        A = X @ X.T
        T = a * eye + b * A + c * (A @ A)
        X, Q = T @ X, T @ Q
    return Q, is_tall


def polar_parts(G: Array, cutoff: Any) -> tuple[Array, Array, Array]:
    """Left and right singular vectors, and the singular values, zero where they are not kept."""
    U, s, V = jnp.linalg.svd(G, full_matrices=False)
    least = jnp.maximum(cutoff, max(G.shape) * jnp.finfo(s.dtype).eps)
    return U, jnp.where(s > least * s[0], s, 0.0), V


def _inverse_root(G: Array, cutoff: Any) -> tuple[Any, bool]:
    U, s, _ = polar_parts(G, cutoff)
    return (U * jnp.where(s > 0, 1 / jnp.where(s > 0, s, 1.0), 0.0)[None, :]) @ U.T, False


def _turned_by(factor: Callable[[Array], tuple[Any, bool]], whole: Any) -> Callable[[Any], Any]:
    """Products with a matrix for each matrix of the state, from the left or from the right.

    Raises:
        NotImplementedError: If the state is not made of matrices.
    """

    def check(G: Array) -> tuple[Any, bool]:
        if jnp.ndim(G) != 2:
            raise NotImplementedError
        return factor(G)

    factors, structure = jax.tree.flatten(jax.tree.map(check, whole), is_leaf=_is_factor)

    def change(averages: Any) -> Any:
        leaves = structure.flatten_up_to(averages)
        turn = lambda x, f: x @ f[0].T if f[1] else jnp.einsum("ij,njk->nik", f[0], x)
        return structure.unflatten([turn(x, f) for x, f in zip(leaves, factors, strict=True)])

    return change


def _is_factor(x: Any) -> bool:
    return isinstance(x, tuple) and len(x) == 2 and isinstance(x[1], bool)
