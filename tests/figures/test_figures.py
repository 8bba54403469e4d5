"""Figures: every reference value reproduced, the rest by an account of its own, nothing cut off."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import xarray as xr
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

import engram
from engram import figures, plotting

SMALL = {
    "fig1": {"num": 50},
    "fig2": {"num": 50},
    "fig3": {"fine": 8},
    "fig4": {"num": 100, "draws": 8, "num_tokens": (3, 5), "dims": (2,)},
    "fig5": {"num": 100},
    "fig6": {"draws": 6},
    "fig7": {
        "dims": (8,), "alone_dim": 8, "alone_steps": 3, "alone_sequences": 8, "alone_length": 20,
        "steps": 3, "sequences": 8, "length": 20,
        "adam_sequences": 16, "adam_steps": 2, "adam_batch": 4, "shown": 16,
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def made():
    """Each figure's data once, on the authors' own grids and few draws."""
    found = {}

    def of(name):
        if name not in found:
            module = figures.module_of(name)
            settings = dataclasses.replace(module.SCALES["quick"], **SMALL[name])
            reports = []
            data = module.compute(settings, lambda *both: reports.append(both))
            assert reports[-1][0] == reports[-1][1]  # the progress bar reaches its end
            found[name] = data
        return found[name]

    return of


@pytest.mark.usefixtures("one_size")
@pytest.mark.parametrize("name", figures.FIGURES)
def test_every_reference_value_is_reproduced(made, name):
    module = figures.module_of(name)
    rows = module.compare(made(name))
    known = [row for row in rows if row.reference is not None]
    assert len(known) >= 4
    assert [row for row in rows if not row.is_ok] == []
    digits = 1e-5 if name == "fig7" else 30e-9  # trained in float32
    assert all(row.tolerance <= digits * max(1.0, abs(row.reference)) for row in known)
    assert all(module.findings(made(name)))


@pytest.mark.parametrize(
    ("name", "variable"),
    [("fig1", "plane_loss"), ("fig2", "loss"), ("fig3", "first_perfect"), ("fig4", "sgd_gamma"),
     ("fig5", "sharpness"), ("fig6", "margins")],
)  # fmt: skip
def test_a_wrong_value_fails_the_comparison(made, name, variable):
    data = made(name)
    for spoil in (1e-6, np.nan):
        moved = data.assign({variable: data[variable] + (1 if name == "fig3" else spoil)})
        assert not all(row.is_ok for row in figures.module_of(name).compare(moved))


OTHERS = {
    "fig1": {"correlations": (0.2,), "num": 30, "half_widths": (2.0,)},
    "fig2": {"learning_rates": (5.0, 40.0), "points": 20, "num": 30},
    "fig3": {"learning_rates": (2.0, 5.0), "fine": 2, "log_odds": (1.0, 2.0), "correlations": (0.5, 0.9),
             "log_odds_shown": 0, "correlation_shown": 1, "points": 40},
    "fig5": {"seeds": (9,), "num": 30, "points": 20},
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.settings if name == "fig2" else ()) for name in OTHERS],
)
def test_other_settings_are_not_compared_with_the_reference(name):
    module = figures.module_of(name)
    data = module.compute(dataclasses.replace(module.Settings(), **OTHERS[name]))
    assert all(row.reference is None for row in module.compare(data))
    assert all(module.findings(data))
    module.draw(data)


def test_findings_report_the_data(made):
    spikes = figures.module_of("fig2").findings(made("fig2"))
    assert spikes[0].startswith("η = 10 spikes to 1.348664 at t = 5 and ends at 0.054236")
    assert "perfect accuracy not reached in 34 steps" in spikes[1]
    assert figures.module_of("fig3").findings(made("fig3"))[0].startswith("114 of 1000 cells")
    risks = figures.module_of("fig4").findings(made("fig4"))
    assert "excess risk 0.2727" in risks[1]
    assert "it forgets 2 of 3 tokens (2, 3, from 1)" in risks[1]
    sharp = figures.module_of("fig5").findings(made("fig5"))
    assert sum("jumping to and fro" in line for line in sharp) == 1  # of the four runs one cycles


def test_nan_fails_the_comparison_without_a_reference():
    assert not figures.Comparison("x", np.nan, None).is_ok
    assert figures.Comparison("x", 1.0, None).is_ok


@pytest.mark.parametrize(
    "settings", ["[1]", '{"num": "x"}', '{"learning_rates": 3}', "{", '{"colour": 1}']
)
def test_invalid_settings_in_a_file_are_rejected(made, tmp_path, settings):
    figures.write_data(made("fig2").assign_attrs(settings=settings), tmp_path / "fig2.nc")
    with pytest.raises(ValueError, match="settings that fig2 does not take"):
        figures.compute_again(tmp_path / "fig2.nc")


@pytest.mark.parametrize("name", figures.FIGURES)
def test_nothing_is_cut_off_in_the_picture(made, name):
    figure = figures.module_of(name).draw(made(name))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    drawn = figure.get_tightbbox(canvas.get_renderer())  # of everything visible, in inches
    width, height = figure.get_size_inches()
    assert min(drawn.x0, drawn.y0) >= -0.01
    assert drawn.x1 <= width + 0.01
    assert drawn.y1 <= height + 0.01
    sizes = [text.get_fontsize() for text in figure.findobj(Text) if text.get_text()]
    assert min(sizes) >= 5.5  # points: legible in print at column width
    # Every panel that shows data says what its axes are, or shares them with its neighbour.
    labelled = [axes for axes in figure.axes if axes.get_xlabel() and axes.get_ylabel()]
    assert len(labelled) >= 2


@pytest.mark.parametrize("name", figures.FIGURES)
def test_data_is_labelled_and_survives_a_file(made, name, tmp_path):
    data = made(name)
    path = tmp_path / f"{name}.nc"
    figures.write_data(data, path)
    with xr.open_dataset(path, engine="h5netcdf") as read:
        xr.testing.assert_identical(read.load(), data)
    assert json.loads(data.attrs["settings"])
    for variable in data.data_vars:
        assert data[variable].attrs["long_name"]
        assert data[variable].attrs["units"]


def test_a_figure_is_computed_again_from_its_file(made, tmp_path):
    data = made("fig2")
    figures.write_data(data, tmp_path / "fig2.nc")
    xr.testing.assert_identical(figures.compute_again(tmp_path / "fig2.nc"), data)
    engram.two_tokens(0.5, 0.5).save(tmp_path / "problem.nc")
    with pytest.raises(ValueError, match="not the data of a figure"):
        figures.compute_again(tmp_path / "problem.nc")


def test_figure_4_agrees_with_a_search_over_all_angles_and_a_solver(made):
    data = made("fig4")
    for index in (2, 3):  # the draws whose results the reference does not hold
        case = figures.reference("fig4")["cases"][index]
        E, p = np.asarray(case["E"]), np.asarray(case["probabilities_f64"])
        z = (1 - 2 * np.asarray(case["targets"]))[:, None] * E  # right where γ z > 0
        here = data.isel(case=index)
        loss = lambda g, z=z, p=p: (p * np.logaddexp(0, -z @ g)).sum()
        slope = lambda g, z=z, p=p: -(p / (1 + np.exp(z @ g))) @ z
        best = scipy.optimize.minimize(loss, np.zeros(2), jac=slope, tol=1e-12)
        np.testing.assert_allclose(here.minimiser, best.x, atol=1e-6)
        normals = np.arctan2(z[:, 1], z[:, 0]) + np.pi / 2 * np.array([[1], [-1]])
        turns = np.sort(normals.ravel() % (2 * np.pi))
        middles = (turns + np.roll(turns, -1) + 2 * np.pi * (np.roll(turns, -1) < turns)) / 2
        rays = np.stack([np.cos(middles), np.sin(middles)])
        least = (p[:, None] * (z @ rays <= 0)).sum(0).min()
        assert float(here.least_error) == pytest.approx(least, abs=1e-12)
        excess = (p * (z @ best.x <= 0)).sum() - least
        assert float(here.excess_risk) == pytest.approx(excess, abs=1e-12)


def test_figure_5_agrees_with_the_dense_hessian(made):
    data = made("fig5")
    case = figures.reference("fig5")["cases"][1]  # whose results the reference does not hold
    problem = figures.problem_of(case)
    E, U, p, y = problem.inputs, problem.outputs, problem.probs, problem.targets

    def loss(W):
        w = E @ W.T @ U.T
        return (p * (jax.nn.logsumexp(w, axis=1) - w[jnp.arange(len(y)), y])).sum()

    with jax.enable_x64(True):
        hessian = jax.jit(jax.hessian(loss))
        u = problem.outputs[0] - problem.outputs[1]
        for rate, step in ((10.0, 0), (10.0, 34), (1.0, 20)):
            here = data.isel(case=1, step=step).sel(learning_rate=rate)
            W = np.outer(u / (u @ u), here.gamma.values)
            top = np.linalg.eigvalsh(np.asarray(hessian(W)).reshape(4, 4))[-1]
            assert float(here.sharpness) == pytest.approx(top, rel=1e-9)


def test_figure_6_agrees_with_a_textbook_loop(made):
    data = made("fig6")
    case = figures.reference("fig6")["cases"][2]  # whose results the reference does not hold
    E, U, p = (np.asarray(case[key]) for key in ("E", "U", "probabilities_f64"))
    for rate in (3.0, 10.0, 20.0):
        W = np.zeros((10, 10))
        for t in range(100):
            w = E @ W.T @ U.T
            m = np.diag(w) - np.where(np.eye(5), -np.inf, w).max(1)
            here = data.sel(dim=10, learning_rate=rate).isel(step=t)
            np.testing.assert_allclose(here.margins, m, rtol=1e-9, atol=1e-9)
            q = np.exp(w - w.max(1, keepdims=True))
            q /= q.sum(1, keepdims=True)
            W = W - rate * U.T @ (p[:, None] * (q - np.eye(5))).T @ E


def test_draws_do_not_depend_on_how_many_there_are(made):
    module = figures.module_of("fig6")
    fewer = module._over_draws(3, dataclasses.replace(module.Settings(), draws=3))
    ours = made("fig6").sel(dim=3).isel(draw=slice(0, 3))
    np.testing.assert_allclose(ours.drawn_final_loss, fewer.drawn_final_loss, rtol=1e-9)


def test_each_learning_rate_has_its_own_colour_and_mark():
    looks = [tuple(plotting.rate_style(rate).values()) for rate in (0.1, 1.0, 3.0, 10.0, 20.0)]
    assert len({colour for colour, _ in looks}) == len({mark for _, mark in looks}) == 5
    assert plotting.rate_style(10.0) == plotting.rate_style(10)
