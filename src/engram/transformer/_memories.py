"""Each trained matrix as a memory, and further probes: the same margins and errors as anywhere else."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from engram import memory
from engram._precision import in_input_precision
from engram._types import Array, ArrayLike, Weights
from engram.problem import Problem
from engram.transformer._model import Model, read
from engram.transformer._passes import Passes
from engram.transformer._task import Sequences


class Memory(NamedTuple):
    """A problem and the weights that are to solve it: what every function of `engram.memory` takes."""

    problem: Problem
    W: Weights


def memories(model: Model, triggers: ArrayLike | None = None) -> dict[str, Memory]:
    r"""W_O^2, W_K^2 and W_K^1 as associative memories, with uniform frequencies.

    - `wo2` maps what is read, $\phi_o(e_i) = W_V^2 e_i$, to the token's own output embedding $u_i$.
    - `wk2` maps a query $e_q$, for each trigger $q$, to the key $\phi_k(e_q) = W_O^1 W_V^1 e_q$, among
      the triggers' keys; `wk2_all` among those of all tokens.
    - `wk1` maps a position $p_t$ to the one before, $p_{t-1}$, among all positions; `causal_margins`
      looks only at those that attention can see.

    Attention is a softmax over keys, so keys are the classes:
    $\langle q, W_K k \rangle = \langle k, W_K^\top q \rangle$.

    Args:
        model: The transformer.
        triggers: The tokens that W_K^2 must find; by default all.

    Paper: sub:appx_transformer, where the maximum of W_K^2 runs over queries by mistake.
    """
    double = lambda array: np.asarray(array, np.float64)
    E, P, U = map(double, (model.W_E, model.W_P, model.W_U))
    triggers = np.arange(len(E)) if triggers is None else distinct(triggers)
    read_as = double(model["wv2"])
    keyed_as = double(model["wo1"]) @ double(model["wv1"])
    uniform = lambda n: np.full(n, 1 / n)
    N, T = len(E), len(P)
    keys, among = E @ keyed_as.T, triggers if len(triggers) > 1 else np.arange(N)
    K, find = len(triggers), double(model["wk2"]).T
    places = np.flatnonzero(np.isin(among, triggers))
    return {
        "wo2": Memory(Problem(E @ read_as.T, U, uniform(N), np.arange(N)), double(model["wo2"])),
        "wk2": Memory(Problem(E[triggers], keys[among], uniform(K), places), find),
        "wk2_all": Memory(Problem(E[triggers], keys, uniform(K), triggers), find),
        "wk1": Memory(Problem(P[1:], P, uniform(T - 1), np.arange(T - 1)), double(model["wk1"]).T),
    }


def distinct(triggers: ArrayLike) -> np.ndarray:
    """The triggers in the order in which they are first met."""
    unique, first = np.unique(np.asarray(triggers), return_index=True)
    return unique[np.argsort(first)].astype(int)


@in_input_precision
def causal_margins(problem: Problem, W: Weights, *, itself: bool = True) -> Float[Array, " T1"]:
    """Margins of W_K^1 among the keys that a query can see: positions before it, and itself.

    Without itself, position 1 sees one key alone: its margin is infinite.
    """
    gaps = memory.class_margins(problem, W)
    T = problem.num_classes
    places = jnp.arange(T)[None]
    seen = places < jnp.arange(1, T)[:, None] + itself
    others = seen & (places != jnp.asarray(problem.labels)[:, None])
    return jnp.where(others, gaps, jnp.inf).min(axis=1)


def attention_patterns(model: Model, tokens: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Attention of both layers over one sequence: queries in rows, keys in columns."""
    with jax.enable_x64(np.asarray(model.W_E).dtype == np.float64):
        first, second = _read(model, jnp.asarray(tokens, int))[1]
        return np.asarray(first), np.asarray(second)


def induction_scores(model: Model, sequences: Sequences, num: int = 32) -> dict[str, float]:
    """How much attention goes where an induction head looks, on average over the first sequences.

    `previous`: of the first layer, from each position to the one before. `induction`: of the second
    layer, where the loss looks, to the positions right after earlier occurrences of the same token.
    """
    previous, induction = [], []
    for row in range(min(num, len(sequences.tokens))):
        tokens = sequences.inputs[row]
        first, second = attention_patterns(model, tokens)
        previous.append(np.diagonal(first, -1))
        same = tokens[:, None] == tokens[None, :-1]  # query, key before
        after = np.zeros_like(second, bool)
        after[:, 1:] = same & (np.arange(1, len(tokens)) <= np.arange(len(tokens))[:, None])
        induction.append((second * after).sum(axis=1)[sequences.in_loss[row]])
    mean = lambda parts: float(np.concatenate(parts).mean())
    return {"previous": mean(previous), "induction": mean(induction)}


def evaluate(model: Model, sequences: Sequences) -> dict[str, float]:
    """Mean loss and in-context accuracy of a model on given sequences."""
    with jax.enable_x64(np.asarray(model.W_E).dtype == np.float64):
        means = Passes(model, sequences, (), whole=False).measure({})
    return {"loss": float(means.loss), "accuracy": float(means.hits)}


_read = jax.jit(read)
