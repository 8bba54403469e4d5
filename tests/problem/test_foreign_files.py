"""Files from anybody: they take nothing from other files, and expand to no more than they say."""

import zipfile
import zlib

import h5py
import numpy as np
import pytest
import xarray as xr
import zarr

import engram
from engram import _memory_limits
from engram._errors import InputError
from engram._foreign_files import check_hdf5, check_zarr
from engram.specs import read_netcdf


@pytest.fixture
def stored(tmp_path):
    """A problem in a file that can be read."""
    path = tmp_path / "problem.nc"
    engram.on_sphere(0, 3, 2, 4).save(path)
    assert engram.Problem.load(path).num_tokens == 3
    return path


def refused(path, words):
    for read in (engram.Problem.load, read_netcdf):
        with pytest.raises(InputError, match=words) as error:
            read(path)
        assert "\n" not in str(error.value)


def secret(tmp_path):
    """Another file that the user may read."""
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["rows"] = np.ones((3, 4))
    return tmp_path / "secret.h5"


def test_external_links_are_refused(stored, tmp_path):
    other = secret(tmp_path)
    with h5py.File(stored, "r+") as file:
        del file["inputs"]
        file["inputs"] = h5py.ExternalLink(str(other), "rows")
    refused(stored, "takes 'inputs' from another file, .*secret.h5")


def test_external_links_within_groups_are_refused(stored, tmp_path):
    other = secret(tmp_path)
    with h5py.File(stored, "r+") as file:
        file.create_group("a/b")["c"] = h5py.ExternalLink(str(other), "rows")
    refused(stored, "takes 'a/b/c' from another file")


def test_external_storage_is_refused(stored, tmp_path):
    (tmp_path / "raw.bin").write_bytes(np.ones((3, 4)).tobytes())
    with h5py.File(stored, "r+") as file:
        del file["inputs"]
        place = [(str(tmp_path / "raw.bin"), 0, 96)]
        file.create_dataset("inputs", (3, 4), "f8", external=place)
    refused(stored, "takes '/inputs' from another file")


def test_virtual_datasets_are_refused(stored, tmp_path):
    layout = h5py.VirtualLayout((3, 4), "f8")
    layout[...] = h5py.VirtualSource(str(secret(tmp_path)), "rows", (3, 4))
    with h5py.File(stored, "r+") as file:
        del file["inputs"]
        file.create_virtual_dataset("inputs", layout)
    refused(stored, "takes '/inputs' from another file")


def test_arrays_beyond_memory_are_refused_before_they_are_read(stored):
    with h5py.File(stored, "r+") as file:
        del file["inputs"]
        file.create_dataset("inputs", (2**40, 2**10), "f8", chunks=(1, 2**10))  # nothing is stored
    assert stored.stat().st_size < 2**20
    refused(stored, "GiB, and this machine has")


def test_chunks_that_unpack_to_more_than_their_size_are_refused(stored):
    with h5py.File(stored, "r+") as file:
        del file["inputs"]
        item = file.create_dataset("inputs", (3, 4), "f8", chunks=(3, 4), compression="gzip")
        item.id.write_direct_chunk((0, 0), zlib.compress(bytes(2**24)))
    refused(stored, "unpacks to more than 96 bytes")


def put(stored, filters, chunk, mask=0):
    """Instead of the inputs, one chunk as it is, packed with some filters of HDF5."""
    with h5py.File(stored, "r+") as file:
        del file["inputs"]
        pipeline = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        pipeline.set_chunk((3, 4))
        for number in filters:
            pipeline.set_filter(number, h5py.h5z.FLAG_OPTIONAL, {1: (4,), 2: (8,), 3: ()}[number])
        space = h5py.h5s.create_simple((3, 4))
        item = h5py.h5d.create(file.id, b"inputs", h5py.h5t.IEEE_F64LE, space, pipeline)
        item.write_direct_chunk((0, 0), chunk, mask)


@pytest.mark.parametrize(
    ("filters", "mask"), [((2, 1), 0b01), ((1, 3), 0b10), ((1, 2), 0b00), ((1,), 0)]
)
def test_a_mask_of_one_filter_leaves_the_others_checked(stored, filters, mask):
    put(stored, filters, zlib.compress(bytes(2**24)), mask)
    refused(stored, "unpacks to more than 96 bytes")


def test_chunks_that_are_stored_unpacked_are_read(stored):
    """HDF5 leaves deflate out, and says so in the mask, where it would save nothing."""
    put(stored, (2, 1), np.arange(12.0).tobytes(), 0b11)
    check_hdf5(stored)
    with h5py.File(stored) as file:
        np.testing.assert_array_equal(file["inputs"], np.arange(12.0).reshape(3, 4))


def test_filters_that_are_repeated_are_refused(stored):
    put(stored, (1, 1), zlib.compress(zlib.compress(bytes(2**24))))
    refused(stored, "packs '/inputs' twice with one filter")


def test_frames_of_our_own_say_their_sizes(tmp_path):
    group = zarr.create_group(tmp_path / "a.zarr")
    for name, values in {"few": np.arange(3.0), "many": np.arange(1e5), "one": np.ones(())}.items():
        group.create_array(name, data=values)
    text = group.create_array("text", shape=2, dtype=str)
    text[:] = np.array(["a", "bcd"], object)
    check_zarr(tmp_path / "a.zarr", group)
    frame = b"\x28\xb5\x2f\xfd\x00\x58\x03\x00\x00\x00"
    one, many = (tmp_path / "a.zarr" / chunk for chunk in ("one/c", "many/c/0"))
    twice = one.read_bytes() + many.read_bytes()  # whose second frame would be unpacked as well
    skipped = b"\x50\x2a\x4d\x18" + bytes(4) + frame
    for unknown in (frame, skipped, b"\x27" + frame[1:], frame[:5], twice):
        one.write_bytes(unknown)
        with pytest.raises(ValueError, match="`one` does not say to how many bytes"):
            check_zarr(tmp_path / "a.zarr", group)
    one.write_bytes(b"junk")  # cannot be read, nor expands
    check_zarr(tmp_path / "a.zarr", group)


def test_filters_that_engram_does_not_write_are_refused(stored):
    with h5py.File(stored, "r+") as file:
        del file["inputs"]
        file.create_dataset("inputs", (3, 4), "f8", chunks=(3, 4), compression="lzf")
    refused(stored, "packs '/inputs' with filter 32000")


def test_packed_files_of_our_own_are_read(tmp_path):
    path, data = tmp_path / "a.nc", xr.Dataset({"x": ("n", np.arange(5000.0))})
    packed = {"zlib": True, "complevel": 4, "shuffle": True, "fletcher32": True}
    data.to_netcdf(path, engine="h5netcdf", encoding={"x": packed | {"chunksizes": (700,)}})
    xr.testing.assert_identical(read_netcdf(path), data)


def test_archives_beyond_memory_are_refused_before_they_are_read(tmp_path, monkeypatch):
    path = tmp_path / "problem.npz"
    engram.on_sphere(0, 3, 2, 4).save(path)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("more.npy", bytes(2**24))
    monkeypatch.setattr(_memory_limits, "_memory", lambda: 2**23)
    with pytest.raises(InputError, match="unpacked would need about .* GiB"):
        engram.Problem.load(path)
