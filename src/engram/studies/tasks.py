"""Tasks in turn, and what each departure from the paper's model changes about its phenomena."""

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from engram import plotting
from engram.registry import find
from engram.studies._intervals import mean_row
from engram.studies._rows import check_rows
from engram.studies._study import AbstractStudy, Row
from engram.studies._tasks import blame, conserved, measured, pair_threshold, two_tasks
from engram.studies._work import Work
from engram.theory.tasks import forgetting_correlation

_KEYS = ("label", "system", "dynamics", "rate_factor", "start_scale", "label_noise")
_FIGURE_2 = {"family": "two", "correlation": 0.95, "p1": 0.75}
_HEADS = {
    "perfect_from": "perfect from", "last_rise": "last rise", "num_spikes": "spikes",
    "highest_rise": "rise, times", "forgotten": "forgotten", "least_margin": "least margin", "norm": "norm",
}  # fmt: skip


def usual(name: str) -> Any:
    """A setting as the registry has it."""
    return copy.deepcopy(find("study", "tasks").fields[name].default)


@dataclasses.dataclass(frozen=True)
class Tasks(AbstractStudy):
    """Forgetting from task to task, replay, and a table of systems, optimizers and data."""

    durations: list[float] = dataclasses.field(default_factory=lambda: usual("durations"))
    tokens: int = 16
    classes: int = 4
    dims: list[int] = dataclasses.field(default_factory=lambda: usual("dims"))
    shares: list[float] = dataclasses.field(default_factory=lambda: usual("shares"))
    replay_dim: int = 32
    learning_rate: float = 2.0
    stage_steps: int = 500
    seeds: int = 6
    ledgers: int = 4
    imbalances: list[float] = dataclasses.field(default_factory=lambda: usual("imbalances"))
    problem: dict[str, Any] = dataclasses.field(default_factory=lambda: usual("problem"))
    rates: list[float] = dataclasses.field(default_factory=lambda: usual("rates"))
    steps: int = 1000
    systems: list[Any] = dataclasses.field(default_factory=lambda: usual("systems"))

    title: ClassVar[str] = "Tasks in turn, and the list of what the paper leaves open"
    question: ClassVar[str] = (
        "How much of a first task does a second one erase, by the overlap of embeddings, and how much replay saves "
        "it? And what do factors, layer norm, noisy labels, learnt embeddings, decay, biases, a temperature, a hidden "
        "layer and Adam each change about spikes, oscillations and forgetting?"
    )
    known: ClassVar[tuple[str, ...]] = (
        "Figure 2 of the paper: two tokens of correlation 0.95 spike at learning rate 10, up to a loss of 1.3487, and "
        "are recalled for good from step 15; at rate 1 there is no spike.",
        "The paper's discussion names factorised parameterisations, normalisation, adaptive optimizers, noisy data "
        "and interactions of layers as what may change this.",
        "Flow keeps A^T A - B^T B of a product W = A B^T.",
    )
    open: ClassVar[tuple[str, ...]] = (
        "A law for the fraction forgotten with many tokens, and for the share of replay that prevents it.",
        "Whether what one problem of two tokens shows of a system holds for many tokens.",
    )
    minutes: ClassVar[float] = 3
    optional: ClassVar[tuple[str, ...]] = ("imbalances",)
    tiny: ClassVar[Mapping[str, Any]] = {
        "durations": [10.0], "tokens": 3, "classes": 2, "dims": [4], "shares": [0.0, 0.1], "replay_dim": 4, "stage_steps": 60,
        "seeds": 2, "ledgers": 0, "imbalances": [], "rates": [10.0], "steps": 100,
        "systems": [{"label": "W"}, {"label": "noisy labels", "label_noise": 0.1}],
    }  # fmt: skip

    def compute(self, work: Work) -> dict[str, xr.Dataset]:
        check_rows("systems", self.systems, _KEYS)
        rate, steps = self.learning_rate, self.stage_steps
        sizes = {"tokens": self.tokens, "classes": self.classes, "rate": rate, "steps": steps}
        alone = {"dims": list(self.dims), "shares": [0.0], "seeds": self.seeds}
        replay = {"dims": [self.replay_dim], "shares": list(self.shares), "seeds": self.seeds}
        data = {
            "pair": work.keep("pair", pair_threshold, durations=list(self.durations)),
            "dims": work.keep("dims", two_tasks, **sizes, **alone),
            "replay": work.keep("replay", two_tasks, **sizes, **replay),
            "blame": work.keep("blame", blame, **sizes, dim=self.replay_dim, seeds=self.ledgers),
        }
        if self.imbalances:
            data["factors"] = work.keep(
                "factors", conserved, imbalances=list(self.imbalances), rank=3, end=30.0
            )
        asked = {"problem": dict(self.problem), "rates": list(self.rates)}
        for k, row in enumerate(self.systems):
            data[f"system_{k:02d}"] = work.keep(
                f"system_{k:02d}", measured, row=row, steps=self.steps, seeds=self.seeds, **asked
            )
        return data

    def compare(self, data: Mapping[str, xr.Dataset]) -> list[Row]:
        rows = []
        for duration, part in data["pair"].groupby("duration"):
            ours, off = float(part.correlation.item()), float(part.off.item())
            known = forgetting_correlation(float(duration))
            name = f"correlation from which B erases A, two tokens, tasks of time {duration:g}"
            rows.append(
                Row(name, ours, ours - off, ours + off, known, source="theory.tasks, derived")
            )
        apart = float(data["blame"].orthonormal)
        rows.append(Row("fraction forgotten, orthonormal tokens", apart, reference=0.0, source="no interaction"))  # fmt: skip
        for part in (data["dims"], data["replay"]):
            for d in part.dim.values:
                for share in part.share.values:
                    name = f"fraction forgotten, d = {d}" + (f", replay {share:g}" if share else "")
                    if part is data["dims"] or share:
                        rows.append(mean_row(name, part.forgotten.sel(dim=d, share=share).values))
        if "factors" in data:
            worst, source = (
                float(data["factors"].drift.max()),
                "conserved; error: the solver's tolerance",
            )
            rows.append(Row("drift of A^T A - B^T B under flow", worst, reference=0.0, error=1e-9, source=source))  # fmt: skip
        return rows + self._figure_2(data)

    def _figure_2(self, data: Mapping[str, xr.Dataset]) -> list[Row]:
        """The paper's own spike, where the table has it."""
        plain = [part for _, part in _systems(data) if part.attrs["is_plain"]]
        if self.problem != _FIGURE_2 or 10.0 not in self.rates or not plain or self.steps < 35:
            return []
        one = plain[0].sel(rate=10.0).isel(seed=0)
        source = "Figure 2, the authors' code"
        return [
            Row("W at rate 10: largest loss", float(one.max_loss), reference=1.348664, error=5e-7, source=source),
            Row("W at rate 10: recalled for good from step", float(one.perfect_from), reference=15.0, source=source),
        ]  # fmt: skip

    def findings(self, data: Mapping[str, xr.Dataset]) -> list[str]:
        lost, dims = (
            data["dims"].forgotten.isel(share=0).mean("seed").values,
            data["dims"].dim.values,
        )
        said = [
            f"Of {self.tokens} tokens of A that were recalled, B erases {lost[0]:.0%} at d = {dims[0]} and "
            f"{lost[-1]:.0%} at d = {dims[-1]}, where overlaps are about {1 / np.sqrt(dims[-1]):.2f}."
        ]
        culprits = data["blame"]
        if float(culprits.lost.sum()):
            share = float(culprits.by_other.sum() / culprits.lost.sum())
            said.append(
                f"In the ledger {share:.0%} of what is forgotten of A during B was pushed out by a token of B."
            )
        replay = data["replay"]
        kept = replay.forgotten.isel(dim=0).max("seed").values
        enough = [
            float(s) for s, worst in zip(replay.share.values, kept, strict=True) if worst == 0
        ]
        said.append(
            f"At d = {int(replay.dim[0])} the least share of replay that kept all of A in every draw is "
            + (
                f"{enough[0]:g}."
                if enough
                else f"above {float(replay.share.max()):g}: none kept it all."
            )
        )
        for name, part in _systems(data):
            for rate in part.rate.values:
                said.append(f"{name}, rate {rate:g}: {_sentence(part.sel(rate=rate))}.")
        return said

    def draw(self, data: Mapping[str, xr.Dataset]) -> Figure:
        with plotting.style():
            figure = Figure(figsize=(13, 5.4), layout="constrained")
            one, two, three = figure.subplots(1, 3, width_ratios=(3, 3, 8))
            _draw_forgotten(one, data["dims"], "dim", "dimension d", "Task B erases task A")
            _draw_forgotten(
                two,
                data["replay"],
                "share",
                "share of A in task B",
                f"Replay, d = {int(data['replay'].dim[0])}",
            )
            _draw_table(three, data)
        return figure


