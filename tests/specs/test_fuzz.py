"""Whatever is in a spec, it is read or refused in words."""

import contextlib

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engram._checks import InputError
from engram.registry import all_fields
from engram.specs import read_spec, read_toml, read_training
from engram.sweeps._spec import read_sweep
from engram.transformer import Config

TABLES = {
    "problem": ["family", *all_fields("problem")],
    "dynamics": ["kind", "optimizer", "sampling", *all_fields("dynamics")],
    "system": ["kind", *all_fields("system")],
    "run": all_fields("run"),
    "sweep": all_fields("sweep"),
    "transformer": Config.__dataclass_fields__,
    "axes": ("correlation", "learning_rate", "seed", "num_tokens", "batch_size"),
    "start": ("sha256",),
}
WORDS = ["two", "sphere", "file", "sgd", "adam", "flow", "perfect", "loss", "zipf", "linspace"]
VALUES = st.recursive(
    st.one_of(
        st.integers(-3, 9),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(),
        st.booleans(),
        st.text(max_size=5),
        st.sampled_from(WORDS),
        st.dates(),
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=4,
)


def tables_of(names):
    table = lambda fields: st.dictionaries(st.sampled_from([*fields, "foo"]), VALUES, max_size=4)
    each = {name: table(TABLES[name]) | VALUES for name in names}
    return st.fixed_dictionaries({}, optional=each)


@settings(max_examples=300)
@given(tables_of(["problem", "dynamics", "run", "system"]))
def test_simulations(tables):
    with contextlib.suppress(InputError):
        read_spec(tables, "spec.toml")


@settings(max_examples=300)
@given(tables_of(["transformer", "dynamics", "start"]))
def test_trainings(tables):
    with contextlib.suppress(InputError):
        read_training(tables, "spec.toml")


@settings(max_examples=300)
@given(tables_of(["problem", "dynamics", "run", "axes", "sweep"]))
def test_sweeps(tables):
    with contextlib.suppress(InputError):
        read_sweep(tables)


WHOLE = b"""
[problem]
family = "sphere"
num_tokens = 5
num_classes = 5
dim = 10
probs = [0.2, 0.2, 0.2, 0.2, 0.2]
[dynamics]
kind = "gd"
learning_rate = 1e-1
steps = 30
[run]
record = ["loss", "margins"]
stop = {loss = 1e-3}
"""


@settings(max_examples=300)
@given(st.binary(max_size=40), st.integers(0, len(WHOLE)), st.integers(0, len(WHOLE)))
@example(b"", 0, 0)
def test_files(tmp_path_factory, inserted, begin, end):
    path = tmp_path_factory.getbasetemp() / "fuzz.toml"
    path.write_bytes(WHOLE[:begin] + inserted + WHOLE[end:])
    for read in (read_spec, read_training):
        with contextlib.suppress(InputError):
            read(read_toml(path), str(path))
    with contextlib.suppress(InputError):
        read_sweep(path)


def test_the_whole_file_is_a_spec(tmp_path):
    (tmp_path / "whole.toml").write_bytes(WHOLE)
    assert read_spec(read_toml(tmp_path / "whole.toml"), "whole.toml").dynamics["steps"] == 30
    with pytest.raises(InputError):
        read_training(read_toml(tmp_path / "whole.toml"), "whole.toml")
