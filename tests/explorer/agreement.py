"""What it means that the page's engine agrees with the library."""

import json

import numpy as np
from contract import unpack
from scipy.spatial import cKDTree

from engram.explorer import payloads
from engram.explorer._requests import read_request

EPS = np.finfo(float).eps
CALM = 1e-10  # a path that moves less than this, when its start moves by one unit in the last place
FACTOR = 100  # times that, or a unit in the last place, whichever is more
TRACES = ("loss", "error", "margins", "path", "time", "step")
PIXEL = 1 / 250  # of half the plane


def library(state, parts=("plane", "runs"), **more):
    """The server's answer."""
    given = {name: part for name, part in state.items() if name != "show"}
    request = {"client": "test", "parts": list(parts), "state": given} | more
    return unpack(payloads.compute(read_request(json.dumps(request).encode()), {}))


def nudged(state, has_plane):
    """The state with its start moved by one unit in the last place."""
    start = {"a": 0.0, "b": 0.0, "scale": 0.0, "seed": 0} | state.get("start", {})
    if has_plane:
        start |= {name: start[name] + np.spacing(max(abs(start[name]), 1.0)) for name in "ab"}
    else:
        start["scale"] = start["scale"] * (1 + EPS) if start["scale"] else EPS
    return state | {"start": start}


