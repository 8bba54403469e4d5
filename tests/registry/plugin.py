"""What a user's own file looks like: one of each kind, registered."""

from typing import Annotated, Literal

import jax
import jax.numpy as jnp
import numpy as np

import engram
from engram import memory
from engram.dynamics import AbstractFold, AbstractOptimizer, AbstractSampling, AbstractStepwise
from engram.observables import AbstractObservable
from engram.registry import Field, register
from engram.system import AbstractSystem, Look


@register("optimizer", "lion")
class Lion(AbstractOptimizer):
    """Steps along the sign of an average of gradients."""

    learning_rate: Annotated[float, Field(help="Learning rate.", bounds=(0, None))]
    beta: Annotated[float, Field(help="Share of the past.", bounds=(0, None), below=1)] = 0.9

    def init(self, state):
        return jax.tree.map(jnp.zeros_like, state)

    def update(self, gradient, memory, state, index, system):
        average = jax.tree.map(lambda m, g: self.beta * m + (1 - self.beta) * g, memory, gradient)
        return jax.tree.map(lambda m: -self.learning_rate * jnp.sign(m), average), average


@register("sampling", "turns")
class Turns(AbstractSampling):
    """One token after another, `each` steps long."""

    each: int = 1
    order: Literal["up", "down"] = "up"
    is_odd: bool = False

    def law(self, system, inner, index, key):
        N = len(system.law)
        turns = range(N) if self.order == "up" else range(N)[::-1]
        turns = jnp.asarray([*turns][int(self.is_odd) :: 1 + self.is_odd])
        return jax.nn.one_hot(turns[(index // self.each) % len(turns)], N, dtype=float), inner


@register("sampling", "shuffled")
class Shuffled(AbstractSampling):
    """One token after another, in an order that is drawn at the start."""

    needs_key = True

    def init(self, system, key):
        return jax.random.permutation(key, len(system.law))

    def law(self, system, inner, index, key):
        N = len(system.law)
        return jax.nn.one_hot(inner[index % N], N, dtype=float), inner


@register("system", "product")
class Factored(AbstractSystem):
    """W = A B, both factors learnt."""

    problem: engram.Problem
    law: jax.Array
    rank: Annotated[int, Field(help="Columns of A.", bounds=(1, 64))] = 2
    size0: float = 0.1

    def start(self):
        d = self.problem.dim
        eye = jnp.eye(d, self.rank)
        return {"A": self.size0 * eye, "B": self.size0 * eye.T}

    def weights(self, state):
        return state["A"] @ state["B"]

    def scores(self, state):
        return memory.scores(self.problem, self.weights(state))

    def look(self, state, law=None):
        W, law = self.weights(state), self.law if law is None else law
        losses = memory.token_losses(self.problem, W)
        return Look(
            (law * losses).sum(),
            memory.error_rate(self.problem, W),
            memory.margins(self.problem, W),
            losses,
        )

    def grad(self, state, law=None, look=None):
        return jax.grad(self.loss)(state, law)


@register("problem", "fan")
def fan(num_tokens: Annotated[int, Field(help="Tokens.", bounds=(1, 100))], angle: float = 1.0):
    """Tokens spread over an angle, two classes in turn."""
    at = jnp.linspace(0, 1, num_tokens) * angle
    inputs = jnp.stack([jnp.cos(at), jnp.sin(at)], axis=1)
    targets = np.arange(num_tokens) % 2
    return engram.Problem(inputs, np.eye(2), np.full(num_tokens, 1 / num_tokens), targets)


@register("observable", "entropy", axes=("token",), symbol="H(q)")
def entropy(moment):
    """Entropy of the recall of each token."""
    q = moment.system.recall_probs(moment.state)
    return -(q * jnp.log(jnp.where(q > 0, q, 1.0))).sum(axis=1)


@register("observable", "power")
class Power(AbstractObservable):
    """A power of the loss."""

    exponent: float = 2.0

    def __call__(self, moment):
        return moment.look.loss**self.exponent


@register("event", "worst")
class Worst(AbstractFold):
    """The largest loss that any token had, and when."""

    def init(self, system, state):
        return {"worst_loss": jnp.zeros(()), "worst_step": jnp.zeros((), int)}

    def update(self, folded, index, moment):
        worst = moment.look.token_losses.max()
        grows = worst > folded["worst_loss"]
        return {
            "worst_loss": jnp.where(grows, worst, folded["worst_loss"]),
            "worst_step": jnp.where(grows, index, folded["worst_step"]),
        }


@register("dynamics", "polyak")
class Polyak(AbstractStepwise):
    """Descent with the step size L / |grad L|^2."""

    steps: int
    most: float = 100.0

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