def _systems(data: Mapping[str, xr.Dataset]) -> Iterator[tuple[str, xr.Dataset]]:
    for name, part in data.items():
        if name.startswith("system_"):
            yield part.attrs["label"], part


def _median(values: xr.DataArray) -> str:
    """The median over draws; how many reached it, if not all did; a dash if none."""
    known = values.values[np.isfinite(values.values)]
    if not len(known):
        return "–"
    text = f"{np.median(known):.3g}"
    return text if len(known) == values.size else f"{text} ({len(known)} of {values.size})"


def _sentence(part: xr.Dataset) -> str:
    if bool(part.diverged.all()):
        return "diverges"
    words = [f"{what} {_median(part[name])}" for name, what in _HEADS.items()]
    lost = int(part.diverged.sum())
    return ", ".join(words) + (f"; {lost} of {part.diverged.size} diverge" if lost else "")


def _draw_forgotten(axes: Axes, part: xr.Dataset, axis: str, label: str, title: str) -> None:
    other = "share" if axis == "dim" else "dim"
    lost = part.forgotten.isel({other: 0})
    x = np.arange(lost.sizes[axis])
    axes.plot(x, lost.mean("seed").values, color=plotting.COLOURS[0])
    axes.plot(
        x, lost.transpose(axis, "seed").values, ".", color=plotting.COLOURS[0], ms=4, alpha=0.6
    )
    axes.set_xticks(x, [f"{value:g}" for value in lost[axis].values])
    axes.set(xlabel=label, ylabel="fraction of A forgotten", ylim=(-0.03, 1), title=title)


