"""What does a system of one's own change about spikes and forgetting? One more line of the study `tasks`."""

import jax.numpy as jnp

import engram
from engram.particles import AbstractReadout
from engram.problem import Problem
from engram.registry import register


@register("system", "capped")
class Capped(AbstractReadout):
    """Scores that saturate at 8, smoothly."""

    problem: Problem
    law: object

    def __init__(self, problem):
        self.problem, self.law = problem, problem.law

    def scores(self, state):
        E, U = jnp.asarray(self.problem.inputs), jnp.asarray(self.problem.outputs)
        return 8 * jnp.tanh(E @ (U @ state).T / 8)

    def start(self):
        return jnp.asarray(self.problem.zero_weights)


systems = [{"label": "W"}, {"label": "capped scores", "system": {"kind": "capped"}}]
result = engram.study("tasks", tiny=True, systems=systems)
for finding in result.findings[-2:]:
    print(finding)
