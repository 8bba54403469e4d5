"""Training: the same path as any dynamics on the pure system, kept through kills and interruptions."""

import dataclasses
import errno
import json
import shutil
import tomllib
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import optax
import pytest
import tiny
import xarray as xr
import zarr

import engram
from engram import dynamics as D
from engram import transformer as tf
from engram._checks import InputError
from engram.registry import table
from engram.transformer._folder import Folder

pytestmark = pytest.mark.usefixtures("one_size")
SHARED = Path(__file__).parents[3] / "shared" / "reference" / "transformer"


@pytest.mark.parametrize(
    "dynamics",
    [engram.GradientDescent(5.0, 4), engram.PracticalDescent(D.momentum(1.0), 4, 5)],
    ids=["gd", "momentum-batches"],
)
def test_training_is_the_dynamics_on_the_pure_system(dynamics):
    config, model, sequences = tiny.make()
    training = tf.train(config, dynamics)
    with jax.enable_x64(True):
        system = tf.TransformerSystem(model, sequences, config.matrices)
        step = eqx.filter_jit(lambda inner, t: dynamics.step(system, inner, t, jax.random.key(3)))
        loss = eqx.filter_jit(lambda state: system.loss(state))
        inner, losses = dynamics.init(system, system.start()), []
        for t in range(4):
            if not dynamics.needs_key:
                losses.append(float(loss(dynamics.state_of(inner))))
            inner = step(inner, jax.numpy.asarray(t))
        last = jax.tree.map(np.asarray, dynamics.state_of(inner))
    for name in tiny.ALL:
        np.testing.assert_allclose(training.model[name], last[name], rtol=0, atol=1e-11)
    if not dynamics.needs_key:
        np.testing.assert_allclose(training.log.loss[:4], losses, rtol=1e-12)
    assert training.log.attrs["status"] == "completed"


def test_the_log_holds_what_it_says(tmp_path):
    config, model, sequences = tiny.make()
    training = tf.train(config, engram.GradientDescent(5.0, 2), out=tmp_path / "run")
    log = training.log
    loss, grads = tiny.by_autodiff(model, sequences)
    assert float(log.loss[0]) == pytest.approx(loss, rel=1e-12)
    for name in tiny.ALL:
        norm = np.linalg.norm(grads[name])
        assert float(log[f"grad_norm_{name}"][0]) == pytest.approx(norm, rel=1e-10)
    for name, found in tf.memories(training.model, sequences.triggers).items():
        np.testing.assert_allclose(
            log[f"margins_{name}"][-1], engram.memory.margins(*found), rtol=1e-9
        )
    ends = tf.evaluate(training.model, sequences)
    assert float(log.loss[-1]) == pytest.approx(ends["loss"], rel=1e-12)
    assert float(log.accuracy[-1]) == pytest.approx(ends["accuracy"], rel=1e-12)
    stored = tf.open_log(tmp_path / "run")
    assert stored.sizes["step"] == 3
    assert list(stored.data_vars) == sorted(log.data_vars)
    assert list(stored.coords) == sorted(log.coords)
    for name in log.data_vars:
        np.testing.assert_array_equal(stored[name], log[name])


def test_learning_rates_side_by_side():
    rates = (1.0, 20.0)
    for matrices in (("wo2",), tiny.ALL):
        config, *_ = tiny.make(matrices=matrices)
        both = tf.train(config, [engram.GradientDescent(rate, 3) for rate in rates])
        assert both.log.loss.dims == ("step", "run")
        for k, rate in enumerate(rates):
            alone = tf.train(config, engram.GradientDescent(rate, 3))
            np.testing.assert_allclose(both.log.loss[:, k], alone.log.loss, rtol=1e-13)
            np.testing.assert_allclose(both.models[k]["wo2"], alone.model["wo2"], atol=1e-13)
    with pytest.raises(InputError, match="differ in the learning rate alone, got unlike steps"):
        tf.train(config, [engram.GradientDescent(1.0, 3), engram.GradientDescent(1.0, 4)])


def stop_at(step):
    def progress(done, total):
        if done >= step:
            raise KeyboardInterrupt

    return progress