def _draw_table(axes: Axes, data: Mapping[str, xr.Dataset]) -> None:
    """One line per system and rate; darker where the loss spikes higher."""
    axes.axis("off")
    lines, colours = [], []
    for name, part in _systems(data):
        for rate in part.rate.values:
            one = part.sel(rate=rate)
            gone = bool(one.diverged.all())
            numbers = [
                "diverges" if gone and head == "perfect_from" else _median(one[head])
                for head in _HEADS
            ]
            lines.append([name if rate == part.rate.values[0] else "", f"{rate:g}", *numbers])
            spikes = 0.0 if gone else float(np.nan_to_num(np.nanmedian(one.num_spikes)))
            colours.append(
                ["#FFFFFF"] * 2 + [plotting.ACCURACY(min(spikes, 8) / 12)] * len(numbers)
            )
    heads = ["", "rate", *_HEADS.values()]
    table = axes.table(lines, cellColours=colours, colLabels=heads, cellLoc="center", bbox=Bbox.from_bounds(0, 0, 1, 1),
                       colWidths=[0.25, 0.05, *[0.1] * len(_HEADS)])  # fmt: skip
    table.auto_set_font_size(False)
    table.set_fontsize(6.5)
    for cell in table.get_celld().values():
        cell.set_linewidth(0.2)
    axes.set_title("Medians over draws at two rates; bluer: more spikes")
