"""Capacity after training: first tokens, lists, the best W as a bound, and the study at a tiny size."""

import re
import runpy
from pathlib import Path

import jax
import numpy as np
import pytest
from scipy.stats import norm

import engram
from engram import capacity
from engram._errors import InputError
from engram._precision import in_double, make_key
from engram.capacity._trained import FirstTokens, ListedTokens
from engram.memory import MemorySystem
from engram.problem import sphere_rows
from engram.theory import scaling


def test_first_tokens_move_as_a_memory_of_their_own():
    rng = np.random.default_rng(0)
    E, U, W = rng.normal(size=(9, 3)), rng.normal(size=(9, 3)), rng.normal(size=(3, 3))
    law = np.full(9, 1 / 9)
    first = in_double(FirstTokens)(MemorySystem(engram.Problem(E, U, law, np.arange(9))), 5)
    alone = MemorySystem(engram.Problem(E[:5], U[:5], np.full(5, 1 / 5), np.arange(5)))
    np.testing.assert_allclose(first.grad(W), alone.grad(W), rtol=1e-10, atol=1e-14)
    recalled = (E[:5] @ W.T @ U[:5].T).argmax(1) == np.arange(5)
    assert in_double(first.recalled)(W) == pytest.approx(recalled.mean())


def test_the_margin_on_a_list_is_that_over_the_mean_of_the_strongest():
    rng = np.random.default_rng(1)
    E, U, W = rng.normal(size=(9, 4)), rng.normal(size=(9, 4)), rng.normal(size=(4, 4))
    problem = engram.Problem(E, U, np.full(9, 1 / 9), np.arange(9))
    first = in_double(FirstTokens)(MemorySystem(problem), 9)
    margins = in_double(ListedTokens(first, 0.25).margins)  # two of the eight others
    w = E @ W.T @ U.T
    others = -np.sort(-w[~np.eye(9, dtype=bool)].reshape(9, 8), axis=1)
    exact = np.diag(w) - others[:, :2].mean(1)
    # At the second of the others the margin is exact, elsewhere it is less.
    best = margins({"memory": W, "level": others[:, 1]})
    np.testing.assert_allclose(best, exact, atol=1e-12)
    for shift in (-0.5, 0.5):
        assert (margins({"memory": W, "level": others[:, 1] + shift}) <= exact + 1e-12).all()


def test_the_cost_of_a_list_is_a_distance():
    for share in (0.02, 0.1, 0.5):
        g = norm.ppf((np.arange(10**6) + 0.5) / 10**6)
        t = g[g > norm.isf(share)].mean()
        cost = scaling.list_parameters(share)
        assert cost == pytest.approx((np.maximum(t - g, 0) ** 2).mean(), rel=1e-3)
    # Lists of one in N cost what the largest score costs, in the limit of many classes.
    ratios = [
        scaling.list_parameters(1 / N) / scaling.parameters_per_token(N) for N in (10**3, 10**6)
    ]
    assert 1 < ratios[1] < ratios[0] < 1.6
    with pytest.raises(ValueError, match="share"):
        scaling.list_parameters(1.0)


def test_training_recalls_no_more_than_the_best_matrix():
    d, most, draws = 3, 12, 3
    numbers = capacity.trained_capacity(d, accuracy=1.0, steps=60, draws=draws, most=most)

    @in_double
    def draw(key):
        keys = jax.random.split(key, 3)
        return sphere_rows(keys[0], most, d), sphere_rows(keys[1], most, d)

    keys = in_double(lambda: list(jax.random.split(make_key(0), draws)))()
    best = [capacity.num_stored(*map(np.asarray, draw(key))) for key in keys]
    assert (numbers.stored.values <= best).all()
    assert (numbers.stored.values >= 2).all()
    assert int(numbers.parameters) == 9


def test_what_is_recalled_to_the_last_is_not_a_capacity():
    assert np.isnan(capacity.trained_capacity(6, steps=60, draws=1, most=3).stored.values).all()
    with pytest.raises(InputError, match="`accuracy`"):
        capacity.trained_capacity(3, accuracy=1.5)


def test_the_study_at_a_tiny_size():
    result = engram.study("capacity", tiny=True)
    kinds = {part.attrs["kind"] for part in result.data.values()}
    assert kinds == {"best", "linear", "list", "network"}
    rows = {row.quantity: row for row in result.rows}
    listed = rows["parameters over N, lists of 0.25 N, d = 4"]
    assert listed.reference == pytest.approx(scaling.list_parameters(0.25))
    known = [name for name, row in rows.items() if row.reference is not None and "log N" in name]
    assert known == []  # 1.3 was measured at much larger dimensions
    assert "parameters over N log N, learnt W, 99%, carried to d = 256 by the law" in rows


def test_the_example_prints_what_it_says(capsys):
    runpy.run_path(str(Path(__file__).parents[2] / "examples" / "study_capacity.py"))
    assert re.search(r"(?s)on lists of a quarter: .* by the law 24.9", capsys.readouterr().out)
