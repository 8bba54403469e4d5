"""From weights to scores, and what is read off a row of scores: recall, margins, the prediction."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from engram._types import Array, Scores, WeightsLike
from engram.memory._blocks import choose_block, map_blocks
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


def readout(problem: Problem, W: WeightsLike, layer_norm: bool) -> Readout:
    E, U, W = map(jnp.asarray, (problem.inputs, problem.outputs, W))
    if outputs_first(problem) and not layer_norm:
        return Readout(E, U @ W)
    h = E @ W.T
    if not layer_norm:
        return Readout(h, U)
    size, norm = row_norms(h)
    # A token that never comes must not spoil the others: where W maps it to zero, score it zero.
    idle = (jnp.asarray(problem.probs)[:, None] == 0) & (norm == 0)
    return Readout(jnp.where(idle, 0.0, h / size / jnp.where(idle, 1.0, norm)), U)


def row_norms(h: Float[Array, "N d"]) -> tuple[Float[Array, "N 1"], Float[Array, "N 1"]]:
    """The length of each row as a product, largest entry times the rest: no square overflows."""
    largest = jax.lax.stop_gradient(jnp.abs(h).max(axis=1, keepdims=True))
    size = jnp.where(largest > 0, largest, 1.0)
    return size, jnp.sqrt(jnp.square(h / size).sum(axis=1, keepdims=True))


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
    left, right = readout(problem, W, layer_norm)
    block = choose_block(problem.num_tokens, problem.num_classes, block_size)
    return map_blocks(lambda rows: jnp.argmax(rows @ right.T, axis=1), left, block)


@entry("layer_norm", "block_size")
def margins(
    problem: Problem, W: WeightsLike, *, layer_norm: bool = False, block_size: int | None = None
) -> Float[Array, " N"]:
    r"""Margins $m(x) = w_{x f^*(x)} - \max_{y \ne f^*(x)} w_{xy}$: positive means recalled.

    With noisy targets, $f^*(x)$ is the clean label, or the likeliest class.

    Paper: Section 5.2, where the maximum is printed over $j \ne x$; it must be $j \ne f^*(x)$.
    """
    left, right = readout(problem, W, layer_norm)
    block = choose_block(problem.num_tokens, problem.num_classes, block_size)
    fn = lambda rows: label_margins(rows[0] @ right.T, rows[1])
    return map_blocks(fn, (left, jnp.asarray(problem.labels)), block)


@entry("layer_norm")
def class_margins(problem: Problem, W: WeightsLike, *, layer_norm: bool = False) -> Scores:
    r"""Margins against each class, $m_y(x) = w_{x f^*(x)} - w_{xy}$; zero at the target itself.

    Paper: eq:margin.
    """
    left, right = readout(problem, W, layer_norm)
    w = left @ right.T
    label = jnp.asarray(problem.labels)
    return w[jnp.arange(len(w)), label][:, None] - w
