"""Options of absurd values end in one line that names them."""

import resource

import pytest

NINES = "9" * 30
SPHERE = ["--tokens", "sphere", "-N", "4", "-M", "3", "-d", "5"]
BATCHES = ["--dynamics", "sgd", "-r", "0.1", "-t", "5", "--batch-size"]


def refused(done, said):
    assert done.returncode == 2, done.stdout
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("value", ["2147483647", "4294967296", "9223372036854775807", NINES])
@pytest.mark.parametrize(
    ("option", "name"), [("-N", "num_tokens"), ("-M", "num_classes"), ("-d", "dim")]
)
def test_sizes(here, option, name, value):
    refused(here("simulate", *SPHERE, option, value), name)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([*BATCHES, "9223372036854775807"], "--batch-size"),
        ([*BATCHES, "4294967296"], "--batch-size"),
        ([*BATCHES, NINES], "--batch-size"),
        (["--steps", NINES], "--steps"),
        (["--points", "4294967296"], "--points"),
        (["--steps", "9007199254740992", "--every", "1"], "`every` = 1 asks for"),
        (["--p1", "nan"], "--p1 (problem.p1): must be a finite number, got nan"),
        (["--stop", "never"], "--stop must be one of perfect, or NAME=NUMBER, got 'never'"),
        (["--tokens", "one_hot", "-N", "40000", "-M", "40000"], "would need about"),
        ([*SPHERE, "-d", "100000"], "`dim` = 100000 would need about 298 GiB"),
        (["/dev/full"], "SPEC has more than 4 MiB"),
    ],
)
def test_simulate(here, monkeypatch, args, said):
    from engram import _memory_limits

    monkeypatch.setattr(_memory_limits, "_memory", lambda: 2**34)
    refused(here("simulate", *args), said)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--steps", NINES], "--steps"),
        (["--steps", "9007199254740992"], "`steps` must leave room for the log"),
        (["--devices", "100000"], "`devices` must be at most 256, got 100000"),
        (["--dim", "4294967296"], "`dim` must be at most"),
        (["--sequences", NINES], "`sequences` must be at most"),
        (["--length", "65534", "--sequences", "2000000000"], "`sequences` = 2000000000 would need"),
        (["--out", ""], "`--out` must be a folder, got ''"),
        (["--out="], "`--out` must be a folder, got ''"),
    ],
)
def test_train(here, tmp_path, monkeypatch, args, said):
    monkeypatch.chdir(tmp_path)
    refused(here("train", *args), said)
    assert not [*tmp_path.glob("*.toml")]


def test_reproduce_does_not_take_an_empty_name_for_this_folder(here, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused(here("reproduce", "fig1", "--out", ""), "`--out` must be a folder, got ''")
    assert not [*tmp_path.iterdir()]


def test_a_file_that_cannot_be_written_to_its_end_is_one_line(here, tmp_path):
    run = ["simulate", "--steps", 300, "--every", 1]
    here(*run)  # which compiles: JAX keeps that in files
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))  # as a full disk would
    try:
        done = here(*run, "--out", tmp_path / "run.nc")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    refused(done, f"File too large: '{tmp_path / 'run.nc'}'")
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())
