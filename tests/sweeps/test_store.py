"""The store of a sweep: what is lost is computed again, what is damaged is reported, two may write it."""

import json
import os
import shutil
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

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


def test_chunks_that_were_swapped_are_computed_again(store):
    before = made(store).load()
    first, second = (store / "height" / "c" / str(k) / "0" for k in (0, 1))
    content = first.read_bytes(), second.read_bytes()
    first.write_bytes(content[1])
    second.write_bytes(content[0])
    after = made(store)
    assert "computed 2 units (2 of them lost" in after.attrs["summary"]
    assert before.equals(after.load())


def test_a_store_of_the_earlier_format_is_resumed(store):
    shutil.rmtree(store / "checksums")
    about = json.loads((store / "zarr.json").read_text())
    for name in ("format", "made_with"):
        del about["attributes"][name]
    about.pop("consolidated_metadata", None)
    (store / "zarr.json").write_text(json.dumps(about))
    assert sweeps.open_sweep(store).attrs["units_left"] == 0
    assert "computed 0 units, reused 3" in made(store).attrs["summary"]
    (store / "height" / "c" / "1" / "0").write_bytes(b"junk")
    assert "computed 1 units (1 of them lost" in made(store).attrs["summary"]


@pytest.mark.parametrize("place", ["height/c/1/0", "height/c/1", "x", "zarr.json"])
def test_symbolic_links_are_refused(store, tmp_path, place):
    (store / place).rename(tmp_path / "elsewhere")
    (store / place).symlink_to(tmp_path / "elsewhere")
    for use in (made, sweeps.open_sweep):
        with pytest.raises(InputError, match=rf"has a symbolic link in it: .*{place}"):
            use(store)
    (tmp_path / "link.zarr").symlink_to(store)  # to a whole store
    (store / place).unlink()
    (tmp_path / "elsewhere").rename(store / place)
    assert "reused 3" in made(tmp_path / "link.zarr").attrs["summary"]


def test_a_pipe_in_the_place_of_a_chunk_is_not_waited_for(store):
    (store / "height" / "c" / "1" / "0").unlink()
    os.mkfifo(store / "height" / "c" / "1" / "0")
    for use in (made, sweeps.open_sweep):
        with pytest.raises(InputError, match=r"not a file: .*height/c/1/0. Remove it"):
            use(store)


@pytest.mark.parametrize("place", ["height/c/1/0", "done/c/1/0", "x/c/0"])
def test_a_chunk_that_expands_to_gigabytes_is_not_read(store, place):
    chunk = store / place
    # A frame of one segment that declares 2^33 bytes, and one repeated byte.
    chunk.write_bytes(b"\x28\xb5\x2f\xfd\xe0" + (2**33).to_bytes(8, "little") + b"\x03\x00\x00\x07")
    with pytest.raises(InputError, match=rf"is damaged: .*(expands to {2**33} bytes|its axis `x`)"):
        sweeps.open_sweep(store)
    if place.startswith("height"):
        assert "computed 1 units (1 of them lost" in made(store).attrs["summary"]


def test_packings_that_engram_never_uses_are_not_unpacked(store):
    spoil(
        store, "height", codecs=[{"name": "bytes"}, {"name": "gzip", "configuration": {"level": 1}}]
    )
    with pytest.raises(InputError, match="s.zarr is damaged: .*packed with GzipCodec"):
        sweeps.open_sweep(store)


def test_an_array_that_declares_gigabytes_is_not_read(store):
    for shape in ([3, 4, 2**33], [2**33, 4]):
        spoil(store, "height", shape=shape)
        with pytest.raises(InputError, match="damaged|would need about"):
            engram.plot(sweeps.open_sweep(store), value="height")


@pytest.mark.filterwarnings("error")
def test_what_a_killed_process_left_half_written_is_ignored(store):
    (store / "zarr.0123456789abcdef.partial").write_bytes(b"{")
    (store / "height" / "c" / "0" / "0.0123456789abcdef.partial").write_bytes(b"")
    assert sweeps.open_sweep(store).attrs["units_left"] == 0
    assert "computed 0 units" in made(store).attrs["summary"]


def test_a_complete_store_opens_with_plain_xarray(store):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with xr.open_zarr(store, chunks=None) as plain:
            np.testing.assert_array_equal(plain.height, made(store).height)


