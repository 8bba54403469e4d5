"""Flip one constant of a corrected formula, and its check must fail: the checks can fail."""

import inspect
import textwrap

import pytest

from engram.audits.claims import CLAIMS
from engram.theory import binary, interference, multiclass, spike

MUTATIONS = [
    ("C10", binary, "_ahead", "s + m0 + xp.exp", "s + m0 + 0.9 * xp.exp"),
    ("C15", binary, "descent_margin_bound", "eta * c * t", "1.02 * eta * c * t"),
    ("C16", binary, "weak_log_bound", "c * t / 2", "c * t / 1.5"),
    ("C20", multiclass, "invariants", "xp.exp(-w[..., 1:]) / n[..., 1:]", "xp.exp(-w[..., 1:])"),
    ("C24", multiclass, "descent_margin_steps", "keepdims=True) + q)", "keepdims=True) - q)"),
    ("C25", multiclass, "one_step_threshold", "keepdims=True) + wrong", "keepdims=True)"),
    ("C26", multiclass, "early_weights", "- U.mean(0)", "- 0.9 * U.mean(0)"),
    ("C27", multiclass, "flow_margin", "s = 1 +", "s = 1.02 +"),
    ("C31", interference, "flow_velocity", "c / 2 * (1 + alpha)", "c * (1 + alpha)"),
    ("C32", interference, "max_margin_norm", "2 / (c", "2.01 / (c"),
    ("C33", interference, "half_sum_bounds", "1 + 2 * p", "1 + 2.1 * p"),
    ("C33", interference, "half_sum_bounds", "c0 * t / 2", "c0 * t / 1.9"),
    ("C34", interference, "half_gap_bounds", "2 * _middle(xp, p)", "0.95 * 2 * _middle(xp, p)"),
    ("C35", interference, "half_gap_deviation_bound", "return xp.sinh", "return 0.97 * xp.sinh"),
    ("C37", interference, "half_gap_deviation_asymptote", "2 * alpha", "2.1 * alpha"),
    ("C37", interference, "slow_share", "2.0**-n", "1.9**-n"),
    ("C38", interference, "descent_half_sum_bound", "eta * (1 - p)", "1.1 * eta * (1 - p)"),
    ("C38", interference, "descent_half_sum_bound", "eta * (1 - p)", "0.9 * eta * (1 - p)"),
    ("C39", interference, "descent_half_gap_bounds", "(1 + alpha) / 2", "(1 + alpha) / 3"),
    ("C42", spike, "spike_bound", "c / 2 * eta", "c / 1.9 * eta"),
    ("C45", interference, "smoothness", "c / 8", "c / 8.1"),
]  # fmt: skip


COMPUTE = ("C15", "C27", "C32")  # for longer than they compile


def mutate(monkeypatch, module, name, old, new):
    """Compile the function anew from its source, with one change, into its own module."""
    source = textwrap.dedent(inspect.getsource(inspect.unwrap(getattr(module, name))))
    assert source.count(old) >= 1, f"{name} has changed: {old!r} is not in it"
    scope = dict(vars(module))
    exec(compile(source.replace(old, new), "mutated", "exec"), scope)
    monkeypatch.setattr(module, name, scope[name])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("claim", "module", "name", "old", "new"),
    [
        pytest.param(*row, marks=[pytest.mark.optimised] if row[0] in COMPUTE else [])
        for row in MUTATIONS
    ],
)
def test_a_wrong_constant_is_found(monkeypatch, claim, module, name, old, new):
    mutate(monkeypatch, module, name, old, new)
    assert not CLAIMS[claim].amendment.check(0).holds


@pytest.mark.slow
@pytest.mark.parametrize(
    ("claim", "constant", "wrong"),
    [
        ("C12", "CORRECTION_CONSTANT", 1.02),
        ("C17", "LOSS_CONSTANT", 1.07),
        ("C15", "LOG1P_THRESHOLD", 2.1),
    ],
)
def test_a_smaller_constant_is_found(monkeypatch, claim, constant, wrong):
    monkeypatch.setattr(binary, constant, wrong)
    assert not CLAIMS[claim].amendment.check(0).holds


@pytest.mark.parametrize(
    ("claim", "constant", "wrong"),
    [
        ("C12", "CORRECTION_CONSTANT", 1.02371),
        ("C17", "LOSS_CONSTANT", 1.07942),
        ("C15", "LOG1P_THRESHOLD", 2.512),
        ("C15", "LOG_THRESHOLD", 2.15),
    ],
)
def test_a_constant_that_is_not_the_certified_one_is_found(monkeypatch, claim, constant, wrong):
    assert all(found.is_proved for found in CLAIMS[claim].certificates())
    monkeypatch.setattr(binary, constant, wrong)
    assert not all(found.is_proved for found in CLAIMS[claim].certificates())
