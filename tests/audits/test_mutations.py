"""Move a constant of a theorem by 2 % or an exponent by 5 %, and its check must fail: the checks can fail."""

import inspect
import sys
import textwrap

import pytest

from engram.audits.claims import CLAIMS
from engram.audits.claims.beyond.j2a_two_phases import J2a
from engram.theory import (
    binary,
    cycles,
    interference,
    large_steps,
    multiclass,
    muon,
    scaling,
    separable,
    spike,
)

# For each claim: a function of the theory, what stands in it, and what is put there instead, one by one.
MUTATIONS = {
    "C10": [
        (binary._ahead, "s + m0 + xp.exp", ["s + m0 + 0.98 * xp.exp"]),
    ],
    "C12": [
        (binary.flow_correction_bounds, "0.5 * xp.log", ["0.49 * xp.log", "0.51 * xp.log"]),
        (binary.flow_correction_bounds, "CORRECTION_CONSTANT *", ["1.02 * CORRECTION_CONSTANT *"]),
    ],
    "C15": [
        (binary.log_bound_failure, "2 * late / x", ["2.04 * late / x"]),
        (binary.log_bound, "return xp.log", ["return 0.98 * xp.log"]),
        (binary.descent_margin_bound, "eta * c * t", ["1.02 * eta * c * t", "0.98 * eta * c * t"]),
        (binary.descent_margin_upper_bound, "growth * x * (t - 1)", ["0.98 * growth * x * (t - 1)", "1.02 * growth * x * (t - 1)"]),
        (binary.expansion_constant, "x / 2 - 1", ["0.98 * (x / 2 - 1)"]),
    ],
    "C16": [
        (binary.weak_log_bound, "c * t / 2", ["c * t / 1.96", "c * t / 2.04"]),
    ],
    "C17": [
        (binary.flow_loss, "-m)", ["-0.98 * m)"]),
        (binary.descent_loss_bound, "return LOSS_CONSTANT", ["return 1.02 * LOSS_CONSTANT"]),
    ],
    "C19": [
        (multiclass.flow_margin, "K * r1**2", ["K * r1**2.1"]),
    ],
    "C20": [
        (multiclass.invariants, "xp.exp(-w[..., 1:]) / n[..., 1:]", ["xp.exp(-1.05 * w[..., 1:]) / n[..., 1:]"]),
    ],
    "C22": [
        (multiclass.asymptotic_weights, "problem.num_classes * p * t", ["problem.num_classes * 1.02 * p * t"]),
        (multiclass.flow_scores, "1.0 / num_classes", ["1.02 / num_classes"]),
    ],
    "C24": [
        (multiclass.descent_margin_steps, "keepdims=True) + q)", ["keepdims=True) + 0.98 * q)"]),
    ],
    "C25": [
        (multiclass.one_step_threshold, "keepdims=True) + wrong", ["keepdims=True) + 1.02 * wrong", "keepdims=True) + 0.98 * wrong"]),
    ],
    "C26": [
        (multiclass.early_weights, "- U.mean(0)", ["- 0.98 * U.mean(0)"]),
    ],
    "C27": [
        (multiclass.flow_margin, "s = 1 +", ["s = 1.02 +"]),
        (multiclass.first_step_loss, "eta[..., None] * k", ["1.02 * eta[..., None] * k"]),
        (multiclass.descent_margin_bound, "eta * t", ["1.02 * eta * t", "0.98 * eta * t"]),
    ],
    "C29": [
        (interference.is_learned_in_one_step, "alpha * p < 1 - p", ["alpha * p < 1.02 * (1 - p)", "alpha * p < 0.98 * (1 - p)"]),
    ],
    "C31": [
        (interference.flow_velocity, "c / 2 * (1 + alpha)", ["c / 1.96 * (1 + alpha)"]),
    ],
    "C32": [
        (interference.max_margin_norm, "2 / (c", ["2.02 / (c"]),
    ],
    "C33": [
        (interference.half_sum_bounds, "1 + 2 * p", ["1 + 2.04 * p", "1 + 1.96 * p"]),
        (interference.half_sum_bounds, "c0 * t / 2", ["c0 * t / 2.04", "c0 * t / 1.96"]),
        (interference.half_sum_asymptote, "* t)", ["* 1.02 * t)"]),
    ],
    "C34": [
        (interference.half_gap_bounds, "2 * _middle(xp, p)", ["1.96 * _middle(xp, p)", "2.04 * _middle(xp, p)"]),
    ],
    "C35": [
        (interference._phi, "abs(kappa - 1)", ["abs(kappa - 0.98)"]),
        (interference.half_gap_deviation_bound, "return xp.sinh", ["return 0.98 * xp.sinh", "return 1.02 * xp.sinh"]),
        (interference.half_gap_deviation_bound, "(1 + alpha) / (1 - alpha)", ["1.05 * (1 + alpha) / (1 - alpha)", "0.95 * (1 + alpha) / (1 - alpha)"]),
    ],
    "C36": [
        (interference.half_gap_limit, "0.0, 1.0", ["0.0, 1.02"]),
    ],
    "C37": [
        (interference.half_gap_deviation_asymptote, "2 * alpha)", ["2.04 * alpha)"]),
        (interference.half_gap_deviation_asymptote, "2 * c *", ["2.04 * c *"]),
        (interference.half_gap_exponent, "xp.minimum((1 + alpha) / (1 - alpha), 1.0)", ["xp.minimum(1.05 * (1 + alpha) / (1 - alpha), 1.0)"]),
        (interference.slow_share, "2.0**-n", ["1.96**-n", "2.04**-n"]),
        (interference.half_gap_deviation_lower_bound, "c * t / 4", ["c * t / 4.08"]),
        (interference.half_gap_deviation_lower_bound, "-kappa *", ["-0.95 * kappa *", "-1.05 * kappa *"]),
    ],
    "C38": [
        (interference.descent_half_sum_bound, "log_omega(1 +", ["log_omega(0.98 +"]),
        (interference.descent_half_sum_bound, "eta * (1 - p)", ["1.02 * eta * (1 - p)", "0.98 * eta * (1 - p)"]),
    ],
    "C39": [
        (interference.descent_half_gap_bounds, "2 * _middle(xp, p) + reach", ["2.04 * _middle(xp, p) + reach"]),
        (interference.descent_half_gap_bounds, "(1 + alpha) / 2", ["(1 + alpha) / 2.04", "(1 + alpha) / 1.96"]),
    ],
    "C42": [
        (spike.spike_bound, "c / 2 * eta", ["c / 1.96 * eta", "c / 2.04 * eta"]),
        (spike.two_token_spike_threshold, "return bisect", ["return 1.02 * bisect"]),
    ],
    "C45": [
        (interference.smoothness, "c / 8", ["c / 8.16"]),
    ],
    "C58": [
        (interference.half_sum_asymptote, "* t)", ["* 1.02 * t)"]),
    ],
    "J1": [
        (separable.limit_loss_constant, "float(limit", ["1.02 * float(limit", "0.98 * float(limit"]),
        (separable.margin_asymptote, ".offsets", [".offsets + 0.02"]),
    ],
    "J1b": [
        (separable.rate, "float(eta) / 2", ["float(eta) / 2.04"]),
        (separable.rate, "root * share)) / root", ["1.02 * root * share)) / root"]),
        (separable.rate, "least = float", ["least = 1.05 * float", "least = 0.95 * float"]),
        (separable.rate, "found.slack - 1", ["1.05 * (found.slack - 1)"]),
        (separable.rate, "2 * least", ["2.1 * least", "1.9 * least"]),
        (separable.rate, "a[support] @ share / a.sum()", ["1.05 * a[support] @ share / a.sum()"]),
    ],
    "J2b": [
        (interference.max_margin_norm, "2 / (c", ["2.04 / (c", "1.96 / (c"]),
    ],
    "J2c": [
        (large_steps.perceptron_bound, "(R * B) ** 2", ["1.02 * (R * B) ** 2", "(R * B) ** 2.1"]),
    ],
    "J2d": [
        (large_steps.batch_margin_bound, "(K + 1) * s", ["1.02 * (K + 1) * s", "0.98 * (K + 1) * s"]),
    ],
    "J3a": [
        (cycles._curvature, "p * z * z", ["0.98 * p * z * z"]),
        (cycles.slope, "return _slope", ["return 0.98 * _slope"]),
    ],
    "J3b": [
        (cycles.tokens_with_cycle, "share / 2 * edge", ["1.02 * share / 2 * edge"]),
    ],
    "J3c": [
        (cycles.edge, "2 / float", ["2.04 / float"]),
    ],
    "J4a": [
        (scaling.parameters_per_token, "np.arange(len(faces)) @ faces", ["1.02 * np.arange(len(faces)) @ faces"]),
    ],
    "J4b": [
        (scaling.error_exponent, "(exponent - 1) * (2 if", ["1.05 * (exponent - 1) * (2 if"]),
    ],
    "J5a": [
        (muon.gain_per_step, "eta * contrast", ["1.02 * eta * contrast"]),
    ],
    "J5b": [
        (muon.first_step_margins, "return eta *", ["return 1.02 * eta *"]),
        (muon.first_step_shares, "q[:, None] ** 2", ["q[:, None] ** 2.1"]),
        (muon.first_step_ratio_bounds, "1 - v / 2", ["1 - v / 2.04"]),
    ],
}  # fmt: skip


