"""Functions of one's own in a store: another function, or the same with other values, is not resumed."""

import functools
import importlib
import operator
import os
import shutil
import sys
import threading
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import engram
from engram import sweeps
from engram._checks import InputError
from engram.sweeps._fingerprint import Fingerprint

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


class Named(dict):
    def __init__(self, entries, unit):
        super().__init__(entries)
        self.unit = unit


def with_attribute(a):
    function = lambda x: x * function.factor
    function.factor = a
    return function


def dispatched(a):
    general = functools.singledispatch(lambda x: x)
    general.register(float, lambda x: a * x)
    return general


def wrapped_like_a_librarys(a):
    function = functools.wraps(engram.simulate)(lambda x: a * x)
    del function.__wrapped__  # whose parameters it would have
    return function


def run_from_a_text(a):
    space = {}
    exec(f"def function(x):\n    return {a} * x", space)
    return space["function"]


def looked_up_in_a_text(a):
    space = {}
    exec(f"SCALE = {a}\ndef function(x):\n    return globals()['SCA' + 'LE'] * x", space)
    return space["function"]


class Scaled:
    def __init__(self, function, factor):
        functools.update_wrapper(self, function)
        self.factor = factor

    def __call__(self, x):
        return self.factor * self.__wrapped__(x)


class Forgetful:
    """Pickle would write nothing of it."""

    def __init__(self, factor):
        self.factor = factor

    def __getstate__(self):
        return {}

    def scaled(self, x):
        return self.factor * x


class Singleton(Forgetful):
    def __reduce__(self):
        return "singleton"


def differentiated(a):
    function = jax.custom_jvp(lambda x: x)
    function.defjvp(lambda at, along: (function(*at), a * along[0]))
    return lambda x: jax.grad(function)(x)


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
        lambda a: (lambda b: lambda x: b.update(x, None)[0])(optax.scale(a)),
        lambda a: (lambda b: lambda x: x * b.sum())(np.ma.array([1.0, 2.0], mask=[a == 1, a == 2])),
        lambda a: (lambda b: lambda x: x * b.unit)(Named({}, unit=a)),
        lambda a: with_attribute(a),
        lambda a: (lambda b: lambda x: b(x))(dispatched(a)),
        wrapped_like_a_librarys, run_from_a_text, looked_up_in_a_text, differentiated,
        lambda a: Scaled(scaled, a),
        lambda a: Forgetful(a).scaled,
        lambda a: Singleton(a).scaled,
        lambda a: (lambda b: lambda x: x if b else 0)(eqx.filter_vmap(times(1), axis_size=int(a))),
    ],
    ids=["partial", "twice", "closure", "array", "second", "number", "default", "jit", "object",
         "method", "unordered", "modules", "library", "masked", "subclass", "attribute", "dispatch",
         "wraps", "text", "names of a text", "rule of a gradient", "decorator", "state that pickle omits",
         "object that pickle names", "vmap"],
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


def test_functions_without_a_fingerprint_are_refused_only_with_a_store(tmp_path):
    opaque = threading.Lock()
    function = lambda x: x if opaque else 0
    assert engram.sweep(function, AXES).value.values.tolist() == [0.0, 1.0]
    with pytest.raises(InputError, match="the function uses .*lock object.* pass `version`"):
        engram.sweep(function, AXES, store=tmp_path / "s.zarr")
    assert not (tmp_path / "s.zarr").exists()
    engram.sweep(function, AXES, store=tmp_path / "s.zarr", version="1")
    with pytest.raises(InputError, match="version: 1 in the store, 2 now"):
        engram.sweep(function, AXES, store=tmp_path / "s.zarr", version="2")


def test_what_is_put_into_a_library_counts(monkeypatch):
    function = lambda x: jnp.fft.ifftshift(x)
    hashes = [hash_of(function)]
    for factor in (1.0, 2.0):
        monkeypatch.setattr(jnp.fft, "ifftshift", lambda x, factor=factor: factor * x)
        hashes.append(hash_of(function))
    assert len({*hashes}) == 3
    monkeypatch.undo()
    assert hash_of(function) == hashes[0]


def test_compiled_functions_of_libraries_are_known_by_their_names():
    prints = [Fingerprint(lambda f=f: f(1.0, 2.0)) for f in (np.add, np.multiply)]
    assert [each.vague for each in prints] == [None, None]
    assert prints[0].hash != prints[1].hash
    own = np.frompyfunc(scaled, 2, 1)
    assert "ufunc 'scaled" in Fingerprint(lambda: own(1.0, 2.0)).vague


def test_values_that_nest_without_end_are_refused_with_a_store(tmp_path):
    deep = [1.0]
    for _ in range(10_000):
        deep = [deep]
    with pytest.raises(InputError, match="nested too deep"):
        engram.sweep(lambda x: x * len(deep), AXES, store=tmp_path / "s.zarr")


