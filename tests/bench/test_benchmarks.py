"""What the bench compares: peers that compute the same, exponents, pictures of all rows."""

import numpy as np
import pytest

import engram
from engram._checks import InputError
from engram.bench import BENCHMARKS, Growth, Measured, draw_growth, draw_ratios, fit_exponent


def test_an_exact_power_law_has_its_exponent_and_no_error():
    sizes = np.array([10, 20, 80, 320])
    exponent, error = fit_exponent(sizes, 3.0 * sizes**1.7)
    assert exponent == pytest.approx(1.7, abs=1e-12)
    assert error == pytest.approx(0, abs=1e-12)


def test_the_error_of_an_exponent_covers_it():
    rng = np.random.default_rng(0)
    sizes = np.logspace(1, 4, 8)
    found = [fit_exponent(sizes, sizes * np.exp(0.1 * rng.standard_normal(8))) for _ in range(400)]
    away = [abs(exponent - 1) <= 2.45 * error for exponent, error in found]
    # 95 % of Student's t with six degrees of freedom; four standard deviations of 400 draws.
    assert abs(np.mean(away) - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 400)


def test_every_benchmark_names_its_peer():
    assert all(each.against or name == "transformer-paper" for name, each in BENCHMARKS.items())
    for name in ("two-tokens-hand", "memory-float64-hand", "huge-memory", "sharpness-32"):
        assert name in BENCHMARKS


def test_plain_loops_compute_what_engram_does():
    torch = pytest.importorskip("torch")
    from engram.bench._peers import torch_gradient, torch_loss

    problem = engram.gaussian(0, 7, 5, 4)
    W = np.random.default_rng(1).standard_normal((4, 4))
    ours = engram.memory.grad(problem, W)
    np.testing.assert_allclose(torch_loss(problem)(torch.tensor(W)), engram.memory.loss(problem, W))
    for by_hand in (False, True):
        weights = torch.tensor(W, requires_grad=not by_hand)
        theirs = torch_gradient(problem, by_hand=by_hand)(weights)
        np.testing.assert_allclose(theirs, ours, rtol=1e-12, atol=1e-14)


def test_pictures_have_a_bar_or_a_panel_for_each_row():
    row = Measured("a", "w", "peer", 3.0, 2.0, 1.5, None, 0.1, 0.1, None, None, "")
    slow, alone = [
        Measured("b", "w", "peer", 1.0, 2.0, 0.5, None, 0.1, 0.1, None, None, ""),
        Measured("c", "w", "", 1.0, None, None, None, 0.1, None, None, None, ""),
    ]
    axes = draw_ratios([row, slow, alone], "title").axes[0]
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([-0.5, 0.5])
    growth = Growth("a", "N", "d = 1", [1, 2, 4], [1.0, 2.0, 4.0], 1.0, 0.0, 1.0)
    panels = draw_growth([growth] * 4, "title").axes
    assert len(panels) == 4
    assert "1.00" in panels[0].get_legend().get_texts()[0].get_text()


def test_growth_has_benchmarks_of_its_own():
    from engram.cli._bench import bench

    options = dict(as_json=False, threads=1, repeats=1, only_list=False, plot=None)
    with pytest.raises(InputError, match="--growth"):
        bench(["flow"], growth=True, **options)