@pytest.mark.parametrize(
    ("matrices", "dynamics"),
    [
        (("wo2",), [engram.GradientDescent(rate, 70) for rate in (5.0, 50.0)]),
        (("wk2",), engram.PracticalDescent(D.adam(0.05), 70, 4)),
    ],
    ids=["side-by-side", "adam-batches"],
)
def test_a_training_interrupted_three_times_is_the_same_training(tmp_path, matrices, dynamics):
    config, *_ = tiny.make(matrices=matrices, length=30, sequences=6)
    whole = tf.train(config, dynamics, out=tmp_path / "whole")
    for step in (3, 40, 66):
        with pytest.raises(KeyboardInterrupt):
            tf.train(config, dynamics, out=tmp_path / "cut", progress=stop_at(step), patience=0.01)
    damaged = sorted((tmp_path / "cut").glob("checkpoint-*"))[-1]
    damaged.write_bytes(damaged.read_bytes()[:100])  # the one before it will do
    parts = tf.train(config, dynamics, out=tmp_path / "cut")
    for name in whole.log.data_vars:
        np.testing.assert_array_equal(parts.log[name], whole.log[name])
    for ours, theirs in zip(parts.models, whole.models, strict=True):
        for name in matrices:
            np.testing.assert_array_equal(ours[name], theirs[name])
    first, second = (
        xr.open_zarr(tmp_path / n / "log.zarr", consolidated=False).load() for n in ("cut", "whole")
    )
    for name in second.data_vars:
        np.testing.assert_array_equal(first[name], second[name])
    assert first.attrs["status"] == "completed"
    assert len(list((tmp_path / "cut").glob("checkpoint-*"))) <= 2
    # Once more: nothing is left to do, and the answer is the same.
    again = tf.train(config, dynamics, out=tmp_path / "cut", progress=stop_at(1))
    np.testing.assert_array_equal(again.log.loss, whole.log.loss)


def test_resume_takes_more_steps_and_rejects_other_settings(tmp_path):
    config, *_ = tiny.make(matrices=("wo2",))
    longer = tf.train(config, engram.GradientDescent(5.0, 9))
    tf.train(config, engram.GradientDescent(5.0, 4), out=tmp_path / "run")
    resumed = tf.train(config, engram.GradientDescent(5.0, 9), out=tmp_path / "run")
    np.testing.assert_array_equal(resumed.log.loss, longer.log.loss)
    stored = xr.open_zarr(tmp_path / "run" / "log.zarr", consolidated=False).load()
    np.testing.assert_array_equal(stored.loss, longer.log.loss)
    for other, dynamics, said in (
        (
            config,
            engram.GradientDescent(6.0, 9),
            "dynamics.learning_rate: 5.0 in the folder, 6.0 now",
        ),
        (config, engram.GradientDescent(5.0, 8), "dynamics.steps: 9 in the folder, 8 now"),
        (dataclasses.replace(config, seed=4), engram.GradientDescent(5.0, 9), "transformer.seed"),
    ):
        with pytest.raises(InputError, match="holds another training") as error:
            tf.train(other, dynamics, out=tmp_path / "run")
        assert said in str(error.value)


@pytest.mark.settings
def test_a_run_that_is_not_finite_stops_and_says_so():
    config, *_ = tiny.make(dtype="float32", matrices=("wo2", "wk2"))
    training = tf.train(config, [engram.GradientDescent(rate, 6) for rate in (1.0, 1e30)])
    at = training.log.attrs["not_finite_at"]
    assert at[0] == -1
    assert 0 <= at[1] < 6
    loss = training.log.loss.values
    assert np.isfinite(loss[:, 0]).all()
    assert np.isnan(loss[at[1] + 1 :, 1]).all()
    assert training.log.attrs["status"] == "completed"
    alone = tf.train(config, engram.GradientDescent(1e30, 6))
    assert alone.log.attrs["status"] == "not finite"


def test_bad_dynamics_are_named():
    config = tiny.CONFIG
    with pytest.raises(InputError, match="`dynamics` must go in steps, got GradientFlow"):
        tf.train(config, engram.GradientFlow([0.0, 1.0]))
    noisy = engram.StochasticGradientFlow([0.0, 1.0], 0.1, 4)
    with pytest.raises(InputError, match="must go in steps, got StochasticGradientFlow"):
        tf.train(config, noisy)
    with pytest.raises(InputError, match="must not be empty"):
        tf.train(config, [])