COMPUTE = ("C15", "C27", "C32", "J1", "J1b")  # for longer than they compile


def mutated(function, old, new):
    """The function compiled again from its source, with one change."""
    function = inspect.unwrap(function)
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(old) >= 1, f"{function.__name__} has changed: {old!r} is not in it"
    scope = dict(vars(sys.modules[function.__module__]))
    exec(compile(source.replace(old, new), "mutated", "exec"), scope)
    return scope[function.__name__]


@pytest.mark.slow
@pytest.mark.parametrize(
    "claim",
    [pytest.param(name, marks=[pytest.mark.optimised] * (name in COMPUTE)) for name in MUTATIONS],
)
def test_a_wrong_constant_or_exponent_is_found(monkeypatch, claim):
    amendment = CLAIMS[claim].amendment
    check = CLAIMS[claim].printed if amendment is None else amendment.check
    for function, old, replacements in MUTATIONS[claim]:
        module = sys.modules[inspect.unwrap(function).__module__]
        for new in replacements:
            with monkeypatch.context() as patch:
                patch.setattr(module, function.__name__, mutated(function, old, new))
                assert not check(0).holds, f"{function.__name__}: {new}"


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
    assert all(certificate.is_proved for certificate in CLAIMS[claim].certificates())
    monkeypatch.setattr(binary, constant, wrong)
    assert not all(certificate.is_proved for certificate in CLAIMS[claim].certificates())


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("_steps_until", "4 * a", "4.08 * a"),
        ("_pull", "- 1)", "- 1.02)"),
        ("stable_loss_bound", "eta * t", "1.02 * eta * t"),
        ("exit_bound", "eta * R * R)", "eta * R**2.1)"),
        ("horizon_rate", "R**4", "R**4.2"),
        ("horizon_bound", "B**2", "B**2.1"),
        ("reach", "** 0.5", "** 0.525"),
        ("stable_loss", "1 / (eta", "1.02 / (eta"),
        ("exit_bound", "p / 2", "p / 2.04"),
    ],
)
def test_a_wrong_constant_or_exponent_of_large_steps_is_found(monkeypatch, name, old, new):
    monkeypatch.setattr(large_steps, name, mutated(getattr(large_steps, name), old, new))
    assert not all(evidence.holds for evidence in J2a().against_their_equations())
