"""Landscapes: the grid agrees with the memory point by point, and with the reference of Figure 1."""

import numpy as np
import pytest

import cases
import engram
from engram import memory, planes
from engram._checks import InputError


@pytest.mark.parametrize("name", ["two tokens", "sphere, d > N", "not separable", "k < d"])
def test_every_quantity_is_that_of_the_memory(name):
    problem = cases.PROBLEMS[name]
    rng = np.random.default_rng(0)
    V, U, W = rng.normal(size=(3, *problem.zero_weights.shape))
    plane = planes.plane_through(V, U, origin=W)
    grid = (-2.0, 2.0, 3)
    found = engram.landscape(problem, plane, planes.QUANTITIES, first=grid, second=grid)
    h = 1e-5
    for point in found.stack(at=("second", "first")).transpose("at", ...).at.values:
        b, a = point
        here = found.sel(first=a, second=b)
        at = plane.weights(a, b)
        assert float(here.loss) == pytest.approx(float(memory.loss(problem, at)), rel=1e-12)
        assert float(here.error) == pytest.approx(float(memory.error_rate(problem, at)), abs=1e-12)
        assert float(here.sharpness) == pytest.approx(
            float(memory.sharpness(problem, at)), rel=1e-6, abs=1e-12
        )
        slope = float(memory.loss(problem, at + h * V)) - float(memory.loss(problem, at - h * V))
        assert float(here.gradient[0]) == pytest.approx(slope / (2 * h), abs=1e-6)
        assert (np.diff(here.eigenvalues) <= 1e-12).all()


def test_the_plane_of_two_dimensions_shows_the_loss_of_the_trajectory():
    problem = engram.two_tokens(0.95, 0.75)
    run = engram.simulate(problem, engram.GradientDescent(10.0, 20), record=("loss", "weights"))
    plane = planes.memory_plane(problem)
    at, hidden = plane.coordinates(problem, run.weights.values)
    assert np.abs(hidden).max() < 1e-12
    u = problem.outputs[0] - problem.outputs[1]
    assert at == pytest.approx(
        u @ run.weights.values, abs=1e-12
    )  # eq:fig-cor, their pictures' sign
    for (a, b), loss in zip(at, run.loss.values, strict=True):
        assert float(memory.loss(problem, plane.weights(a, b))) == pytest.approx(
            float(loss), rel=1e-12
        )


def test_sectors_have_the_error_of_their_points():
    rng = np.random.default_rng(1)
    for N in (1, 2, 5, 12):
        problem = engram.Problem(
            rng.normal(size=(N, 2)), rng.normal(size=(2, 2)), rng.dirichlet(np.ones(N)), rng.integers(0, 2, N)
        )  # fmt: skip
        plane, regions = planes.memory_plane(problem), planes.error_regions(problem)
        assert float((regions.end - regions.begin).sum()) == pytest.approx(2 * np.pi)
        for share in (0.01, 0.5, 0.99):
            angle = regions.begin + share * (regions.end - regions.begin)
            for t, error in zip(angle.values, regions.error.values, strict=True):
                W = plane.weights(np.cos(t), np.sin(t))
                assert memory.error_rate(problem, W) == pytest.approx(error, abs=1e-12)
        assert float(regions.error.min()) == pytest.approx(engram.capacity.min_error(problem).error)


def test_principal_plane_holds_the_path_and_says_what_it_hides():
    problem = engram.on_sphere(0, 5, 5, 6)
    run = engram.simulate(problem, engram.GradientDescent(5.0, 60), record=("weights",))
    path = run.weights.values
    plane = planes.principal_plane(path)
    at, hidden = plane.coordinates(problem, path)
    assert at[-1] == pytest.approx([0, 0], abs=1e-10)
    assert hidden.max() < np.linalg.norm(path[-1] - path[0])
    assert hidden.max() > 1e-3  # a path in many dimensions does not lie in a plane, and it is said


def test_named_planes_contain_their_directions():
    problem = engram.on_sphere(0, 4, 4, 5)
    W = np.random.default_rng(0).normal(size=(5, 5))
    margin = planes.max_margin_plane(problem, W)
    at, hidden = margin.coordinates(problem, W)
    assert hidden == pytest.approx(0.0, abs=1e-10)
    np.testing.assert_allclose(margin.weights(*at), W, atol=1e-10)
    sharp = planes.curvature_plane(problem, W)
    curve = float((memory.hvp(problem, W, sharp.first) * sharp.first).sum())
    assert curve == pytest.approx(float(memory.sharpness(problem, W)), rel=1e-8)


