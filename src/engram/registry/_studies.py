"""The built-in studies, as literals: what each asks, and its settings."""

from typing import Any, Literal

from engram.registry._entries import Entry
from engram.registry._fields import Field


def _setting(help: str, type: Any, default: Any, **limits: Any) -> Field:
    """A setting of a study, which stays a plain number."""
    return Field(help, type=type, default=default, static=True, **limits)


_MANY = 10_000_000
_OPTIMIZERS = list[str | dict[str, Any]]
STUDIES: list[Entry] = [
    Entry(
        "study", "muon", "engram.studies.muon:Muon",
        {
            "exponents": _setting("Exponents a of the frequencies, above 1/2.", list[float], [0.75, 1.0, 1.5, 2.0], above=0.5),
            "optimizers": _setting("Optimizers: names, or tables with `optimizer`.", _OPTIMIZERS, ["exact_muon", "muon", "plain", "sign"]),
            "dims": _setting("Dimensions d; there are d^2 tokens.", list[int], [24, 32, 48, 64, 96, 128, 192, 256], bounds=(4, 1024)),
            "seeds": _setting("Number of draws of the embeddings.", int, 5, bounds=(1, 1000)),
        },
        "How many Gaussian associations one step of Muon recalls, against d.",
    ),
    Entry(
        "study", "tails", "engram.studies.tails:Tails",
        {
            "exponent": _setting("Exponent a of the frequencies.", float, 1.0, bounds=(0, 20)),
            "optimizers": _setting("Optimizers: names, or tables with `optimizer`; yours, too.", _OPTIMIZERS, ["plain", "momentum", "adam", "sign", "muon", "exact_muon"]),
            "family": _setting("Embeddings.", Literal["gaussian", "sphere", "orthonormal", "one_hot"], "gaussian"),
            "num_tokens": _setting("Number of tokens, and of classes.", int, 100, bounds=(10, 2000)),
            "dim": _setting("Dimension d of gaussian and sphere.", int, 64, bounds=(1, 2000)),
            "head_steps": _setting("Step at which the most frequent tenth is learnt.", int, 10, bounds=(2, 100_000)),
            "steps": _setting("Steps of each run.", int, 1000, bounds=(2, 10_000_000)),
            "seeds": _setting("Number of draws of the embeddings.", int, 3, bounds=(1, 1000)),
        },
        "Which optimizer learns rare tokens, and when.",
    ),
    Entry(
        "study", "central", "engram.studies.central:Central",
        {
            "figures": _setting("Figures of the paper, with the seed of Figure 5.", list[Literal["fig2", "fig5 9", "fig5 39"]], ["fig2", "fig5 9", "fig5 39"]),
            "rates": _setting("Learning rates over Figures 2 and 5.", list[float], [10.0, 1.0], above=0),
            "points": _setting("Points of each path there: the start and the steps.", int, 35, bounds=(4, 100_000)),
            "systems": _setting("Systems whose sharpness is followed.", list[Literal["memory", "factored", "embedded", "network"]], ["memory", "factored", "embedded", "network"]),
            "num_tokens": _setting("Input tokens N of these systems' problem.", int, 12, bounds=(2, 10_000)),
            "num_classes": _setting("Its output tokens M.", int, 3, bounds=(2, 10_000)),
            "dim": _setting("Its dimension d.", int, 3, bounds=(2, 1000)),
            "seed": _setting("Seed of its draw.", int, 1, bounds=(0, 2**63 - 1)),
            "share": _setting("2/rate, over the largest sharpness along gradient flow.", float, 0.7, above=0),
            "horizon": _setting("Flow time over which that is looked for.", float, 400.0, above=0),
            "steps": _setting("Steps of descent on each of these systems.", int, 300, bounds=(4, 100_000)),
            "transformer_rate": _setting("Learning rate of a small transformer.", float, 2.0, above=0),
            "transformer_steps": _setting("Its steps; 0 leaves it out.", int, 120, bounds=(0, 100_000)),
        },
        "The averaged path at the edge of stability, and sharpness along paths.",
    ),
    Entry(
        "study", "horizon", "engram.studies.horizon:Horizon",
        {
            "num_tokens": _setting("Input tokens N.", int, 12, bounds=(1, 10_000)),
            "num_classes": _setting("Output tokens M.", int, 2, bounds=(2, 10_000)),
            "dim": _setting("Dimension d.", int, 8, bounds=(1, 1000)),
            "seed": _setting("Seed of the first draw.", int, 0, bounds=(0, 2**31)),
            "draws": _setting("Number of draws of which every token can be recalled.", int, 16, bounds=(2, 1000)),
            "per_step": _setting("Learning rate over the number of steps T, where it is in proportion.", float, 1e-3, above=0),
            "lowest": _setting("Smallest learning rate of the grid.", float, 0.1, above=0),
            "highest": _setting("Largest one.", float, 1e6, above=0),
            "rates": _setting("Number of learning rates on the grid.", int, 85, bounds=(2, 100_000)),
            "longest": _setting("Largest number of steps T.", int, 16384, bounds=(64, _MANY)),
            "horizons": _setting("How many values T has, evenly spaced in its logarithm.", int, 12, bounds=(4, 1000)),
        },
        "The best learning rate for a budget of steps.",
    ),
    Entry(
        "study", "edge", "engram.studies.edge:Edge",
        {
            "num_tokens": _setting("Input tokens N, more than can be recalled.", int, 6, bounds=(2, 10_000)),
            "num_classes": _setting("Output tokens M.", int, 2, bounds=(2, 10_000)),
            "dim": _setting("Dimension d.", int, 2, bounds=(1, 1000)),
            "seed": _setting("Seed of the draw.", int, 0, bounds=(0, 2**63 - 1)),
            "lowest": _setting("Smallest learning rate, over the edge 2/H.", float, 0.6, above=0),
            "highest": _setting("Largest learning rate, over the edge.", float, 6.0, above=0),
            "rates": _setting("Number of learning rates.", int, 400, bounds=(2, 100_000)),
            "skip": _setting("Steps before anything is looked at.", int, 4000, bounds=(2, _MANY)),
            "steps": _setting("Steps over which the Lyapunov exponent is an average.", int, 16384, bounds=(16, _MANY)),
        },
        "Where descent settles, cycles or wanders, and its Lyapunov exponents.",
    ),
    Entry(
        "study", "central", "engram.studies.central:Central",
        {
            "figures": _setting("Figures of the paper, with the seed of Figure 5.", list[Literal["fig2", "fig5 9", "fig5 39"]], ["fig2", "fig5 9", "fig5 39"]),
            "rates": _setting("Learning rates over Figures 2 and 5.", list[float], [10.0, 1.0], above=0),
            "points": _setting("Points of each path there: the start and the steps.", int, 35, bounds=(4, 100_000)),
            "systems": _setting("Systems whose sharpness is followed.", list[Literal["memory", "factored", "embedded", "network"]], ["memory", "factored", "embedded", "network"]),
            "num_tokens": _setting("Input tokens N of these systems' problem.", int, 12, bounds=(2, 10_000)),
            "num_classes": _setting("Its output tokens M.", int, 3, bounds=(2, 10_000)),
            "dim": _setting("Its dimension d.", int, 3, bounds=(2, 1000)),
            "seed": _setting("Seed of its draw.", int, 1, bounds=(0, 2**63 - 1)),
            "share": _setting("2/rate, over the largest sharpness along gradient flow.", float, 0.7, above=0),
            "horizon": _setting("Flow time over which that is looked for.", float, 400.0, above=0),
            "steps": _setting("Steps of descent on each of these systems.", int, 300, bounds=(4, 100_000)),
            "transformer_rate": _setting("Learning rate of a small transformer.", float, 2.0, above=0),
            "transformer_steps": _setting("Its steps; 0 leaves it out.", int, 120, bounds=(0, 100_000)),
        },
        "The averaged path at the edge of stability, and sharpness along paths.",
    ),
    Entry(
        "study", "horizon", "engram.studies.horizon:Horizon",
        {
            "num_tokens": _setting("Input tokens N.", int, 12, bounds=(1, 10_000)),
            "num_classes": _setting("Output tokens M.", int, 2, bounds=(2, 10_000)),
            "dim": _setting("Dimension d.", int, 8, bounds=(1, 1000)),
            "seed": _setting("Seed of the first draw.", int, 0, bounds=(0, 2**31)),
            "draws": _setting("Number of draws of which every token can be recalled.", int, 16, bounds=(2, 1000)),
            "per_step": _setting("Learning rate over the number of steps T, where it is in proportion.", float, 1e-3, above=0),
            "lowest": _setting("Smallest learning rate of the grid.", float, 0.1, above=0),
            "highest": _setting("Largest one.", float, 1e6, above=0),
            "rates": _setting("Number of learning rates on the grid.", int, 85, bounds=(2, 100_000)),
            "longest": _setting("Largest number of steps T.", int, 16384, bounds=(64, _MANY)),
            "horizons": _setting("How many values T has, evenly spaced in its logarithm.", int, 12, bounds=(4, 1000)),
        },
        "The best learning rate for a budget of steps.",
    ),
]  # fmt: skip
