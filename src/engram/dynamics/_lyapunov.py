"""The largest Lyapunov exponent of descent: how fast two runs that start side by side part, or meet."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float

from engram._checks import check_count
from engram._precision import make_key, nan_is_a_result, traceable
from engram._types import Array, PyTree, Scalar
from engram.system import AbstractSystem


class Lyapunov(NamedTuple):
    """The exponent per step and its standard error, the exponents of the windows, and the last state."""

    exponent: Float[Array, ""]
    error: Float[Array, ""]
    windows: Float[Array, " K"]
    last: PyTree


@traceable
@nan_is_a_result()
def lyapunov_exponent(
    system: AbstractSystem,
    state: PyTree,
    learning_rate: Scalar,
    *,
    skip: int = 1000,
    steps: int = 4096,
    windows: int = 16,
) -> Lyapunov:
    r"""The growth of a small deviation v per step, along full-batch descent at a constant rate.

    $$v_{t+1} = v_t - \eta \nabla^2 L(W_t) v_t, \qquad \lambda = \frac1T \log \frac{|v_T|}{|v_0|}.$$

    Deviations are those in which updates lie: the others keep their length for ever. At a fixed point
    $\lambda$ is $\log \max |1 - \eta h|$ over the eigenvalues h of the Hessian; on a cycle the logarithm of
    its multiplier, per step; positive where descent is chaotic. It may be compiled, and mapped over rates
    and starts.

    Args:
        system: What moves; it needs a Hessian-vector product.
        state: Where descent starts.
        learning_rate: $\eta$.
        skip: Steps before the first window, in which the path settles and the deviation turns to the
            direction that grows fastest.
        steps: Steps of all windows together; of the remainder by their number nothing is seen.
        windows: How many windows; long ones are nearly independent.
    """
    check_count("windows", windows, least=2)
    check_count("skip", skip, least=0)
    length = check_count("steps", steps, least=windows) // windows
    onto = system.movable()
    unit = lambda v: jax.tree.map(lambda x: x / system.norm(v), v)

    def step(carry: Any, _: Any) -> Any:
        state, v = carry
        tangent = lambda x, h: x - learning_rate * h
        # Rounding leaves the span of the updates, where nothing shrinks: taken off at each step.
        w = onto(jax.tree.map(tangent, v, system.hvp(state, v)))
        growth = system.norm(w)
        w = jax.tree.map(lambda x, old: jnp.where(growth > 0, x / growth, old), w, v)
        state = jax.tree.map(tangent, state, system.grad(state))
        return (state, w), jnp.log(growth)

    window = lambda carry, _: _mean_last(jax.lax.scan(step, carry, length=length))
    state = jax.tree.map(jnp.asarray, state)
    first = unit(onto(system.noise(state, make_key(0))))
    carry, _ = jax.lax.scan(step, (state, first), length=skip)
    (last, _), exponents = jax.lax.scan(window, carry, length=windows)
    error = exponents.std(ddof=1) / jnp.sqrt(1.0 * windows)
    return Lyapunov(exponents.mean(), error, exponents, last)


def _mean_last(scanned: Any) -> Any:
    carry, growths = scanned
    return carry, growths.mean()
