"""The presets: the paper's pictures and phenomena as states of the page, with what to look for."""

import tomllib
from importlib import resources
from typing import Any

_text = (resources.files("engram.explorer") / "presets.toml").read_text(encoding="utf-8")
PRESETS: list[dict[str, Any]] = tomllib.loads(_text)["preset"]


def figure_states(figure: str) -> list[tuple[str, str]]:
    """The presets that show a figure of the paper: their titles, and their addresses on the page."""
    return [
        (preset["title"], f"#preset={preset['id']}")
        for preset in PRESETS
        if preset["id"].split("-")[0] == figure
    ]


def _sphere(tokens: int) -> dict[str, Any]:
    """Tokens in the plane, as the slider of their number offers them."""
    sizes = {"num_tokens": tokens, "num_classes": 2, "dim": 2}
    return {
        "problem": {"kind": "sphere", **sizes, "exponent": 1.0, "seed": 0},
        "runs": [{"kind": "gd", "learning_rate": 1.0}],
        "steps": 200,
    }


# What most visits use: compiled before anybody asks.
COMMON_STATES: list[tuple[str, dict[str, Any]]] = [
    *((preset["title"], preset["state"]) for preset in PRESETS),
    *((f"{tokens} tokens", _sphere(tokens)) for tokens in (5, 20, 50, 4, 8, 15, 40)),
]
