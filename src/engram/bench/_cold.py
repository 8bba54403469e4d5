"""Cold starts: what a person waits for, in a process that begins with nothing."""

import functools
import subprocess
import sys
from collections.abc import Iterator

from engram.bench._harness import Benchmark, Side
from engram.bench._peers import AUTOGRAD
from engram.bench._torch import load_torch

_SIMULATION = """
import engram
descent = engram.GradientDescent(learning_rate=10.0, steps=100)
engram.simulate(engram.two_tokens(0.95, 0.75), descent)
"""
_TORCH_SIMULATION = """
import torch
a = 0.95
E = torch.tensor([[1.0, 0.0], [a, (1 - a * a) ** 0.5]], dtype=torch.float64)
p, targets = torch.tensor([0.75, 0.25], dtype=torch.float64), torch.arange(2)
W = torch.zeros(2, 2, dtype=torch.float64, requires_grad=True)
for _ in range(100):
    W.grad = None
    losses = torch.nn.functional.cross_entropy(E @ W.T, targets, reduction="none")
    (p * losses).sum().backward()
    with torch.no_grad():
        W -= 10 * W.grad
"""


def _process(*arguments: str) -> Side:
    command = [sys.executable, *arguments]
    return Side(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL) and None)


def _cold(ours: tuple[str, ...], theirs: str) -> Iterator[Side]:
    yield _process(*ours)
    load_torch()
    yield _process("-c", theirs)


BENCHMARKS = [
    Benchmark(name, unit, functools.partial(_cold, ours, theirs), peer, repeats=5)
    for name, unit, ours, theirs, peer in [
        ("cold-help", "`engram --help`", ("-m", "engram", "--help"), "import torch", "import torch"),
        ("cold-import", "`import engram`", ("-c", "import engram"), "import torch", "import torch"),
        ("cold-simulation", "first 100 steps of two tokens, imports and compiling included",
         ("-c", _SIMULATION), _TORCH_SIMULATION, AUTOGRAD),
    ]
]  # fmt: skip
