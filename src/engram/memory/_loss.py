"""The cross-entropy, the 0-1 error, and the closed-form gradient, exact at any margin."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from engram._types import Array, Scores, Weights, WeightsLike
from engram.memory._blocks import transposed_dot
from engram.memory._entry import entry
from engram.memory._scores import (
    label_margins,
    likeliest,
    outputs_first,
    reading,
    row_norms,
    stream,
)
from engram.problem import Problem
from engram.system import Look

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
    top = _is_label(mass, likeliest(mass))
    rest = jnp.where(top, 0.0, mass).sum(axis=1, keepdims=True)
    # Only the largest class can lose digits in `total - mass`: there, add up the others.
    return jnp.where(top, rest, mass.max(axis=1, keepdims=True) + rest - mass)


def _wrong_mass(w: Scores, label: Int[Array, " N"]) -> tuple[Array, Scores, Array]:
    """The largest score, the unnormalised probabilities of the wrong classes over it, and their sum."""
    top = jax.lax.stop_gradient(w.max(axis=1))  # it divides out
    # 1 - q(target) cancels once it is learnt; the wrong classes' mass does not.
    wrong = jnp.exp(w - top[:, None]).at[jnp.arange(len(w)), label].set(0.0)
    return top, wrong, wrong @ jnp.ones(w.shape[1], w.dtype)  # faster than .sum on the CPU


def residual(w: Scores, law: Law, label: Int[Array, " N"]) -> Residual:
    if law.ndim == 1:
        top, wrong, Z_wrong = _wrong_mass(w, label)
        Z = Z_wrong + jnp.exp(w[jnp.arange(len(w)), label] - top)
        return Residual(wrong, Z_wrong, law / Z, label)
    e = jnp.exp(w - jax.lax.stop_gradient(w.max(axis=1, keepdims=True)))
    # Both differences q_y - t_y = q_y (1 - t_y) - t_y (1 - q_y) without a 1 - to cancel.
    mass = e * _others(law) - law * _others(e)
    return Residual(mass, jnp.zeros(len(w), w.dtype), 1 / e.sum(axis=1), label)


@jax.custom_jvp
def block_losses(w: Scores, targets: Array) -> Float[Array, " N"]:
    """Losses of a block of tokens, without cancellation for learnt or for hopeless ones."""
    if targets.ndim == 2:
        top, _, rest = _wrong_mass(w, likeliest(w))
        # Every term is non-negative: log Z over the top, then each class's distance from it.
        distance = (targets * (top[:, None] - w)).sum(axis=1)
        return targets.sum(axis=1) * jnp.log1p(rest) + distance
    top, _, Z_wrong = _wrong_mass(w, targets)
    gap = top - w[jnp.arange(len(w)), targets]
    log_Z = jnp.where(gap > 0, jnp.log(Z_wrong + jnp.exp(-gap)), jnp.log1p(Z_wrong))
    return gap + log_Z


@block_losses.defjvp
def _block_losses_jvp(primals, tangents):
    # Autodiff of the lines above would split ties and round 1 - q: use the closed form.
    (w, targets), (dw, d_targets) = primals, tangents
    certain = targets.ndim == 1
    law = jnp.ones(len(w), w.dtype) if certain else targets
    r = residual(w, law, targets if certain else likeliest(targets))
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


def _weighted(w: Scores, targets: Array, law: Law) -> Float[Array, ""]:
    """The loss of a block of tokens under their law, which says the targets too where it has two axes."""
    if law.ndim == 2:
        return block_losses(w, law).sum()
    return (law * block_losses(w, targets)).sum()


def loss_given_law(
    problem: Problem, W: WeightsLike, law: Law, layer_norm: bool, block_size: int | None
) -> Float[Array, ""]:
    """The loss when tokens come with another law: a mini-batch, a curriculum."""
    scored = stream(problem, W, layer_norm, block_size)
    return scored.sum(_weighted, problem.targets, whole_law(problem, law))


def look_given_law(problem: Problem, W: WeightsLike, law: Law, layer_norm: bool) -> Look:
    """The loss under a law, the error, margins and losses of tokens, in one pass over the scores."""
    law = whole_law(problem, law)

    def shown(w: Scores, targets: Array, law: Law, *rest: Array):
        losses = block_losses(w, targets)
        weighted = block_losses(w, law) if law.ndim == 2 else law * losses
        p, answers, label = rest
        return weighted, _wrong(w, p, answers), label_margins(w, label), losses

    rows = (problem.targets, law, problem.probs, problem.answers, problem.labels)
    weighted, wrong, margins, losses = stream(problem, W, layer_norm, None).map(shown, *rows)
    return Look(weighted.sum(), wrong.sum(), margins, losses)


class _Backward(NamedTuple):
    """The gradient as a sum over tokens: what a block adds, from its scores and its `rows`; then `finish`."""

    part: Callable[..., Array]
    rows: tuple[Array, ...]
    finish: Callable[[Array], Weights]


def _backward(problem: Problem, W: WeightsLike, law: Law, layer_norm: bool) -> _Backward:
    rows = _pull_rows(problem, law)
    if outputs_first(problem) and not layer_norm:
        U = jnp.asarray(problem.outputs)
        part = lambda w, E, p, law, label: residual(w, law, label).transposed_times(E)
        return _Backward(part, rows, lambda total: U.T @ total)
    pull = _pull(problem, W, layer_norm)
    part = lambda w, E, *rest: transposed_dot(pull(w, E, *rest), E)
    return _Backward(part, rows, lambda total: total)


def _pull_rows(problem: Problem, law: Law) -> tuple[Array, ...]:
    return problem.inputs, problem.probs, whole_law(problem, law), problem.labels


def _pull(problem: Problem, W: WeightsLike, layer_norm: bool) -> Callable[..., Array]:
    """What the tokens of a block ask of their outputs W e_x."""
    U, W = jnp.asarray(problem.outputs), jnp.asarray(W)
    to_left = reading(problem, W, layer_norm).to_left

    def pull(w: Scores, E: Array, p: Array, law: Law, label: Array) -> Float[Array, "n k"]:
        G = residual(w, law, label).times(U)
        if not layer_norm:
            return G
        # Through h -> h / |h|: what is along h does nothing, the rest is divided by |h|.
        left, (size, norm) = to_left(E, p), row_norms(E @ W.T)
        G = (G - (G * left).sum(axis=1, keepdims=True) * left) / norm / size
        return jnp.where(p[:, None] > 0, G, 0.0)

    return pull


def grad_given_law(
    problem: Problem, W: WeightsLike, law: Law, layer_norm: bool, block_size: int | None
) -> Weights:
    """The gradient when tokens come with another law; linear in it."""
    part, rows, finish = _backward(problem, W, law, layer_norm)
    return finish(stream(problem, W, layer_norm, block_size).sum(part, *rows))


def pulls_given_law(
    problem: Problem, W: WeightsLike, law: Law, layer_norm: bool, block_size: int | None
) -> Float[Array, "N k"]:
    """What each token asks of its output W e_x, as rows G: the gradient is their sum, G^T E."""
    scored = stream(problem, W, layer_norm, block_size)
    return scored.map(_pull(problem, W, layer_norm), *_pull_rows(problem, law))


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
    return stream(problem, W, layer_norm, block_size).map(block_losses, problem.targets)


@entry("layer_norm", "block_size")
def error_rate(
    problem: Problem, W: WeightsLike, *, layer_norm: bool = False, block_size: int | None = None
) -> Float[Array, ""]:
    r"""The 0-1 loss, $\sum_x p(x)\, 1[f_W(x) \ne f^*(x)]$; ties go to the lowest index.

    With noisy targets, the probability that the recalled token is not the one drawn; with clean labels,
    that it is not the clean one.

    Paper: Section 1, $L_{01}$.
    """
    scored = stream(problem, W, layer_norm, block_size)
    wrong = lambda w, p, answers: _wrong(w, p, answers).sum()
    return scored.sum(wrong, problem.probs, problem.answers)


def _wrong(w: Scores, p: Float[Array, " n"], answers: Array) -> Float[Array, " n"]:
    """The probability of each token to come and to be recalled wrongly."""
    recalled = likeliest(w)
    if answers.ndim == 1:
        return jnp.where(recalled == answers, 0.0, p)
    return p * (1 - answers[jnp.arange(len(p)), recalled])


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
    """The loss and its gradient, in one pass over the scores.

    Paper: eq:obj, eq:grad.
    """
    law = jnp.asarray(problem.law)
    part, rows, finish = _backward(problem, W, law, layer_norm)
    both = lambda w, targets, *rows: (_weighted(w, targets, rows[2]), part(w, *rows))
    scored = stream(problem, W, layer_norm, block_size)
    loss, total = scored.sum(both, problem.targets, *rows)
    return loss, finish(total)
