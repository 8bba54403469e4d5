"""The force between particles: Theorem 1."""

import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Float

from engram._types import Array, Scores, ScoresLike
from engram.particles._entry import entry
from engram.particles._recall import centred, hits, log_misses
from engram.problem import Problem


def pull(problem: Problem, w: ScoresLike, law: Array) -> Scores:
    r"""The derivative of the loss in the scores, $p(x) (p_W(y|x) - 1_{y = f^*(x)})$.

    Each entry is a difference of two products of probabilities that are both exact in the log
    domain, $q_y\,(1 - t_y) - t_y\,(1 - q_y)$ with $1 - q_y$ summed over the other classes.

    Paper: eq:grad, for one token and class.
    """
    w = centred(w)
    if problem.is_noisy and law.ndim == 1:
        law = law[:, None] * problem.targets
    if law.ndim == 2:
        log_Z = logsumexp(w, axis=1, keepdims=True)
        hit, miss = jnp.exp(w - log_Z), jnp.exp(log_misses(w) - log_Z)
        others = 1 - jnp.eye(law.shape[1], dtype=law.dtype)  # a sum over the others, no difference
        return hit * (law @ others) - law * miss
    own = hits(problem)
    log_wrong = logsumexp(jnp.where(own, -jnp.inf, w), axis=1, keepdims=True)
    log_Z = jnp.logaddexp(log_wrong, jnp.where(own, w, 0.0).sum(axis=1, keepdims=True))
    return law[:, None] * jnp.where(own, -jnp.exp(log_wrong - log_Z), jnp.exp(w - log_Z))


def spread(problem: Problem, c: Scores) -> Scores:
    r"""Pass a pull on each pair on: $\sum_{xz} \alpha_{ix}\, c_{xz}\, \langle u_z, u_j \rangle$."""
    E, U = jnp.asarray(problem.inputs), jnp.asarray(problem.outputs)
    return (E @ E.T) @ c @ (U @ U.T)


@entry()
def score_grad(problem: Problem, w: ScoresLike) -> Scores:
    """The derivative of the loss in the scores themselves, as if they were free.

    The gradient in W is `outputs.T @ score_grad.T @ inputs`.

    Paper: eq:grad.
    """
    return pull(problem, w, problem.law)


@entry()
def grad(problem: Problem, w: ScoresLike) -> Scores:
    r"""The projected gradient $\langle \nabla L(W), u_j \otimes e_i \rangle$, as a function of the scores.

    $$\sum_x p(x)\, \alpha_{ix} \sum_z \beta_{jz f^*(x)}\, p_W(z|x)$$

    Paper: thm:inter.
    """
    return spread(problem, pull(problem, w, problem.law))


@entry()
def force(problem: Problem, w: ScoresLike) -> Float[Array, "N M"]:
    r"""The velocity of each particle under gradient flow; times $\eta$, its step under descent.

    Paper: eq:interaction.
    """
    return -spread(problem, pull(problem, w, problem.law))