def test_a_start_from_a_file(tmp_path):
    config, model, sequences = tiny.make()
    tf.write_start(tmp_path / "start.npz", model, sequences)
    drawn = tf.train(config, engram.GradientDescent(5.0, 2))
    read = tf.train(
        tf.Config(dtype="float64", seed=3),
        engram.GradientDescent(5.0, 2),
        start=tmp_path / "start.npz",
    )
    np.testing.assert_array_equal(read.log.loss, drawn.log.loss)
    sizes = tomllib.loads(read.log.attrs["config"])["transformer"]  # what was in the file
    assert (sizes["dim"], sizes["sequences"], sizes["length"]) == (8, 12, 40)


def test_resume_rejects_folders_that_are_not_whole(tmp_path):
    """Checkpoints of another training, a log with holes, a folder in use: none goes unnoticed."""
    config, *_ = tiny.make(matrices=("wo2",), length=30, sequences=6)
    run, descent = tmp_path / "run", engram.GradientDescent(5.0, 70)
    tf.train(config, descent, out=run)
    (run / "config.toml").unlink()
    other = dataclasses.replace(config, seed=4)
    tf.train(other, engram.GradientDescent(5.0, 5), out=run)
    assert [path.stem[-2:] for path in run.glob("checkpoint-*")] == ["05"]
    longer = tf.train(other, descent, out=run)
    clean = tf.train(other, descent)
    np.testing.assert_array_equal(longer.log.loss, clean.log.loss)
    (run / "log.zarr" / "loss" / "c" / "0").unlink()
    with pytest.raises(InputError, match="entries before step 64 are lost or changed"):
        tf.train(other, engram.GradientDescent(5.0, 80), out=run)
    with tf.Folder(run).locked(), pytest.raises(InputError, match="another process is training in"):
        tf.train(other, descent, out=run)
    (run / "config.toml").write_text("a = " + "[" * 100_000)
    with pytest.raises(InputError, match="config.toml cannot be read"):
        tf.train(other, descent, out=run)


