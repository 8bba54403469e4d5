"""From weights to scores, a block of tokens at a time, and what a row of scores shows: recall, margins."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from engram._types import Array, Scores, WeightsLike
from engram.memory._blocks import choose_block, map_blocks, sum_blocks
from engram.memory._entry import entry
from engram.problem import Problem


class Readout(NamedTuple):
    """Scores as the product of two thin factors, `left @ right.T`, of d or of k columns."""

    left: Float[Array, "N r"]
    right: Float[Array, "M r"]


def outputs_first(problem: Problem) -> bool:
    """Whether U W is formed before meeting the inputs: cheaper when classes are much fewer, or d is small."""
    N, M, d, k = problem.num_tokens, problem.num_classes, problem.dim, problem.output_dim
    # Multiplications, M d (k + N) against N k (d + M); with k = d this asks for 2 M < N.
    return M * d * (2 * k + N) < N * k * (d + M)


class Reading(NamedTuple):
    """How the inputs of any tokens, and their probabilities, become rows of `left`; and `right`."""

    to_left: Callable[[Float[Array, "n d"], Float[Array, " n"]], Float[Array, "n r"]]
    right: Float[Array, "M r"]


def reading(problem: Problem, W: WeightsLike, layer_norm: bool) -> Reading:
    U, W = jnp.asarray(problem.outputs), jnp.asarray(W)
    if layer_norm:
        return Reading(lambda E, p: _normalised(E @ W.T, p), U)
    if outputs_first(problem):
        return Reading(lambda E, p: E, U @ W)
    return Reading(lambda E, p: E @ W.T, U)


def readout(problem: Problem, W: WeightsLike, layer_norm: bool) -> Readout:
    to_left, right = reading(problem, W, layer_norm)
    return Readout(to_left(jnp.asarray(problem.inputs), jnp.asarray(problem.probs)), right)


def _normalised(h: Float[Array, "N d"], p: Float[Array, " N"]) -> Float[Array, "N d"]:
    size, norm = row_norms(h)
    # A token that never comes must not spoil the others: where W maps it to zero, score it zero.
    idle = (p[:, None] == 0) & (norm == 0)
    return jnp.where(idle, 0.0, h / size / jnp.where(idle, 1.0, norm))


class Stream(NamedTuple):
    """The scores of a problem's tokens, a block of tokens at a time."""

    problem: Problem
    reading: Reading
    block: int

    def map(self, fn: Callable[..., Any], *rows: Array) -> Any:
        """`fn(scores, *rows)`, with a row for each token in what goes in and in what comes out."""
        return map_blocks(lambda r: fn(self._scores(r[0]), *r[1]), self._with(rows), self.block)

    def sum(self, fn: Callable[..., Any], *rows: Array) -> Any:
        """The sum of `fn(scores, *rows)` over the blocks."""
        return sum_blocks(lambda r: fn(self._scores(r[0]), *r[1]), self._with(rows), self.block)

    def _with(self, rows: tuple[Array, ...]) -> Any:
        inputs = (self.problem.inputs, self.problem.probs)
        return jax.tree.map(jnp.asarray, (inputs, rows))

    def _scores(self, inputs: tuple[Array, Array]) -> Scores:
        return self.reading.to_left(*inputs) @ self.reading.right.T


def stream(problem: Problem, W: WeightsLike, layer_norm: bool, block_size: int | None) -> Stream:
    block = choose_block(problem.num_tokens, problem.num_classes, block_size)
    return Stream(problem, reading(problem, W, layer_norm), block)


def row_norms(h: Float[Array, "N d"]) -> tuple[Float[Array, "N 1"], Float[Array, "N 1"]]:
    """The length of each row as a product, largest entry times the rest: no square overflows."""
    largest = jax.lax.stop_gradient(jnp.abs(h).max(axis=1, keepdims=True))
    size = jnp.where(largest > 0, largest, 1.0)
    return size, jnp.sqrt(jnp.square(h / size).sum(axis=1, keepdims=True))


def likeliest(w: Scores) -> Int[Array, " N"]:
    """The class of the largest score of each token, the first of several: what `argmax` gives."""
    M = w.shape[1]
    if 2 ** jnp.finfo(w.dtype).nmant < M:
        return jnp.argmax(w, axis=1)
    # XLA's argmax on the CPU takes as long as the scores themselves; the least number of a class does not.
    is_top = (w == w.max(axis=1, keepdims=True)) | jnp.isnan(w)
    number = jnp.where(is_top, jnp.arange(M, dtype=w.dtype), M)
    return number.min(axis=1).astype(jnp.arange(0).dtype)


def label_margins(w: Scores, label: Int[Array, " N"]) -> Float[Array, " N"]:
    rows, columns = jnp.arange(len(w)), jnp.arange(w.shape[1])
    wrong = jnp.where(columns[None, :] == label[:, None], -jnp.inf, w)
    return w[rows, label] - wrong.max(axis=1)


@entry("layer_norm")
def scores(problem: Problem, W: WeightsLike, *, layer_norm: bool = False) -> Scores:
    r"""Scores $w_{xy} = \langle u_y, W e_x \rangle$ of every pair, shape (N, M).

    Paper: eq:particles. Section 3 once prints the transpose, $\langle e_x, W u_y \rangle$.
    """
    left, right = readout(problem, W, layer_norm)
    return left @ right.T


@entry("layer_norm")
def recall_probs(problem: Problem, W: WeightsLike, *, layer_norm: bool = False) -> Scores:
    r"""Recall probabilities $p_W(y|x) \propto \exp w_{xy}$, shape (N, M); rows sum to 1.

    Paper: eq:model-prob.
    """
    left, right = readout(problem, W, layer_norm)
    return jax.nn.softmax(left @ right.T, axis=1)


@entry("layer_norm", "block_size")
def predict(
    problem: Problem, W: WeightsLike, *, layer_norm: bool = False, block_size: int | None = None
) -> Int[Array, " N"]:
    r"""The recalled token $f_W(x) = \arg\max_y w_{xy}$; ties go to the lowest index.

    Paper: eq:model.
    """
    return stream(problem, W, layer_norm, block_size).map(likeliest)


@entry("layer_norm", "block_size")
def margins(
    problem: Problem, W: WeightsLike, *, layer_norm: bool = False, block_size: int | None = None
) -> Float[Array, " N"]:
    r"""Margins $m(x) = w_{x f^*(x)} - \max_{y \ne f^*(x)} w_{xy}$: positive means recalled.

    With noisy targets, $f^*(x)$ is the clean label, or the likeliest class.

    Paper: Section 5.2, where the maximum is printed over $j \ne x$; it must be $j \ne f^*(x)$.
    """
    return stream(problem, W, layer_norm, block_size).map(label_margins, problem.labels)


@entry("layer_norm")
def class_margins(problem: Problem, W: WeightsLike, *, layer_norm: bool = False) -> Scores:
    r"""Margins against each class, $m_y(x) = w_{x f^*(x)} - w_{xy}$; zero at the target itself.

    Paper: eq:margin.
    """
    left, right = readout(problem, W, layer_norm)
    w = left @ right.T
    label = jnp.asarray(problem.labels)
    return w[jnp.arange(len(w)), label][:, None] - w
