"""The cross-entropy, the 0-1 error, and the closed-form gradient, exact at any margin."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from engram._types import Array, Scores, Weights, WeightsLike
from engram.memory._blocks import choose_block, map_blocks, sum_blocks, transposed_dot
from engram.memory._entry import entry
from engram.memory._scores import outputs_first, readout, row_norms
from engram.problem import Problem

Law = Float[Array, " N"] | Float[Array, "N M"]


class Residual(NamedTuple):
    r"""The derivative of the loss in the scores, $p(x) (p_W(y|x) - 1_{y = f^*(x)})$, factored:

    `scale * (mass - at_label on the label)`. For certain targets `mass` is the unnormalised
    probability of the wrong classes only, so nothing cancels however well x is learnt.
    """

    mass: Float[Array, "N M"]
    at_label: Float[Array, " N"]
    scale: Float[Array, " N"]
    label: Int[Array, " N"]

    def times(self, U: Float[Array, "M k"]) -> Float[Array, "N k"]:
        return self.scale[:, None] * (self.mass @ U - self.at_label[:, None] * U[self.label])

    def transposed_times(self, E: Float[Array, "N d"]) -> Float[Array, "M d"]:
        scaled = self.scale[:, None] * E
        return (
            transposed_dot(self.mass, scaled).at[self.label].add(-self.at_label[:, None] * scaled)
        )


def _is_label(w: Scores, label: Int[Array, " N"]) -> Array:
    return jnp.arange(w.shape[1])[None, :] == label[:, None]


def _others(mass: Scores) -> Scores:
    """For each class, the mass of all other classes."""
    top = _is_label(mass, jnp.argmax(mass, axis=1))
    rest = jnp.where(top, 0.0, mass).sum(axis=1, keepdims=True)
    # Only the largest class can lose digits in `total - mass`: there, add up the others.
    return jnp.where(top, rest, mass.max(axis=1, keepdims=True) + rest - mass)


def residual(w: Scores, law: Law, label: Int[Array, " N"]) -> Residual:
    if law.ndim == 1:
        rows = jnp.arange(len(w))
        top = jax.lax.stop_gradient(w.max(axis=1))  # it divides out
        # 1 - q(target) cancels once it is learnt; the wrong classes' mass does not.
        wrong = jnp.exp(w - top[:, None]).at[rows, label].set(0.0)
        Z_wrong = wrong @ jnp.ones(w.shape[1], w.dtype)  # faster than .sum on the CPU
        Z = Z_wrong + jnp.exp(w[rows, label] - top)
        return Residual(wrong, Z_wrong, law / Z, label)
    e = jnp.exp(w - jax.lax.stop_gradient(w.max(axis=1, keepdims=True)))
    # Both differences q_y - t_y = q_y (1 - t_y) - t_y (1 - q_y) without a 1 - to cancel.
    mass = e * _others(law) - law * _others(e)
    return Residual(mass, jnp.zeros(len(w), w.dtype), 1 / e.sum(axis=1), label)


@jax.custom_jvp
def block_losses(w: Scores, targets: Array) -> Float[Array, " N"]:
    """Losses of a block of tokens, without cancellation for learnt or for hopeless ones."""
    top = w.max(axis=1)
    e = jnp.exp(w - top[:, None])
    if targets.ndim == 2:
        is_top = _is_label(w, jnp.argmax(w, axis=1))
        rest = jnp.where(is_top, 0.0, e).sum(axis=1)
        # Every term is non-negative: log Z over the top, then each class's distance from it.
        distance = (targets * (top[:, None] - w)).sum(axis=1)
        return targets.sum(axis=1) * jnp.log1p(rest) + distance
    at_label = w[jnp.arange(len(w)), targets]
    Z_wrong = jnp.where(_is_label(w, targets), 0.0, e).sum(axis=1)
    gap = top - at_label
    log_Z = jnp.where(gap > 0, jnp.log(Z_wrong + jnp.exp(-gap)), jnp.log1p(Z_wrong))
    return gap + log_Z


@block_losses.defjvp
def _block_losses_jvp(primals, tangents):
    # Autodiff of the lines above would split ties and round 1 - q: use the closed form.
    (w, targets), (dw, d_targets) = primals, tangents
    certain = targets.ndim == 1
    law = jnp.ones(len(w), w.dtype) if certain else targets
    r = residual(w, law, targets if certain else jnp.argmax(targets, axis=1))
    slopes = r.scale[:, None] * r.mass
    change = (slopes * dw).sum(axis=1)
    if certain:
        return block_losses(w, targets), change - r.scale * r.at_label * dw[
            jnp.arange(len(w)), targets
        ]
    surprise = -jax.nn.log_softmax(w, axis=1)
    return block_losses(w, targets), change + (surprise * d_targets).sum(axis=1)


def whole_law(problem: Problem, law: Law) -> Law:
    """A law of tokens as a law of samples: with noisy targets, those are pairs (x, y)."""
    if problem.is_noisy and law.ndim == 1:
        return law[:, None] * jnp.asarray(problem.targets)
    return law


def loss_given_law(
    problem: Problem, W: WeightsLike, law: Law, layer_norm: bool, block_size: int | None
) -> Float[Array, ""]:
    """The loss when tokens come with another law: a mini-batch, a curriculum."""
    law = whole_law(problem, law)
    left, right = readout(problem, W, layer_norm)
    block = choose_block(problem.num_tokens, problem.num_classes, block_size)
    if law.ndim == 1:
        rows = (left, jnp.asarray(problem.targets), law)
        return sum_blocks(lambda r: (r[2] * block_losses(r[0] @ right.T, r[1])).sum(), rows, block)
    return sum_blocks(lambda r: block_losses(r[0] @ right.T, r[1]).sum(), (left, law), block)


def grad_given_law(
    problem: Problem, W: WeightsLike, law: Law, layer_norm: bool, block_size: int | None
) -> Weights:
    """The gradient when tokens come with another law; linear in it."""
    law = whole_law(problem, law)
    E, U = jnp.asarray(problem.inputs), jnp.asarray(problem.outputs)
    left, right = readout(problem, W, layer_norm)
    label = jnp.asarray(problem.labels)
    block = choose_block(problem.num_tokens, problem.num_classes, block_size)
    if outputs_first(problem) and not layer_norm:
        pull = lambda r: residual(r[0] @ right.T, r[1], r[2]).transposed_times(r[0])
        return U.T @ sum_blocks(pull, (E, law, label), block)
    return transposed_dot(pulls_given_law(problem, W, law, layer_norm, block_size), E)


def pulls_given_law(
    problem: Problem, W: WeightsLike, law: Law, layer_norm: bool, block_size: int | None
) -> Float[Array, "N k"]:
    """What each token asks of its output W e_x, as rows G: the gradient is their sum, G^T E."""
    law = whole_law(problem, law)
    E, U = jnp.asarray(problem.inputs), jnp.asarray(problem.outputs)
    left, right = readout(problem, W, layer_norm)
    block = choose_block(problem.num_tokens, problem.num_classes, block_size)
    pull = lambda r: residual(r[0] @ right.T, r[1], r[2]).times(U)
    G = map_blocks(pull, (left, law, jnp.asarray(problem.labels)), block)
    if layer_norm:
        # Through h -> h / |h|: what is along h does nothing, the rest is divided by |h|.
        size, norm = row_norms(E @ jnp.asarray(W).T)
        G = (G - (G * left).sum(axis=1, keepdims=True) * left) / norm / size
        G = jnp.where(jnp.asarray(problem.probs)[:, None] > 0, G, 0.0)
    return G


@entry("layer_norm", "block_size")
def loss(
    problem: Problem, W: WeightsLike, *, layer_norm: bool = False, block_size: int | None = None
) -> Float[Array, ""]:
    r"""The cross-entropy $L(W) = \sum_x p(x)\, \ell(W; x)$.

    Paper: eq:obj.
    """
    law = jnp.asarray(problem.law)
    return loss_given_law(problem, W, law, layer_norm, block_size)


@entry("layer_norm", "block_size")
def token_losses(
    problem: Problem, W: WeightsLike, *, layer_norm: bool = False, block_size: int | None = None
) -> Float[Array, " N"]:
    r"""The loss of each token, $\ell = \log \sum_z e^{w_{xz}} - w_{x f^*(x)}$, not weighted.

    With noisy targets, the expectation of that over p(y|x).

    Paper: eq:loss.
    """
    left, right = readout(problem, W, layer_norm)
    block = choose_block(problem.num_tokens, problem.num_classes, block_size)
    fn = lambda rows: block_losses(rows[0] @ right.T, rows[1])
    return map_blocks(fn, (left, jnp.asarray(problem.targets)), block)


@entry("layer_norm", "block_size")
def error_rate(
    problem: Problem, W: WeightsLike, *, layer_norm: bool = False, block_size: int | None = None
) -> Float[Array, ""]:
    r"""The 0-1 loss, $\sum_x p(x)\, 1[f_W(x) \ne f^*(x)]$; ties go to the lowest index.

    With noisy targets, the probability that the recalled token is not the one drawn; with clean labels,
    that it is not the clean one.

    Paper: Section 1, $L_{01}$.
    """
    left, right = readout(problem, W, layer_norm)
    block = choose_block(problem.num_tokens, problem.num_classes, block_size)

    def wrong(rows):
        left, p, answers = rows
        recalled = jnp.argmax(left @ right.T, axis=1)
        if answers.ndim == 1:
            return jnp.where(recalled == answers, 0.0, p).sum()
        return (p * (1 - answers[jnp.arange(len(p)), recalled])).sum()

    rows = (left, jnp.asarray(problem.probs), jnp.asarray(problem.answers))
    return sum_blocks(wrong, rows, block)


@entry("layer_norm", "block_size")
def grad(
    problem: Problem, W: WeightsLike, *, layer_norm: bool = False, block_size: int | None = None
) -> Weights:
    r"""The gradient $\nabla L(W) = \sum_x p(x) \sum_z p_W(z|x)\, (u_z - u_{f^*(x)}) \otimes e_x$.

    Accurate at any margin: it sums the wrong classes' mass instead of forming $p_W - 1$.

    Paper: eq:grad, averaged over p(x).
    """
    return grad_given_law(problem, W, jnp.asarray(problem.law), layer_norm, block_size)


@entry("layer_norm", "block_size")
def loss_and_grad(
    problem: Problem, W: WeightsLike, *, layer_norm: bool = False, block_size: int | None = None
) -> tuple[Float[Array, ""], Weights]:
    """The loss and its gradient in one compiled call.

    Paper: eq:obj, eq:grad.
    """
    law = jnp.asarray(problem.law)
    return (
        loss_given_law(problem, W, law, layer_norm, block_size),
        grad_given_law(problem, W, law, layer_norm, block_size),
    )
