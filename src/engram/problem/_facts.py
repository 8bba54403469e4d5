"""Factual recall: a token is a pair of a subject and a relation, and asks for that subject's answer."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from engram._checks import InputError, check_choice, check_count
from engram._memory_limits import check_fits
from engram._precision import in_double
from engram._types import Array, Scalar
from engram.problem._embeddings import as_key, orthonormal_rows, sphere_rows
from engram.problem._frequencies import frequencies
from engram.problem._problem import Problem

_ROWS = {"sphere": sphere_rows, "orthonormal": orthonormal_rows}


@in_double
def facts(
    key: PRNGKeyArray | int,
    subjects: int,
    relations: int,
    answers: int,
    dim: int,
    *,
    exponent: Scalar | None = None,
    assign: str = "balanced",
    embeddings: str = "sphere",
) -> Problem:
    r"""Facts to recall: subject s and relation r ask for $a(s, r)$, one of the answers of that relation.

    Token $x = s R + r$ has the input $e_s + e_r$, and relation r the answers $r D, \ldots, r D + D - 1$. Who
    knows the relation alone has the loss $H(a \mid r)$, which is $\log D$ for balanced answers of equally
    frequent subjects where D divides S.

    Args:
        key: A JAX key or a seed.
        subjects: S.
        relations: R.
        answers: D, the answers of each relation; there are R D classes.
        dim: d.
        exponent: Subjects follow Zipf's law of this exponent; by default all are as frequent. Relations are.
        assign: "balanced", each answer of a relation to as many subjects (but for one) in a random order; or
            "random", drawn uniformly.
        embeddings: "sphere", unit vectors drawn uniformly; or "orthonormal", for d at least S + R and R D.

    Paper: ours, after Nichani, Lee and Bietti (arXiv 2412.06538).
    """
    S, R = check_count("subjects", subjects), check_count("relations", relations)
    D = check_count("answers", answers)
    if R * D < 2:
        raise InputError("`relations` times `answers` must be at least 2, got 1. Add an answer.")
    check_choice("assign", assign, ("balanced", "random"))
    check_choice("embeddings", embeddings, tuple(_ROWS))
    check_fits(4 * 8 * (S * R + R * D) * dim, subjects=S, relations=R, answers=D, dim=dim)
    input_key, output_key, answer_key = jax.random.split(as_key(key), 3)
    rows = jnp.asarray(_ROWS[embeddings](input_key, S + R, dim))
    inputs = (rows[:S, None] + rows[None, S:]).reshape(S * R, dim)
    outputs = _ROWS[embeddings](output_key, R * D, dim)
    probs = jnp.repeat(jnp.asarray(frequencies(None, S, exponent, "uniform")) / R, R)
    targets = _answers(answer_key, S, R, D, assign)
    return Problem(
        inputs,
        outputs,
        probs,
        targets.ravel(),
        names=[f"s{s} r{r}" for s in range(S) for r in range(R)],
        class_names=[f"r{r} a{a}" for r in range(R) for a in range(D)],
    )


def _answers(key: PRNGKeyArray, S: int, R: int, D: int, assign: str) -> Array:
    """The answer of each subject (rows) to each relation (columns)."""
    if assign == "random":
        within = jax.random.randint(key, (S, R), 0, D)
    else:
        orders = jax.vmap(lambda one: jax.random.permutation(one, S))(jax.random.split(key, R))
        within = orders.T % D
    return within + D * np.arange(R)[None, :]
