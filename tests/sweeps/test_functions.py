"""Functions of one's own in a store: another function, or the same with other values, is not resumed."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import engram
from engram import sweeps
from engram._checks import InputError

AXES = {"x": [0.0, 1.0]}


def scaled(x, a=1.0):
    return a * x


def times(a, b=2):
    def inner(x):
        return jnp.sum(jnp.asarray(a)) * x * b

    return inner


class Line(eqx.Module):
    slope: jax.Array

    def __call__(self, x):
        return self.slope * x

    def again(self, x):
        return self.slope * x


class Opaque:
    def __call__(self, x):
        return x


def hash_of(function):
    return sweeps.make_plan(function, AXES).hash


@pytest.mark.parametrize(
    "make",
    [
        lambda a: functools.partial(scaled, a=a),
        lambda a: functools.partial(functools.partial(scaled, a=3.0), a=a),
        times,
        lambda a: times(np.arange(2000.0) + np.eye(2000)[1000] * a),
        lambda a: times(1, b=a),
        lambda a: times((lambda: a)()),
        lambda a: lambda x, b=a: b * x,
        lambda a: jax.jit(times(a)),
        lambda a: Line(jnp.asarray(a)),
        lambda a: Line(jnp.asarray(a)).again,
        lambda a: lambda x, b={"a": {1: a, "b": 3}}: x * b["a"][1],
        lambda a: lambda x, b=(scaled, np, {"u", "v"}): b[0](x, a),
    ],
    ids=["partial", "twice", "closure", "array", "second", "number", "default", "jit", "object",
         "method", "unordered", "modules"],
)  # fmt: skip
def test_the_values_that_a_function_carries_count(make):
    assert hash_of(make(1.0)) == hash_of(make(1.0))
    assert hash_of(make(1.0)) != hash_of(make(2.0))
    assert hash_of(make(1.0)) != hash_of(make(0.0))


def test_a_store_of_the_same_function_with_other_values_is_refused(tmp_path):
    engram.sweep(functools.partial(scaled, a=1.0), AXES, store=tmp_path / "s.zarr")
    found = engram.sweep(functools.partial(scaled, a=1.0), AXES, store=tmp_path / "s.zarr")
    assert "computed 0 units" in found.attrs["summary"]
    with pytest.raises(InputError, match="source"):
        engram.sweep(functools.partial(scaled, a=2.0), AXES, store=tmp_path / "s.zarr")


def test_what_cannot_be_told_apart_is_refused_with_a_store_alone(tmp_path):
    opaque = Opaque()
    function = lambda x: opaque(x)
    assert engram.sweep(function, AXES).value.values.tolist() == [0.0, 1.0]
    with pytest.raises(
        InputError, match="the function carries .*Opaque object.* leave out the store"
    ):
        engram.sweep(function, AXES, store=tmp_path / "s.zarr")
    assert not (tmp_path / "s.zarr").exists()


def test_a_function_that_calls_itself():
    def power(x, n=3):
        return x * power(x, n - 1) if n else 1.0

    assert hash_of(power) == hash_of(power)


@pytest.mark.parametrize("threads", [99_999_999_999, -1])
def test_threads_beyond_reason_are_refused(threads):
    with pytest.raises(InputError, match="`threads` must be at"):
        engram.sweep(scaled, {**AXES, "a": [1.0]}, threads=threads)