def test_degenerate_planes_are_rejected():
    with pytest.raises(InputError, match="d = M = 2"):
        planes.memory_plane(engram.orthonormal(3, 3))
    with pytest.raises(InputError, match="parallel"):
        planes.plane_through(np.eye(2), 2 * np.eye(2))
    with pytest.raises(InputError, match="three points"):
        planes.principal_plane(np.zeros((2, 3, 3)))
    plane = planes.memory_plane(engram.two_tokens(0.5, 0.75))
    with pytest.raises(InputError, match="among loss"):
        engram.landscape(engram.two_tokens(0.5, 0.75), plane, ("height",))
    with pytest.raises(InputError, match="must increase"):
        engram.landscape(engram.two_tokens(0.5, 0.75), plane, first=[1.0, 0.0])


def test_curvature_keeps_its_digits_where_tokens_are_confidently_wrong():
    problem = engram.two_tokens(0.5, 0.75)
    plane = planes.memory_plane(problem)
    scale = np.linalg.solve(problem.inputs, [1.0, -1.0])  # margins (1, 1) of the two tokens
    for m in (-40.0, -30.0, 30.0, 40.0):
        x, y = m * scale
        found = engram.landscape(
            problem, plane, ("sharpness",), first=[x, x + 1], second=[y, y + 1]
        )
        exact = float(memory.sharpness(problem, plane.weights(x, y)))
        assert float(found.sharpness[0, 0]) == pytest.approx(exact, rel=1e-9)


def test_large_memories_use_lanczos_point_by_point():
    problem = engram.on_sphere(0, 30, 25, 20)
    rng = np.random.default_rng(0)
    plane = planes.plane_through(*rng.normal(size=(2, 20, 20)))
    found = engram.landscape(
        problem, plane, ("sharpness",), first=(-1.0, 1.0, 2), second=(-1.0, 1.0, 2)
    )
    exact = memory.sharpness(problem, plane.weights(1.0, -1.0))
    assert float(found.sharpness.sel(first=1.0, second=-1.0)) == pytest.approx(
        float(exact), rel=1e-6
    )


def test_a_token_that_nothing_reaches_keeps_to_the_first_class():
    problem = engram.Problem([[0, 0], [1, 0], [0.3, 0.9]], np.eye(2), [0.5, 0.3, 0.2], [0, 0, 1])
    regions, plane = planes.error_regions(problem), planes.memory_plane(problem)
    for begin, end, error in zip(
        *(regions[k].values for k in ("begin", "end", "error")), strict=True
    ):
        W = plane.weights(np.cos((begin + end) / 2), np.sin((begin + end) / 2))
        assert memory.error_rate(problem, W) == pytest.approx(error, abs=1e-12)


def test_counts_may_be_numpy_integers():
    problem = engram.two_tokens(0.5, 0.75)
    grid = (-1.0, 1.0, np.int64(7))
    found = engram.landscape(problem, planes.memory_plane(problem), first=grid, second=grid)
    assert found.sizes == {"second": 7, "first": 7}


@pytest.mark.parametrize(("num", "classes", "dim"), [(2, 2, 2), (7, 2, 2), (5, 5, 4)])
def test_sharpness_along_a_run_is_the_one_recorded(num, classes, dim):
    problem = engram.on_sphere(num, num, classes, dim)
    descent = engram.GradientDescent(8.0, 60)
    run = engram.simulate(problem, descent, record=("sharpness", "weights"))
    along = planes.sharpness_along(problem, run.weights.values)
    # Both solve a symmetric eigenproblem backward stably: a few rounding errors of the largest eigenvalue.
    np.testing.assert_allclose(along, run.sharpness.values, rtol=1e-12)


def test_where_nothing_can_move_the_sharpness_is_zero():
    problem = engram.Problem(np.zeros((1, 2)), np.eye(2), np.ones(1), np.zeros(1, int))
    assert planes.sharpness_along(problem, np.ones((3, 2, 2))).tolist() == [0.0, 0.0, 0.0]
    grid = planes.landscape(problem, planes.memory_plane(problem), ("sharpness",))
    assert (grid.sharpness == 0).all()
