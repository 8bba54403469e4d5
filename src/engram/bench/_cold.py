"""Cold starts: what a person waits for, in a process that begins with nothing."""

import functools
import subprocess
import sys

from engram.bench._harness import Side, Work
from engram.bench._torch import NO_TORCH, load_torch

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


def _run(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)


def _cold(ours: tuple[str, ...], theirs: tuple[str, ...]) -> tuple[Side, Side | str]:
    if load_torch() is None:
        return Side(functools.partial(_run, *ours)), NO_TORCH
    return Side(functools.partial(_run, *ours)), Side(functools.partial(_run, *theirs))


WORKS = [
    Work(name, work, functools.partial(_cold, ours, theirs), peer, repeats=5)
    for name, work, ours, theirs, peer in [
        ("cold-help", "`engram --help`", ("-m", "engram", "--help"), ("-c", "import torch"), "import torch"),
        ("cold-import", "`import engram`", ("-c", "import engram"), ("-c", "import torch"), "import torch"),
        ("cold-simulation", "first 100 steps of two tokens, imports and compiling included",
         ("-c", _SIMULATION), ("-c", _TORCH_SIMULATION), "PyTorch autograd"),
    ]
]  # fmt: skip
