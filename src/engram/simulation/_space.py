"""Weights or particles: the same answer, at different cost."""

from typing import Any

from engram._checks import InputError, check_choice
from engram._memory_limits import check_fits
from engram._types import Weights
from engram.memory import MemorySystem
from engram.particles import MarginSystem, ParticleSystem
from engram.problem import Problem


def choose_space(problem: Problem, dynamics: Any, space: str) -> str:
    """Which space to run in; refuses particles for dynamics that act on the entries of W."""
    check_choice("space", space, ("auto", "weights", "particles", "margins"))
    reason = dynamics.needs_weights
    if reason is None:
        return _cheaper(problem, dynamics) if space == "auto" else space
    if space in ("particles", "margins"):
        raise InputError(f"`space` = {space!r} is impossible here: {reason} Use 'weights'.")
    return "weights"


def check_space(problem: Problem, space: str) -> None:
    """Refuse a run that would not fit into memory: a state, its gradient and copies of them."""
    N, M, d, k = problem.num_tokens, problem.num_classes, problem.dim, problem.output_dim
    more = {"weights": 0, "particles": N**2 + M**2 + 4 * N * M, "margins": N**2}[space]
    check_fits(8 * (4 * k * d + more), num_tokens=N, num_classes=M, dim=max(d, k))


def make_system(problem: Problem, dynamics: Any, space: str, W: Weights) -> tuple[Any, Any]:
    """What moves in a space, and the state in it that stands for the weights W."""
    if space == "weights":
        return MemorySystem(problem), W
    if space == "margins":
        system = MarginSystem(problem, W)
        return system, system.start()
    system = ParticleSystem(problem, W, shaken=dynamics.is_isotropic)
    return system, system.start()


def _cheaper(problem: Problem, dynamics: Any) -> str:
    N, M, d, k = problem.num_tokens, problem.num_classes, problem.dim, problem.output_dim
    if dynamics.is_isotropic:
        return "weights"  # the noise is drawn for W anyway
    # Multiplications of one gradient: scores and back, against two Gram matrices, against one.
    weights = 2 * min(M * d * (k + N), N * k * (d + M))
    particles = N * N * M + N * M * M
    if M == 2 and not problem.is_noisy and weights >= N * N:
        return "margins"
    return "particles" if particles < weights else "weights"
