"""Damaged problem files are refused in words, wherever the damage is."""

import contextlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import engram
from engram._checks import InputError


@pytest.fixture(scope="module", params=[".npz", ".nc", "compressed"])
def whole(request, tmp_path_factory):
    """A problem file, and what is in it."""
    suffix = request.param if request.param.startswith(".") else ".npz"
    path = tmp_path_factory.mktemp("fuzz") / f"problem{suffix}"
    problem = engram.on_sphere(0, 3, 2, 4)
    problem.save(path)
    if request.param == "compressed":
        names = ("inputs", "outputs", "probs", "targets")
        np.savez_compressed(path, **{name: getattr(problem, name) for name in names})
    return path, path.read_bytes()


def load(path, content):
    path.write_bytes(content)
    with contextlib.suppress(InputError):
        assert isinstance(engram.Problem.load(path), engram.Problem)


quick = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@quick
@given(st.floats(0, 1, exclude_max=True))
def test_truncated_problem_files_are_refused(whole, share):
    path, content = whole
    load(path, content[: int(share * len(content))])


@quick
@given(
    st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 7)), min_size=1, max_size=4
    )
)
def test_flipped_bits_in_problem_files_are_refused(whole, flips):
    path, content = whole
    spoilt = bytearray(content)
    for share, bit in flips:
        spoilt[int(share * len(spoilt))] ^= 1 << bit
    load(path, bytes(spoilt))


@quick
@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused_as_a_problem_file(whole, content):
    load(whole[0], content)
