"""Comparison: a number of ours beside the reference's, with the difference that is allowed."""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import xarray as xr

# Our variable: in words, the reference's name for it, and the tolerance.
_RECORDS = {
    "loss": ("loss", "loss_f64", 1e-9),
    "error": ("0-1 loss", "err01_f64", 1e-12),
    "margins": ("margins", "margins_f64", 1e-9),
    "gamma": ("path in the plane", "gamma_f64", 1e-9),
    "sharpness": ("sharpness", "sharpness_f64", 1e-9),
}


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One row of a figure's table.

    Args:
        quantity: What is compared.
        ours: Our value; of a curve, the one where it differs most.
        reference: Its counterpart. None if there is no reference value.
        tolerance: How much they may differ, in absolute terms; zero for whole numbers.
        points: How many values were compared.
    """

    quantity: str
    ours: float
    reference: float | None
    tolerance: float = 0.0
    points: int = 1

    @property
    def difference(self) -> float | None:
        """How much they differ."""
        return None if self.reference is None else abs(self.ours - self.reference)

    @property
    def is_ok(self) -> bool:
        """Whether they differ by no more than is allowed; what has no reference must be a number."""
        return (
            self.difference <= self.tolerance
            if self.difference is not None
            else math.isfinite(self.ours)
        )


def compared(quantity: str, ours: Any, theirs: Any, *, rtol: float = 1e-9) -> Comparison:
    """Compare arrays: the worst difference counts, against `rtol` times the largest reference value.

    Rounding alone moves a path by some 1e-12 of its size in a thousand steps (measured between the spaces
    of weights, particles and margins); 1e-9 leaves room for other orders of summation, not for errors.
    """
    ours, theirs = np.asarray(ours, float), np.asarray(theirs, float)
    if ours.shape != theirs.shape:
        raise ValueError(f"{quantity}: shapes differ, {ours.shape} and {theirs.shape}")
    away = np.abs(ours - theirs)
    away = np.where(np.isnan(away), np.inf, away)
    worst = int(np.argmax(away))
    tolerance = rtol * float(np.abs(theirs).max())
    return Comparison(
        quantity, float(ours.flat[worst]), float(theirs.flat[worst]), tolerance, int(ours.size)
    )


def counted(quantity: str, ours: Any, theirs: Any) -> Comparison:
    """Compare whole numbers, cell by cell: none may differ."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    if ours.shape != theirs.shape:
        raise ValueError(f"{quantity}: shapes differ, {ours.shape} and {theirs.shape}")
    if ours.ndim == 0:
        return Comparison(quantity, float(ours), float(theirs))
    different = int((ours != theirs).sum())
    return Comparison(f"{quantity}: cells that differ", float(different), 0.0, 0.0, int(ours.size))


def compared_records(
    ours: xr.Dataset, theirs: Any, names: tuple[str, ...], where: str
) -> list[Comparison]:
    """Compare the records that have these names; `where` is added to their names in words."""
    return [
        compared(f"{words}{where}", ours[name], theirs[key], rtol=rtol)
        for name, (words, key, rtol) in ((name, _RECORDS[name]) for name in names)
    ]


def runs_in_common(here: xr.Dataset, runs: Any) -> Iterator[tuple[xr.Dataset, Any, str]]:
    """Our run and the reference's for each learning rate that both have, with as many steps."""
    for run in runs:
        if run["lr"] in here.learning_rate and here.sizes["step"] == len(run["loss_f64"]):
            yield here.sel(learning_rate=run["lr"]), run, f"η = {run['lr']:g}"
