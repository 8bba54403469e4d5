"""Shared switches. x64 stays off, as on a user's machine: double precision must come by itself."""

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
