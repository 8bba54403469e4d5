"""How often the minimiser of the cross-entropy forgets the most frequent token, over random embeddings."""

from collections.abc import Callable

import numpy as np
import xarray as xr

from engram._checks import InputError, check_count, check_scalar, read_array
from engram._types import ArrayLike, Scalar
from engram.capacity._calibration import forgotten_tokens
from engram.capacity._minimiser import loss_minimiser
from engram.problem import Problem, zipf


def forgetting_rate(
    num_tokens: ArrayLike,
    dim: ArrayLike,
    *,
    num_classes: int = 2,
    exponent: Scalar = 1.0,
    draws: int = 200,
    key: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> xr.Dataset:
    r"""The share of random memories whose most frequent token is lost where the loss is least.

    Embeddings are uniform on the sphere, $f^*(x) = x$ mod M and $p(x) \propto x^{-a}$. Draw k comes from
    `numpy.random.default_rng((key, N, d, k))`, inputs first, and does not depend on what else is drawn.

    Args:
        num_tokens: N, one or several.
        dim: d, one or several.
        num_classes: M.
        exponent: The exponent a of Zipf's law.
        draws: How many memories to draw for each N and d.
        key: A seed, not negative.
        progress: Called with the draws done and the draws in all.

    Returns:
        A dataset over ("num_tokens", "dim"): `rate`, with the 95 % Wilson interval `low` to `high` (which
        has a width where the rate is 0 or 1, unlike the binomial standard error); `any_rate`, the share in
        which any token is lost; `num_unsolved`, the draws whose minimiser was not certified. They are
        in none of the shares.

    Paper: fig:forgetting.
    """
    N, d = _counts("num_tokens", num_tokens), _counts("dim", dim)
    check_count("num_classes", num_classes, least=2)
    check_count("draws", draws)
    check_count("key", key, least=0)
    exponent = check_scalar("exponent", exponent)
    cells = [(i, j, k) for i in range(len(N)) for j in range(len(d)) for k in range(draws)]
    likeliest, some, unsolved = np.zeros((3, len(N), len(d)), int)
    for done, (i, j, k) in enumerate(cells):
        forgotten = _forgotten(_draw(key, N[i], num_classes, d[j], k, exponent))
        unsolved[i, j] += forgotten is None
        likeliest[i, j] += forgotten is not None and forgotten[0]
        some[i, j] += forgotten is not None and forgotten[1]
        if progress is not None:
            progress(done + 1, len(cells))

    solved = draws - unsolved
    low, high = _wilson(likeliest, solved)
    share = lambda count: np.where(solved > 0, count / np.maximum(solved, 1), np.nan)
    named = {
        "rate": (share(likeliest), "share of draws in which the most frequent token is forgotten"),
        "low": (low, "lower end of the 95 % Wilson interval of the rate"),
        "high": (high, "upper end of the 95 % Wilson interval of the rate"),
        "any_rate": (share(some), "share of draws in which some token is forgotten"),
        "num_unsolved": (unsolved, "draws without a certified minimiser, left out"),
    }
    axes = ("num_tokens", "dim")
    return xr.Dataset(
        {name: (axes, values, {"long_name": says}) for name, (values, says) in named.items()},
        {
            "num_tokens": ("num_tokens", N, {"long_name": "number of tokens", "symbol": "N"}),
            "dim": ("dim", d, {"long_name": "dimension", "symbol": "d"}),
        },
        {"num_classes": num_classes, "exponent": exponent, "draws": draws, "key": key},
    )


def _counts(name: str, values: ArrayLike) -> list[int]:
    counts = np.atleast_1d(read_array(name, values)).tolist()
    if not counts:
        raise InputError(f"`{name}` must not be empty, got {counts}. Give one number or several.")
    return [check_count(name, count) for count in counts]


def _draw(key: int, N: int, M: int, d: int, k: int, exponent: float) -> Problem:
    # As `on_sphere`, which recompiles for each N and d; that takes longer than all draws of a cell.
    rows = np.random.default_rng((key, N, d, k)).normal(size=(N + M, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return Problem(rows[:N], rows[N:], zipf(N, exponent), np.arange(N) % M)


def _forgotten(problem: Problem) -> tuple[bool, bool] | None:
    """Whether the most frequent token is forgotten, and whether any is; None if not certified."""
    p = np.asarray(problem.probs)
    try:
        best = loss_minimiser(problem)
    except ArithmeticError:  # a linear program that did not end
        return None
    # Small beside the rarest token's share of the gradient and of the loss: that token is settled too.
    rarest = p[p > 0].min()
    if not (best.grad_norm <= 1e-6 * rarest and best.decrement <= 1e-6 * np.sqrt(rarest)):
        return None
    forgotten = forgotten_tokens(problem, best)
    return bool(p.argmax() in forgotten), len(forgotten) > 0


def _wilson(count: np.ndarray, total: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's score interval of a share: the p from which the count is at most z standard deviations off."""
    z = 1.959964  # 95 %
    middle = count + z**2 / 2
    spread = z * np.sqrt(count * (total - count) / np.maximum(total, 1) + z**2 / 4)
    low, high = (middle - spread) / (total + z**2), (middle + spread) / (total + z**2)
    return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
