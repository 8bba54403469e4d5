"""The presets: the paper's pictures and phenomena as states of the page, with what to look for."""

from typing import Any


def _gd(*rates: Any) -> list[dict[str, Any]]:
    return [{"kind": "gd", "learning_rate": rate} for rate in rates]


def _two(correlation: Any, p1: Any) -> dict[str, Any]:
    return {"kind": "two", "correlation": correlation, "p1": p1}


def _paper(name: str) -> dict[str, Any]:
    return {"kind": "paper", "name": name}


def _table(*tokens: Any) -> dict[str, Any]:
    rows = [{"x": x, "y": y, "target": target, "prob": prob} for x, y, target, prob in tokens]
    return {"kind": "table", "tokens": rows}


def _sphere(tokens: int, classes: int, dim: int, exponent: Any, seed: int) -> dict[str, Any]:
    sizes = {"num_tokens": tokens, "num_classes": classes, "dim": dim}
    return {"kind": "sphere", **sizes, "exponent": exponent, "seed": seed}


PRESETS: list[dict[str, Any]] = [
    {
        "id": "fig2",
        "title": "Figure 2: a loss spike",
        "text": "Two strongly correlated tokens, a large and a small learning rate. The large one throws the rare token "
        "across the wall, so that the loss spikes, and reaches the wedge without error all the same; the small one creeps "
        "along the wall. Drag the black dot: the spike depends on where training starts.",
        "state": {
            "problem": _two(0.95, 0.75), "runs": _gd(10, 1), "steps": 34,
            "view": {"x": 3.5, "y": -3.5, "half": 13.5},
        },
    },
    {
        "id": "fig1",
        "title": "Figure 1: level lines of two tokens",
        "text": "The loss of two tokens depends on two numbers only, so this plane hides nothing. Tokens that repel each other "
        "(α < 0) leave a wide sector without error, correlated ones a narrow wedge beside a steep wall: move α and see.",
        "state": {"problem": _two(0.5, 0.75), "runs": _gd(1), "steps": 100},
    },
    {
        "id": "fig4",
        "title": "Figure 4: the minimiser forgets",
        "text": "Three tokens in two dimensions that cannot all be recalled. The star, where the loss is least, sits in a sector "
        "with an error of .45; another sector has .18. Cross-entropy is not calibrated: training ends at the star from anywhere.",
        "state": {
            "problem": _paper("fig4-81"), "runs": _gd(1), "steps": 200,
            "start": {"a": 1.5, "b": 1.5}, "view": {"half": 2},
        },
    },
    {
        "id": "fig4-sgd",
        "title": "Figure 4: SGD walks out of the best sector",
        "text": "Ten tokens, SGD with small batches. It passes through a sector with fewer errors on its way and leaves it again, since "
        "the loss is lower elsewhere. Change the seed of the run: the path trembles, the end stays.",
        "state": {
            "problem": _paper("fig4-sgd"),
            "runs": [{"kind": "sgd", "learning_rate": 0.1, "batch_size": 16, "seed": 0}, *_gd(0.1)], "steps": 1000,
            "start": {"a": 7.5, "b": 2.5}, "view": {"x": 3.5, "y": 2, "half": 5},
        },
    },
    {
        "id": "fig5",
        "title": "Figure 5: sharpness, not separable",
        "text": "Thirty tokens that compete; grey is the sharpness. The small rate has 2/η above the sharpness of the minimiser and "
        "creeps up to it. For the large one 2/η lies below it: it cannot stay, and jumps to and fro for ever.",
        "state": {
            "problem": _paper("fig4-9"), "runs": _gd(10, 1), "steps": 150,
            "start": {"a": -5, "b": 5}, "view": {"half": 10, "overlay": "sharpness"},
        },
    },
    {
        "id": "fig5-separable",
        "title": "Figure 5: sharpness, separable",
        "text": "Three tokens that can all be recalled. Descent crosses a ridge of the sharpness, where a token's margin is zero, and "
        "leaves for infinity along the dashed ray, where the sharpness falls to zero: every learning rate is stable in the end.",
        "state": {
            "problem": _paper("fig4-39"), "runs": _gd(10, 1), "steps": 34,
            "start": {"a": -5, "b": -5}, "view": {"half": 10, "overlay": "sharpness"},
        },
    },
    {
        "id": "fig6",
        "title": "Figure 6: margins of five tokens in three dimensions",
        "text": "Beyond the plane only margins are shown, one picture per learning rate. Large rates oscillate more, as tokens push each other "
        "below zero, and in these three dimensions the largest ends worst. Choose the draw for d = 10: with more room the largest ends best.",
        "state": {"problem": _paper("fig6-3"), "runs": _gd(3, 10, 20), "steps": 99},
    },
    {
        "id": "benign-spike",
        "title": "A benign spike",
        "text": "At η = 30 the loss jumps to nine times its lowest value and returns within a few steps; after sixty it is "
        "eighty times lower than at η = 3, which never spiked. The event list names the token behind each spike.",
        "state": {
            "problem": _two(0.9, 0.8), "runs": _gd(30, 3, 1), "steps": 60,
            "view": {"x": 14, "y": -10, "half": 30},
        },
    },
    {
        "id": "forget-frequent",
        "title": "Forgetting the most frequent token",
        "text": "Token 1 comes most often (p = .4) and is recalled at the start; training forgets it, because two rarer tokens that "
        "agree with each other outweigh it (claim C47, an exact example). The error rises from .3 to .4 while the loss falls.",
        "state": {
            "problem": _table((1, 0, 0, 0.4), (0.8, -0.6, 1, 0.3), (0.8, 0.6, 1, 0.3)), "runs": _gd(1), "steps": 60,
            "start": {"a": 0.5, "b": 1.5}, "view": {"half": 2},
        },
    },
    {
        "id": "oscillation",
        "title": "Oscillation at 2/η",
        "text": "Two identical tokens with different targets: the loss has a minimiser of sharpness .48, so that 2/.48 = 4.17 is the "
        "largest stable learning rate. At 4 descent settles; at 5 it ends in a cycle of two points, at 8 of four; at 12 it finds no rhythm at all.",
        "state": {
            "problem": _two(1, 0.6), "runs": _gd(4, 5, 8), "steps": 100,
            "start": {"a": 1, "b": 0}, "view": {"half": 6},
        },
    },
    {
        "id": "cycle",
        "title": "A cycle below 2/η (claim C46)",
        "text": "Three parallel tokens. The minimiser is stable (its sharpness is .389, 2/η is .410), and yet descent from zero "
        "never gets there: it is caught by a cycle of two points. Move the start to .5 and it converges. The paper's dichotomy misses this.",
        "state": {
            "problem": _table((1, 0, 0, 0.679), (8, 0, 1, 0.021), (0.5, 0, 1, 0.3)),
            "runs": _gd(4.88), "steps": 400, "view": {"x": 0.7, "half": 1},
        },
    },
    {
        "id": "adam",
        "title": "Adam against descent on rare tokens",
        "text": "Ten tokens in ten dimensions, frequencies falling like 1/x². Under plain descent a token pulls with the weight of its frequency, "
        "so the rare ones wait: at η = 1 four are not learnt in 100 steps, at η = 10 the last is at step 89. Adam divides "
        "the frequencies out, recalls all by step 33 and ends with all margins above 3.",
        "state": {
            "problem": _sphere(10, 10, 10, 2, 0),
            "runs": [*_gd(1, 10), {"kind": "adam", "learning_rate": 0.3}], "steps": 100,
        },
    },
    {
        "id": "negative",
        "title": "Negative correlation helps",
        "text": "Tokens that repel each other teach each other: one step is enough, and no learning rate spikes. Slide α up to .9 "
        "and the same rates need 6, 9 and 26 steps to recall both for good.",
        "state": {"problem": _two(-0.5, 0.75), "runs": _gd(10, 3, 1), "steps": 34, "view": {"half": 12}},
    },
    {
        "id": "log-growth",
        "title": "Margins grow like log t",
        "text": "Once all tokens are recalled the loss falls like 1/t and margins grow by the same amount each time t is ten times larger: "
        "straight lines on this logarithmic axis of steps. The gradient flow, at the same time ηt, agrees more and more.",
        "state": {
            "problem": _two(0.5, 0.75), "runs": [*_gd(1), {"kind": "flow", "learning_rate": 1}], "steps": 20000,
            "view": {"x": 3, "y": -3, "half": 9}, "show": {"axis": "log"},
        },
    },
]  # fmt: skip
