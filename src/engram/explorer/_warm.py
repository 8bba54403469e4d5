"""What most visits use, computed once before it is asked for, so that nothing has to compile then."""

from typing import Any

from engram.explorer import payloads
from engram.explorer._presets import PRESETS
from engram.explorer._state import Request, State


def _sphere(tokens: int) -> dict[str, Any]:
    """Tokens in the plane, as the slider of their number offers them."""
    sizes = {"num_tokens": tokens, "num_classes": 2, "dim": 2}
    return {
        "problem": {"kind": "sphere", **sizes, "exponent": 1.0, "seed": 0},
        "runs": [{"kind": "gd", "learning_rate": 1.0}],
        "steps": 200,
    }


STATES: list[tuple[str, dict[str, Any]]] = [
    *((preset["title"], preset["state"]) for preset in PRESETS),
    *((f"{tokens} tokens", _sphere(tokens)) for tokens in (5, 20, 50, 4, 8, 15, 40)),
]


def warm(given: dict[str, Any]) -> None:
    """Compute what a visit to this state computes."""
    state = State.model_validate({name: given[name] for name in given if name != "show"})
    payloads.compute(Request(client="warming", parts=["plane", "runs"], state=state), {})
