"""Runs in files: each holds its spec and its problem, which is all it takes to run it again."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import h5py
import jax.numpy as jnp
import numpy as np
import xarray as xr

from engram._checks import InputError
from engram._foreign_files import check_hdf5
from engram.problem import Problem, as_key, one_line
from engram.registry import KINDS, entries, fields_of, names_of
from engram.simulation import FORMAT, stored_problem
from engram.specs._read import SimulationSpec, read_spec, with_read_out

_AGAIN = "Write the run again with `engram simulate ... --out FILE.nc`."


def write_spec(spec: SimulationSpec) -> str:
    """A spec as JSON that `read_spec` takes: each field that its choices use, defaults included."""
    return json.dumps(spec.tables)


def read_netcdf(path: Path) -> xr.Dataset:
    """All of a NetCDF file, in memory; one that cannot be used gets one clear error."""
    if not path.is_file():
        raise InputError(f"SPEC cannot be read: {path} is not a file. Check the name.")
    try:
        check_hdf5(path)
        with h5py.File(path) as file:
            # Where this fails in h5netcdf, that prints a traceback of its own when it is cleared up.
            file.attrs.get("_nc3_strict")
        with xr.open_dataset(path, engine="h5netcdf", decode_times=False) as data:
            return data.load()
    except InputError:
        raise
    except Exception as error:  # of what type depends on where a file is damaged
        raise InputError(
            f"{path} cannot be read as NetCDF ({one_line(error)}). It is damaged or of another kind; write "
            "it again."
        ) from None


def spec_of(data: xr.Dataset, path: Path, given: dict[str, dict[str, Any]]) -> SimulationSpec:
    """The spec that a stored run was made from, with what is given over its dynamics and run.

    A stored field gives way when the kind of dynamics does not take it, or something given excludes
    it: in a file, unlike in TOML, it cannot be struck out by hand.
    """
    stored, run = _tables(data, path), given.get("run", {})
    _check_format(data, path)
    _check_plugins(data, path)
    dynamics = {name: stored["dynamics"].get(name) for name in ("kind", "optimizer", "sampling")}
    dynamics = {name: value for name, value in dynamics.items() if value is not None}
    if "kind" in given.get("dynamics", {}):
        dynamics = {}
    chosen = dynamics | given.get("dynamics", {})
    excluded = {"every", "points"} if run.keys() & {"every", "points"} else set()
    if chosen["kind"] == "flow":
        excluded |= {"every", "points", "stop"}
    kept = fields_of("dynamics", chosen) if chosen["kind"] in names_of("dynamics") else {}
    stored["dynamics"] = dynamics | _only(stored["dynamics"], kept) | given.get("dynamics", {})
    stored["run"] = _only(stored["run"], stored["run"].keys() - excluded) | run
    problem = stored.pop("problem")  # which its arrays tell
    return dataclasses.replace(read_spec(stored, str(path)), problem=problem)


def given_of(data: xr.Dataset) -> dict[str, Any]:
    """What a run from Python was given in addition to its spec: a start, a key, the steps to record."""
    given = dict(json.loads(data.attrs["spec"]).get("given", {}))
    if given.pop("start", False):
        given["start"] = data["start_weights"].values if "start_weights" in data else None
    if "key" in given:
        given["key"] = as_key(jnp.asarray(given["key"], jnp.uint32))
    return given


def _check_format(data: xr.Dataset, path: Path) -> None:
    """Files of every earlier format can be read; of a later one nobody knows what it means."""
    met = data.attrs.get("format", 1)
    if not isinstance(met, int | np.integer) or met > FORMAT:
        raise InputError(
            f"{path} has the format {met}, and this engram knows those up to {FORMAT}. Install a newer "
            "engram."
        )


def _check_plugins(data: xr.Dataset, path: Path) -> None:
    """Refuse a run that made use of a plugin which is not loaded; a file loads none by itself."""
    try:
        known = [
            (str(each["module"]), str(each.get("path", each["module"])))
            for each in json.loads(data.attrs.get("plugins", "[]"))
        ]
    except (KeyError, TypeError, ValueError):
        known = []
    loaded = {entry.origin for kind in KINDS for entry in entries(kind).values()}
    missing = [source for module, source in known if module not in loaded]
    if "__main__" in missing:
        raise InputError(
            f"{path} was made with names that a script registered itself. Put them into a file of their "
            "own, and give that as --plugin."
        )
    if missing:
        raise InputError(
            f"{path} was made with names of your own, which are not loaded. Run it with --plugin "
            f"{' --plugin '.join(missing)}"
        )


def _tables(data: xr.Dataset, path: Path) -> dict[str, dict[str, Any]]:
    try:
        tables = with_read_out(json.loads(data.attrs["spec"]))
        spec = {name: dict(tables[name]) for name in ("problem", "dynamics", "run")}
        return spec | ({"system": dict(tables["system"])} if "system" in tables else {})
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InputError(f"{path} has no attribute `spec` that can be read. {_AGAIN}") from None


def _only(table: dict[str, Any], names: Any) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name in names}


def problem_of(data: xr.Dataset, path: Path) -> Problem:
    """The problem that a stored run was made from, out of the file's own arrays."""
    try:
        return stored_problem(data)
    except InputError as error:
        raise InputError(f"{path} has no problem that can be used: {error}") from None
