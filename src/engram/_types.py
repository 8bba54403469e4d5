"""The shared annotations: what an array may be, and the shapes that have names."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

Array = jax.Array | np.ndarray

if TYPE_CHECKING:
    PyTree = Any  # to a checker jaxtyping's own is unknown

    class _Convertible(Protocol):
        """An array of any library: NumPy, JAX, PyTorch, xarray, pandas."""

        def __array__(self, *args: Any, **kwargs: Any) -> Any: ...

    _Row = Sequence[float] | Sequence[_Convertible]
    ArrayLike = _Convertible | float | _Row | Sequence[_Row] | Sequence[Sequence[_Row]]
    WeightsLike = ScoresLike = ArrayLike
    NamesLike = Sequence[str] | np.ndarray
    # The state of a system: of a problem a matrix.
    StateLike = ArrayLike | Mapping[str, Any] | tuple[Any, ...] | eqx.Module
    # What a formula gives: as large as the arrays that it was given, in float64; of numbers a number.
    Numbers = np.ndarray
else:
    from jaxtyping import PyTree as PyTree

    ArrayLike = NamesLike = StateLike = Numbers = Any  # what cannot be read gets one clear line
Scalar = float | int | np.floating | Float[Array, ""]

Weights = Float[Array, "k d"]  # W, acting on columns: W e_x
Scores = Float[Array, "N M"]  # w[x, y] = <u_y, W e_x>
if not TYPE_CHECKING:  # the bodies see what was read
    WeightsLike, ScoresLike = Weights, Scores
Table = Mapping[str, Any]  # what a registered name and its fields stand for, as in a spec
Rate = (
    float | int | Sequence[float] | Array | Callable[[Any], Any]
)  # one, one per step, or a schedule
Space = Literal["auto", "weights", "particles", "margins"]
