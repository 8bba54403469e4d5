"""AbstractStudy: a question and its settings; Row: a number of ours beside one that is known."""

import abc
import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar

import xarray as xr
from matplotlib.figure import Figure

from engram.registry import read_off
from engram.studies._work import Work


@dataclasses.dataclass(frozen=True)
class Row:
    """A number of ours, with its interval, beside one that is published or follows from theory.

    Args:
        quantity: What is compared.
        ours: Our value.
        low: Lower end of our 95 % interval; by default our value is exact.
        high: Upper end.
        reference: The known value. None if there is none for these settings.
        error: How far the known value itself may be off, as it is published or derived.
        source: Where it is from.
    """

    quantity: str
    ours: float
    low: float | None = None
    high: float | None = None
    reference: float | None = None
    error: float = 0.0
    source: str = ""

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of our value."""
        low = self.ours if self.low is None else self.low
        high = self.ours if self.high is None else self.high
        return float(low), float(high)

    @property
    def is_met(self) -> bool | None:
        """Whether our interval and that of the reference overlap; None without a reference."""
        if self.reference is None:
            return None
        low, high = self.interval
        is_known = math.isfinite(self.ours) and low <= high
        near = low <= self.reference + self.error and high >= self.reference - self.error
        return bool(is_known and near)  # whatever kind of number each of them is


class AbstractStudy(abc.ABC):
    """A question that can be asked again with other settings.

    A subclass is a frozen dataclass: its fields are the settings, all with defaults, and its class variables
    are the words of its page. `@register("study", "mine")` gives it a name.
    """

    title: ClassVar[str] = ""
    question: ClassVar[str] = ""
    known: ClassVar[tuple[str, ...]] = ()
    open: ClassVar[tuple[str, ...]] = ()
    minutes: ClassVar[float] = 1.0  # at the defaults, on two cores
    optional: ClassVar[tuple[str, ...]] = ()  # lists that may be empty: then a part is left out
    tiny: ClassVar[Mapping[str, Any]] = {}  # settings with which all of it takes seconds

    @abc.abstractmethod
    def compute(self, work: Work) -> dict[str, xr.Dataset]:
        """All data, in named parts."""

    @abc.abstractmethod
    def compare(self, data: Mapping[str, xr.Dataset]) -> list[Row]:
        """What can be compared with known numbers at these settings, and what stands for itself."""

    @abc.abstractmethod
    def findings(self, data: Mapping[str, xr.Dataset]) -> list[str]:
        """What the numbers say, a sentence each."""

    @abc.abstractmethod
    def draw(self, data: Mapping[str, xr.Dataset]) -> Figure:
        """One picture."""

    def settings(self) -> dict[str, Any]:
        """Its name and settings, from which `engram.study` makes it again."""
        return read_off("study", self)
