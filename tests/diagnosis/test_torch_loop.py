"""A real loop in PyTorch, killed and resumed; skipped where PyTorch is not installed."""

import os
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import engram

torch = pytest.importorskip("torch")
LOOP = Path(__file__).parent / "loop.py"
EXAMPLE = Path(__file__).parents[2] / "examples" / "pytorch_spike.py"


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_tensors_are_stored_as_they_are(tmp_path, dtype):
    W = torch.randn(3, 4).to(getattr(torch, dtype)).requires_grad_()
    tables = torch.randn(5, 4), torch.randn(6, 3)
    with engram.Recorder(*tables, torch.arange(5), store=tmp_path / "a.zarr") as recorder:
        recorder.record(torch.tensor(3), W, loss=(W**2).sum())
        recorder.record(4, W.T.contiguous().T, grad=W.detach())  # in another order in memory
    data = recorder.dataset()
    for record in (0, 1):
        np.testing.assert_array_equal(data.weights[record], W.detach().double().numpy())
    assert data.step.values.tolist() == [3, 4]


def test_tensors_without_data_are_refused(tmp_path):
    recorder = engram.Recorder(torch.randn(5, 4), torch.randn(6, 3), torch.arange(5))
    with pytest.raises(engram.InputError, match="must be an array") as refusal:
        recorder.record(0, torch.empty(3, 4, device="meta"))
    assert "\n" not in str(refusal.value)


def test_the_loop_of_the_page_on_recording_is_explained_as_it_says(tmp_path, monkeypatch):
    """The first example of the page runs, and ends with the two tokens."""
    page = (Path(__file__).parents[2] / "docs" / "record.md").read_text()
    monkeypatch.chdir(tmp_path)
    known = {}
    exec(page.split("```py\n")[1].split("```")[0], known)
    spike = engram.diagnosis.explain(known["data"], most=1).spikes[0]
    assert (spike.risen.tokens[0], spike.against.tokens[0]) == (17, 3)


def start(folder, steps):
    folder.mkdir(exist_ok=True)
    return subprocess.Popen([sys.executable, LOOP, folder, str(steps)], env=os.environ)


def recorded_steps(folder):
    try:
        return engram.diagnosis._records.open_records(folder / "loop.zarr").count
    except engram.InputError:
        return 0


@pytest.mark.slow
def test_a_loop_that_is_killed_and_resumed_records_what_an_undisturbed_one_does(tmp_path):
    whole = start(tmp_path / "whole", 400)
    assert whole.wait(300) == 0
    loop = start(tmp_path / "killed", 10**9)
    while recorded_steps(tmp_path / "killed") < 60:
        assert loop.poll() is None
        time.sleep(0.05)
    loop.send_signal(signal.SIGKILL)
    loop.wait()
    killed_at = recorded_steps(tmp_path / "killed")
    resumed = start(tmp_path / "killed", max(killed_at + 40, 400))
    assert resumed.wait(300) == 0
    ours = engram.open_recording(tmp_path / "killed" / "loop.zarr").isel(step=slice(400))
    theirs = engram.open_recording(tmp_path / "whole" / "loop.zarr")
    np.testing.assert_array_equal(ours.step, theirs.step)
    for name in ("weights", "gradients", "recorded_loss", "margins"):
        np.testing.assert_array_equal(ours[name].values, theirs[name].values)
    # The memory's own gradient is that of the loop, up to what bfloat16 rounds.
    assert float(theirs.gradient_cosine[:50].min()) > 0.99


@pytest.mark.slow
def test_the_example_explains_its_spike(tmp_path):
    threads = torch.get_num_threads()
    main = runpy.run_path(str(EXAMPLE))["main"]
    explanation = main(tmp_path, steps=60)
    torch.set_num_threads(threads)
    spike = explanation.spikes[0]
    assert 30 <= spike.first <= 36
    assert spike.rates == (10.0, 300.0)
    assert spike.pushes.attrs["fit"] > 0.99
    # What the loop did is what the memory asks for: attention and positions have little to do with it.
    assert float(explanation.run.gradient_cosine.sel(step=spike.first)) > 0.9
    assert explanation.run.recorded_loss.sel(step=spike.peak) > 2 * spike.loss_before
