"""The restructured computation against the model as the paper writes it."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

import engram
from engram import memory
from engram import transformer as tf
from engram._checks import InputError
from engram.transformer import _gradients


@pytest.fixture(scope="module")
def small():
    return tiny.make()


@pytest.fixture(scope="module", params=[1.0, 30.0], ids=["soft", "saturated"])
def case(request, small):
    config, model, sequences = small
    model = tiny.sharper(model, request.param)
    return model, sequences, tiny.by_autodiff(model, sequences)


@pytest.mark.parametrize(
    "names", [n for k in (1, 2, 3) for n in itertools.combinations(tiny.ALL, k)], ids="-".join
)
def test_gradients_are_those_of_the_plain_model(case, names, request):
    model, sequences, (loss, grads) = case
    if len(names) < 3:  # all of them with all sizes
        request.getfixturevalue("one_size")
    with jax.enable_x64(True):
        passes = tf.Passes(model, sequences, names, size=3)
        found = passes.measure({name: model[name] for name in names})
    assert found.loss == pytest.approx(loss, rel=1e-13, abs=0)
    for name in names:
        assert np.abs(found.grads[name] - grads[name]).max() < 1e-12 * np.abs(grads[name]).max()


def test_pieces_and_sizes_do_not_matter(small, monkeypatch):
    config, model, sequences = small
    state = {name: model[name] for name in tiny.ALL}
    with jax.enable_x64(True):
        once = tf.Passes(model, sequences, tiny.ALL, size=12).measure(state)
        monkeypatch.setattr("engram.transformer._passes._PIECE", 4)
        calls = []
        mesh = jax.sharding.Mesh(np.asarray(jax.devices()[:1]), ("data",))  # of all that there are
        passes = tf.Passes(model, sequences, tiny.ALL, size=2, mesh=mesh)
        parts = passes.measure(state, report=lambda: calls.append(1))
    assert len(calls) == 3
    np.testing.assert_allclose(parts.loss, once.loss, rtol=1e-14)
    for name in tiny.ALL:
        np.testing.assert_allclose(parts.grads[name], once.grads[name], rtol=0, atol=1e-15)


@pytest.mark.usefixtures("one_size")
def test_the_law_weights_sequences(small):
    """Linear in the law, and each sequence alone as the plain model has it."""
    config, model, sequences = small
    law = np.zeros(12)
    law[[2, 7]] = 0.25, 0.75
    with jax.enable_x64(True):
        passes = tf.Passes(model, sequences, tiny.ALL)
        found = passes.measure({name: model[name] for name in tiny.ALL}, law)
        system = tf.TransformerSystem(model, sequences, tiny.ALL)
        pure = eqx.filter_jit(system.measure)(system.start(), jnp.asarray(law))
    mean = sequences.in_loss.sum() / 12
    loss, named, grads = 0.0, 0.0, dict.fromkeys(tiny.ALL, 0.0)
    for row in (2, 7):
        one = tf.Sequences(*(x[row : row + 1] for x in sequences[:3]), sequences.num_tokens)
        value, grad = tiny.by_autodiff(model, one)
        weight = law[row] * one.in_loss.sum() / mean
        loss, named = loss + weight * value, named + weight
        grads = {name: grads[name] + weight * grad[name] for name in tiny.ALL}
    np.testing.assert_allclose(pure.loss, loss, rtol=1e-12)  # linear in the law
    np.testing.assert_allclose(found.loss, loss / named, rtol=1e-12)  # a mean over what it names
    np.testing.assert_allclose(pure.hits, found.hits, rtol=1e-12)
    for result in (found, pure):
        for name in tiny.ALL:
            np.testing.assert_allclose(result.grads[name], grads[name], rtol=0, atol=1e-14)


@pytest.mark.usefixtures("one_size")
def test_w_o_alone_is_a_regression_and_convex(small):
    config, model, sequences = small
    rng = np.random.default_rng(0)
    ends = 3 * rng.standard_normal((2, 8, 8))
    stack = {"wo2": np.stack([*ends, ends.mean(axis=0)])}
    with jax.enable_x64(True):
        passes = tf.Passes(model, sequences, ("wo2",))
        found = tf.Regression(passes).measure_all(stack)
        for k, W in enumerate(stack["wo2"]):
            alone = passes.measure({"wo2": W})
            np.testing.assert_allclose(found.loss[k], alone.loss, rtol=1e-13)
            np.testing.assert_allclose(found.hits[k], alone.hits, rtol=1e-13)
            np.testing.assert_allclose(found.grads["wo2"][k], alone.grads["wo2"], atol=1e-14)
    first, second, middle = found.loss
    assert middle < (first + second) / 2
    # The gradient is monotone: the other way to say that the loss is convex.
    gaps = found.grads["wo2"][0] - found.grads["wo2"][1]
    assert np.vdot(gaps, ends[0] - ends[1]) > 0


def test_saturated_attention_has_no_denormal_numbers():
    scores = jnp.asarray(np.linspace(-200, 0, 2001, dtype=np.float32))[None]
    raised, total = _gradients._raise(scores, jnp.ones((1, 2001), bool))
    positive = np.asarray(raised)[np.asarray(raised) > 0]
    assert positive.min() > 1e-18
    exact = np.exp(np.linspace(-200, 0, 2001)).sum()
    assert float(total[0, 0]) == pytest.approx(exact, rel=1e-6)
    # Errors too, at any margin; the loss keeps its digits.
    wrong = np.array([-20.0, -40.0, -60.0, -300.0], np.float32)
    logits = jnp.asarray(np.stack([np.zeros(4, np.float32), wrong, wrong - 95]))
    losses, hits, push = _gradients.errors_of(logits, jnp.zeros(4, int), jnp.ones(4))
    size = np.abs(np.asarray(push))
    assert (size[size > 0] > 1e-21).all()
    between = jnp.asarray(np.array([[0.0], [5.0], [-90.0]], np.float32))  # e^-95 is not normalised
    assert float(_gradients.errors_of(between, jnp.zeros(1, int), jnp.ones(1))[2][2, 0]) == 0
    np.testing.assert_allclose(losses[:3], np.log1p(np.exp([-20.0, -40.0, -60.0])), rtol=1e-5)
    assert (np.asarray(hits) == 1).all()


def test_ties_go_to_the_lowest_token():
    logits = jnp.zeros((3, 3))
    hits = _gradients.errors_of(logits, jnp.arange(3), jnp.ones(3))[1]
    np.testing.assert_array_equal(hits, [1, 0, 0])


def test_attention_is_causal_and_a_distribution(small):
    config, model, sequences = small
    tokens = sequences.inputs[0].astype(int)
    patterns = tf.attention_patterns(model, tokens)
    for pattern in patterns:
        np.testing.assert_allclose(pattern.sum(axis=1), 1, rtol=1e-12)
        assert (np.triu(pattern, 1) == 0).all()
    changed = tokens.copy()
    changed[25] = (changed[25] + 1) % 64
    with jax.enable_x64(True):
        before, after = (np.asarray(tf.read(model, z)[0]) for z in (tokens, changed))
    np.testing.assert_array_equal(before[:25], after[:25])
    assert (before[25:] != after[25:]).all(axis=1).any()


def test_variants_of_the_start():
    _, model, _ = tiny.make(zero_start=True, matrices=("wo2", "wk1"))
    assert not model["wo2"].any()
    assert not model["wk1"].any()
    assert model["wk2"].any()
    _, plain, _ = tiny.make()
    _, scaled, _ = tiny.make(embedding_scale=0.5, scale_scores=False)
    np.testing.assert_array_equal(scaled.W_E, 0.5 * plain.W_E)
    assert (plain.score_scale, scaled.score_scale) == (8**-0.5, 1.0)
    for matrix in (plain["wk1"], plain["wo2"], plain.W_U):
        assert np.abs(matrix).max() <= 8**-0.5
    assert np.std(plain.W_E) == pytest.approx(1, abs=5 / np.sqrt(2 * plain.W_E.size))


def test_memories_are_what_attention_and_readout_compute(small):
    config, model, sequences = small
    E, P, U = model.W_E, model.W_P, model.W_U
    triggers = sequences.triggers[0]
    found = tf.memories(model, triggers)
    assert list(found) == ["wo2", "wk2", "wk2_all", "wk1"]
    read_out = (U @ model["wo2"] @ model["wv2"] @ E.T).T  # token read, token said
    keys = E @ (model["wo1"] @ model["wv1"]).T
    looked = E @ model["wk2"] @ keys.T  # query, key
    before = P @ model["wk1"] @ P.T

    def margin(row, right, among):
        return row[right] - max(row[k] for k in among if k != right)

    everything, places = range(64), range(40)
    expected = {
        "wo2": [margin(read_out[i], i, everything) for i in everything],
        "wk2": [margin(looked[q], q, triggers) for q in triggers],
        "wk2_all": [margin(looked[q], q, everything) for q in triggers],
        "wk1": [margin(before[t], t - 1, places) for t in places[1:]],
    }
    for name, values in expected.items():
        np.testing.assert_allclose(memory.margins(*found[name]), values, rtol=1e-9, atol=1e-12)
    causal = [margin(before[t], t - 1, range(t + 1)) for t in places[1:]]
    np.testing.assert_allclose(tf.causal_margins(*found["wk1"]), causal, rtol=1e-9, atol=1e-12)
    strict = [margin(before[t], t - 1, range(t)) for t in places[2:]]
    np.testing.assert_allclose(
        tf.causal_margins(*found["wk1"], itself=False)[1:], strict, rtol=1e-9, atol=1e-12
    )
    of_all = memory.margins(*tf.memories(model)["wk2"])  # without triggers: every token
    np.testing.assert_allclose(of_all[triggers], expected["wk2_all"], rtol=1e-9, atol=1e-12)
    # All else that is known of memories applies.
    assert 0 <= memory.error_rate(*found["wo2"]) <= 1
    assert memory.sharpness(*found["wk2"]) > 0


def test_each_trigger_is_compared_with_all_keys(small):
    config, model, sequences = small
    found = tf.memories(model, [7])
    np.testing.assert_array_equal(memory.margins(*found["wk2"]), memory.margins(*found["wk2_all"]))


def test_an_induction_head_made_by_hand(small):
    """With lookups that are exact, attention goes where it should, and the probes say so."""
    config = tf.Config(dim=400, sequences=4, length=40, dtype="float64", seed=1)
    model, sequences = tf.prepare(config)
    P, E = model.W_P, model.W_E
    keyed = model["wo1"] @ model["wv1"]
    wk1 = sum(np.outer(P[t], P[t - 1]) for t in range(1, 40))
    wk2 = sum(np.outer(e, keyed @ e) for e in E)
    ready = model.replace({"wk1": wk1, "wk2": 40 * wk2})
    scores = tf.induction_scores(ready, sequences)
    assert scores["previous"] > 0.99
    assert scores["induction"] > 0.8  # embeddings in 400 dimensions are not quite orthogonal
    before = tf.induction_scores(model, sequences)
    assert before["previous"] < 0.3
    assert before["induction"] < 0.5
    for name in ("wk1", "wk2"):
        assert memory.error_rate(*tf.memories(ready, sequences.triggers)[name]) == 0


def test_sequences_must_fit(small, tmp_path):
    config, model, sequences = small
    tf.write_start(tmp_path / "start.npz", model, sequences)
    again = tf.read_weights(tmp_path / "start.npz", dtype="float64", scale_scores=True)
    assert jax.tree.all(jax.tree.map(np.array_equal, again, model))
    read = tf.read_sequences(tmp_path / "start.npz", 64)
    assert read is not None
    for ours, theirs in zip(read, sequences, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(InputError, match="must hold tokens from 0 to 9"):
        tf.read_sequences(tmp_path / "start.npz", 10)
    arrays = dict(np.load(tmp_path / "start.npz"))
    for name, value, said in (
        ("outs", -np.ones((12, 41), int), "`outs` in .* whole numbers from 0 on, got int64"),
        ("outs", np.ones((12, 41)), "`outs` in .* whole numbers from 0 on, got float64"),
        ("outs", np.ones((3, 41), int), "`outs` in .* must have the shape of seq"),
        ("triggers", np.int64(3), "`triggers` in .* must be tokens below 64 of shape"),
        ("triggers", np.ones((3, 5), int), "`triggers` in .* must be tokens below 64 of shape"),
        ("triggers", np.array([70]), "`triggers` in .* must be tokens below 64 of shape"),
        ("seq", arrays["seq"][:, :2], "T from 2 to 65534"),
        ("wk1", np.full((8, 8), np.nan), "`wk1` in .* got numbers that are not finite"),
        ("wk1", np.ones((8, 8), int), "`wk1` in .* got int64"),
        ("wk1", np.ones((8, 7)), r"`wk1` in .* must have shape \(8, 8\)"),
    ):
        np.savez(tmp_path / "odd.npz", **(arrays | {name: value}))
        with pytest.raises(InputError, match=said):
            tf.prepare(tiny.CONFIG, tmp_path / "odd.npz")
    (tmp_path / "empty.npz").touch()
    np.save(tmp_path / "one.npy", np.ones(3))
    for odd in ("empty.npz", "one.npy", "none.npz"):
        with pytest.raises(InputError):
            tf.prepare(tiny.CONFIG, tmp_path / odd)
    np.savez_compressed(tmp_path / "flipped.npz", **arrays)
    content = bytearray((tmp_path / "flipped.npz").read_bytes())
    content[60:80] = bytes(20)
    (tmp_path / "flipped.npz").write_bytes(content)
    with pytest.raises(InputError, match="cannot be read as .npz"):
        tf.prepare(tiny.CONFIG, tmp_path / "flipped.npz")
    (tmp_path / "bad.npz").write_bytes(b"nothing")
    with pytest.raises(InputError, match="cannot be read as .npz"):
        tf.read_weights(tmp_path / "bad.npz", dtype="float32", scale_scores=True)
    with pytest.raises(InputError, match="none does"):
        tf.prepare(tf.Config(length=2, sequences=2, num_triggers=1, dim=4))


def test_simulate_takes_a_transformer_as_any_other_system():
    _, model, sequences = tiny.make(length=20, sequences=3)
    system = tf.TransformerSystem(model, sequences, ("wo2",))  # outside of double precision
    run = engram.simulate(system, engram.GradientDescent(2.0, 2), record=("loss", "error"))
    state = {"wo2": model["wo2"]}
    for t in range(3):
        value, grads = tiny.by_autodiff(model.replace(state), sequences, ("wo2",))
        assert float(run.loss[t]) == pytest.approx(value, rel=1e-12)
        last, state = state, {"wo2": state["wo2"] - 2.0 * grads["wo2"]}
    np.testing.assert_allclose(run.final_wo2, last["wo2"], atol=1e-12)
    with pytest.raises(engram.InputError, match="`weights` is not defined for a TransformerSystem"):
        engram.simulate(system, engram.GradientDescent(2.0, 2), record=("weight_norm",))
