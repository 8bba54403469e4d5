"""The one contract with the page: what it may ask for becomes a header of JSON and float64 arrays.

A payload is four bytes (the header's length, little-endian), the header, blanks up to a multiple of
eight, and the arrays one after another. The header lists them by name, shape and place. What is not
finite is null in the header, and itself in the arrays.
"""

import contextlib
import json
import logging
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from engram._checks import InputError
from engram.explorer._compiled import compiling
from engram.explorer._jobs import Job, MustCompile, Stale, TooLong
from engram.explorer._plane import plane_part
from engram.explorer._pushes import pushes_part, replayed_pushes
from engram.explorer._replay import replay
from engram.explorer._requests import Replay, Request, State, entries_of
from engram.explorer._runs import causes_part, runs_part, sharpness_part
from engram.explorer._simulations import form_of, make_problem
from engram.explorer._simulations import own_problem as own_problem

VERSION = 1


def compute(request: Request, own: Mapping[str, Any], job: Job | None = None) -> bytes:
    """The parts that a request wants; the job ends the work when nobody waits for it any more."""
    job = Job(math.inf, may_compile=True) if job is None else job
    header: dict[str, Any] = {"version": VERSION}
    arrays: dict[str, Any] = {}
    if isinstance(request.state.problem, Replay):
        more, arrays = replay(request.state, own, request.parts, job)
        if "pushes" in request.parts:
            more["pushes"], shares = replayed_pushes(request, own, job)
            arrays |= {f"pushes.{name}": values for name, values in shares.items()}
        return pack(header | more, arrays)
    with _blaming_plugins(request.state):
        with compiling(job, "problem", *form_of(request.state.problem)):
            problem = make_problem(request.state.problem, own)
        if "runs" in request.parts:
            header["runs"], series = runs_part(request.state, problem, job)
            arrays |= {f"runs.{name}": values for name, values in series.items()}
        if "sharpness" in request.parts:
            series = sharpness_part(request.state, problem, job)
            arrays |= {f"runs.{name}": values for name, values in series.items()}
        if "causes" in request.parts:
            header["causes"] = causes_part(request.state, problem, job)
        if "pushes" in request.parts:
            header["pushes"], shares = pushes_part(request, problem, job)
            arrays |= {f"pushes.{name}": values for name, values in shares.items()}
        if "plane" in request.parts:
            with compiling(job, "plane", problem, request.state.view.overlay):
                header["plane"], drawn = plane_part(request.state, problem)
            arrays |= {f"plane.{name}": values for name, values in drawn.items()}
    return pack(header, arrays)


@contextlib.contextmanager
def _blaming_plugins(state: State) -> Iterator[None]:
    """An error where names of the user's own are at work is reported to them: it is most likely theirs."""
    try:
        yield
    except (InputError, Stale, TooLong, MustCompile):
        raise
    except Exception as error:
        used = [entry for entry in entries_of(state) if entry.origin]
        names = ", ".join(dict.fromkeys(f"{entry.kind} {entry.name!r}" for entry in used))
        if not names:
            raise
        logging.getLogger("engram.explorer").exception("%s cannot be computed", names)
        words = " ".join(str(error).split("\n")[0][:300].split())
        raise InputError(
            f"{names} cannot be computed ({type(error).__name__}: {words}). Call "
            "`engram.simulate` with it to see where it fails."
        ) from error


def pack(header: dict[str, Any], arrays: Mapping[str, Any]) -> bytes:
    """A header and arrays as one binary payload."""
    table, place, blocks = {}, 0, []
    for name, values in arrays.items():
        block = np.ascontiguousarray(values, dtype="<f8")
        table[name] = [list(block.shape), place]
        place += block.nbytes
        blocks.append(block.tobytes())
    text = json.dumps(_plain({**header, "arrays": table}), allow_nan=False).encode()
    text += b" " * (-(4 + len(text)) % 8)
    return b"".join([len(text).to_bytes(4, "little"), text, *blocks])


def _plain(value: Any) -> Any:
    """Numbers that JSON has: what is not finite becomes null."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value
