"""AttentionSystem: a prompt in which a subject and a relation stand among other tokens."""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from engram._checks import InputError, check_choice, check_count, check_positive
from engram._memory_limits import check_fits
from engram._precision import traceable
from engram._types import Array, Scalar, Scores
from engram.particles import AbstractReadout
from engram.problem import Problem, as_key, sphere_rows

State = dict[str, jax.Array]


class AttentionSystem(AbstractReadout):
    r"""One layer of attention that reads a prompt: $w_{xy} = \langle u_y, V \sum_{z \in x} a_z z \rangle$.

    The prompt of a fact $x = s R + r$ has its subject, its relation, and noise tokens. The last token of all
    prompts is the same, so that $W_{KQ}$ counts by one vector q alone: $a_z = \langle q, z \rangle$, or the
    softmax of these over the prompt. V starts from zero, q from $\alpha \sum z$: every token counts alike.

    Rows of the law, and what is recorded by token, are prompts: all those of the first fact first.

    Args:
        problem: The facts, as of `problem.facts`; its inputs are not used, each token has a vector here.
        num_relations: R.
        attention: "linear" or "softmax".
        num_noise: The number of noise tokens in a prompt.
        noise_tokens: The number of different noise tokens.
        prompts: How many prompts are drawn for each fact.
        token_dim: The dimension of the tokens, unit vectors at random; None for orthonormal ones.
        start_size: $\alpha$.
        start_seed: Seed of tokens and prompts.

    Paper: ours, after Nichani, Lee and Bietti (arXiv 2412.06538).
    """

    problem: Problem
    law: Float[Array, "..."]
    vectors: Float[Array, "Z d"]
    tokens: Int[Array, "P L"]
    start_size: Scalar
    num_relations: int = eqx.field(static=True)
    attention: str = eqx.field(static=True)
    num_noise: int = eqx.field(static=True)
    noise_tokens: int = eqx.field(static=True)
    prompts: int = eqx.field(static=True)
    token_dim: int | None = eqx.field(static=True)
    start_seed: int = eqx.field(static=True)

    def __init__(
        self,
        problem: Problem,
        num_relations: int,
        *,
        attention: Literal["linear", "softmax"] = "softmax",
        num_noise: int = 0,
        noise_tokens: int = 16,
        prompts: int = 1,
        token_dim: int | None = None,
        start_size: Scalar = 0.01,
        start_seed: int = 0,
    ):
        R, C = check_count("num_relations", num_relations), check_count("prompts", prompts)
        N, K = problem.num_tokens, check_count("noise_tokens", noise_tokens)
        if N % R:
            raise InputError(
                f"`num_relations` must divide the number of facts, {N}, got {R}. Give that of the problem."
            )
        check_choice("attention", attention, ("linear", "softmax"))
        check_positive("start_size", start_size)
        self.num_noise, self.noise_tokens = check_count("num_noise", num_noise, least=0), K
        self.num_relations, self.prompts, self.attention = R, C, attention
        self.token_dim, self.start_size = token_dim, start_size
        self.start_seed = check_count("start_seed", start_seed, least=0)
        Z = N // R + R + (K if self.num_noise else 0)
        d = Z if token_dim is None else check_count("token_dim", token_dim)
        check_fits(
            8 * (Z * d + 4 * N * C * (num_noise + 2) * d), num_noise=num_noise + 1, token_dim=d
        )
        self.vectors = np.eye(Z) if token_dim is None else sphere_rows(as_key(start_seed), Z, d)
        facts = np.repeat(np.arange(N), C)
        others = np.random.default_rng(start_seed).integers(Z - K, Z, (N * C, num_noise))
        self.tokens = np.column_stack([facts // R, N // R + facts % R, others]).astype(np.int32)
        self.problem = problem if C == 1 else _repeated(problem, C)
        self.law = self.problem.law

    def attended(self, state: State) -> Float[Array, "P L"]:
        """How much each token of each prompt counts: subject, relation, noise."""
        scores = (jnp.asarray(self.vectors) @ state["query"])[jnp.asarray(self.tokens)]
        return scores if self.attention == "linear" else jax.nn.softmax(scores, axis=1)

    def scores(self, state: State) -> Scores:
        a, U = self.attended(state), jnp.asarray(self.problem.outputs)
        each = (
            jnp.asarray(self.vectors) @ (U @ state["values"]).T
        )  # what a token says of the classes
        return (a[:, :, None] * each[jnp.asarray(self.tokens)]).sum(1)

    @traceable
    def start(self) -> State:
        Z = jnp.asarray(self.vectors)
        values = jnp.zeros((self.problem.output_dim, Z.shape[1]), Z.dtype)
        return {"query": jnp.asarray(self.start_size * Z.sum(0)), "values": values}

    def growth_rates(self) -> Float[np.ndarray, " Z"]:
        r"""How fast each token is learnt from a small start: q and V grow like $e^{\lambda_z t}$ under flow.

        Linear attention is linear in q and in V, so that from W = 0 each orthonormal token grows alone, with
        $\lambda_z = \|\sum_y u_y \sum_x p(x)\, n_z(x) (1_{y = f^*(x)} - 1/M)\|$, n counting it in a prompt.
        """
        if self.attention != "linear" or self.token_dim is not None:
            raise InputError(
                "`growth_rates` are those of linear attention to orthonormal tokens. Use "
                "attention='linear' and no token_dim."
            )
        U, law = np.asarray(self.problem.outputs), np.asarray(self.law)
        M, Z = len(U), len(np.asarray(self.vectors))
        pull = law if law.ndim == 2 else law[:, None] * np.eye(M)[np.asarray(self.problem.labels)]
        pull = pull - pull.sum(1, keepdims=True) / M
        counts = np.zeros((len(pull), Z))
        np.add.at(counts, (np.arange(len(pull))[:, None], self.tokens), 1.0)
        return np.linalg.norm(counts.T @ pull @ U, axis=1)


def _repeated(problem: Problem, times: int) -> Problem:
    """Every token so many times, sharing its frequency."""
    again = lambda rows: jnp.repeat(jnp.asarray(rows), times, axis=0)
    labels = None if problem.clean_labels is None else again(problem.clean_labels)
    return Problem(
        again(problem.inputs),
        problem.outputs,
        again(problem.probs) / times,
        again(problem.targets),
        clean_labels=labels,
    )
