"""When do optimizers learn rare tokens? The study `tails` at a small size, with an optimizer of one's own."""

import jax
import jax.numpy as jnp

import engram
from engram.dynamics import AbstractOptimizer
from engram.registry import register


@register("optimizer", "signed_root")
class SignedRoot(AbstractOptimizer):
    """Steps along the root of each entry of the gradient: between descent and sign descent."""

    learning_rate: float

    def update(self, gradient, memory, state, index, system):
        root = lambda g: -self.learning_rate * jnp.sign(g) * jnp.sqrt(jnp.abs(g))
        return jax.tree.map(root, gradient), memory


result = engram.study("tails", tiny=True, optimizers=["plain", "signed_root", "sign"], steps=300)
for row in result.rows:
    if "rarest tenth" in row.quantity:
        print(f"{row.quantity}: {row.ours:.1f}")
