"""Recorders: what a loop stores is what `simulate` would have returned, whenever the loop is killed."""

import functools
import json
import os
import shutil
import subprocess
import sys

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import xarray as xr

import engram
from engram.diagnosis import _records
from engram.diagnosis._records import Growing, Records

PROBLEM = engram.two_tokens(0.95, 0.75)
RECORD = ("loss", "error", "margins", "token_losses", "weights")
TABLES = (PROBLEM.inputs, PROBLEM.outputs, PROBLEM.targets, PROBLEM.probs)


@functools.cache
def full_run():
    return engram.simulate(PROBLEM, engram.GradientDescent(10.0, 34), record=RECORD)


def all_weights():
    return full_run().weights.values


class Tensor:
    """Stands in for a PyTorch tensor: neither `__array__` while it has gradients, nor bfloat16 in NumPy."""

    def __init__(self, values, dtype="float32", *, attached=True):
        self.values = np.asarray(values, np.float64 if dtype == "float64" else np.float32)
        self.dtype, self.attached = dtype, attached

    def detach(self):
        return Tensor(self.values, self.dtype, attached=False)

    def cpu(self):
        return self

    def float(self):
        return Tensor(self.values, "float32", attached=self.attached)

    def numpy(self):
        if self.attached:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        if self.dtype == "bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.values


def recorded(path, steps=range(35), **options):
    recorder = engram.Recorder(*TABLES, store=path, **options)
    for step in steps:
        recorder.record(step, all_weights()[step])
    return recorder


@pytest.mark.settings
def test_a_recording_of_all_steps_is_the_dataset_of_the_run(tmp_path):
    with recorded(tmp_path / "a.zarr") as recorder:
        data = recorder.dataset()
    for name in full_run().data_vars:
        expected = full_run()[name].values.astype(float)
        np.testing.assert_allclose(data[name].values, expected, rtol=1e-12, atol=1e-12)
        assert data[name].dims == full_run()[name].dims
    assert data.attrs["kind"] == "recording"
    assert data.attrs["num_records"] == 35
    table, again = engram.events(full_run()), engram.events(data)
    assert (table["what"].values == again["what"].values).all()
    assert (table["step"].values == again["step"].values).all()


def test_arrays_of_a_recording_are_read_when_used(tmp_path):
    data = recorded(tmp_path / "a.zarr").dataset()
    assert not data.variables["weights"]._in_memory
    np.testing.assert_array_equal(data.weights.sel(step=[3, 30]).values, all_weights()[[3, 30]])
    np.testing.assert_array_equal(data.weights[-1].values, all_weights()[34])
    data.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "a.nc", engine="h5netcdf") as stored:
        np.testing.assert_array_equal(stored.weights.values, all_weights())


def test_the_store_is_plain_zarr(tmp_path):
    recorded(tmp_path / "a.zarr")
    with xr.open_zarr(tmp_path / "a.zarr", consolidated=False, chunks=None) as store:
        steps = store.numbers.values[:, 0]  # NaN beyond the records: there is room for more
        np.testing.assert_array_equal(steps[~np.isnan(steps)], np.arange(35))
        np.testing.assert_array_equal(store.weights.values[~np.isnan(steps)], all_weights())


