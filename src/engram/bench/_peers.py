"""The loops that one would write with PyTorch, by autograd and with the gradient by hand."""

from typing import Any

import numpy as np

from engram.bench._harness import Side
from engram.bench._torch import load_torch
from engram.problem import Problem

AUTOGRAD = "PyTorch autograd"
BY_HAND = "PyTorch, gradient by hand"


def torch_loss(problem: Problem) -> Any:
    """The loss as a function of a tensor W."""
    torch = load_torch()
    E, U, p = map(torch.tensor, (problem.inputs, problem.outputs, problem.probs))
    targets = torch.tensor(problem.targets, dtype=torch.long)
    entropies = torch.nn.functional.cross_entropy
    return lambda W: (p * entropies(E @ W.T @ U.T, targets, reduction="none")).sum()


def torch_gradient(problem: Problem, *, by_hand: bool) -> Any:
    """The gradient as a function of a tensor W, by autograd or as the textbook writes it."""
    torch = load_torch()
    loss = torch_loss(problem)
    E, U, p = map(torch.tensor, (problem.inputs, problem.outputs, problem.probs))
    certain = torch.nn.functional.one_hot(torch.tensor(problem.targets, dtype=torch.long), len(U))

    def autograd(W: Any) -> Any:
        W.grad = None
        loss(W).backward()
        return W.grad

    @torch.no_grad()
    def written(W: Any) -> Any:
        residual = p[:, None] * (torch.softmax(E @ W.T @ U.T, dim=1) - certain)
        return (U.T @ residual.T) @ E

    return written if by_hand else autograd


def torch_step(problem: Problem, W: np.ndarray, *, by_hand: bool = False) -> Side:
    """One gradient at W."""
    weights = load_torch().tensor(W, requires_grad=not by_hand)
    gradient = torch_gradient(problem, by_hand=by_hand)
    return Side(lambda: gradient(weights))


def torch_descent(problem: Problem, rate: Any, steps: int, *, by_hand: bool = False) -> Side:
    """Gradient descent from zero; a unit is a step."""
    torch = load_torch()
    gradient = torch_gradient(problem, by_hand=by_hand)

    def run() -> None:
        W = torch.zeros(problem.dim, problem.dim, dtype=torch.float64, requires_grad=not by_hand)
        for _ in range(steps):
            direction = gradient(W)
            with torch.no_grad():
                W -= rate * direction

    return Side(run, steps)
