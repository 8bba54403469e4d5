"""What outer products and learnt weights store of heavy-tailed data: the errors of many draws."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from engram._precision import in_double, make_key
from engram.capacity._schemes import outer_product_errors
from engram.dynamics import Batches, Descent
from engram.memory import MemorySystem, error_rate
from engram.problem import Problem, gaussian, gaussian_rows, zipf
from engram.registry import make

SCHEMES = ("frequency", "threshold")
_BLOCK = 2**24  # numbers of embeddings at a time


def _memories(
    dim: int, num_tokens: int, num_classes: int, draws: int, seed: int
) -> Iterator[tuple[np.ndarray, np.ndarray, np.random.Generator]]:
    """Draws of inputs and outputs with entries of variance 1/d, in blocks, each with its generator."""
    block = max(1, _BLOCK // (num_tokens * dim))
    for begin in range(0, draws, block):
        rng, count = np.random.default_rng((seed, dim, begin)), min(block, draws - begin)
        rows = rng.normal(size=(count, num_tokens + num_classes, dim)) / np.sqrt(dim)
        yield rows[:, :num_tokens], rows[:, num_tokens:], rng


def scheme_errors(
    dims: list[int],
    num_tokens: int,
    num_classes: int,
    exponent: float,
    draws: int,
    seed: int,
    progress: Callable[[int, int], None],
) -> xr.Dataset:
    """The errors of both schemes with the true frequencies, for each draw of embeddings."""
    p, y = np.asarray(zipf(num_tokens, exponent)), np.arange(num_tokens) % num_classes
    table = np.zeros((len(SCHEMES), len(dims), draws))
    for i, d in enumerate(dims):
        weights = p, (np.arange(1, num_tokens + 1) <= d / 8).astype(float)
        parts = [
            [outer_product_errors(E, U, y, q, p) for q in weights]
            for E, U, _ in _memories(d, num_tokens, num_classes, draws, seed)
        ]
        table[:, i] = np.concatenate(parts, axis=1)
        progress(i + 1, len(dims))
    return xr.Dataset(
        {"error": (("scheme", "dim", "draw"), table)}, {"scheme": list(SCHEMES), "dim": dims}
    )


def sampled_scheme_errors(
    dims: list[int],
    samples: list[int],
    num_tokens: int,
    num_classes: int,
    exponent: float,
    draws: int,
    seed: int,
    progress: Callable[[int, int], None],
) -> xr.Dataset:
    """The errors of schemes that are filled from counts of T samples; and the part that no d removes.

    Orthonormal inputs would recall all that was seen: `unseen` is what is left then, with guesses.
    """
    p, y = np.asarray(zipf(num_tokens, exponent)), np.arange(num_tokens) % num_classes
    table = np.zeros((len(SCHEMES), len(dims), len(samples), draws))
    unseen = np.zeros((len(samples), draws))
    for k, T in enumerate(samples):
        counts = np.random.default_rng((seed, 0, T)).multinomial(T, p, size=draws)
        unseen[k] = (1 - 1 / num_classes) * ((counts == 0) @ p)
        for i, d in enumerate(dims):
            begin = 0
            for E, U, rng in _memories(d, num_tokens, num_classes, draws, seed):
                here = slice(begin, begin := begin + len(E))
                # Tokens that came equally often are ranked at random.
                ranks = (
                    (-counts[here] + 0.5 * rng.random((len(E), num_tokens))).argsort(1).argsort(1)
                )
                for s, q in enumerate((counts[here] / T, (ranks < d // 8) & (counts[here] > 0))):
                    table[s, i, k, here] = outer_product_errors(E, U, y, q, p)
            progress(k * len(dims) + i + 1, len(samples) * len(dims))
    return xr.Dataset(
        {
            "error": (("scheme", "dim", "samples", "draw"), table),
            "unseen": (("samples", "draw"), unseen),
        },
        {"scheme": list(SCHEMES), "dim": dims, "samples": samples},
    )


def learned_errors(
    optimizer: dict[str, Any],
    steps: int,
    dims: list[int],
    num_tokens: int,
    num_classes: int,
    exponent: float,
    draws: int,
    seed: int,
    progress: Callable[[int, int], None],
) -> xr.Dataset:
    """The errors of weights that full batches have taught, from zero; all draws move side by side."""
    p, y = np.asarray(zipf(num_tokens, exponent)), np.arange(num_tokens) % num_classes
    dynamics = Descent(make("optimizer", optimizer), steps=steps)

    def error_of(E: Any, U: Any) -> Any:
        problem = Problem(E, U, p, y)
        system = MemorySystem(problem)
        step = lambda index, inner: dynamics.step(system, inner, index, None)
        inner = dynamics.init(system, problem.zero_weights)
        return error_rate(problem, jax.lax.fori_loop(0, steps, step, inner).state)

    program = in_double(jax.jit(jax.vmap(error_of)))
    table = np.zeros((len(dims), draws))
    for i, d in enumerate(dims):
        blocks = _memories(d, num_tokens, num_classes, draws, seed)
        table[i] = np.concatenate([program(E, U) for E, U, _ in blocks])
        progress(i + 1, len(dims))
    label = ", ".join(f"{value}" for value in optimizer.values())
    return xr.Dataset({"error": (("dim", "draw"), table)}, {"dim": dims}, {"label": label})


def one_pass_errors(
    dim: int,
    optimizer: dict[str, Any],
    layer_norm: bool,
    batch_sizes: list[int],
    samples: list[int],
    learning_rates: list[float],
    num_tokens: int,
    num_classes: int,
    exponent: float,
    draws: int,
    seed: int,
    progress: Callable[[int, int], None],
) -> xr.Dataset:
    """The error after the first T samples of one pass, for each draw of embeddings, start and samples.

    Embeddings and the start have entries of variance 1/d; the target of token x is x mod M. All draws move
    side by side. The rate of an optimizer whose steps do not shrink with the gradient is divided by d.
    """
    plain = make("optimizer", {**optimizer, "learning_rate": 1.0})
    is_linear = plain.is_linear and not plain.is_normalised
    scale = 1.0 if is_linear else 1 / dim

    def error_of(key: Any, rate: Any, batch_size: int) -> Any:
        problem_key, start_key, batch_key = jax.random.split(key, 3)
        problem = gaussian(problem_key, num_tokens, num_classes, dim, exponent=exponent)
        system = MemorySystem(problem, layer_norm=layer_norm)
        steps = [T // batch_size for T in samples]
        dynamics = Descent(
            make("optimizer", {**optimizer, "learning_rate": rate}), Batches(batch_size), steps=steps[-1]
        )  # fmt: skip
        step = lambda index, inner: dynamics.step(system, inner, index, batch_key)
        inner = dynamics.init_with(system, jnp.asarray(gaussian_rows(start_key, dim, dim)), None)
        errors = []
        for begin, end in itertools.pairwise([0, *steps]):
            inner = jax.lax.fori_loop(begin, end, step, inner)
            errors.append(error_rate(problem, inner.state, layer_norm=layer_norm))
        return jnp.stack(errors)

    keys = jax.random.split(make_key(seed), draws)
    table = np.zeros((len(batch_sizes), len(learning_rates), draws, len(samples)))
    for i, batch_size in enumerate(batch_sizes):
        program = jax.jit(
            jax.vmap(lambda key, rate, b=batch_size: error_of(key, rate, b), (0, None))
        )
        for j, rate in enumerate(learning_rates):
            table[i, j] = in_double(program)(keys, scale * rate)
            progress(i * len(learning_rates) + j + 1, len(batch_sizes) * len(learning_rates))
    axes = ("batch", "learning_rate", "draw", "samples")
    others = [f"{name} {value}" for name, value in optimizer.items() if name != "optimizer"]
    label = ", ".join([optimizer["optimizer"], *others, *["layer norm"] * layer_norm])
    return xr.Dataset(
        {"error": (axes, table, {"long_name": "error"})},
        {"batch": batch_sizes, "learning_rate": learning_rates, "samples": samples},
        {"label": label, "dim": dim, "unit": "" if is_linear else "/d"},
    )
