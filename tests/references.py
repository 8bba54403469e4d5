"""Reference numbers of the paper's figures, recomputed in float64 from the authors' settings."""

import json
from pathlib import Path

import engram

DATA = Path(__file__).parent / "data"


def load(name: str):
    return json.loads((DATA / f"{name}.json").read_text())


def problem_of(case) -> engram.Problem:
    return engram.Problem(case["E"], case["U"], case["probabilities_f64"], case["targets"])
