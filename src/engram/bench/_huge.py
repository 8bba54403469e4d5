"""A memory too large for its scores: run as `python -m engram.bench._huge N d`, prints JSON."""

import json
import sys
import time

import jax
import numpy as np

from engram import memory
from engram.bench._peak import peak_bytes
from engram.problem import Problem


def main(num: int, dim: int) -> None:
    rng = np.random.default_rng(0)
    rows = lambda n: rng.standard_normal((n, dim), np.float32) / np.float32(np.sqrt(dim))
    problem = Problem(rows(num), rows(num), np.full(num, 1 / num), np.arange(num)).astype("float32")
    W = rows(dim)
    start = time.perf_counter()
    jax.block_until_ready(
        (memory.loss(problem, W), memory.grad(problem, W), memory.error_rate(problem, W))
    )
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "peak": peak_bytes()}))  # noqa: T201  read by the caller


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
