"""Tokens of one class in the plane."""

import numpy as np

from engram.problem import Problem


def in_the_plane(angles: list[float], probs: list[float]) -> Problem:
    """Unit tokens of one class, by angle: each is recalled in a half-plane of (u_1 − u_2)ᵀW."""
    inputs = np.stack([np.cos(angles), np.sin(angles)], 1)
    return Problem(inputs, np.eye(2), probs, np.zeros(len(angles), int))
