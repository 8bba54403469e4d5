"""W need not be square: with zeros after the shorter embeddings it is, and nothing else changes."""

import jax
import numpy as np
import pytest

import engram
from engram import capacity, memory, particles, planes, theory
from engram._checks import InputError
from engram.memory._scores import outputs_first
from engram.simulation import choose_space

# Sums of the same products, in another order.
ROUNDING = {"rtol": 1e-12, "atol": 1e-13}
SHAPES = {"k < d": (5, 3, 4, 2), "k > d": (5, 3, 2, 4)}  # N, M, d, k


def make(N, M, d, k, seed=0):
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(N))
    return engram.Problem(
        rng.standard_normal((N, d)), rng.standard_normal((M, k)), probs, np.arange(N) % M
    )


def weights(problem, seed=1):
    return np.random.default_rng(seed).standard_normal(problem.zero_weights.shape)


def padded(problem, W):
    """The same in one common dimension."""
    size = max(problem.dim, problem.output_dim)
    widen = lambda rows: np.pad(rows, ((0, 0), (0, size - rows.shape[1])))
    square = engram.Problem(
        widen(problem.inputs), widen(problem.outputs), problem.probs, problem.targets
    )
    return square, np.pad(W, [(0, size - side) for side in W.shape])


@pytest.fixture(params=SHAPES)
def problem(request):
    return make(*SHAPES[request.param])


@pytest.mark.parametrize("layer_norm", [False, True])
def test_padding_with_zeros_changes_no_quantity(problem, layer_norm):
    W = weights(problem)
    square, V = padded(problem, W)
    for name in ("scores", "loss", "token_losses", "margins", "class_margins", "predict", "error_rate",
                 "recall_probs"):  # fmt: skip
        fn = getattr(memory, name)
        ours, theirs = fn(problem, W, layer_norm=layer_norm), fn(square, V, layer_norm=layer_norm)
        np.testing.assert_allclose(ours, theirs, **ROUNDING)
    k, d = W.shape
    G = memory.grad(square, V, layer_norm=layer_norm)
    np.testing.assert_allclose(
        memory.grad(problem, W, layer_norm=layer_norm), G[:k, :d], **ROUNDING
    )


def test_zeros_add_only_zeros_to_the_spectrum(problem):
    W = weights(problem)
    ours, theirs = memory.spectrum(problem, W), memory.spectrum(*padded(problem, W))
    assert len(ours) == W.size < len(theirs)
    np.testing.assert_allclose(theirs[: W.size], ours, atol=1e-12)
    np.testing.assert_allclose(theirs[W.size :], 0, atol=1e-12)
    assert memory.sharpness(problem, W) == pytest.approx(ours[0], rel=1e-9)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("layer_norm", [False, True])
def test_the_gradient_and_its_derivative_are_those_of_the_loss(problem, layer_norm):
    W, V = weights(problem), weights(problem, 2)
    loss = lambda W: memory.loss(problem, W, layer_norm=layer_norm)
    slope, change = jax.jvp(jax.grad(loss), (W,), (V,))
    np.testing.assert_allclose(memory.grad(problem, W, layer_norm=layer_norm), slope, **ROUNDING)
    np.testing.assert_allclose(memory.hvp(problem, W, V, layer_norm=layer_norm), change, atol=1e-12)


def test_a_stack_of_weights_is_mapped_over(problem):
    W = np.stack([weights(problem, seed) for seed in range(3)])
    projected = memory.project_on_updates(problem, W)
    for i in range(3):
        np.testing.assert_allclose(
            memory.margins(problem, W)[i], memory.margins(problem, W[i]), **ROUNDING
        )
        alone = memory.project_on_updates(problem, W[i])
        np.testing.assert_allclose(projected[i], alone, **ROUNDING)
    np.testing.assert_allclose(memory.scores(problem, W - projected).std(axis=2), 0, atol=1e-12)


def test_particles_give_back_the_weights(problem):
    W = weights(problem)
    w = particles.weights_to_scores(problem, W)
    np.testing.assert_allclose(w, memory.scores(problem, W), **ROUNDING)
    np.testing.assert_allclose(particles.scores_to_weights(problem, w, W), W, atol=1e-12)
    assert particles.sharpness(problem, w) == pytest.approx(memory.sharpness(problem, W), rel=1e-9)


