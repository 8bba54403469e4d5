"""Real processes that compile the same programs share them, in a folder of their own."""

import os

import pytest


@pytest.fixture
def surroundings(tmp_path):
    """Environment variables for the processes of one test; the limit on its size brings JAX's lock."""
    return {
        **os.environ,
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "compiled"),
        "JAX_COMPILATION_CACHE_MAX_SIZE": str(2**34),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.3",
    }
