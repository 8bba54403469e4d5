"""Factual recall: what is learnt first, the relation or the fact, and how many facts parameters hold."""

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from engram import plotting
from engram.registry import find
from engram.studies._intervals import mean_row, slope_of
from engram.studies._recall import escapes, learnt, matrix_holds, network_holds
from engram.studies._rows import check_rows
from engram.studies._study import AbstractStudy, Row
from engram.studies._work import Work

_HELD = {"matrix": "W, all facts recalled", "network": "a network, 99 % recalled"}


def usual(name: str) -> list[Any]:
    """A list of settings as the registry has it."""
    return copy.deepcopy(find("study", "facts").fields[name].default)


@dataclasses.dataclass(frozen=True)
class Facts(AbstractStudy):
    """Facts of subjects and relations: order of learning, plateau, and facts per parameter."""

    subjects: int = 16
    relations: int = 4
    answers: int = 8
    seeds: int = 4
    models: list[Any] = dataclasses.field(default_factory=lambda: usual("models"))
    start_sizes: list[float] = dataclasses.field(default_factory=lambda: usual("start_sizes"))
    dims: list[int] = dataclasses.field(default_factory=lambda: usual("dims"))
    widths: list[int] = dataclasses.field(default_factory=lambda: usual("widths"))
    width_dim: int = 16
    draws: int = 6

    title: ClassVar[str] = "Factual recall: the relation before the fact"
    question: ClassVar[str] = (
        "A subject and a relation ask for an answer, which is one of a few for each relation. Is the set of answers "
        "learnt before the answer, with a loss that stays at the entropy of the answer given the relation? How long, "
        "for which systems and optimizers? And how many facts does a parameter hold?"
    )
    known: ClassVar[tuple[str, ...]] = (
        "Linear attention from a small start learns one after the other under gradient flow: between, it answers by "
        "the relation alone (Nichani, Lee and Bietti, arXiv 2412.06538; 16 subjects, 4 relations of 8 answers).",
        "Associative memories and transformers can hold a number of facts that is linear in the number of their "
        "parameters, up to logarithms (the same).",
    )
    open: ClassVar[tuple[str, ...]] = (
        "The order under Adam, of which the theorem does not speak, with fresh noise in every batch, and for deeper models.",
        "Which constant W tends to, in parameters per fact, as d grows at fixed relations and answers.",
    )
    minutes: ClassVar[float] = 3
    optional: ClassVar[tuple[str, ...]] = ("start_sizes", "dims", "widths")
    tiny: ClassVar[Mapping[str, Any]] = {
        "subjects": 4, "relations": 2, "answers": 2, "seeds": 2, "start_sizes": [1e-2, 1e-3], "dims": [3, 4],
        "widths": [], "draws": 2,
        "models": [{"label": "W", "system": {"kind": "memory"}, "dynamics": {"kind": "gd", "learning_rate": 1.0, "steps": 100}}],
    }  # fmt: skip

    def compute(self, work: Work) -> dict[str, xr.Dataset]:
        check_rows("models", self.models, ("label", "system", "dynamics"), needed=("dynamics",))
        sizes = {"subjects": self.subjects, "relations": self.relations, "answers": self.answers}
        data = {
            f"model_{k:02d}": work.keep(
                f"model_{k:02d}", learnt, model=model, seeds=self.seeds, **sizes
            )
            for k, model in enumerate(self.models)
        }
        if self.start_sizes:
            starts = {"start_sizes": list(self.start_sizes)}
            data["starts"] = work.keep("starts", escapes, **starts, **sizes)
        held = {"relations": self.relations, "answers": self.answers, "draws": self.draws}
        if self.dims:
            data["matrix"] = work.keep("matrix", matrix_holds, dims=list(self.dims), **held)
        if self.widths:
            widths = {"widths": list(self.widths), "dim": self.width_dim}
            data["network"] = work.keep("network", network_holds, **widths, **held)
        return data

    def compare(self, data: Mapping[str, xr.Dataset]) -> list[Row]:
        D, rows = self.answers, []
        for name, part in _models(data):
            for which in ("relation", "fact"):
                rows.append(mean_row(f"steps to the {which}, {name}", part[f"{which}_step"].values))
            # Log D lies between the answer's loss within its relation and the whole loss, where there is a plateau.
            at, within = part.plateau.values, part.plateau_within.values
            if np.isfinite(at).all():
                known = float(np.log(D)) if self.subjects % D == 0 else None
                rows.append(
                    Row(f"loss at the plateau, {name}", float(at.mean()), float(within.min()), float(at.max()), known, source="log D")
                )  # fmt: skip
        if "starts" in data:
            rows += _start_rows(data["starts"])
        for name, words in _HELD.items():
            if name in data:
                rows += _held_rows(words, data[name])
        return rows

    def findings(self, data: Mapping[str, xr.Dataset]) -> list[str]:
        said = []
        for name, part in _models(data):
            first, second = (float(part[f"{which}_step"].mean()) for which in ("relation", "fact"))
            if not np.isfinite(first + second):
                said.append(f"{name}: not learnt to half of the loss within the steps.")
                continue
            order = "the relation first" if first < second else "the fact within a relation first"
            text = f"{name}: {order}; the relation after {first:.0f} steps, the fact after {second:.0f}"
            level = float(part.plateau.mean())
            stays = (
                f", with a plateau at {level:.3f} (log D = {np.log(self.answers):.3f})."
                if np.isfinite(level)
                else ", without a plateau between."
            )
            said.append(text + stays)
        if "starts" in data:
            starts = data["starts"]
            ratio = (starts.fact_step / starts.relation_step).values
            limit = float(starts.fact_known / starts.relation_known)
            said.append(
                f"From starts of {starts.start_size.values[0]:g} to {starts.start_size.values[-1]:g} the fact takes "
                f"{ratio[0]:.2f} to {ratio[-1]:.2f} times as long as the relation; the limit is {limit:.2f}. For balanced facts and "
                "small rates it is (S/R) sqrt((R - 1)/(D - 1)): with few subjects, or many answers, the fact comes first."
            )
        for name, words in _HELD.items():
            if name in data:
                costs = (data[name].parameters / data[name].held.mean("draw")).values
                said.append(
                    f"{words}: {costs[0]:.2f} parameters per fact at the smallest size, {costs[-1]:.2f} at the largest."
                )
        return said

    def draw(self, data: Mapping[str, xr.Dataset]) -> Figure:
        with plotting.style():
            figure = Figure(figsize=(13, 4), layout="constrained")
            left, middle, right = figure.subplots(1, 3, width_ratios=(5, 4, 4))
            _draw_losses(left, data, self.answers)
            if "starts" in data:
                _draw_starts(middle, data["starts"])
            _draw_held(right, data)
        return figure