MODULE = """
import helpers_below
SCALE = {scale}
def helper(x):
    return SCALE * helpers_below.twice(x)
class Shape:
    factor = {factor}
    def area(self, x):
        return self.factor * x
def by_text(x):
    return globals()["SCA" + "LE"] * x
"""
BELOW = "def twice(x):\n    return {twice} * x\n"
USES = {
    "helper": lambda own: lambda x: own.helper(x),
    "name": lambda own: (lambda helper: lambda x: helper(x))(own.helper),
    "constant": lambda own: lambda x: own.SCALE * x,
    "object": lambda own: own.Shape().area,
    "class": lambda own: lambda x: own.Shape().area(x),
    "inside": lambda own: imports_inside,
    "by text": lambda own: lambda x: getattr(own, "help" + "er")(x),
    "its own text": lambda own: own.by_text,
    "imported by text": lambda own: imports_by_text,
    "loaded modules": lambda own: lambda x: sys.modules["helpers_above"].helper(x),
    "as a whole": lambda own: (lambda of: lambda x: of(own) * x)(operator.attrgetter("SCALE")),
}


def imports_by_text(x):
    return importlib.import_module("helpers_above").helper(x)


def imports_inside(x):
    import helpers_above

    return helpers_above.helper(x)


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Two modules of the user's, and a way to write them again."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(scale=1.0, factor=2.0, twice=2.0):
        texts = {"below": BELOW.format(twice=twice)}
        texts["above"] = MODULE.format(scale=scale, factor=factor)
        for name, text in texts.items():
            (tmp_path / f"helpers_{name}.py").write_text(text)
            sys.modules.pop(f"helpers_{name}", None)
        importlib.invalidate_caches()
        return importlib.import_module("helpers_above")

    yield write
    for name in ("helpers_above", "helpers_below"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("use", "change"),
    [
        ("helper", {"scale": 3.0}), ("helper", {"twice": 3.0}), ("name", {"twice": 3.0}),
        ("constant", {"scale": 1.0 + 1e-12}), ("object", {"factor": 3.0}), ("class", {"factor": 3.0}),
        ("inside", {"twice": 3.0}), ("by text", {"twice": 3.0}), ("its own text", {"scale": 3.0}),
        ("imported by text", {"twice": 3.0}), ("loaded modules", {"twice": 3.0}),
        ("as a whole", {"scale": 3.0}),
    ],
)  # fmt: skip
def test_a_change_in_a_module_of_the_users_is_refused(own, tmp_path, use, change):
    run = lambda own: engram.sweep(USES[use](own), AXES, store=tmp_path / "s.zarr")
    run(own())
    assert "computed 0 units" in run(own()).attrs["summary"]
    with pytest.raises(InputError, match="source: .* in the store, .* now"):
        run(own(**change))


PLUGIN = """
from engram.registry import register
from engram.observables import AbstractObservable
import helpers_above

@register("observable", "helped")
class Helped(AbstractObservable):
    \"\"\"What a helper makes of one.\"\"\"
    axes = ()

    def __call__(self, moment):
        return helpers_above.helper(1.0)
"""


def test_a_change_in_a_module_that_a_plugin_uses_is_refused(own, tmp_path):
    (tmp_path / "plugin_with_helpers.py").write_text(PLUGIN)
    spec = {"dynamics": {"kind": "gd", "steps": 2}, "sweep": {"observables": ["helped"]}}
    axes = {"learning_rate": [1.0, 2.0]}

    def run(**change):
        own(**change)
        sys.modules.pop("plugin_with_helpers", None)
        engram.registry.load_plugin(str(tmp_path / "plugin_with_helpers.py"))
        return engram.sweep(spec, axes, store=tmp_path / "s.zarr")

    try:
        assert run().helped.values.tolist() == [2.0, 2.0]
        assert "computed 0 units" in run().attrs["summary"]
        with pytest.raises(InputError, match="plugins: .*reached"):
            run(twice=5.0)
    finally:
        engram.registry.unregister("observable", "helped")
        sys.modules.pop("plugin_with_helpers", None)