def test_resume_rejects_other_dynamics_of_ones_own(tmp_path):
    class Mine(engram.GradientDescent):
        pass

    config, *_ = tiny.make(matrices=("wo2",), length=30, sequences=6)
    tf.train(config, Mine(5.0, 2), out=tmp_path / "run")
    with pytest.raises(InputError, match="dynamics.numbers"):
        tf.train(config, Mine(6.0, 3), out=tmp_path / "run")
    with pytest.raises(InputError, match="dynamics.kind: Mine|dynamics.kind: .*Mine in the folder"):
        tf.train(config, engram.GradientDescent(5.0, 3), out=tmp_path / "run")
    own = engram.PracticalDescent(optax.sgd(1.0), 2)
    tf.train(config, own, out=tmp_path / "optax")
    with pytest.raises(InputError, match="by another optimizer"):
        tf.train(config, engram.PracticalDescent(optax.adam(1.0), 3), out=tmp_path / "optax")


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A training with checkpoints at 66 and 68 of 70 steps, and the same to its end."""
    config, *_ = tiny.make(matrices=("wo2",), length=30, sequences=6)
    run = tmp_path_factory.mktemp("begun") / "run"
    descent = engram.GradientDescent(5.0, 70)
    for step in (66, 68):
        with pytest.raises(KeyboardInterrupt):
            tf.train(config, descent, out=run, progress=stop_at(step), patience=1e9)
    assert [path.stem[-2:] for path in sorted(run.glob("checkpoint-*"))] == ["66", "68"]
    return run, config, descent, tf.train(config, descent)


def rewritten(path, change):
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    change(arrays)
    np.savez(path, **arrays)


def without_leaves(arrays):
    for name in [name for name in arrays if name.startswith("leaf_")]:
        del arrays[name]


DAMAGES = {
    "dtype": lambda a: a.update(leaf_0=a["leaf_0"].astype("float16")),
    "text": lambda a: a.update(leaf_0=np.array(["a"])),
    "ended": lambda a: a.update(leaf_1=np.array(["a"])),
    "tail shape": lambda a: a.update(tail_loss=a["tail_loss"][:1]),
    "tail name": lambda a: a.update(tail_foo=a["tail_loss"]),
    "no tail": lambda a: a.pop("tail_accuracy"),
    "no leaves": without_leaves,
    "not finite": lambda a: a.update(leaf_0=a["leaf_0"] * np.nan),
    "step": lambda a: a.update(step=np.array(3)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_resume_falls_back_from_a_damaged_checkpoint(begun, tmp_path, damage):
    source, config, descent, whole = begun
    run = shutil.copytree(source, tmp_path / "run")
    newest, before = run / "checkpoint-00000068.npz", run / "checkpoint-00000066.npz"
    rewritten(newest, DAMAGES[damage])
    steps = []
    found = tf.train(config, descent, out=run, progress=lambda done, total: steps.append(done))
    assert steps[0] == 66
    np.testing.assert_array_equal(found.log.loss, whole.log.loss)
    np.testing.assert_array_equal(found.model["wo2"], whole.model["wo2"])
    run = shutil.copytree(source, tmp_path / "both")
    for path in (newest, before):
        rewritten(run / path.name, DAMAGES[damage])
    with pytest.raises(InputError, match="has no checkpoint that can be used: they are damaged"):
        tf.train(config, descent, out=run)


def test_resume_ignores_checkpoints_of_other_names(begun, tmp_path):
    source, config, descent, whole = begun
    run = shutil.copytree(source, tmp_path / "run")
    (run / "checkpoint-00000068.npz").rename(run / "checkpoint-99999999.npz")
    shutil.copy(run / "checkpoint-99999999.npz", run / "checkpoint-99999998.npz")
    (run / "checkpoint-mine.npz").write_text("mine")
    found = tf.train(config, descent, out=run)
    np.testing.assert_array_equal(found.log.loss, whole.log.loss)
    assert (run / "checkpoint-00000070.npz").exists()


def damage_log(log, damage):
    """Damage the chunk of the first 64 steps of entries other than the loss."""
    about, chunk = log / "accuracy" / "zarr.json", log / "accuracy" / "c" / "0"
    if damage == "junk":
        about.write_text("{")
    elif damage == "gone":
        shutil.rmtree(about.parent)
    elif damage == "shape":
        about.write_text(json.dumps(json.loads(about.read_text()) | {"shape": [7]}))
    elif damage == "chunk":
        chunk.write_bytes(b"junk")
    elif damage == "lost":
        chunk.unlink()
    elif damage == "changed":
        accuracy = zarr.open_group(log, mode="r+")["accuracy"]
        accuracy[3] += 1e-9
    elif damage == "swapped":
        shutil.copy(log / "grad_norm_wo2" / "c" / "0", chunk)
    elif damage == "bomb":  # a frame that declares 2^40 bytes
        chunk.write_bytes(
            b"\x28\xb5\x2f\xfd\xe0" + (2**40).to_bytes(8, "little") + b"\x03\x00\x00\x07"
        )
    elif damage == "link":
        chunk.rename(log.parent / "elsewhere")
        chunk.symlink_to(log.parent / "elsewhere")
    else:  # the order of steps
        accuracy = zarr.open_group(log, mode="r+")["accuracy"]
        accuracy[:64] = accuracy[:64][::-1]


DAMAGED_LOGS = ["junk", "gone", "shape", "chunk", "lost", "changed", "swapped", "bomb", "link",
                "order"]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGED_LOGS)
def test_a_damaged_log_is_reported_when_resumed_and_when_opened(begun, tmp_path, damage):
    source, config, descent, _ = begun
    run = shutil.copytree(source, tmp_path / "run")
    damage_log(run / "log.zarr", damage)
    with pytest.raises(InputError, match=r"log.zarr (cannot be read|does not hold).* train again"):
        tf.train(config, descent, out=run)
    with pytest.raises(InputError, match=r"log.zarr (cannot be read|is damaged)"):
        tf.open_log(run)


@pytest.mark.filterwarnings("error")
def test_what_a_killed_process_left_half_written_is_ignored_and_removed(begun, tmp_path):
    source, config, descent, whole = begun
    run = shutil.copytree(source, tmp_path / "run")
    leftovers = [
        run / "log.zarr" / "zarr.0123456789abcdef.partial",
        run / "log.zarr" / "loss" / "c" / "0.0123456789abcdef.partial",
    ]
    for path in leftovers:
        path.write_bytes(b"{")
    assert tf.open_log(run).recorded == 68
    found = tf.train(config, descent, out=run)
    np.testing.assert_array_equal(found.log.loss, whole.log.loss)
    assert not any(path.exists() for path in leftovers)


def test_resume_restores_the_last_entries(begun, tmp_path):
    """Of the chunk that is not full, whatever became of it; and xarray opens the log as it is."""
    source, config, descent, whole = begun
    run = shutil.copytree(source, tmp_path / "run")
    unfinished = xr.open_zarr(run / "log.zarr")  # without a warning, which would be an error
    assert (unfinished.status, int(unfinished.loss.notnull().sum())) == ("unfinished", 68)
    for name, content in (("accuracy", b"junk"), ("margins_wo2", b"")):
        (run / "log.zarr" / name / "c" / ("1/0" if name != "accuracy" else "1")).write_bytes(
            content
        )
    (run / "log.zarr" / "loss" / "c" / "1").unlink()
    with pytest.raises(InputError, match=r"log.zarr (cannot be read|is damaged)"):
        tf.open_log(run)
    tf.train(config, descent, out=run)
    stored = xr.open_zarr(run / "log.zarr").load()
    assert stored.status == "completed"
    for name in whole.log.data_vars:
        np.testing.assert_array_equal(stored[name], whole.log[name])
    np.testing.assert_array_equal(tf.open_log(run).loss, whole.log.loss)
    # A finished training restores them, too.
    (run / "log.zarr" / "accuracy" / "c" / "1").unlink()
    tf.train(config, descent, out=run)
    np.testing.assert_array_equal(tf.open_log(run).accuracy, whole.log.accuracy)


def test_a_full_disk_is_reported_and_nothing_is_lost(begun, tmp_path, monkeypatch):
    source, config, descent, whole = begun
    run = shutil.copytree(source, tmp_path / "run")

    def fail(*_, **arrays):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(np, "savez", fail)
        with pytest.raises(InputError, match=r"run cannot be written to \(No space left .*resume"):
            tf.train(config, descent, out=run)
    assert tf.open_log(run).recorded == 71  # the log is written before the checkpoint
    resumed = []
    training = tf.train(config, descent, out=run, progress=lambda done, total: resumed.append(done))
    assert resumed[0] == 68
    np.testing.assert_array_equal(training.log.loss, whole.log.loss)


def test_a_lost_process_is_reported(monkeypatch):
    def fail(*_):
        raise jax.errors.JaxRuntimeError("UNKNOWN: all-reduce failed: closed by peer\nand more")

    monkeypatch.setattr(tf.Passes, "measure", fail)
    with pytest.raises(jax.errors.JaxRuntimeError):
        tf.train(tiny.CONFIG, engram.GradientDescent(1.0, 1))
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    with pytest.raises(ConnectionError, match=r"another process .* closed by peer\). .* to resume"):
        tf.train(tiny.CONFIG, engram.GradientDescent(1.0, 1))


@pytest.mark.parametrize("kind", ["momentum", "nesterov", "normalised", "adam", "adamw", "muon"])
def test_resume_restores_the_memory_of_any_optimizer(tmp_path, kind):
    config, *_ = tiny.make(matrices=("wo2",), length=30, sequences=6, dtype="float32")
    descent = engram.PracticalDescent(getattr(D, kind)(0.1), 4)
    with pytest.raises(KeyboardInterrupt):
        tf.train(config, descent, out=tmp_path / "run", progress=stop_at(2))
    steps = []
    tf.train(config, descent, out=tmp_path / "run", progress=lambda done, total: steps.append(done))
    assert steps[0] == 2


def test_a_folder_rejects_other_numbers_of_the_same_optimizer(tmp_path):
    numbers = {
        "momentum": {"momentum": 0.5},
        "nesterov": {"momentum": 0.5},
        "muon": {"momentum": 0.5},
        "adam": {"b1": 0.5, "b2": 0.5, "eps": 1e-4},
        "adamw": {"b1": 0.5, "b2": 0.5, "eps": 1e-4, "weight_decay": 0.5},
        "rmsprop": {"decay": 0.5, "eps": 1e-4},
    }
    folder = Folder(tmp_path)
    tables = lambda optimizer, **more: {
        "dynamics": table(engram.PracticalDescent(optimizer, 4, **more))
    }
    for name, changes in numbers.items():
        usual = tables(getattr(D, name)(0.1))
        folder.write_config(usual)
        folder.check(usual)
        for field, value in changes.items():
            other = tables(getattr(D, name)(0.1, **{field: value}))
            for before, now in ((usual, other), (other, usual)):
                folder.write_config(before)
                with pytest.raises(InputError, match=rf"Changed:\n  dynamics.{field}: "):
                    folder.check(now)
    folder.write_config(tables(D.adam(0.1)))
    with pytest.raises(InputError, match=r"dynamics.weight_decay: 0.0 in the folder, 0.5 now"):
        folder.check(tables(D.adam(0.1), weight_decay=0.5))


@pytest.mark.skipif(not SHARED.exists(), reason="the reference's weights, 300 KB, are not shipped")
@pytest.mark.optimised
def test_losses_of_the_reference():
    """W_O^2 alone, from the reference's weights: to 1e-5 for 20 steps, at rate 200 for ten."""
    known = json.loads((SHARED / "gd_wo2only_d64_512seq.json").read_text())
    rates = (20, 50, 100, 200)
    training = tf.train(
        tf.Config(matrices=("wo2",)),
        [engram.GradientDescent(float(rate), 20) for rate in rates],
        start=SHARED / "init_d64_512seq.npz",
    )
    for k, rate in enumerate(rates):
        run, until = known[str(rate)], 21 if rate < 200 else 11
        loss = training.log.loss.values[:until, k]
        np.testing.assert_allclose(loss, run["loss"][:until], rtol=0, atol=1e-5)
        norms = [next(iter(each.values())) for each in run["grad_norm"][:11]]
        np.testing.assert_allclose(training.log.grad_norm_wo2.values[:11, k], norms, rtol=2e-5)
        margins = training.log.margins_wo2.values[:11, k]
        np.testing.assert_allclose(margins, run["margins"]["wo2"][:11], rtol=0, atol=5e-4)
    start = known["20"]["margins"]
    np.testing.assert_allclose(training.log.margins_wk2.values[0, 0], start["wk2"][0], atol=1e-5)
    np.testing.assert_allclose(training.log.margins_wk1.values[0, 0], start["wk1"][0], atol=1e-4)
    found = tf.memories(training.model, training.sequences.triggers)["wk1"]
    strict = tf.causal_margins(*found, itself=False)[1:]
    np.testing.assert_allclose(strict, start["wk1_causal"][0], atol=1e-4)


