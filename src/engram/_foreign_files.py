"""Files that may come from anybody, checked before they are read: they stand alone, and fit into memory."""

import os
import zipfile
import zlib
from typing import Any

from engram._errors import InputError
from engram._memory_limits import check_bytes

_DEFLATE, _HARMLESS = 1, {1: "deflate", 2: "shuffle", 3: "fletcher32"}  # filters of HDF5 by number


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
    if _DEFLATE not in filters:
        return
    size = item.dtype.itemsize
    for length in item.chunks:
        size *= length
    places: list[tuple[int, ...]] = []
    item.id.chunk_iter(lambda info: places.append(info.chunk_offset))
    for place in places:
        mask, packed = item.id.read_direct_chunk(place)
        if mask:  # a filter was left out
            continue
        if filters[-1] == 3:  # a checksum comes last
            packed = packed[:-4]
        if len(zlib.decompressobj().decompress(packed, size + 5)) > size + 4:
            raise InputError(
                f"{path} has a chunk of {item.name!r} that unpacks to more than {size} bytes. It is "
                "damaged, or made to fill the memory; do not use it."
            )
