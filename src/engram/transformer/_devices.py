"""Many devices as one: a mesh, and arrays that lie on it, in this process or in several."""

from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

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


def wait_for_all(name: str) -> None:
    """Go on when every process has come this far."""
    if jax.process_count() > 1:
        from jax.experimental import multihost_utils

        multihost_utils.sync_global_devices(name)
