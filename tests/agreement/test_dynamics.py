"""Five dynamics, three spaces, closed forms: independent accounts of one path."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.stats

import cases
import engram
from engram import dynamics as D
from engram import memory, particles
from engram.special import log_omega

TIMES = np.linspace(0, 8, 5)
LINEAR = {
    "descent": engram.GradientDescent(2.0, 40),
    "scheduled descent": engram.GradientDescent(optax.exponential_decay(5.0, 10, 0.5), 40),
    "sgd": engram.StochasticGradientDescent(1.0, 40, 4),
    "stochastic flow": engram.StochasticGradientFlow(TIMES, 0.5, 4, time_step=0.05),
    "isotropic flow": engram.StochasticGradientFlow(TIMES, noise_scale=0.1, time_step=0.05),
    "momentum": engram.PracticalDescent(D.momentum(0.5), 40),
    "nesterov with decay": engram.PracticalDescent(D.nesterov(0.5), 40, weight_decay=0.01),
    "normalised": engram.PracticalDescent(D.normalised(0.3), 40),
    "flow": engram.GradientFlow(TIMES),
}


# Every dynamics on one problem, and each kind of problem with dynamics that read it differently: gradients
# agree on all of them (test_memory_particles), and a dynamics sees nothing else.
PAIRS = [(kind, "sphere, d < N < M") for kind in LINEAR]
PAIRS += [(kind, "noisy targets") for kind in ("sgd", "stochastic flow")]
PAIRS += [("momentum", "sphere, d > N")]


@pytest.mark.parametrize(("kind", "name"), PAIRS, ids=str)
def test_particles_move_as_weights_do(kind, name):
    problem = cases.PROBLEMS[name]
    start = cases.weights(problem, 0.3)
    options = {"start": start, "key": 0, "record": ("scores",), "events": False}
    one, two = (
        engram.simulate(problem, LINEAR[kind], space=space, **options)
        for space in ("weights", "particles")
    )
    # The flow is solved to 1e-11 in each space; all else differs by rounding.
    np.testing.assert_allclose(two.scores, one.scores, atol=1e-9)
    np.testing.assert_allclose(two.final_weights, one.final_weights, atol=1e-8)


# The flow of margins is compared with its exact solution below.
@pytest.mark.parametrize(
    "kind", [k for k in LINEAR if k not in ("isotropic flow", "flow")], ids=str
)
def test_margins_alone_move_as_weights_do(kind):
    problem = cases.PROBLEMS["not separable"]
    start = cases.weights(problem, 0.3)
    options = {"start": start, "key": 0, "events": kind == "descent"}
    one, two = (
        engram.simulate(problem, LINEAR[kind], space=space, **options)
        for space in ("weights", "margins")
    )
    for name in ("margins", "loss", "error", "final_weights"):
        np.testing.assert_allclose(two[name], one[name], atol=1e-9)
    if options["events"]:
        np.testing.assert_array_equal(two.num_forgotten, one.num_forgotten)


def test_flow_agrees_with_the_product_logarithm_for_twelve_decades():
    problem = engram.orthonormal(3, 2, exponent=1.0, key=0)
    times = np.concatenate([[0.0], np.logspace(-3, 12, 16)])  # as many as below: one program
    for start in (np.zeros((3, 3)), cases.weights(problem, 2.0)):
        first = memory.margins(problem, start)
        for space in ("particles", "margins"):
            flow = engram.simulate(
                problem,
                engram.GradientFlow(times),
                start=start,
                record=("margins",),
                space=space,
                events=False,
            )
            rate = 2 * problem.probs  # c_x = p(x) |e|^2 |u1 - u2|^2
            exact = log_omega(times[:, None] * rate + (first + np.exp(first)))
            assert flow.attrs["num_steps"] < 500
            np.testing.assert_allclose(flow.margins, exact, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("p1", [0.6, 0.9])
def test_flow_of_parallel_tokens_agrees_with_its_closed_form(p1):
    # Not separable: gamma_1 solves p1 p2 c t = p2 gamma - log((p1 - p2 e^gamma) / (p1 - p2)).
    p2 = 1 - p1
    times = np.array([0.0, 0.1, 1.0, 10.0, 1e12])
    flow = engram.simulate(
        engram.two_tokens(1.0, p1), engram.GradientFlow(times), record=("margins",), events=False
    )
    gamma = (flow.margins.values[:, 0] - flow.margins.values[:, 1]) / 2
    left = p1 * p2 * 2 * times[:4]
    right = p2 * gamma[:4] - np.log((p1 - p2 * np.exp(gamma[:4])) / (p1 - p2))
    np.testing.assert_allclose(right, left, atol=1e-8)
    assert gamma[-1] == pytest.approx(np.log(p1 / p2), rel=1e-9)
    assert flow.attrs["num_steps"] < 500


@pytest.mark.parametrize("name", ["not separable", "noisy targets"])
def test_flow_ends_at_the_minimiser(name):
    problem = cases.PROBLEMS[name]
    # With noisy targets the flow is stiff, and "auto" would turn to the implicit solver in the end.
    solver = "implicit" if problem.is_noisy else "auto"
    flow = engram.simulate(
        problem,
        engram.GradientFlow([0.0, 1e3, 1e12], solver=solver),
        record=("grad_norm", "loss"),
        events=False,
    )
    assert flow.attrs["status"] == "completed"
    assert flow.grad_norm.values[-1] < 1e-10
    assert flow.loss.values[-1] < flow.loss.values[0]


@pytest.mark.parametrize("rare", [1e-6, 1e-9])
def test_flow_does_not_end_before_a_rare_token_is_learnt(rare):
    # Two parallel tokens settle at a minimiser; a third, orthogonal to them, comes much later.
    problem = engram.Problem(
        [[1.0, 0, 0], [1, 0, 0], [0, 1, 0]],
        np.eye(2, 3),
        [0.6 * (1 - rare), 0.4 * (1 - rare), rare],
        [0, 1, 0],
    )
    times = np.geomspace(1e3, 1e3 / rare, 17)
    flow = engram.simulate(problem, engram.GradientFlow(times), record=("margins",), events=False)
    assert flow.attrs["status"] == "completed"
    exact = log_omega(1 + 2 * rare * times)
    np.testing.assert_allclose(flow.margins.values[:, 2], exact, rtol=1e-8)


def test_flow_conserves_its_invariants():
    rng = np.random.default_rng(0)
    base = engram.orthonormal(3, 4, exponent=1.0, key=1)
    stretched = base.outputs * np.array([[1.0], [0.7], [1.5], [1.2]])
    problem = engram.Problem(base.inputs, stretched, base.probs, base.targets)
    start = rng.standard_normal((4, 4))
    flow = engram.simulate(
        problem,
        engram.GradientFlow([0.0, 1.0, 1e2, 1e5]),
        start=start,
        record=("invariants",),
        space="weights",
        events=False,
    )
    first = flow.invariants.values[0]
    # Differences of e^-w, which grow: relative to their terms, to the solver's tolerance.
    scale = np.exp(-particles.weights_to_scores(problem, flow.final_weights.values)).max()
    np.testing.assert_allclose(flow.invariants.values[-1], first, atol=1e-8 * scale)
    with pytest.raises(ValueError, match="needs orthogonal inputs"):
        engram.simulate(
            engram.two_tokens(0.5, 0.7), engram.GradientDescent(1.0, 1), record=("invariants",)
        )


def test_descent_with_small_steps_converges_to_the_flow_at_first_order():
    problem = cases.PROBLEMS["sphere, d > N"]
    end = 4.0
    flow = engram.simulate(problem, engram.GradientFlow([end]), record=("scores",), events=False)
    gaps = []
    for steps in (64, 128, 256, 512):
        path = engram.simulate(
            problem,
            engram.GradientDescent(end / steps, steps),
            record=("scores",),
            at=[steps],
            events=False,
        )
        gaps.append(np.abs(path.scores.values[-1] - flow.scores.values[-1]).max())
    slopes = np.log2(np.array(gaps[:-1]) / gaps[1:])
    np.testing.assert_allclose(slopes, 1, atol=0.05)


def test_the_mean_of_one_sgd_step_is_the_descent_step():
    problem = cases.PROBLEMS["sphere, d > N"]
    W = cases.weights(problem)
    N, p = problem.num_tokens, problem.probs
    mean = np.zeros_like(W)
    for batch in np.ndindex(N, N):  # every batch of two, with its probability
        step = engram.StochasticGradientDescent(1.0, 1, 2, batches=[batch])
        moved = engram.simulate(problem, step, start=W, record=(), events=False, space="weights")
        mean += p[batch[0]] * p[batch[1]] * moved.final_weights.values
    np.testing.assert_allclose(mean, W - memory.grad(problem, W), atol=1e-14)


def test_batches_follow_the_law():
    problem = engram.on_sphere(0, 6, 3, 4, exponent=2.0)
    draws, size = 4000, 5
    with jax.enable_x64(True):
        key = jax.random.key(1)
        law = lambda i: D.Batches(size).law(problem, None, i, key)[0]
        laws = jax.jit(jax.vmap(law))(jnp.arange(draws))
    counts = np.asarray(laws) * size
    np.testing.assert_allclose(counts.sum(axis=1), size)
    p = problem.probs
    assert scipy.stats.chisquare(counts.sum(axis=0), draws * size * p).pvalue > 1e-6
    error = np.sqrt(p * (1 - p) * size / draws)
    assert (np.abs(counts.mean(axis=0) - size * p) < 5 * error).all()
    covariance = np.cov(counts.T, bias=True)
    expected = size * (np.diag(p) - np.outer(p, p))
    assert np.abs(covariance - expected).max() < 6 * size / np.sqrt(draws)


def _law_noise(problem, draws, dt, eta, size):
    """One Euler step of the stochastic flow from W, many times."""
    flow = engram.StochasticGradientFlow([dt], eta, size, time_step=dt)
    system = memory.MemorySystem(problem)
    W = jnp.asarray(cases.weights(problem))
    keys = jax.random.split(jax.random.key(0), draws)
    return W, jax.jit(jax.vmap(lambda key: flow.step(system, W, jnp.asarray(0), key)))(keys)


@pytest.mark.usefixtures("x64")
def test_one_step_of_the_stochastic_flow_has_the_exact_moments():
    problem = cases.PROBLEMS["two tokens"]
    draws, dt, eta, size = 40_000, 0.1, 0.5, 4
    W, moved = _law_noise(problem, draws, dt, eta, size)
    change = np.asarray(moved - W[None]).reshape(draws, -1)
    g = np.asarray(memory.grad(problem, W)).ravel()
    samples = np.array(
        [
            np.asarray(memory.MemorySystem(problem).grad(W, np.eye(2)[x])).ravel()
            for x in range(problem.num_tokens)
        ]
    )
    centred = samples - problem.probs @ samples
    covariance = (problem.probs[:, None] * centred).T @ centred * eta / size * dt
    error = np.sqrt(np.diag(covariance) / draws)
    assert (np.abs(change.mean(axis=0) + dt * g) <= 5 * error + 1e-15).all()
    measured = np.cov(change.T, bias=True)
    assert np.abs(measured - covariance).max() < 6 * np.abs(covariance).max() * np.sqrt(2 / draws)


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
def test_the_gap_between_the_stochastic_flow_and_sgd_shrinks_with_the_learning_rate():
    # Weak order one: means and covariances of W at a fixed time differ by O(eta).
    problem = engram.two_tokens(0.5, 0.7)
    end, size, draws = 2.0, 1, 60_000
    keys = jax.random.split(jax.random.key(0), draws)
    system = memory.MemorySystem(problem)
    gaps, noise = [], []

    @eqx.filter_jit  # the numbers of a dynamics are arguments: each kind compiles once
    def finals(dynamics, steps, keys):
        start = jnp.zeros((2, 2))
        return jax.vmap(lambda key: walk(system, dynamics, start, steps, key))(keys)

    for eta in (1.0, 0.5):
        sgd = engram.StochasticGradientDescent(eta, int(end / eta), size)
        sde = engram.StochasticGradientFlow([end], eta, size, time_step=eta / 16)
        ends = []
        for dynamics in (sgd, sde):
            final = finals(dynamics, jnp.asarray(dynamics.num_steps), keys)
            ends.append(np.asarray(final).reshape(draws, -1))
        a, b = ends
        covariance = np.abs(np.cov(b.T)).max()
        # Covariances are of the order of eta themselves: their relative gap is.
        gaps.append(
            [
                np.abs(a.mean(axis=0) - b.mean(axis=0)).max(),
                np.abs(np.cov(a.T) - np.cov(b.T)).max() / covariance,
            ]
        )
        noise.append([3 * np.sqrt(2 * covariance / draws), 3 * np.sqrt(4 / draws)])
    gaps, noise = np.array(gaps), np.array(noise)
    assert (gaps > noise).all(), "the gaps must be seen above the noise"
    ratio = gaps[0] / gaps[1]
    # Noise in both gaps limits what can be said of their ratio, 2 to first order in eta.
    spread = ratio * (noise / gaps).sum(axis=0)
    assert (np.abs(ratio - 2) < spread + 0.4).all(), (gaps, noise)


def walk(system, dynamics, start, steps, key=None):
    """The last state, by the bare steps: for many paths at once, in a program that is quick to compile."""
    step = lambda i, inner: dynamics.step(system, inner, i, key)
    inner = jax.lax.fori_loop(0, steps, step, dynamics.init(system, start))
    return dynamics.state_of(inner)


@pytest.mark.usefixtures("x64")
def test_strong_order_of_the_scheme():
    # The noise multiplies a function of W, so Euler's strong order is one half. With a common
    # Brownian motion, the squared distance to a path of step h_0 is proportional to h - h_0.
    problem = engram.two_tokens(0.5, 0.7)
    system = memory.MemorySystem(problem)
    end, finest, paths = 4.0, 512, 2000
    rng = np.random.default_rng(0)
    fine = rng.standard_normal((paths, finest, 2)) * np.sqrt(end / finest)

    def final(brownian):
        steps = len(brownian)
        flow = engram.StochasticGradientFlow(
            [end], 4.0, 1, time_step=end / steps, brownian=brownian
        )
        return walk(system, flow, jnp.zeros((2, 2)), steps)

    counts = (16, 32, 64, finest)
    sums = [fine.reshape(paths, n, finest // n, 2).sum(axis=2) for n in counts]
    *coarse, reference = [np.asarray(jax.jit(jax.vmap(final))(b)) for b in sums]
    squares = [np.square(ends - reference).sum(axis=(1, 2)).mean() for ends in coarse]
    steps = np.array([1 / n - 1 / finest for n in counts[:-1]])
    orders = np.diff(np.log(squares)) / np.diff(np.log(steps)) / 2
    np.testing.assert_allclose(orders, 0.5, atol=0.15)


def test_without_noise_the_stochastic_flow_is_the_flow():
    problem = cases.PROBLEMS["sphere, d > N"]
    flow = engram.simulate(problem, engram.GradientFlow([3.0]), record=("scores",), events=False)
    gaps = []
    for step in (0.02, 0.01):
        still = engram.StochasticGradientFlow([3.0], 0.0, 1, time_step=step)
        path = engram.simulate(problem, still, key=0, record=("scores",), events=False)
        gaps.append(np.abs(path.scores.values[-1] - flow.scores.values[-1]).max())
    assert gaps[0] / gaps[1] == pytest.approx(2, rel=0.05)  # Euler's first order
    assert gaps[1] < 1e-2


@pytest.mark.parametrize("alpha", [-0.5, 0.0, 0.5, 0.95])
@pytest.mark.parametrize("eta", [0.5, 5.0])
def test_the_loss_decays_as_predicted(alpha, eta):
    # eta t L -> 2 / (c (1 - alpha)), c = 2; the offset decays like t^-kappa, kappa = 1/3 at worst.
    steps = 1_000_000
    found = engram.simulate(
        engram.two_tokens(alpha, 0.7), engram.GradientDescent(eta, steps), at=[steps], events=False
    )
    limit = 1 / (1 - alpha)
    assert eta * steps * float(found.loss[-1]) == pytest.approx(
        limit, rel=2e-2 if alpha < 0 else 1e-3
    )


def test_each_token_of_the_orthonormal_flow_decays_as_predicted():
    problem = engram.orthonormal(4, 5, exponent=1.5)
    t = 1e9
    flow = engram.simulate(
        problem, engram.GradientFlow([t]), record=("token_losses",), events=False
    )
    scaled = problem.probs * t * flow.token_losses.values[0]
    np.testing.assert_allclose(scaled, 4 / 5, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dim", "known"),
    [
        (10, {1.0: (0.0638, 0.019), 10.0: (0.0401, 0.011)}),
        (100, {1.0: (0.0307, 0.0056), 10.0: (0.0124, 0.0020)}),
    ],
)
@pytest.mark.usefixtures("x64")
def test_sgd_reaches_the_errors_of_the_literature(dim, known):
    # One pass of 10,240 samples in batches of 64; the reference is a mean over 10 seeds.
    seeds, steps = 64, 160

    def final_error(key, sgd):
        key, start_key, sample_key = jax.random.split(key, 3)
        problem = engram.gaussian(key, 100, 5, dim, exponent=2.0)
        start = jax.random.normal(start_key, (dim, dim)) / jnp.sqrt(float(dim))
        system = memory.MemorySystem(problem)
        return memory.error_rate(problem, walk(system, sgd, start, steps, sample_key))

    final_errors = eqx.filter_jit(jax.vmap(final_error, in_axes=(0, None)))
    for rate, (expected, spread) in known.items():
        sgd = engram.StochasticGradientDescent(rate, steps, 64)
        errors = np.asarray(final_errors(jax.random.split(jax.random.key(0), seeds), sgd))
        tolerance = 3 * np.sqrt(spread**2 / 10 + errors.std() ** 2 / seeds)
        assert abs(errors.mean() - expected) < tolerance


EXTREMES = {
    "tiny rate": (engram.two_tokens(0.5, 0.7), engram.GradientDescent(1e-6, 50), 0.0),
    "huge rate": (engram.two_tokens(0.95, 0.75), engram.GradientDescent(1e5, 50), 0.0),
    "nearly parallel": (engram.two_tokens(0.9999, 0.75), engram.GradientDescent(10.0, 50), 0.0),
    "nearly opposed": (engram.two_tokens(-0.9999, 0.75), engram.GradientDescent(10.0, 50), 0.0),
    "very rare": (engram.two_tokens(0.5, 1 - 1e-9), engram.GradientDescent(10.0, 50), 0.0),
    "one token": (
        engram.Problem([[1.0]], [[1.0], [-1.0]], [1.0], [0]),
        engram.GradientDescent(1.0, 50),
        0.0,
    ),
    "one dimension": (
        engram.Problem([[1.0], [-0.5]], [[1.0], [0.3]], [0.6, 0.4], [0, 1]),
        engram.GradientDescent(1.0, 50),
        0.0,
    ),
    "far below": (engram.one_hot(2, 2), engram.GradientDescent(1.0, 50), -500.0),
}


@pytest.mark.parametrize("name", EXTREMES, ids=str)
def test_extreme_margins_stay_finite_and_agree(name):
    problem, dynamics, margin = EXTREMES[name]
    start = margin * np.eye(problem.dim)
    runs = [
        engram.simulate(
            problem, dynamics, start=start, space=space, record=("loss", "margins"), events=False
        )
        for space in ("weights", "particles", "margins")
    ]
    for run in runs:
        assert run.attrs["status"] == "completed"
        assert np.isfinite(run.loss).all()
        scale = np.abs(run.margins.values).max()
        # Chaotic paths aside, accounts differ by rounding relative to the largest margin.
        np.testing.assert_allclose(run.margins, runs[0].margins, atol=1e-8 * max(scale, 1e-8))
