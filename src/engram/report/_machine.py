"""What a result was made with: versions and machine, without names of users or folders."""

import importlib.metadata
import os
import platform
from pathlib import Path

_PACKAGES = ("engram", "jax", "jaxlib", "numpy", "scipy", "equinox", "diffrax", "xarray", "clarabel",
             "python-flint", "matplotlib")  # fmt: skip


def versions() -> dict[str, str]:
    """The versions of Python and of what the numbers depend on."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed as a package"
    return found


def machine() -> dict[str, str]:
    """Processor, cores, memory, system and where JAX computes."""
    import jax

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    devices = ", ".join(sorted({device.device_kind for device in jax.devices()}))
    found = {
        "processor": _processor(),
        "cores": str(cores),
        "memory": _memory(),
        "system": f"{platform.system()} {platform.release()} ({platform.machine()})",
        "JAX device": devices,
    }
    return {name: value for name, value in found.items() if value}


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"
    except (AttributeError, ValueError, OSError):
        return ""
