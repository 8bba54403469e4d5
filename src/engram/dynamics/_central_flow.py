"""CentralFlow: where descent at the edge is on average, while it oscillates."""

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from engram._checks import check_choice, check_count, check_positive
from engram._types import Array, ArrayLike, Numbers, PyTree, Scalar
from engram.dynamics._base import AbstractStepwise
from engram.special import largest_eigenpairs, normals
from engram.system import AbstractSystem

_CORRECTIONS = 4  # Newton steps to the edge, each time the flow has left it
_TURNS = 200  # of the oscillation, at most, until its size no longer changes
_SEED = 1e-6  # size of the deviation from which an oscillation grows


class Centre(eqx.Module):
    """Where the flow is, and the oscillation around it: a deviation to one side, and its squared size."""

    state: PyTree
    deviation: PyTree
    variance: Float[Array, ""]


class CentralFlow(AbstractStepwise):
    r"""The time-averaged path of gradient descent at rate $\eta$, step by step.

    With the small amplitude of Cohen et al. (arXiv 2410.24206) it is gradient flow that is kept where the
    sharpness S is at most $2/\eta$, by an oscillation along the sharpest direction:

    $$\dot W = -\nabla L - \tfrac12 \sigma^2 \nabla S, \qquad \sigma^2 > 0 \text{ only where } S = 2/\eta.$$

    With a finite one the oscillation is the two-cycle of the descent around a centre that is held,

    $$\eta\,(\nabla L(W + \delta) - \nabla L(W - \delta)) = 4 \delta, \qquad
    \dot W = -\tfrac12 (\nabla L(W + \delta) + \nabla L(W - \delta)),$$

    which has the same drift for small $\delta$. It is for the convex loss of a matrix: with products of
    matrices it falls on two-cycles far away. The system's metric must be that of its entries.

    Args:
        learning_rate: $\eta$.
        steps: Steps of the descent that it describes.
        substeps: Steps of the scheme for each of them.
        amplitude: "small" or "finite".
    """

    learning_rate: Any
    steps: Any
    substeps: int = eqx.field(static=True)
    amplitude: str = eqx.field(static=True)

    def __init__(
        self,
        learning_rate: Scalar,
        steps: int,
        *,
        substeps: int = 16,
        amplitude: Literal["small", "finite"] = "small",
    ):
        check_positive("learning_rate", learning_rate)
        self.learning_rate = learning_rate + np.zeros(())
        self.steps = np.asarray(check_count("steps", steps, least=0))
        self.substeps = check_count("substeps", substeps)
        check_choice("amplitude", amplitude, ("small", "finite"))
        self.amplitude = amplitude

    def init(self, system: AbstractSystem, state: PyTree) -> Centre:
        del system
        nothing = jax.tree.map(jnp.zeros_like, state)
        return Centre(state, nothing, jnp.zeros(()))

    def step(
        self, system: AbstractSystem, inner: Centre, index: Array, key: PRNGKeyArray | None
    ) -> Centre:
        del index, key
        part = self._along_edge if self.amplitude == "small" else self._between_two
        each = lambda inner, _: (centre := part(system, inner), centre.variance)
        last, variances = jax.lax.scan(each, inner, length=self.substeps)
        return eqx.tree_at(lambda centre: centre.variance, last, variances.mean())

    def _along_edge(self, system: AbstractSystem, inner: Centre) -> Centre:
        """Gradient flow, then back along the gradient of the sharpness where that is beyond the edge."""
        h, edge = self.learning_rate / self.substeps, 2 / self.learning_rate
        state = _moved(inner.state, -h, system.grad(inner.state))

        def correct(_: Any, carry: Any) -> Any:
            state, pushed, _ = carry
            S, u = sharpest(system, state)
            slope = jax.grad(lambda x: system.inner(u, system.hvp(x, u)))(state)
            size = system.inner(slope, slope)
            # Where the sharpness has no slope no oscillation can lower it: the flow stays beyond the edge.
            beyond = (edge < S) & (size > 0)
            push = jnp.where(beyond, S - edge, 0.0) / jnp.where(size > 0, size, 1.0)
            return _moved(state, -push, slope), pushed + push, u

        first = (state, jnp.zeros(()), jax.tree.map(jnp.zeros_like, state))
        state, pushed, u = jax.lax.fori_loop(0, _CORRECTIONS, correct, first)
        variance = 2 * pushed / h
        return Centre(state, jax.tree.map(lambda x: jnp.sqrt(variance) * x, u), variance)

    def _between_two(self, system: AbstractSystem, inner: Centre) -> Centre:
        """The oscillation around the centre until it repeats itself, then a step of the centre."""
        eta, W = self.learning_rate, inner.state
        sides = lambda d: (system.grad(_moved(W, 1, d)), system.grad(_moved(W, -1, d)))

        def turn(carry: Any) -> Any:
            d, _, count = carry
            ahead = jax.tree.map(lambda a, b, x: eta / 2 * (a - b) - x, *sides(d), d)
            away = system.norm(_moved(ahead, -1, d))
            return ahead, away > 1e-10 * (system.norm(d) + _SEED), count + 1

        seed = jax.tree.map(lambda x: normals(0, x.shape, x.dtype), W)
        grown = system.norm(inner.deviation) > _SEED
        first = jax.tree.map(lambda d, s: jnp.where(grown, d, _SEED * s), inner.deviation, seed)
        d, *_ = jax.lax.while_loop(
            lambda carry: carry[1] & (carry[2] < _TURNS), turn, (first, jnp.array(True), 0)
        )
        drift = jax.tree.map(lambda a, b: (a + b) / 2, *sides(d))
        state = _moved(W, -eta / self.substeps, drift)
        return Centre(state, d, system.inner(d, d))

    def state_of(self, inner: Centre) -> PyTree:
        return inner.state

    def threshold(self, index: Array) -> Array:
        return 2 / jnp.asarray(self.learning_rate)

    @property
    def num_steps(self) -> int:
        return int(self.steps)

    def time_at(self, steps: ArrayLike) -> Numbers:
        return self.learning_rate * np.asarray(steps)

    @property
    def needs_weights(self) -> str | None:
        return "it follows the Hessian in the entries of W."


def sharpest(system: AbstractSystem, state: PyTree) -> tuple[Array, PyTree]:
    """The largest eigenvalue of the Hessian and its direction."""
    start = jax.tree.map(lambda x: normals(0, x.shape, x.dtype), state)
    pair = largest_eigenpairs(lambda v: system.hvp(state, v), start, inner=system.inner)
    return pair.value[0], jax.tree.map(lambda x: x[0], pair.vector)


def _moved(state: PyTree, size: Any, direction: PyTree) -> PyTree:
    return jax.tree.map(lambda x, d: x + size * d, state, direction)
