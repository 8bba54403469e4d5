"""C65: spikes of the accuracy, speed, and losses without a minimum."""

from collections.abc import Iterator

import numpy as np

from engram import memory
from engram.audits._evidence import Evidence, all_of, equal, true
from engram.audits._parameters import random_problem, random_weights, rng_for
from engram.audits.claims._checks import Checks
from engram.capacity import is_separable, loss_minimiser
from engram.problem import two_tokens


class C65(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        problem = two_tokens(0.95, 0.75)
        for eta, spikes in ((10.0, True), (1.0, False)):
            W, losses, errors = np.zeros((2, 2)), [], []
            for _ in range(35):
                W = W - eta * memory.grad(problem, W)
                losses.append(memory.loss(problem, W))
                errors.append(memory.error_rate(problem, W))
            top = int(np.argmax(losses))
            yield true((losses[top] > np.log(2)) == spikes, learning_rate=eta)
            yield true(not spikes or errors[top] == 0.25)
        rng = rng_for(seed, "C65")
        for index in range(10):
            problem, W = random_problem(rng, 4, 2, 2), random_weights(rng, 2, 3.0)
            u, G = problem.outputs[1] - problem.outputs[0], memory.grad(problem, W)
            # Along the flow L falls at |∇L|², which is speed times density of level lines in the plane.
            speed, density = np.linalg.norm(u @ G), np.linalg.norm(G) / np.linalg.norm(u)
            yield equal(speed, (u @ u) * density, tolerance=1e-12, model=index)
            yield true(loss_minimiser(problem).exists <= (not is_separable(problem)))
        yield true(loss_minimiser(two_tokens(1.0, 0.75)).exists)
        yield true(not loss_minimiser(two_tokens(0.95, 0.75)).exists)
