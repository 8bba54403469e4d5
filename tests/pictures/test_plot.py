"""Pictures: what is drawn is the data, scales are shared, zero is in the middle, and nothing leaks."""

import matplotlib
import numpy as np
import pytest
import xarray as xr
from matplotlib.collections import PolyCollection, QuadMesh
from matplotlib.colors import CenteredNorm, to_rgb
from matplotlib.text import Text

import engram
from engram import planes, plotting
from engram._checks import InputError
from engram.pictures import _series
from engram.pictures._plane import plane_of

PAIR = engram.two_tokens(0.95, 0.75)
RATES, CORRELATIONS = np.geomspace(0.5, 20, 5).tolist(), [0.1, 0.5, 0.9]


@pytest.fixture(scope="module")
def run():
    record = ("loss", "error", "margins", "weights")
    return engram.simulate(PAIR, engram.GradientDescent(10.0, 34), record=record)


@pytest.fixture(scope="module")
def comparison():
    descents = {
        name: engram.GradientDescent(rate, 34) for name, rate in (("_fast", 10.0), ("slow", 1.0))
    }
    return engram.compare(PAIR, descents, num=20)  # fmt: skip


@pytest.fixture(scope="module")
def sweep():
    spec = {
        "problem": {"family": "two"},
        "dynamics": {"kind": "gd", "steps": 128},
        "sweep": {"observables": ["first_perfect", "likeliest_margin", "convergence"]},
    }
    axes = {"p1": [0.6, 0.75, 0.9], "correlation": CORRELATIONS, "learning_rate": RATES}
    return engram.sweep(spec, axes)


@pytest.fixture(scope="module")
def training():
    config = engram.transformer.Config(dim=8, sequences=8, length=20)
    return engram.transformer.train(config, [engram.GradientDescent(r, 3) for r in (1.0, 5.0)])


def titles(figure):
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def curve(axes, label):
    (line,) = (line for line in axes.lines if line.get_label() == label)
    return line.get_ydata()


def test_notebooks_show_all_four_and_nothing_leaks(run, comparison, sweep, training):
    settings = dict(matplotlib.rcParams)
    managers = matplotlib._pylab_helpers.Gcf.figs.copy()
    for data in (run, comparison, sweep, training):
        figure = engram.plot(data)
        assert figure._repr_png_()[:8] == b"\x89PNG\r\n\x1a\n"
        assert not any(
            "eq:" in text or "on file" in text or "nan" in text for text in titles(figure)
        )
        assert min(text.get_fontsize() for text in figure.findobj(Text) if text.get_text()) >= 5.5
    assert dict(matplotlib.rcParams) == settings
    assert matplotlib._pylab_helpers.Gcf.figs == managers


def test_a_run_is_drawn_as_recorded(run):
    loss, error, margins, plane = engram.plot(run).axes
    np.testing.assert_array_equal(loss.lines[0].get_ydata(), run.loss)
    np.testing.assert_array_equal(error.lines[0].get_ydata(), run.error)
    for token in (0, 1):
        np.testing.assert_array_equal(curve(margins, f"token {token}"), run.margins[:, token])
    path, _ = planes.memory_plane(PAIR).coordinates(PAIR, run.weights.values)
    np.testing.assert_allclose(plane.lines[0].get_xydata(), path, atol=1e-12)
    spikes = curve(loss, "spikes")
    np.testing.assert_array_equal(spikes, run.loss.sel(step=run.spike_step.values.astype(int)))


def test_titles_say_what_moved(run):
    title = engram.plot(run).get_suptitle()
    assert title == r"Gradient descent, $\eta=10$, 34 steps: 2 tokens, 2 classes, $d=2$"
    assert engram.plot(run, title="mine").get_suptitle() == "mine"


def test_titles_fit_into_narrow_pictures():
    descent = engram.StochasticGradientDescent(3.0, 20, batch_size=4)
    figure = engram.plot(engram.simulate(PAIR, descent, key=0, record="loss", events=False))
    figure.draw_without_rendering()
    title = figure._suptitle.get_window_extent()
    assert 0 <= title.x0 < title.x1 <= figure.bbox.width
    assert title.y0 >= figure.axes[0].get_window_extent().y1


@pytest.mark.parametrize("seed", [0, 3])
def test_the_plane_is_that_of_the_landscape(seed):
    problem = engram.on_sphere(seed, 5, 2, 2)
    record = ("loss", "error", "margins", "weights")
    run = engram.simulate(problem, engram.GradientDescent(2.0, 12), record=record, events=False)
    ours, grid = plane_of(run), np.linspace(-3, 3, 7)
    theirs = engram.landscape(problem, planes.memory_plane(problem), first=grid, second=grid)
    np.testing.assert_allclose(ours.loss(grid, grid), theirs.loss, rtol=1e-12)
    begin, end, error = ours.sectors()
    regions = planes.error_regions(problem)
    np.testing.assert_allclose(np.sort(begin), np.sort(regions.begin % (2 * np.pi)), atol=1e-12)
    np.testing.assert_allclose((end - begin) @ error, (regions.end - regions.begin) @ regions.error)
    # Without weights the path follows from the margins.
    np.testing.assert_allclose(plane_of(run.drop_vars("weights")).path, ours.path, atol=1e-9)


