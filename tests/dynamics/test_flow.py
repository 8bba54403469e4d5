"""What a flow refuses before it runs."""

import pytest

import engram
from engram._checks import InputError


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rtol": 0.0}, "`rtol` must be positive and finite, got 0.0"),
        ({"rtol": float("nan")}, "`rtol` must be positive and finite, got nan"),
        ({"atol": -1e-9}, "`atol` must be positive and finite, got -1e-09"),
        ({"atol": "small"}, "`atol` must be a number, got 'small'"),
        ({"max_steps": 0}, "`max_steps` must be at least 1, got 0"),
        ({"max_steps": 10**30}, r"`max_steps` must be below 2\*\*31"),
    ],
)
def test_settings_of_the_solver_are_checked(options, said):
    with pytest.raises(InputError, match=said):
        engram.GradientFlow([0.0, 1.0], **options)