DYNAMICS = {
    "descent": engram.GradientDescent(0.5, 40),
    "batches": engram.StochasticGradientDescent(0.5, 40, batch_size=2),
    "Adam": engram.PracticalDescent(engram.dynamics.adam(0.05), 40),
    "layer norm": engram.PracticalDescent(engram.dynamics.momentum(0.1), 40),
    "flow": engram.GradientFlow(np.linspace(0, 20, 5)),
}


# Each dynamics with one shape, and two of them with the other: gradients agree on both.
@pytest.mark.parametrize(
    ("shape", "name"),
    [*(("k > d", name) for name in DYNAMICS), ("k < d", "descent"), ("k < d", "layer norm")],
)
def test_runs_are_those_of_the_padded_problem(shape, name):
    problem = make(*SHAPES[shape])
    start = weights(problem)
    square, wide = padded(problem, start)
    record = ("loss", "margins", "weights", "effective_rank", "alignment")
    record = record if capacity.is_separable(problem) else record[:-1]
    how = {"space": "weights"}
    if name == "layer norm":
        how = {"system": {"kind": "memory", "layer_norm": True}}
    ours, theirs = (
        engram.simulate(what, DYNAMICS[name], start=W, record=record, key=0, **how)
        for what, W in ((problem, start), (square, wide))
    )
    k, d = start.shape
    assert dict(ours.weights.sizes) == {**ours.loss.sizes, "row": k, "col": d}
    theirs = theirs.isel(row=slice(k), col=slice(d))
    for each in (*record, "num_forgotten"):
        np.testing.assert_allclose(ours[each], theirs[each], rtol=1e-7, atol=1e-9)


def test_all_spaces_give_the_same_results():
    problem = make(5, 2, 2, 3)
    record = ("loss", "margins", "weights", "sharpness", "grad_norm")
    one, *others = (
        engram.simulate(
            problem, DYNAMICS["descent"], start=weights(problem), space=space, record=record
        )
        for space in ("weights", "particles", "margins")
    )
    for run in others:
        for name in record:
            np.testing.assert_allclose(run[name], one[name], rtol=1e-8, atol=1e-10)


