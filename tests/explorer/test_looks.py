"""The page's colours for the colour-blind, and words and marks that do not cover one another."""

import itertools
import json
import subprocess
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from node_engine import NODE

pytestmark = pytest.mark.skipif(NODE is None, reason="no node here, which runs the page's code")

STATIC = Path(str(resources.files("engram.explorer") / "static"))
SCRIPT = """
import { RUNS, accuracyColour, tokenColour } from '%(static)s/looks.js';
import { groupsOf } from '%(static)s/pictures.js';
import { Places } from '%(static)s/places.js';
const tokens = Array.from({ length: 8 }, (_, k) => tokenColour(k, 8));
const ramp = Array.from({ length: 12 }, (_, k) => tokenColour(k, 12));
const sectors = [0, 0.5, 1].map(accuracyColour);
let seed = 1; // any numbers will do
const draw = (most) => { seed = (seed * 48271) %% 2147483647; return (seed / 2147483647) * most; };
const events = () => Array.from({ length: 30 }, () => ({ step: draw(300), kind: 'spike' }));
const groups = Array.from({ length: 200 }, () => groupsOf(events(), (step) => step)
  .map(({ at, events }) => [at, events.length]));
const places = new Places(10, 20, 310, 220), boxes = [];
places.line([0, 100, 400, 110]);
for (let k = 0; k < 400; k++) {
  const spot = places.first([[draw(320), draw(240)], [draw(320), draw(240)]], 20, 6);
  if (spot) boxes.push(spot);
}
console.log(JSON.stringify({ RUNS, tokens, ramp, sectors, groups, boxes }));
"""
# What people without one kind of cone see of linear RGB (Machado, Oliveira, Fernandes, 2009, severity 1).
BLIND = {
    "none": (1, 0, 0, 0, 1, 0, 0, 0, 1),
    "protan": (
        0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998
    ),
    "deutan": (
        0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.011820, 0.042940, 0.968881
    ),
    "tritan": (
        1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.303900
    ),
}  # fmt: skip
JUST_NOTICEABLE = 2.3  # of the distance in Lab


@pytest.fixture(scope="module")
def page():
    script = SCRIPT % {"static": STATIC.as_uri()}
    done = subprocess.run(
        [str(NODE), "--input-type=module", "-e", script], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def rgb(colour):
    if colour.startswith("#"):
        return [int(colour[k : k + 2], 16) for k in (1, 3, 5)]
    return [int(part) for part in colour[4:-1].split(",")]


def lab(colour, kind):
    """How a colour looks, as coordinates whose distances are those that people see."""
    value = np.array(rgb(colour)) / 255
    linear = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
    linear = np.clip(np.reshape(BLIND[kind], (3, 3)) @ linear, 0, 1)
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    ratio = (np.array(to_xyz) @ linear) / [0.9505, 1, 1.089]
    f = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def nearest(colours, kind):
    pairs = itertools.combinations([lab(each, kind) for each in colours], 2)
    return min(np.linalg.norm(a - b) for a, b in pairs)


@pytest.mark.parametrize("kind", BLIND)
def test_colours_differ_for_everybody(page, kind):
    # Several times what is just noticed; runs differ in their marks as well, tokens in their labels.
    assert nearest(page["RUNS"], kind) > 10 * JUST_NOTICEABLE
    assert nearest(page["tokens"], kind) > 10 * JUST_NOTICEABLE
    assert nearest(page["sectors"], kind) > 6 * JUST_NOTICEABLE
    assert nearest(page["ramp"], kind) > 2 * JUST_NOTICEABLE  # twelve of them


def test_marks_of_events_do_not_overlap(page):
    for groups in page["groups"]:
        assert sum(count for _, count in groups) == 30
        for (here, count), (after, _) in itertools.pairwise(groups):
            assert after - here >= 15 + 8 * (count > 1)


def test_words_cover_neither_lines_nor_one_another(page):
    boxes = np.array(page["boxes"])
    assert len(boxes) > 20
    x, y = boxes.T
    assert ((x - 20 >= 10) & (x + 20 < 310) & (y - 6 >= 20) & (y + 6 < 220)).all()
    assert (abs(y - (100 + 10 * x / 400)) > 6).all()
    for a, b in itertools.combinations(boxes, 2):
        assert (abs(a - b) >= [40, 12]).any()
