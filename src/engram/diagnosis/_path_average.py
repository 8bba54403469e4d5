"""Who pushed whom between the records of a recording, of which nothing but weights is known.

Where the inputs are linearly independent, the change of W says it by itself: it is a sum of one column times
e_x for each token, in one way only, however many steps, batches and other parts of a model made it. What lies
outside of their span is the remainder.

Otherwise the change of W between two records is fitted by the gradients at both, with one weight each that is
not negative. Both gradients are sums over tokens, and so is the fit. One plain step is met exactly, by the
first gradient alone. Many steps are met by an average along the path. Where the loop's own gradients were
recorded, those are fitted, and what they have beyond the gradient of the memory is the noise: that of
batches, and what the rest of a model adds. What is not met is the remainder.

Batches hold some tokens more often than others. Noise and remainder are therefore fitted once more, by each
token's part of the first gradient with a weight of its own: one plain step on a batch is met exactly by that.
It counts only where it meets most of them, and where W has many more entries than there are tokens, since so
many weights would meet a part of anything.
"""

import functools
from typing import NamedTuple

import numpy as np
import xarray as xr

from engram import memory, particles
from engram._checks import InputError
from engram._memory_limits import check_fits
from engram.diagnosis._pushes import Moment, Pushes, output_gaps, pushes_of, strongest_rivals
from engram.diagnosis._recording import problem_at
from engram.memory import MemorySystem
from engram.problem import Problem
from engram.simulation import stored_problem

_BY_SPAN = (
    "the change of W itself: inputs are linearly independent, so that it has one part per token"
)
_BY_FIT = (
    "a path average: gradients at the records, weighted so that their sum fits the change of W best"
)
_PER_TOKEN = 4  # entries of W for each token, at least, if its weight is to be its own
_MOST_TOKENS = 4096  # that have one
_MOST = 0.5  # of noise or remainder, in squares, that must be met
_RIDGE = 1e-9  # of the largest part of a gradient: smaller ones hardly count
_LEAST = (
    1e-4  # smallest singular value of independent inputs, over the largest: weights may be float32
)


class _End(NamedTuple):
    """One record: problem and weights, what each token asks for by class, the gradient, the loop's."""

    problem: Problem
    W: np.ndarray
    pull: np.ndarray
    gradient: np.ndarray
    recorded: np.ndarray | None


class RecordFollower:
    """Says what changed the margins between two records; in a path it stands for the dynamics.

    Args:
        run: A recording.
    """

    counts_time = False

    def __init__(self, run: xr.Dataset):
        self.problem: Problem = stored_problem(run)
        self.system: MemorySystem = MemorySystem(self.problem)
        if "weights" not in run or run["weights"].dims[0] != "step":
            raise InputError(
                "`run` must hold the weights of its records, and lacks `weights` by step. Give what "
                "`Recorder.dataset`, `open_recording` or `analyse` returned."
            )
        self.steps: np.ndarray = run["step"].values
        N, M = self.problem.num_tokens, self.problem.num_classes
        check_fits(8 * (6 * N * M + 7 * N * N), num_tokens=N, num_classes=M)
        self._run = run

    def before(self, step: float) -> float:
        """The recorded step before another."""
        return float(self.steps[max(int(np.searchsorted(self.steps, step)) - 1, 0)])

    def after(self, step: float) -> float:
        """The recorded step after another."""
        later = self.steps[self.steps > step]
        if not len(later):
            raise InputError(
                f"`at` must be before the last record, {self.steps[-1]}, got {step:g}."
            )
        return float(later[0])

    def sharpness(self, step: float) -> float:
        """The largest eigenvalue of the Hessian at a recorded step."""
        end = self._end(self._place("first", step))
        return float(memory.sharpness(end.problem, end.W))

    def learning_rate(self, step: float) -> float:
        """What the loop reported at a recorded step, if it did."""
        if "learning_rate" not in self._run:
            return np.nan
        return float(self._run["learning_rate"][self._place("first", step)])

    def between(self, first: float, last: float, rival: Moment = "first") -> Pushes:
        """What changed the margins from one recorded step to another."""
        i, j = self._place("first", first), self._place("last", last)
        if i >= j:
            raise InputError(
                f"`between` must be two recorded steps in their order, got {first:g} and {last:g}."
            )
        here = start = self._end(i)
        before = _against(here)
        after = _against(self._end(j))
        rivals = strongest_rivals(self.system, before if rival == "first" else after)
        push, noise, moved = np.zeros((len(before), len(before))), *np.zeros((2, len(before)))
        met, coefficients = np.zeros_like(here.W), np.zeros_like(before)
        for k in range(i + 1, j + 1):
            there = self._end(k)
            middle = problem_at(here.problem, *_mean_embeddings(here.problem, there.problem))
            share = _by_span(here, there, middle) if self._is_independent else _by_fit(here, there)
            push += pushes_of(middle, rivals, share.coefficients)
            gaps, E = output_gaps(middle, rivals), np.asarray(middle.inputs)
            noise += (gaps * (E @ share.noise.T)).sum(axis=1)
            moved += _moved(here, there, middle, rivals)
            met += share.met
            coefficients += share.coefficients
            here = there
        change = here.W - start.W
        size = np.square(change).sum()
        losses_of = lambda end: np.asarray(memory.token_losses(end.problem, end.W))
        return Pushes(
            push,
            np.zeros(len(before)),
            noise,
            before,
            after,
            rivals,
            np.asarray(self.problem.probs),
            None if self._is_moving else coefficients,
            (losses_of(start), losses_of(here)),
            embeddings=moved if self._is_moving else None,
            method=_BY_SPAN if self._is_independent else _BY_FIT,
            fit=float(1 - np.square(change - met).sum() / size) if size else np.nan,
        )

    @functools.cached_property
    def _is_independent(self) -> bool:
        """Whether no input is, or nearly is, a sum of others."""
        sizes = np.linalg.svd(self.problem.inputs, compute_uv=False)
        return self.problem.num_tokens <= self.problem.dim and sizes[-1] > _LEAST * sizes[0]

    @property
    def _is_moving(self) -> bool:
        return "inputs" in self._run or "outputs" in self._run

    def _place(self, name: str, step: float) -> int:
        place = int(np.searchsorted(self.steps, step))
        if place == len(self.steps) or self.steps[place] != step:
            near = self.steps[max(place - 1, 0) : place + 1]
            raise InputError(
                f"`between` must be recorded steps, got {step:g} as the {name}. Recorded next to it: "
                f"{', '.join(map(str, near))}."
            )
        return place

    def _end(self, record: int) -> _End:
        read = lambda name: (
            np.asarray(self._run[name][record], float) if name in self._run else None
        )
        problem, W = problem_at(self.problem, read("inputs"), read("outputs")), read("weights")
        if W is None or not np.isfinite(W).all():
            raise InputError(
                f"`between` must be records with finite weights, got step {self.steps[record]} with others. "
                "Choose earlier ones."
            )
        pull = np.asarray(particles.score_grad(problem, memory.scores(problem, W)))
        gradient = np.asarray(problem.outputs).T @ pull.T @ np.asarray(problem.inputs)
        recorded = read("gradients")
        if recorded is not None and not np.isfinite(recorded).all():
            recorded = None  # not given at this one
        return _End(problem, W, pull, gradient, recorded)


