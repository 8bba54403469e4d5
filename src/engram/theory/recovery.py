r"""How many associations of Gaussian vectors one step from zero recalls: exact Muon, at finite d and in the limit.

Token x asks for class x; entries of inputs and outputs are independent, of law N(0, 1/d), and N is far above d. Averages are
those of large random matrices; fluctuations of relative size $d^{-1/2}$ are left out. Beyond the paper; the exponents are those
of arXiv 2603.26554.
"""

import functools
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from engram._checks import check_count
from engram._types import Array, ArrayLike, Scalar
from engram.special import bisect
from engram.theory._hypotheses import read, require

_REACH = 45.0  # g further than a factor e^45 below its largest value adds nothing
_OWN = np.linspace(-9, 9, 181)  # a token's own noise, in standard deviations


class Ranks(NamedTuple):
    """Tokens in groups of about the same frequency, `counts` of them in each."""

    probs: Float[Array, " G"]
    counts: Float[Array, " G"]


def zipf_ranks(num_tokens: int, exponent: Scalar, *, apart: int = 300, groups: int = 600) -> Ranks:
    r"""Frequencies $p(x) \propto x^{-a}$ of N tokens, in groups beyond the first `apart`, so that N may be huge."""
    N = check_count("num_tokens", num_tokens)
    first = np.arange(1.0, min(apart, N) + 1)
    edges = np.array([])
    if apart < N:
        edges = np.unique(np.rint(np.geomspace(apart + 1.0, N + 1.0, groups)))
    ranks = np.concatenate([first, np.sqrt(edges[:-1] * (edges[1:] - 1))])
    counts = np.concatenate([np.ones(len(first)), np.diff(edges)])
    weights = ranks ** -float(exponent)
    return Ranks(weights / (counts * weights).sum(), counts)


def muon_signals(probs: ArrayLike, dim: int, counts: ArrayLike = 1.0) -> Float[Array, " G"]:
    r"""Each token's mean score for its own class, $\langle u_x, W_1 e_x \rangle / \eta$, after exact Muon's first step from zero.

    $$\frac2\pi \int_0^\infty \frac{p_x\, g(s)^2}{1 + p_x^2\, g(s)^2}\,ds, \qquad
    1 = s\,g + \frac1d \sum_x \frac{p_x^2 g^2}{1 + p_x^2 g^2}.$$

    Tokens far more frequent than the d-th have 1; far rarer ones about $p_x / p_d$. Descent has $p_x$ in its place.

    Args:
        probs: Frequencies of tokens, or of groups of tokens.
        dim: d, below N.
        counts: How many tokens each frequency stands for.

    Derivation: the polar factor of $G = \sum_x p_x\, u_x \otimes e_x$ is $\frac2\pi \int_0^\infty G (G^\top G + s^2)^{-1} ds$. Let
    $g = \frac sd\, \mathrm{tr}\,(G^\top G + s^2)^{-1}$. Without the token's own term the resolvent of
    $\binom{0\;\;G}{G^\top\,0}$ at $is$ multiplies $u_x$ and $e_x$ by $ig$ and does not mix them, on average; its own term has rank one,
    so a 2 x 2 inverse gives the integrand. Its sum over x with weights $p_x$ is
    $\mathrm{tr}\, G^\top G\,(G^\top G + s^2)^{-1} = d\,(1 - s g)$, which determines g.
    """
    (_, p, n) = read(probs=probs, counts=counts)
    n = np.broadcast_to(n, p.shape)
    d = check_count("dim", dim)
    require(p > 0, "probs > 0", p, "Leave out tokens that never come.")
    require(n.sum() > d, "more tokens than dimensions", n.sum())
    share = lambda log_g: 1 / (1 + np.exp(-2 * (np.log(p)[:, None] + log_g)))  # in (0, 1)
    held = lambda log_g: n @ share(log_g) / d  # 1 - s g
    low, high = (np.atleast_1d(sign * 400 - np.log(p.max())) for sign in (-1, 1))
    with np.errstate(over="ignore"):
        top = bisect(lambda log_g: held(log_g) < 1, low, high)[0]  # where s = 0
        # s falls as g grows, so integrate over log g: s = (1 - held) / g.
        nodes, weights = _gauss()
        log_g = top - _REACH * (1 - nodes) / 2
        q = share(log_g)
    slope = 2 * n @ (q * (1 - q)) / d  # of `held`
    step = weights * _REACH / 2 * (slope + 1 - n @ q / d) * np.exp(top - log_g)  # -e^top ds
    return 2 / np.pi * (q / p[:, None]) @ step * np.exp(-top)


@functools.cache
def _gauss() -> tuple[np.ndarray, np.ndarray]:
    return np.polynomial.legendre.leggauss(400)


def recall_probabilities(signals: ArrayLike, dim: int, num_tokens: int) -> Float[Array, " G"]:
    r"""The probability that a token is recalled if all N scores of a row have noise N(0, 1/d): $\mathrm E\,\Phi(\sqrt d\, s_x + Z)^{N-1}$.

    After Muon's step a row of scores is $\langle u_y, W e_x \rangle$ with $|W e_x| = \eta\,|e_x|$, so classes that it does not know
    of have this noise.
    """
    from scipy.special import log_ndtr

    (_, s) = read(signals=signals)
    d, N = check_count("dim", dim), check_count("num_tokens", num_tokens)
    density = np.exp(-(_OWN**2) / 2) / np.sqrt(2 * np.pi) * (_OWN[1] - _OWN[0])
    return np.exp((N - 1) * log_ndtr(np.sqrt(d) * s[:, None] + _OWN)) @ density


def muon_recall(exponent: Scalar, dim: int, num_tokens: int, among: int | None = None) -> float:
    r"""The mean number of tokens that exact Muon's first step recalls, $p(x) \propto x^{-a}$.

    Fluctuations of relative size $d^{-1/2}$ that are left out count to second order: counts are right to about a share 1/d.

    Args:
        exponent: a.
        dim: d.
        num_tokens: N.
        among: Count only so many, the most frequent ones.
    """
    p, counts = zipf_ranks(num_tokens, exponent)
    q = recall_probabilities(muon_signals(p, dim, counts), dim, num_tokens)
    room = np.inf if among is None else among
    inside = np.clip(room - (np.cumsum(counts) - counts), 0, counts)
    return float(inside @ q)


def noise_quantile(num_tokens: int) -> float:
    r"""$b_N = \Phi^{-1}(1 - 1/N) \sim \sqrt{2 \log N}$: about the largest of N - 1 standard normal numbers."""
    from scipy.special import ndtri

    return float(-ndtri(1 / check_count("num_tokens", num_tokens, least=2)))


def recall_exponent(exponent: Scalar, optimizer: str = "exact_muon") -> float:
    r"""The exponent b of the $d^b$ tokens that one step recalls, up to logarithms: $1 + \frac1{2a}$ for exact Muon, $\frac1{2a}$ for descent.

    A token is recalled if its score exceeds that of the classes it does not ask for. For descent those of frequent tokens have
    $p_1 d^{-1/2}$, and its own is $p_x$. For Muon noise is $d^{-1/2}$, and its own $(d/x)^a$. With logarithms, that is the
    largest of N - 1 normal numbers: $d\,(d / b_N^2)^{1/2a}$ for Muon.

    Args:
        exponent: a above 1/2, so that $\sum_x p_x^2$ converges without the frequencies' scale.
        optimizer: "exact_muon" or "plain".
    """
    require(exponent > 0.5, "exponent > 1/2", exponent)
    return 1 / (2 * float(exponent)) + (optimizer == "exact_muon")
