"""Balls: enclosures contain the number, comparisons are decided only when they are sure."""

import numpy as np
import pytest
from flint import arb, fmpq

from engram._checks import InputError
from engram.audits import _balls
from engram.audits._certificate import Certificate
from engram.audits.claims import CLAIMS
from engram.special import log_omega
from engram.theory import binary, interference

WIDE = arb(1, 0.5)  # 1 up to 1/2


@pytest.mark.parametrize(
    ("left", "relation", "right", "violates", "proved"),
    [
        (1, ">=", 2, True, True),
        (2, ">=", 1, True, False),
        (1, ">=", 1, True, False),
        (1, ">", 1, True, True),
        (1, "==", 1, True, False),
        (1, "==", 2, True, True),
        (WIDE, ">=", arb(1.2), True, False),  # they overlap: nothing is sure
        (WIDE, "==", arb(1), True, False),
        (WIDE, "<=", 2, False, True),
        (WIDE, "<", arb(1.2), False, False),
        (fmpq(1, 3), "==", fmpq(2, 6), False, True),
        (arb("nan"), "<", 1, False, False),
        (arb("nan"), ">=", 1, True, False),
    ],
)
def test_a_comparison_is_proved_only_if_the_balls_are_apart(
    left, relation, right, violates, proved
):
    assert Certificate("", left, relation, right, violates).is_proved is proved


@pytest.mark.parametrize(
    ("left", "relation", "right", "message"),
    [
        (2, "≥", 1, "`relation` must be one of .*got '≥'"),  # it would count as refuted
        (1, "=>", 2, "`relation` must be one of .*got '=>'"),
        (0.05, ">=", arb(1.1).log(), "`left` must be a whole number, or an fmpq .*got 0.05"),
        (arb(1), ">=", np.float64(2), "`right` must be a whole number, or an fmpq"),
    ],
)
def test_what_proves_nothing_is_refused(left, relation, right, message):
    with pytest.raises(InputError, match=message):
        Certificate("", left, relation, right)


@pytest.mark.parametrize("name", [c.id for c in CLAIMS.values() if c.certificates])
def test_every_certificate_proves(name):
    certificates = CLAIMS[name].certificates()
    assert certificates
    assert all(certificate.is_proved for certificate in certificates)
    assert all(certificate.sides() for certificate in certificates)


def test_balls_contain_the_floating_point_paths():
    path = _balls.descent_margins(fmpq(1, 2), 50)
    m = 0.0
    for ball in path:
        assert abs(float(ball.mid()) - m) < 1e-13
        m += 0.5 / (1 + np.exp(m))
    m1, m2 = _balls.pair_descent(fmpq(19, 20), fmpq(3, 4), 2, 10, 1)[1]
    expected = interference.descent_step(0.0, 0.0, 10.0, 0.95, 0.75)
    assert (float(m1.mid()), float(m2.mid())) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("s", [fmpq(-50), fmpq(1, 2), fmpq(1), fmpq(10**6)])
def test_inverse_g_encloses_the_root_narrowly(s):
    with _balls.precision(40):
        m = _balls.inverse_g(s)
        assert (m + m.exp() - s).contains(0)
        assert m.rad() < arb(10) ** -30
    assert float(m.mid()) == pytest.approx(float(log_omega(int(s.p) / int(s.q))), abs=1e-13)


def test_maximum_needs_the_peak_and_finds_it():
    wave = lambda x: x * (2 - x)
    with _balls.precision(40):
        assert _balls.maximum(wave, fmpq(0), fmpq(3), (fmpq(1, 2), fmpq(3, 2))).contains(1)
        with pytest.raises(ArithmeticError):  # the larger peak lies outside the given bracket
            _balls.maximum(
                lambda x: x**4 - 2 * x**2 + x, fmpq(-1, 2), fmpq(2), (fmpq(1, 5), fmpq(2, 5))
            )


def test_certified_constants_are_those_of_the_theory():
    with _balls.precision(40):
        ratio = lambda m: (m + m.exp()) * (1 + m * (-m).exp()).log() / (m + m.exp()).log()
        top = _balls.maximum(ratio, fmpq(1, 20), fmpq(40), (fmpq(29, 10), fmpq(31, 10)))
        assert abs(float(top.mid()) - binary.CORRECTION_CONSTANT) < 1e-15
        root = _balls.isolate(lambda x: (x / 2).exp() - 1 - x, 2, 3)
        assert abs(float(root.mid()) - binary.LOG1P_THRESHOLD) < 1e-14
