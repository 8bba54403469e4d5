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
from engram.system import Look

State = dict[str, jax.Array]


class _Prompts(AbstractReadout):
    """Every prompt as a token of its own."""

    problem: Problem  # each fact as often as it has prompts
    law: Float[Array, "..."]
    vectors: Float[Array, "Z d"]
    tokens: Int[Array, "P L"]
    attention: str = eqx.field(static=True)

    def attended(self, state: State) -> Float[Array, "P L"]:
        scores = (jnp.asarray(self.vectors) @ state["query"])[jnp.asarray(self.tokens)]
        return scores if self.attention == "linear" else jax.nn.softmax(scores, axis=1)

    def scores(self, state: State) -> Scores:
        a, U = self.attended(state), jnp.asarray(self.problem.outputs)
        # What a token says of the classes.
        each = jnp.asarray(self.vectors) @ (U @ state["values"]).T
        return (a[:, :, None] * each[jnp.asarray(self.tokens)]).sum(1)


class AttentionSystem(AbstractReadout):
    r"""One layer of attention that reads a prompt: $w_{xy} = \langle u_y, V \sum_{z \in x} a_z z \rangle$.

    The prompt of a fact $x = s R + r$ has its subject, its relation, and noise tokens. The last token of all
    prompts is the same, so that $W_{KQ}$ counts by one vector q alone: $a_z = \langle q, z \rangle$, or the
    softmax of these over the prompt. V starts from zero, q from $\alpha \sum z$: every token counts alike.

    A fact has several prompts, which share its frequency: its loss and its probabilities are their means, and
    its margin is the least of theirs.

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
    asked: _Prompts
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
        vectors = np.eye(Z) if token_dim is None else sphere_rows(as_key(start_seed), Z, d)
        facts = np.repeat(np.arange(N), C)
        others = np.random.default_rng(start_seed).integers(Z - K, Z, (N * C, num_noise))
        tokens = np.column_stack([facts // R, N // R + facts % R, others]).astype(np.int32)
        self.problem, self.law, asked = problem, problem.law, _repeated(problem, C)
        self.asked = _Prompts(
            problem=asked, law=asked.law, vectors=vectors, tokens=tokens, attention=attention
        )

    def attended(self, state: State) -> Float[Array, "P L"]:
        """How much each token of each prompt counts: subject, relation, noise."""
        return self.asked.attended(state)

    def prompt_scores(self, state: State) -> Float[Array, "P M"]:
        """The score of every pair of a prompt and a class; the prompts of a fact follow one another."""
        return self.asked.scores(state)

    def scores(self, state: State) -> Scores:
        return self._by_fact(self.prompt_scores(state)).mean(1)

    @traceable
    def recall_probs(self, state: State) -> Scores:
        return self._by_fact(jax.nn.softmax(self.prompt_scores(state), axis=1)).mean(1)

    def class_margins(self, state: State) -> Scores:
        return self._by_fact(self.asked.class_margins(state)).min(1)

    @traceable
    def look(self, state: State, law: Array | None = None) -> Look:
        look = self.asked.look(state, self._law_of_prompts(law))
        by_fact = self._by_fact
        return Look(
            look.loss, look.error, by_fact(look.margins).min(1), by_fact(look.token_losses).mean(1)
        )

    @traceable
    def loss(self, state: State, law: Array | None = None) -> Float[Array, ""]:
        return self.asked.loss(state, self._law_of_prompts(law))

    @traceable
    def grad(self, state: State, law: Array | None = None, look: Look | None = None) -> State:
        return self.asked.grad(state, self._law_of_prompts(law))

    def outline(self, state: State) -> Float[Array, " K"]:
        return self.asked.outline(state)

    def _by_fact(self, rows: Array) -> Array:
        return rows.reshape(self.problem.num_tokens, self.prompts, *rows.shape[1:])

    def _law_of_prompts(self, law: Array | None) -> Array:
        law = jnp.asarray(self.law if law is None else law)
        return jnp.repeat(law, self.prompts, axis=0) / self.prompts

    def size(self, state: State) -> int:
        return self.asked.problem.size * (self.num_noise + 2) + sum(
            part.size for part in state.values()
        )

    @traceable
    def start(self) -> State:
        Z = jnp.asarray(self.asked.vectors)
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
        U, law = np.asarray(self.problem.outputs), np.asarray(self._law_of_prompts(None))
        M, Z = len(U), len(self.asked.vectors)
        pull = (
            law
            if law.ndim == 2
            else law[:, None] * np.eye(M)[np.asarray(self.asked.problem.labels)]
        )
        pull = pull - pull.sum(1, keepdims=True) / M
        counts = np.zeros((len(pull), Z))
        np.add.at(counts, (np.arange(len(pull))[:, None], self.asked.tokens), 1.0)
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
