"""AbstractReadout: scores are any smooth function of the state; the rest follows from them."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from engram._precision import traceable
from engram._types import Array, PyTree, Scores
from engram.particles._force import pull
from engram.particles._recall import (
    centred,
    class_margins,
    error_rate,
    losses,
    margins,
    pair_losses,
    token_losses,
)
from engram.problem import Problem
from engram.system import AbstractSystem, Look


class AbstractReadout(AbstractSystem):
    r"""A memory that recalls by scores $w_{xy}(\theta)$ of a state $\theta$, with the loss of the paper.

    A subclass says what the scores are. The gradient is the chain rule from the closed form in the scores,
    $\partial L / \partial w_{xy} = p(x) (p_\theta(y|x) - 1_{y = f^*(x)})$, exact at any margin.
    """

    problem: eqx.AbstractVar[Problem]

    @abc.abstractmethod
    def scores(self, state: PyTree) -> Scores:
        """The score of every pair of a token and a class, shape (N, M)."""

    @traceable
    def look(self, state: PyTree, law: Array | None = None) -> Look:
        problem, w = self.problem, self.scores(state)
        return Look(
            self.loss(state, law),
            error_rate(problem, w),
            margins(problem, w),
            token_losses(problem, w),
        )

    @traceable
    def loss(self, state: PyTree, law: Array | None = None) -> Float[Array, ""]:
        law, w = jnp.asarray(self.law if law is None else law), self.scores(state)
        if law.ndim == 2:
            return (law * pair_losses(centred(w))).sum()
        return law @ losses(self.problem, w)

    @traceable
    def grad(self, state: PyTree, law: Array | None = None, look: Look | None = None) -> PyTree:
        del look
        law = jnp.asarray(self.law if law is None else law)
        w, back = jax.vjp(self.scores, state)
        return back(pull(self.problem, w, law))[0]

    def class_margins(self, state: PyTree) -> Scores:
        return class_margins(self.problem, self.scores(state))

    def outline(self, state: PyTree) -> Float[Array, " K"]:
        w = self.scores(state)
        return (w - w.mean(axis=1, keepdims=True)).ravel()

    def size(self, state: PyTree) -> int:
        return self.problem.size + sum(np.size(leaf) for leaf in jax.tree.leaves(state))
