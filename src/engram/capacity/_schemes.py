"""What outer products recall of heavy-tailed data, beside the best W that stores the most frequent tokens."""

from typing import Literal, get_args

import numpy as np

from engram._checks import InputError, check_choice
from engram._types import ArrayLike
from engram.capacity._curve import num_stored

Scheme = Literal["frequency", "threshold", "separate"]


def storage_error(
    inputs: ArrayLike,
    outputs: ArrayLike,
    targets: ArrayLike,
    scheme: Scheme,
    *,
    exponent: float = 2.0,
) -> float:
    r"""The error of one way to store infinitely many tokens of frequency $p(x) \propto x^{-a}$, x = 1, 2, ...

    Args:
        inputs: The first tokens' embeddings; those after them count as wrong with probability 1 - 1/M.
        outputs: The classes' embeddings.
        targets: The tokens' classes.
        scheme: $W = \sum_x q(x)\,u_{f^*(x)} \otimes e_x$ with q = p ("frequency"), or with q = 1 for the
            first P tokens, for the best P ("threshold"); or a W that recalls as many of the first
            tokens as any does ("separate").
        exponent: The exponent a > 1.

    Schemes and their exponents: Cabannes, Dohmatob and Bietti, arXiv 2310.02984.
    """
    from scipy.special import zeta

    check_choice("scheme", scheme, get_args(Scheme))
    if not exponent > 1:
        raise InputError(f"`exponent` must be above 1, got {exponent}.")
    E, U, y = np.asarray(inputs, float), np.asarray(outputs, float), np.asarray(targets)
    N, chance = len(E), 1 - 1 / len(U)
    p = np.arange(1.0, N + 1) ** -exponent / zeta(exponent)
    beyond = lambda P: chance * zeta(exponent, P + 1.0) / zeta(exponent)
    if scheme == "separate":
        return float(beyond(num_stored(E, U, y)))

    def error(q: np.ndarray) -> float:
        P = len(q)
        scores = np.linalg.multi_dot([E[:P], E[:P].T * q, U[y[:P]], U.T])
        wrong = scores.argmax(1) != y[:P]
        return float(p[:P] @ wrong + beyond(P))

    if scheme == "frequency":
        return error(p)
    counts = np.unique(np.geomspace(1, N, 40).astype(int))
    return min(error(np.ones(P)) for P in counts)


def outer_product_errors(
    inputs: ArrayLike, outputs: ArrayLike, targets: ArrayLike, weights: ArrayLike, probs: ArrayLike
) -> np.ndarray:
    r"""The errors of $W = \sum_x q(x)\,u_{f^*(x)} \otimes e_x$, of one memory or of many at once.

    Args:
        inputs: Embeddings of the tokens, shape (..., N, d).
        outputs: Embeddings of the classes, shape (..., M, d).
        targets: The tokens' classes, shape (N,).
        weights: q, shape (..., N).
        probs: How often each token comes, shape (N,).
    """
    E, U, q = np.asarray(inputs, float), np.asarray(outputs, float), np.asarray(weights, float)
    y = np.asarray(targets)
    is_class = y[None, :] == np.arange(U.shape[-2])[:, None]
    # What W makes of tokens in each class first: M x d numbers, instead of d x d.
    sums = (is_class * q[..., None, :]) @ E
    scores = (E @ np.swapaxes(sums, -1, -2)) @ (U @ np.swapaxes(U, -1, -2))
    return (scores.argmax(-1) != y) @ np.asarray(probs, float)
