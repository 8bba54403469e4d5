"""Files that may come from anybody, checked before they are read: they stand alone, and fit into memory."""

import contextlib
import math
import os
import stat
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from engram._errors import InputError
from engram._memory_limits import check_bytes

_CODECS = {"BytesCodec", "VLenUTF8Codec", "ZstdCodec"}  # of Zarr: what engram writes
_FRAMES = b"\xb5\x2f\xfd", b"\x2a\x4d\x18"  # of Zstandard, after one byte: of any version; skipped
_TEXT = 4096  # bytes of one text, at most
_DEFLATE, _CHECKSUM = 1, 3  # filters of HDF5 by number
_HARMLESS = {_DEFLATE: "deflate", 2: "shuffle", _CHECKSUM: "fletcher32"}


def check_zip(path: str | os.PathLike[str]) -> None:
    """Refuse an archive whose entries would not fit into memory; no reader goes beyond their sizes."""
    with zipfile.ZipFile(path) as archive:
        check_bytes(
            f"{os.fspath(path)} unpacked", sum(each.file_size for each in archive.infolist())
        )


def check_hdf5(path: str | os.PathLike[str]) -> None:
    """Refuse an HDF5 file that takes data from other files, or expands beyond memory or its own sizes."""
    import h5py

    links: list[tuple[str, Any]] = []
    items: list[Any] = []  # an exception must not pass through the visits, which are HDF5's
    with h5py.File(path) as file:
        file.visititems_links(lambda name, link: links.append((name, link)))
        for name, link in links:
            if isinstance(link, h5py.ExternalLink):
                raise InputError(
                    f"{path} takes {name!r} from another file, {link.filename!r}. {_ALONE}"
                )
        file.visititems(lambda _, item: items.append(item))
        datasets = [item for item in items if isinstance(item, h5py.Dataset)]
        for item in datasets:
            if item.external or item.is_virtual:
                raise InputError(f"{path} takes {item.name!r} from another file. {_ALONE}")
        check_bytes(f"{os.fspath(path)} in memory", sum(item.nbytes for item in datasets))
        for item in datasets:
            _check_chunks(os.fspath(path), item)


_ALONE = "Copy everything into one file, and give that."


def _check_chunks(path: str, item: Any) -> None:
    """Refuse a chunk that unpacks to more than its size; HDF5 would make room for whatever comes."""
    pipeline = item.id.get_create_plist()
    filters = [pipeline.get_filter(index)[0] for index in range(pipeline.get_nfilters())]
    if unknown := [number for number in filters if number not in _HARMLESS]:
        raise InputError(
            f"{path} packs {item.name!r} with filter {unknown[0]} of HDF5, and engram reads "
            f"{', '.join(_HARMLESS.values())}. Write it without, or with zlib."
        )
    if len(set(filters)) < len(filters):
        raise InputError(
            f"{path} packs {item.name!r} twice with one filter. Write it with zlib once."
        )
    if _DEFLATE not in filters:
        return
    size = item.dtype.itemsize
    for length in item.chunks:
        size *= length
    places: list[tuple[int, ...]] = []
    item.id.chunk_iter(lambda info: places.append(info.chunk_offset))
    for place in places:
        mask, packed = item.id.read_direct_chunk(place)
        used = [number for bit, number in enumerate(filters) if not mask >> bit & 1]
        if _DEFLATE not in used:  # HDF5 leaves it out where it would save nothing
            continue
        if used[-1] == _CHECKSUM:
            packed, used = packed[:-4], used[:-1]
        if used[-1] != _DEFLATE or _unpacks_beyond(packed, size + 4):  # a checksum may be within
            raise InputError(
                f"{path} has a chunk of {item.name!r} that unpacks to more than {size} bytes, or not at "
                "all. It is damaged, or made to fill the memory; do not use it."
            )


