"""MemorySystem: the matrix W as a system that dynamics can move."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from engram._checks import InputError, check_floats
from engram._precision import traceable
from engram._types import Array, Scalar, Scores, Weights
from engram.memory._blocks import choose_block
from engram.memory._curvature import hvp, sharpness
from engram.memory._loss import (
    grad_given_law,
    look_given_law,
    loss_given_law,
    pulls_given_law,
)
from engram.memory._scores import class_margins, recall_probs, scores
from engram.memory._span import update_projections
from engram.problem import Problem
from engram.system import AbstractSystem, Look


class MemorySystem(AbstractSystem):
    r"""A memory whose state is its weights `W`.

    Args:
        problem: What is to be remembered.
        layer_norm: Whether scores are taken from $W e_x / \|W e_x\|$; then W must not start at zero.

    Paper: eq:obj, eq:grad.
    """

    problem: Problem
    law: Float[Array, "..."]
    layer_norm: bool = eqx.field(static=True)

    def __init__(self, problem: Problem, *, layer_norm: bool = False):
        self.problem = problem
        self.law = problem.law
        self.layer_norm = layer_norm

    @traceable
    def look(self, state: Weights, law: Array | None = None) -> Look:
        law = jnp.asarray(self.law if law is None else law)
        return look_given_law(self.problem, state, law, self.layer_norm)

    @traceable
    def loss(self, state: Weights, law: Array | None = None) -> Float[Array, ""]:
        law = jnp.asarray(self.law if law is None else law)
        return loss_given_law(self.problem, state, law, self.layer_norm, None)

    @traceable
    def grad(self, state: Weights, law: Array | None = None, look: Look | None = None) -> Weights:
        del look
        law = jnp.asarray(self.law if law is None else law)
        return grad_given_law(self.problem, state, law, self.layer_norm, None)

    @traceable
    def grad_parts(
        self, state: Weights, law: Array | None, samples: Int[Array, " n"]
    ) -> Float[Array, "n k d"]:
        law = jnp.asarray(self.law if law is None else law)
        G = pulls_given_law(self.problem, state, law, self.layer_norm, None)
        return G[samples, :, None] * jnp.asarray(self.problem.inputs)[samples, None, :]

    def hvp(self, state: Weights, v: Weights) -> Weights:
        return hvp(self.problem, state, v, layer_norm=self.layer_norm)

    @traceable
    def movable(self) -> Callable[[Weights], Weights]:
        if self.layer_norm:
            return lambda V: V
        left, right = update_projections(self.problem)
        return lambda V: left @ V @ right

    def weights(self, state: Weights) -> Weights:
        return state

    def scores(self, state: Weights) -> Scores:
        return scores(self.problem, state, layer_norm=self.layer_norm)

    def class_margins(self, state: Weights) -> Scores:
        return class_margins(self.problem, state, layer_norm=self.layer_norm)

    def recall_probs(self, state: Weights) -> Scores:
        return recall_probs(self.problem, state, layer_norm=self.layer_norm)

    def sharpness(self, state: Weights) -> Scalar:
        return sharpness(self.problem, state, layer_norm=self.layer_norm)

    def outline(self, state: Weights) -> Float[Array, " K"]:
        w = self.scores(state)
        return (w - w.mean(axis=1, keepdims=True)).ravel()

    def start(self, W: Weights | None = None) -> Weights:
        """Weights to begin at, by default zero."""
        return self.problem.zero_weights if W is None else W

    def check(self, state: Weights) -> None:
        shape = (self.problem.output_dim, self.problem.dim)
        if np.shape(state) != shape:
            raise InputError(
                f"`start` must be the weights W_0, shape (k, d) = {shape}, got shape {np.shape(state)}. "
                "Scores become weights with `particles.scores_to_weights`."
            )
        check_floats("start", state, ndim=2, axes="(k, d)")
        if not self.layer_norm:
            return
        lengths = np.linalg.norm(self.problem.inputs @ np.asarray(state).T, axis=1)
        if (lengths == 0).any():
            x = int(np.argmin(lengths))
            name = self.problem.shown_names()[x]
            raise InputError(
                f"`start` must not map a token to zero with layer norm, got W e_x = 0 for token {name}. "
                "Start from small random weights."
            )

    @property
    def block(self) -> int:
        """How many tokens have their scores computed at a time."""
        return choose_block(self.problem.num_tokens, self.problem.num_classes, None)

    @property
    def is_bounded(self) -> bool:
        return self.layer_norm

    def draw_start(self, scale: Scalar, seed: PRNGKeyArray | int) -> Weights:
        return self.problem.draw_start(scale, seed)

    def size(self, state: Weights) -> int:
        return self.problem.size

    def kept(self, state: Weights) -> dict[str, Any]:
        return {"weights": self.weights(state)}
