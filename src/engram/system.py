"""AbstractSystem: what moves, and what one can ask of it. A gradient that is linear in the data's law."""

import abc
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from engram._checks import InputError, check_finite, is_traced
from engram._precision import make_key, traceable
from engram._types import Array, PyTree, Scalar
from engram.registry import read_off
from engram.special import largest_eigenpairs, normals


def named_parts(tree: PyTree, otherwise: str) -> dict[str, Any]:
    """The arrays of a pytree by their paths; `otherwise` is the name of a single one."""
    parts = jax.tree_util.tree_flatten_with_path(tree)[0]
    named = {jax.tree_util.keystr(path, simple=True, separator="_"): x for path, x in parts}
    return {name or otherwise: part for name, part in named.items()}


class Registered(eqx.Module):
    """Something that can have a name in the registry, and that says what it is made of."""

    role = ""  # what it is to the registry: "system", "dynamics", ...

    def settings(self) -> dict[str, Any]:
        """Its name and its numbers, as specs and files have them."""
        return read_off(self.role, self)

    def __repr__(self) -> str:
        """As it could be made again: the arguments that are not the default ones, arrays shortened."""
        arguments = inspect.signature(type(self)).parameters
        given = {
            name: getattr(self, name)
            for name in arguments
            if hasattr(self, name) and name not in self._unshown()
            if _shown(getattr(self, name)) != _shown(arguments[name].default)
        }
        return f"{type(self).__name__}({shown_values(given)})"

    def _unshown(self) -> tuple[str, ...]:
        """Arguments that other ones determine."""
        return ()


def shown_values(values: Mapping[str, Any]) -> str:
    """Values by name in one line, arrays by their first and last numbers; None is left out."""
    return ", ".join(f"{name}={_shown(x)}" for name, x in values.items() if x is not None)


def _shown(value: Any) -> str:
    is_numbers = isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, np.number)
    if is_traced(value) or not (is_numbers or isinstance(value, np.ndarray | np.generic | float)):
        return repr(value)
    array = np.asarray(value)
    if array.ndim == 0:
        return f"{array:.6g}" if array.dtype.kind in "fiu" else str(array)
    text = np.array2string(array, threshold=6, edgeitems=2, precision=4, separator=", ")
    return " ".join(text.split())


class Look(eqx.Module):
    """What one pass over a state shows: the loss, and per token what the system knows."""

    loss: Any
    error: Any = None
    margins: Any = None
    token_losses: Any = None


