"""Probes: a matrix of a file in, margins, errors and pushes out; hostile files get one line."""

import json
import struct
import zipfile

import numpy as np
import pytest
import xarray as xr

import engram
from engram import diagnosis, memory
from engram.diagnosis import TensorFile

ROWS = np.random.default_rng(10).standard_normal((2, 12, 6))
ROWS /= np.linalg.norm(ROWS, axis=2, keepdims=True)
PROBLEM = engram.Problem(*ROWS, 1 / np.arange(1, 13) / (1 / np.arange(1, 13)).sum(), np.arange(12))
W = 4 * PROBLEM.outputs.T @ PROBLEM.inputs
TABLES = (PROBLEM.inputs, PROBLEM.outputs, PROBLEM.targets, PROBLEM.probs)
NAMES = [f"t{x}" for x in range(12)]


@pytest.mark.settings
def test_a_probe_agrees_with_the_library():
    data = engram.probe(W, *TABLES)
    np.testing.assert_allclose(data.margins, memory.margins(PROBLEM, W), rtol=1e-12)
    np.testing.assert_allclose(data.token_losses, memory.token_losses(PROBLEM, W), rtol=1e-12)
    assert float(data.error) == pytest.approx(memory.error_rate(PROBLEM, W))
    assert (data.recalled.values == memory.predict(PROBLEM, W)).all()
    assert int(data.num_recalled) == int((data.margins > 0).sum())
    against = np.array(memory.class_margins(PROBLEM, W))
    against[np.arange(12), PROBLEM.labels] = np.inf
    assert (data.rival.values == against.argmin(axis=1)).all()
    np.testing.assert_allclose(data.singular_values, np.linalg.svd(W, compute_uv=False), rtol=1e-12)


