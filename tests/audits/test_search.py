"""Your own claim: stated over a box, with a search for the worst case."""

import numpy as np
import pytest

import engram
from engram._checks import InputError
from engram.audits import audit, bound, curves_of


def test_a_true_bound_holds():
    claim = bound("x squared is at least zero", lambda x: x**2, {"x": (-1.0, 1.0)})
    (finding,) = audit([claim])
    assert finding.verdict == "HOLDS"
    assert finding.printed.worst >= 0
    assert finding.printed.at["x"] == pytest.approx(0.0, abs=1e-3)  # the search went there


def test_a_narrow_violation_is_found_by_descending():
    # A dip of width 0.01 in a box of area 4: random points alone find its bottom seldom.
    dip = lambda x, y: np.hypot(x - 0.3, y + 0.4) - 0.005
    (finding,) = audit([bound("never inside", dip, {"x": (-1, 1), "y": (-1, 1)})])
    assert finding.verdict == "FALSE-AS-PRINTED"
    assert finding.changes
    assert finding.printed.at["x"] == pytest.approx(0.3, abs=0.01)


def test_a_claim_with_one_parameter_is_drawn_as_slack_over_it():
    box = {"learning_rate": (0.01, 10.0, "log")}
    (finding,) = audit(
        [bound("", lambda learning_rate: 1 - learning_rate, box, draws=8, searches=0)]
    )
    curves = curves_of(finding)
    name, rates = curves.x
    assert (name, curves.log_x) == ("learning rate", True)
    assert (np.diff(rates) >= 0).all()
    assert np.allclose(curves.series["slack"], 1 - rates)


def test_corners_and_decades_are_tried():
    seen = []
    slack = lambda a, b: seen.append((a, b)) or 1.0
    audit([bound("all", slack, {"a": (1e-3, 1e3, "log"), "b": (0.0, 1.0)}, draws=64, searches=0)])
    assert {(1e-3, 0.0), (1e-3, 1.0), (1e3, 0.0), (1e3, 1.0)} <= set(seen)
    assert np.mean([a < 1 for a, _ in seen[4:]]) == pytest.approx(0.5, abs=0.1)


def test_a_bound_on_a_trajectory_names_the_step():
    def slack(p1, learning_rate):
        run = engram.simulate(
            engram.two_tokens(0.95, p1), engram.GradientDescent(learning_rate, 20), record=("loss",)
        )
        return np.log(2) - run.loss.values

    claim = bound(
        "the loss never exceeds log 2", slack,
        {"p1": (0.6, 0.9), "learning_rate": (0.1, 20.0, "log")}, draws=12, searches=1,
    )  # fmt: skip
    (finding,) = audit([claim])
    assert finding.verdict == "FALSE-AS-PRINTED"
    assert finding.printed.at["index"] >= 1
    assert finding.printed.at["learning_rate"] > 5


def test_what_cannot_be_computed_counts_as_failing():
    (finding,) = audit([bound("", lambda x: np.nan, {"x": (0, 1)}, draws=4, searches=1)])
    assert not finding.printed.holds
    assert finding.as_dict()["printed"]["worst_slack"] is None


@pytest.mark.parametrize(
    ("box", "match"),
    [
        ({}, "at least one parameter"),
        ({"x": 3}, r"got 3 for 'x'"),
        ({"x": (1, 0)}, "low <= high"),
        ({"x": (0, 1, "log")}, "positive on a log scale"),
        ({"x": (1, 2, "cubic")}, "'log' or 'linear', got 'cubic'"),
    ],
)
def test_a_bad_box_is_refused(box, match):
    with pytest.raises(InputError, match=match):
        bound("", lambda **_: 1.0, box)


@pytest.mark.parametrize(
    ("slack", "got"),
    [
        (lambda x: None, "None"),
        (lambda x: 1j * x, "0j"),
        (lambda x: "yes", "'yes'"),
        (lambda x: {"slack": x}, r"\{'slack': 0.0\}"),
        (lambda x: [[x], [x, x]], r"\[\[0.0\], \[0.0, 0.0\]\]"),
    ],
)
def test_a_slack_that_is_not_real_numbers_is_refused(slack, got):
    claim = bound("", slack, {"x": (0, 1)})
    with pytest.raises(InputError, match=f"`slack` must return numbers.* got {got} at x = 0"):
        audit(claim)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"slack": lambda: 1.0}, r"by name, x: .*'x'"),
        ({"slack": lambda x, y: y}, r"by name, x: .*'y'"),
        ({"statement": 3}, "`statement` must be a string, got 3"),
        ({"id": 7}, "`id` must be a string, got 7"),
        ({"tolerance": "big"}, "`tolerance`"),
        ({"tolerance": -1.0}, "`tolerance` must not be negative"),
        ({"certificates": lambda: [1]}, "list of `Certificate`s, got 1"),
        ({"certificates": lambda: None}, "list of `Certificate`s, got None"),
        ({"curves": lambda: 3}, "`curves` must return `Curves`, got 3"),
    ],
)
def test_a_bad_option_is_refused(options, match):
    options = {"statement": "", "slack": lambda x: x, "box": {"x": (0, 1)}} | options
    with pytest.raises(InputError, match=match):
        curves_of(*audit(bound(**options)))


def test_unknown_claims_are_refused():
    with pytest.raises(InputError, match="a number such as C15 or a Python file, got C99"):
        audit("C99")


def test_boxes_over_all_magnitudes_are_searched():
    slack = lambda x: abs(np.log10(x)) - 10
    (finding,) = audit([bound("far from one", slack, {"x": (1e-200, 1e200, "log")}, draws=32)])
    assert finding.verdict == "FALSE-AS-PRINTED"


def test_slack_may_be_a_number_here_and_an_array_there():
    slack = lambda x: np.array([1.0, x]) if x > 0.5 else 1.0
    (finding,) = audit([bound("", slack, {"x": (0.0, 1.0)}, draws=8, searches=0)])
    assert finding.verdict == "HOLDS"
    with pytest.raises(InputError, match="'index'"):
        bound("", slack, {"index": (0.0, 1.0)})
    with pytest.raises(InputError, match="must be a function"):
        bound("", 3, {"x": (0.0, 1.0)})
    with pytest.raises(InputError, match="got 5"):
        audit(5)


def test_yes_and_no_are_statements_too():
    (finding,) = audit([bound("x < 0.9", lambda x: x < 0.9, {"x": (0.0, 1.0)}, draws=8)])
    assert finding.verdict == "FALSE-AS-PRINTED"
    assert finding.printed.at["x"] >= 0.9
    assert repr(finding).startswith("<Finding own: FALSE-AS-PRINTED, slack -1 in")
    assert finding.as_dict()["corrected"]["statement"] is None


def test_points_outside_a_formulas_hypotheses_are_left_out_and_counted():
    threshold = engram.theory.spike.two_token_spike_threshold
    claim = bound(
        "positive", lambda p1: threshold(0.9, p1), {"p1": (0.5, 0.99)}, draws=16, searches=0
    )
    (finding,) = audit([claim])
    assert finding.verdict == "HOLDS"
    assert "outside the hypotheses" in finding.printed.note
    with pytest.raises(InputError, match="no point of it does"):
        audit([bound("", lambda p1: threshold(0.1, p1), {"p1": (0.5, 0.6)}, draws=4, searches=0)])