def written(x):
    with open("said.txt", "a") as file:
        file.write(str(x))
    return x


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * np.loadtxt("factor.txt"),
        lambda x: x * float(os.environ["FACTOR"]),
        lambda x, place=Path("factor.txt"): x * float(place.read_text()),
        lambda x, names=frozenset({"FACTOR"}): x * sum(float(os.getenv(each)) for each in names),
    ],
    ids=["file", "variable", "path", "variables"],
)
def test_a_change_in_what_a_function_reads_from_outside_counts(function, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FACTOR", "1")
    place = tmp_path / "factor.txt"
    place.write_text("1")
    first = hash_of(function)
    assert hash_of(function) == first
    place.write_text("2")
    monkeypatch.setenv("FACTOR", "2")
    assert hash_of(function) != first


def test_what_a_function_writes_does_not_count(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = hash_of(written)
    written(1.0)
    monkeypatch.setenv("x", "1")
    assert hash_of(written) == first


def test_what_a_function_does_not_use_may_change(own):
    first = hash_of(USES["constant"](own()))
    assert first == hash_of(USES["constant"](own(factor=7.0, twice=9.0)))


def test_a_module_that_is_called_like_pythons_own_is_the_users(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def hash_with(scale):
        (tmp_path / "this.py").write_text(f"def helper(x):\n    return {scale} * x\n")
        monkeypatch.delitem(sys.modules, "this", raising=False)
        importlib.invalidate_caches()
        this = importlib.import_module("this")
        return hash_of(lambda x: this.helper(x)), hash_of(this.helper)

    first, second = hash_with(1.0), hash_with(2.0)
    assert first == hash_with(1.0)
    assert first[0] != second[0]
    assert first[1] != second[1]
    monkeypatch.delitem(sys.modules, "this")


@pytest.mark.parametrize(
    ("function", "axes", "said"),
    [
        (lambda x: {}, AXES, "must return at least one"),
        (lambda x: {"../x": x}, AXES, "must return plain names, got '../x'"),
        (lambda x: {"done": x}, AXES, "`done` is a name that stores use"),
        (lambda attempts: attempts, {"attempts": [1]}, "`attempts` is a name that stores use"),
        (lambda x: {"x": x}, AXES, "has `x`, which is the name of an axis"),
        (lambda value_0: jnp.ones(2) * value_0, {"value_0": [1]}, "has `value_0`, which is the name"),
        (lambda x: jnp.zeros(2**40) * x, AXES, "`value` of 2 cells would need about 16,384 GiB"),
    ],
)  # fmt: skip
def test_results_that_no_store_can_hold_are_refused_before_any_work(tmp_path, function, axes, said):
    for store in (None, tmp_path / "s.zarr"):
        with pytest.raises(InputError, match=said):
            engram.sweep(function, axes, store=store)
    assert not [*tmp_path.iterdir()]


def test_a_function_that_cannot_be_traced_is_called_for_each_cell(tmp_path):
    def settled(rate, steps, key):
        run = engram.simulate(engram.two_tokens(0.5, 0.75), engram.GradientDescent(rate, steps))
        noise = float(jax.random.normal(key))
        return {"loss": float(run.loss[-1]), "is_small": run.loss[-1] < 0.5, "noise": noise}

    axes, store = {"rate": [0.1, 1.0, 3.0], "steps": [1, 2]}, tmp_path / "s.zarr"
    reported = []
    with pytest.warns(UserWarning, match="cannot be traced by JAX .* called cell by cell"):
        found = engram.sweep(
            settled, axes, store=store, chunk=2, progress=lambda *both: reported.append(both)
        )
    assert reported[-1] == (6, 6)
    assert len(reported) == 4
    spec = {
        "problem": {"family": "two", "correlation": 0.5, "p1": 0.75},
        "dynamics": {"kind": "gd", "steps": 2},
    }
    same = engram.sweep(
        spec | {"sweep": {"observables": ["final_loss"]}}, {"learning_rate": axes["rate"]}
    )
    np.testing.assert_allclose(found.loss.sel(steps=2), same.final_loss, rtol=1e-12)
    assert found.is_small.values.tolist() == (found.loss < 0.5).values.tolist()
    assert len(np.unique(found.noise)) == 6
    shutil.rmtree(store / "loss" / "c" / "1")
    with pytest.warns(UserWarning, match="cell by cell"):
        again = engram.sweep(settled, axes, store=store, chunk=2)
    assert "computed 1 units (1 of them lost" in again.attrs["summary"]
    assert again.load().equals(found.load())


def test_a_function_must_return_the_same_in_all_cells():
    for function in (lambda x: [1.0] * (2 + int(x)), lambda x: {f"a{x:.0f}": 1.0}):
        with (
            pytest.warns(UserWarning, match="cell by cell"),
            pytest.raises(InputError, match=r"same names and shapes .* at x = 1.0"),
        ):
            engram.sweep(function, AXES)
    with pytest.raises(InputError, match="must return numbers or arrays"):
        engram.sweep(lambda x: f"{x:.1f}", AXES)


def test_a_function_that_calls_itself():
    def power(x, n=3):
        return x * power(x, n - 1) if n else 1.0

    assert hash_of(power) == hash_of(power)


@pytest.mark.parametrize("threads", [99_999_999_999, -1])
def test_threads_beyond_reason_are_refused(threads):
    with pytest.raises(InputError, match="`threads` must be at"):
        engram.sweep(scaled, {**AXES, "a": [1.0]}, threads=threads)
