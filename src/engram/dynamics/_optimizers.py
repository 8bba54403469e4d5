"""Practical optimizers by name: an optax factory and its numbers, so that numbers compile nothing anew."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import optax

from engram._checks import InputError, check_scalar, is_traced
from engram._types import Array


class Optimizer(eqx.Module):
    """An optax transformation, kept as its factory and its numbers.

    Args:
        factory: Builds the transformation from the numbers.
        numbers: Its hyper-parameters, among them `learning_rate`.
        is_linear: Whether updates are linear in the gradients, so that particles can follow them.
        is_normalised: Whether gradients are divided by their norm first.
        threshold: From the numbers to the sharpness beyond which it is unstable on a quadratic.
        name: What to call it.
    """

    factory: Callable[..., optax.GradientTransformation] = eqx.field(static=True)
    numbers: dict[str, Any]
    is_linear: bool = eqx.field(static=True)
    is_normalised: bool = eqx.field(static=True)
    threshold: Callable[[dict[str, Any]], Any] = eqx.field(static=True)
    name: str = eqx.field(static=True)

    def build(self) -> optax.GradientTransformation:
        """The transformation itself."""
        return self.factory(**self.numbers)


def _named(name: str, factory, numbers, threshold, *, linear=False, normalised=False) -> Optimizer:
    for key, value in numbers.items():
        if callable(value):
            raise InputError(
                f"`{key}` of {name} must be a number, got a schedule. Pass optax's own "
                "transformation with that schedule to `PracticalDescent`."
            )
        if not is_traced(value) and not check_scalar(key, value) >= 0:
            raise InputError(
                f"`{key}` of {name} must not be negative, got {value}. Choose another."
            )
    arrays = {
        key: value if is_traced(value) else np.asarray(value, dtype=np.float64)
        for key, value in numbers.items()
    }
    return Optimizer(factory, arrays, linear, normalised, threshold, name)


def _plain(numbers: dict[str, Any]) -> Any:
    return 2 / numbers["learning_rate"]


def _heavy_ball(numbers: dict[str, Any]) -> Any:
    return 2 * (1 + numbers["momentum"]) / numbers["learning_rate"]


def _nesterov(numbers: dict[str, Any]) -> Any:
    beta = numbers["momentum"]
    return 2 * (1 + beta) / (numbers["learning_rate"] * (1 + 2 * beta))


def _averaged(numbers: dict[str, Any]) -> Any:
    # An exponential average of gradients, unlike heavy ball: its gain is 1 - beta smaller.
    return 2 * (1 + numbers["b1"]) / ((1 - numbers["b1"]) * numbers["learning_rate"])


def _decoupled(numbers: dict[str, Any]) -> Any:
    # At the threshold a step turns the sign: 2 = eta (decay + gain h), gain = (1 - b1) / (1 + b1).
    gain = (1 - numbers["b1"]) / (1 + numbers["b1"])
    return (2 / numbers["learning_rate"] - numbers["weight_decay"]) / gain


def _none(numbers: dict[str, Any]) -> Any:
    return jnp.full_like(jnp.asarray(numbers["learning_rate"]), jnp.nan)


def _make_momentum(learning_rate, momentum) -> optax.GradientTransformation:
    return optax.sgd(learning_rate, momentum)


def _make_nesterov(learning_rate, momentum) -> optax.GradientTransformation:
    return optax.sgd(learning_rate, momentum, nesterov=True)


def _make_muon(learning_rate, momentum) -> optax.GradientTransformation:
    return optax.contrib.muon(learning_rate, beta=momentum)


def sgd(learning_rate: Any) -> Optimizer:
    """Plain descent: W - eta g."""
    return _named("sgd", optax.sgd, {"learning_rate": learning_rate}, _plain, linear=True)


def momentum(learning_rate: Any, momentum: float = 0.9) -> Optimizer:
    """Heavy ball: v = beta v + g, W - eta v; stable up to a sharpness of 2 (1 + beta) / eta."""
    numbers = {"learning_rate": learning_rate, "momentum": momentum}
    return _named("momentum", _make_momentum, numbers, _heavy_ball, linear=True)


def nesterov(learning_rate: Any, momentum: float = 0.9) -> Optimizer:
    """Nesterov's momentum; stable up to a sharpness of 2 (1 + beta) / (eta (1 + 2 beta))."""
    numbers = {"learning_rate": learning_rate, "momentum": momentum}
    return _named("nesterov", _make_nesterov, numbers, _nesterov, linear=True)


def normalised(learning_rate: Any) -> Optimizer:
    """Normalised descent: W - eta g / |g|. Its steps have a length, so nothing is stable."""
    numbers = {"learning_rate": learning_rate}
    return _named("normalised", optax.sgd, numbers, _none, linear=True, normalised=True)


def adam(learning_rate: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Optimizer:
    """Adam; stable up to a preconditioned sharpness of 2 (1 + b1) / ((1 - b1) eta)."""
    numbers = {"learning_rate": learning_rate, "b1": b1, "b2": b2, "eps": eps}
    return _named("adam", optax.adam, numbers, _averaged)


def adamw(
    learning_rate: Any,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 1e-4,
) -> Optimizer:
    """Adam with decoupled weight decay; stable up to (2 / eta - decay) (1 + b1) / (1 - b1)."""
    numbers = {"learning_rate": learning_rate, "b1": b1, "b2": b2, "eps": eps}
    return _named("adamw", optax.adamw, numbers | {"weight_decay": weight_decay}, _decoupled)


def rmsprop(learning_rate: Any, decay: float = 0.9, eps: float = 1e-8) -> Optimizer:
    """RMSprop; stable up to a preconditioned sharpness of 2 / eta."""
    numbers = {"learning_rate": learning_rate, "decay": decay, "eps": eps}
    return _named("rmsprop", optax.rmsprop, numbers, _plain)


def sign(learning_rate: Any) -> Optimizer:
    """Descent by the sign of each entry of the gradient: its steps have a length, so nothing is stable."""
    return _named("sign", optax.sign_sgd, {"learning_rate": learning_rate}, _none)


def muon(learning_rate: Any, momentum: float = 0.95) -> Optimizer:
    """Muon: steps along the orthogonal factor of the averaged gradient."""
    numbers = {"learning_rate": learning_rate, "momentum": momentum}
    return _named("muon", _make_muon, numbers, _none)


def wrap(transformation: optax.GradientTransformation) -> Optimizer:
    """Any optax transformation; its numbers are unknown, so are its threshold and its linearity."""
    keep = lambda: transformation
    nan = lambda numbers: jnp.asarray(np.nan)
    return Optimizer(keep, {}, False, False, nan, "optax")


def second_moment(optimizer: Optimizer, state: Any) -> Array | None:
    """What Adam and RMSprop divide by, found in the optimizer's own state; None for others."""
    found = optax.tree_utils.tree_get_all_with_path(state, "nu")
    if not found or optimizer.name not in ("adam", "adamw", "rmsprop"):
        return None
    nu = found[0][1]
    if optimizer.name == "rmsprop":
        return jnp.sqrt(nu + optimizer.numbers["eps"])
    count = optax.tree_utils.tree_get_all_with_path(state, "count")[0][1]
    unbiased = nu / (1 - optimizer.numbers["b2"] ** jnp.maximum(count, 1))
    # Before the first step there is no second moment yet.
    return jnp.where(count > 0, jnp.sqrt(unbiased) + optimizer.numbers["eps"], jnp.nan)
