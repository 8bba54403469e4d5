"""Names of a user's own, one of each kind, as a plugin registers them."""

from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import engram
from engram import memory
from engram.dynamics import AbstractFold, AbstractOptimizer, AbstractSampling, AbstractStepwise
from engram.registry import Field, register
from engram.system import AbstractSystem, Look


@register("optimizer", "lion")
class Lion(AbstractOptimizer):
    """Steps along the sign of an average of <b>gradients</b>."""

    learning_rate: Annotated[float, Field(help="Learning rate.", bounds=(0, None))]
    beta: Annotated[float, Field(help="Share of the past.", bounds=(0, 1))] = 0.9

    def init(self, state):
        return jax.tree.map(jnp.zeros_like, state)

    def update(self, gradient, memory, state, index, system):
        average = jax.tree.map(lambda m, g: self.beta * m + (1 - self.beta) * g, memory, gradient)
        return jax.tree.map(lambda m: -self.learning_rate * jnp.sign(m), average), average


@register("sampling", "alternating")
class Alternating(AbstractSampling):
    """Even and odd tokens, by turns of some steps."""

    period: Annotated[int, Field(help="Steps of a turn.", bounds=(1, 100))] = 2

    def law(self, system, inner, index, key):
        law = jnp.asarray(system.law)
        is_on = jnp.arange(len(law)) % 2 == (index // self.period) % 2
        part = jnp.where(is_on, law, 0.0)
        return part / part.sum(), inner


@register("dynamics", "polyak")
class Polyak(AbstractStepwise):
    """Descent with the step size L / |grad L|^2."""

    steps: int
    most: Annotated[float, Field(help="The largest rate.", above=0)] = 100.0

    needs_key = False

    def step(self, system, inner, index, key):
        g = system.grad(inner)
        rate = jnp.minimum(self.most, system.loss(inner) / system.norm(g) ** 2)
        return jax.tree.map(lambda w, d: w - rate * d, inner, g)

    @property
    def num_steps(self):
        return self.steps

    def time_at(self, steps):
        return np.full(np.shape(steps), np.nan)


@register("system", "product")
class Factored(AbstractSystem):
    """W = A B, both factors learnt."""

    problem: engram.Problem
    law: jax.Array
    rank: int = eqx.field(static=True)
    scale: Annotated[float, Field(help="Of the start.", above=0)]

    def __init__(self, problem, law, rank: int = 2, scale: float = 0.5):
        self.problem, self.law, self.rank, self.scale = problem, law, rank, scale

    def look(self, state, law=None):
        law, W = self.law if law is None else law, self.weights(state)
        losses = memory.token_losses(self.problem, W)
        return Look(
            (law * losses).sum(),
            memory.error_rate(self.problem, W),
            memory.margins(self.problem, W),
            losses,
        )

    def grad(self, state, law=None, look=None):
        return jax.grad(self.loss)(state, law)

    def weights(self, state):
        return state["A"] @ state["B"]

    def start(self):
        d = self.problem.dim
        return {"A": self.scale * jnp.eye(d, self.rank), "B": self.scale * jnp.eye(self.rank, d)}


@register("system", "loss_only")
class LossOnly(AbstractSystem):
    """A state of which nothing is known but its loss."""

    law: jax.Array

    def look(self, state, law=None):
        return Look((jnp.asarray(self.law if law is None else law) * (state - 1) ** 2).sum())

    def grad(self, state, law=None, look=None):
        return jax.grad(self.loss)(state, law)

    def start(self):
        return jnp.zeros(())


@register("problem", "ring")
def ring(num_tokens: int = 4, turn: Annotated[float, Field(help="Angle.", bounds=(0, 7))] = 0.0):
    """Tokens around a circle, of two classes by turns."""
    angles = turn + 2 * np.pi * np.arange(num_tokens) / num_tokens
    inputs = np.stack([np.cos(angles), np.sin(angles)], 1)
    probs = np.full(num_tokens, 1 / num_tokens)
    return engram.Problem(inputs, np.eye(2), probs, (inputs[:, 0] < 0).astype(int))


@register("observable", "entropy", axes=("token",), symbol="H(q)")
def entropy(moment):
    """Entropy of the recall of each token."""
    margins = moment.system.shown(moment.look, "margins")
    q = jax.nn.sigmoid(margins)
    return -q * jnp.log(q) - (1 - q) * jnp.log1p(-q)


@register("observable", "product_norm", symbol="|W|")
def product_norm(moment):
    """The norm of W, whatever it is made of."""
    return jnp.linalg.norm(moment.system.weights(moment.state))


@register("event", "worst")
class Worst(AbstractFold):
    """The largest loss, and when."""

    above: Annotated[float, Field(help="Losses below do not count.", bounds=(0, None))] = 0.0

    def init(self, system, state):
        return {"worst_loss": jnp.zeros(()), "worst_step": jnp.zeros((), int)}

    def update(self, folded, index, moment):
        loss = moment.look.loss
        grows = (loss > folded["worst_loss"]) & (loss > self.above)
        return {
            "worst_loss": jnp.where(grows, loss, folded["worst_loss"]),
            "worst_step": jnp.where(grows, index, folded["worst_step"]),
        }
