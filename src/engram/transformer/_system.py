"""Chosen matrices of a transformer as a system: pure, or measured by passes over devices."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from engram._types import Array, PyTree
from engram.system import AbstractSystem, Look
from engram.transformer._gradients import Sums
from engram.transformer._model import Model
from engram.transformer._passes import Data, Passes, Share, pack, scan_sums
from engram.transformer._task import Sequences


class TransformerSystem(AbstractSystem):
    """The trained matrices of a transformer; pure, to be compiled, mapped and flowed.

    The state is a dictionary from `wo2`, `wk2`, `wk1` to matrices, the law one weight per sequence:
    the loss is its mean over all positions that count, when the law is uniform.

    Args:
        model: All matrices; those in the state are replaced.
        sequences: The data.
        matrices: Which ones move.

    Paper: sub:transformer.
    """

    law: Float[Array, " S"]
    model: Model
    data: Data
    matrices: tuple[str, ...] = eqx.field(static=True)
    num_positions: int = eqx.field(static=True)

    def __init__(self, model: Model, sequences: Sequences, matrices: tuple[str, ...]):
        S = len(sequences.tokens)
        # One size alone: a dynamics may compile the gradient several times over.
        self.data = pack(sequences, levels=(1.0,))
        self.model, self.matrices = model, tuple(matrices)
        self.law = np.full(S, 1 / S, np.asarray(model.W_E).dtype)
        self.num_positions = int(sequences.in_loss.sum())

    def start(self) -> dict[str, Any]:
        """The matrices as the model has them."""
        return {name: np.asarray(self.model[name]) for name in self.matrices}

    def coords(self) -> dict[str, Any]:
        return {"sequence": np.arange(len(self.law))}

    def measure(self, state: dict[str, Any], law: Array | None = None) -> Sums:
        """Loss and gradients, linear in the law, and the accuracy on the sequences it names."""
        law = jnp.asarray(self.law if law is None else law)
        rows = jnp.arange(len(law))[:, None]
        share = Share(rows, len(law) * law[:, None])
        sums = scan_sums(self.model.replace(state), self.data, share, None, self.matrices)
        grads = {name: grad / self.num_positions for name, grad in sums.grads.items()}
        named = share.weights[:, 0] @ jnp.asarray(self.data.counts, law.dtype)
        return Sums(sums.loss / self.num_positions, sums.hits / named, grads)

    def look(self, state: PyTree, law: Array | None = None) -> Look:
        """The loss and the share of positions that are predicted wrongly."""
        sums = self.measure(state, law)
        return Look(sums.loss, 1 - sums.hits)

    def grad(self, state: PyTree, law: Array | None = None, look: Look | None = None) -> PyTree:
        return self.measure(state, law).grads


class MeasuredSystem(AbstractSystem):
    """A system that remembers what it measured last: a dynamics asks for gradients, the log for losses.

    Args:
        law: One weight per sequence.
        passes: What measures.
        last: The last state measured, and its sums.
        report: Called now and then within a pass.
    """

    law: Float[Array, " S"]
    passes: Passes
    last: dict[str, Any]
    report: Callable[[], None]

    def __init__(self, passes: Passes, report: Callable[[], None]):
        self.law = np.full(passes.num_sequences, 1 / passes.num_sequences)
        self.passes, self.last, self.report = passes, {}, report

    @property
    def sums(self) -> Sums:
        """What was measured last."""
        return self.last["sums"]

    def remember(self, state: PyTree, sums: Sums) -> None:
        """Take over what was measured elsewhere."""
        self.last.update(state=state, sums=sums)

    def grad(self, state: PyTree, law: Array | None = None, look: Look | None = None) -> PyTree:
        if law is not None or self.last.get("state") is not state:
            weights = None if law is None else np.asarray(law)
            sums = self.passes.measure(jax.tree.map(np.asarray, state), weights, self.report)
            self.remember(state if law is None else None, sums)
        return self.sums.grads

    def look(self, state: PyTree, law: Array | None = None) -> Look:
        """Means over the positions that the law names; for a loss linear in it, `TransformerSystem`."""
        self.grad(state, law)
        return Look(self.sums.loss, 1 - self.sums.hits)