def _unpacks_beyond(packed: bytes, size: int) -> bool:
    """Whether zlib cannot unpack some bytes, or makes more than so many of them."""
    try:
        return len(zlib.decompressobj().decompress(packed, size + 1)) > size
    except zlib.error:
        return True


def check_links(path: str | os.PathLike[str]) -> None:
    """Refuse a folder with symbolic links in it, or with what is not a file: reading a pipe never ends."""
    for folder, folders, files in os.walk(path):
        for name in (*folders, *files):
            mode = os.lstat(place := os.path.join(folder, name)).st_mode
            if stat.S_ISLNK(mode):
                raise InputError(
                    f"{os.fspath(path)} has a symbolic link in it: {place}. A store must hold its files "
                    "itself. Put the file in place of the link."
                )
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise InputError(
                    f"{os.fspath(path)} has something in it that is not a file: {place}. Remove it."
                )


@contextlib.contextmanager
def leftovers_ignored() -> Iterator[None]:
    """Zarr warns of what a killed process has left beside its arrays, or another is writing: no fault."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Object at .* is not recognized as a component of a Zarr")
        yield


def check_zarr(path: Path, group: Any) -> None:
    """Refuse a Zarr group whose chunks expand beyond memory; beyond their own size is a ValueError."""
    for _, array in group.arrays():
        check_zarr_array(path, array)


def check_zarr_array(path: Path, array: Any) -> None:
    """The same of one array."""
    name, codecs = array.basename, {type(codec).__name__ for codec in array.metadata.codecs}
    if strange := codecs - _CODECS:
        raise ValueError(f"`{name}` is packed with {', '.join(sorted(strange))}")
    most = math.prod(array.chunks) * (_TEXT if "VLenUTF8Codec" in codecs else array.dtype.itemsize)
    check_bytes(f"`{name}` of {path}", most)
    for file in (path / name).rglob("*") if "ZstdCodec" in codecs else ():
        if file.is_file() and _may_be_chunk(file):
            size = expands_to(file)
            if size is None:
                raise ValueError(f"{file} of `{name}` does not say to how many bytes it expands")
            if size > most:
                raise ValueError(f"{file} of `{name}` expands to {size} bytes")


def _may_be_chunk(file: Path) -> bool:
    """Whether Zarr could read a file of an array as a chunk; chunks have names of digits, or begin with c."""
    return file.name != "zarr.json" and not file.name.startswith(".") and file.suffix != ".partial"


def expands_to(file: Path) -> int | None:
    """The size to which a Zstandard frame says it expands; None if it does not say, 0 if it is none.

    Another frame behind it would be unpacked as well, so that there must be none.
    """
    with open(file, "rb") as opened:
        head = opened.read(18)
        if head[1:4] not in _FRAMES:  # nothing unpacks it
            return 0
        if len(head) < 6 or head[0] != 0x28 or head[1:4] != _FRAMES[0]:
            return None
        is_single, dictionary = head[4] >> 5 & 1, (0, 1, 2, 4)[head[4] & 3]
        width = (is_single, 2, 4, 8)[head[4] >> 6]
        begin = 6 - is_single + dictionary
        size = int.from_bytes(head[begin : begin + width], "little") + 256 * (width == 2)
        end = _end_of_frame(opened, begin + width, has_checksum=bool(head[4] >> 2 & 1))
        return size if width and end >= opened.seek(0, os.SEEK_END) else None


def _end_of_frame(opened: BinaryIO, place: int, *, has_checksum: bool) -> int:
    """Where a frame of Zstandard ends whose first block is at a place; beyond the file if it is cut short."""
    is_last = False
    while not is_last:
        opened.seek(place)
        block = opened.read(3)
        if len(block) < 3:
            return place + 3
        word = int.from_bytes(block, "little")
        is_last, is_repeated, size = bool(word & 1), word >> 1 & 3 == 1, word >> 3
        place += 3 + (1 if is_repeated else size)
    return place + 4 * has_checksum
