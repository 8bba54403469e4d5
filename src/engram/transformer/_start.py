"""Weights and sequences in one .npz file, to start from and to hand on."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from engram._checks import InputError
from engram._files import written_whole
from engram.transformer._config import MAX_TOKENS
from engram.transformer._model import Layer, Model
from engram.transformer._task import Sequences, count_occurrences

_EMBEDDINGS = {"tok_embeddings": "W_E", "pe": "W_P", "output": "W_U"}
_MATRICES = ("wk1", "wv1", "wo1", "wk2", "wv2", "wo2")


def read_weights(path: str | Path, *, dtype: str, scale_scores: bool) -> Model:
    """The model in a .npz file.

    It has `tok_embeddings` (N, d), `pe` (T, d), `output` (N, d) and `wk1`, `wv1`, `wo1`, `wk2`, `wv2`,
    `wo2` (d, d), each of which acts on columns: the weights of PyTorch's `Linear`.
    """
    arrays = _read(path, (*_EMBEDDINGS, *_MATRICES))
    shapes = {name: array.shape for name, array in arrays.items()}
    if any(len(shape) != 2 for shape in shapes.values()):
        name = next(name for name, shape in shapes.items() if len(shape) != 2)
        raise InputError(f"`{name}` in {path} must be a matrix, got shape {shapes[name]}.")
    N, d = shapes["tok_embeddings"]
    wanted = {"output": (N, d), "pe": (shapes["pe"][0], d)} | dict.fromkeys(_MATRICES, (d, d))
    for name, shape in wanted.items():
        if shapes[name] != shape:
            raise InputError(
                f"`{name}` in {path} must have shape {shape}, as tok_embeddings is {N} x {d}, got "
                f"{shapes[name]}."
            )
    for name, array in arrays.items():
        if array.dtype.kind != "f" or not np.isfinite(array).all():
            raise InputError(f"`{name}` in {path} must hold finite real numbers. Write it again.")
    cast = lambda name: np.ascontiguousarray(arrays[name], dtype)
    layers = [Layer(*(cast(f"{kind}{k}") for kind in ("wk", "wv", "wo"))) for k in (1, 2)]
    scale = d**-0.5 if scale_scores else 1.0
    return Model(cast("tok_embeddings"), cast("pe"), cast("output"), *layers, score_scale=scale)


def read_sequences(path: str | Path, num_tokens: int | None = None) -> Sequences | None:
    """The sequences in a .npz file, if it has any: `seq` (S, T + 1), `triggers`, and perhaps `outs`."""
    with _opened(path) as file:
        if "seq" not in file:
            return None
    arrays = _read(path, ("seq", "triggers"))
    tokens, triggers = arrays["seq"], arrays["triggers"]
    if tokens.ndim != 2 or tokens.dtype.kind not in "iu" or 0 in tokens.shape:
        raise InputError(f"`seq` in {path} must be tokens of shape (S, T + 1), got {tokens.shape}.")
    most = int(tokens.max())
    N = most + 1 if num_tokens is None else num_tokens
    if tokens.min() < 0 or most >= N or N > MAX_TOKENS:
        raise InputError(
            f"`seq` in {path} must hold tokens from 0 to {min(N, MAX_TOKENS) - 1}, got {tokens.min()} to "
            f"{most}. Give sequences that fit the model."
        )
    if triggers.dtype.kind not in "iu" or triggers.size == 0 or triggers.max() >= N:
        raise InputError(f"`triggers` in {path} must be tokens below {N}, got {triggers}.")
    triggers = np.broadcast_to(triggers, (len(tokens), triggers.shape[-1])).astype(int)
    tokens = tokens.astype(np.uint8)
    with _opened(path) as file:
        has_counts = "outs" in file
    counted = _read(path, ("outs",))["outs"] if has_counts else count_occurrences(tokens, triggers)
    if counted.shape != tokens.shape:
        raise InputError(
            f"`outs` in {path} must have the shape of seq, {tokens.shape}, got {counted.shape}."
        )
    return Sequences(tokens, counted.astype(np.uint16), triggers, N)


def write_start(path: Path, model: Model, sequences: Sequences) -> None:
    """Write a model and its sequences, whole or not at all."""
    arrays: Any = {name: getattr(model, field) for name, field in _EMBEDDINGS.items()}
    arrays |= {name: model[name] for name in _MATRICES}
    triggers = sequences.triggers
    if (triggers == triggers[0]).all():
        triggers = triggers[0]
    arrays |= {"seq": sequences.tokens, "outs": sequences.occurrences, "triggers": triggers}
    with written_whole(path) as partial:
        np.savez_compressed(partial, **arrays)


def _opened(path: str | Path) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise InputError(f"{path} is not there. Check the name.") from None
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} cannot be read as .npz ({error}). Name another file.") from None


def _read(path: str | Path, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    file = _opened(path)
    if not hasattr(file, "files"):
        raise InputError(f"{path} holds one array, not a .npz of several. Name another file.")
    with file:
        missing = [name for name in names if name not in file]
        if missing:
            raise InputError(
                f"{path} lacks {', '.join(missing)}. It must have {', '.join(names)}, as arrays."
            )
        try:
            return {name: file[name] for name in names}
        except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
            raise InputError(f"{path} is damaged ({error}). Name another file.") from None
