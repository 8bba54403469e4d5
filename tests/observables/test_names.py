"""Each named observable against its definition, computed from the weights alone by NumPy."""

import equinox as eqx
import jax
import numpy as np
import pytest

import cases
import engram
from engram.dynamics import AbstractDynamics, Carry, Moment
from engram.memory import MemorySystem
from engram.observables import OBSERVABLES, make_observable
from engram.particles import MarginSystem, ParticleSystem

THRESHOLD = 3.25
TWO = engram.on_sphere(7, 3, 2, 2, targets="random")
MANY = engram.gaussian(4, 5, 3, 4)
# Orthogonal, of different lengths, so that each norm counts; one token's own class is the first.
APART = engram.Problem(
    np.diag([1.0, 2.0, 0.5, 1.5])[:3],
    np.diag([0.5, 1.0, 2.0, 1.0])[:3] @ np.roll(np.eye(4), 1, axis=1),
    [0.5, 0.3, 0.2],
    [0, 2, 1],
)


def hessian(problem, W, q):
    """The sum over tokens of p e e^T x Cov(u), as a matrix of d^2 rows."""
    H = 0
    for x, e in enumerate(problem.inputs):
        covariance = problem.outputs.T @ (np.diag(q[x]) - np.outer(q[x], q[x])) @ problem.outputs
        H = H + problem.probs[x] * np.kron(covariance, np.outer(e, e))
    return H


def by_definition(problem, W, direction, preconditioner=None):
    N, rows = problem.num_tokens, range(problem.num_tokens)
    E, U, p, own = problem.inputs, problem.outputs, problem.probs, problem.labels
    w = np.array([[u @ W @ e for u in U] for e in E])
    q = np.exp(w) / np.exp(w).sum(axis=1, keepdims=True)
    truth = np.eye(len(U))[own]
    gradient = sum(p[x] * np.outer(U.T @ (q[x] - truth[x]), E[x]) for x in rows)
    H = hessian(problem, W, q)
    if preconditioner is not None:
        root = np.sqrt(preconditioner).ravel()
        H = H / root[:, None] / root[None, :]
    s = np.sqrt(np.clip(np.linalg.eigvalsh(W.T @ W)[::-1], 0, None))
    shares = s / s.sum()
    wrong = [[y for y in range(len(U)) if y != own[x]] for x in rows]
    decay = np.exp(-w) / (U**2).sum(axis=1)
    invariants = decay - np.array([decay[x, wrong[x][0]] for x in rows])[:, None]
    invariants[np.arange(N), own] = (w / (U**2).sum(axis=1)).sum(axis=1)
    losses = np.array([-np.log(q[x, own[x]]) for x in rows])
    return {
        "loss": p @ losses,
        "batch_loss": p @ losses,  # of a method that sees all data
        "error": sum(p[x] for x in rows if w[x].argmax() != own[x]),
        "token_losses": losses,
        "margins": np.array([w[x, own[x]] - w[x, wrong[x]].max() for x in rows]),
        "class_margins": np.array([w[x, own[x]] - w[x] for x in rows]),
        "scores": w,
        "probabilities": q,
        "grad_norm": np.sqrt((gradient**2).sum()),
        "sharpness": np.linalg.eigvalsh(hessian(problem, W, q))[-1],
        "stability_gap": THRESHOLD - np.linalg.eigvalsh(H)[-1],
        "weight_norm": np.sqrt((W**2).sum()),
        "alignment": (W * direction).sum() / np.sqrt((W**2).sum() * (direction**2).sum()),
        "singular_values": s,
        "effective_rank": np.exp(-(shares * np.log(shares)).sum()),
        "invariants": invariants,
        "weights": W,
    }


@eqx.filter_jit
class Method(AbstractDynamics):
    """One that only has a threshold and something to divide by."""

    value: float = THRESHOLD
    divides: object = None
    needs_key = False

    def threshold(self, index):
        return np.asarray(self.value)

    def preconditioner(self, inner):
        return self.divides


def observe(system, state, names, direction=None, method=Method()):  # noqa: B008
    moment = Moment(system, method, Carry(0, state, None, 0), system.look(state))
    chosen = {name: make_observable(name) for name in names}
    if "alignment" in chosen:
        chosen["alignment"] = eqx.tree_at(
            lambda o: o.direction, chosen["alignment"], direction, is_leaf=lambda x: x is None
        )
    return {name: observable(moment) for name, observable in chosen.items()}