TOKENS, LENGTH, WIDTH = 7, 30, 5


def drawn(width=WIDTH):
    """A start as the reference has it, small: embeddings N(0, 1), the rest uniform in +-1/sqrt d."""
    rng = np.random.default_rng(4)
    rows = {"tok_embeddings": TOKENS, "pe": LENGTH}
    start = {name: rng.standard_normal((count, width)) for name, count in rows.items()}
    matrices = ("output", "wk1", "wv1", "wo1", "wk2", "wv2", "wo2")
    for name in matrices:
        count = TOKENS if name == "output" else width
        start[name] = rng.uniform(-1, 1, (count, width)) / width**0.5
    start["seq"] = rng.integers(0, TOKENS, (4, LENGTH + 1))
    return start | {"triggers": np.array([2, 5])}


def attended(h, wk, wv):
    """What a layer reads at each position, before W_O."""
    scores = h @ wk @ h.T / h.shape[1] ** 0.5
    raised = np.tril(np.exp(scores))
    return raised / raised.sum(axis=1, keepdims=True) @ h @ wv.T


def written_out(start, rate, steps):
    """Descent on W_O^2 alone, in loops over sequences and positions: losses, gradients, margins."""
    a, W = start, start["wo2"].copy()
    read = a["tok_embeddings"] @ a["wv2"].T
    rows = []
    for sequence in a["seq"]:
        h = a["tok_embeddings"][sequence[:-1]] + a["pe"]
        h = h + attended(h, a["wk1"], a["wv1"]) @ a["wo1"].T
        seen = dict.fromkeys(a["triggers"].tolist(), 0)
        for t, token in enumerate(sequence[:-1].tolist()):
            seen[token] = seen.get(token, 0) + 1
            if token in a["triggers"] and seen[token] >= 2:
                rows.append((h[t], attended(h, a["wk2"], a["wv2"])[t], sequence[t + 1]))
    losses, lengths, margins = [], [], []
    for _ in range(steps + 1):
        loss, gradient = 0.0, 0.0
        for stream, feature, target in rows:
            logits = a["output"] @ (stream + W @ feature)
            q = np.exp(logits) / np.exp(logits).sum()
            loss += -np.log(q[target]) / len(rows)
            residual = q - np.eye(TOKENS)[target]
            gradient += np.outer(a["output"].T @ residual, feature) / len(rows)
        w = read @ W.T @ a["output"].T
        losses.append(loss)
        lengths.append(np.linalg.norm(gradient))
        margins.append(np.diag(w) - np.where(np.eye(TOKENS) == 1, -np.inf, w).max(axis=1))
        W = W - rate * gradient
    return losses, lengths, margins