def test_noise_on_the_entries_of_W_is_the_same_in_particles(problem):
    noise = engram.StochasticGradientFlow(np.linspace(0, 1, 5), noise_scale=0.3, time_step=0.05)
    runs = [
        engram.simulate(problem, noise, key=3, space=space, record=("scores", "weights"))
        for space in ("weights", "particles")
    ]
    np.testing.assert_allclose(runs[0].scores, runs[1].scores, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(runs[0].weights, runs[1].weights, rtol=1e-9, atol=1e-10)


def test_capacity_does_not_see_zeros(problem):
    square, _ = padded(problem, problem.zero_weights)
    k, d = problem.zero_weights.shape
    ours, theirs = capacity.calibration(problem), capacity.calibration(square)
    assert ours.minimiser.exists == theirs.minimiser.exists
    assert ours.minimiser.loss == pytest.approx(theirs.minimiser.loss, rel=1e-9)
    assert ours.least.error == pytest.approx(theirs.least.error, abs=1e-12)
    np.testing.assert_array_equal(ours.forgotten, theirs.forgotten)
    cut = theirs.minimiser.weights[:k, :d]
    np.testing.assert_allclose(ours.minimiser.weights, cut, rtol=1e-6, atol=1e-6)
    easy = make(3, 3, *(d, k), seed=2)
    assert capacity.is_separable(easy) == capacity.is_separable(padded(easy, easy.zero_weights)[0])


def test_long_training_takes_the_max_margin_direction():
    d, k = 5, 3
    problem = engram.Problem(np.eye(3, d), np.eye(3, k), [0.5, 0.3, 0.2], [0, 1, 2])
    V = capacity.max_margin(problem)
    assert V.shape == (k, d)
    limit = theory.multiclass.limit_direction(problem)
    np.testing.assert_allclose(V / np.linalg.norm(V), limit / np.linalg.norm(limit), atol=1e-6)
    run = engram.simulate(
        problem, engram.GradientFlow([0.0, 1e8]), record=("alignment", "singular_values")
    )
    assert float(run.alignment[-1]) > 0.99
    assert run.sizes["rank"] == min(d, k)


def test_two_classes_in_the_plane_may_have_outputs_of_any_dimension():
    problem = make(6, 2, 2, 3)
    plane = planes.memory_plane(problem)
    run = engram.simulate(
        problem, engram.GradientDescent(0.5, 20), record=("loss", "error", "weights")
    )
    at, hidden = plane.coordinates(problem, run.weights.values)
    assert np.abs(hidden).max() < 1e-12
    u = problem.outputs[0] - problem.outputs[1]
    np.testing.assert_allclose(at, u @ run.weights.values, atol=1e-12)
    first, second = (np.array([value, value + 1.0]) for value in at[-1])
    grid = engram.landscape(problem, plane, ("loss",), first=first, second=second)
    here = float(grid.loss[0, 0])
    assert here == pytest.approx(float(run.loss[-1]), rel=1e-12)
    regions = planes.error_regions(problem)
    angle = np.arctan2(at[-1, 1], at[-1, 0]) % (2 * np.pi)
    inside = ((angle - regions.begin) % (2 * np.pi)) < regions.end - regions.begin
    assert float(regions.error[inside.values][0]) == pytest.approx(float(run.error[-1]))
    sharp = planes.sharpness_along(problem, run.weights.values[-1:])
    expected = memory.sharpness(problem, run.weights.values[-1])
    assert sharp[0] == pytest.approx(float(expected), rel=1e-9)


def test_the_cheaper_product_comes_first():
    sizes = [1, 2, 3, 7, 50]
    shapes = [(N, M, d) for N in sizes for M in sizes[1:] for d in (1, 4)]
    rule = lambda *shape: outputs_first(jax.tree.map(np.asarray, make(*shape)))
    assert all(rule(N, M, d, d) == (2 * M < N) for N, M, d in shapes)
    assert rule(20, 20, 2, 500)
    assert not rule(20, 20, 500, 2)
    descent = engram.GradientDescent(1.0, 1)
    assert choose_space(make(20, 20, 2, 2), descent, "auto") == "weights"
    assert choose_space(make(20, 20, 500, 500), descent, "auto") == "particles"


def test_starts_of_another_shape_are_refused(problem):
    k, d = problem.zero_weights.shape
    with pytest.raises(InputError, match=rf"`start` must be .*shape \(k, d\) = \({k}, {d}\), got"):
        engram.simulate(problem, DYNAMICS["descent"], start=np.zeros((d, k)))
    with pytest.raises(InputError, match=rf"shape \(k, d\) = \({k}, {d}\), got shape \({d}, {k}\)"):
        engram.simulate(memory.MemorySystem(problem), DYNAMICS["descent"], start=np.zeros((d, k)))
    with pytest.raises(InputError, match=rf"`W` must have shape \(k, d\) = \({k}, {d}\)"):
        particles.weights_to_scores(problem, np.zeros((d, k)))
    with pytest.raises(InputError, match=rf"`num` must be at most k d = {k * d}"):
        memory.top_eigenpairs(problem, problem.zero_weights, k * d + 1)


@pytest.mark.parametrize("suffix", [".npz", ".nc"])
def test_files_hold_rectangular_problems(problem, suffix, tmp_path):
    problem.save(tmp_path / f"p{suffix}")
    back = engram.Problem.load(tmp_path / f"p{suffix}")
    np.testing.assert_array_equal(back.inputs, problem.inputs)
    np.testing.assert_array_equal(back.outputs, problem.outputs)


def test_a_run_from_a_file_can_be_run_again(problem, tmp_path, here):
    problem.save(tmp_path / "p.nc")
    options = ("-r", 1, "-t", 20, "--start-scale", 0.5, "--plot", tmp_path / "run.png")
    done = here(
        "simulate", "--problem-file", tmp_path / "p.nc", *options, "--out", tmp_path / "run.nc"
    )
    assert done.returncode == 0, done.stderr
    done = here("simulate", tmp_path / "run.nc")
    assert (done.returncode, "bit for bit" in done.stdout) == (0, True), done.stdout + done.stderr


def test_sweeps_start_from_weights_of_its_shape(problem, tmp_path):
    problem.save(tmp_path / "p.npz")
    spec = {
        "problem": {"family": "file", "path": str(tmp_path / "p.npz")},
        "dynamics": {"kind": "gd", "steps": 20},
        "run": {"start_scale": 0.5},
        "sweep": {"observables": ["final_loss"]},
        "axes": {"learning_rate": [0.0, 0.5]},
    }
    found = engram.sweep(spec)
    assert np.isfinite(found.final_loss).all()
    assert float(found.final_loss[1]) < float(found.final_loss[0])
