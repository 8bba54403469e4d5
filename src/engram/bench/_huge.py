"""A memory too large for its scores: `python -m engram.bench._huge engram|torch N d` prints JSON."""

import json
import sys
import time
from typing import Any

import numpy as np

from engram.bench._process import peak_bytes


def main(side: str, num: int, dim: int) -> None:
    rng = np.random.default_rng(0)
    rows = lambda n: rng.standard_normal((n, dim), np.float32) / np.float32(np.sqrt(dim))
    work = {"engram": _engram, "torch": _torch}[side]
    inputs, outputs, W = rows(num), rows(num), rows(dim)
    seconds = work(inputs, outputs, W)
    print(json.dumps({"seconds": seconds, "peak": peak_bytes()}))  # noqa: T201  read by the caller


def _engram(inputs: np.ndarray, outputs: np.ndarray, W: np.ndarray) -> float:
    import jax

    from engram import memory
    from engram.problem import Problem

    num = len(inputs)
    problem = Problem(inputs, outputs, np.full(num, 1 / num), np.arange(num)).astype("float32")
    start = time.perf_counter()
    both = memory.loss_and_grad(problem, W)
    jax.block_until_ready((both, memory.error_rate(problem, W)))
    return time.perf_counter() - start


def _torch(inputs: Any, outputs: Any, W: Any) -> float:
    from engram.bench._torch import load_torch

    torch = load_torch()
    E, U = torch.from_numpy(inputs), torch.from_numpy(outputs)
    weights, targets = torch.tensor(W, requires_grad=True), torch.arange(len(inputs))
    start = time.perf_counter()
    scores = E @ weights.T @ U.T
    torch.nn.functional.cross_entropy(scores, targets).backward()
    (scores.argmax(1) != targets).double().mean().item()
    return time.perf_counter() - start


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
