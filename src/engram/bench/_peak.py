"""The most memory that this process has held."""

import resource
from pathlib import Path


def peak_bytes() -> int:
    """Peak resident memory; on Linux that of this program alone, not of what started it."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    # Elsewhere the kernel's count, in bytes (macOS).
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