def test_no_plane_where_something_would_be_hidden():
    problem = engram.on_sphere(0, 5, 3, 2)
    run = engram.simulate(problem, engram.GradientDescent(2.0, 3), events=False)
    assert plane_of(run) is None
    noisy = engram.Problem(PAIR.inputs, PAIR.outputs, PAIR.probs, [[0.9, 0.1], [0.2, 0.8]])
    run = engram.simulate(noisy, engram.GradientDescent(2.0, 3), events=False)
    assert plane_of(run) is None
    assert len(engram.plot(run).axes) == 3


def test_many_margins_are_bands_by_frequency():
    problem = engram.on_sphere(0, 40, 3, 6)
    run = engram.simulate(problem, engram.GradientDescent(5.0, 12), events=False)
    groups = _series.frequency_groups(run.margins)
    assert sorted(np.concatenate(list(groups.values()))) == list(range(40))
    lowest = [run.probs.values[tokens].min() for tokens in groups.values()]
    highest = [run.probs.values[tokens].max() for tokens in groups.values()]
    assert all(low >= high for low, high in zip(lowest, highest[1:], strict=False))
    margins = engram.plot(run).axes[2]
    for label, tokens in groups.items():
        median = np.median(run.margins.values[:, tokens], axis=1)
        np.testing.assert_allclose(curve(margins, label), median)
    assert len([each for each in margins.collections if isinstance(each, PolyCollection)]) == 4
    assert len(margins.lines) == 1 + len(groups)  # the zero and the medians
    even = run.assign_coords(probs=("token", np.full(40, 1 / 40)))
    assert len(_series.frequency_groups(even.margins)) == 1


def test_a_run_that_overflows_is_drawn():
    margins = np.zeros((3, 20))
    margins[2] = np.nan
    problem = engram.on_sphere(0, 20, 3, 6)
    run = engram.simulate(problem, engram.GradientDescent(5.0, 2), events=False)
    engram.plot(run.assign(margins=(("step", "token"), margins)))._repr_png_()


def meshes(figure):
    return [each for axes in figure.axes for each in axes.collections if isinstance(each, QuadMesh)]


def test_panels_of_a_sweep_are_its_slices_on_one_scale(sweep):
    figure = engram.plot(sweep)
    panels = [mesh for mesh in meshes(figure) if mesh.get_array().size == 15]
    assert len({id(mesh.norm) for mesh in panels}) == 1
    for k, mesh in enumerate(panels):
        slice_ = sweep.first_perfect.isel(p1=k).transpose("learning_rate", "correlation")
        drawn = np.ma.filled(mesh.get_array().astype(float), np.nan)
        np.testing.assert_array_equal(drawn.ravel(), np.maximum(slice_, 1).values.ravel())
        assert figure.axes[k].get_title() == f"$p_1={sweep.p1.values[k]:g}$"
    assert panels[0].norm.vmax >= np.nanmax(sweep.first_perfect)


def test_panels_of_a_sweep_are_of_its_shortest_axis(sweep):
    two = sweep.isel(p1=slice(2)).transpose("learning_rate", "correlation", "p1")
    assert [axes.get_title() for axes in engram.plot(two).axes][:2] == [
        f"$p_1={value:g}$" for value in two.p1.values
    ]


def test_maps_of_margins_have_zero_in_the_middle(sweep):
    figure = engram.plot(sweep, value="likeliest_margin", at={"p1": 0.76})
    norm = meshes(figure)[0].norm
    assert isinstance(norm, CenteredNorm)
    assert norm.vcenter == 0
    assert norm.halfrange == pytest.approx(np.abs(sweep.likeliest_margin.sel(p1=0.75)).max())
    assert figure.get_label() == "p1 = 0.75"


def test_slices_curves_and_classes(sweep):
    at = {"p1": 0.6, "correlation": 0.5}
    axes = engram.plot(sweep, at=at).axes[0]
    wanted = sweep.first_perfect.sel(at)
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), wanted)
    assert axes.get_xlabel() == r"learning rate $\eta$"
    bar = engram.plot(sweep, value="convergence", at={"p1": 0.6}).axes[-1]
    assert [tick.get_text() for tick in bar.get_yticklabels()] == [*engram.sweeps.CLASSES]
    curve_of_classes = engram.plot(sweep, value="convergence", at=at).axes[0]
    np.testing.assert_array_equal(curve_of_classes.lines[0].get_ydata(), sweep.convergence.sel(at))
    shown = [tick.get_text() for tick in curve_of_classes.get_yticklabels()]
    assert shown == [*engram.sweeps.CLASSES]


@pytest.mark.parametrize("reached", [np.nan, 0.0], ids=["never", "at once"])
def test_a_curve_without_a_step_above_zero_is_drawn(sweep, reached):
    flat = sweep.assign(first_perfect=xr.full_like(sweep.first_perfect, reached))
    engram.plot(flat, at={"p1": 0.6, "correlation": 0.5})._repr_png_()


