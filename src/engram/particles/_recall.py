"""What is read off the particles: recall probabilities, losses, margins. All in the log domain."""

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Float, Int

from engram._types import Array, Scores, ScoresLike
from engram.particles._entry import entry
from engram.problem import Problem


def centred(w: ScoresLike) -> Scores:
    """Scores measured from each token's largest: what is left of large ones are their digits."""
    w = jnp.asarray(w)
    return w - jax.lax.stop_gradient(w.max(axis=1, keepdims=True))


def hits(problem: Problem) -> Array:
    """A mask of shape (N, M): where the class is the token's own."""
    return jax.nn.one_hot(problem.labels, problem.num_classes, dtype=bool)


def log_misses(w: Scores) -> Scores:
    r"""$\log \sum_{z \ne y} e^{w_{xz}}$ for every pair (x, y), each summed without the pair itself."""
    M = w.shape[1]
    off = ~jnp.eye(M, dtype=bool)
    return logsumexp(jnp.where(off[None], w[:, None, :], -jnp.inf), axis=2)


def pair_losses(w: Scores) -> Scores:
    r"""$-\log p_W(y|x)$ for every pair, as $\log(1 + e^{\text{misses} - w})$.

    Paper: eq:loss.
    """
    return jax.nn.softplus(log_misses(w) - w)


@entry()
def recall_probs(problem: Problem, w: ScoresLike) -> Scores:
    r"""Recall probabilities $p(y|x) \propto \exp w_{xy}$.

    Paper: eq:model-prob.
    """
    del problem
    w = jnp.asarray(w)
    return jnp.exp(w - logsumexp(w, axis=1, keepdims=True))


@entry()
def predict(problem: Problem, w: ScoresLike) -> Int[Array, " N"]:
    """The recalled token; ties go to the lowest index.

    Paper: eq:model.
    """
    del problem
    return jnp.argmax(jnp.asarray(w), axis=1)


@entry()
def class_margins(problem: Problem, w: ScoresLike) -> Scores:
    r"""Margins against each class, $m_y(x) = w_{x f^*(x)} - w_{xy}$.

    Paper: eq:margin.
    """
    w = jnp.asarray(w)
    own = jnp.where(hits(problem), w, 0.0).sum(axis=1, keepdims=True)
    return own - w


@entry()
def margins(problem: Problem, w: ScoresLike) -> Float[Array, " N"]:
    """The smallest margin of each token against a wrong class.

    Paper: Section 5.2.
    """
    hit, w = hits(problem), jnp.asarray(w)
    own = jnp.where(hit, w, 0.0).sum(axis=1)
    return jnp.where(hit, jnp.inf, own[:, None] - w).min(axis=1)


def losses(problem: Problem, w: ScoresLike) -> Float[Array, " N"]:
    if problem.is_noisy:
        return (problem.targets * pair_losses(centred(w))).sum(axis=1)
    hit, w = hits(problem), centred(w)
    own = jnp.where(hit, w, 0.0).sum(axis=1)
    return jax.nn.softplus(logsumexp(jnp.where(hit, -jnp.inf, w), axis=1) - own)


@entry()
def token_losses(problem: Problem, w: ScoresLike) -> Float[Array, " N"]:
    """The cross-entropy of each token, not weighted.

    Paper: eq:loss.
    """
    return losses(problem, w)


@entry()
def loss(problem: Problem, w: ScoresLike) -> Float[Array, ""]:
    """The cross-entropy, averaged over the token frequencies.

    Paper: eq:obj.
    """
    return problem.probs @ losses(problem, w)


@entry()
def error_rate(problem: Problem, w: ScoresLike) -> Float[Array, ""]:
    """The 0-1 loss, with noisy targets against the one drawn, or clean labels; ties go to the lowest index.

    Paper: Section 1.
    """
    w = jnp.asarray(w)
    chosen = jax.nn.one_hot(jnp.argmax(w, axis=1), problem.num_classes, dtype=w.dtype)
    table = problem.answers
    table = table if table.ndim == 2 else hits(problem).astype(w.dtype)
    return problem.probs @ (1 - (chosen * table).sum(axis=1))
