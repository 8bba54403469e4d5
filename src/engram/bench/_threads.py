"""The same cores for both sides."""

import os


def pin_threads(threads: int) -> int:
    """Give both sides the same cores; call it before JAX or PyTorch start their threads."""
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(threads)
    os.environ["OPENBLAS_NUM_THREADS"] = str(threads)
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))[:threads]
        os.sched_setaffinity(0, cores)
        return len(cores)
    return threads
