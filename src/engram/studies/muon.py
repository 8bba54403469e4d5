"""Muon's first step: how many Gaussian associations it recalls, against d and the exponent of the frequencies."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from engram import plotting
from engram._checks import InputError
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
    dims: list[int] = dataclasses.field(default_factory=lambda: [24, 32, 48, 64, 96, 128, 192])
    seeds: int = 6

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
    minutes: ClassVar[float] = 3
    tiny: ClassVar[Mapping[str, Any]] = {
        "exponents": [1.0], "dims": [8, 12, 16], "seeds": 2, "optimizers": ["exact_muon", "plain"],
    }  # fmt: skip

    def __post_init__(self) -> None:
        if len(set(self.dims)) < 2:
            raise InputError(
                f"`dims` must have two values at least, got {self.dims}. Add a larger one."
            )

    def compute(self, work: Work) -> dict[str, xr.Dataset]:
        shared: dict[str, Any] = {
            "exponents": self.exponents,
            "optimizers": self.optimizers,
        }
        parts = [
            work.keep(
                f"d_{d}", count_recalled, dim=d, seeds=self.seeds * (max(self.dims) // d), **shared
            )
            for d in sorted(set(self.dims))
        ]
        theory = work.keep(
            "theory", expected, dims=[2**k for k in range(3, 41)], exponents=self.exponents
        )
        return {"counts": xr.concat(parts, "dim", join="outer"), "theory": theory}

    def compare(self, data: Mapping[str, xr.Dataset]) -> list[Row]:
        rows = []
        for name in optimizer_tables(self.optimizers):
            for a in self.exponents:
                counts = data["counts"].sel(exponent=a)
                slope, error = fitted_slope(counts["recalled"].sel(optimizer=name))
                law = recovery.recall_exponent(a, name)
                what, low, high = f"{name}: exponent in d, a = {a:g}", slope - error, slope + error
                if name == "exact_muon":
                    d = counts["dim"].values
                    theory, weights = _slopes(d, counts["expected"].values)
                    # Fluctuations of relative size d^-1/2 are left out, which count to second order.
                    error_of_theory = float(np.abs(weights) @ (1 / d))
                    source = f"theory at these d up to 1/d; the law for large d is {law:.3f}"
                    rows.append(Row(what, slope, low, high, theory, error_of_theory, source))
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
        fits = {row.quantity: row for row in self.compare(data)}
        return [sentence for a in self.exponents for sentence in self._findings(data, fits, a)]

    def _findings(
        self, data: Mapping[str, xr.Dataset], fits: Mapping[str, Row], a: float
    ) -> list[str]:
        first, last = min(self.dims), max(self.dims)
        counts = data["counts"]["recalled"].sel(exponent=a, dim=last).mean("seed")
        shown = ", ".join(
            f"{name} {float(counts.sel(optimizer=name)):.0f}" for name in counts["optimizer"].values
        )
        sentence = f"a = {a:g}: of {last**2} tokens at d = {last}, one step recalls: {shown}."
        fit = fits.get(f"exact_muon: exponent in d, a = {a:g}")
        if fit is None:
            return [sentence]
        law, (low, high) = recovery.recall_exponent(a), fit.interval
        theory = data["theory"]["recalled"].sel(exponent=a)
        far = np.flatnonzero(np.abs(np.diff(np.log2(theory)) - law) > 0.05)[-1] + 1
        near = (
            f"from d = {theory['dim'].values[far]:.2g} on"
            if far < len(theory) - 1
            else "beyond all d"
        )
        return [
            sentence,
            f"a = {a:g}: from d = {first} to {last} exact Muon's exponent is {fit.ours:.3f} ({low:.3f} to {high:.3f}), theory at these d has "
            f"{fit.reference:.3f}. The law's {law:.3f} is {'within' if low <= law <= high else 'outside'} the interval; by theory, local exponents are "
            f"within 0.05 of it {near}.",
        ]

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
                spread = (
                    counts.std("seed", ddof=1) / np.sqrt(counts.count("seed"))
                    if self.seeds > 1
                    else None
                )
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
        colours = plotting.COLOURS * len(self.exponents)
        for k, (a, colour) in enumerate(zip(self.exponents, colours, strict=False)):
            theory = data["theory"].sel(exponent=a)["recalled"]
            d = theory["dim"].values.astype(float)
            axes.plot(
                np.sqrt(d[1:] * d[:-1]), np.diff(np.log2(theory)), color=colour, label=f"a = {a:g}"
            )
            axes.axhline(recovery.recall_exponent(a), color=colour, lw=0.8, ls=":")
            if "exact_muon" in optimizer_tables(self.optimizers):
                counts = data["counts"]["recalled"].sel(exponent=a, optimizer="exact_muon")
                pairs = [d for d in counts["dim"].values if 2 * d in counts["dim"]]
                slopes = [fitted_slope(counts.sel(dim=[d, 2 * d])) for d in pairs]
                for d, (slope, error) in zip(pairs, slopes, strict=True):
                    axes.errorbar(
                        d * np.sqrt(2) * 1.06**k, slope, error, fmt="o", ms=3, color=colour, lw=0.8
                    )
        axes.set(
            xscale="log",
            xlabel="d",
            ylabel="local exponent of exact Muon",
            xlim=(15, 1e9),
            ylim=(0.9, max(map(recovery.recall_exponent, self.exponents)) + 0.1),
        )
        axes.set_title("lines: theory; dotted: 1 + 1/(2a)")
        axes.legend(loc="lower right")


def fitted_slope(counts: xr.DataArray) -> tuple[float, float]:
    """The exponent of mean counts in d by least squares, and half of its 95 % interval, from the spread over seeds."""
    from scipy.stats import t

    means, n = counts.mean("seed").values, counts.count("seed").values
    slope, weights = _slopes(counts["dim"].values, means)
    if (n < 2).any():
        return slope, float("nan")
    variances = weights**2 * counts.var("seed", ddof=1).values / n / means**2
    if not variances.any():
        return slope, 0.0
    freedom = variances.sum() ** 2 / (variances**2 / (n - 1)).sum()  # Welch and Satterthwaite
    return slope, float(t.ppf(0.975, freedom) * np.sqrt(variances.sum()))


def _slopes(dims: Any, counts: Any) -> tuple[float, np.ndarray]:
    """The least-squares slope of log counts in log d, and its weights."""
    x = np.log(np.asarray(dims, float))
    weights = (x - x.mean()) / ((x - x.mean()) ** 2).sum()
    return float(weights @ np.log(counts)), weights


def _rise(dim: int) -> float:
    """log(d / b_N^2), in which the count over d has the exponent 1/(2a)."""
    return float(np.log(dim / recovery.noise_quantile(dim**2) ** 2))
