"""Which steps are recorded, and how many may be asked for."""

import numpy as np
import pytest

from engram._checks import InputError
from engram.simulation import When, log_spaced


@pytest.mark.parametrize(
    ("steps", "every", "points", "said"),
    [
        (10**30, None, None, r"`steps` must be at most 2\*\*53, got 1000000000"),
        (100, None, 2**32, "`points` = 4294967296 asks for 4294967296 records"),
        (2**50, 1, None, "`every` = 1 asks for 1125899906842624 records"),
    ],
)
def test_too_many_records_are_refused(steps, every, points, said):
    with pytest.raises(InputError, match=said):
        When(every=every, points=points).steps(steps)


def test_steps_of_2_to_the_53_are_the_limit():
    for steps in (0, 1, 10**6, 2**53):
        chosen = log_spaced(steps)
        assert chosen[0] == 0
        assert chosen[-1] == steps
        assert (np.diff(chosen) > 0).all()
