"""What outer products store of heavy-tailed data, by dimension and by samples, beside learnt weights."""

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from engram._checks import InputError
from engram.capacity import SCHEMES, learned_errors, sampled_scheme_errors, scheme_errors
from engram.plotting import COLOURS, WIDE, new_figure, style
from engram.problem import zipf
from engram.studies._means import draw_means, mean_interval
from engram.studies._optimizers import needs_rate, optimizer_tables
from engram.studies._study import AbstractStudy, Row
from engram.studies._work import Work
from engram.theory import scaling

_SIGNS = {"frequency": "$q = p$", "threshold": "$q = 1$ for the most frequent $d/8$"}
# The paper calls its slopes about -1/4 and -1; two digits of such a number are within this.
_ABOUT = 0.05
_RESAMPLES = 1000


@dataclasses.dataclass(frozen=True)
class Storage(AbstractStudy):
    """Storage schemes: the error against dimension and samples, with exponents, and what is learnt."""

    dims: list[int] = dataclasses.field(default_factory=lambda: [32, 64, 128, 256, 512])
    samples: list[int] = dataclasses.field(default_factory=lambda: [16, 64, 256, 1024, 4096])
    sample_dims: list[int] = dataclasses.field(default_factory=lambda: [32, 256])
    optimizers: list[Any] = dataclasses.field(
        default_factory=lambda: [
            {"optimizer": "plain", "learning_rate": 10.0},
            {"optimizer": "adam", "learning_rate": 0.01},
        ]
    )
    steps: int = 500
    learned_dims: list[int] = dataclasses.field(default_factory=lambda: [8, 16, 32, 64, 128])
    num_tokens: int = 1000
    num_classes: int = 5
    exponent: float = 2.0
    draws: int = 200
    learned_draws: int = 10
    seed: int = 0

    title: ClassVar[str] = "How much outer products store of heavy-tailed data"
    question: ClassVar[str] = (
        "How does the error of W = sum q(x) u_f(x) e_x^T fall with the dimension d and with the number T of "
        "samples that fill it, for p(x) ~ x^-a? How far are learnt weights from the schemes?"
    )
    known: ClassVar[tuple[str, ...]] = (
        "In dimension: d^-((a-1)/2a) for q = p, d^-(a-1) for q = 1 on the first d/8 tokens; -1/4 and -1 at "
        "a = 2 (Cabannes, Dohmatob and Bietti, arXiv 2310.02984).",
        "In samples: T^-(1-1/a), the mass of what was not seen; the two errors add up (the same paper).",
        "No W has a better exponent in d than outer products of the first tokens (J4b of the audit).",
    )
    open: ClassVar[tuple[str, ...]] = (
        "The exponent of what gradient descent learns in a given number of steps, at finite d.",
        "The error of the loss's minimiser for heavy tails, with its constant.",
    )
    minutes: ClassVar[float] = 3
    tiny: ClassVar[Mapping[str, Any]] = {
        "dims": [16, 32, 64], "samples": [16, 64, 256], "sample_dims": [16], "learned_dims": [8, 16],
        "steps": 20, "num_tokens": 100, "draws": 20, "learned_draws": 2,
    }  # fmt: skip

    def __post_init__(self) -> None:
        for name in ("dims", "samples"):
            values = getattr(self, name)
            if len(set(values)) < 2:  # what has an exponent
                raise InputError(
                    f"`{name}` must have two values at least, got {values}. Add a larger one."
                )

    def compute(self, work: Work) -> dict[str, xr.Dataset]:
        law = {
            name: getattr(self, name) for name in ("num_tokens", "num_classes", "exponent", "seed")
        }
        parts = {
            "dimension": work.keep(
                "dimension", scheme_errors, dims=sorted(self.dims), draws=self.draws, **law
            ),
            "samples": work.keep(
                "samples", sampled_scheme_errors, dims=sorted(self.sample_dims),
                samples=sorted(self.samples), draws=self.draws, **law,
            ),
        }  # fmt: skip
        for place, optimizer in enumerate(optimizer_tables(self.optimizers).values()):
            if needs_rate(optimizer):
                raise InputError(
                    f"`optimizers` must say their learning rates here, got {optimizer}. Add `learning_rate`."
                )
            parts[f"learned_{place}"] = work.keep(
                f"learned_{place}", learned_errors, optimizer=optimizer, steps=self.steps,
                dims=sorted(self.learned_dims), draws=self.learned_draws, **law,
            )  # fmt: skip
        return parts

    def compare(self, data: Mapping[str, xr.Dataset]) -> list[Row]:
        a, M, paper = self.exponent, self.num_classes, "arXiv 2310.02984"
        rows = []
        for scheme in SCHEMES:
            slope = slope_of(data["dimension"].error.sel(scheme=scheme), "dim")
            of = {"frequency": "frequency", "threshold": "best"}[scheme]
            known = -scaling.error_exponent(a, M, of) if a > 1 else None
            rows.append(
                Row(
                    f"exponent in d, {scheme}", *slope, known, _ABOUT, f"{paper}, asymptotic, about"
                )
            )
        part = data["samples"]
        rows.append(
            Row(
                "exponent in T of the unseen part", *slope_of(part.unseen, "samples"),
                -scaling.sample_exponent(a) if a > 1 else None, _ABOUT, f"{paper}, asymptotic, about",
            )
        )  # fmt: skip
        exact = (1 - 1 / M) * scaling.unseen_mass(zipf(self.num_tokens, a), part.samples.values)
        ratio = mean_interval((part.unseen / xr.DataArray(exact, dims="samples")).mean("samples"))
        rows.append(
            Row(
                "unseen part over (1 - 1/M) sum p (1 - p)^T", *ratio, 1.0, 0.0, "exact, mean over T"
            )
        )
        return rows

    def findings(self, data: Mapping[str, xr.Dataset]) -> list[str]:
        says = []
        for scheme in SCHEMES:
            slope, low, high = slope_of(data["dimension"].error.sel(scheme=scheme), "dim")
            says.append(
                f"In dimension the error falls like d^{slope:.3f} ({low:.3f}, {high:.3f}) for the scheme "
                f"{scheme!r}, d from {min(self.dims)} to {max(self.dims)}."
            )
        part = data["samples"]
        slope, low, high = slope_of(part.unseen, "samples")
        says.append(f"What was not seen weighs T^{slope:.3f} ({low:.3f}, {high:.3f}).")
        for d, scheme in itertools.product(part.dim.values, SCHEMES):
            last = part.error.sel(dim=d, scheme=scheme).isel(samples=-1)
            unseen = float(part.unseen.isel(samples=-1).mean())
            says.append(
                f"At d = {d} and T = {max(self.samples)}, {scheme!r} has the error {float(last.mean()):.4f}, "
                f"of which {unseen / float(last.mean()):.0%} is what was not seen."
            )
        for place in range(len(self.optimizers)):
            learned = data[f"learned_{place}"]
            for d in sorted(set(self.learned_dims) & set(self.dims)):
                ours = float(learned.error.sel(dim=d).mean())
                best = float(data["dimension"].error.sel(dim=d, scheme="threshold").mean())
                says.append(
                    f"{learned.attrs['label']}, {self.steps} steps, d = {d}: {ours:.4f}, {ours / best:.2f} "
                    "times the threshold's error."
                )  # fmt: skip
        return says

    def draw(self, data: Mapping[str, xr.Dataset]) -> Figure:
        M, a = self.num_classes, self.exponent
        p = zipf(self.num_tokens, a)
        with style():
            figure = new_figure(WIDE, 3.0)
            left, right = figure.subplots(1, 2)
            for scheme, colour, mark in zip(SCHEMES, COLOURS, "os", strict=False):
                errors = data["dimension"].error.sel(scheme=scheme)
                slope, low, high = slope_of(errors, "dim")
                label = f"{_SIGNS[scheme]}: $d^{{{slope:.2f}}}$ ({low:.2f}, {high:.2f})"
                draw_means(left, errors, "dim", {"color": colour, "marker": mark, "label": label})
            for place in range(len(self.optimizers)):
                part = data[f"learned_{place}"]
                look = {"color": COLOURS[2 + place % 5], "marker": "^", "ls": "--"}
                label = f"learnt: {part.attrs['label']}, {self.steps} steps"
                draw_means(left, part.error, "dim", look | {"label": label})
            dims = np.array(sorted({*self.dims, *self.learned_dims}))
            held = [scaling.capacity(int(d), M) for d in dims]
            tail = [(1 - 1 / M) * p[int(P) :].sum() for P in held]
            shown = np.array(tail) > 0
            left.plot(
                dims[shown],
                np.array(tail)[shown],
                "k:",
                lw=1,
                label="as many first tokens as some $W$ holds",
            )
            left.set(
                xlabel="dimension $d$", ylabel="error", title=f"$p(x) \\propto x^{{-{a:g}}}$ known"
            )
            part = data["samples"]
            for i, scheme in enumerate(SCHEMES):
                for j, d in enumerate(part.dim.values):
                    look = {
                        "color": COLOURS[i],
                        "marker": "os"[i],
                        "ls": ["-", "--", "-.", ":"][j % 4],
                    }
                    errors = part.error.sel(scheme=scheme, dim=d)
                    draw_means(right, errors, "samples", look | {"label": f"{scheme}, $d$ = {d}"})
            T = np.geomspace(min(self.samples), max(self.samples), 50)
            right.plot(
                T, (1 - 1 / M) * scaling.unseen_mass(p, T), "k:", lw=1, label="not seen, exact"
            )
            draw_means(
                right,
                part.unseen,
                "samples",
                {"color": "k", "marker": "x", "ls": "", "label": "not seen"},
            )
            right.set(xlabel="samples $T$", title="filled from $T$ samples")
            for axes in (left, right):
                axes.set(xscale="log", yscale="log")
                axes.set_ylim(
                    top=10 ** (np.log10(axes.get_ylim()).dot([-0.5, 1.5]))
                )  # room for words
                axes.legend(fontsize=6, loc="upper right")
        return figure


def slope_of(errors: xr.DataArray, axis: str) -> tuple[float, float, float]:
    """The exponent of mean errors along an axis, by least squares; 95 % by bootstrap over draws."""
    table = errors.transpose("draw", axis).values
    picks = np.random.default_rng(0).integers(0, len(table), (_RESAMPLES, len(table)))
    x = np.log(errors[axis].values)
    x = x - x.mean()
    slope = lambda means: np.log(means) @ x / (x @ x)
    with np.errstate(
        divide="ignore", invalid="ignore"
    ):  # where some mean is zero, no slope is known
        ours, others = slope(table.mean(0)), slope(table[picks].mean(1))
    low, high = np.quantile(others, (0.025, 0.975))
    return float(ours), float(low), float(high)
