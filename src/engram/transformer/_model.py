r"""The transformer, whole, as the paper writes it: the yardstick for every faster computation.

Two layers of causal attention, no MLP, no normalisation, queries as they come ($W_Q = I$):

$$h_t \leftarrow h_t + W_O \sum_{s \le t} a_{ts} W_V h_s, \qquad
  a_{ts} \propto \exp(\langle h_t, W_K h_s \rangle / \sqrt d),$$

from $h_t = e_{z_t} + p_t$ to logits $\langle u_y, h_t \rangle$.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Integer

from engram._precision import in_input_precision
from engram._types import Array
from engram.transformer._config import Config
from engram.transformer._task import Sequences


class Layer(eqx.Module):
    """The matrices of one attention layer; each acts on columns."""

    W_K: Float[Array, "d d"]
    W_V: Float[Array, "d d"]
    W_O: Float[Array, "d d"]


class Model(eqx.Module):
    """Embeddings as rows, two layers, and the factor of the attention scores."""

    W_E: Float[Array, "N d"]
    W_P: Float[Array, "T d"]
    W_U: Float[Array, "N d"]
    layer1: Layer
    layer2: Layer
    score_scale: float = eqx.field(static=True)

    @property
    def dim(self) -> int:
        """Width d."""
        return self.W_E.shape[1]

    def __getitem__(self, name: str) -> Any:
        """A matrix by its short name: wo2, wk2, wk1, and so on."""
        _, kind, layer = name
        return getattr((self.layer1, self.layer2)[int(layer) - 1], f"W_{kind.upper()}")

    def replace(self, matrices: dict[str, Any]) -> "Model":
        """The model with other matrices, by short name."""
        where = lambda model: [model[name] for name in matrices]
        return eqx.tree_at(where, self, list(matrices.values()))


def make_model(config: Config, num_tokens: int) -> Model:
    """Draw a model: embeddings N(0, 1), the rest uniform in +-1/sqrt d, as in the cited code.

    Paper: sub:appx_transformer.
    """
    rng = np.random.default_rng([config.seed, 2])
    N, T, d = num_tokens, config.length, config.dim
    embed = lambda n: config.embedding_scale * rng.standard_normal((n, d))
    matrix = lambda n=d: rng.uniform(-1, 1, (n, d)) / np.sqrt(d)
    cast = lambda array: np.asarray(array, config.dtype)
    W_E, W_P, W_U = embed(N), embed(T), matrix(N)
    layers = [Layer(*(cast(matrix()) for _ in range(3))) for _ in range(2)]
    scale = d**-0.5 if config.scale_scores else 1.0
    model = Model(cast(W_E), cast(W_P), cast(W_U), *layers, score_scale=scale)
    if not config.zero_start:
        return model
    return model.replace({name: np.zeros((d, d), config.dtype) for name in config.matrices})


def attend(
    layer: Layer, h: Float[Array, "T d"], score_scale: Any
) -> tuple[Float[Array, "T d"], Float[Array, "T T"]]:
    """What a layer adds to the stream, and its attention pattern (queries in rows)."""
    keys, values = h @ layer.W_K.T, h @ layer.W_V.T
    scores = score_scale * h @ keys.T
    causal = jnp.tril(jnp.ones(scores.shape, bool))
    pattern = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf), axis=1)
    return pattern @ values @ layer.W_O.T, pattern


@in_input_precision
def read(
    model: Model, tokens: Integer[Array, " T"]
) -> tuple[Float[Array, "T N"], tuple[Float[Array, "T T"], Float[Array, "T T"]]]:
    """Logits at each position of one sequence, and both layers' attention patterns."""
    h = jnp.asarray(model.W_E)[tokens] + model.W_P[: len(tokens)]
    added, first = attend(model.layer1, h, model.score_scale)
    h = h + added
    added, second = attend(model.layer2, h, model.score_scale)
    return (h + added) @ model.W_U.T, (first, second)


@in_input_precision
def plain_loss(model: Model, sequences: Sequences) -> Float[Array, ""]:
    """Mean cross-entropy over all positions that count, written out: for checks, not for speed."""
    logits = jax.vmap(lambda tokens: read(model, tokens)[0])(jnp.asarray(sequences.inputs, int))
    log_probs = jax.nn.log_softmax(logits)
    picked = jnp.take_along_axis(log_probs, jnp.asarray(sequences.targets, int)[..., None], axis=2)
    return -jnp.where(sequences.in_loss, picked[..., 0], 0.0).sum() / sequences.in_loss.sum()
