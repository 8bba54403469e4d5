r"""How much a memory of dimension d holds, and how its error falls with d: laws beyond the paper.

A W has $D = d \min(d, M - 1)$ parameters that margins depend on. A random subspace of dimension D meets a
product of N cones $C = \{v : v_1 > v_j\}$ of M coordinates with a probability that falls from 1 to 0 around
$D = N\,\delta(M)$, $\delta(M)$ being the mean squared distance of a standard normal vector from C
(Amelunxen, Lotz, McCoy and Tropp 2014). Scores of random embeddings are not quite a random subspace; that they
behave like one is a conjecture, exact for two classes (Cover 1965), and asymptotically the law
$d^2 = 2 N \log N$ of arXiv 2605.05189 and 2605.10795. It is measured in `capacity.capacity_curve`.
"""

import functools

import numpy as np

from engram._checks import check_choice, check_count, check_distribution
from engram._types import ArrayLike, Numbers
from engram.theory._hypotheses import require


@functools.lru_cache(maxsize=256)
def parameters_per_token(num_classes: int) -> float:
    r"""$\delta(M) = \mathrm E\,\mathrm{dist}^2(g, C)$: what a token costs; 1/2 for two classes, $\sim 2 \log M$ for many.

    $\delta = \sum_k k\,v_k$, where the nearest point of C has k coordinates tied with the first with probability

    $$v_k = \binom{M-1}k \frac{k + 1}{(2\pi)^{(k+1)/2}} \int e^{-\frac{k+1}2 t^2} \Phi(t)^{M-1-k} dt
    \int_{a > 0} e^{-\frac12 (\sum a)^2 - \frac12 \sum a^2} da.$$

    Args:
        num_classes: M, from 2 to some 10^7.
    """
    check_count("num_classes", num_classes, least=2)
    faces = _face_probabilities(num_classes)
    return float(np.arange(len(faces)) @ faces)


def _face_probabilities(M: int) -> np.ndarray:
    from scipy.special import gammaln, log_ndtr, logsumexp, wofz

    omega, t = np.linspace(-12, 12, 301), np.linspace(-15, 45, 3001)
    faces: list[float] = []
    for k in range(M):
        # e^{-s^2/2} is a mean of e^{i omega s}, so the second integral is one over omega, of a k-th power;
        # shifted to the saddle at i sqrt(k) it has no cancellation.
        z = omega + 1j * np.sqrt(k)
        exponent = k * np.log(np.sqrt(np.pi / 2) * wofz(z / np.sqrt(2))) - z * z / 2
        top = exponent.real.max()
        inner = np.exp(exponent - top).sum().real * (omega[1] - omega[0]) / np.sqrt(2 * np.pi)
        u = t / np.sqrt(k + 1)
        outer = logsumexp(-(t**2) / 2 + (M - 1 - k) * log_ndtr(u)) + np.log(u[1] - u[0])
        choices = gammaln(M) - gammaln(k + 1) - gammaln(M - k)
        log_face = choices + np.log1p(k) - (k + 1) / 2 * np.log(2 * np.pi) + outer
        faces.append(float(np.exp(log_face + np.log(inner) + top)))
        if sum(faces) > 0.5 and faces[-1] < 1e-15:
            break
    return np.array(faces)


def capacity(dim: int, num_classes: int | None = None) -> float:
    r"""The N at which half of all random memories of dimension d can be stored: $d \min(d, M - 1) = N\,\delta(M)$.

    A conjecture, but for two classes, where it is Cover's 2 d.

    Args:
        dim: d, of inputs and outputs.
        num_classes: M; None for M = N, where token x is to recall class x.
    """
    check_count("dim", dim)
    if num_classes is not None:
        return dim * min(dim, num_classes - 1) / parameters_per_token(num_classes)
    low, high = 2, 4
    need = lambda N: N * parameters_per_token(N) - dim * min(dim, N - 1)
    while need(high) < 0:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if need(middle) < 0 else (low, middle)
    below, above = need(low), need(high)
    return low + float(np.clip(-below / (above - below), 0.0, 1.0))


