"""How many tokens random memories store, drawn one after another until they do not fit."""

import functools
import threading
from collections.abc import Callable

import numpy as np
import xarray as xr
from threadpoolctl import ThreadpoolController

from engram._checks import InputError, brief, check_choice, check_count, check_floats, read_array
from engram._memory_limits import check_fits
from engram._types import ArrayLike
from engram.capacity._newton import decide
from engram.capacity._separability import separate
from engram.problem import Problem
from engram.theory import scaling

_RESAMPLES = 2000
# Of two limits that overlap, the second would in the end restore what the first had set.
_ONE_LIMIT = threading.Lock()


@functools.cache
def _blas() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401  loads the library that it uses

    return ThreadpoolController()


def num_stored(inputs: ArrayLike, outputs: ArrayLike, targets: ArrayLike | None = None) -> int:
    """How many of the first tokens some W recalls, all of them at once; by bisection, since fewer are easier.

    Where neither Newton's method nor a linear program of 20 s decides, the tokens count as too many. That has
    happened at the edge itself only, one draw in some forty at d = 30, where it is worth about one token.

    Args:
        inputs: The tokens' embeddings.
        outputs: The classes' embeddings.
        targets: The tokens' classes. None if token x is to recall class x, and there are as many classes as
            tokens: then N tokens compete with N classes.
    """
    E = check_floats("inputs", inputs, ndim=2, axes="(N, d)")
    U = check_floats("outputs", outputs, ndim=2, axes="(M, k)")
    y = np.arange(len(E)) if targets is None else read_array("targets", targets)
    if y.shape != (len(E),) or (targets is None and len(E) > len(U)):
        raise InputError(
            f"{len(E)} tokens need a class each, got {y.size} targets and {len(U)} outputs."
        )
    if y.dtype.kind not in "iu" or y.min() < 0 or y.max() >= len(U):
        raise InputError(
            f"`targets` must be whole numbers from 0 to {len(U) - 1}, got {brief(targets)}. There are "
            f"{len(U)} outputs."
        )
    _check_memory(min(E.shape), min(U.shape))

    def fits(N: int) -> bool:
        classes = U[:N] if targets is None else U
        if N < 2 or len(classes) < 2:
            return True
        answer = decide(E[:N], classes, y[:N])
        if answer is None:  # at the very edge, and for classes without tokens
            problem = Problem(E[:N], classes, np.full(N, 1 / N), y[:N])
            answer = separate(problem, time_limit=20.0).is_separable or False
        return answer

    guess = int(scaling.capacity(E.shape[1], None if targets is None else len(U)))
    low, high, stride = 0, len(E) + 1, max(guess // 25, 1)
    trial = min(max(guess, 1), len(E))
    # The threads of BLAS wait for one another at these sizes.
    with _ONE_LIMIT, _blas().limit(limits=1, user_api="blas"):
        while high - low > 1:
            if fits(trial):
                low = trial
            else:
                high = trial
            # Out from the guess until both sides are known, then halves.
            if low == 0:
                trial, stride = max(high - stride, 1), 2 * stride
            elif high > len(E):
                trial, stride = min(low + stride, len(E)), 2 * stride
            else:
                trial = (low + high) // 2
    return low


def _check_memory(d: int, k: int) -> None:
    """Refuse tokens and classes of these ranks if their Hessian, its factor and two sums would not fit."""
    check_fits(4 * 8 * (k * d) ** 2, dim=max(d, k))


def capacity_curve(
    dims: ArrayLike,
    *,
    num_classes: int | None = None,
    draws: int = 100,
    key: int = 0,
    embeddings: str = "sphere",
    progress: Callable[[int, int], None] | None = None,
) -> xr.Dataset:
    r"""How many tokens random memories store, by dimension: each draw, and the N that half of them store.

    Tokens, with classes, are drawn one after another until no W recalls them all; so each draw has one
    exact answer, and the share of draws that store N falls with N. Draw k of dimension d comes from
    `numpy.random.default_rng((key, d, k, ...))` and does not depend on what else is drawn.

    Args:
        dims: d, one or several.
        num_classes: M classes with targets drawn uniformly; None for M = N, token x recalling class x.
        draws: How many memories to draw for each d.
        key: A seed, not negative.
        embeddings: "sphere" for unit vectors, "gaussian" for normal ones, of inputs and outputs.
        progress: Called with the draws done and the draws in all.

    Returns:
        A dataset over "dim" and "draw": `stored`; the 50 % point `half` with the 95 % interval `low` to
        `high` (bootstrap over draws), from a logistic curve; and `law`, `theory.scaling.capacity`.
    """
    dims = [check_count("dims", int(d)) for d in np.atleast_1d(np.asarray(dims))]
    check_count("draws", draws)
    check_count("key", key, least=0)
    check_choice("embeddings", embeddings, ("sphere", "gaussian"))
    for d in dims:
        _check_memory(d, min(d, num_classes or d))
    stored = np.zeros((len(dims), draws), int)
    for i, d in enumerate(dims):
        for k in range(draws):
            stored[i, k] = num_stored(*_draw(key, d, k, num_classes, embeddings == "sphere"))
            if progress is not None:
                progress(i * draws + k + 1, len(dims) * draws)
    half = half_points(stored, np.random.default_rng(key))
    law = [scaling.capacity(d, num_classes) for d in dims]
    named = {
        "stored": (("dim", "draw"), stored, "tokens that a draw stores"),
        "half": ("dim", half[:, 0], "number of tokens that half of the draws store"),
        "low": ("dim", half[:, 1], "lower end of its 95 % interval over draws"),
        "high": ("dim", half[:, 2], "upper end of its 95 % interval over draws"),
        "law": ("dim", law, "number of tokens by the law of cones"),
    }
    return xr.Dataset(
        {name: (axes, values, {"long_name": says}) for name, (axes, values, says) in named.items()},
        {"dim": ("dim", dims, {"long_name": "dimension", "symbol": "d"})},
        {"num_classes": num_classes or "as many as tokens", "embeddings": embeddings, "key": key},
    )


def _draw(key: int, d: int, k: int, M: int | None, on_sphere: bool) -> tuple:
    # Twice what is expected is never reached; rows of a longer table begin with those of a shorter one.
    most = 2 * int(scaling.capacity(d, M)) + 20
    rows = [
        np.random.default_rng((key, d, k, which)).normal(size=(n, d))
        for which, n in enumerate((most, M or most))
    ]
    if on_sphere:
        rows = [r / np.linalg.norm(r, axis=1, keepdims=True) for r in rows]
    if M is None:
        return *rows, None
    return *rows, np.random.default_rng((key, d, k, 2)).integers(0, M, most)


def half_points(stored: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    r"""The 50 % point of each row and its 95 % interval, shape (rows, 3), by bootstrap over the draws.

    A draw that stores n fails between n and n + 1. The centre of a logistic distribution with the variance
    of the draws is the $\mu$ at which $\sum_k \tanh\frac{n_k + 1/2 - \mu}{2s} = 0$.
    """
    answers = []
    for row in stored + 0.5:
        samples = np.vstack([row, rng.choice(row, (_RESAMPLES, len(row)))])
        scale = 2 * np.sqrt(3) / np.pi * np.maximum(samples.std(1, keepdims=True), 0.25)
        low, high = samples.min(1, keepdims=True), samples.max(1, keepdims=True)
        for _ in range(40):
            middle = (low + high) / 2
            is_below = np.tanh((samples - middle) / scale).sum(1, keepdims=True) > 0
            low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
        centre = low[:, 0]
        answers.append((centre[0], *np.quantile(centre[1:], (0.025, 0.975))))
    return np.array(answers)
