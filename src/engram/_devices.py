"""How many devices JAX has, and which of them share the sums over tokens."""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from engram._checks import InputError

_MOST = 256  # of this process, unless it has more cores: JAX needs a thread for each, and time


def use_devices(num: int | None = None, cluster: dict[str, Any] | None = None) -> bool:
    """Choose how many CPU devices there are, and join other processes; call it before JAX starts.

    Args:
        num: CPU devices of this process, by default one per core. Ignored where JAX has a GPU.
        cluster: What `jax.distributed.initialize` gets; an empty one leaves it to Slurm and the like.

    Returns:
        Whether this is the first process, the one that writes and prints.
    """
    if num is not None and num > max(_MOST, _cores()):
        raise InputError(
            f"`devices` must be at most {max(_MOST, _cores())}, got {num}. One per core is best: "
            "leave it out."
        )
    try:
        jax.config.update("jax_num_cpu_devices", num or _cores())
    except RuntimeError:  # JAX has started: it keeps the devices that it has
        if num is not None and num != len(jax.devices()):
            raise InputError(
                f"`devices` must be chosen before JAX starts, which has {len(jax.devices())} already. "
                "Start a new process."
            ) from None
    if cluster is not None:
        try:
            jax.distributed.initialize(**cluster)
        except Exception as error:  # of many types, some of them no more than an index
            raise InputError(
                f"the processes did not find one another ({error}). Give each of them the coordinator "
                "(HOST:PORT), how many there are, and its own number."
            ) from None
    return jax.process_index() == 0


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1


@contextlib.contextmanager
def shared_among(devices: int) -> Iterator[None]:
    """Sums and maps over the tokens of a memory are shared among so many devices while this lasts."""
    if devices > len(jax.devices()):
        raise InputError(
            f"`devices` must be at most {len(jax.devices())}, the number that JAX has here, got {devices}. "
            "On a CPU, `engram.use_devices(2)` makes two of its cores; call it before anything is computed."
        )
    if devices == 1:
        yield
        return
    with jax.set_mesh(Mesh(np.asarray(jax.devices()[:devices]), ("tokens",))):
        yield