def test_pushes_of_a_probe_are_the_speed_of_the_margins_under_the_flow():
    data = engram.probe(W, *TABLES)
    h = 1e-6
    step = memory.class_margins(PROBLEM, W - h * memory.grad(PROBLEM, W))
    change = (step - memory.class_margins(PROBLEM, W))[np.arange(12), data.rival.values]
    np.testing.assert_allclose(data.push.sum("source"), change / h, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(np.diag(data.push), data.push_own, rtol=1e-12)
    others = np.where(np.eye(12, dtype=bool), np.inf, data.push.values)
    assert (data.hurt_by.values == others.argmin(axis=1)).all()
    np.testing.assert_allclose(data.hurt, np.minimum(others.min(axis=1), 0), rtol=1e-12)


def test_a_probe_in_blocks_is_the_same(monkeypatch):
    from engram.diagnosis import _probe

    whole = engram.probe(W, *TABLES)
    monkeypatch.setattr(_probe, "_SCORES", 60)  # five tokens at a time
    monkeypatch.setattr(_probe, "_PUSHES", 100)
    blocks = engram.probe(W, *TABLES)
    assert "push" in whole
    assert "push" not in blocks
    for name in blocks.data_vars:
        np.testing.assert_allclose(blocks[name], whole[name], rtol=1e-12, atol=1e-15)


def test_several_matrices_are_a_dataset_over_their_names():
    data = engram.probe({"trained": W, "zero": 0 * W}, *TABLES, names=NAMES)
    alone = engram.probe(W, *TABLES, names=NAMES)
    assert data.matrix.values.tolist() == ["trained", "zero"]
    for name in ("margins", "loss", "push", "effective_rank"):
        np.testing.assert_array_equal(data[name].sel(matrix="trained"), alone[name])
    rows = diagnosis.summary_rows(data)
    assert [row[0] for row in rows] == ["trained", "zero"]


def test_what_is_possible_lies_between_its_bounds():
    data = engram.probe(W, *TABLES)
    least = engram.capacity.min_error(PROBLEM, max_programs=200)
    assert float(data.possible_bound) == pytest.approx(least.bound, abs=1e-12)
    assert least.bound - 1e-12 <= float(data.possible_error) <= least.error + 1e-12
    # Tokens of one input ask for two classes: the rarer one is lost, whatever W is.
    inputs = np.array(PROBLEM.inputs)
    inputs[1] = inputs[0]
    twins = engram.probe(W, inputs, *TABLES[1:])
    assert float(twins.possible_bound) >= min(PROBLEM.probs[:2]) - 1e-12
    assert float(twins.possible_error) >= float(twins.possible_bound) - 1e-12


def test_a_large_memory_within_its_dimension_can_be_stored():
    rng = np.random.default_rng(0)
    E, U = rng.standard_normal((40, 50)), rng.standard_normal((40, 50))
    data = engram.probe(rng.standard_normal((50, 50)), E, U, np.arange(40))
    assert float(data.possible_error) == 0
    assert float(data.error) > 0.5


def test_noisy_targets_can_be_probed():
    table = np.full((12, 12), 0.02)
    table[np.arange(12), np.arange(12)] += 0.76
    data = engram.probe(W, PROBLEM.inputs, PROBLEM.outputs, table)
    assert float(data.error) >= 0.2


# --- files ------------------------------------------------------------------------------------------------


@pytest.fixture
def npz(tmp_path):
    path = tmp_path / "model.npz"
    arrays = {"embed": PROBLEM.inputs, "unembed": PROBLEM.outputs, "h0.ov": W, "h1.ov": W + 1}
    np.savez(path, targets=PROBLEM.targets, probs=PROBLEM.probs, turned=W.T[:, :5], **arrays)
    return path


def write_safetensors(path, arrays):
    """The format by hand, so that the tests need no library to write it."""
    header, data = {}, b""
    for name, (dtype, shape, raw) in arrays.items():
        header[name] = {
            "dtype": dtype,
            "shape": shape,
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def test_the_command_prints_tables_and_writes_what_was_asked_for(here, npz, tmp_path):
    names = tmp_path / "names.txt"
    names.write_text("\n".join(NAMES))
    outs = [tmp_path / f"out.{ending}" for ending in ("nc", "html", "png")]
    options = ("--inputs", "embed", "--outputs", "unembed", "--names", names)
    options += ("--out", outs[0], "--html", outs[1], "--plot", outs[2])
    done = here(
        "probe", npz, "--weight", "h0.ov", "--targets", "targets", "--counts", "probs", *options
    )
    assert done.returncode == 0, done.stderr
    data = engram.probe(W, *TABLES, names=NAMES)
    worst = str(data.token.values[int(data.margins.values.argmin())])
    assert f"{int(data.num_recalled)} of 12" in done.stdout
    first = done.stdout.split("nearest confusions")[1].splitlines()[2]
    assert first.split()[0] == worst
    assert all(path.stat().st_size > 1000 for path in outs)
    with xr.open_dataset(outs[0], engine="h5netcdf") as written:
        np.testing.assert_array_equal(written.margins, data.margins)
    page = outs[1].read_text()
    assert page.startswith("<!doctype html>")
    assert worst in page
    several = here("probe", npz, "--weight", "h*.ov", "--inputs", "embed", "--outputs", "unembed")
    assert "h0.ov" in several.stdout
    assert "h1.ov" in several.stdout


def test_names_in_a_page_are_escaped(tmp_path):
    names = ["<script>alert(1)</script>", *NAMES[1:]]
    data = engram.probe(W, *TABLES, names=names)
    diagnosis.write_probe_page(data, tmp_path / "page.html", "<b>title</b>")
    page = (tmp_path / "page.html").read_text()
    assert "<script>" not in page
    assert "<b>title" not in page


WRONG = {
    "weight": (("--weight", "nothing"), "`--weight` must name an array"),
    "pattern": (("--weight", "x*"), "`--weight` must name an array"),
    "shape": (("--weight", "turned"), "must name a matrix of shape (6, 6)"),
    "inputs": (("--weight", "h0.ov", "--inputs", "nothing"), "`--inputs` must name an array"),
    "targets": (("--weight", "h0.ov", "--targets", "probs"), "`targets` must be integers"),
    "out": (("--weight", "h0.ov", "--out", "x.txt"), "`--out` must end in .nc"),
    "names": (("--weight", "h0.ov", "--names", "none.txt"), "`--names` must be a text file"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_options_get_one_line(here, npz, case):
    given, message = WRONG[case]
    usual = ("--inputs", "embed") if "--inputs" not in given else ()
    done = here("probe", npz, *given, *usual, "--outputs", "unembed")
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def bomb(path):
    """A member that says it is huge, in a small file."""
    header = "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 1000000), }"
    raw = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header) + 1) + header.encode() + b"\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("W.npy", raw)


def pickled(path):
    np.savez(path, W=np.asarray([{"a": 1}], dtype=object))


def truncated(path):
    np.savez(path, W=np.eye(3))
    path.write_bytes(path.read_bytes()[:-60])


def long_header(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("W.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", 60000) + b"{" * 60000)


HOSTILE = {
    "long.npz": long_header,
    "bomb.npz": bomb,
    "pickled.npz": pickled,
    "truncated.npz": truncated,
    "empty.npz": lambda path: path.write_bytes(b""),
    "single.npz": lambda path: path.write_bytes(b"\x93NUMPY\x01\x00nonsense"),
    "model.pt": lambda path: path.write_bytes(b"anything"),
    "folder.npz": lambda path: path.mkdir(),
    "missing.npz": lambda path: None,
}
HOSTILE_TENSORS = {
    "empty.safetensors": lambda path: path.write_bytes(b""),
    "header.safetensors": lambda path: path.write_bytes(struct.pack("<Q", 2**60) + b"{}"),
    "nonsense.safetensors": lambda path: path.write_bytes(struct.pack("<Q", 4) + b"nope"),
    "huge.safetensors": lambda path: write_safetensors(
        path, {"W": ("F32", [10**6, 10**6], b"\0" * 16)}
    ),
    "overlap.safetensors": lambda path: path.write_bytes(
        struct.pack("<Q", 66)
        + b'{"W":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}'.ljust(66)
        + b"\0" * 12
    ),
}


@pytest.mark.parametrize("name", HOSTILE | HOSTILE_TENSORS)
def test_files_that_cannot_be_used_get_one_line(here, tmp_path, name):
    if name in HOSTILE_TENSORS:
        pytest.importorskip("safetensors")
    path = tmp_path / name
    (HOSTILE | HOSTILE_TENSORS)[name](path)
    done = here("probe", path, "--weight", "W", "--inputs", "W", "--outputs", "W")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert str(path) in done.stderr
    assert "allow_pickle" not in done.stderr  # which NumPy advises


def test_arrays_larger_than_memory_are_refused_before_they_are_read(tmp_path, monkeypatch):
    np.savez(tmp_path / "m.npz", W=np.eye(3))
    file = TensorFile(tmp_path / "m.npz")
    monkeypatch.setattr("engram._memory_limits._memory", lambda: 100)
    monkeypatch.setattr(file._reader, "read", lambda name: pytest.fail("was read"))
    with pytest.raises(engram.InputError, match="would need about"):
        file["W"]


def test_safetensors_are_read_with_bfloat16_and_half(tmp_path):
    pytest.importorskip("safetensors")
    exact = np.asarray([[1.5, -2.0], [0.25, 3.0]], np.float32)
    raw = {
        "bf": ("BF16", [2, 2], (exact.view(np.uint32) >> 16).astype("<u2").tobytes()),
        "half": ("F16", [2, 2], exact.astype("<f2").tobytes()),
        "single": ("F32", [2, 2], exact.tobytes()),
        "tiny": ("F8_E4M3", [2, 2], b"\0" * 4),
    }
    write_safetensors(tmp_path / "m.safetensors", raw)
    file = TensorFile(tmp_path / "m.safetensors")
    for name in ("bf", "half", "single"):
        np.testing.assert_array_equal(file[name].astype(float), exact)
    with pytest.raises(engram.InputError, match="16 bits or more, got F8_E4M3"):
        file["tiny"]
