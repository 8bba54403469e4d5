"""How often the likeliest token is forgotten: against Cover's count, the plane's Newton, `calibration`."""

import numpy as np
import pytest
import xarray as xr

from engram import capacity
from engram._checks import InputError
from engram.audits._independent import least_plane_error, plane_minimiser
from engram.capacity import _constraints, _forgetting, _minimiser


def problems(N, M, d, draws):
    return [_forgetting._draw(0, N, M, d, k, 1.0) for k in range(draws)]


@pytest.mark.parametrize("M", [2, 3])
def test_tokens_in_general_position_are_all_recalled_up_to_the_dimension(M):
    found = capacity.forgetting_rate((1, 2, 3), 3, num_classes=M, draws=15)
    assert (found.any_rate == 0).all()
    assert (found.rate == 0).all()
    assert (found.low == 0).all()
    # No event in n draws: Wilson's upper end is z^2 / (n + z^2).
    np.testing.assert_allclose(found.high, 1.96**2 / (15 + 1.96**2), rtol=1e-4)


def test_two_classes_forget_something_as_often_as_cover_cannot_store():
    N, d, draws = np.array([3, 6]), np.array([2, 3]), 100
    found = capacity.forgetting_rate(N, d, draws=draws)
    expected = 1 - np.stack([capacity.storage_probability(N, int(dim)) for dim in d], 1)
    error = np.sqrt(expected * (1 - expected) / draws)
    assert (np.abs(found.any_rate - expected) <= 4 * error + 1e-12).all()
    assert (found.num_unsolved == 0).all()
    assert (found.rate <= found.any_rate).all()


@pytest.mark.parametrize(("N", "M", "d"), [(10, 2, 2), (8, 3, 2), (3, 2, 1)])
def test_forgotten_is_what_calibration_forgets(N, M, d):
    calls = []
    found = capacity.forgetting_rate(
        N, d, num_classes=M, draws=40, progress=lambda done, total: calls.append((done, total))
    )
    expected = [capacity.calibration(problem).forgotten for problem in problems(N, M, d, 40)]
    assert found.rate.item() == np.mean([0 in forgotten for forgotten in expected])
    assert found.any_rate.item() == np.mean([len(forgotten) > 0 for forgotten in expected])
    assert calls == [(k + 1, 40) for k in range(40)]


def test_the_likeliest_of_forty_in_the_plane_is_seldom_forgotten():
    found = capacity.forgetting_rate(40, 2)
    drawn = problems(40, 2, 2, 200)
    z = np.stack([(1 - 2 * problem.labels)[:, None] * problem.inputs for problem in drawn])
    p = np.broadcast_to(drawn[0].probs, z.shape[:2])
    assert (least_plane_error(z, p[:, None, :]) > 0).all()  # so that all have a minimiser
    g = plane_minimiser(z, p, steps=12)
    assert found.rate.item() == np.mean((z[:, 0] * g).sum(1) <= 0)
    assert found.low < 0.03 < found.high
    assert found.high < 0.1


def test_a_cell_does_not_depend_on_the_others():
    alone = capacity.forgetting_rate(4, 2, draws=20, key=3)
    among = capacity.forgetting_rate([6, 4], (3, 2), draws=20, key=3)
    xr.testing.assert_identical(among.sel(num_tokens=[4], dim=[2]), alone)
    assert 0 < alone.any_rate.item() < 1
    assert alone.attrs == {"num_classes": 2, "exponent": 1.0, "draws": 20, "key": 3}


def test_the_likeliest_token_is_the_last_if_frequencies_rise():
    found = capacity.forgetting_rate(6, 2, exponent=-1.0, draws=60)
    drawn = [_forgetting._draw(0, 6, 2, 2, k, -1.0) for k in range(60)]
    expected = [5 in capacity.calibration(problem).forgotten for problem in drawn]
    assert found.rate.item() == np.mean(expected) > 0


def test_draws_that_are_not_certified_are_counted_and_left_out(monkeypatch):
    calls = iter(range(100))

    def sometimes(problem):
        k, best = next(calls), capacity.loss_minimiser(problem)
        if k % 4 == 3:
            raise ArithmeticError("the linear program did not end")
        return best if k % 4 == 0 else best._replace(**{("grad_norm", "decrement")[k % 2]: 1e-3})

    monkeypatch.setattr(_forgetting, "loss_minimiser", sometimes)
    found = capacity.forgetting_rate(5, 2, draws=40)
    expected = [
        len(capacity.calibration(problem).forgotten) > 0 for problem in problems(5, 2, 2, 40)
    ]
    assert found.num_unsolved.item() == 30
    assert found.any_rate.item() == np.mean(expected[::4])


def test_a_cell_without_certified_draws_says_nothing(monkeypatch):
    monkeypatch.setattr(_minimiser, "_MAX_STEPS", 1)
    monkeypatch.setattr(_minimiser, "_TRIAL_STEPS", 1)
    found = capacity.forgetting_rate(30, 2, draws=3)
    assert found.num_unsolved.item() == 3
    assert np.isnan(found.rate.item())
    assert (found.low.item(), found.high.item()) == pytest.approx((0.0, 1.0))


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("num_tokens", {"num_tokens": 0}),
        ("num_tokens", {"num_tokens": [3, 2.5]}),
        ("num_tokens", {"num_tokens": []}),
        ("dim", {"dim": 0}),
        ("dim", {"dim": "two"}),
        ("draws", {"draws": 0}),
        ("num_classes", {"num_classes": 1}),
        ("exponent", {"exponent": float("inf")}),
        ("key", {"key": -1}),
    ],
)
def test_bad_input_is_named(name, given):
    with pytest.raises(InputError, match=f"`{name}`"):
        capacity.forgetting_rate(**{"num_tokens": 3, "dim": 2, **given})


def test_a_minimiser_exists_unless_the_linear_program_finds_a_margin_that_can_grow():
    rng, seen = np.random.default_rng(0), set()
    for _ in range(60):
        N, M, d, k = map(int, rng.integers([1, 2, 1, 0], [9, 5, 4, 1000]))
        problem = _forgetting._draw(0, N, M, d, k, 1.0)
        growing, _ = _minimiser._recession(_constraints.constraints(problem).rows)
        found = capacity.loss_minimiser(problem)
        assert found.exists == (not growing.any())
        assert (found.loss == 0) == growing.all()
        seen.add((bool(growing.any()), bool(growing.all())))
    assert seen == {(False, False), (True, False), (True, True)}
