"""A study of one's own: how far descent of two tokens gets in a number of steps."""

import dataclasses
from typing import Annotated, Any, ClassVar

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import engram
from engram.registry import Field, register
from engram.studies import AbstractStudy, Row


def last_losses(rates, steps, progress):
    """The last loss of each learning rate."""
    losses = []
    for index, rate in enumerate(rates):
        run = engram.simulate(engram.two_tokens(0.5, 0.75), engram.GradientDescent(rate, steps))
        losses.append(float(run.loss[-1]))
        progress(index + 1, len(rates))
    return xr.Dataset({"last": ("rate", losses)}, {"rate": list(rates)})


def square(number):
    return number**2


@register("study", "own")
@dataclasses.dataclass(frozen=True)
class Own(AbstractStudy):
    """How far descent gets."""

    rates: Annotated[list[float], Field(help="Learning rates.", bounds=(0, None))] = dataclasses.field(
        default_factory=lambda: [1.0, 2.0]
    )  # fmt: skip
    steps: Annotated[int, Field(help="Steps of each run.", bounds=(1, 1000))] = 50

    title: ClassVar[str] = "How far descent gets"
    question: ClassVar[str] = "Is the loss after a number of steps smaller at a larger rate?"
    known: ClassVar[tuple[str, ...]] = ("Large steps are faster (thm:multi).",)
    open: ClassVar[tuple[str, ...]] = ("How large they may be.",)
    tiny: ClassVar[dict[str, Any]] = {"steps": 5}

    def compute(self, work):
        return {
            "losses": work.keep("losses", last_losses, rates=list(self.rates), steps=self.steps),
            "squares": work.sweep("squares", square, {"number": np.arange(3.0)}),
        }

    def compare(self, data):
        smallest = float(data["losses"].last.min())
        return [
            Row("smallest loss", smallest, 0, smallest, reference=0.0, source="the limit"),
            Row("two squared", float(data["squares"].value[2]), reference=4.0),
        ]

    def findings(self, data):
        return [f"The last loss is {float(data['losses'].last[-1]):.3g} at the largest rate."]

    def draw(self, data):
        figure = Figure()
        figure.subplots().plot(data["losses"].rate, data["losses"].last)
        return figure
