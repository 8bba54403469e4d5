"""The store of a sweep: what is lost is computed again, what is damaged is told, two may make it at once."""

import json
import shutil

import jax.numpy as jnp
import numpy as np
import pytest

import engram
from engram import sweeps
from engram._checks import InputError
from engram.sweeps import _store

AXES = {"x": [0.0, 1.0, 2.5], "y": [1, 2, 3, 4]}


def waves(x, y):
    return {"height": jnp.sin(x) * y, "pair": jnp.stack([x, y + 0.0])}


def made(path):
    return engram.sweep(waves, AXES, chunk=4, store=path)


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "s.zarr"
    made(path)
    return path


@pytest.fixture
def store(original, tmp_path):
    return shutil.copytree(original, tmp_path / "s.zarr")


def spoil(store, name, **changes):
    path = store / name / "zarr.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("spoil_it", "count"),
    [
        (lambda s: shutil.rmtree(s / "height" / "c"), 3),
        (lambda s: (s / "height" / "c" / "1" / "0").write_bytes(b"junk"), 1),
        (lambda s: (s / "pair" / "c" / "2" / "0" / "0").write_bytes(b""), 1),
        (lambda s: (s / "pair" / "c" / "0" / "0" / "0").unlink(), 1),
    ],
    ids=["all", "junk", "empty", "one"],
)
def test_chunks_that_are_lost_are_computed_again(store, spoil_it, count):
    before = made(store).load()
    spoil_it(store)
    after = made(store)
    assert f"computed {count} units ({count} of them lost or damaged" in after.attrs["summary"]
    assert before.equals(after.load())
    assert "computed 0 units, reused 3" in made(store).attrs["summary"]


def test_a_flipped_bit_is_found_out(store):
    chunk = store / "height" / "c" / "1" / "0"
    raw = bytearray(chunk.read_bytes())
    raw[len(raw) // 2] ^= 1
    chunk.write_bytes(bytes(raw))
    assert "computed 1 units (1 of them lost" in made(store).attrs["summary"]


def test_units_whose_chunks_are_gone_are_left(store):
    shutil.rmtree(store / "height" / "c" / "1")
    assert sweeps.open_sweep(store).attrs["units_left"] == 1


def test_an_axis_that_is_lost_is_told_and_written_again(store):
    for damage in (shutil.rmtree, lambda axis: (axis / "zarr.json").write_text("{"), spoil_axis):
        damage(store / "x")
        with pytest.raises(
            InputError, match=r"s.zarr is damaged: its axis `x` .* writes the axis again"
        ):
            sweeps.open_sweep(store)
        assert made(store).x.values.tolist() == AXES["x"]


def spoil_axis(axis):
    (axis / "c" / "0").write_bytes(b"junk")


@pytest.mark.parametrize("name", ["height", "done", "attempts"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "zarr.json").write_text("{"),
        lambda folder: (folder / "zarr.json").write_text("[1, 2]"),
        lambda folder: (folder / "zarr.json").write_bytes(b"\xff\xfe\x00"),
        shutil.rmtree,
    ],
    ids=["half", "list", "bytes", "gone"],
)
def test_arrays_that_cannot_be_read_are_told(store, name, damage):
    damage(store / name)
    with pytest.raises(InputError, match=rf"s.zarr is damaged: `{name}` .* Name another store"):
        made(store)
    if name != "height" or (store / name).exists():
        with pytest.raises(InputError, match="s.zarr is damaged"):
            engram.plot(sweeps.open_sweep(store), value="height")


@pytest.mark.parametrize("name", ["height", "done", "attempts"])
def test_arrays_of_another_shape_are_told(store, name):
    spoil(store, name, shape=[7, 7])
    with pytest.raises(InputError, match=rf"s.zarr is damaged: `{name}` .*\(7, 7\)"):
        made(store)


def test_a_store_without_results_is_told(store):
    for name in ("height", "pair"):
        shutil.rmtree(store / name)
    with pytest.raises(InputError, match="s.zarr is damaged: an array in it"):
        sweeps.open_sweep(store)


def test_a_spec_that_is_no_json_is_told(store):
    about = json.loads((store / "zarr.json").read_text())
    for junk in ("{", "[]", '{"axes": 3}', 7):
        about["attributes"]["spec"] = junk
        (store / "zarr.json").write_text(json.dumps(about))
        for use in (made, sweeps.open_sweep):
            with pytest.raises(InputError, match="s.zarr is damaged: `spec`"):
                use(store)


def test_a_picture_of_damaged_chunks_is_told(store):
    (store / "height" / "c" / "1" / "0").write_bytes(b"junk")
    with pytest.raises(InputError, match=r"s.zarr is damaged: `height` .* Run `engram sweep`"):
        engram.plot(sweeps.open_sweep(store), value="height")


def test_damaged_marks_and_counts(store):
    (store / "attempts" / "c" / "1" / "0").write_bytes(b"junk")
    (store / "done" / "c" / "1" / "0").unlink()
    assert "computed 1 units, reused 2" in made(store).attrs["summary"]
    (store / "done" / "c" / "1" / "0").write_bytes(b"junk")
    for use in (made, sweeps.open_sweep):
        with pytest.raises(InputError, match="s.zarr is damaged"):
            use(store)


def test_a_store_that_another_process_has_just_made_is_used(tmp_path):
    plan = sweeps.make_plan(waves, AXES, chunk=4)
    _store._create(tmp_path / "s.zarr", plan)
    _store._create(tmp_path / "s.zarr", plan)  # as if both had found nothing there
    assert [path.name for path in tmp_path.iterdir()] == ["s.zarr"]
    np.testing.assert_array_equal(
        made(tmp_path / "s.zarr").height, engram.sweep(waves, AXES).height
    )


def test_variables_and_axes_keep_the_order_of_the_spec(tmp_path):
    names = [name for name in sweeps.OUTCOMES if name != "convergence"]
    axes = {"p1": [0.6], "learning_rate": [1.0], "correlation": [0.5], "start_scale": [0.1]}
    for turn in range(3):
        names, axes = names[4:] + names[:4], dict([*axes.items()][1:] + [*axes.items()][:1])
        tables = {"dynamics": {"kind": "gd", "steps": 200}, "axes": axes}
        plan = sweeps.make_plan({**tables, "sweep": {"observables": names}}, None)
        _store._create(tmp_path / f"{turn}.zarr", plan)
        data = sweeps.open_sweep(tmp_path / f"{turn}.zarr")
        assert list(data.data_vars) == names
        assert list(data.coords) == list(axes)
        assert list(data.sizes)[:4] == list(axes)


def test_a_function_gives_its_variables_in_its_own_order(tmp_path):
    wave = lambda x: {"height": jnp.sin(x), "angle": x, "zero": 0 * x, "depth": -x}
    names = ["height", "angle", "zero", "depth"]
    assert list(engram.sweep(wave, {"x": [0.0, 1.0]}).data_vars) == names
    stored = engram.sweep(wave, {"x": [0.0, 1.0]}, store=tmp_path / "s.zarr")
    assert list(stored.data_vars) == names
    np.testing.assert_array_equal(stored.depth, [0.0, -1.0])


def test_a_store_without_the_order_of_its_variables_can_be_opened(store):
    about = json.loads((store / "zarr.json").read_text())
    del about["attributes"]["variables"]
    (store / "zarr.json").write_text(json.dumps(about))
    assert list(sweeps.open_sweep(store).data_vars) == ["height", "pair"]
    assert "computed 0 units, reused 3" in made(store).attrs["summary"]
