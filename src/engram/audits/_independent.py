"""Accounts that share nothing with the rest of engram: the textbook loss, robust radii, the plane."""

import importlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse

from engram._precision import in_double
from engram.problem import Problem


def plain_loss(W: Any, E: Any, U: Any, p: Any, y: Any) -> Any:
    """The cross-entropy as the textbook has it; shares nothing with `memory`."""
    w = E @ W.T @ U.T
    return (p * (jax.nn.logsumexp(w, axis=1) - w[jnp.arange(len(y)), y])).sum()


autograd = in_double(jax.jit(jax.grad(plain_loss)))
autohess = in_double(jax.jit(jax.hessian(plain_loss)))


def parts(problem: Problem) -> tuple[Any, Any, Any, Any]:
    """The arguments of `plain_loss` after W."""
    return problem.inputs, problem.outputs, problem.probs, problem.targets


def robust_radius(problem: Problem, W: np.ndarray) -> float:
    """How far every input may be displaced, in any direction, without one changing its class."""
    gaps, inputs = _wrong_pairs(problem)
    reach = np.linalg.norm(gaps @ W, axis=1)
    m = np.einsum("ki,ij,kj->k", gaps, W, inputs)
    return float((m[reach > 0] / reach[reach > 0]).min())


def _wrong_pairs(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """For each token and wrong class: u_f*(x) - u_y, and e_x."""
    x, y = np.nonzero(np.arange(problem.num_classes)[None, :] != problem.targets[:, None])
    E, U = np.asarray(problem.inputs), np.asarray(problem.outputs)
    return U[problem.targets[x]] - U[y], E[x]


def most_robust(problem: Problem, low: float, high: float, halvings: int = 14) -> float:
    """The largest radius that any W reaches, by bisection over second-order cone programs."""
    if not (_reaches(problem, low) and not _reaches(problem, high)):
        raise ArithmeticError(f"the largest radius is not between {low:g} and {high:g}")
    for _ in range(halvings):
        middle = (low + high) / 2
        low, high = (middle, high) if _reaches(problem, middle) else (low, middle)
    return (low + high) / 2


def _reaches(problem: Problem, radius: float) -> bool:
    """Whether some W has m_i(x) > radius |W^T (u_f*(x) - u_i)| for every token and wrong class.

    The largest t with m_i(x) - radius |W^T (u_f*(x) - u_i)| >= t and |W| <= 1 is positive exactly then;
    W = 0 is always allowed, so that the program has a solution either way.
    """
    clarabel: Any = importlib.import_module("clarabel")
    d, blocks, sides = problem.dim, [], []
    for gap, e in zip(*_wrong_pairs(problem), strict=True):
        row = np.outer(gap, e).ravel()
        spread = np.hstack([radius * np.kron(gap[None, :], np.eye(d)), np.zeros((d, 1))])
        blocks.append(np.vstack([np.append(row, -1.0), spread]))
        sides.append(np.zeros(d + 1))
    n = d * d
    blocks.append(np.vstack([np.zeros(n + 1), np.eye(n, n + 1)]))  # |W| <= 1
    sides.append(np.append(1.0, np.zeros(n)))
    cones = [clarabel.SecondOrderConeT(len(side)) for side in sides]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    goal = np.append(np.zeros(n), -1.0)
    A, b, P = (
        sparse.csc_matrix(-np.vstack(blocks)),
        np.concatenate(sides),
        sparse.csc_matrix((n + 1, n + 1)),
    )
    solution = clarabel.DefaultSolver(P, goal, A, b, cones, settings).solve()
    if str(solution.status) not in ("Solved", "AlmostSolved"):
        raise ArithmeticError(f"the solver did not end: {solution.status}")
    return -solution.obj_val > 1e-6


def plane_minimiser(z: np.ndarray, p: np.ndarray, steps: int = 60) -> np.ndarray:
    """The minimiser g of sum p log(1 + e^(-z g)) for batches of points z, shape (B, N, 2), by Newton.

    A batch whose points can all be put on one side has no minimiser: there the norm grows on.
    """
    g = np.zeros((len(z), 2))
    loss = lambda g: (p * np.logaddexp(0.0, -np.einsum("bni,bi->bn", z, g))).sum(1)
    for _ in range(steps):
        m = np.einsum("bni,bi->bn", z, g)
        off = 1 / (1 + np.exp(np.clip(m, -500, 500)))
        slope = -np.einsum("bn,bni->bi", p * off, z)
        curve = np.einsum("bn,bni,bnj->bij", p * off * (1 - off), z, z)
        move = -np.linalg.solve(curve + 1e-14 * np.eye(2), slope[..., None])[..., 0]
        size, before = np.ones(len(z)), loss(g)
        for _ in range(30):
            rises = loss(g + size[:, None] * move) > before
            size = np.where(rises, size / 2, size)
            if not rises.any():
                break
        size = np.where(loss(g + size[:, None] * move) <= before, size, 0.0)
        g = g + size[:, None] * move
    return g


def least_plane_error(z: np.ndarray, p: np.ndarray) -> np.ndarray:
    """The smallest 0-1 loss over all directions: one trial between any two that change a side."""
    angle = np.arctan2(z[..., 1], z[..., 0])
    turns = np.sort(np.concatenate([angle - np.pi / 2, angle + np.pi / 2], axis=1) % (2 * np.pi), 1)
    following = np.roll(turns, -1, axis=1)
    following[:, -1] += 2 * np.pi
    between = (turns + following) / 2
    g = np.stack([np.cos(between), np.sin(between)], axis=2)
    wrong = np.einsum("bni,bki->bkn", z, g) <= 0
    return (wrong * p).sum(2).min(1)
