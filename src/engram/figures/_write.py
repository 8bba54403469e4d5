"""Make a figure: compute, compare, draw, and write each file whole or not at all."""

import contextlib
import dataclasses
import importlib
import time
from pathlib import Path
from typing import Any

import xarray as xr

from engram._checks import InputError
from engram._files import written_whole
from engram._foreign_files import check_hdf5
from engram._paper import FIGURES
from engram.figures._comparison import Comparison
from engram.figures._labels import settings_from, words
from engram.figures._runs import Progress, silent

_SUBJECTS = ("level_lines", "loss_spikes", "steps_to_accuracy", "forgetting", "sharpness", "margins",
             "transformer")  # fmt: skip
_HOMES = {name: f"{name}_{subject}" for name, subject in zip(FIGURES, _SUBJECTS, strict=True)}


@dataclasses.dataclass(frozen=True)
class FigureResult:
    """A figure that was made: what it shows, how it compares, where it is."""

    name: str
    title: str
    caption: str
    settings: dict[str, Any]
    findings: list[str]
    comparisons: list[Comparison]
    files: list[Path]
    seconds: float

    @property
    def is_ok(self) -> bool:
        """Whether every value that has a reference is within its tolerance."""
        return all(row.is_ok for row in self.comparisons)


def module_of(name: str) -> Any:
    """The module of a figure: its settings, `compute`, `compare`, `findings` and `draw`."""
    if name not in _HOMES:
        raise InputError(
            f"FIGURE must be one of {', '.join(FIGURES)}, got {name!r}. Pick from those."
        )
    return importlib.import_module(f"engram.figures.{_HOMES[name]}")


def settings_at(name: str, scale: str) -> Any:
    """A figure's settings at a scale; "tiny" and "medium" are "quick" where a figure has no other."""
    scales = module_of(name).SCALES
    return scales.get(scale, scales["quick"])


def write_figure(
    name: str, out: Path, scale: str = "quick", progress: Progress = silent
) -> FigureResult:
    """Compute and draw a figure into `out` as .png, .pdf and .nc.

    Nothing found there is used, except the runs of a figure that takes long at this scale: those are
    kept in `out` as they go, and resumed.
    """
    began = time.perf_counter()
    module = module_of(name)
    settings = settings_at(name, scale)
    if scale in getattr(module, "KEPT", ()):
        data = module.compute(settings, progress, out / f"{name}-runs")
    else:
        data = module.compute(settings, progress)
    picture = module.draw(data)
    files = [out / f"{name}{suffix}" for suffix in (".nc", ".pdf", ".png")]
    # No date inside: the same figure is the same file. All three appear together, at the end.
    date: Any = {"CreationDate": None}
    with contextlib.ExitStack() as stack:
        nc, pdf, png = (stack.enter_context(written_whole(path)) for path in files)
        _to_netcdf(data, nc)
        picture.savefig(pdf, dpi=200, metadata=date)
        picture.savefig(png, dpi=200)
    about = words()[name]
    return FigureResult(
        name, about["title"], about["caption"], dataclasses.asdict(settings), module.findings(data),
        module.compare(data), files, time.perf_counter() - began,
    )  # fmt: skip


def write_data(data: xr.Dataset, path: Path) -> None:
    """Write a dataset as NetCDF-4, whole or not at all."""
    with written_whole(path) as partial:
        _to_netcdf(data, partial)


def _to_netcdf(data: xr.Dataset, path: Path) -> None:
    large = [name for name in data.variables if data[name].size > 1000]
    packed: Any = {name: {"zlib": True, "complevel": 4} for name in large}
    path.write_bytes(data.to_netcdf(engine="h5netcdf", encoding=packed))


def compute_again(path: Path, progress: Progress = silent) -> xr.Dataset:
    """Compute a figure's data once more, from the attributes of a file that `write_figure` wrote."""
    check_hdf5(path)
    with xr.open_dataset(path, engine="h5netcdf") as before:
        name, text = before.attrs.get("figure"), before.attrs.get("settings")
    if not isinstance(name, str) or name not in _HOMES or not isinstance(text, str):
        raise InputError(f"{path} is not the data of a figure: its attributes do not name one.")
    module = module_of(name)
    try:
        settings = settings_from(text, module.Settings)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{path} has settings that {name} does not take ({error}). Make it again with "
            f"`engram reproduce {name}`."
        ) from None
    return module.compute(settings, progress)