def moved(system, rng):
    """A state away from its start, by coefficients that are not those of a gradient."""
    state = system.start()
    c = rng.standard_normal(state.coefficients.shape)
    if isinstance(system, MarginSystem):
        return eqx.tree_at(
            lambda s: (s.margins, s.coefficients), state, (state.margins + system.coupling @ c, c)
        )
    scores = state.scores + system.input_gram @ c @ system.output_gram
    return eqx.tree_at(lambda s: (s.scores, s.coefficients), state, (scores, c))


# Lanczos compiles for long, so each space has one of those that need it.
PLAIN = set(OBSERVABLES) - {"invariants", "sharpness", "stability_gap"}
CASES = {
    "weights": (MANY, MemorySystem, PLAIN | {"sharpness"}),
    "particles": (MANY, ParticleSystem, PLAIN | {"stability_gap"}),
    "margins": (TWO, MarginSystem, PLAIN),
    "orthogonal weights": (APART, MemorySystem, {"invariants"}),
    "orthogonal particles": (APART, ParticleSystem, {"invariants"}),
}


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("case", CASES)
def test_each_observable_is_its_definition(case):
    problem, kind, names = CASES[case]
    rng, direction = np.random.default_rng(3), cases.weights(problem, seed=1)
    if kind is MemorySystem:
        system = MemorySystem(problem)
        state = cases.weights(problem, 2.0, seed=2)
    else:
        system = kind(problem, cases.weights(problem, 0.5))
        state = moved(system, rng)
    W = np.asarray(system.weights(state))
    found = observe(system, state, sorted(names), direction)
    expected = by_definition(problem, W, direction)
    for name in sorted(names):
        # Sums of some tens of numbers; the sharpness is found to eps^(2/3).
        np.testing.assert_allclose(
            found[name], expected[name], rtol=1e-10, atol=1e-10, err_msg=name
        )
        assert np.ndim(found[name]) == len(OBSERVABLES[name].about["axes"]), name


@pytest.mark.usefixtures("x64")
def test_stability_is_felt_through_the_preconditioner():
    W = cases.weights(MANY, 2.0, seed=2)
    uneven = np.random.default_rng(5).uniform(0.2, 3.0, W.shape)
    expected = by_definition(MANY, W, W, uneven)["stability_gap"]
    method = Method(divides=uneven)
    found = observe(MemorySystem(MANY), W, ["stability_gap"], None, method)["stability_gap"]
    assert found - THRESHOLD == pytest.approx(expected - THRESHOLD, rel=1e-9)


@pytest.mark.usefixtures("x64")
def test_rank_and_alignment_where_they_are_known():
    names = ["effective_rank", "alignment", "weight_norm"]
    direction = np.diag([1.0, 2.0, 0.0, 0.0])
    look = lambda W: jax.device_get(observe(MemorySystem(MANY), W, names, direction))
    nothing = look(np.zeros((4, 4)))
    assert np.isnan(nothing["effective_rank"])
    assert np.isnan(nothing["alignment"])
    assert nothing["weight_norm"] == 0
    for W, rank, cosine in (
        (np.eye(4), 4, 3 / 20**0.5),
        (-7 * direction, None, -1),
        (np.outer([1.0, 2, 0, 1], [0.0, 0, 1, 3]), 1, 0),
        (np.diag([2.0, 0, 2, 0]), 2, 2 / 40**0.5),
    ):
        seen = look(W)
        if rank:
            # Singular values that are zero come out as rounding, whose entropy is 1e-15 log 1e15.
            assert seen["effective_rank"] == pytest.approx(rank, rel=1e-13)
        assert seen["alignment"] == pytest.approx(cosine, abs=1e-15)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("kind", [MemorySystem, ParticleSystem, MarginSystem])
def test_ties_are_recalled_as_the_first_class_in_every_space(kind):
    system = kind(TWO)
    expected = TWO.probs[TWO.labels != 0].sum()
    assert 0 < expected < 1
    assert observe(system, system.start(), ["error"])["error"] == pytest.approx(expected)
