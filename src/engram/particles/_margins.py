"""MarginSystem: with two classes one number per token is enough, its margin."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from engram._checks import InputError, is_traced
from engram._precision import traceable
from engram._types import Array, Scores, Weights
from engram.particles._system import ScoreSystem
from engram.problem import Problem
from engram.system import Look

_FEW = 4


class MarginState(eqx.Module):
    """Margins, and the coefficients of the updates that led to them (see `ParticleState`)."""

    margins: Float[Array, " N"]
    coefficients: Float[Array, " K"]
    kept: Float[Array, "..."]


class MarginSystem(ScoreSystem):
    r"""Two classes, certain targets: the particles of a token differ only by their margin.

    With $s_x = \pm 1$ for the two classes and $c = \|u_1 - u_2\|^2$, descent moves

    $$\Delta m_x = \eta \sum_{x'} s_x s_{x'}\, c\, \alpha_{xx'}\, \frac{p(x')}{1 + e^{m_{x'}}}.$$

    Args:
        problem: What is to be remembered; two classes, certain targets.
        origin: The weights that a run starts from, which the margins alone do not determine; zero by default.

    Paper: eq:two-descent, for any number of tokens.
    """

    problem: Problem
    law: Float[Array, " N"]
    origin: Any
    signs: Float[Array, " N"]
    coupling: Float[Array, "N N"]

    def __init__(self, problem: Problem, origin: Weights | None = None):
        if problem.num_classes != 2 or problem.is_noisy:
            raise InputError(
                f"`problem` must have two classes and certain targets, got M = {problem.num_classes}"
                f"{' and noise' if problem.is_noisy else ''}. Use `ParticleSystem`."
            )
        u = problem.outputs[0] - problem.outputs[1]
        self.problem = problem
        self.law = problem.law
        self.origin = problem.zero_weights if origin is None else origin
        self.signs = 1.0 - 2.0 * problem.targets.astype(problem.probs.dtype)
        paired = self.signs[:, None] * self.signs[None, :]
        self.coupling = (u @ u) * paired * (problem.inputs @ problem.inputs.T)

    @traceable
    def start(self, W: Weights | None = None) -> MarginState:
        """The margins of given weights, by default the origin, before any update."""
        W = self.origin if W is None else W
        xp: Any = jnp if is_traced(self, W) else np  # compiles nothing
        E, U, W = map(xp.asarray, (self.problem.inputs, self.problem.outputs, W))
        m = self.signs * (E @ ((U[0] - U[1]) @ W))
        return MarginState(m, xp.zeros_like(m), xp.ones((), m.dtype))

    @traceable
    def weights(self, state: MarginState) -> Weights:
        """The weights that a state stands for, when it began at the origin."""
        u = jnp.asarray(self.problem.outputs[0] - self.problem.outputs[1])
        pushed = (state.coefficients * self.signs) @ jnp.asarray(self.problem.inputs)
        return state.kept * jnp.asarray(self.origin) + u[:, None] * pushed[None, :]

    @traceable
    def loss(self, state: MarginState, law: Array | None = None) -> Float[Array, ""]:
        law = jnp.asarray(self.law if law is None else law)
        return (law * jax.nn.softplus(-state.margins)).sum()

    @traceable
    def look(self, state: MarginState, law: Array | None = None) -> Look:
        """A tie goes to the first class."""
        m, p = state.margins, jnp.asarray(self.law)
        right = (m > 0) | ((m == 0) & (jnp.asarray(self.signs) > 0))
        error = jnp.where(right, 0.0, p).sum()
        return Look(self.loss(state, law), error, m, jax.nn.softplus(-m))

    @traceable
    def scores(self, state: MarginState) -> Scores:
        E, U = jnp.asarray(self.problem.inputs), jnp.asarray(self.problem.outputs)
        W = self.weights(state)
        # The cheaper product first.
        return E @ (U @ W).T if 2 * len(U) < len(E) else (E @ W.T) @ U.T

    @traceable
    def grad(
        self, state: MarginState, law: Array | None = None, look: Look | None = None
    ) -> MarginState:
        del look
        law = jnp.asarray(self.law if law is None else law)
        c = -law * jax.nn.sigmoid(-state.margins)
        K = jnp.asarray(self.coupling)
        # A few tokens: a product and a sum, which fuse and map over grids; a matrix product does not.
        few = len(c) <= _FEW
        m = functools.reduce(jnp.add, [K[:, j] * c[j] for j in range(len(c))]) if few else K @ c
        return MarginState(m, c, jnp.zeros_like(state.kept))

    def inner(self, a: MarginState, b: MarginState) -> Float[Array, ""]:
        return (a.margins * b.coefficients).sum()

    def speed(self, direction: MarginState) -> Float[Array, ""]:
        return jnp.sqrt(jnp.square(direction.margins).sum())

    def noise(self, state: MarginState, key: PRNGKeyArray) -> MarginState:
        raise InputError(
            "`noise_scale` adds noise to W that margins cannot represent. Use space='weights'."
        )

    def outline(self, state: MarginState) -> Float[Array, " K"]:
        return state.margins


class BareMarginSystem(MarginSystem):
    """Margins and nothing else: for runs whose weights nobody asks for, a third faster.

    Paper: eq:two-descent, for any number of tokens.
    """

    def __init__(self, problem: Problem):
        super().__init__(problem)
        self.origin: Weights | None = None

    def start(self, W: Weights | None = None) -> MarginState:
        state = super().start(W)
        return MarginState(state.margins, state.coefficients[:0], state.coefficients[:0])

    def grad(
        self, state: MarginState, law: Array | None = None, look: Look | None = None
    ) -> MarginState:
        moved = super().grad(state, law)
        return MarginState(moved.margins, state.coefficients, state.kept)

    def weights(self, state: MarginState) -> Weights:
        self._does_not_know("weights")
