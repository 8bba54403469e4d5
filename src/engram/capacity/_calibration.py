"""How far minimising the cross-entropy is from minimising errors; and how much random memories hold."""

from typing import NamedTuple

import numpy as np

from engram._checks import InputError, check_count
from engram._types import ArrayLike, Numbers
from engram.capacity._least_error import LeastError, min_error
from engram.capacity._minimiser import LossMinimiser, loss_minimiser
from engram.problem import Problem


class Calibration(NamedTuple):
    """The excess risk: the 0-1 loss of the loss's minimiser less the smallest 0-1 loss.

    Args:
        excess: Their difference, zero where the cross-entropy is calibrated.
        error: The 0-1 loss where the loss is least (far out along the direction, if at infinity).
        forgotten: The tokens that the minimiser does not recall.
        minimiser: Where the loss is least.
        least: The smallest 0-1 loss.
    """

    excess: float
    error: float
    forgotten: np.ndarray
    minimiser: LossMinimiser
    least: LeastError


def calibration(problem: Problem, *, max_programs: int = 5000) -> Calibration:
    """The excess risk of cross-entropy on a problem, and which tokens its minimiser forgets.

    Paper: fig:forgetting.
    """
    best = loss_minimiser(problem)
    least = min_error(problem, max_programs=max_programs)
    forgotten = forgotten_tokens(problem, best)
    error = float(problem.probs[forgotten].sum())
    return Calibration(error - least.error, error, forgotten, best, least)


def forgotten_tokens(problem: Problem, best: LossMinimiser) -> np.ndarray:
    """The tokens that occur and have no positive margin where the loss is least."""
    m = _class_margins(problem, best.weights)
    if best.direction is not None:
        # At infinity the direction decides, class by class; what it leaves at zero the rest decides.
        far = _class_margins(problem, best.direction)
        m = np.where(np.abs(far) > 1e-9 * np.abs(far).max(), np.where(far > 0, np.inf, -np.inf), m)
    m[np.arange(len(m)), problem.labels] = np.inf
    return np.flatnonzero((m.min(1) <= 0) & (np.asarray(problem.probs) > 0))


def _class_margins(problem: Problem, W: ArrayLike) -> np.ndarray:
    """`memory.class_margins`, which would compile a program for each shape."""
    w = np.asarray(problem.inputs) @ np.asarray(W).T @ np.asarray(problem.outputs).T
    return w[np.arange(len(w)), problem.labels][:, None] - w


def storage_probability(num_tokens: ArrayLike, dim: int) -> Numbers:
    r"""Cover's count: the probability $2^{1-N} \sum_{k<d} \binom{N-1}{k}$ that N random labels can be stored.

    Two classes, inputs in general position in d dimensions. Half of all labellings at N = 2d.

    Paper: Section 5.1, "about d memories", for two classes.
    """
    check_count("dim", dim)
    N = np.asarray(num_tokens)
    if N.dtype.kind not in "iu" or (N < 1).any():
        raise InputError(f"`num_tokens` must be whole numbers of at least 1, got {num_tokens!r}.")
    from scipy.special import bdtr  # loads for a quarter of a second

    return bdtr(np.minimum(dim - 1, N - 1), N - 1, 0.5)  # a binomial's distribution function
