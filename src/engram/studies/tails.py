"""Heavy tails: which optimizer learns rare tokens, and when."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import xarray as xr
from matplotlib import colormaps
from matplotlib.figure import Figure

from engram import plotting
from engram._checks import InputError
from engram.studies._optimizers import needs_rate, optimizer_tables
from engram.studies._study import AbstractStudy, Row
from engram.studies._tail_runs import (
    LEARNT,
    effective_ranks,
    group_losses,
    in_canonical_basis,
    learning_steps,
    race,
)
from engram.studies._work import Work

_RATES = {"logspace": [-5, 5, 61]}


@dataclasses.dataclass(frozen=True)
class Tails(AbstractStudy):
    """A race of optimizers on Zipf data, all of them as fast on the frequent tokens."""

    exponent: float = 1.0
    optimizers: list[Any] = dataclasses.field(
        default_factory=lambda: ["plain", "momentum", "adam", "sign", "muon", "exact_muon"]
    )
    family: str = "gaussian"
    num_tokens: int = 100
    dim: int = 64
    head_steps: int = 10
    steps: int = 1000
    seeds: int = 8

    title: ClassVar[str] = "Heavy tails: which optimizer learns rare tokens, and when"
    question: ClassVar[str] = (
        "Tokens have frequencies p(x) ~ x^-a, each its own class. All optimizers get the learning rate with which they learn the most "
        "frequent tenth of the tokens in the same number of steps. How much later do they learn the rarest tenth? What do the spectra of W and of the "
        "updates look like? In the canonical basis, where theory has answers: are they met?"
    )
    known: ClassVar[tuple[str, ...]] = (
        "Gradient flow with orthonormal embeddings has token losses like (M - 1)/(M p(x) t), sign descent in the canonical basis the same for all "
        "tokens, exp(-ct): the reason why Adam outruns descent on language (arXiv 2402.19449).",
        "Muon learns rare classes more evenly than Adam, with more isotropic weights (arXiv 2509.26030).",
        "Sign descent is as even as Muon only in the basis of the tasks; Muon needs no basis (arXiv 2602.05725).",
        "Exact Muon's first step with orthonormal embeddings in closed form (engram.theory.muon).",
    )
    open: ClassVar[tuple[str, ...]] = (
        "Learning rates: on data that can be stored, full batches allow descent such large steps that the tail is learnt soon, too; "
        "batches and noise forbid it. The comparison here is at equal speed on the head, not at each optimizer's best rate.",
        "How much later momentum methods learn the tail when embeddings interfere: no formula is known.",
    )
    minutes: ClassVar[float] = 2
    tiny: ClassVar[Mapping[str, Any]] = {
        "optimizers": ["plain", "sign"], "num_tokens": 10, "dim": 8, "steps": 60, "head_steps": 4, "seeds": 2,
    }  # fmt: skip

    def __post_init__(self) -> None:
        if self.head_steps > self.steps:
            raise InputError(
                f"`head_steps` must be at most `steps` = {self.steps}, got {self.head_steps}. Make the runs longer."
            )

    def compute(self, work: Work) -> dict[str, xr.Dataset]:
        runs: list[xr.Dataset] = []
        for number, (name, table) in enumerate(optimizer_tables(self.optimizers).items()):
            rate = self._find_rate(work, number, table) if needs_rate(table) else None
            run = work.keep(
                f"run_{number}", race, problem=self._problem(), table=table, rate=rate, steps=self.steps,
                seeds=self.seeds,
            )  # fmt: skip
            runs.append(run.expand_dims(optimizer=[name]))
        canonical = work.keep(
            "canonical", in_canonical_basis, num_tokens=self.num_tokens, exponent=self.exponent
        )
        return {"race": xr.concat(runs, "optimizer", combine_attrs="drop"), "canonical": canonical}

    def _problem(self) -> dict[str, Any]:
        N, has_dim = self.num_tokens, self.family in ("gaussian", "sphere")
        table = {"family": self.family, "num_tokens": N, "num_classes": N, "targets": "identity"}
        return table | {"exponent": self.exponent} | ({"dim": self.dim} if has_dim else {})

    def _find_rate(self, work: Work, number: int, table: Mapping[str, Any]) -> float:
        """The learning rate with which the most frequent tenth is learnt after `head_steps` steps."""
        spec = {
            "problem": self._problem(),
            "dynamics": {"kind": "descent", "steps": self.head_steps, **table},
            "sweep": {"observables": ["token_losses"]},
        }
        axes = {"learning_rate": _RATES, "seed": list(range(self.seeds))}
        losses = work.sweep(f"rate_{number}", spec, axes)["token_losses"].mean("seed")
        head = losses.isel(token=slice(0, -(-self.num_tokens // 10))).mean("token").values
        log_rates = np.log(losses["learning_rate"].values)
        below = np.flatnonzero(head <= LEARNT)
        if not below.size or below[0] == 0:
            raise InputError(
                f"`optimizers`: no learning rate from {np.exp(log_rates[0]):.0e} to {np.exp(log_rates[-1]):.0e} lets {table['optimizer']} learn the most frequent tenth in "
                f"`head_steps` = {self.head_steps} steps. Give its table a `learning_rate`, or change `head_steps`."
            )
        k = below[0]
        share = (head[k - 1] - LEARNT) / (head[k - 1] - head[k])
        return float(np.exp(log_rates[k - 1] + share * (log_rates[k] - log_rates[k - 1])))

    def compare(self, data: Mapping[str, xr.Dataset]) -> list[Row]:
        exact = data["canonical"]
        last = exact.isel(time=-1)
        rows = [
            Row(
                f"flow: p(x) t l(x) M/(M-1), {which} token", float(last["limit"][k]), reference=1.0,
                error=float(last["limit_error"][k]), source="arXiv 2402.19449; error of the next order",
            )
            for k, which in ((0, "most frequent"), (-1, "rarest"))
        ]  # fmt: skip
        for what, name, reference, error, source in (
            ("flow: largest error of a margin", "flow_error", 0.0, 1e-7, "closed form, engram.theory.multiclass"),
            ("sign descent: largest relative difference of token losses", "sign_spread", 0.0, 1e-12, "arXiv 2402.19449"),
            ("sign descent: smallest margin over rate times steps", "sign_gain_low", 2.0, 1e-12, "l = log(1 + (M-1) exp(-2 rate t))"),
            ("sign descent: largest margin over rate times steps", "sign_gain_high", 2.0, 1e-12, "the same"),
            ("exact Muon, a step: least margin over largest", "muon_ratio", float(exact["muon_expected"]), 1e-9, "closed form, engram.theory.muon"),
            ("the same with embeddings turned at random", "muon_turned_ratio", float(exact["muon_expected"]), 1e-9, "arXiv 2602.05725: Muon needs no basis"),
        ):  # fmt: skip
            rows.append(
                Row(what, float(exact[name]), reference=reference, error=error, source=source)
            )
        steps = learning_steps(data["race"])
        late = steps.isel(group=-1) / steps.isel(group=0)
        for name in late["optimizer"].values:
            mean, low, high = _interval(late.sel(optimizer=name).values)
            what = f"{name}: steps to learn the rarest tenth, over the most frequent one"
            rows.append(Row(what, mean, low, high))
        return rows

    def findings(self, data: Mapping[str, xr.Dataset]) -> list[str]:
        exact = data["canonical"]
        return [self._finding(data["race"], name) for name in data["race"]["optimizer"].values] + [
            "With one-hot tokens, sign descent's token losses differ by a share of "
            f"{float(exact['sign_spread']):.1g} at most. With orthonormal embeddings that are turned at random, the largest is "
            f"{float(exact['turned_ratio']):.3g} times the smallest after {int(exact['turned_steps'])} steps."
        ]

    def _finding(self, race_data: xr.Dataset, name: str) -> str:
        run = race_data.sel(optimizer=name)
        head, *_, tail = learning_steps(run).mean("seed", skipna=False).values
        late = int(np.searchsorted(run["step"].values, min(10 * self.head_steps, self.steps)))
        mass = group_losses(run.isel(step=late), by="mass").mean("seed").dropna("group")
        W = effective_ranks(run["singular_values"]).mean("seed")
        update = effective_ranks(run["update_singular_values"]).mean("seed")
        rate = float(run["learning_rate"])
        k = int(np.searchsorted(run["step"].values, self.head_steps))
        later = (
            f"at step {tail:.3g}, {tail / head:.3g} times as late"
            if np.isfinite(tail)
            else f"not within {self.steps} steps"
        )
        return (
            f"{name}{f' (learning rate {rate:.3g})' if np.isfinite(rate) else ''} learns the most frequent tenth of the tokens at step {head:.3g}, "
            f"the rarest {later}. Effective rank: {float(update[0]):.0f} of the first update, {float(W[k]):.0f} of W at step {self.head_steps}, "
            f"{float(W[-1]):.0f} at the end. Losses at step {int(run['step'][late])}: {float(mass[0]):.1g} of the most frequent tenth by mass, {float(mass[-1]):.1g} of the rarest."
        )

    def draw(self, data: Mapping[str, xr.Dataset]) -> Figure:
        runs = data["race"]
        names = list(runs["optimizer"].values)
        rows = max(-(-len(names) // 3), 2)
        with plotting.style():
            figure = plotting.new_figure(plotting.WIDE, 0.6 + 1.9 * rows)
            grid = figure.add_gridspec(2 * rows, 4, width_ratios=[1, 1, 1, 1.6])
            losses = group_losses(runs).mean("seed").isel(step=slice(1, None))
            for number, name in enumerate(names):
                row = number // 3
                axes = figure.add_subplot(grid[2 * row : 2 * row + 2, number % 3])
                for k in range(10):
                    axes.plot(
                        losses["step"], losses.sel(optimizer=name, group=k), color=_colour(k), lw=1
                    )
                axes.set(
                    xscale="log", xlim=(1, self.steps), ylim=(0, 1.1 * np.log(self.num_tokens))
                )
                axes.set_title(name)
                if number % 3 == 0:
                    axes.set_ylabel("loss of each tenth")
                if number + 3 >= len(names):
                    axes.set_xlabel("step")
            self._draw_steps(figure.add_subplot(grid[:rows, 3]), runs)
            self._draw_ranks(figure.add_subplot(grid[rows:, 3]), runs)
            return figure

    def _draw_steps(self, axes: Any, runs: xr.Dataset) -> None:
        steps = learning_steps(runs).mean("seed", skipna=False)
        names = list(steps["optimizer"].values)
        for place, name in enumerate(names):
            values = steps.sel(optimizer=name).values
            axes.scatter(values, np.full(10, place), c=[_colour(k) for k in range(10)], s=12)
            if not np.isfinite(values[-1]):
                axes.annotate("rarest: not reached", (1, place), (0, 4), xycoords=("axes fraction", "data"),
                              textcoords="offset points", fontsize=6, ha="right")  # fmt: skip
        axes.set(xscale="log", yticks=range(len(names)), ylim=(len(names) - 0.5, -0.5))
        axes.set_yticklabels(names)
        axes.set_title("step at which a tenth is learnt\nblue: most frequent, red: rarest")

    def _draw_ranks(self, axes: Any, runs: xr.Dataset) -> None:
        ranks = effective_ranks(runs["update_singular_values"]).mean("seed").isel(step=slice(1, -1))
        learnt = learning_steps(runs).mean("seed", skipna=False).isel(group=-1)
        for name, colour in zip(
            ranks["optimizer"].values, plotting.COLOURS * len(ranks), strict=False
        ):
            until = ~(
                ranks["step"] > learnt.sel(optimizer=name)
            )  # beyond, updates fade into rounding
            axes.plot(
                ranks["step"],
                ranks.sel(optimizer=name).where(until),
                color=colour,
                lw=1,
                label=name,
            )
        axes.set(xscale="log", xlim=(1, self.steps), ylim=(0, None), xlabel="step")
        axes.set_title("effective rank of the updates\nuntil the rarest is learnt")
        axes.legend(loc="lower right", fontsize=6, handlelength=1.2, labelspacing=0.2)


def _interval(values: np.ndarray) -> tuple[float, float, float]:
    """The mean over seeds, and its 95 % interval by Student's t; NaN if any is."""
    from scipy.stats import t

    n, mean = len(values), float(values.mean())
    half = t.ppf(0.975, n - 1) * values.std(ddof=1) / np.sqrt(n) if n > 1 else np.nan
    return mean, mean - half, mean + half


def _colour(group: int) -> Any:
    return colormaps["coolwarm"](group / 9)
