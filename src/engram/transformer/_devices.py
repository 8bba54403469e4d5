"""Many devices as one: a mesh, and arrays that lie on it, in this process or in several."""

import contextlib
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from engram._checks import InputError

AXIS = "data"


def make_mesh(devices: Any = None) -> Mesh:
    """All devices of all processes in a row; each works on its own share of the sequences."""
    return Mesh(np.asarray(jax.devices() if devices is None else devices), (AXIS,))


def spread(tree: Any, mesh: Mesh, *, shared: bool) -> Any:
    """Put arrays on the mesh: cut along their first axis, or the same everywhere.

    Every process passes the same arrays and keeps the part of its own devices.
    """
    sharding = NamedSharding(mesh, P(AXIS) if shared else P())

    def put(array: Any) -> jax.Array:
        array = np.asarray(array)
        return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])

    return jax.tree.map(put, tree)


def gather(tree: Any) -> Any:
    """Results that are the same on every device, as NumPy arrays."""
    return jax.tree.map(lambda array: np.asarray(array.addressable_data(0)), tree)


@contextlib.contextmanager
def lost_processes_reported() -> Iterator[None]:
    """Where several processes share the work, say in one line that another one has ended."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        reason = str(error).partition("\n")[0]
        if jax.process_count() == 1 or "RESOURCE_EXHAUSTED" in reason:
            raise
        raise ConnectionError(
            f"another process of this training has ended, or cannot be reached ({reason}). What was "
            "written is kept: start all processes again to resume."
        ) from None


def check_alike(fault: str, value: int) -> None:
    """Wait until every process has come this far, and see that all have the same number."""
    if jax.process_count() > 1:
        from jax.experimental import multihost_utils

        first = int(multihost_utils.broadcast_one_to_all(np.asarray(value)))
        everyone = multihost_utils.process_allgather(np.asarray(value))
        if not (np.asarray(everyone) == first).all():
            raise InputError(f"{fault}: give one that all can read and write.")
