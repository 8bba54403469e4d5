"""The transformer as a dynamics sees it while training: gradients that come from passes over devices."""

from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from engram._types import Array
from engram.system import AbstractSystem, Look
from engram.transformer._passes import Passes
from engram.transformer._sums import Sums


class Measured(AbstractSystem):
    """A system that remembers what it measured last: a dynamics asks for gradients, the log for losses.

    Args:
        law: One weight per sequence.
        passes: What measures.
        seen: Where the last state and its sums are kept.
        tell: Called now and then within a pass.
    """

    law: Any
    passes: Any
    seen: dict[str, Any]
    tell: Any

    def __init__(self, passes: Passes, tell: Any):
        self.law = np.full(passes.num_sequences, 1 / passes.num_sequences)
        self.passes, self.seen, self.tell = passes, {}, tell

    @property
    def sums(self) -> Sums:
        """What was measured last."""
        return self.seen["sums"]

    def know(self, state: PyTree, sums: Sums) -> None:
        """Take over what was measured elsewhere."""
        self.seen.update(state=state, sums=sums)

    def grad(self, state: PyTree, law: Array | None = None, look: Look | None = None) -> Any:
        if law is not None or self.seen.get("state") is not state:
            weights = None if law is None else np.asarray(law)
            plain = jax.tree.map(np.asarray, state)
            self.know(
                None if law is not None else state, self.passes.measure(plain, weights, self.tell)
            )
        return self.sums.grads

    def look(self, state: PyTree, law: Array | None = None) -> Look:
        """Means over the positions that the law names; for a loss linear in it, `TransformerSystem`."""
        self.grad(state, law)
        return Look(self.sums.loss, 1 - self.sums.hits)
