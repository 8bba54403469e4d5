"""Cores and memory of a process, and calls in a process whose peak is its own."""

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def pin_threads(threads: int) -> int:
    """Give both sides the same cores; call it before JAX or PyTorch start their threads.

    What is compiled here is compiled, not taken from a cache.
    """
    os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"
    for library in ("OMP", "MKL", "OPENBLAS"):
        os.environ[f"{library}_NUM_THREADS"] = str(threads)
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))[:threads]
        os.sched_setaffinity(0, cores)
        return len(cores)
    return threads


def processor_seconds() -> float:
    """Processor time of this process and of those that it has waited for: other work does not count."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def peak_bytes() -> int:
    """Peak resident memory; on Linux that of this program alone, not of what started it."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    # Elsewhere the kernel's count, in bytes (macOS).
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def run_apart(module: str, *arguments: str) -> dict[str, Any]:
    """Run a module in a process of its own, and read the JSON that it prints."""
    command = [sys.executable, "-m", module, *arguments]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
