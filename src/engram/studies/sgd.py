"""One pass of stochastic descent over heavy-tailed data: plain, by signs, with layer norm."""

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from engram._checks import InputError
from engram.capacity import one_pass_errors
from engram.plotting import COLOURS, WIDE, new_figure, style
from engram.studies._means import NORMAL, draw_means, mean_interval
from engram.studies._optimizers import optimizer_tables
from engram.studies._study import AbstractStudy, Row
from engram.studies._work import Work

# Mean final errors over ten seeds in the grid that the authors of arXiv 2310.02984 stored, and their spread
# over seeds: N = 100, M = 5, p ~ 1/x^2, plain descent, batches of 64, T = 10240; by d and learning rate.
STORED = {
    (10, 1.0): (0.0638, 0.019),
    (10, 10.0): (0.0401, 0.011),
    (100, 1.0): (0.0307, 0.0056),
    (100, 10.0): (0.0124, 0.0020),
}


@dataclasses.dataclass(frozen=True)
class OnePass(AbstractStudy):
    """One pass over T samples of heavy-tailed data, against the authors' stored grid."""

    dims: list[int] = dataclasses.field(default_factory=lambda: [10, 100])
    samples: list[int] = dataclasses.field(default_factory=lambda: [1024, 10240])
    batch_sizes: list[int] = dataclasses.field(default_factory=lambda: [64, 256, 1024])
    learning_rates: list[float] = dataclasses.field(default_factory=lambda: [0.1, 1.0, 10.0, 100.0])
    optimizers: list[Any] = dataclasses.field(default_factory=lambda: ["plain", "sign"])
    layer_norm: list[bool] = dataclasses.field(default_factory=lambda: [False, True])
    num_tokens: int = 100
    num_classes: int = 5
    exponent: float = 2.0
    draws: int = 50
    seed: int = 0

    title: ClassVar[str] = "One pass of stochastic descent over heavy-tailed data"
    question: ClassVar[str] = (
        "How many errors are left after one pass over T samples with p(x) ~ x^-a, by dimension, batch size "
        "and learning rate? Do signs of gradients or layer norm help?"
    )
    known: ClassVar[tuple[str, ...]] = (
        "Larger steps, smaller batches and signs (Adam without averages) store more in one pass; layer norm "
        "makes small steps work (Cabannes, Dohmatob and Bietti, arXiv 2310.02984, Section 4).",
        "Their stored grid has ten seeds per cell; rates of signs are divided by d.",
    )
    open: ClassVar[tuple[str, ...]] = (
        "A law for the error in d, T, the batch size and the learning rate together.",
        "Why layer norm turns from a help to a burden as steps grow.",
    )
    minutes: ClassVar[float] = 3
    tiny: ClassVar[Mapping[str, Any]] = {
        "dims": [10], "samples": [64, 128], "batch_sizes": [64], "learning_rates": [1.0, 10.0],
        "layer_norm": [False], "draws": 4, "num_tokens": 20,
    }  # fmt: skip

    def compute(self, work: Work) -> dict[str, xr.Dataset]:
        if wrong := [(T, b) for T in self.samples for b in self.batch_sizes if T % b]:
            raise InputError(
                "`samples` must be multiples of `batch_sizes`, so that a pass ends with a whole batch, got "
                f"{wrong[0][0]} and {wrong[0][1]}."
            )
        shared = {
            name: getattr(self, name)
            for name in ("learning_rates", "num_tokens", "num_classes", "exponent", "draws", "seed")
        }
        parts = {}
        tables = optimizer_tables(self.optimizers).values()
        for optimizer, is_normed, d in itertools.product(tables, self.layer_norm, self.dims):
            name = f"{optimizer['optimizer']}_{'normed_' if is_normed else ''}{d}"
            while name in parts:
                name += "_"
            parts[name] = work.keep(
                name, one_pass_errors, dim=d, optimizer=optimizer, layer_norm=is_normed,
                batch_sizes=self.batch_sizes, samples=sorted(self.samples), **shared,
            )  # fmt: skip
        return parts

    def compare(self, data: Mapping[str, xr.Dataset]) -> list[Row]:
        rows = []
        is_theirs = (self.num_tokens, self.num_classes, self.exponent) == (100, 5, 2.0)
        for part in data.values():
            if part.attrs["label"] != "plain" or 64 not in part.batch or 10240 not in part.samples:
                continue
            for rate in part.learning_rate.values:
                cell = part.error.sel(batch=64, samples=10240, learning_rate=rate)
                key = int(part.attrs["dim"]), float(rate)
                theirs = STORED.get(key) if is_theirs else None
                known: dict[str, Any] = {}
                if theirs is not None:
                    known = {
                        "reference": theirs[0],
                        "error": NORMAL * theirs[1] / np.sqrt(10),
                        "source": "authors' stored grid, 10 seeds, arXiv 2310.02984",
                    }
                what = f"mean final error, d = {key[0]}, learning rate {rate:g}"
                rows.append(Row(what, *mean_interval(cell), **known))
        return rows

    def findings(self, data: Mapping[str, xr.Dataset]) -> list[str]:
        T = max(self.samples)
        says = []
        for d in self.dims:
            best = {}
            for part in data.values():
                if int(part.attrs["dim"]) == d:
                    means = part.error.sel(samples=T).mean("draw")
                    at = {k: int(v) for k, v in means.argmin(["batch", "learning_rate"]).items()}
                    mean, low, high = mean_interval(part.error.sel(samples=T).isel(at))
                    best[part.attrs["label"]] = (
                        mean,
                        (
                            f"{part.attrs['label']} {mean:.4f} ({low:.4f}, {high:.4f}) at learning rate "
                            f"{float(part.learning_rate[at['learning_rate']]):g}{part.attrs['unit']}, "
                            f"batches of {int(part.batch[at['batch']])}"
                        ),
                    )
            ordered = [text for _, text in sorted(best.values())]
            says.append(f"Least mean error at d = {d} after {T} samples: {'; '.join(ordered)}.")
        for part in data.values():
            small, large = (
                part.error.sel(batch=b, samples=T)
                for b in (min(self.batch_sizes), max(self.batch_sizes))
            )
            if len(self.batch_sizes) > 1:
                ratio = (large.mean("draw") / small.mean("draw")).values
                says.append(
                    f"{part.attrs['label']}, d = {part.attrs['dim']}: batches of {max(self.batch_sizes)} instead "
                    f"of {min(self.batch_sizes)} multiply the error by {ratio.min():.2f} to {ratio.max():.2f} "
                    "over the learning rates."
                )  # fmt: skip
        return says

    def draw(self, data: Mapping[str, xr.Dataset]) -> Figure:
        T = max(self.samples)
        usual = 64 if 64 in self.batch_sizes else self.batch_sizes[0]
        labels = list(dict.fromkeys(part.attrs["label"] for part in data.values()))
        with style():
            figure = new_figure(WIDE, 2.9)
            panels = figure.subplots(1, len(self.dims) + 1, sharey=True, squeeze=False)[0]
            for part in data.values():
                at = labels.index(part.attrs["label"])
                look = {
                    "color": COLOURS[at % 7], "marker": "osD^v<>"[at % 7], "label": part.attrs["label"],
                }  # fmt: skip
                axes = panels[self.dims.index(int(part.attrs["dim"]))]
                cell = part.error.sel(batch=usual, samples=T)
                draw_means(axes, cell, "learning_rate", look)
                if int(part.attrs["dim"]) == self.dims[-1]:
                    least = part.error.sel(samples=T)
                    rate = least.mean("draw").argmin("learning_rate")
                    draw_means(panels[-1], least.isel(learning_rate=rate), "batch", look)
            for axes, d in zip(panels, self.dims, strict=False):
                theirs = [
                    (rate, *values) for (dim, rate), values in STORED.items()
                    if dim == d and (T, usual, self.num_tokens, self.exponent) == (10240, 64, 100, 2.0)
                ]  # fmt: skip
                if theirs:
                    rate, mean, spread = np.array(theirs).T
                    axes.errorbar(
                        rate, mean, NORMAL * spread / np.sqrt(10), fmt="*", color="k", ms=7, mfc="none",
                        zorder=5, label="authors' plain, 10 seeds",
                    )  # fmt: skip
                axes.set(
                    xlabel=r"learning rate ($\times\, 1/d$ for signs)",
                    title=f"$d$ = {d}, batches of {usual}",
                )
            panels[-1].set(xlabel="batch size", title=f"$d$ = {self.dims[-1]}, best learning rate")
            for axes in panels:
                axes.set(xscale="log", yscale="log")
            panels[0].set_ylabel(f"error after one pass over {T} samples")
            panels[0].legend(loc="best")
        return figure