KINDS = {
    "numpy": lambda W: W,
    "float32": lambda W: W.astype(np.float32),
    "half": lambda W: W.astype(np.float16),
    "jax": lambda W: jnp.asarray(W, jnp.float32),
    "jax bfloat16": lambda W: jnp.asarray(W, jnp.bfloat16),
    "ml_dtypes": lambda W: W.astype(ml_dtypes.bfloat16),
    "torch": lambda W: Tensor(W),
    "torch double": lambda W: Tensor(W, "float64"),
    "torch bfloat16": lambda W: Tensor(W.astype(ml_dtypes.bfloat16).astype(np.float32), "bfloat16"),
    "transposed": lambda W: np.asfortranarray(W),
    "list": lambda W: W.tolist(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_array_is_stored_as_it_is(tmp_path, kind):
    W = all_weights()[5]
    given = KINDS[kind](W)
    is_torch = isinstance(given, Tensor)
    exact = given.values if is_torch else np.asarray(given)
    recorder = engram.Recorder(*TABLES, store=tmp_path / "a.zarr")
    recorder.record(7, given, loss=Tensor(0.5) if is_torch else jnp.float32(0.5), grad=given)
    stored = recorder._records.read("weights")[0]
    np.testing.assert_array_equal(stored, exact.astype(np.float64))
    assert stored.dtype == (np.float64 if exact.dtype.itemsize == 8 else np.float32)
    assert recorder._records.numbers()["loss"] == [0.5]
    assert recorder.last_step == 7


def test_what_the_loop_reports_is_kept(tmp_path):
    recorder = engram.Recorder(*TABLES, store=tmp_path / "a.zarr")
    for step in (0, 10, 20):
        gradient = engram.memory.grad(PROBLEM, all_weights()[step])
        recorder.record(
            step, all_weights()[step], loss=step / 2, grad=-2 * gradient, learning_rate=0.1
        )
    data = recorder.dataset()
    np.testing.assert_array_equal(data.recorded_loss, [0, 5, 10])
    np.testing.assert_array_equal(data.learning_rate, [0.1] * 3)
    np.testing.assert_allclose(data.gradient_cosine, -1, rtol=1e-12)


def test_a_diverged_loop_is_recorded_up_to_where_it_is_finite(tmp_path):
    recorder = recorded(tmp_path / "a.zarr", range(5))
    recorder.record(5, np.full((2, 2), np.nan))
    data = recorder.dataset()
    assert data.attrs["status"] == "diverged"
    assert np.isfinite(data.loss.values).tolist() == [True] * 5 + [False]
    assert (data.event_step.values <= 4).all()
    never = engram.Recorder(*TABLES)
    never.record(0, np.full((2, 2), np.nan))
    for judge in (engram.diagnosis.explain, engram.diagnosis.forgetting):
        with pytest.raises(engram.InputError, match="finite weights, and its first record has"):
            judge(never.dataset())


# --- kills ------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """What `kill -9` is to a test: nothing after it is done."""


def test_a_kill_at_any_moment_loses_at_most_the_record_in_flight(tmp_path, monkeypatch):
    """Stop within one record after each operation on files, reopen, and resume."""
    done, limit = 0, None

    def counted(function):
        def call(*args, **options):
            nonlocal done
            if limit is not None and done == limit:
                raise Killed
            done += 1
            return function(*args, **options)

        return call

    for name in ("pwrite", "ftruncate", "open", "replace"):
        monkeypatch.setattr(_records.os, name, counted(getattr(os, name)))
    # Records of chunks of their own, so that each record also begins files.
    monkeypatch.setattr(_records, "_MOST_RECORDS", 2)
    for limit_now in range(100):
        limit = None
        path = tmp_path / f"{limit_now}.zarr"
        recorder = recorded(path, range(2))
        done, limit = 0, limit_now
        try:
            recorder.record(2, all_weights()[2], grad=all_weights()[2])
        except Killed:
            pass
        else:
            break
        limit = None
        resumed = engram.Recorder(*TABLES, store=path)
        assert resumed.num_records in (2, 3)
        for step in range(resumed.last_step + 1, 5):
            resumed.record(step, all_weights()[step])
        records = _records.open_records(path)
        assert records.numbers()["step"].tolist() == [0, 1, 2, 3, 4]
        np.testing.assert_array_equal(records.read("weights")[:5], all_weights()[:5])
    assert 8 <= limit_now < 100


def test_a_resumed_loop_replaces_the_steps_that_it_makes_again(tmp_path):
    path = tmp_path / "a.zarr"
    recorded(path, range(0, 30, 5)).close()
    resumed = engram.Recorder(*TABLES, store=path)
    assert resumed.last_step == 25
    for step in (10, 14, 30):
        resumed.record(step, 2 * all_weights()[step])
    steps = resumed.dataset().step.values
    assert steps.tolist() == [0, 5, 10, 14, 30]
    with pytest.raises(engram.InputError, match="larger than that of the last record, 30, got 30"):
        resumed.record(30, all_weights()[30])


def test_another_training_in_the_same_store_is_refused(tmp_path):
    path = tmp_path / "a.zarr"
    recorded(path).close()
    resumed = engram.Recorder(*TABLES, store=path)
    with pytest.raises(engram.InputError, match="must not hold another training"):
        resumed.record(0, all_weights()[0] + 1)
    assert resumed.num_records == 35


def test_a_loop_that_starts_again_needs_overwrite_to_erase_records(tmp_path):
    """Weights that start at zero are the same in every training."""
    path = tmp_path / "a.zarr"
    recorded(path).close()
    with engram.Recorder(*TABLES, store=path) as recorder:
        with pytest.raises(
            engram.InputError, match="35 of them, .* pass `overwrite=True`"
        ) as refusal:
            recorder.record(0, all_weights()[0])
        assert "\n" not in str(refusal.value)
        assert recorder.num_records == 35
    with engram.Recorder(*TABLES, store=path, overwrite=True) as recorder:
        recorder.record(0, all_weights()[0] + 1)
        with pytest.raises(engram.InputError, match="`step` must be larger"):
            recorder.record(0, all_weights()[0])  # once only
    with recorded(path, range(1), overwrite=True) as recorder:
        assert recorder.num_records == 1
    with recorded(path, range(1)) as recorder:  # the only record, as it was: nothing is lost
        assert recorder.num_records == 1


def test_a_closed_recorder_records_nothing(tmp_path):
    recorder = recorded(tmp_path / "a.zarr", range(3))
    recorder.close()
    with pytest.raises(engram.InputError, match="a.zarr is closed. Make another one") as refusal:
        recorder.record(3, all_weights()[3])
    assert "\n" not in str(refusal.value)
    assert recorder.num_records == 3
    assert recorder.dataset().sizes["step"] == 3


OTHER = {
    "targets": (PROBLEM.inputs, PROBLEM.outputs, [1, 0], PROBLEM.probs),
    "probs": (PROBLEM.inputs, PROBLEM.outputs, PROBLEM.targets, [0.5, 0.5]),
    "inputs": (2 * PROBLEM.inputs, PROBLEM.outputs, PROBLEM.targets, PROBLEM.probs),
    "outputs": (PROBLEM.inputs, np.ones((3, 2)), PROBLEM.targets, PROBLEM.probs),
}


@pytest.mark.parametrize("name", OTHER)
def test_another_problem_is_refused_in_one_line(tmp_path, name):
    recorded(tmp_path / "a.zarr", range(2)).close()
    with pytest.raises(engram.InputError, match=f"whose `{name}` has") as refusal:
        engram.Recorder(*OTHER[name], store=tmp_path / "a.zarr")
    assert "\n" not in str(refusal.value)


def test_two_processes_do_not_record_to_one_store(tmp_path):
    recorder = recorded(tmp_path / "a.zarr", range(2))
    code = (
        "import fcntl, sys\nfile = open(sys.argv[1], 'wb')\n"
        "try:\n    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\nexcept OSError:\n    sys.exit(7)"
    )
    lock = tmp_path / "a.zarr" / "problem_probs" / ".lock"
    assert subprocess.run([sys.executable, "-c", code, lock], check=False).returncode == 7
    recorder.close()
    assert subprocess.run([sys.executable, "-c", code, lock], check=False).returncode == 0


def test_clean_labels_are_kept(tmp_path):
    noisy = [[0.4, 0.6], [0.3, 0.7]]
    problem = engram.Problem(*TABLES[:2], TABLES[3], noisy, clean_labels=[0, 1], names=["a", "b"])
    with engram.Recorder.of(problem, store=tmp_path / "a.zarr") as recorder:
        for step in (0, 1, 2):
            recorder.record(step, all_weights()[step])
    data = engram.open_recording(tmp_path / "a.zarr")
    np.testing.assert_allclose(data.margins, full_run().margins[:3], atol=1e-12)
    pushes = engram.diagnosis.interference(data, between=(0, 2))
    np.testing.assert_allclose(pushes.margin_after, full_run().margins[2], atol=1e-12)
    without = engram.Problem(*TABLES[:2], TABLES[3], noisy, names=["a", "b"])
    with pytest.raises(engram.InputError, match="another form"):
        engram.Recorder.of(without, store=tmp_path / "a.zarr")


# --- embeddings that train along --------------------------------------------------------------------------


def test_embeddings_that_train_along_are_those_of_each_record(tmp_path):
    rng = np.random.default_rng(0)
    tables = [(rng.standard_normal((5, 3)), rng.standard_normal((4, 2))) for _ in range(4)]
    weights, targets = rng.standard_normal((4, 2, 3)), np.arange(5) % 4
    path = tmp_path / "a.zarr"
    recorder = engram.Recorder(*tables[0], targets, store=path)
    for step, (E, U) in enumerate(tables[:2]):
        recorder.record(step, weights[step], inputs=Tensor(E, "float64"), outputs=U)
    recorder.close()
    recorder = engram.Recorder(*tables[2], targets, store=path)  # as they are by now
    for step in (2, 3):
        recorder.record(step, weights[step], inputs=tables[step][0], outputs=tables[step][1])
    data = recorder.dataset()
    for step, (E, U) in enumerate(tables):
        problem = engram.Problem(E, U, np.full(5, 0.2), targets)
        expected = engram.memory.margins(problem, weights[step])
        np.testing.assert_allclose(data.margins[step], expected, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(data.inputs[step], E)
    with pytest.raises(engram.InputError, match="`inputs` must be given in each record or in none"):
        recorder.record(4, weights[0])


# --- bad input --------------------------------------------------------------------------------------------


BAD = {
    "shape": (
        dict(weight=np.zeros((3, 2))),
        r"`weight` must have shape \(k, d\) \(2, 2\), got \(3, 2\)",
    ),
    "text": (dict(weight=[["a", "b"], ["c", "d"]]), "`weight` must hold real numbers"),
    "complex": (dict(weight=np.zeros((2, 2), complex)), "`weight` must hold real numbers"),
    "ragged": (dict(weight=[[1, 2], [3]]), "`weight` must be an array"),
    "step": (dict(step=1.5), "`step` must be a whole number"),
    "negative": (dict(step=-1), "`step` must be a whole number of at least 0"),
    "nan": (dict(step=np.nan), "`step` must be a whole number"),
    "loss": (dict(loss=[1, 2]), "`loss` must be a number"),
    "grad": (dict(grad=np.zeros(2)), "`grad` must have shape"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_records_are_refused_in_one_line_and_leave_no_trace(tmp_path, case):
    recorder = engram.Recorder(*TABLES, store=tmp_path / "a.zarr")
    given, message = BAD[case]
    with pytest.raises(engram.InputError, match=message) as refusal:
        recorder.record(**({"step": 0, "weight": all_weights()[0]} | given))
    assert "\n" not in str(refusal.value)
    assert recorder.num_records == 0
    with pytest.raises(engram.InputError, match="holds no records yet"):
        recorder.dataset()


def test_recording_within_jit_is_refused(tmp_path):
    recorder = engram.Recorder(*TABLES, store=tmp_path / "a.zarr")
    with pytest.raises(engram.InputError, match="outside of jit"):
        jax.jit(lambda W: recorder.record(0, W))(all_weights()[0])


def cut(path):
    file = path / "weights" / "c" / "0" / "0" / "0"
    file.write_bytes(file.read_bytes()[:10])


def test_room_for_a_trillion_records_is_not_a_trillion_records(tmp_path):
    recorded(tmp_path / "a.zarr", range(3)).close()
    for name in ("numbers", "weights"):
        file = tmp_path / "a.zarr" / name / "zarr.json"
        about = json.loads(file.read_text())
        about["shape"][0] = 10**12
        file.write_text(json.dumps(about))
    data = engram.open_recording(tmp_path / "a.zarr")
    np.testing.assert_array_equal(data.weights, all_weights()[:3])


def test_gradients_that_begin_late_are_missing_before(tmp_path):
    recorder = recorded(tmp_path / "a.zarr", range(3))
    recorder.record(3, all_weights()[3], grad=all_weights()[3])
    gradients = recorder.dataset().gradients.values
    assert np.isnan(gradients[:3]).all()
    np.testing.assert_array_equal(gradients[3], all_weights()[3])


def set_steps(*steps):
    def damage(path):
        file = path / "numbers" / "c" / "0" / "0"
        rows = np.fromfile(file).reshape(-1, 3)
        rows[: len(steps), 0] = steps
        rows.tofile(file)

    return damage


DAMAGE = {
    "steps go back": set_steps(2, 1, 3),
    "steps are no whole numbers": set_steps(0.5, 1, 2),
    "steps are infinite": set_steps(0, 1, np.inf),
    "metadata are nested without end": lambda path: (path / "zarr.json").write_text("[" * 10**5),
    "numbers are gone": lambda path: (path / "numbers" / "c" / "0" / "0").unlink(),
    "a chunk is cut": cut,
    "a chunk is gone": lambda path: (path / "weights" / "c" / "0" / "0" / "0").unlink(),
    "the weights are gone": lambda path: shutil.rmtree(path / "weights"),
    "metadata are no JSON": lambda path: (path / "weights" / "zarr.json").write_text("{"),
    "metadata are of another kind": lambda path: (path / "weights" / "zarr.json").write_text("[]"),
    "the group is not one": lambda path: (path / "zarr.json").write_text("nonsense"),
    "the problem is gone": lambda path: (path / "problem_inputs" / "zarr.json").unlink(),
    "the format is of tomorrow": lambda path: (path / "zarr.json").write_text(
        (path / "zarr.json").read_text().replace('"format": 1', '"format": 9')
    ),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damaged_stores_get_one_line(tmp_path, what):
    path = tmp_path / "a.zarr"
    recorded(path, range(3)).close()
    DAMAGE[what](path)
    for use in use_of(path):
        with pytest.raises(engram.InputError) as refusal:
            use()
        assert "\n" not in str(refusal.value)
        assert str(path) in str(refusal.value)


def use_of(path):
    return lambda: engram.open_recording(path), lambda: engram.Recorder(*TABLES, store=path)


@pytest.mark.parametrize("place", ["weights/c/0/0/0", "problem_inputs/c/0", "zarr.json"])
def test_symbolic_links_in_a_store_are_refused(tmp_path, place):
    path = tmp_path / "a.zarr"
    recorded(path, range(3)).close()
    (path / place).rename(tmp_path / "elsewhere")
    (path / place).symlink_to(tmp_path / "elsewhere")
    for use in use_of(path):
        with pytest.raises(engram.InputError, match=f"has a symbolic link in it: .*{place}"):
            use()


def test_a_link_that_appears_while_recording_is_not_written_through(tmp_path):
    recorder = engram.Recorder(*TABLES, store=tmp_path / "a.zarr")
    mine, chunk = tmp_path / "mine.txt", tmp_path / "a.zarr" / "weights" / "c" / "0" / "0" / "0"
    mine.write_text("mine")
    chunk.parent.mkdir(parents=True)
    chunk.symlink_to(mine)
    with pytest.raises(engram.InputError, match="has a symbolic link in it"):
        recorder.record(0, all_weights()[0])
    assert mine.read_text() == "mine"


# Frames of Zstandard of repeated zeros: one says 2^33 bytes, the other does not say how many.
FRAMES = {
    f"expands to {2**33} bytes": b"\xe0" + (2**33).to_bytes(8, "little") + b"\x03\x00\x00\x07",
    "does not say to how many": b"\x00\x58\x03\x00\x00\x00",
}


@pytest.mark.parametrize("what", FRAMES)
def test_chunks_of_the_problem_that_expand_are_not_read(tmp_path, what):
    path = tmp_path / "a.zarr"
    recorded(path, range(3)).close()
    (path / "problem_inputs" / "c" / "0" / "0").write_bytes(b"\x28\xb5\x2f\xfd" + FRAMES[what])
    for use in use_of(path):
        with pytest.raises(engram.InputError, match=f"is damaged: .*{what}") as refusal:
            use()
        assert "\n" not in str(refusal.value)


def test_stores_that_are_none_get_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(engram.InputError, match="must be a folder"):
        engram.Recorder(*TABLES, store=tmp_path / "file")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(engram.InputError, match="is not a recording"):
        engram.Recorder(*TABLES, store=tmp_path / "other")
    with pytest.raises(engram.InputError, match="does not exist"):
        engram.open_recording(tmp_path / "none")


# --- checkpoints that exist already -----------------------------------------------------------------------


def test_checkpoints_become_the_same_dataset():
    steps = np.arange(0, 35, 5)
    whole = engram.analyse(PROBLEM, all_weights()[steps], steps)
    read = engram.analyse(PROBLEM, (all_weights()[step] for step in steps), steps.tolist())
    assert whole.identical(read)
    np.testing.assert_allclose(whole.loss, full_run().loss.sel(step=steps), rtol=1e-12)
    assert engram.analyse(PROBLEM, all_weights()[:3]).step.values.tolist() == [0, 1, 2]


@pytest.mark.parametrize("steps", [[0, 1], [0, 1, 2, 3]])
def test_each_checkpoint_has_a_step(steps):
    with pytest.raises(engram.InputError, match="one entry per matrix"):
        engram.analyse(PROBLEM, all_weights()[:3], steps)
    with pytest.raises(engram.InputError, match="must be a stack of matrices"):
        engram.analyse(PROBLEM, 3.0)


def test_records_are_looked_at_some_at_a_time(monkeypatch):
    from engram.diagnosis import _recording

    whole = engram.analyse(PROBLEM, all_weights())
    monkeypatch.setattr(_recording, "_AT_ONCE", 4)
    assert whole.identical(engram.analyse(PROBLEM, all_weights()))


def test_memory_does_not_grow_with_the_records(tmp_path):
    """A record is written at once, and nothing of it is kept."""
    recorder = recorded(tmp_path / "a.zarr", range(30))
    held = [x for x in vars(recorder).values() if isinstance(x, np.ndarray)]
    assert sum(x.nbytes for x in held) <= 8 * 128  # the steps
    assert isinstance(recorder._records, Records)
    for array in recorder._records.arrays.values():
        assert isinstance(array, Growing)
        assert not any(isinstance(x, np.ndarray) for x in vars(array).values())


def test_commands_take_a_recording(here, tmp_path):
    recorded(tmp_path / "a.zarr", names=["often", "seldom"]).close()
    assert "token often by" in here("explain", tmp_path / "a.zarr").stdout
    listed = here("events", tmp_path / "a.zarr", "--token", "seldom", "--csv").stdout
    assert listed.splitlines()[1].startswith("2,learnt,seldom")
    assert here("plot", tmp_path / "a.zarr", "--out", tmp_path / "a.png").returncode == 0
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_single_precision_frequencies_are_recorded_and_opened_again(tmp_path):
    """They sum to 1 only up to single precision; a run of them can be explained, too."""
    probs = (1 / np.arange(1, 51)).astype(np.float32)
    probs /= probs.sum()
    assert abs(probs.astype(float).sum() - 1) > 1e-9
    tables = np.eye(50, dtype=np.float32), np.eye(5, dtype=np.float32), np.arange(50) % 5, probs
    with engram.Recorder(*tables, store=tmp_path / "a.zarr") as recorder:
        recorder.record(0, np.zeros((5, 50), np.float32))
    assert engram.Recorder(*tables, store=tmp_path / "a.zarr").num_records == 1
    assert float(recorder.dataset().probs.sum()) == pytest.approx(1, abs=1e-15)
