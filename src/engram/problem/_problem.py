"""Problem: the embeddings, the token frequencies and the targets of one memory."""

import os
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.random import normal
from jaxtyping import Float, Int, PRNGKeyArray
from numpy.typing import DTypeLike

from engram._checks import (
    InputError,
    check_distribution,
    check_floats,
    check_ndim,
    is_traced,
    read_array,
)
from engram._memory_limits import check_fits
from engram._types import Array, ArrayLike, NamesLike, Scalar
from engram.problem._frequencies import read_counts
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
        clean_labels: With noisy targets, the class that each token should recall, N integers: margins and
            the error are then read against these instead of the noisy targets, and the loss is not. By
            default margins are those of the likeliest class, and the error is the probability that the
            class recalled is not the one drawn.
        names: What the N tokens are called, for tables, pictures and files; they change no number, and
            what a compiled function returns has none.
        class_names: The same for the M classes.

    Paper: eq:model, eq:obj, where k = d; noisy targets are ours.
    """

    inputs: Float[Array, "N d"]
    outputs: Float[Array, "M k"]
    probs: Float[Array, " N"]
    targets: Int[Array, " N"] | Float[Array, "N M"]
    clean_labels: Int[Array, " N"] | None
    named: Names

    def __init__(
        self,
        inputs: ArrayLike,
        outputs: ArrayLike,
        probs: ArrayLike,
        targets: ArrayLike,
        *,
        clean_labels: ArrayLike | None = None,
        names: NamesLike | None = None,
        class_names: NamesLike | None = None,
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
        if clean_labels is not None and not self.is_noisy:
            raise InputError(
                "`clean_labels` belong to noisy targets, got them with certain ones. Leave them out."
            )
        self.clean_labels = (
            None if clean_labels is None else _check_labels("clean_labels", clean_labels, N, M)
        )
        self.named = Names(
            check_names("names", names, N, "input token"),
            check_names("class_names", class_names, M, "output token"),
        )

    def __repr__(self) -> str:
        sizes = f"num_tokens={self.num_tokens}, num_classes={self.num_classes}, dim={self.dim}"
        output = "" if self.output_dim == self.dim else f", output_dim={self.output_dim}"
        return f"Problem({sizes}{output}{', noisy' if self.is_noisy else ''})"

    @property
    def num_tokens(self) -> int:
        """The number of input tokens, N."""
        return self.inputs.shape[0]

    @property
    def num_classes(self) -> int:
        """The number of output tokens (classes), M."""
        return self.outputs.shape[0]

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
        """The class each token should recall: its target; if noisy, its clean label or the likeliest one."""
        if not self.is_noisy:
            return self.targets
        return self.targets.argmax(axis=1) if self.clean_labels is None else self.clean_labels

    @property
    def answers(self) -> Int[Array, " N"] | Float[Array, "N M"]:
        """What recall is checked against: the labels; p(y|x) where targets are noisy without clean ones."""
        return self.targets if self.is_noisy and self.clean_labels is None else self.labels

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

    def draw_start(self, scale: Scalar, seed: PRNGKeyArray | int) -> Float[Array, "k d"]:
        """Random weights to start from, with entries of law N(0, scale^2 / d), from a seed or a JAX key."""
        k, d = self.output_dim, self.dim
        check_fits(4 * 8 * k * d, dim=d)
        if isinstance(seed, int | np.integer):
            return scale * np.random.default_rng(seed).standard_normal((k, d)) / np.sqrt(d)
        return scale * normal(seed, (k, d), float) / np.sqrt(d)

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
        """What to call each token where it is shown: its name, short, in one line, or its number."""
        if self.names is None:
            return [str(x) for x in range(self.num_tokens)]
        return [show_name(name) for name in self.names]

    def astype(self, dtype: DTypeLike) -> "Problem":
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
        axes = {
            "inputs": ("token", "component"),
            "outputs": ("class", component),
            "probs": ("token",),
            "targets": ("token", "class") if self.is_noisy else ("token",),
        }
        return axes if self.clean_labels is None else axes | {"clean_labels": ("token",)}

    @staticmethod
    def from_embeddings(
        inputs: ArrayLike,
        outputs: ArrayLike,
        targets: ArrayLike | None = None,
        *,
        counts: ArrayLike | None = None,
        names: NamesLike | None = None,
        class_names: NamesLike | None = None,
        clean_labels: ArrayLike | None = None,
    ) -> "Problem":
        """The problem that a model's tables pose: how often tokens came, and which ones came after.

        Args:
            inputs: Input embeddings, one row per token: a model's embedding matrix.
            outputs: Output embeddings, one row per class: the rows that its last layer scores with.
            targets: As for a `Problem`. By default what the counts of pairs say, and without such counts
                each token is its own class.
            counts: How often each token came, N numbers; or how often each class came after each token, a
                table of shape (N, M). By default all tokens are equally frequent.
            names: What the tokens are called; where N = M, the classes are called the same.
            class_names: What the classes are called.
            clean_labels: As for a `Problem`.

        A token that never came has frequency zero, and every class as its target alike.
        """
        E, U = read_array("inputs", inputs), read_array("outputs", outputs)
        N, M = len(np.atleast_1d(E)), len(np.atleast_1d(U))
        probs, table = read_counts(counts, N, M)
        if targets is None and table is None and N > M:
            raise InputError(
                f"`targets` must be given where there are more tokens than classes, got N = {N} and M = {M}. "
                "Give each token its class, or `counts` of shape (N, M)."
            )
        labels = np.arange(N) if table is None else table
        class_names = names if class_names is None and N == M else class_names
        called = {"names": names, "class_names": class_names}
        answers = labels if targets is None else targets
        return Problem(E, U, probs, answers, clean_labels=clean_labels, **called)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "Problem":
        """Read a problem that `save` wrote, or any file with such arrays; labels and names are optional."""
        arrays = ("inputs", "outputs", "probs", "targets")
        return Problem(
            **read_arrays(path, arrays, optional=("clean_labels", "names", "class_names"))
        )


def _axis(name: str, count: int, names: tuple[str, ...] | None) -> dict[str, Any]:
    if names is None:
        return {name: np.arange(count)}
    about = {"long_name": f"number of the {name}, from zero"}
    return {name: np.asarray(names), f"{name}_index": (name, np.arange(count), about)}


def _tolerance(dtype: Any) -> float:
    # Sums of rounded probabilities: a few units in the last place, per precision.
    is_float = jnp.issubdtype(dtype, np.floating)
    return max(1e-9, 8 * float(jnp.finfo(dtype).eps)) if is_float else 1e-9


def _check_probs(probs: ArrayLike, N: int) -> Any:
    given = read_array("probs", probs)
    values = check_floats("probs", given, ndim=1, axes="(N,)")
    if len(values) != N:
        raise InputError(
            f"`probs` must have one entry per input token, got {len(values)} for {N} rows of "
            "`inputs`. Give each token its frequency."
        )
    if not is_traced(values):
        return _as_law("probs", values, given.dtype)
    return values


def _as_law(name: str, values: np.ndarray, dtype: Any) -> np.ndarray:
    """Frequencies that sum to 1, in each row; in less than double precision, up to its rounding."""
    tolerance = _tolerance(dtype)
    check_distribution(name, values, tolerance=tolerance)
    return values if tolerance == _tolerance(float) else values / values.sum(axis=-1, keepdims=True)


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
            return _as_law("targets", table, given.dtype)
        return table
    return _check_labels("targets", given, N, M)


def _check_labels(name: str, labels: ArrayLike, N: int, M: int) -> Any:
    given = read_array(name, labels)
    check_ndim(name, given, ndim=1, axes="(N,) or (N, M)" if name == "targets" else "(N,)")
    if len(given) != N:
        raise InputError(
            f"`{name}` must have one entry per input token, got {len(given)} for {N} rows of "
            "`inputs`. Give each token its class."
        )
    if is_traced(given):
        return given
    if given.dtype.kind not in "iu":
        raise InputError(
            f"`{name}` must be integers, got dtype {given.dtype}. "
            f"Cast with `np.asarray({name}, dtype=int)`, or give a table p(y|x) of shape (N, M) as `targets`."
        )
    outside = (given < 0) | (given >= M)
    if outside.any():
        first = int(np.argmax(outside))
        raise InputError(
            f"`{name}` must lie in 0..{M - 1}, got {given[first]} for token {first}. "
            "Classes count from zero, one per row of `outputs`."
        )
    return given.astype(np.int32)
