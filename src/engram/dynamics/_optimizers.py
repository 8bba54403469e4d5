"""Optimizers: from gradients to changes of the state; those of optax by name, with their numbers."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from engram._checks import check_not_negative, is_traced
from engram._types import Array, PyTree, Rate, Scalar
from engram.dynamics._base import Stability, rate_at, read_rate
from engram.dynamics._sharing import (
    Shares,
    Sharing,
    Update,
    adam_average,
    divided,
    heavy_ball,
    keep_all,
    muon_average,
    nesterov_average,
    polar_parts,
    to_orthogonal,
    to_polar,
    to_signs,
    to_unit_length,
)
from engram.system import AbstractSystem, shown_values


class AbstractOptimizer(Stability):
    """A way to turn gradients into changes of the state."""

    role = "optimizer"
    is_linear = False  # whether changes are linear in gradients, so that particles can follow
    is_normalised = False  # whether gradients are divided by their norm first
    is_plain = False  # whether a change is the gradient times a number that is known beforehand

    def over(self, steps: int) -> "AbstractOptimizer":
        """The same for a run of so many steps: schedules become tables, so that numbers compile once."""
        del steps
        return self

    def init(self, state: PyTree) -> PyTree:
        """What is remembered before the first step; nothing by default."""
        del state

    @abc.abstractmethod
    def update(
        self, gradient: PyTree, memory: PyTree, state: PyTree, index: Array, system: AbstractSystem
    ) -> tuple[PyTree, PyTree]:
        """The change of the state in step `index`, and what is remembered."""

    def begin_split(self, parts: PyTree, state: PyTree) -> PyTree:
        """What `split` remembers before the first step; nothing by default."""
        del parts, state

    def split(self, parts: PyTree, past: PyTree, update: Update) -> Shares | None:
        """The changes of the state that parts of the gradient make, along a first axis; None if not known.

        Whatever is not linear in the gradients is held at the value that it had in the update.
        """
        del parts, past, update
        return None

    @property
    def needs_weights(self) -> str | None:
        if self.is_linear:
            return None
        return (
            f"{self.label} acts on the entries of W, not linearly on gradients, so the scores alone do "
            "not determine the next scores."
        )

    @property
    def label(self) -> str:
        """What to call it."""
        return type(self).__name__

    def rates(self) -> Array | float:
        """The learning rate: one number, one per step, or NaN where it is not known."""
        return getattr(self, "learning_rate", np.asarray(np.nan))


class Plain(AbstractOptimizer):
    r"""Plain descent, $W - \eta_t g$.

    Args:
        learning_rate: A number, one number per step, or a schedule.
    """

    learning_rate: Any

    is_linear = True
    is_plain = True

    def over(self, steps: int) -> "Plain":
        return Plain(read_rate(self.learning_rate, steps))

    def update(
        self, gradient: PyTree, memory: PyTree, state: PyTree, index: Array, system: AbstractSystem
    ) -> tuple[PyTree, PyTree]:
        eta = rate_at(self.learning_rate, index)
        return jax.tree.map(lambda g: -(eta * g), gradient), memory

    def split(self, parts: PyTree, past: PyTree, update: Update) -> Shares:
        eta = rate_at(self.learning_rate, update.index)
        return Shares(jax.tree.map(lambda g: -(eta * g), parts), None, past)

    def threshold(self, index: Array) -> Array:
        return 2 / rate_at(self.learning_rate, index)


class Optimizer(AbstractOptimizer):
    """An optax transformation, kept as its factory and its numbers.

    Args:
        factory: Builds the transformation from the numbers.
        numbers: Its hyper-parameters, among them `learning_rate`, which may be one number per step.
        is_linear: Whether updates are linear in the gradients, so that particles can follow them.
        is_normalised: Whether gradients are divided by their norm first.
        edge: From the numbers to the sharpness beyond which it is unstable on a quadratic.
        divisor: From the numbers and the memory to what gradients are divided by; None if by nothing.
        name: What to call it.
        sharing: How its changes divide among parts of the gradients, if that is known.
    """

    factory: Callable[..., Any] = eqx.field(static=True)
    numbers: dict[str, Any]
    is_linear: bool = eqx.field(static=True)
    is_normalised: bool = eqx.field(static=True)
    edge: Callable[[dict[str, Any]], Any] = eqx.field(static=True)
    divisor: Callable[[dict[str, Any], Any], Any] | None = eqx.field(static=True)
    name: str = eqx.field(static=True)
    sharing: Sharing | None = eqx.field(static=True, default=None)

    def over(self, steps: int) -> "Optimizer":
        if "learning_rate" not in self.numbers:
            return self
        table = read_rate(self.numbers["learning_rate"], steps)
        return eqx.tree_at(lambda o: o.numbers, self, self.numbers | {"learning_rate": table})

    def build(self, index: Array | int = 0) -> Any:
        """The transformation itself, with the learning rate of step `index`."""
        return self.factory(**self._at(index))

    def _at(self, index: Any) -> dict[str, Any]:
        if np.ndim(self.numbers.get("learning_rate", 0.0)) == 0:
            return self.numbers
        return self.numbers | {"learning_rate": rate_at(self.numbers["learning_rate"], index)}

    def init(self, state: PyTree) -> PyTree:
        return self.build().init(state)

    def update(
        self, gradient: PyTree, memory: PyTree, state: PyTree, index: Array, system: AbstractSystem
    ) -> tuple[PyTree, PyTree]:
        if self.is_normalised:
            norm = system.norm(gradient)
            # Once the gradient is exactly zero there is no direction left to take.
            unit = lambda g: jnp.where(norm > 0, g / jnp.where(norm > 0, norm, 1), 0)
            gradient = jax.tree.map(unit, gradient)
        return self.build(index).update(gradient, memory, state)

    def begin_split(self, parts: PyTree, state: PyTree) -> PyTree:
        if self.sharing is None or self.sharing.average is None:
            return None
        return jax.tree.map(jnp.zeros_like, (parts, state))

    def split(self, parts: PyTree, past: PyTree, update: Update) -> Shares | None:
        if self.sharing is None:
            return None
        numbers = self._at(update.index)
        rate = numbers["learning_rate"]
        shares = self.sharing.split(numbers, rate, parts, past, update)
        if "weight_decay" not in numbers:
            return shares
        shrink = lambda x: -(rate * numbers["weight_decay"] * x)
        return shares._replace(decay=jax.tree.map(shrink, update.state))

    def threshold(self, index: Array) -> Array:
        return jnp.asarray(self.edge(self._at(index)))

    def preconditioner(self, memory: PyTree) -> PyTree:
        return None if self.divisor is None else self.divisor(self.numbers, memory)

    @property
    def is_preconditioned(self) -> bool:
        return self.divisor is not None

    @property
    def label(self) -> str:
        return self.name

    def rates(self) -> Array | float:
        return self.numbers.get("learning_rate", np.asarray(np.nan))

    def settings(self) -> dict[str, Any]:
        return {"optimizer": self.name} | self.numbers

    def __repr__(self) -> str:
        first = sorted(self.numbers, key="learning_rate".__ne__)
        return f"{self.name}({shown_values({name: self.numbers[name] for name in first})})"


def _named(
    name: str, factory, numbers, divisor=None, *, linear=False, normalised=False
) -> Optimizer:
    for key, value in numbers.items():
        if key == "learning_rate" and (callable(value) or np.ndim(value) == 1):
            continue  # read when the number of steps is known
        check_not_negative(key, value, f" of {name}")
    keep = lambda value: value if is_traced(value) or callable(value) else np.asarray(value, float)
    arrays = {key: keep(value) for key, value in numbers.items()}
    return Optimizer(
        factory, arrays, linear, normalised, _EDGES.get(name, _nan), divisor, name, _SHARINGS[name]
    )


def _optax(name: str, **fixed: Any) -> Callable[..., Any]:
    """A factory of optax, which loads for a fifth of a second when it is first used."""

    def build(**numbers: Any) -> Any:
        import optax

        return getattr(optax, name)(**numbers, **fixed)

    return build


_SGD, _ADAM, _ADAMW, _RMSPROP, _SIGN = map(_optax, ("sgd", "adam", "adamw", "rmsprop", "sign_sgd"))
_NESTEROV = _optax("sgd", nesterov=True)


def _muon(learning_rate: Any, momentum: Any) -> Any:
    import optax

    return optax.contrib.muon(learning_rate, beta=momentum)


def _exact_muon(learning_rate: Any, cutoff: Any) -> Any:
    import optax

    def polar(g: Array) -> Array:
        U, s, V = polar_parts(g if jnp.ndim(g) > 1 else g.reshape(-1, 1), cutoff)
        return ((U * (s > 0)[..., None, :]) @ V).reshape(g.shape)

    def update(updates: PyTree, state: Any, params: Any = None) -> tuple[PyTree, Any]:
        del params
        return jax.tree.map(lambda g: -learning_rate * polar(g), updates), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


# The sharpness beyond which an optimizer is unstable on a quadratic, from its numbers.
_EDGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "momentum": lambda n: 2 * (1 + n["momentum"]) / n["learning_rate"],
    "nesterov": lambda n: 2 * (1 + n["momentum"]) / (n["learning_rate"] * (1 + 2 * n["momentum"])),
    # An exponential average of gradients, unlike heavy ball: its gain is 1 - beta smaller.
    "adam": lambda n: 2 * (1 + n["b1"]) / ((1 - n["b1"]) * n["learning_rate"]),
    # At the threshold a step turns the sign: 2 = eta (decay + gain h), gain = (1 - b1) / (1 + b1).
    "adamw": lambda n: (
        (2 / n["learning_rate"] - n["weight_decay"]) / ((1 - n["b1"]) / (1 + n["b1"]))
    ),
    "rmsprop": lambda n: 2 / n["learning_rate"],
}


def _nan(numbers: dict[str, Any]) -> Any:
    """No threshold is known, or there is none."""
    return jnp.full_like(jnp.asarray(numbers.get("learning_rate", 0.0)), jnp.nan)


def _remembered(memory: PyTree, name: str) -> Any:
    import optax

    return optax.tree_utils.tree_get_all_with_path(memory, name)[0][1]


def _adams_divisor(numbers: dict[str, Any], memory: PyTree) -> Any:
    count = _remembered(memory, "count")
    unbias = 1 - numbers["b2"] ** jnp.maximum(count, 1)
    # Before the first step there is no second moment yet.
    root = lambda nu: jnp.where(count > 0, jnp.sqrt(nu / unbias) + numbers["eps"], jnp.nan)
    return jax.tree.map(root, _remembered(memory, "nu"))


def _rmsprops_divisor(numbers: dict[str, Any], memory: PyTree) -> Any:
    return jax.tree.map(lambda nu: jnp.sqrt(nu + numbers["eps"]), _remembered(memory, "nu"))


_SHARINGS = {
    "momentum": Sharing(heavy_ball, keep_all),
    "nesterov": Sharing(nesterov_average, keep_all),
    "normalised": Sharing(None, to_unit_length),
    "adam": Sharing(adam_average, divided(_adams_divisor)),
    "adamw": Sharing(adam_average, divided(_adams_divisor)),
    "rmsprop": Sharing(None, divided(_rmsprops_divisor)),
    "sign": Sharing(None, to_signs),
    "muon": Sharing(muon_average, to_orthogonal),
    "exact_muon": Sharing(None, to_polar),
}

sgd = Plain


def momentum(learning_rate: Rate, momentum: Scalar = 0.9) -> Optimizer:
    """Heavy ball: v = beta v + g, W - eta v; stable up to a sharpness of 2 (1 + beta) / eta."""
    numbers = {"learning_rate": learning_rate, "momentum": momentum}
    return _named("momentum", _SGD, numbers, linear=True)


def nesterov(learning_rate: Rate, momentum: Scalar = 0.9) -> Optimizer:
    """Nesterov's momentum; stable up to a sharpness of 2 (1 + beta) / (eta (1 + 2 beta))."""
    numbers = {"learning_rate": learning_rate, "momentum": momentum}
    return _named("nesterov", _NESTEROV, numbers, linear=True)


