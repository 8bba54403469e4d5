"""How many tokens random memories hold: the best W, learnt ones, networks, and lists of the strongest."""

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from engram._checks import InputError
from engram.plotting import COLOURS, WIDE, new_figure, style
from engram.studies._held import (
    best_numbers,
    cost_of,
    law,
    learnt_numbers,
    middle,
    n_log_n,
    over,
    slope_of,
)
from engram.studies._study import AbstractStudy, Row
from engram.studies._work import Work
from engram.theory import scaling

KINDS = {
    "best": "best $W$, all tokens",
    "linear": "learnt $W$",
    "network": "learnt network",
    "list": "learnt $W$, on a list",
}
_AT_256, _DIGITS = (
    1.3,
    0.05,
)  # d^2 / (N log N) at 99 %, as published; what its second digit leaves open


@dataclasses.dataclass(frozen=True)
class Capacity(AbstractStudy):
    """Capacity: parameters against N log N, by bisection, for linear memories, networks and lists."""

    best_dims: list[int] = dataclasses.field(default_factory=lambda: [6, 8, 11, 16])
    dims: list[int] = dataclasses.field(default_factory=lambda: [8, 16, 32, 64])
    list_dims: list[int] = dataclasses.field(default_factory=lambda: [8, 16, 32])
    networks: list[list[int]] = dataclasses.field(
        default_factory=lambda: [[8, 8], [8, 16], [16, 16], [16, 32]]
    )
    shares: list[float] = dataclasses.field(default_factory=lambda: [0.1])
    accuracy: float = 0.99
    activation: str = "relu"
    optimizer: Any = "adam"
    learning_rate: float = 0.3
    network_rate: float = 0.1
    steps: int = 400
    best_draws: int = 40
    draws: int = 6
    embeddings: str = "sphere"
    seed: int = 0

    title: ClassVar[str] = "How many tokens a memory of given size holds"
    question: ClassVar[str] = (
        "How many tokens with a class each does a memory of a given number of parameters recall: the best "
        "matrix, one that is learnt, a network with a hidden layer? And how many if the class need only be "
        "on a list of the strongest?"
    )
    known: ClassVar[tuple[str, ...]] = (
        "Linear memories of d^2 and networks of 2 m d parameters store a number of tokens that is linear in "
        "them, up to logarithms (Nichani, Lee and Bietti, arXiv 2412.06538). At 99 % accuracy: d^2 about "
        "1.3 N log N, measured for d up to 256.",
        "The best W: d^2 -> 2 N log N, by statistical physics (arXiv 2605.10795) and as the limit of short "
        "lists (arXiv 2605.05189); by our law of cones d^2 = N delta(N), with the same limit.",
        "Listwise retrieval asks that the class be among the strongest, as the tail-average margin certifies: "
        "d^2 is of the order of N, without a logarithm (arXiv 2605.05189).",
    )
    open: ClassVar[tuple[str, ...]] = (
        "The constant of networks, of any width, and what training loses of it.",
        "A proof of the constants: 2 for the largest score, (1 + t^2) Phi(t) + t phi(t) for lists.",
    )
    minutes: ClassVar[float] = 4
    tiny: ClassVar[Mapping[str, Any]] = {
        "best_dims": [3, 4], "dims": [4], "list_dims": [4], "networks": [[4, 4]], "shares": [0.25], "steps": 30, "best_draws": 8,
        "draws": 2,
    }  # fmt: skip

    def __post_init__(self) -> None:
        for sizes in self.networks:
            if len(sizes) != 2 or min(sizes) < 1:
                raise InputError(
                    f"`networks` must be pairs of a dimension and a width, got {sizes}. Write [[8, 16]]."
                )

    def compute(self, work: Work) -> dict[str, xr.Dataset]:
        parts: dict[str, xr.Dataset] = {}
        for d in sorted(self.best_dims):
            parts[f"best_{d}"] = work.keep(
                f"best_{d}", best_numbers, dim=d, draws=self.best_draws, key=self.seed,
                embeddings=self.embeddings,
            )  # fmt: skip
        shared = {
            "optimizer": self.optimizer, "steps": self.steps, "draws": self.draws, "key": self.seed,
            "embeddings": self.embeddings,
        }  # fmt: skip
        linear = shared | {"learning_rate": self.learning_rate}
        for d in sorted(self.dims):
            name = f"linear_{d}"
            parts[name] = work.keep(name, learnt_numbers, dim=d, accuracy=self.accuracy, **linear)
        for d, share in itertools.product(sorted(self.list_dims), self.shares):
            name = f"list_{d}_{share:g}"
            parts[name] = work.keep(
                name, learnt_numbers, dim=d, share=share, accuracy=1.0, **linear
            )
        for d, m in self.networks:
            name = f"network_{d}x{m}"
            parts[name] = work.keep(
                name, learnt_numbers, dim=d, width=m, activation=self.activation,
                accuracy=self.accuracy, learning_rate=self.network_rate, **shared,
            )  # fmt: skip
        return parts

    def compare(self, data: Mapping[str, xr.Dataset]) -> list[Row]:
        rows = []
        for part in _sorted(data):
            kind, what = part.attrs["kind"], part.attrs["label"]
            if kind == "list":
                cost = scaling.list_parameters(part.attrs["share"])
                # On a list of k the others' scores can give way as well: the first term in 1/k.
                k = part.attrs["share"] * middle(part)
                rows.append(
                    Row(f"parameters over N, {what}", *over(part, lambda N: N), cost, cost / (k + 1),
                        "law of cones, many classes; limit of arXiv 2605.05189")
                )  # fmt: skip
                continue
            known: dict[str, Any] = {"source": "2 in the limit of large d, arXiv 2605.10795"}
            if kind == "linear" and self.accuracy == 0.99:
                known = {"source": "1.3 was measured for d up to 256, arXiv 2412.06538"}
            elif kind != "best":
                known = {}
            rows.append(Row(f"parameters over N log N, {what}", *over(part, n_log_n), **known))
            if kind == "best":
                ours = over(part, lambda N: N * cost_of(N))
                rows.append(
                    Row(f"parameters over N delta(N), {what}", *ours, source="1 in the limit")
                )
        linear = [part for part in _sorted(data) if part.attrs["kind"] == "linear"]
        if linear and self.accuracy == 0.99:
            # The cost grows with d; the law says how much.
            grows = law(256) / law(linear[-1].attrs["dim"])
            cost, low, high = (grows * number for number in over(linear[-1], n_log_n))
            what = "parameters over N log N, learnt W, 99%, carried to d = 256 by the law"
            source = "two digits, arXiv 2412.06538"
            # From small d it is too far to carry.
            published = _AT_256 if linear[-1].attrs["dim"] >= 32 else None
            rows.append(Row(what, cost, low, high, published, _DIGITS, source))
        return rows

    def findings(self, data: Mapping[str, xr.Dataset]) -> list[str]:
        says = []
        for kind, words in KINDS.items():
            parts = [part for part in _sorted(data) if part.attrs["kind"] == kind]
            if not parts:
                continue
            plain = words.replace("$", "")
            numbers = "; ".join(
                f"{int(part.parameters)} parameters hold {middle(part):.1f}" for part in parts
            )
            says.append(f"{plain}: {numbers}.")
            shares, sizes = (
                {f(part) for part in parts} for f in (_share, lambda p: int(p.parameters))
            )
            if len(sizes) > 1 and len(shares) == 1:
                slope, low, high = slope_of(parts)
                says.append(
                    f"{plain}: N grows like parameters^{slope:.2f} ({low:.2f}, {high:.2f})."
                )
            if any(np.isnan(part.stored).any() for part in parts):
                says.append(
                    f"{plain}: where some draw recalls more than was tried, no number is known."
                )
        return says

    def draw(self, data: Mapping[str, xr.Dataset]) -> Figure:
        with style():
            figure = new_figure(WIDE, 3.1)
            left, right = figure.subplots(1, 2)
            for place, (kind, words) in enumerate(KINDS.items()):
                parts = [part for part in data.values() if part.attrs["kind"] == kind]
                look = {"fmt": "osD^"[place], "color": COLOURS[place], "ms": 4, "capsize": 2}
                P = np.array([int(part.parameters) for part in parts])
                per_token = np.array([over(part, lambda N: N) for part in parts]).reshape(-1, 3)
                held = P / per_token.T[[0, 2, 1]]
                costs = np.array([over(part, n_log_n) for part in parts]).reshape(-1, 3).T
                for axes, (mean, low, high) in ((left, held), (right, costs)):
                    axes.errorbar(P, mean, [mean - low, high - mean], label=words, **look)
            sizes = np.array(sorted({int(part.parameters) for part in data.values()}))
            dims = np.unique(np.sqrt(np.geomspace(sizes[0], sizes[-1], 20)).round().astype(int))
            held = np.array([scaling.capacity(int(d)) for d in dims])
            left.plot(dims**2, held, "k-", lw=1, label=r"$d^2 = N\,\delta(N)$, best $W$")
            for share in self.shares:
                cost = scaling.list_parameters(share)
                label = f"$d^2 = {cost:.2f}\\,N$, lists of ${share:g} N$"
                left.plot(dims**2, dims**2 / cost, "k--", lw=1, label=label)
            right.plot(dims**2, dims**2 / n_log_n(held), "k-", lw=1)
            right.axhline(2, color="k", lw=1, ls=":", label="limit of the best $W$")
            right.axhline(1.3, color="0.5", lw=1, ls="-.", label="99 %, $d$ up to 256")
            left.set(yscale="log", ylabel="tokens $N$", title="tokens held")
            right.set(ylabel=r"parameters / $N \log N$", title="what a token costs", ylim=(0, None))
            for axes in (left, right):
                axes.set(xscale="log", xlabel="parameters")
                axes.legend(fontsize=6)
        return figure


def _sorted(data: Mapping[str, xr.Dataset]) -> list[xr.Dataset]:
    """The parts by kind and size."""
    place = lambda part: (list(KINDS).index(part.attrs["kind"]), int(part.parameters))
    return sorted(data.values(), key=place)


def _share(part: xr.Dataset) -> float | None:
    return part.attrs.get("share")
