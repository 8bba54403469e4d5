"""MarginSystem: with two classes one number per token is enough, its margin."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from engram._checks import InputError
from engram._precision import traceable
from engram._types import Array, Weights
from engram.problem import Problem
from engram.system import AbstractSystem

_FEW = 4


class MarginState(eqx.Module):
    """Margins, and the coefficients of the updates that led to them (see `ParticleState`)."""

    margins: Float[Array, " N"]
    coefficients: Float[Array, " K"]
    kept: Float[Array, "..."]


class MarginSystem(AbstractSystem):
    r"""Two classes, certain targets: the particles of a token differ only by their margin.

    With $s_x = \pm 1$ for the two classes and $c = \|u_1 - u_2\|^2$, descent moves

    $$\Delta m_x = \eta \sum_{x'} s_x s_{x'}\, c\, \alpha_{xx'}\, \frac{p(x')}{1 + e^{m_{x'}}}.$$

    Paper: eq:two-descent, for any number of tokens.
    """

    problem: Problem
    law: Float[Array, " N"]
    signs: Float[Array, " N"]
    coupling: Float[Array, "N N"]

    def __init__(self, problem: Problem):
        if problem.num_outputs != 2 or problem.is_noisy:
            raise InputError(
                f"`problem` must have two classes and certain targets, got M = {problem.num_outputs}"
                f"{' and noise' if problem.is_noisy else ''}. Use `ParticleSystem`."
            )
        u = problem.outputs[0] - problem.outputs[1]
        self.problem = problem
        self.law = problem.law
        self.signs = 1.0 - 2.0 * problem.targets.astype(problem.probs.dtype)
        paired = self.signs[:, None] * self.signs[None, :]
        self.coupling = (u @ u) * paired * (problem.inputs @ problem.inputs.T)

    @traceable
    def start(self, W: Weights) -> MarginState:
        """The margins of given weights, before any update."""
        u = jnp.asarray(self.problem.outputs[0] - self.problem.outputs[1])
        m = self.signs * (jnp.asarray(self.problem.inputs) @ (u @ W))
        return MarginState(m, jnp.zeros_like(m), jnp.ones((), m.dtype))

    @traceable
    def weights(self, state: MarginState, W0: Weights) -> Weights:
        """The weights that a state stands for, when it began at `W0`."""
        u = jnp.asarray(self.problem.outputs[0] - self.problem.outputs[1])
        pushed = (state.coefficients * self.signs) @ jnp.asarray(self.problem.inputs)
        return state.kept * W0 + u[:, None] * pushed[None, :]

    @traceable
    def loss(self, state: MarginState, law: Array | None = None) -> Float[Array, ""]:
        law = jnp.asarray(self.law if law is None else law)
        return (law * jax.nn.softplus(-state.margins)).sum()

    @traceable
    def error(self, state: MarginState) -> Float[Array, ""]:
        """The 0-1 error; a tie goes to the first class."""
        m, p = state.margins, jnp.asarray(self.law)
        right = (m > 0) | ((m == 0) & (jnp.asarray(self.signs) > 0))
        return jnp.where(right, 0.0, p).sum()

    @traceable
    def grad(self, state: MarginState, law: Array | None = None) -> MarginState:
        law = jnp.asarray(self.law if law is None else law)
        c = -law * jax.nn.sigmoid(-state.margins)
        K = jnp.asarray(self.coupling)
        # A few tokens: a product and a sum, which fuse and map over grids; a matrix product does not.
        few = len(c) <= _FEW
        m = functools.reduce(jnp.add, [K[:, j] * c[j] for j in range(len(c))]) if few else K @ c
        return MarginState(m, c, jnp.zeros_like(state.kept))

    @property
    def dim(self) -> int:
        return self.problem.dim

    def norm(self, direction: MarginState) -> Float[Array, ""]:
        return jnp.sqrt(jnp.maximum((direction.margins * direction.coefficients).sum(), 0.0))

    def speed(self, direction: MarginState) -> Float[Array, ""]:
        return jnp.sqrt(jnp.square(direction.margins).sum())

    def lift(self, change: Weights) -> MarginState:
        raise InputError("`noise_scale` shakes W beyond the margins. Use space='weights'.")


class BareMarginSystem(MarginSystem):
    """Margins and nothing else: for runs whose weights nobody asks for, a third faster.

    Paper: eq:two-descent, for any number of tokens.
    """

    def __init__(self, problem: Problem):
        super().__init__(problem)

    def start(self, W: Weights) -> MarginState:
        state = super().start(W)
        return MarginState(state.margins, state.coefficients[:0], state.coefficients[:0])

    def grad(self, state: MarginState, law: Array | None = None) -> MarginState:
        moved = super().grad(state, law)
        return MarginState(moved.margins, state.coefficients, state.kept)