class _Share(NamedTuple):
    """What tokens did between two records: coefficients by class, what else moved W, and both together."""

    coefficients: np.ndarray
    noise: np.ndarray
    met: np.ndarray


def _by_span(here: _End, there: _End, middle: Problem) -> _Share:
    """The change of W as a sum over tokens, each in the direction of its input."""
    E, U = np.asarray(middle.inputs), np.asarray(middle.outputs)
    columns = np.linalg.lstsq(E.T, (there.W - here.W).T, rcond=None)[0]
    coefficients = np.linalg.lstsq(U.T, columns.T, rcond=None)[0].T
    # What no sum of outputs makes up moves no score.
    return _Share(coefficients, np.zeros_like(here.W), columns.T @ E)


def _by_fit(here: _End, there: _End) -> _Share:
    """The gradients at both ends, weighted: those of the loop where they are known."""
    a, b = here.recorded, there.recorded
    if a is None or b is None:
        a, b = here.gradient, there.gradient
    first, second = _fit(a, b, there.W - here.W)
    met = -(first * a + second * b)
    coefficients = -(first * here.pull + second * there.pull)
    noise = met + first * here.gradient + second * there.gradient
    if not _PER_TOKEN * len(here.pull) <= met.size or len(here.pull) > _MOST_TOKENS:
        return _Share(coefficients, noise, met)
    weights, parts = _fit_tokens(here, np.stack([noise, there.W - here.W - met]))
    return _Share(
        coefficients + weights.sum(axis=0)[:, None] * here.pull, noise - parts[0], met + parts[1]
    )


def _fit_tokens(here: _End, changes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights of the tokens' parts of a gradient that meet most of each change, if any do; and their sums."""
    E, Q = np.asarray(here.problem.inputs), here.pull @ np.asarray(here.problem.outputs)
    products = (Q @ Q.T) * (E @ E.T)  # of parts, which are outer products
    largest = products.diagonal().max()
    if largest == 0:
        return np.zeros((len(changes), len(Q))), np.zeros_like(changes)
    products[np.diag_indices_from(products)] += _RIDGE * largest
    along = np.einsum("nk,ckd,nd->cn", Q, changes, E, optimize=True)
    weights = np.linalg.solve(products, along.T).T
    parts = np.einsum("cn,nk,nd->ckd", weights, Q, E, optimize=True)
    left, whole = (np.square(x).sum(axis=(1, 2)) for x in (changes - parts, changes))
    is_met = left < (1 - _MOST) * whole
    return weights * is_met[:, None], parts * is_met[:, None, None]


def _against(end: _End) -> np.ndarray:
    return np.asarray(memory.class_margins(end.problem, end.W))


def _fit(first: np.ndarray, second: np.ndarray, change: np.ndarray) -> np.ndarray:
    """Weights a, b >= 0 for which -(a first + b second) is closest to a change."""
    from scipy.optimize import nnls  # loads for half a second

    columns = np.stack([-first.ravel(), -second.ravel()], axis=1)
    sizes = np.linalg.norm(columns, axis=0)
    Q, R = np.linalg.qr(columns / np.where(sizes > 0, sizes, 1.0))
    weights, _ = nnls(R, Q.T @ change.ravel())
    return np.where(sizes > 0, weights / np.where(sizes > 0, sizes, 1.0), 0.0)


def _mean_embeddings(a: Problem, b: Problem) -> tuple[np.ndarray, np.ndarray]:
    return (np.asarray(a.inputs) + b.inputs) / 2, (np.asarray(a.outputs) + b.outputs) / 2


def _moved(a: _End, b: _End, middle: Problem, rivals: np.ndarray) -> np.ndarray:
    """What moving embeddings did to the margins: the other factors are taken at their means."""
    W, E = (a.W + b.W) / 2, np.asarray(middle.inputs)
    gaps = output_gaps(b.problem, rivals) - output_gaps(a.problem, rivals)
    steps = np.asarray(b.problem.inputs) - a.problem.inputs
    return (gaps * (E @ W.T)).sum(axis=1) + (output_gaps(middle, rivals) * (steps @ W.T)).sum(
        axis=1
    )