class Wanted:
    """The library's answer to a state, and how far its paths move when the start does."""

    def __init__(self, state):
        self.state = state
        self.header, self.arrays = library(state)
        moved = nudged(state, self.header["plane"]["has_plane"])
        self.moved_header, self.moved = library(moved, ("runs",))

    def faults(self, answer):
        """Where another answer is not the same, in words."""
        header, arrays = answer["header"], answer["arrays"]
        if self.arrays.keys() != arrays.keys():
            return [f"arrays {sorted(self.arrays.keys() ^ arrays.keys())}"]
        faults = [] if np.isfinite(arrays["plane.probs"]).all() else ["probs"]
        faults += [*self._plane_faults(header["plane"], arrays)]
        for number in range(len(self.header["runs"])):
            faults += [
                f"run {number}: {fault}"
                for fault in self._run_faults(number, header["runs"][number], arrays)
            ]
        return faults

    # --- the plane ---

    def _plane_faults(self, header, arrays):
        for name, value in self.header["plane"].items():
            same = header[name] == value
            if isinstance(value, float):
                same = abs(header[name] - value) <= 1e-9 * max(1, abs(value))
            if not same:
                yield f"{name} is {header[name]}, not {value}"
        for name, values in self.arrays.items():
            if name.startswith("plane.") and not name.startswith("plane.level"):
                limit = 1e-9 * max(1, np.abs(values).max(initial=0))
                if values.shape != arrays[name].shape or (abs(values - arrays[name]) > limit).any():
                    yield name
        if "plane.level_points" in arrays:
            yield from self._contour_faults(arrays)

    def _contour_faults(self, arrays):
        mine, other = _lines(self.arrays), _lines(arrays)
        if mine.keys() != other.keys():
            yield f"levels {sorted(mine.keys() ^ other.keys())}"
            return
        half = self.state.get("view", {}).get("half", 10)
        for level, points in mine.items():
            pairs = ((points, other[level]), (other[level], points))
            if max(cKDTree(a).query(b)[0].max() for a, b in pairs) > PIXEL * half:
                yield f"level line {level}"

    # --- runs ---

    def calm(self, number):
        """How many records of a run come before the library's own path moves with its start."""
        moved = [self._moved(number, name) for name in ("loss", "margins")]
        is_calm = np.all([each < CALM for each in moved], axis=0)
        return len(is_calm) if is_calm.all() else int(is_calm.argmin())

    def _moved(self, number, name):
        values, moved = (arrays[f"runs.{number}.{name}"] for arrays in (self.arrays, self.moved))
        count = min(len(values), len(moved))
        return _largest(values[:count] - moved[:count])

    def allowed(self, number, name):
        """How far another path may be away: from how far the library's own moves while it is calm."""
        values = self.arrays[f"runs.{number}.{name}"][: self.calm(number)]
        unit = EPS * max(1, np.abs(values).max(initial=0))
        moved = self._moved(number, name)[: len(values)].max(initial=0)
        travelled = (
            _travelled(values) if name == "path" else 0
        )  # a sum of steps, each of which rounds
        return FACTOR * max(moved, unit) + 4 * EPS * travelled

    def _run_faults(self, number, header, arrays):
        calm, prefix = self.calm(number), f"runs.{number}."
        if len(self.arrays[prefix + "loss"]) == len(self.moved[prefix + "loss"]):
            for name in TRACES:
                if prefix + name in self.arrays:
                    mine, other = (each[prefix + name].shape for each in (self.arrays, arrays))
                    if mine != other:
                        yield f"{name} has shape {other}, not {mine}"
                        return
        for name in TRACES:
            if prefix + name not in self.arrays:
                continue
            values, others = (each[prefix + name][:calm] for each in (self.arrays, arrays))
            away = np.abs(values - others[: len(values)]).reshape(len(values), -1).max(1, initial=0)
            bad = away > self.allowed(number, name)
            if name == "error":  # where a margin is zero up to rounding, that decides
                margins = np.abs(self.arrays[prefix + "margins"][:calm])
                bad &= margins.min(1, initial=np.inf) > self.allowed(number, "margins")
            if bad.any():
                yield f"{name} at record {int(bad.argmax())}"
        mine, moved = self.header["runs"][number], self.moved_header["runs"][number]
        if calm == len(self.arrays[prefix + "loss"]) and mine == moved:
            yield from self._words_faults(prefix, mine, header)
            yield from self._sharpness_faults(prefix, arrays)

    def _words_faults(self, prefix, mine, header):
        for name, value in mine.items():
            if name == "last_rise" and self._is_rounding(prefix, value, header[name]):
                continue
            same = header[name] == value
            if isinstance(value, float):  # the steps of a flow are real numbers
                same = header[name] is not None and abs(header[name] - value) <= 1e-12 * abs(value)
            if name == "events" and not same:
                texts = lambda events: [
                    (each["kind"], each["tokens"], each["text"]) for each in events
                ]
                same = texts(value) == texts(header[name])
                steps = [[each["step"] for each in events] for events in (value, header[name])]
                same = same and np.allclose(*steps, rtol=1e-12, atol=0)
            if not same:
                yield f"{name} is {header[name]}, not {value}"

    def _is_rounding(self, prefix, *steps):
        """Whether the loss rose by no more than rounding at the last of its rises."""
        loss, clock = self.arrays[prefix + "loss"], self.arrays[prefix + "step"]
        for step in steps:
            at = np.searchsorted(clock, np.inf if step is None else step)
            if not 0 < at < len(loss) or clock[at] != step or clock[at - 1] != step - 1:
                return True  # between two records: not known
            if loss[at] - loss[at - 1] <= 1e-14 * max(1, loss[at]):
                return True
        return False

    def _sharpness_faults(self, prefix, arrays):
        values, others = self.arrays[prefix + "sharpness"], arrays[prefix + "sharpness"]
        if values.shape != others.shape:
            yield f"sharpness has shape {others.shape}, not {values.shape}"
        # Two ways to the same eigenvalue; where it is rounding beside the largest, it is not known.
        elif not np.allclose(values, others, rtol=1e-9, atol=1e-14 * values.max(initial=0)):
            yield "sharpness"
        for name, values in self.arrays.items():
            if name.startswith(f"{prefix}record."):
                limit = 1e-9 * np.nanmax(np.abs(values), initial=1e-12)
                if not np.allclose(values, arrays[name], rtol=0, atol=limit, equal_nan=True):
                    yield name


def _largest(values):
    """The largest entry so far, record by record."""
    flat = np.abs(values).reshape(len(values), -1)
    return np.maximum.accumulate(flat.max(1, initial=0)) if len(values) else np.zeros(0)


def _travelled(path):
    """How far a path has gone."""
    return np.abs(np.diff(path, axis=0)).sum()


def _lines(arrays):
    """The points of each level line."""
    ends = arrays["plane.level_offsets"].astype(int)
    levels, points = arrays["plane.level_values"], arrays["plane.level_points"]
    pieces = [(level, points[a:b]) for level, a, b in zip(levels, ends[:-1], ends[1:], strict=True)]
    return {
        level: np.concatenate([piece for at, piece in pieces if at == level])
        for level in dict.fromkeys(levels.tolist())
    }