def _models(data: Mapping[str, xr.Dataset]) -> Iterator[tuple[str, xr.Dataset]]:
    for name, part in data.items():
        if name.startswith("model_"):
            yield part.attrs["label"], part


def _start_rows(starts: xr.Dataset) -> list[Row]:
    """How much longer small starts take, beside what their rates of growth say."""
    rows, sizes = [], np.log(starts.start_size.values)
    # Times are read off to one recorded step.
    error = float(np.diff(starts.step.values)[0] / np.ptp(sizes)) if len(sizes) > 1 else np.nan
    for which in ("relation", "fact"):
        ours = slope_of(-sizes, starts[f"{which}_step"])
        known = float(starts[f"{which}_known"]) if len(sizes) > 1 else None
        what = f"steps to the {which} per factor e of a smaller start"
        rows.append(Row(what, *ours, known, error, "1 / log(1 + eta lambda), derived"))
    return rows


def _held_rows(name: str, part: xr.Dataset) -> list[Row]:
    """How the number of facts grows with parameters, beside the law that is linear but for a logarithm."""
    ours = slope_of(np.log(part.parameters), np.log(part.held.mean("draw")))
    # One power of a logarithm of N moves an exponent by 1 / log N.
    error = 1 / float(np.log(part.held).mean())
    known = 1.0 if part.sizes["size"] > 2 else None
    source = "linear up to a logarithm, arXiv 2412.06538"
    costs = (part.parameters / part.held).values[-1]
    return [
        Row(f"exponent of facts in parameters, {name}", *ours, known, error, source),
        mean_row(f"parameters per fact, {name}, at the largest size", costs),
    ]


def _draw_losses(axes: Axes, data: Mapping[str, xr.Dataset], answers: int) -> None:
    for (name, part), colour in zip(_models(data), plotting.COLOURS, strict=False):
        for seed in part.seed:
            one = part.sel(seed=seed)
            axes.plot(
                one.step.values,
                one.loss.values,
                color=colour,
                lw=1,
                label=name if seed == 0 else None,
            )
    axes.axhline(np.log(answers), color="k", ls=":", lw=1)
    axes.text(0.02, np.log(answers), "log D", transform=axes.get_yaxis_transform(), va="bottom")
    axes.set(
        xscale="log", xlabel="step", ylabel="loss", title="The relation is learnt first, or not"
    )
    axes.set_xlim(left=1)
    axes.legend(loc="lower left")


def _draw_starts(axes: Axes, starts: xr.Dataset) -> None:
    x = -np.log(starts.start_size.values)
    for which, colour in zip(("relation", "fact"), plotting.COLOURS, strict=False):
        y, known = starts[f"{which}_step"].values, float(starts[f"{which}_known"])
        axes.plot(x, y, "o", color=colour, label=which)
        axes.plot(x, y[-1] + known * (x - x[-1]), color=colour, lw=1)
    axes.set(xlabel=r"$\log 1/\alpha$, smaller starts", ylabel="steps")
    axes.set_title("Linear attention; lines: predicted slope")
    axes.legend()


def _draw_held(axes: Axes, data: Mapping[str, xr.Dataset]) -> None:
    for (name, label), colour in zip(_HELD.items(), plotting.COLOURS[2:], strict=False):
        if name not in data:
            continue
        part = data[name]
        axes.plot(
            part.parameters.values, part.held.mean("draw").values, color=colour, lw=1, label=label
        )
        axes.plot(part.parameters.values, part.held.values, ".", color=colour, ms=4)
    reach = np.array(axes.get_xlim())
    axes.plot(reach, reach / 2, ":k", lw=1, label="1 fact per 2 parameters")
    axes.set(xscale="log", yscale="log", xlabel="parameters", ylabel="facts recalled")
    axes.set_title("Facts held")
    axes.legend()
