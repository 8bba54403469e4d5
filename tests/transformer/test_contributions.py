"""A change of the loss is divided among matrices, triggers and outputs."""

import numpy as np
import pytest
import tiny

import engram
from engram import transformer as tf
from engram._checks import InputError

pytestmark = pytest.mark.usefixtures("one_size")


@pytest.fixture(scope="module")
def moved():
    """A model, its sequences, and two states far apart, in double precision."""
    _, model, sequences = tiny.make()
    rng = np.random.default_rng(0)
    here = {name: model[name] for name in tiny.ALL}
    there = {name: W + 0.6 * rng.standard_normal(W.shape) for name, W in here.items()}
    return model, sequences, here, there


def test_parts_add_up_to_the_change_of_the_plain_loss(moved):
    model, sequences, here, there = moved
    parts = tf.contributions(model, sequences, [here, there])
    ends = [tiny.by_autodiff(model.replace(state), sequences)[0] for state in (here, there)]
    change = float(parts.change.sum())
    assert change == pytest.approx(ends[1] - ends[0], abs=1e-13)
    by_pair = parts.contribution.sum("matrix") + parts.remainder
    np.testing.assert_allclose(by_pair, parts.change, rtol=0, atol=1e-15)
    sizes = float(np.abs(parts.contribution).sum())
    assert float(np.abs(parts.remainder).sum()) < 1e-3 * sizes
    assert float(parts.frequency.sum()) == pytest.approx(1)
    assert (parts.frequency.sum("output") > 0).all()


def test_contributions_of_a_small_step_are_gradients_times_changes(moved):
    model, sequences, here, there = moved
    h = 1e-5
    near = {name: here[name] + h * (there[name] - here[name]) for name in here}
    parts = tf.contributions(model, sequences, [here, near])
    _, grads = tiny.by_autodiff(model.replace(here), sequences)
    for name in tiny.ALL:
        first_order = float((grads[name] * (near[name] - here[name])).sum())
        made = float(parts.contribution.sel(matrix=name).sum())
        assert made == pytest.approx(first_order, abs=10 * h**2)


def test_what_is_undone_contributes_nothing(moved):
    model, sequences, here, there = moved
    parts = tf.contributions(model, sequences, [here, there, here])
    np.testing.assert_allclose(parts.contribution, 0, atol=1e-15)
    np.testing.assert_allclose(parts.change, 0, atol=1e-15)


def test_a_matrix_that_stays_contributes_nothing(moved):
    model, sequences, here, there = moved
    parts = tf.contributions(model, sequences, [here, here | {"wk2": there["wk2"]}])
    assert not parts.contribution.sel(matrix=["wo2", "wk1"]).any()
    assert float(parts.contribution.sel(matrix="wk2").sum()) != 0


def test_a_spiking_training_is_explained_from_its_folder(tmp_path, here):
    config, *_ = tiny.make()
    rates = [engram.GradientDescent(rate, 3) for rate in (0.1, 30.0)]
    training = tf.train(config, rates, out=tmp_path)
    explanation = tf.explain(tmp_path)
    assert explanation.spikes
    for spike in explanation.spikes:
        assert spike.peak > spike.first
        assert float(spike.parts.before.sum()) == pytest.approx(spike.loss_before, rel=1e-12)
        assert float(spike.parts.after.sum()) == pytest.approx(spike.loss_peak, rel=1e-12)
        losses = training.log.loss.sel(step=[int(spike.first), int(spike.peak)], run=1)
        assert float(spike.parts.change.sum()) == pytest.approx(float(losses.diff("step")[0]))
    assert explanation.deviation < 1e-12
    assert "'e' (" in str(explanation)  # a trigger, by name
    assert "<li>" in explanation._repr_html_()
    assert len(explanation.plot().axes) == 4
    done = here("explain", tmp_path, "--html", tmp_path / "page.html")
    assert done.returncode == 0
    assert " ".join(str(explanation).split()) in " ".join(done.stdout.split())
    page = (tmp_path / "page.html").read_text()
    assert page.count("<img") == len(explanation.spikes)
    assert "When memories form" in page
    few = tf.explain(training, sample=5).spikes[0].parts
    assert float(few.frequency.sum()) == pytest.approx(1)
    assert float(few.change.sum()) != pytest.approx(float(explanation.spikes[0].parts.change.sum()))
    calm = tf.explain(training, run=0)
    assert "The loss never spiked." in str(calm)
    assert "from step" in str(calm) or "never" in str(calm)


def test_formation_is_the_first_step_that_lasts():
    config, *_ = tiny.make()
    log = tf.train(config, engram.GradientDescent(5.0, 6)).log
    formed = tf.formation(log)
    for name, margins in (("wo2", "wo2"), ("wk2", "wk2"), ("wk1", "wk1_causal")):
        values = log[f"margins_{margins}"].values
        for k, step in enumerate(formed[name].values):
            if np.isfinite(step):
                assert (values[int(step) :, k] > 0).all()
                assert step == 0 or not values[int(step) - 1, k] > 0
            else:
                assert not values[-1, k] > 0


def test_a_training_that_cannot_be_repeated_is_refused(tmp_path):
    config, model, sequences = tiny.make()
    tf.write_start(tmp_path / "start.npz", model.replace({"wo2": 2 * model["wo2"]}), sequences)
    descent = engram.GradientDescent(1.0, 1)
    training = tf.train(config, descent, start=tmp_path / "start.npz")
    with pytest.raises(InputError, match="Train into a folder"):
        tf.explain(training)
    nameless = training._replace(log=training.log.assign_attrs(config="[dynamics]"))
    with pytest.raises(InputError, match="says how it was made"):
        tf.explain(nameless)
    with pytest.raises(InputError, match="is not there"):
        tf.explain(tmp_path / "nothing")
    both = tf.train(config, [descent, engram.GradientDescent(2.0, 1)])
    with pytest.raises(InputError, match="one of the 2 runs, from 0, got 2"):
        tf.explain(both, run=2)
