"""C17: the loss under descent, bounded from above."""

from collections.abc import Iterator

import numpy as np
from flint import arb, fmpq

from engram import memory
from engram.audits._balls import descent_margins, maximum, softplus
from engram.audits._certificate import Certificate, proof
from engram.audits._claim import Curves
from engram.audits._evidence import Evidence, all_of, at_least, at_most, equal
from engram.audits._parameters import random_problem, rng_for
from engram.audits._runs import flow_token
from engram.audits.claims._checks import Checks
from engram.audits.claims.two_classes._runs import SOLVER, descents, encloses, flows
from engram.audits.claims.two_classes.c15_descent_margin import behind_by, margin
from engram.theory import binary


def loss_bound(seed: int, constant: float, least: float = 0.0) -> Evidence:
    """Token by token, where L(W_t) = sum p(x) ell_x and the bound are both sums over tokens."""
    run = descents(seed)
    run = run.part(run.x[:, 0] >= least, first=1)
    scaled = np.logaddexp(0.0, -run.margins) * run.x * run.steps
    return at_most(scaled, constant, **run.cases)


class C17(Checks):
    def printed(self, seed: int) -> Evidence:
        return loss_bound(seed, 1.0)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        yield loss_bound(seed, binary.LOSS_CONSTANT)
        # Small steps come near the constant, and from x = 2 on the printed 1 is right.
        small = descents(seed).part(descents(seed).x[:, 0] <= 0.01, first=1)
        scaled = np.logaddexp(0.0, -small.margins) * small.x * small.steps
        yield at_least(scaled.max(), binary.LOSS_CONSTANT - 1e-3)
        yield loss_bound(seed, 1.0, least=2.0)
        # The same for whole problems, by `memory` and by the theory's own formulas.
        rng = rng_for(seed, "C17")
        problems = []
        for index in range(4):
            problem = random_problem(rng, 4, 2, 6, orthogonal=True)
            problems.append(problem)
            eta, steps = 10 ** rng.uniform(-1, 1), np.array([1, 3, 10, 30, 100])
            W, losses = np.zeros((6, 6)), []
            for step in range(1, 101):
                W = W - eta * memory.grad(problem, W)
                if step in steps:
                    losses.append(memory.loss(problem, W))
            bound = binary.descent_loss_bound(steps, problem, eta)
            yield at_most(losses, bound, step=steps, model=index)
            mean = (problem.probs / binary.rates(problem)).sum() / (eta * steps)
            yield equal(bound / mean, binary.LOSS_CONSTANT, step=steps, model=index)
            yield at_most(losses, binary.flow_loss(eta * steps, problem), step=steps, model=index)
        # The flow's loss, from its margins by a solver.
        problem = problems[-1]
        times, rates = flows(seed)[2][0], binary.rates(problem)
        ran = problem.probs @ np.logaddexp(0.0, -flow_token(rates, times))
        yield equal(ran, binary.flow_loss(times, problem), tolerance=SOLVER, time=times)

    def certificates(self) -> list[Certificate]:
        m = descent_margins(fmpq(1), 13)[13]
        small = descent_margins(fmpq(1, 100), 1450)[1450]
        scaled = lambda m: (m + m.exp() - 1) * (1 + (-m).exp()).log()
        top = maximum(scaled, fmpq(0), fmpq(40), (fmpq(24, 10), fmpq(27, 10)))
        # L x t > 1 once y < x t - 1/2, since 1/(e^z - 1) > 1/z - 1/2.
        when = behind_by(fmpq(199, 100), fmpq(1, 2))
        return [
            Certificate("N = 2, p = (1/2, 1/2), c_x = 1, η = 1, t = 13: L(W_t) ≤ 1/t", softplus(-m), "<=", fmpq(1, 13)),
            Certificate("ηc = 1/100, t = 1450: L ηct ≤ 1", softplus(-small) * fmpq(1450, 100), "<=", fmpq(1)),
            proof("C* = max of (m + e^m − 1) log(1 + e^(−m)) over [0, 40], by subdivision: below 1.0794346856", top, "<", fmpq(10794346856, 10**10)),
            proof("and above 1.0794346855", top, ">", fmpq(10794346855, 10**10)),
            *encloses(binary.LOSS_CONSTANT, top),
            proof("m > 40: at most 1 + m e^(−m) < 1.0001", 1 + 40 * arb(-40).exp(), "<", fmpq(10001, 10000)),
            proof("ηc = 1.99: the constant 1 has failed before t = 10^100, by the same deficit", when, "<", arb(10) ** 100),
        ]  # fmt: skip

    def curves(self) -> Curves:
        t = np.unique(np.geomspace(1, 20000, 200).astype(int))
        loss, flat = np.logaddexp(0, -margin(0.1, t)), np.ones(len(t))
        series = {"true": loss * 0.1 * t, "printed": flat, "corrected": binary.LOSS_CONSTANT * flat}
        title = "ηct · loss of one token (ηc = 1/10)"
        return Curves(title, ("step", t), series, "ηct · loss", log_x=True)
