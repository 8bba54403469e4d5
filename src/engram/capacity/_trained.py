"""How many tokens a memory recalls after training: of all classes, or on a list of the strongest."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from engram._checks import check_choice, check_count, check_interval
from engram._precision import in_double, make_key, traceable
from engram._types import Array, PyTree, Scalar, Scores
from engram.dynamics import Descent, cosine
from engram.memory import MemorySystem
from engram.particles import AbstractReadout
from engram.problem import Problem, gaussian_rows, sphere_rows
from engram.registry import make
from engram.system import AbstractSystem, Look
from engram.systems import NetworkSystem
from engram.theory import scaling

_ROUNDS = 7  # of bisection: the answer is known to 1/128 of the largest number that is tried


class FirstTokens(AbstractReadout):
    """The first tokens and classes of a memory, as many as a number that may be traced; token x has class x.

    Args:
        whole: The system of all tokens.
        count: How many of them take part.
    """

    problem: Problem
    law: Any
    whole: AbstractSystem
    count: Any

    def __init__(self, whole: Any, count: Any):
        self.whole, self.problem, self.count = whole, whole.problem, count
        self.law = self._takes_part / count

    @property
    def _takes_part(self) -> Array:
        return jnp.arange(self.problem.num_tokens) < self.count

    def scores(self, state: PyTree) -> Scores:
        here = self._takes_part
        # Rows that have no weight keep their scores, so that no class is left out of all.
        return jnp.where(here[None, :] | ~here[:, None], self.whole.scores(state), -jnp.inf)

    def recalled(self, state: PyTree) -> Array:
        """The share of the tokens whose class has the largest score."""
        w = self.scores(state)
        return self.law @ (w.argmax(axis=1) == jnp.asarray(self.problem.labels))

    def start_from(self, state: PyTree) -> PyTree:
        """The state to start from, given that of the memory."""
        return state


class ListedTokens(AbstractSystem):
    r"""The first tokens of a memory, to be on a list of the strongest: the tail-average margin.

    A token counts if its own score is above the mean of the largest share $\kappa$ of the others' (listwise
    retrieval of arXiv 2605.05189); then less than that share is stronger. The mean is the least
    $\tau + \sum_y (w_{xy} - \tau)_+ / (\kappa (N - 1))$, so levels $\tau_x$ are learnt beside the memory, and
    the loss, $\log(1 + e^{-m})$ of the margins m, stays convex for a linear memory.

    Args:
        first: The first tokens of a memory.
        share: $\kappa$.
    """

    first: FirstTokens
    law: Any
    share: Scalar

    def __init__(self, first: FirstTokens, share: Scalar):
        self.first, self.law, self.share = first, first.law, share

    def margins(self, state: PyTree) -> Array:
        """The margin of each token for its level; the tail-average margin is at least that."""
        w, level = self.first.scores(state["memory"]), state["level"]
        own = jnp.eye(len(w), dtype=bool)
        above = jnp.where(own, 0.0, jnp.maximum(w - level[:, None], 0.0)).sum(axis=1)
        return jnp.diagonal(w) - level - above / (self.share * (self.first.count - 1))

    @traceable
    def look(self, state: PyTree, law: Array | None = None) -> Look:
        margins, law = self.margins(state), jnp.asarray(self.law if law is None else law)
        losses = jax.nn.softplus(-margins)
        return Look(law @ losses, law @ (margins <= 0), margins, losses)

    @traceable
    def grad(self, state: PyTree, law: Array | None = None, look: Look | None = None) -> PyTree:
        del look
        return jax.grad(lambda state: self.look(state, law).loss)(state)

    def recalled(self, state: PyTree) -> Array:
        """The share of the tokens whose class is on the list."""
        return 1 - self.look(state).error

    def start_from(self, state: PyTree) -> PyTree:
        """The state to start from, given that of the memory."""
        return {"memory": state, "level": jnp.zeros(self.first.problem.num_tokens)}


def trained_capacity(
    dim: int,
    *,
    width: int | None = None,
    activation: str = "relu",
    share: float | None = None,
    accuracy: float = 0.99,
    optimizer: Mapping[str, Any] | str = "adam",
    learning_rate: float = 0.3,
    steps: int = 400,
    draws: int = 8,
    key: int = 0,
    embeddings: str = "sphere",
    most: int | None = None,
) -> xr.Dataset:
    r"""How many tokens a memory recalls after training, by bisection; token x is to recall class x of N.

    For each draw of embeddings and each N on the way a memory is trained from its start with full batches on
    the first N tokens and classes. All draws are trained side by side in one compiled program.

    Args:
        dim: d of inputs and outputs.
        width: The number of hidden units of a network; None for a matrix W.
        activation: Of the network.
        share: None if the own class must have the largest score of all N; else $\kappa$: it must be above the
            mean of the largest share $\kappa$ of the others (listwise retrieval, arXiv 2605.05189).
        accuracy: The share of tokens that must be recalled.
        optimizer: An optimizer by name or as a table.
        learning_rate: Its learning rate, which falls to zero along half a cosine.
        steps: Of each training.
        draws: How many memories to draw.
        key: A seed.
        embeddings: "sphere" for unit vectors, "gaussian" for normal ones.
        most: The largest N that is tried; by default well above what is expected.

    Returns:
        A dataset over "draw": `stored`, NaN where even `most` are recalled; `parameters`, d^2 or 2 d width.
    """
    check_count("dim", dim)
    check_count("draws", draws)
    check_choice("embeddings", embeddings, ("sphere", "gaussian"))
    check_interval("accuracy", accuracy, 0.0, 1.0, "It is a share of the tokens.")
    parameters = dim**2 if width is None else 2 * dim * check_count("width", width)
    most = (
        _most(parameters, share, width is None)
        if most is None
        else check_count("most", most, least=2)
    )
    rows = {"sphere": sphere_rows, "gaussian": gaussian_rows}[embeddings]
    table: dict[str, Any] = (
        {"optimizer": optimizer} if isinstance(optimizer, str) else dict(optimizer)
    )
    table["learning_rate"] = cosine(learning_rate, steps)
    dynamics = Descent(make("optimizer", table), steps=steps)

    def stored(draw_key: Any) -> Array:
        keys = jax.random.split(draw_key, 3)
        E, U = rows(keys[0], most, dim), rows(keys[1], most, dim)
        problem = Problem(E, U, jnp.full(most, 1 / most), np.arange(most))
        whole: Any = MemorySystem(problem)
        start: Any = jnp.zeros((dim, dim))
        if width is not None:
            whole = NetworkSystem(problem, width, activation=activation)  # pyright: ignore[reportArgumentType]
            # Keys of variance 1, so that hidden units see numbers of size 1.
            start = whole.start() | {"K": jax.random.normal(keys[2], (width, dim))}

        def fits(N: Array) -> Array:
            system: Any = FirstTokens(whole, N)
            system = system if share is None else ListedTokens(system, share)
            step = lambda index, inner: dynamics.step(system, inner, index, None)
            inner = dynamics.init(system, system.start_from(start))
            state = jax.lax.fori_loop(0, steps, step, inner).state
            return system.recalled(state) >= accuracy - 1e-9  # sums of shares round

        def halve(_: Any, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = ends
            trial = (low + high + 1) // 2
            is_stored = fits(trial)
            return jnp.where(is_stored, trial, low), jnp.where(is_stored, high, trial)

        ends = jnp.asarray(1), jnp.asarray(most + 1)
        return jnp.stack(jax.lax.fori_loop(0, _ROUNDS, halve, ends))

    program = in_double(eqx.filter_jit(jax.vmap(stored)))
    low, high = np.asarray(program(jax.random.split(make_key(key), draws))).T
    numbers, says = np.where(high > most, np.nan, low), "tokens that are recalled after training"
    return xr.Dataset(
        {"stored": ("draw", numbers, {"long_name": says}), "parameters": parameters},
        attrs={"dim": dim, "resolution": int((high - low).max()), "most": most},
    )  # fmt: skip


def _most(parameters: int, share: float | None, is_linear: bool) -> int:
    """Well above what is stored: N log N of 1.4 times a matrix's parameters, 1.7 times a network's."""
    if share is not None:
        return int(1.6 * parameters / scaling.list_parameters(share)) + 4
    N = np.arange(2, max(parameters, 4) + 3)
    return int(np.searchsorted(N * np.log(N), (1.4 if is_linear else 1.7) * parameters)) + 4
