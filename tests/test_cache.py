"""Compiled programs are kept for the next process; whatever happens to them, they are compiled again."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engram import _cache

SET = [
    "JAX_COMPILATION_CACHE_DIR",
    "JAX_COMPILATION_CACHE_MAX_SIZE",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS",
    "JAX_RAISE_PERSISTENT_CACHE_ERRORS",
    "JAX_COMPILATION_CACHE_CHECK_CONTENTS",
    "JAX_COMPILATION_CACHE_EXPECT_PGLE",
]
SCRIPT = """
import sys, warnings
warnings.simplefilter("error")
import engram
is_on = engram.use_cache()
import jax
import jax.numpy as jnp
events = []
jax.monitoring.register_event_listener(lambda name, **_: events.append(name))
value = jax.jit(lambda x: jnp.cumsum(jnp.tanh(x) @ x.T))(jnp.linspace(0.1, 2.0, 12).reshape(3, 4))
print(is_on, sum("cache_hits" in name for name in events), bytes(value).hex())
"""
# No file can grow, as on a disk that is full or mounted read-only; whoever runs the tests.
READ_ONLY = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
"""


@pytest.fixture
def surroundings(tmp_path):
    """Where no cache is set for JAX, and the user's folder is of this test."""
    kept = {name: value for name, value in os.environ.items() if name not in SET}
    kept.pop("ENGRAM_CACHE")
    return kept | {"XDG_CACHE_HOME": str(tmp_path), "JAX_PLATFORMS": "cpu"}


def start(environment, script=SCRIPT):
    command = [sys.executable, "-c", script]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def ended(process):
    """What it printed: whether there is a cache, how many programs came from it, the result's bytes."""
    said, noise = process.communicate(timeout=300)
    assert (process.returncode, noise) == (0, b"")
    is_on, hits, value = said.decode().split()
    return is_on == "True", int(hits), value


def test_damaged_entries_are_compiled_again_silently(surroundings, tmp_path):
    together = [start(surroundings), start(surroundings)]  # in the same empty folder
    first, second = map(ended, together)
    assert first[0]
    assert second[2] == first[2]
    (folder,) = (tmp_path / "engram" / "compiled").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    if (folder / "works").read_bytes() == b"no":
        pytest.skip("JAX cannot read its own entries on this machine")
    on, hits, value = ended(start(surroundings))
    assert on
    assert hits > 0
    assert value == first[2]

    entries = sorted(folder.glob("*-cache"))
    for path in entries:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert ended(start(surroundings)) == (True, 0, value)
    entries[0].unlink()
    entries[0].mkdir()
    for path in entries[1:]:
        path.write_bytes(b"")
    (folder / "works").write_bytes(b"")
    strict = {name: "1" for name in SET if "RAISE" in name or "CHECK" in name}
    assert ended(start(surroundings | strict)) == (True, 0, value)

    for path in entries[1:]:
        path.unlink()
    assert ended(start(surroundings, READ_ONLY + SCRIPT)) == (True, 0, value)
    assert not any(path.is_file() and path.stat().st_size for path in entries)


@pytest.fixture
def own(surroundings, tmp_path, monkeypatch):
    """As in a process that has not imported JAX yet; the trial has gone well."""
    monkeypatch.delenv("ENGRAM_CACHE")
    for name in SET:
        monkeypatch.setenv(name, "")  # so that it is put back
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(_cache, "_works", lambda folder: True)
    monkeypatch.setitem(sys.modules, "jax", None)
    return tmp_path / "engram" / "compiled"


def test_a_folder_that_others_can_write_to_is_not_used(own, tmp_path):
    assert _cache.use_cache()
    (folder,) = own.iterdir()
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(folder)
    for path in (folder, own, own.parent):
        path.chmod(0o720)
        assert not _cache.use_cache()
        path.chmod(0o700)
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    assert not _cache.use_cache()
    folder.unlink()
    folder.write_bytes(b"")
    assert not _cache.use_cache()


@pytest.mark.parametrize(
    ("name", "value"), [("ENGRAM_CACHE", "off"), ("JAX_COMPILATION_CACHE_DIR", "/elsewhere")]
)
def test_the_user_decides(own, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert not _cache.use_cache()
    assert os.environ.get("JAX_COMPILATION_CACHE_DIR") in (None, "/elsewhere")


def test_another_machine_or_setting_has_another_folder(own, monkeypatch):
    for flags in ("", "--xla_cpu_multi_thread_eigen=false"):
        monkeypatch.setenv("XLA_FLAGS", flags)
        assert _cache.use_cache()
    monkeypatch.setattr(_cache.engram, "__version__", "0.0.0")
    assert _cache.use_cache()
    assert len(list(own.iterdir())) == 3


def test_a_machine_that_rejects_its_own_entries_and_a_full_disk_have_no_cache(own, monkeypatch):
    monkeypatch.setattr(_cache, "_works", lambda folder: False)
    assert not _cache.use_cache()
    monkeypatch.setattr(_cache, "_works", lambda folder: True)
    monkeypatch.setattr(_cache.shutil, "disk_usage", lambda path: _Disk)
    assert not _cache.use_cache()
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ


class _Disk:
    free = 2**20


def test_what_was_used_longest_ago_goes_first(own, monkeypatch):
    assert _cache.use_cache()
    (folder,) = own.iterdir()
    paths = [folder / f"{name}-cache" for name in "abc"]
    for age, path in enumerate(paths):
        path.write_bytes(bytes(1000))
        os.utime(path, (1e9 - age, 1e9 - age))
    monkeypatch.setattr(_cache, "_MOST_BYTES", 2500)
    assert _cache.use_cache()
    assert [path.exists() for path in paths] == [True, True, False]


def test_the_trial_fails_where_jax_complains(tmp_path, monkeypatch):
    monkeypatch.setattr(
        _cache, "_TRIAL", "import sys; print(True); print('rejected', file=sys.stderr)"
    )
    assert not _cache._works(tmp_path)
    monkeypatch.setattr(_cache, "_TRIAL", "raise NotImplementedError")  # it is not tried again
    assert not _cache._works(tmp_path)
    assert Path(tmp_path, "works").read_bytes() == b"no"
