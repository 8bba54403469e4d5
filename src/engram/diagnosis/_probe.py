"""probe: what a matrix remembers, how well, and who stands in whose way."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import numpy as np
import xarray as xr

import engram
from engram import memory, particles
from engram._checks import InputError, check_finite, check_ndim, read_array
from engram._precision import in_double
from engram._types import ArrayLike, NamesLike
from engram.diagnosis._possible import least_error
from engram.problem import Problem, uniform
from engram.simulation import label_problem

_SCORES = 2**20  # that are looked at at once
_PUSHES = 2**22  # in all matrices, beyond which only the strongest are kept
_AXES = {
    "loss": (),
    "error": (),
    "num_recalled": (),
    "effective_rank": (),
    "weight_norm": (),
    "margins": ("token",),
    "token_losses": ("token",),
    "recalled": ("token",),
    "rival": ("token",),
    "push_own": ("token",),
    "hurt_by": ("token",),
    "hurt": ("token",),
    "singular_values": ("mode",),
    "push": ("token", "source"),
}
_MEANINGS = {
    "loss": "cross-entropy",
    "error": "0-1 loss",
    "num_recalled": "tokens that recall their class",
    "possible_error": "0-1 loss that some W is known to reach, a margin of zero being an error",
    "possible_bound": "0-1 loss that no W goes below",
    "effective_rank": "exponential of the entropy of the singular values",
    "weight_norm": "Frobenius norm of W",
    "margins": "score of the target less the highest other one",
    "token_losses": "loss of the token",
    "recalled": "class that is recalled",
    "rival": "wrong class with the highest score: the nearest confusion",
    "push_own": "how fast its own gradient raises the token's margin, per unit of flow time",
    "hurt_by": "token whose gradient lowers the margin most, by its place; -1 if none does",
    "hurt": "how fast that one changes the margin, per unit of flow time; never positive",
    "singular_values": "singular values of W",
    "push": "how fast the source's gradient changes the token's margin, per unit of flow time",
}


@in_double
def probe(
    weight: ArrayLike | Mapping[str, ArrayLike],
    inputs: ArrayLike,
    outputs: ArrayLike,
    targets: ArrayLike,
    probs: ArrayLike | None = None,
    *,
    names: NamesLike | None = None,
    class_names: NamesLike | None = None,
) -> xr.Dataset:
    r"""What a matrix of a model remembers: margins, errors, rank, and which tokens get in each other's way.

    Args:
        weight: W, shape (k, d), acting on columns, W e_x. Or several by name, {"head 0": W, ...}: the OV
            circuits of a model's heads, say.
        inputs: Input embeddings, one row per token, shape (N, d).
        outputs: Output embeddings, one row per class, shape (M, k).
        targets: The class of each token, N integers; or a table of p(y|x), shape (N, M).
        probs: How often each token comes; by default all alike.
        names: What the tokens are called.
        class_names: What the classes are called.

    Returns:
        A dataset over `token`, and over `matrix` if there are several. `push` (or, where that would be large,
        the strongest of it, `hurt` and `hurt_by`) is how fast each token's gradient changes the margin of
        each other one at these weights. `possible_error` is the error that some W is known to reach,
        `possible_bound` what no W goes below: against those, `error` says how well the capacity is used.

    Paper: Section 3 for the pushes, Section 5 for what can be stored.
    """
    E = read_array("inputs", inputs)
    check_ndim("inputs", E, ndim=2, axes="(N, d)")
    probs = uniform(len(E)) if probs is None else probs
    problem = Problem(E, outputs, probs, targets, names=names, class_names=class_names)
    return probe_problem(problem, weight)


@in_double
def probe_problem(problem: Problem, weight: ArrayLike | Mapping[str, ArrayLike]) -> xr.Dataset:
    """As `probe`, of a problem that there is already."""
    is_one = not isinstance(weight, Mapping)
    matrices: Mapping[str, Any] = {"weight": weight} if is_one else weight
    if not matrices:
        raise InputError("`weight` must have at least one matrix, got none. Name one.")
    keeps_all = len(matrices) * problem.num_tokens**2 <= _PUSHES
    rows = [
        _look(problem, _read(problem, name if not is_one else "weight", matrices[name]), keeps_all)
        for name in matrices
    ]
    variables: dict[str, Any] = {}
    for name in rows[0]:
        values = np.stack([row[name] for row in rows])
        dims = _AXES[name] if is_one else ("matrix", *_AXES[name])
        variables[name] = (dims, values[0] if is_one else values)
    possible, p = least_error(problem), np.asarray(problem.probs)
    known = min(possible.error, *(float(p[row["margins"] <= 0].sum()) for row in rows))
    variables |= {"possible_error": ((), known), "possible_bound": ((), possible.bound)}
    for name, (dims, value) in list(variables.items()):
        variables[name] = (dims, value, {"long_name": _MEANINGS[name]})
    coords = problem.coords()
    coords |= {} if is_one else {"matrix": np.asarray([str(name) for name in matrices])}
    coords |= {"source": np.asarray(coords["token"])} if keeps_all else {}
    attrs = {"kind": "probe", "engram": engram.__version__}
    return xr.Dataset(variables | label_problem(problem), coords, attrs)


def _read(problem: Problem, name: str, value: Any) -> np.ndarray:
    shape = (problem.output_dim, problem.dim)
    W = read_array(name, value)
    if W.shape != shape:
        hint = " Transpose it: it acts on columns, W e_x." if W.shape == shape[::-1] else ""
        raise InputError(
            f"`{name}` must have shape (k, d) = {shape}, the dimensions of `outputs` and `inputs`, got "
            f"{W.shape}.{hint}"
        )
    if W.dtype.kind not in "fiu" and W.dtype.name != "bfloat16":
        raise InputError(f"`{name}` must hold real numbers, got dtype {W.dtype}. Convert it first.")
    W = W.astype(np.float64)
    check_finite(name, W)
    return W


def _look(problem: Problem, W: np.ndarray, keeps_all: bool) -> dict[str, Any]:
    values = np.linalg.svd(W, compute_uv=False)
    share = values / (values.sum() or 1.0)
    share = share[share > 0]
    known = {
        "loss": memory.loss(problem, W),
        "error": memory.error_rate(problem, W),
        "effective_rank": np.exp(-(share * np.log(share)).sum()) if len(share) else np.nan,
        "weight_norm": np.linalg.norm(W),
        "token_losses": memory.token_losses(problem, W),
        "singular_values": values,
    }
    known |= _rivals(problem, W)
    pulls = known.pop("pulls")
    known["num_recalled"] = np.sum(known["recalled"] == np.asarray(problem.labels))
    known |= _pushes(problem, known["rival"], pulls, keeps_all)
    return {name: np.asarray(value) for name, value in known.items()}


def _rows_of(problem: Problem, first: int, last: int) -> Problem:
    """Some tokens of a problem, with the frequencies that they have in it."""
    arrays = lambda p: (p.inputs, p.probs, p.targets)
    if problem.clean_labels is not None:
        arrays = lambda p: (p.inputs, p.probs, p.targets, p.clean_labels)
    return eqx.tree_at(arrays, problem, tuple(x[first:last] for x in arrays(problem)))


def _rivals(problem: Problem, W: np.ndarray) -> dict[str, Any]:
    """Margins, classes recalled, rivals, and what each token asks of W e_x; some tokens at a time."""
    N, M = problem.num_tokens, problem.num_classes
    some = min(N, max(1, _SCORES // M))
    found = {
        "margins": np.zeros(N),
        "recalled": np.zeros(N, int),
        "rival": np.zeros(N, int),
        "pulls": np.zeros((N, problem.output_dim)),
    }
    for first in range(0, N, some):
        first = min(first, N - some)  # the last ones twice, rather than compiling for fewer
        part, here = _rows_of(problem, first, first + some), slice(first, first + some)
        scores = np.asarray(memory.scores(part, W))
        rows, labels = np.arange(some), np.asarray(part.labels)
        found["recalled"][here] = scores.argmax(axis=1)
        found["pulls"][here] = -np.asarray(particles.score_grad(part, scores)) @ problem.outputs
        wrong = np.array(scores)
        wrong[rows, labels] = -np.inf
        found["rival"][here] = wrong.argmax(axis=1)
        found["margins"][here] = scores[rows, labels] - wrong.max(axis=1)
    return found


def _pushes(
    problem: Problem, rivals: np.ndarray, pulls: np.ndarray, keeps_all: bool
) -> dict[str, Any]:
    """How fast each token's gradient changes each margin: all of it, or the strongest of it."""
    N, E, U = problem.num_tokens, np.asarray(problem.inputs), np.asarray(problem.outputs)
    gaps = U[problem.labels] - U[rivals]
    own, hurt, hurt_by = np.zeros(N), np.zeros(N), np.zeros(N, int)
    whole = np.zeros((N, N) if keeps_all else (0, 0))
    some = max(1, _SCORES // N)
    for first in range(0, N, some):
        here = slice(first, min(first + some, N))
        push = (E[here] @ E.T) * (gaps[here] @ pulls.T)
        rows = np.arange(len(push))
        if keeps_all:
            whole[here] = push
        own[here] = push[rows, rows + first]
        push[rows, rows + first] = np.inf
        hurt[here] = np.minimum(push.min(axis=1), 0.0)
        hurt_by[here] = np.where(hurt[here] < 0, push.argmin(axis=1), -1)
    return {"push_own": own, "hurt_by": hurt_by, "hurt": hurt} | (
        {"push": whole} if keeps_all else {}
    )