def smallest_margins(scores, own):
    own = np.asarray(own)
    others = np.where(np.arange(scores.shape[1])[None] == own[:, None], -np.inf, scores)
    return scores[np.arange(len(own)), own] - others.max(axis=1)


def test_training_from_a_file_is_the_loop_written_out(tmp_path):
    start, rates = drawn(), (3.0, 40.0)
    np.savez(tmp_path / "start.npz", **start)
    training = tf.train(
        tf.Config(matrices=("wo2",), dtype="float64"),
        [engram.GradientDescent(rate, 6) for rate in rates],
        start=tmp_path / "start.npz",
    )
    for k, rate in enumerate(rates):
        losses, lengths, margins = written_out(start, rate, 6)
        np.testing.assert_allclose(training.log.loss.values[:, k], losses, rtol=1e-11)
        np.testing.assert_allclose(training.log.grad_norm_wo2.values[:, k], lengths, rtol=1e-10)
        np.testing.assert_allclose(
            training.log.margins_wo2.values[:, k], margins, rtol=0, atol=1e-10
        )
    E, P = start["tok_embeddings"], start["pe"]
    asked = E[start["triggers"]]
    keys = asked @ (start["wo1"] @ start["wv1"]).T
    np.testing.assert_allclose(
        training.log.margins_wk2.values[0, 0],
        smallest_margins(asked @ start["wk2"] @ keys.T, [0, 1]),
    )
    places = P[1:] @ start["wk1"] @ P.T
    before = np.arange(LENGTH - 1)
    np.testing.assert_allclose(
        training.log.margins_wk1.values[0, 0], smallest_margins(places, before)
    )
    strict = tf.causal_margins(
        *tf.memories(training.model, training.sequences.triggers)["wk1"], itself=False
    )
    seen = np.where(np.arange(LENGTH)[None] <= before[:, None], places, -np.inf)
    np.testing.assert_allclose(strict[1:], smallest_margins(seen, before)[1:])
    assert strict[0] == np.inf


def test_weights_without_sequences(tmp_path):
    """They come from the other file."""
    wide, narrow = drawn(9), drawn()
    np.savez(tmp_path / "narrow.npz", **narrow)
    for name in ("seq", "triggers"):
        del wide[name]
    np.savez(tmp_path / "wide.npz", **wide)
    config = tf.Config(dim=9, matrices=("wo2",), dtype="float64")
    model, sequences = tf.prepare(config, tmp_path / "wide.npz", tmp_path / "narrow.npz")
    np.testing.assert_array_equal(model.W_E, wide["tok_embeddings"])
    np.testing.assert_array_equal(model["wk2"], wide["wk2"])
    np.testing.assert_array_equal(sequences.tokens, narrow["seq"])
    assert sequences.triggers.tolist() == [[2, 5]] * 4