def normalised(learning_rate: Rate) -> Optimizer:
    """Normalised descent: W - eta g / |g|. Its steps have a length, so nothing is stable."""
    numbers = {"learning_rate": learning_rate}
    return _named("normalised", _SGD, numbers, linear=True, normalised=True)


def adam(
    learning_rate: Rate, b1: Scalar = 0.9, b2: Scalar = 0.999, eps: Scalar = 1e-8
) -> Optimizer:
    """Adam; stable up to a preconditioned sharpness of 2 (1 + b1) / ((1 - b1) eta)."""
    numbers = {"learning_rate": learning_rate, "b1": b1, "b2": b2, "eps": eps}
    return _named("adam", _ADAM, numbers, _adams_divisor)


def adamw(
    learning_rate: Rate,
    b1: Scalar = 0.9,
    b2: Scalar = 0.999,
    eps: Scalar = 1e-8,
    weight_decay: Scalar = 1e-4,
) -> Optimizer:
    """Adam with decoupled weight decay; stable up to (2 / eta - decay) (1 + b1) / (1 - b1)."""
    numbers = {"learning_rate": learning_rate, "b1": b1, "b2": b2, "eps": eps}
    return _named("adamw", _ADAMW, numbers | {"weight_decay": weight_decay}, _adams_divisor)