def test_a_store_that_cannot_be_written_is_read(store, monkeypatch):
    def refuse(*args, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("zarr.storage.LocalStore.set", refuse)
    assert "computed 0 units, reused 3" in made(store).attrs["summary"]
    (store / "height" / "c" / "1" / "0").unlink()
    with pytest.raises(PermissionError):
        made(store)


def test_a_sweep_in_memory_may_be_saved_and_drawn(tmp_path):
    spec = {
        "problem": {"family": "two", "p1": 0.75},
        "dynamics": {"kind": "gd", "steps": 5},
        "sweep": {"observables": ["first_perfect"]},
    }
    axes = {"correlation": {"linspace": [0, 0.9, 5]}, "learning_rate": [1.0, 2.0, 3.0]}
    found = engram.sweep(spec, axes)
    found.to_zarr(tmp_path / "saved.zarr", consolidated=False)
    opened = sweeps.open_sweep(tmp_path / "saved.zarr")
    assert opened.attrs["units_left"] == 0
    assert found.drop_attrs().equals(opened.load().drop_attrs())
    assert sweeps.boundary(opened, "one_step").wrong == (0, 15)
    engram.plot(opened)


def test_a_store_of_other_versions_is_refused_unless_they_are_accepted(store, monkeypatch):
    monkeypatch.setattr(jax, "__version__", "0.0.1")
    made(store)  # nothing is to be computed
    (store / "height" / "c" / "1" / "0").unlink()
    with pytest.raises(
        InputError, match=r"s.zarr was begun with .*, and this is .*jax 0.0.1.*accept"
    ):
        made(store)
    engram.sweep(waves, AXES, chunk=4, store=store, accept_versions=True)
    (store / "height" / "c" / "1" / "0").unlink()
    made(store)  # they were accepted before
    attributes = json.loads((store / "zarr.json").read_text())["attributes"]
    makers = [(maker["jax"], bool(maker["processor"])) for maker in attributes["made_with"]]
    assert makers[1] == ("0.0.1", True)


def test_another_kind_of_processor_is_recorded(store, monkeypatch):
    (store / "height" / "c" / "1" / "0").unlink()
    monkeypatch.setattr("platform.machine", lambda: "abacus")
    assert "computed 1 units" in made(store).attrs["summary"]
    makers = json.loads((store / "zarr.json").read_text())["attributes"]["made_with"]
    assert "abacus" in makers[-1]["processor"]


def test_another_content_of_a_problem_file_is_refused(tmp_path):
    path, out = tmp_path / "p.npz", tmp_path / "s.zarr"
    spec = {
        "problem": {"family": "file", "path": str(path)},
        "dynamics": {"kind": "gd", "steps": 5},
        "axes": {"learning_rate": [1.0, 2.0]},
        "sweep": {"observables": ["final_loss"], "chunk": 1},
    }
    engram.two_tokens(0.5, 0.75).save(path)
    plan = sweeps.make_plan(spec, None)
    engram.sweep(spec, store=out)
    assert "computed 0 units" in engram.sweep(spec, store=out).attrs["summary"]
    engram.two_tokens(0.5, 0.8).save(path)
    with pytest.raises(InputError, match=r"files.problem.path: \w+ in the store, \w+ now"):
        engram.sweep(spec, store=out)
    with pytest.raises(InputError, match="p.npz was changed while it was in use"):
        plan.compute((0,))


def test_units_whose_chunks_are_missing_count_as_left(store):
    shutil.rmtree(store / "height" / "c" / "1")
    assert sweeps.open_sweep(store).attrs["units_left"] == 1


def test_a_lost_axis_is_reported_and_written_again(store):
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
def test_arrays_that_cannot_be_read_are_reported(store, name, damage):
    damage(store / name)
    with pytest.raises(InputError, match=rf"s.zarr is damaged: `{name}` .* Name another store"):
        made(store)
    if name != "height" or (store / name).exists():
        with pytest.raises(InputError, match="s.zarr is damaged"):
            engram.plot(sweeps.open_sweep(store), value="height")


@pytest.mark.parametrize("name", ["height", "done", "attempts"])
def test_arrays_of_another_shape_are_reported(store, name):
    spoil(store, name, shape=[7, 7])
    with pytest.raises(InputError, match=rf"s.zarr is damaged: `{name}` .*\(7, 7\)"):
        made(store)


def test_a_store_without_results_is_reported(store):
    for name in ("height", "pair"):
        shutil.rmtree(store / name)
    with pytest.raises(InputError, match="s.zarr is damaged: an array in it"):
        sweeps.open_sweep(store)


def test_a_spec_that_is_not_json_is_reported(store):
    about = json.loads((store / "zarr.json").read_text())
    for junk in ("{", "[]", '{"axes": 3}', 7):
        about["attributes"]["spec"] = junk
        (store / "zarr.json").write_text(json.dumps(about))
        for use in (made, sweeps.open_sweep):
            with pytest.raises(InputError, match="s.zarr is damaged: `spec`"):
                use(store)


def test_drawing_damaged_chunks_is_reported(store):
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


def test_a_store_where_nothing_can_be_written_is_refused_before_any_work(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="`store` must be a folder that can be written to"):
        made(tmp_path / "file" / "s.zarr")


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