class AbstractSystem(Registered):
    """Something that gradient dynamics can move.

    The `law` says how often each sample comes. Loss and gradient are linear in it, so that one
    interface serves every dynamics: descent uses the law itself, a mini-batch its counts / |B|, a
    stochastic flow the law plus noise. `look` and `grad` are all that a system must have; a question
    that it has no answer to (`scores`, `weights`, ...) is refused by name.

    Paper: Section 2.
    """

    law: eqx.AbstractVar[Any]  # an array: of NumPy or JAX, as a subclass says

    role = "system"

    @abc.abstractmethod
    def look(self, state: PyTree, law: Array | None = None) -> Look:
        """The loss under a law (by default the system's own), and what else one pass over a state shows."""

    @abc.abstractmethod
    def grad(self, state: PyTree, law: Array | None = None, look: Look | None = None) -> PyTree:
        """The direction of steepest ascent, of the same structure as the state; it may use a `look`."""

    def grad_parts(self, state: PyTree, law: Array | None, samples: Int[Array, " n"]) -> PyTree:
        """The parts of the gradient that samples make, along a first axis; samples are rows of the law."""
        law = jnp.asarray(self.law if law is None else law)
        alone = lambda x: jnp.zeros_like(law).at[x].set(law[x])
        return jax.vmap(lambda x: self.grad(state, alone(x)))(samples)

    def loss(self, state: PyTree, law: Array | None = None) -> Float[Array, ""]:
        """The loss of a state under a law."""
        return self.look(state, law).loss

    def inner(self, a: PyTree, b: PyTree) -> Float[Array, ""]:
        """The inner product of two directions: the metric in which `grad` is the gradient."""
        products = jax.tree.map(lambda x, y: jnp.sum(x * y), a, b)
        return functools.reduce(jnp.add, jax.tree.leaves(products))

    def norm(self, direction: PyTree) -> Float[Array, ""]:
        """The length of a direction."""
        return jnp.sqrt(self.inner(direction, direction))

    def speed(self, direction: PyTree) -> Float[Array, ""]:
        """How fast what one sees of the state moves along a gradient: zero at a minimiser."""
        return self.norm(direction)

    def hvp(self, state: PyTree, v: PyTree) -> PyTree:
        """The Hessian at a state times a direction: the derivative of the gradient."""
        return jax.jvp(self.grad, (state,), (v,))[1]

    def movable(self) -> Callable[[PyTree], PyTree]:
        """The projection of a direction on those in which updates lie; by default it keeps all of it."""
        return lambda direction: direction

    def noise(self, state: PyTree, key: PRNGKeyArray) -> PyTree:
        """A direction whose entries are independent standard normal numbers."""
        leaves, structure = jax.tree.flatten(state)
        keys = [key] if len(leaves) == 1 else list(jax.random.split(key, len(leaves)))
        draws = [jax.random.normal(k, x.shape, x.dtype) for k, x in zip(keys, leaves, strict=True)]
        return jax.tree.unflatten(structure, draws)

    def scores(self, state: PyTree) -> Array:
        """The score of every pair of a token and a class."""
        self._does_not_know("scores")

    def weights(self, state: PyTree) -> Array:
        """The matrix W that a state, or a direction, stands for."""
        self._does_not_know("weights")

    def class_margins(self, state: PyTree) -> Array:
        """The margin of every token against every class."""
        self._does_not_know("class_margins")

    @traceable
    def recall_probs(self, state: PyTree) -> Array:
        """How likely each class is recalled for each token."""
        return jax.nn.softmax(self.scores(state), axis=1)

    def grad_norm(self, state: PyTree) -> Float[Array, ""]:
        """The length of the gradient."""
        return self.norm(self.grad(state))

    @traceable
    def sharpness(self, state: PyTree) -> Scalar:
        """The largest eigenvalue of the Hessian, in the metric of `inner`."""
        start = jax.tree.map(lambda x: normals(0, x.shape, x.dtype), state)
        hessian = lambda v: self.hvp(state, v)
        return largest_eigenpairs(hessian, start, inner=self.inner).value[0]

    @traceable
    def part_sharpness(self, state: PyTree) -> dict[str, Scalar]:
        """The largest eigenvalue of each diagonal block of the Hessian, by the name of its part of the state.

        The metric must be that of the entries. None of them exceeds the `sharpness` of the whole.
        """
        leaves, structure = jax.tree.flatten(state)
        zeros = [jnp.zeros_like(leaf) for leaf in leaves]

        def block(k: int) -> Scalar:
            alone = lambda v: jax.tree.unflatten(structure, [*zeros[:k], v, *zeros[k + 1 :]])
            hessian = lambda v: jax.tree.leaves(self.hvp(state, alone(v)))[k]
            start = normals(0, leaves[k].shape, leaves[k].dtype)
            return largest_eigenpairs(hessian, start).value[0]

        return {name: block(k) for k, name in enumerate(named_parts(state, "state"))}

    def outline(self, state: PyTree) -> Float[Array, " K"]:
        """What a state looks like from outside, flat: two states of one outline recall alike."""
        return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(state)])

    @property
    def is_bounded(self) -> bool:
        """Whether scores cannot grow without end, so that a run which comes to rest has settled."""
        return False

    def start(self) -> PyTree:
        """The state to start from unless another is given."""
        raise InputError(f"`start` must be given: a {type(self).__name__} has none of its own.")

    @traceable
    def draw_start(self, scale: Scalar, seed: PRNGKeyArray | int) -> PyTree:
        """A random state to start from: `start()`, shaken by noise of a scale, from a seed or a JAX key."""
        state = jax.tree.map(jnp.asarray, self.start())
        noise = self.noise(state, make_key(seed) if isinstance(seed, int) else seed)
        return jax.tree.map(lambda x, shake: x + scale * shake, state, noise)

    def check(self, state: PyTree) -> None:
        """Refuse a state to start from; on the host, before a run."""
        for leaf in jax.tree.leaves(state):
            check_finite("start", np.asarray(leaf))

    def size(self, state: PyTree) -> int:
        """How many numbers are at work in a step, about."""
        return np.size(self.law) + sum(np.size(leaf) for leaf in jax.tree.leaves(state))

    def coords(self) -> dict[str, Any]:
        """The axes of what is recorded, as xarray has coordinates."""
        problem = getattr(self, "problem", None)
        return {"token": np.arange(len(self.law))} if problem is None else problem.coords()

    def kept(self, state: PyTree) -> dict[str, Any]:
        """What is kept of the first and the last state of a run, by name: by default its parts."""
        return named_parts(state, "state")

    def shown(self, look: Look, name: str) -> Array:
        """A part of a look; what it does not show is refused by name."""
        value = getattr(look, name)
        if value is None:
            raise InputError(
                f"`{name}` is not defined for a {type(self).__name__}. Leave it out, or return it in "
                "the system's `look`."
            )
        return value

    def _does_not_know(self, name: str) -> NoReturn:
        raise InputError(
            f"`{name}` is not defined for a {type(self).__name__}. Leave it out, or give the system a "
            f"method `{name}`."
        )