def rmsprop(learning_rate: Rate, decay: Scalar = 0.9, eps: Scalar = 1e-8) -> Optimizer:
    """RMSprop; stable up to a preconditioned sharpness of 2 / eta."""
    numbers = {"learning_rate": learning_rate, "decay": decay, "eps": eps}
    return _named("rmsprop", _RMSPROP, numbers, _rmsprops_divisor)


def sign(learning_rate: Rate) -> Optimizer:
    """Descent by the sign of each entry of the gradient: its steps have a length, so nothing is stable."""
    return _named("sign", _SIGN, {"learning_rate": learning_rate})


def muon(learning_rate: Rate, momentum: Scalar = 0.95) -> Optimizer:
    """Muon as optax has it: Nesterov's average, nearly orthogonal after five rounds of Newton and Schulz."""
    return _named("muon", _muon, {"learning_rate": learning_rate, "momentum": momentum})


def exact_muon(learning_rate: Rate, cutoff: Scalar = 1e-10) -> Optimizer:
    r"""Exact Muon without momentum: $W - \eta\,U_r V_r^\top$ from the gradient's singular vectors.

    Those with singular values up to `cutoff` times the largest, or within rounding of zero, are left out: a
    gradient of rank one then makes a step of length $\eta$. A vector counts as a column.
    """
    return _named("exact_muon", _exact_muon, {"learning_rate": learning_rate, "cutoff": cutoff})


def wrap(transformation: Any) -> Optimizer:
    """Any optax transformation; its numbers are unknown, so are its threshold and its linearity."""
    return Optimizer(lambda: transformation, {}, False, False, _nan, None, "optax")
