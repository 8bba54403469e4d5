"""Shared switches. x64 is as the environment has it, by default off: double precision must come by itself."""

import gc
from pathlib import Path

import equinox as eqx
import jax
import pytest
from hypothesis import Phase, settings

jax.config.update("jax_numpy_rank_promotion", "raise")

# The same examples each time; no shrinking, since each new shape compiles.
settings.register_profile(
    "engram", deadline=None, derandomize=True, phases=(Phase.explicit, Phase.generate)
)
settings.load_profile("engram")


@pytest.fixture
def x64():
    """For tests that use JAX directly in double precision."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def x32():
    """x64 off, which is JAX's default, whatever the settings of this run."""
    with jax.enable_x64(False):
        yield


@pytest.fixture(autouse=True, scope="module")
def few_programs():
    """Forget compiled programs in time: each holds memory maps, of which a process may have 65,530."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > 20_000:
        jax.clear_caches()
        eqx.clear_caches()
        gc.collect()


@pytest.fixture(scope="module")
def explorer():
    """The explorer's server on a free port."""
    from engram.explorer import Explorer

    made = Explorer(warm=False).start()
    yield made
    made.stop()
