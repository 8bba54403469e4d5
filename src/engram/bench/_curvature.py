"""Curvature: the sharpness of one memory, and a landscape of them."""

import functools
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import scipy.sparse.linalg

from engram import memory
from engram.bench._harness import Benchmark, Side
from engram.bench._peers import torch_loss
from engram.bench._torch import load_torch
from engram.planes import landscape, memory_plane
from engram.problem import gaussian, on_sphere

DENSE = "PyTorch, dense Hessian by autograd"
PRODUCTS = "PyTorch products in SciPy's Lanczos"
BATCHED = "PyTorch, Hessians by vmap"
_TOLERANCE: Any = float(np.finfo(float).eps ** (2 / 3))  # of engram's residuals


def _sharpness(d: int, peer: str) -> Iterator[Side]:
    problem = gaussian(0, d, d, d)
    W = np.random.default_rng(0).standard_normal((d, d)) / np.sqrt(d)
    with jax.enable_x64(True):
        on_device, weights = jax.device_put((problem, W))

    def once() -> str:
        return f"sharpness {float(memory.sharpness(on_device, weights)):.10g}"

    # Several in a row, as along a path: one alone would mostly time a cache that the peer has filled.
    times = max(1, 640 // d)
    yield Side(lambda: [once() for _ in range(times)][-1], times)
    torch = load_torch()
    loss, at = torch_loss(problem), torch.tensor(W)

    def dense() -> str:
        H = torch.autograd.functional.hessian(loss, at).reshape(d * d, d * d)
        return f"sharpness {torch.linalg.eigvalsh(H)[-1].item():.10g}"

    def product(v: np.ndarray) -> Any:
        direction = torch.from_numpy(v.reshape(d, d))
        return torch.autograd.functional.vhp(loss, at, direction)[1].numpy().ravel()

    def lanczos() -> str:
        make: Any = scipy.sparse.linalg.LinearOperator
        H = make((d * d, d * d), product, dtype=np.float64)
        options: Any = {"which": "LA", "tol": _TOLERANCE, "return_eigenvectors": False}
        return f"sharpness {scipy.sparse.linalg.eigsh(H, 1, **options)[0]:.10g}"

    yield Side(dense if peer == DENSE else lanczos)


def _landscape(peer: str) -> Iterator[Side]:
    """A grid of 100 x 100 points of the plane of thirty tokens."""
    problem = on_sphere(0, 30, 2, 2)
    plane, side = memory_plane(problem), 100
    ticks = np.linspace(-10, 10, side)
    quantities = ("loss", "sharpness")
    yield Side(lambda: landscape(problem, plane, quantities, first=ticks, second=ticks), side**2)
    torch = load_torch()
    loss = torch_loss(problem)
    both = torch.func.vmap(lambda W: (loss(W), torch.func.hessian(loss)(W)))
    a, b = (torch.from_numpy(grid.reshape(-1, 1, 1)) for grid in np.meshgrid(ticks, ticks))
    tensors = (torch.tensor(np.asarray(V)) for V in (plane.origin, plane.first, plane.second))
    origin, first, second = tensors
    points = origin + a * first + b * second

    def together() -> None:
        _, H = both(points)
        torch.linalg.eigvalsh(H.reshape(-1, 4, 4))[:, -1]

    def one_by_one() -> None:
        for W in points[:: side**2 // 50]:
            loss(W)
            H = torch.autograd.functional.hessian(loss, W)
            torch.linalg.eigvalsh(H.reshape(4, 4))[-1]

    yield Side(one_by_one, 50) if peer == DENSE else Side(together, side**2)


_SHARPNESS = [
    *((f"sharpness-{d}", d, DENSE) for d in (8, 16, 32)),
    ("sharpness-32-products", 32, PRODUCTS),
    *((f"sharpness-{d}", d, PRODUCTS) for d in (64, 128, 256)),
]
_POINT = "point of a 100 x 100 grid with loss and sharpness, N = 30, d = M = 2"
BENCHMARKS = [
    Benchmark(name, unit, functools.partial(prepare, *sizes, peer), peer, repeats=9)
    for name, unit, prepare, sizes, peer in [
        *(
            (name, f"sharpness of N = M = d = {d} at random weights", _sharpness, (d,), peer)
            for name, d, peer in _SHARPNESS
        ),
        ("landscape", _POINT, _landscape, (), DENSE),
        ("landscape-vmap", _POINT, _landscape, (), BATCHED),
    ]
]
