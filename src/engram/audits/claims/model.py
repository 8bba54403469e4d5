"""C01 to C08: the model, its gradient, the particle system, margins."""

import itertools

import numpy as np
from flint import arb, fmpq
from scipy.integrate import solve_ivp

from engram import memory, particles, theory
from engram.audits._balls import dot, precisely, rationals
from engram.audits._certificate import Certificate
from engram.audits._claim import Amendment, Claim
from engram.audits._evidence import Evidence, at_least, both, equal, true
from engram.audits._parameters import random_problem, random_weights, rng_for
from engram.audits._runs import flow_pairs
from engram.audits._written_out import autograd, parts
from engram.capacity import is_separable
from engram.memory import MemorySystem
from engram.problem import Problem

_MODELS = 40  # random models per check; one shape, so that everything compiles once
_N, _M, _D = 4, 3, 5


def _models(seed: int, name: str, count: int = _MODELS, **options):
    rng = rng_for(seed, name)
    for _ in range(count):
        yield random_problem(rng, _N, _M, _D, **options), random_weights(rng, _D)


# --- C01 ---


def _is_convex(seed: int) -> Evidence:
    lowest, size = [], []
    for problem, W in _models(seed, "C01"):
        values = np.linalg.eigvalsh(np.asarray(memory.hessian(problem, W)).reshape(_D**2, _D**2))
        lowest.append(values[0])
        size.append(max(values[-1], 1e-300))
    # d^2 rounded products per entry, relative to the largest eigenvalue.
    convex = at_least(
        np.array(lowest) / np.array(size), 0.0, tolerance=_D**2 * 1e-15, model=np.arange(_MODELS)
    )
    return both(convex, _is_time_change())


def _is_time_change() -> Evidence:
    """A flow whose speed is eta(t) = 1 + sin(t)^2, against the plain flow at the time it has used up."""
    times = np.linspace(0.5, 20.0, 16)

    def velocity(t, m):
        push = np.array([0.75, 0.25]) / (1 + np.exp(m))
        return (1 + np.sin(t) ** 2) * 2 * (push - 0.9 * push[::-1])

    hurried = solve_ivp(velocity, (0, 20), np.zeros(2), "DOP853", times, rtol=1e-12, atol=1e-13)
    spent = 1.5 * times - np.sin(2 * times) / 4
    plain = flow_pairs(np.array([0.9]), 0.75, 2.0, spent)[0]
    return equal(hurried.y.T, plain, tolerance=1e-9, time=times[:, None])


C01 = Claim(
    "C01", "eq:GF", "the loss is convex; a learning rate only rescales a flow's time",
    "The loss is convex in W. In continuous time a learning rate η(t) is a change of clock, ds = η dt.",
    "HOLDS", _is_convex,
    why="",
)  # fmt: skip


# --- C02 ---


