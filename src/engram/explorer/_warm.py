"""The shapes that most visits use, compiled before they are asked for."""

from typing import Any, NamedTuple

from engram.explorer import payloads
from engram.explorer._state import Request, State


class Shape(NamedTuple):
    """A problem and methods whose numbers of tokens, classes and dimensions are those of many others."""

    name: str
    problem: dict[str, Any]
    methods: tuple[str, ...]


def _sphere(tokens: int, classes: int = 2, dim: int = 2) -> dict[str, Any]:
    return {
        "kind": "sphere",
        "tokens": tokens,
        "classes": classes,
        "dim": dim,
        "exponent": 1.0,
        "seed": 0,
    }


SHAPES = (
    Shape("two tokens", {"kind": "two", "correlation": 0.5, "p1": 0.75}, ("gd",)),
    Shape("flow and Adam", {"kind": "two", "correlation": 0.5, "p1": 0.75}, ("flow", "adam", "momentum")),
    *(
        Shape(f"{tokens} tokens in the plane", _sphere(tokens), ("gd",))
        for tokens in (3, 30, 10, 5, 20, 50, 4, 8, 15, 40)
    ),
    Shape("five tokens in 3 dimensions", _sphere(5, 5, 3), ("gd",)),
    Shape("five tokens in 10 dimensions", _sphere(5, 5, 10), ("gd",)),
)  # fmt: skip


def warm(shape: Shape) -> None:
    """Compute once what a visit with this shape computes."""
    for steps in (200, 34, 100):  # records come in segments of 256, 64 and 128
        for method in shape.methods:
            state = State.model_validate(
                {
                    "problem": shape.problem,
                    "runs": [{"method": method, "rate": 1.0}],
                    "steps": steps,
                }
            )
            request = Request(client="warming", parts=["plane", "runs"], state=state)
            payloads.compute(request, {})
