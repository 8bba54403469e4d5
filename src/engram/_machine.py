"""What a result was made with: versions and machine, without names of users or folders."""

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

_PACKAGES = ("engram", "jax", "jaxlib", "numpy", "scipy", "equinox", "diffrax", "xarray", "clarabel",
             "python-flint", "matplotlib")  # fmt: skip


def versions() -> dict[str, str]:
    """The versions of Python and of what the numbers depend on."""
    numbers = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            numbers[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            numbers[name] = "not installed as a package"
    return numbers


def commit() -> str:
    """The commit that this package is a checkout of, with a plus if files differ from it; else nothing."""
    folder = Path(__file__).parent
    git = lambda *words: subprocess.run(
        ["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=5, check=True
    ).stdout.strip()
    try:
        git(
            "ls-files", "--error-unmatch", Path(__file__).name
        )  # not of a repository around this one
        return git("rev-parse", "--short", "HEAD") + "+" * bool(git("status", "--porcelain", "."))
    except (OSError, subprocess.SubprocessError):
        return ""


def machine() -> dict[str, str]:
    """Processor, cores, memory, system and where JAX computes."""
    import jax

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    devices = ", ".join(sorted({device.device_kind for device in jax.devices()}))
    parts = {
        "processor": _processor(),
        "cores": str(cores),
        "memory": _memory(),
        "system": f"{platform.system()} {platform.release()} ({platform.machine()})",
        "JAX device": devices,
    }
    return {name: value for name, value in parts.items() if value}


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
