"""The authors' settings give the authors' numbers (recomputed in float64)."""

import numpy as np
import pytest

import engram
import references
from engram import memory, particles

FIG2 = references.load("fig2")


@pytest.mark.parametrize("run", FIG2["runs"], ids=lambda run: f"eta={run['lr']}")
def test_figure_2_step_by_step(run):
    problem = engram.two_tokens(FIG2["alpha"], FIG2["p1"])
    W, w = np.zeros((2, 2)), np.zeros((2, 2))
    for t in range(FIG2["steps"]):
        # Rounding grows along an oscillating path, slowly: 35 steps keep 11 digits.
        assert memory.loss(problem, W) == pytest.approx(run["loss_f64"][t], rel=1e-11)
        assert memory.error_rate(problem, W) == run["err01_f64"][t]
        np.testing.assert_allclose(memory.margins(problem, W), run["margins_f64"][t], rtol=1e-10)
        gamma = W.T[:, 0] - W.T[:, 1]  # the authors' W is the transpose of ours
        np.testing.assert_allclose(gamma, run["gamma_f64"][t], rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(particles.margins(problem, w), run["margins_f64"][t], rtol=1e-10)
        W = W - run["lr"] * memory.grad(problem, W)
        w = w + run["lr"] * particles.force(problem, w)


FIG6 = [case for case in references.load("fig6")["cases"] if "runs" in case]


@pytest.mark.parametrize("case", FIG6, ids=lambda case: f"d={case['d']}")
def test_figure_6_first_step(case):
    problem = references.problem_of(case)
    zero = np.zeros((problem.dim, problem.dim))
    for run in case["runs"]:
        W = zero - run["lr"] * memory.grad(problem, zero)
        for t, weights in enumerate((zero, W)):
            assert memory.loss(problem, weights) == pytest.approx(run["loss_f64"][t], rel=1e-12)
            assert memory.error_rate(problem, weights) == pytest.approx(run["err01_f64"][t])
            np.testing.assert_allclose(
                memory.margins(problem, weights), run["margins_f64"][t], rtol=1e-11, atol=1e-13
            )
            assert memory.sharpness(problem, weights) == pytest.approx(
                run["sharpness_f64"][t], rel=1e-9
            )