def list_parameters(share: float) -> float:
    r"""What a token costs if it need only be on a list of the strongest: $d^2 / N$ at the edge, for many classes.

    Its score is to be above $t = \phi(z) / \kappa$, $\Phi(-z) = \kappa$: the mean of the largest share $\kappa$ of
    normal numbers. Its own score alone can change that at a finite cost, so it is the mean squared distance of
    a normal number from the half-line above t,

    $$\mathrm E (t - g)_+^2 = (1 + t^2)\,\Phi(t) + t\,\phi(t),$$

    by the same conjecture as `capacity`. With a share of 1/N it is $2 \log N$, the law for the largest score, as
    arXiv 2605.05189 extrapolates; with lists of a given share d^2 is of the order of N, without a logarithm.

    Args:
        share: $\kappa$, between 0 and 1.
    """
    from scipy.stats import norm

    require(0 < share < 1, "0 < share < 1", share)
    t = norm.pdf(norm.isf(share)) / share
    return float((1 + t**2) * norm.cdf(t) + t * norm.pdf(t))


def error_exponent(exponent: float, num_classes: int | None, scheme: str = "best") -> float:
    r"""How fast the error of random memories falls: it is $d^{-b}$ up to logarithms, for $p(x) \propto x^{-a}$, x = 1, 2, ...

    A W recalls of the order of $D = d \min(d, M)$ tokens, at best the most frequent, so that $D^{-(a-1)}$ is left:
    b = a - 1 for a fixed number of classes, 2 (a - 1) for M at least d. Weighing tokens by their frequency leaves
    $d^{-(a-1)/2a}$ (Cabannes, Dohmatob and Bietti, arXiv 2310.02984): a token is lost once its own weight is below
    the frequent ones' times $d^{-1/2}$.

    Proof that no W is better: N tokens have at most $(4eNM^2/D)^D$ tables of predictions (Warren's bound), and a
    given one recalls K tokens with random classes with probability $M^{-K}$. So of the first
    $CD$ tokens no W recalls more than a share above 1/M, for C large enough; the rest weighs $D^{-(a-1)}$. That outer
    products reach it up to logarithms is the count of their interference.

    Args:
        exponent: a, above 1.
        num_classes: M; None for as many as tokens.
        scheme: "best" for the best W, and for outer products of the first P tokens with the best P; "frequency"
            for outer products weighed by p.
    """
    require(exponent > 1, "exponent > 1", exponent)
    check_choice("scheme", scheme, ("best", "frequency"))
    if scheme == "frequency":
        return (exponent - 1) / (2 * exponent)
    return (exponent - 1) * (2 if num_classes is None else 1)


def unseen_mass(probs: ArrayLike, samples: ArrayLike) -> Numbers:
    r"""How often a token comes that T samples did not show, on average: $\sum_x p(x) (1 - p(x))^T$.

    No memory that is filled from the samples recalls such a token other than by chance.

    Args:
        probs: p.
        samples: T, one number or several.
    """
    p, T = np.asarray(probs, float), np.asarray(samples, float)
    check_distribution("probs", p, tolerance=1e-9)
    is_sure = p == 1
    with np.errstate(divide="ignore"):
        unseen = np.exp(T[..., None] * np.log1p(-np.where(is_sure, 0.0, p)))
    return np.where(is_sure, (T == 0)[..., None], unseen) @ p


def sample_exponent(exponent: float) -> float:
    r"""How fast the mass of unseen tokens falls: it is $T^{-(1 - 1/a)}$ up to a constant, for $p(x) \propto x^{-a}$.

    Tokens up to about $x = T^{1/a}$ are seen; the rest weighs $T^{-(a-1)/a}$ (Cabannes, Dohmatob and Bietti,
    arXiv 2310.02984).

    Args:
        exponent: a, above 1.
    """
    require(exponent > 1, "exponent > 1", exponent)
    return 1 - 1 / exponent
