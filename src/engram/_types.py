"""The shared annotations: what an array may be, and the shapes that have names."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np
from jaxtyping import Float

if TYPE_CHECKING:
    PyTree = Any  # to a checker jaxtyping's own is unknown
else:
    from jaxtyping import PyTree as PyTree

Array = jax.Array | np.ndarray
Scalar = float | int | np.floating | Float[Array, ""]

Numbers = Any  # float64 numbers, in the shape of what a formula was given
Weights = Float[Array, "k d"]  # W, acting on columns: W e_x
Scores = Float[Array, "N M"]  # w[x, y] = <u_y, W e_x>
Table = Mapping[str, Any]  # what a registered name and its fields stand for, as in a spec
Rate = (
    float | int | Sequence[float] | Array | Callable[[Any], Any]
)  # one, one per step, or a schedule
Space = Literal["auto", "weights", "particles", "margins"]
ArrayLike = Any  # whatever `numpy.asarray` or `.detach()` can read: lists, NumPy, JAX, PyTorch
