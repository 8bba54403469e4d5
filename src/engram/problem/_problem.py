"""Problem: the embeddings, the token frequencies and the targets of one memory."""

import os
from typing import Any

import equinox as eqx
import numpy as np
from jax.random import normal
from jaxtyping import Float, Int

from engram._checks import (
    InputError,
    check_distribution,
    check_floats,
    check_ndim,
    is_traced,
    read_array,
)
from engram._types import Array, ArrayLike
from engram.problem._names import Names, check_names, show_name
from engram.problem._storage import read_arrays, write_arrays


class Problem(eqx.Module):
    """Associations to store: token `x` comes with frequency `probs[x]` and asks for its target.

    Everything is kept as NumPy float64 (tracers stay tracers), read from lists, NumPy, JAX or
    PyTorch arrays. Embeddings are rows; tokens count from zero. The two families may have different
    dimensions: W maps inputs in d dimensions to k, those of the outputs, so its shape is (k, d).

    Args:
        inputs: Input embeddings $e_x$, one row per input token, shape (N, d).
        outputs: Output embeddings $u_y$, one row per output token, shape (M, k), M >= 2.
        probs: Token frequencies $p(x)$, non-negative, summing to 1. A token of frequency zero is
            allowed: it exerts no force and adds nothing to loss or error, but it has a score and
            a margin, which the other tokens move.
        targets: The class $f^*(x)$ of each token as N integers, or a table of shape (N, M) of
            conditional probabilities $p(y|x)$ when targets are noisy.
        names: What the N tokens are called, for tables, pictures and files; they change no number, and
            what a compiled function returns has none.
        class_names: The same for the M classes.

    Paper: eq:model, eq:obj, where k = d; noisy targets are ours.
    """

    inputs: Float[Array, "N d"]
    outputs: Float[Array, "M k"]
    probs: Float[Array, " N"]
    targets: Int[Array, " N"] | Float[Array, "N M"]
    named: Names

    def __init__(
        self,
        inputs: ArrayLike,
        outputs: ArrayLike,
        probs: ArrayLike,
        targets: ArrayLike,
        *,
        names: ArrayLike | None = None,
        class_names: ArrayLike | None = None,
    ):
        self.inputs = check_floats("inputs", inputs, ndim=2, axes="(N, d)")
        self.outputs = check_floats("outputs", outputs, ndim=2, axes="(M, k)")
        N, M = len(self.inputs), len(self.outputs)
        if M < 2:
            raise InputError(
                "`outputs` must have at least two rows, got 1. With one class there is nothing to "
                "choose: add an output token."
            )
        self.probs = _check_probs(probs, N)
        self.targets = _check_targets(targets, N, M)
        self.named = Names(
            check_names("names", names, N, "input token"),
            check_names("class_names", class_names, M, "output token"),
        )

    @property
    def num_tokens(self) -> int:
        """The number of input tokens, N."""
        return self.inputs.shape[0]

    @property
    def num_classes(self) -> int:
        """The number of output tokens (classes), M."""
        return self.outputs.shape[0]

    @property
    def num_inputs(self) -> int:
        """The name that `num_tokens` had."""
        return self.num_tokens

    @property
    def num_outputs(self) -> int:
        """The name that `num_classes` had."""
        return self.num_classes

    @property
    def dim(self) -> int:
        """The dimension of the inputs, d."""
        return self.inputs.shape[1]

    @property
    def output_dim(self) -> int:
        """The dimension of the outputs, k."""
        return self.outputs.shape[1]

    @property
    def names(self) -> tuple[str, ...] | None:
        """What the tokens are called, if they have names."""
        return self.named.tokens

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """What the classes are called, if they have names."""
        return self.named.classes

    @property
    def is_noisy(self) -> bool:
        """Whether the targets are a table of conditional probabilities."""
        return self.targets.ndim == 2

    @property
    def labels(self) -> Int[Array, " N"]:
        """The class each token should recall: its target, or the likeliest one if noisy."""
        return self.targets.argmax(axis=1) if self.is_noisy else self.targets

    @property
    def law(self) -> Float[Array, " N"] | Float[Array, "N M"]:
        """What a sample is drawn from: p(x), or p(x) p(y|x) when targets are noisy."""
        return self.probs[:, None] * self.targets if self.is_noisy else self.probs

    @property
    def size(self) -> int:
        """How many numbers its scores and its weights have, N M + k d."""
        return self.num_tokens * self.num_classes + self.output_dim * self.dim

    @property
    def zero_weights(self) -> Float[Array, "k d"]:
        """W = 0."""
        return np.zeros((self.output_dim, self.dim), self.probs.dtype)

    def start(self) -> Float[Array, "k d"]:
        """The weights to start from unless others are given: zero."""
        return self.zero_weights

    def draw_start(self, scale: Any, seed: Any) -> Float[Array, "k d"]:
        """Random weights to start from, with entries of law N(0, scale^2 / d), from a seed or a JAX key."""
        shape = self.zero_weights.shape
        is_seed = isinstance(seed, int | np.integer)
        draws = (
            np.random.default_rng(seed).standard_normal(shape)
            if is_seed
            else normal(seed, shape, float)
        )
        return scale * draws / np.sqrt(self.dim)

    def coords(self) -> dict[str, Any]:
        """The axes of what is measured of it, as xarray has coordinates.

        Tokens and classes go by their names if they have any, and by their numbers from zero otherwise;
        beside names, the numbers are `token_index` and `class_index`.
        """
        return {
            **_axis("token", self.num_tokens, self.names),
            **_axis("class", self.num_classes, self.class_names),
            "probs": ("token", np.asarray(self.probs), {"long_name": "token frequency p(x)"}),
            "target": ("token", np.asarray(self.labels), {"long_name": "class to recall"}),
        }

    def shown_names(self) -> list[str]:
        """What to call each token where it is shown: its name, short, in one line, or its number from one."""
        if self.names is None:
            return [str(x + 1) for x in range(self.num_tokens)]
        return [show_name(name) for name in self.names]

    def astype(self, dtype: Any) -> "Problem":
        """The same problem with its numbers in another float type, for example "float32"."""
        if not np.issubdtype(dtype, np.floating):
            raise InputError(f"`dtype` must be a float type, got {dtype!r}. Use 'float32'.")
        cast = lambda leaf: leaf if leaf.dtype.kind in "iu" else leaf.astype(dtype)
        arrays = (self.inputs, self.outputs, self.probs, self.targets)
        where = lambda p: (p.inputs, p.outputs, p.probs, p.targets)
        return eqx.tree_at(where, self, tuple(map(cast, arrays)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one `.npz` (no pickle) or `.nc` (NetCDF) file, whole or not at all."""
        axes = {**self.axes(), "names": ("token",), "class_names": ("class",)}
        values = {name: getattr(self, name) for name in axes}
        arrays = {name: np.asarray(value) for name, value in values.items() if value is not None}
        write_arrays(path, arrays, axes)

    def axes(self) -> dict[str, tuple[str, ...]]:
        """What the axes of its arrays are called in a file; k and d are one axis where they are equal."""
        component = "component" if self.output_dim == self.dim else "output_component"
        return {
            "inputs": ("token", "component"),
            "outputs": ("class", component),
            "probs": ("token",),
            "targets": ("token", "class") if self.is_noisy else ("token",),
        }

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "Problem":
        """Read a problem that `save` wrote, or any such file with the same four arrays, and names if any."""
        arrays = ("inputs", "outputs", "probs", "targets")
        return Problem(**read_arrays(path, arrays, optional=("names", "class_names")))


def _axis(name: str, count: int, names: tuple[str, ...] | None) -> dict[str, Any]:
    if names is None:
        return {name: np.arange(count)}
    about = {"long_name": f"number of the {name}, from zero"}
    return {name: np.asarray(names), f"{name}_index": (name, np.arange(count), about)}


def _tolerance(dtype: Any) -> float:
    # Sums of rounded probabilities: a few units in the last place, per precision.
    return max(1e-9, 8 * float(np.finfo(dtype).eps)) if np.dtype(dtype).kind == "f" else 1e-9


def _check_probs(probs: ArrayLike, N: int) -> Any:
    given = read_array("probs", probs)
    values = check_floats("probs", given, ndim=1, axes="(N,)")
    if len(values) != N:
        raise InputError(
            f"`probs` must have one entry per input token, got {len(values)} for {N} rows of "
            "`inputs`. Give each token its frequency."
        )
    if not is_traced(values):
        check_distribution("probs", values, tolerance=_tolerance(given.dtype))
    return values


def _check_targets(targets: ArrayLike, N: int, M: int) -> Any:
    given = read_array("targets", targets)
    if np.ndim(given) == 2:
        table = check_floats("targets", given, ndim=2, axes="(N, M)")
        if table.shape != (N, M):
            raise InputError(
                f"`targets` as a table of p(y|x) must have shape (N, M) = ({N}, {M}), got "
                f"{table.shape}. Give one row per input token and one column per output token."
            )
        if not is_traced(table):
            check_distribution("targets", table, tolerance=_tolerance(given.dtype))
        return table
    check_ndim("targets", given, ndim=1, axes="(N,) or (N, M)")
    if len(given) != N:
        raise InputError(
            f"`targets` must have one entry per input token, got {len(given)} for {N} rows of "
            "`inputs`. Give each token its class."
        )
    if is_traced(given):
        return given
    if given.dtype.kind not in "iu":
        raise InputError(
            f"`targets` must be integers, got dtype {given.dtype}. "
            "Cast with `np.asarray(targets, dtype=int)`, or give a table p(y|x) of shape (N, M)."
        )
    outside = (given < 0) | (given >= M)
    if outside.any():
        first = int(np.argmax(outside))
        raise InputError(
            f"`targets` must lie in 0..{M - 1}, got {given[first]} for token {first}. "
            "Classes count from zero, one per row of `outputs`."
        )
    return given.astype(np.int32)
