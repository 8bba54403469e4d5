"""AbstractSystem: what moves. A state, its loss, and a gradient that is linear in the data's law."""

import abc
from typing import Any

import equinox as eqx
from jaxtyping import Float, PyTree

from engram._types import Array, Weights


class AbstractSystem(eqx.Module):
    """Something that gradient dynamics can move.

    The `law` says how often each sample comes. Loss and gradient are linear in it, so that one
    interface serves every dynamics: descent uses the law itself, a mini-batch its counts / |B|, a
    stochastic flow the law plus noise.

    Paper: Section 2.
    """

    law: eqx.AbstractVar[Float[Array, "..."]]

    @abc.abstractmethod
    def loss(self, state: PyTree, law: Array | None = None) -> Float[Array, ""]:
        """The loss of a state under a law (by default the system's own)."""

    @abc.abstractmethod
    def grad(self, state: PyTree, law: Array | None = None) -> Any:
        """The direction of steepest ascent, of the same structure as the state."""

    @property
    @abc.abstractmethod
    def dim(self) -> int:
        """The number of rows, and of columns, of the weights."""

    @abc.abstractmethod
    def norm(self, direction: PyTree) -> Float[Array, ""]:
        """The length of a gradient, measured in the weights whatever the state is."""

    @abc.abstractmethod
    def speed(self, direction: PyTree) -> Float[Array, ""]:
        """How fast what one sees of the state moves along a gradient: zero at a minimiser."""

    @abc.abstractmethod
    def lift(self, change: Weights) -> Any:
        """A change of the weights, as a change of the state."""