def test_theory_is_drawn_where_it_is_zero(sweep):
    line = engram.sweeps.boundary(sweep, "one_step")
    figure = engram.plot(sweep, lines=[line])
    for axes, p1 in zip(figure.axes, sweep.p1.values, strict=False):
        (drawn,) = [each for each in axes.collections if not isinstance(each, QuadMesh)]
        places = np.concatenate([path.vertices[:, 0] for path in drawn.get_paths()])
        np.testing.assert_allclose(places, (1 - p1) / p1, atol=1e-9)


def test_lines_of_theory_differ_in_style(sweep):
    lines = [engram.sweeps.boundary(sweep, "one_step")] * 2
    keys = engram.plot(sweep, lines=lines, at={"p1": 0.6}).axes[0].get_legend().get_lines()
    assert [key.get_linestyle() for key in keys] == ["-", "--"]


def test_a_sweep_of_an_own_function_and_its_means():
    own = engram.sweep(lambda a, seed: {"y": a + seed}, {"a": [1.0, 2.0, 3.0], "seed": [0, 1]})
    figure = engram.plot(own)
    np.testing.assert_allclose(figure.axes[0].lines[0].get_ydata(), [1.5, 2.5, 3.5])
    assert figure.get_label() == "mean over 2 seeds"


def test_a_comparison_shares_its_scales(comparison):
    figure = engram.plot(comparison)
    loss, _, fast, slow = figure.axes
    for k in (0, 1):
        np.testing.assert_array_equal(loss.lines[k].get_ydata(), comparison.loss[k])
    assert fast.get_ylim() == slow.get_ylim()
    assert [text.get_text() for text in loss.get_legend().get_texts()] == [" _fast", "slow"]


def test_ticks_of_losses_fit_all_curves_of_the_panel():
    axes = plotting.new_figure(3, 3).subplots()
    for highest in (10.0, 1e6):
        _series.draw_loss(axes, xr.DataArray([1.0, highest], [("step", [0, 1])]))
        low, high = axes.get_ylim()
        assert axes.get_yscale() == "log"
        assert np.count_nonzero((low <= axes.get_yticks()) & (axes.get_yticks() <= high)) < 9
    _series.draw_loss(axes, xr.DataArray([0.0, 1.0], [("step", [0, 1])]))
    assert axes.get_yscale() == "linear"


def test_long_words_of_an_observable_fit_beside_its_panel():
    record = ("effective_rank",)
    run = engram.simulate(PAIR, engram.GradientDescent(10.0, 34), record=record, events=False)
    figure = engram.plot(run)
    figure.draw_without_rendering()
    label = figure.axes[0].yaxis.label.get_window_extent()
    assert 0 <= label.y0 < label.y1 <= figure.bbox.height


def test_a_training_is_its_log(training):
    figure = engram.plot(training)
    log = training.log
    for k in (0, 1):
        np.testing.assert_array_equal(figure.axes[0].lines[k].get_ydata(), log.loss[:, k])
    best = int(log.loss[-1].argmin("run"))
    share = (log.margins_wk2.isel(run=best) > 0).mean("trigger")
    np.testing.assert_allclose(figure.axes[2].lines[1].get_ydata(), share)
    assert titles(engram.plot(log)) == titles(figure)
    sequences = "Sequences(num=8, length=20, num_tokens=64)"
    assert repr(training) == f"Training(runs=2, steps=3, sequences={sequences})"


@pytest.mark.parametrize("count", [2, 7, 12])
def test_colours_differ(count):
    colours = np.array([to_rgb(colour) for colour in _series.colours_of(count)])
    apart = np.abs(colours[:, None] - colours[None]).sum(-1) + np.eye(count)
    assert apart.min() > 0.1


def test_plot_refuses_data_of_unknown_kind(run):
    with pytest.raises(InputError, match="`data` must be a run, .* got dict"):
        engram.plot({"loss": 1})
    with pytest.raises(InputError, match="does not say what it is"):
        engram.plot(run.drop_attrs())
    with pytest.raises(InputError, match="`x` is for sweeps, and this is a run"):
        engram.plot(run, x="step")


def test_wrong_axes_are_refused(sweep):
    with pytest.raises(InputError, match="`value` must be among first_perfect"):
        engram.plot(sweep, value="height")
    with pytest.raises(InputError, match="`colour` is not an axis"):
        engram.plot(sweep, x="colour")
    with pytest.raises(InputError, match="must name different axes"):
        engram.plot(sweep, x="p1", at={"p1": 0.6})
    with pytest.raises(InputError, match="must leave an axis"):
        engram.plot(sweep, at={"p1": 0.6, "correlation": 0.5, "learning_rate": 1.0})


def test_names_that_files_hold_are_in_the_title(tmp_path):
    PAIR.save(tmp_path / "cities.npz")
    spec = {
        "problem": {"family": "file", "path": str(tmp_path / "cities.npz")},
        "dynamics": {"kind": "gd", "steps": 20},
        "sweep": {"observables": ["final_loss"]},
    }
    title = engram.plot(engram.sweep(spec, {"learning_rate": RATES})).get_suptitle()
    assert title == "Last loss\ngradient descent, 20 steps; cities.npz"
