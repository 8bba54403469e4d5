"""Muon's first step: how many Gaussian associations it recalls, against d and the exponent of the frequencies."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from engram import plotting
from engram.studies._first_steps import count_recalled, expected
from engram.studies._optimizers import optimizer_tables
from engram.studies._study import AbstractStudy, Row
from engram.studies._work import Work
from engram.theory import recovery

_FAR = [2**k for k in (32, 36, 40)]  # where the law is compared with the theory


@dataclasses.dataclass(frozen=True)
class Muon(AbstractStudy):
    """One step on d^2 Gaussian associations."""

    exponents: list[float] = dataclasses.field(default_factory=lambda: [0.75, 1.0, 1.5, 2.0])
    optimizers: list[Any] = dataclasses.field(
        default_factory=lambda: ["exact_muon", "muon", "plain", "sign"]
    )
    dims: list[int] = dataclasses.field(default_factory=lambda: [24, 32, 48, 64, 96, 128, 192, 256])
    seeds: int = 5

    title: ClassVar[str] = "One step of Muon: how many associations it recalls"
    question: ClassVar[str] = (
        "N = d² associations of Gaussian vectors, frequencies p(x) ~ x^-a, and one step from zero. How does the number of recalled "
        "tokens grow with d: for exact Muon (the polar factor of the gradient), for Muon with Newton-Schulz iterations, for plain "
        "descent, and for sign descent, which is also Adam's first step?"
    )
    known: ClassVar[tuple[str, ...]] = (
        "Exact Muon recalls about d^(1 + 1/(2a)) tokens, descent about d^(1/(2a)), up to logarithms (arXiv 2603.26554).",
        "Muon's advantage for a hierarchy of frequencies, and sign descent's dependence on the basis (arXiv 2602.05725).",
        "W recalls at most about d² / (2 log N) associations of any kind (arXiv 2605.05189, 2605.10795).",
    )
    open: ClassVar[tuple[str, ...]] = (
        "A proof for sign descent, whose exponent looks like descent's.",
        "The number that five Newton-Schulz iterations recall: they do not lift singular values far below the largest.",
        "Several steps: 2603.26554 has rates for a thresholded gradient, and conjectures them for Muon itself.",
    )
    minutes: ClassVar[float] = 5
    tiny: ClassVar[Mapping[str, Any]] = {
        "exponents": [1.0], "dims": [8, 12, 16], "seeds": 2, "optimizers": ["exact_muon", "plain"],
    }  # fmt: skip

    def compute(self, work: Work) -> dict[str, xr.Dataset]:
        shared: dict[str, Any] = {"exponents": self.exponents, "optimizers": self.optimizers}
        parts = [
            work.keep(f"d_{d}", count_recalled, dim=d, seeds=self.seeds, **shared)
            for d in sorted(set(self.dims))
        ]
        theory = work.keep(
            "theory", expected, dims=[2**k for k in range(3, 41)], exponents=self.exponents
        )
        return {"counts": xr.concat(parts, "dim"), "theory": theory}

    def compare(self, data: Mapping[str, xr.Dataset]) -> list[Row]:
        rows = []
        for name in optimizer_tables(self.optimizers):
            for a in self.exponents:
                counts = data["counts"].sel(exponent=a)
                slope, error = fitted_slope(counts["recalled"].sel(optimizer=name))
                law = recovery.recall_exponent(a, name)
                what, low, high = f"{name}: exponent in d, a = {a:g}", slope - error, slope + error
                if name == "exact_muon":
                    source = f"theory at these d; the law for large d is {law:.3f}"
                    reference = _slopes(counts["dim"].values, counts["expected"].values)[0]
                    rows.append(Row(what, slope, low, high, reference, source=source))
                else:
                    source = f"law of descent: {law:.3f} for large d" if name == "plain" else ""
                    rows.append(Row(what, slope, low, high, source=source))
        return rows + [self._limit(data["theory"], a) for a in self.exponents]

    def _limit(self, theory: xr.Dataset, a: float) -> Row:
        """The theory's exponent at d = 2^40, without the logarithm, beside the law's."""
        chosen = theory["recalled"].sel(exponent=a, dim=_FAR)
        without_log = [_rise(d) for d in _FAR]
        before, last = np.diff(np.log(chosen / chosen["dim"])) / np.diff(without_log)
        # What is left falls at least like 1 / log d.
        left = abs(last - before) * np.log(_FAR[1]) / np.log(_FAR[2] / _FAR[1])
        law = recovery.recall_exponent(a)
        what = f"exact_muon: exponent in the limit, a = {a:g}"
        return Row(
            what,
            1 + last,
            1 + last - left,
            1 + last + left,
            law,
            source="arXiv 2603.26554, 1 + 1/(2a)",
        )

    def findings(self, data: Mapping[str, xr.Dataset]) -> list[str]:
        rows, sentences = {row.quantity: row for row in self.compare(data)}, []
        first, last = min(self.dims), max(self.dims)
        for a in self.exponents:
            counts = data["counts"].sel(exponent=a, dim=last)["recalled"].mean("seed")
            shown = ", ".join(
                f"{name} {float(counts.sel(optimizer=name)):.0f}"
                for name in counts["optimizer"].values
            )
            sentences.append(f"a = {a:g}: tokens recalled at d = {last} of {last**2}: {shown}.")
            row = rows.get(f"exact_muon: exponent in d, a = {a:g}")
            if row is not None:
                law, theory = (
                    recovery.recall_exponent(a),
                    data["theory"].sel(exponent=a)["recalled"],
                )
                slopes = np.diff(np.log2(theory))
                close = np.flatnonzero(np.abs(slopes - law) > 0.02)[-1] + 1
                near = (
                    f"from d = 2^{int(np.log2(theory['dim'][close]))} on"
                    if close < len(slopes)
                    else "not even at d = 2^40"
                )
                low, high = row.interval
                inside = "within" if low <= law <= high else "outside"
                sentences.append(
                    f"a = {a:g}: from d = {first} to {last} exact Muon's exponent is {row.ours:.2f} ({low:.2f} to {high:.2f}); theory at these d has "
                    f"{row.reference:.2f}. The law's {law:.2f} is {inside} the interval: theory comes within 0.02 of it {near}."
                )
        return sentences

    def draw(self, data: Mapping[str, xr.Dataset]) -> Figure:
        with plotting.style():
            figure = plotting.new_figure(plotting.WIDE, 3.3)
            left, right = figure.subplots(1, 2)
            self._draw_counts(left, data)
            self._draw_slopes(right, data)
            return figure

    def _draw_counts(self, axes: Any, data: Mapping[str, xr.Dataset]) -> None:
        marks = "os^vDP*X"
        largest = max(self.dims)
        for a, colour in zip(self.exponents, plotting.COLOURS * len(self.exponents), strict=False):
            theory = data["theory"].sel(exponent=a)["recalled"]
            theory = theory.where((theory["dim"] >= 8) & (theory["dim"] <= 2 * largest), drop=True)
            axes.plot(theory["dim"], theory, color=colour, lw=1)
            for name, mark in zip(optimizer_tables(self.optimizers), marks, strict=False):
                counts = data["counts"]["recalled"].sel(exponent=a, optimizer=name)
                n = counts.sizes["seed"]
                spread = counts.std("seed", ddof=1) / np.sqrt(n) if n > 1 else None
                is_exact = name == "exact_muon"
                axes.errorbar(
                    counts["dim"], counts.mean("seed"), spread, fmt=mark, ms=4 if is_exact else 3.2, color=colour,
                    mfc=colour if is_exact else "white", mew=0.8, lw=0.8,
                    label=name if a == self.exponents[0] else None,
                )  # fmt: skip
        axes.set(xscale="log", yscale="log", xlabel="d", ylabel="tokens recalled, of d²")
        axes.set_title("after one step from zero; lines: theory of exact Muon")
        axes.legend(loc="upper left")

    def _draw_slopes(self, axes: Any, data: Mapping[str, xr.Dataset]) -> None:
        for a, colour in zip(self.exponents, plotting.COLOURS * len(self.exponents), strict=False):
            theory = data["theory"].sel(exponent=a)["recalled"]
            d = theory["dim"].values.astype(float)
            axes.plot(
                np.sqrt(d[1:] * d[:-1]), np.diff(np.log2(theory)), color=colour, label=f"a = {a:g}"
            )
            axes.axhline(recovery.recall_exponent(a), color=colour, lw=0.8, ls=":")
            if "exact_muon" in optimizer_tables(self.optimizers):
                counts = data["counts"]["recalled"].sel(exponent=a, optimizer="exact_muon")
                wide = counts.isel(dim=slice(None, None, 2))  # pairs of neighbours are noisy
                place = [
                    np.sqrt(x * y)
                    for x, y in zip(wide["dim"].values, wide["dim"].values[1:], strict=False)
                ]
                pairs = [fitted_slope(wide.isel(dim=slice(k, k + 2))) for k in range(len(place))]
                slopes, errors = np.array(pairs).reshape(-1, 2).T
                axes.errorbar(place, slopes, errors, fmt="o", ms=3.5, color=colour, lw=0.8)
        axes.set(xscale="log", xlabel="d", ylabel="local exponent of exact Muon", ylim=(0.9, 1.75))
        axes.set_title("lines: theory; dotted: 1 + 1/(2a)")
        axes.legend(loc="lower right")


def fitted_slope(counts: xr.DataArray) -> tuple[float, float]:
    """The exponent of mean counts in d by least squares, and half of its 95 % interval, from the spread over seeds."""
    from scipy.stats import t

    values = counts.transpose("dim", "seed").values
    n = values.shape[1]
    slope, weights = _slopes(counts["dim"].values, values.mean(1))
    if n < 2:
        return slope, float("nan")
    errors = values.std(1, ddof=1) / np.sqrt(n) / values.mean(1)
    return slope, float(t.ppf(0.975, len(values) * (n - 1)) * np.linalg.norm(weights * errors))


def _slopes(dims: Any, counts: Any) -> tuple[float, np.ndarray]:
    """The least-squares slope of log counts in log d, and its weights."""
    x = np.log(np.asarray(dims, float))
    weights = (x - x.mean()) / ((x - x.mean()) ** 2).sum()
    return float(weights @ np.log(counts)), weights


def _rise(dim: int) -> float:
    """log(d / b_N^2), in which the count over d has the exponent 1/(2a)."""
    return float(np.log(dim / recovery.noise_quantile(dim**2) ** 2))
