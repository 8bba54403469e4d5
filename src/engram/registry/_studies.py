"""The built-in studies, as literals: what each asks, and its settings."""

from typing import Any, Literal

from engram.registry._entries import Entry
from engram.registry._fields import Field


def _setting(help: str, type: Any, default: Any, **limits: Any) -> Field:
    """A setting of a study, which stays a plain number."""
    return Field(help, type=type, default=default, static=True, **limits)


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
]  # fmt: skip
