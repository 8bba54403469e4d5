"""Programs of the host are compiled by XLA's older emitters where it has them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from engram import _programs


def test_options_that_xla_does_not_know_are_left_out():
    assert _programs._options("xla_no_such_option") == {}
    assert _programs._options("xla_cpu_enable_fast_min_max") != {}


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="the older emitters are those of CPUs")
def test_the_older_emitters_are_asked_for_and_numbers_do_not_select_a_program():
    traced = []

    @_programs.host_program
    def cubes(x, names):
        traced.append(names)
        return dict.fromkeys(names, x**3)

    for value in (2.0, 3.0):
        found = cubes(jnp.asarray(value), ("a", "b"))
        np.testing.assert_array_equal(list(found.values()), [value**3] * 2)
    assert traced == [("a", "b")]
    inside = jax.jit(lambda x: cubes(x, ("a",)))(jnp.asarray(2.0))
    np.testing.assert_array_equal(inside["a"], 8.0)
