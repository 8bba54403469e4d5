"""C22: Theorem 3: the direction of the weights."""

import functools
from collections.abc import Iterator

import numpy as np

from engram import memory
from engram.audits._evidence import Evidence, all_of, at_least, at_most, equal
from engram.audits._parameters import rng_for
from engram.audits._runs import flow_classes
from engram.audits.claims._checks import Checks
from engram.audits.claims.many_classes._runs import SOLVER, TIMES
from engram.capacity import max_margin
from engram.problem import Problem, orthonormal
from engram.theory import multiclass


@functools.lru_cache(maxsize=2)
def _limits(seed: int) -> tuple[Problem, np.ndarray, np.ndarray, np.ndarray]:
    """Three tokens, three classes, a random start: the whole W_t, put together from its tokens."""
    rng = rng_for(seed, "C22")
    problem = orthonormal(3, 3, dim=4, probs=[0.7, 0.2, 0.1], targets=[0, 1, 1], key=seed)
    start = rng.normal(size=(4, 4)) * 2
    E, U = problem.inputs, problem.outputs
    order = np.array([[y, *np.delete(np.arange(3), y)] for y in problem.targets])
    first = np.einsum("xid,de,xe->xi", U[order], start, E)
    w = flow_classes(problem.probs, first, TIMES)
    moved = np.einsum("xti,xid,xe->tde", w - first[:, None], U[order], E)
    late = TIMES >= 1e3
    return problem, start, TIMES[late], start + moved[late]


class C22(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        problem, start, times, W = _limits(seed)
        D = multiclass.limit_direction(problem)
        # W_t - log(t) D stays near what the asymptote has at t = 1: bounded, so the direction is D.
        rest = np.linalg.norm(W - np.log(times)[:, None, None] * D, axis=(1, 2))
        bound = np.linalg.norm(multiclass.asymptotic_weights(1.0, problem, start))
        yield at_most(rest[-8:], 1.05 * bound, time=times[-8:])
        cosine = np.einsum("tij,ij->t", W, D) / np.sqrt((W**2).sum((1, 2)) * (D**2).sum())
        yield at_least(np.diff(cosine), 0.0, time=times[1:])
        wrong = np.arange(3)[None, :] != problem.targets[:, None]
        yield equal(memory.class_margins(problem, D)[wrong], 1.0, tolerance=1e-12)
        yield equal(max_margin(problem), D, tolerance=1e-6)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        """W_t against its asymptote, with the error's own rate t^(-1/M)."""
        problem, start, times, W = _limits(seed)
        asymptote = np.stack([multiclass.asymptotic_weights(t, problem, start) for t in times])
        error = np.abs(W - asymptote).max((1, 2)) * times ** (1 / 3)
        yield at_most(error[-1], 1.2 * error[-3], time=times[-1])
        # The error's rate itself, far beyond any solver, from the exact implicit solution.
        far = np.exp(np.array([40.0, 60.0, 80.0]))
        w = multiclass.flow_scores_from(far, 1.0, [0.3, 1.0, -2.0])
        rest = np.abs(w[:, :1] - w[:, 1:] - np.log(3 * far)[:, None]).max(1) * far ** (1 / 3)
        yield equal(rest[1:] / rest[0], 1.0, tolerance=1e-3, time=far[1:])
        four = np.array([0.3, 1.0, -2.0, 0.5])
        ran, solved = flow_classes(np.ones(1), four[None], TIMES)[0], multiclass.flow_scores_from(TIMES, 1.0, four)  # fmt: skip
        yield equal(solved, ran, tolerance=SOLVER, time=TIMES[:, None])
        even = multiclass.flow_scores_from(TIMES, 1.0, np.zeros(4))
        yield equal(multiclass.flow_scores(TIMES, 1.0, 4), even, tolerance=1e-9)