def _batch_mean(problem: Problem, W: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The mean of a batch's summed gradient, over all batches that can be drawn; and the gradient."""
    system, p = MemorySystem(problem), problem.probs
    mean = np.zeros((problem.dim, problem.dim))
    for batch in itertools.product(range(problem.num_tokens), repeat=size):
        counts = np.bincount(batch, minlength=problem.num_tokens).astype(float)
        mean += np.prod(p[list(batch)]) * np.asarray(system.grad(W, counts))
    return mean, np.asarray(system.grad(W))


def _batches(seed: int, divisor: float) -> Evidence:
    rng = rng_for(seed, "C02")
    parts = []
    for index in range(4):
        problem, W = random_problem(rng, 2, 3, 4), random_weights(rng, 4, 1.0)
        mean, gradient = _batch_mean(problem, W, 4)
        parts.append(equal(mean / divisor, gradient, model=index))
    return both(*parts)


@precisely
def _batch_proof() -> list[Certificate]:
    p = [fmpq(3, 4), fmpq(1, 4)]
    mean = fmpq(0)
    for batch in itertools.product((0, 1), repeat=4):
        weight = fmpq(1)
        for token in batch:
            weight *= p[token]
        # At W = 0 each copy of token 1 pulls by 1/2 along (u_1 - u_2) ⊗ e_1.
        mean += weight * batch.count(0) * fmpq(1, 2)
    return [Certificate(
        "the mean pull of token 1 over all 2⁴ batches equals its pull p₁/2 in the gradient (p₁ = 3/4, |B| = 4)",
        mean, "==", p[0] / 2)]  # fmt: skip


C02 = Claim(
    "C02", "eq:SGD", "a mini-batch's summed gradient has the gradient as its mean",
    "∇L(W) + ε = Σ over the batch of ∇ℓ, with ε of zero mean; in Theorem 1, replace Σ_x p(x) by the sum over the batch.",
    "FALSE-AS-PRINTED", lambda seed: _batches(seed, 1.0),
    why="The mean of the sum is |B| times the gradient: each of the |B| independent draws contributes ∇L.",
    amendment=Amendment(
        "Use the mean over the batch, (1/|B|) Σ ∇ℓ, or read η as η/|B|.",
        lambda seed: _batches(seed, 4.0),
        "x ~ p independently for each draw; linearity of the mean."),
    certificates=_batch_proof,
)  # fmt: skip


# --- C03 ---


def _noise(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The covariance of one-sample gradients, and the factor that multiplies N Brownian motions."""
    rng = rng_for(seed, "C03")
    problem, W = random_problem(rng, 3, 3, 3), random_weights(rng, 3, 1.0)
    system, p = MemorySystem(problem), problem.probs
    one = np.array([np.asarray(system.grad(W, row)).ravel() for row in np.eye(3)])
    mean = p @ one
    covariance = (one - mean).T @ (p[:, None] * (one - mean))
    # dp = sqrt(p) dB - p sum(sqrt(p) dB): column k is what the k-th Brownian motion does to the law.
    factor = np.array([
        np.asarray(system.grad(W, np.sqrt(p[k]) * (np.eye(3)[k] - p))).ravel() for k in range(3)
    ]).T  # fmt: skip
    return covariance, factor, one


def _noise_as_printed(seed: int) -> Evidence:
    covariance, _, _ = _noise(seed)
    return equal(covariance @ covariance.T, covariance, entry=np.arange(9)[:, None])


def _noise_corrected(seed: int) -> Evidence:
    covariance, factor, _ = _noise(seed)
    return equal(factor @ factor.T, covariance, entry=np.arange(9)[:, None])


C03 = Claim(
    "C03", "eq:SGF", "the coefficient of the Brownian motion is the variance of the updates",
    "dW = −∇L dt + σ dE, where σ is the variance of the batch gradient.",
    "TYPO", _noise_as_printed,
    why="A coefficient σ gives increments of covariance σσᵀ dt: it must be a square root of the covariance. "
        "For the diffusion limit of SGD it also carries √η.",
    amendment=Amendment(
        "dW = −∇L dt + R dE with R Rᵀ = (η/|B|) Cov(∇ℓ); N Brownian motions on the law, √p dB − p Σ √p dB, do it.",
        _noise_corrected,
        "Cov(R dE) = R Rᵀ dt; the law's noise has covariance diag(p) − p pᵀ, that of one draw."),
    certificates=lambda: [Certificate(
        "a coefficient 1/4 gives increments of variance 1/4 per unit of time", fmpq(1, 4) * fmpq(1, 4), "==", fmpq(1, 4))],
)  # fmt: skip


# --- C04 ---


def _orientation(seed: int, scores) -> Evidence:
    parts = [
        equal(
            scores(problem, W), np.asarray(memory.scores(problem, W)), token=np.arange(_N)[:, None]
        )
        for problem, W in _models(seed, "C04", 5)
    ]
    return both(*parts)


def _tensor_scores(problem: Problem, W: np.ndarray) -> np.ndarray:
    """<W, u_y ⊗ e_x>, written as the inner product of two matrices."""
    return np.einsum("ij,yi,xj->xy", W, problem.outputs, problem.inputs)


def _orientation_proof() -> list[Certificate]:
    W, (e, u) = rationals(["0", "1"], ["0", "0"]), rationals(["1", "0"], ["0", "1"])
    applied = lambda v: [dot(row, v) for row in W]
    told = "⟨e, W u⟩ = ⟨u, W e⟩ for W = (0 1; 0 0), e = (1, 0), u = (0, 1)"
    return [Certificate(told, dot(e, applied(u)), "==", dot(u, applied(e)))]


C04 = Claim(
    "C04", "eq:model-prob", "the scores are ⟨e_x, W u_y⟩ = ⟨W, e_x ⊗ u_y⟩",
    "p_W(y|x) ∝ exp⟨W, e_x ⊗ u_y⟩, while the model, the particles and the gradient use u_yᵀ W e_x.",
    "TYPO", lambda seed: _orientation(seed, theory.printed.scores),
    why="The two are scores of W and of its transpose. The appendix announces the switch, Section 3 does not.",
    amendment=Amendment(
        "p_W(y|x) ∝ exp⟨W, u_y ⊗ e_x⟩ in the main text; Appendix A is its transpose.",
        lambda seed: _orientation(seed, _tensor_scores), "uᵀ W e = ⟨W, u ⊗ e⟩."),
    certificates=lambda: _orientation_proof(),
)  # fmt: skip


# --- C05, C06 ---


def _gradient(seed: int) -> Evidence:
    found = []
    for index, (problem, W) in enumerate(_models(seed, "C05")):
        gradient = np.asarray(memory.grad(problem, W))
        auto = np.asarray(autograd(W, *parts(problem)))
        found.append(equal(gradient, auto, tolerance=1e-13, model=index))
        inside = np.asarray(memory.project_on_updates(problem, gradient))
        found.append(equal(gradient, inside, tolerance=1e-13, model=index))
    return both(*found)


C05 = Claim(
    "C05", "eq:grad", "the gradient formula, and the span of the updates",
    "∇ℓ = Σ_z p_W(z|x) (u_z − u_y) ⊗ e_x; updates lie in the span of the (u_j − u_k) ⊗ e_i.",
    "HOLDS", _gradient,
)  # fmt: skip


def _particles(seed: int) -> Evidence:
    found = []
    for index, (problem, W) in enumerate(_models(seed, "C06")):
        E, U, p, y = parts(problem)
        w = np.asarray(memory.scores(problem, W))
        q = np.asarray(memory.recall_probs(problem, W))
        alpha = E @ E.T
        beta = np.einsum("id,jd->ij", U, U)[:, :, None] - np.einsum("id,kd->ik", U, U)[:, None, :]
        # eq:interaction with its own signs: beta[j, f*(x), z].
        printed = np.einsum("x,ix,xjz,xz->ij", p, alpha, beta[:, y, :].transpose(1, 0, 2), q)
        moved = np.asarray(memory.scores(problem, W - np.asarray(memory.grad(problem, W)))) - w
        force = np.asarray(particles.force(problem, w))
        size = max(1.0, np.abs(w).max())  # moved is a difference of scores of that size
        found.append(equal(printed / size, moved / size, tolerance=1e-12, model=index))
        found.append(equal(printed, force, tolerance=1e-13, model=index))
    return both(*found)


C06 = Claim(
    "C06", "thm:inter", "gradient dynamics are a closed system of interacting particles",
    "Δw_ij = η Σ_x p(x) α_ix Σ_z β_{j f*(x) z} p_W(z|x): the scores move by themselves, with these signs.",
    "HOLDS", _particles,
)  # fmt: skip


# --- C07 ---


def _classified(seed: int, positive) -> Evidence:
    rng = rng_for(seed, "C07")
    same = []
    for _ in range(_MODELS):
        problem = random_problem(rng, _N, _M, _D)
        W = -np.asarray(memory.grad(problem, np.zeros((_D, _D)))) + 0.2 * rng.normal(size=(_D, _D))
        right = np.asarray(memory.predict(problem, W)) == problem.targets
        same.append(positive(problem, W) == right)
    return true(np.array(same), model=np.arange(_MODELS)[:, None], token=np.arange(_N)[None, :])


def _all_positive(problem: Problem, W: np.ndarray) -> np.ndarray:
    return np.asarray((np.asarray(memory.class_margins(problem, W)) > 0).all(1))


def _others_positive(problem: Problem, W: np.ndarray) -> np.ndarray:
    m = np.array(memory.class_margins(problem, W))
    m[np.arange(len(m)), problem.targets] = np.inf
    return np.asarray((m > 0).all(1))


C07 = Claim(
    "C07", "eq:margin", "a token is right when all its margins m_i(x) are positive",
    "m_i(x) = w_{x f*(x)} − w_{xi}; when all (m_i(x))_i are positive, x is classified correctly. Section 5.2 takes max over j ≠ x.",
    "HOLDS-UNDER-CONDITIONS", lambda seed: _classified(seed, _all_positive),
    why="m_{f*(x)}(x) = 0 always, so they are never all positive; and max over j ≠ x is right for f*(x) = x only.",
    amendment=Amendment(
        "x is right if and only if m_i(x) > 0 for all i ≠ f*(x); the margin is taken over j ≠ f*(x).",
        lambda seed: _classified(seed, _others_positive), "The argmax is the target exactly then (no ties)."),
    certificates=lambda: [Certificate("m_{f*(x)}(x) > 0", fmpq(0), ">", fmpq(0))],
)  # fmt: skip


# --- C08 ---


def _is_exposed(problem: Problem) -> bool:
    """Whether every target is an exposed vertex of the outputs' hull."""
    alone = lambda y: Problem(np.eye(1, problem.dim), problem.outputs, [1.0], [y])
    return all(is_separable(alone(y)) for y in set(problem.targets.tolist()))


def _capacity(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = rng_for(seed, "C08")
    drawn = [
        random_problem(rng, 2, 5, 2) for _ in range(60)
    ]  # five points of the plane: some inside
    drawn.append(Problem([[1.0, 0.0]], [[1.0, 0], [-1, 0], [0, 0]], [1.0], [2]))
    stored = np.array([is_separable(problem) for problem in drawn])
    return stored, np.array([_is_exposed(problem) for problem in drawn])


def _exposed_means_stored(seed: int) -> Evidence:
    stored, exposed = _capacity(seed)
    return true(stored == exposed, draw=np.arange(len(stored)))


C08 = Claim(
    "C08", "eq:obj", "linearly independent inputs ensure perfect accuracy",
    "If N ≤ d and the (e_x) are linearly independent, minimising the loss gives f_W = f*.",
    "HOLDS-UNDER-CONDITIONS", lambda seed: true(_capacity(seed)[0], draw=np.arange(61)),
    hypotheses="independent inputs, any outputs",
    why="With u = (1,0), (−1,0), (0,0) and target 3, the target's score is 0 and another's is |a| ≥ 0: "
        "it can never be the strict argmax, and inf L = log 3.",
    amendment=Amendment(
        "All associations can be stored if and only if every u_{f*(x)} is an exposed vertex of the hull of the outputs, and no other class has the same vector (always so for distinct unit vectors).",
        _exposed_means_stored,
        "Independence lets each W e_x be chosen freely; a strict argmax for u is a linear functional that exposes it. For unit vectors v = u does."),
    certificates=lambda: [Certificate(
        "inf L = 0 for u = (1,0), (−1,0), (0,0), target 3, where L = log(1 + 2 cosh a) is least at a = 0", (1 + 2 * arb(0).cosh()).log(), "==", fmpq(0))],
    place="Section 4",
)  # fmt: skip

CLAIMS = [C01, C02, C03, C04, C05, C06, C07, C08]
