"""Shared switches. x64 is as the environment has it, by default off: double precision must come by itself."""

import gc
import os
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import pytest
from hypothesis import Phase, settings

jax.config.update("jax_numpy_rank_promotion", "raise")

# The same examples each time; no shrinking, since each new shape compiles.
settings.register_profile(
    "engram", deadline=None, derandomize=True, phases=(Phase.explicit, Phase.generate)
)
settings.load_profile("engram")

_QUICKLY = "JAX_DISABLE_MOST_OPTIMIZATIONS"
_WRITTEN_FROM = "jax_persistent_cache_min_compile_time_secs"
_MOST_MAPS = 45_000  # of the 65,530 memory maps that Linux lets a process have
_MOST_BYTES = 2 * 2**30  # of memory in one worker after a file of tests


def pytest_configure(config: pytest.Config) -> None:
    """Compile less: most of the time that the tests take. `ENGRAM_TEST_PLAIN=1` compiles as for a user.

    XLA's older emitters, in one piece and not optimised, compile in half the time; results differ from a
    user's in the last digits, and `make test-settings` has a run as users have it. Tests that compute for
    longer than they compile are marked `optimised`. The workers of one run share what they compile, in a
    folder that goes with the run. The limit on its size is never met: it makes JAX take a lock around each
    entry, without which a worker may read one that another has half written, and warn.
    """
    os.environ["ENGRAM_CACHE"] = "off"  # the user's folder is not for tests
    if os.environ.get("ENGRAM_TEST_PLAIN"):
        return
    if version("jaxlib").startswith("0.10."):  # a flag that XLA does not know ends the process
        faster = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
        os.environ["XLA_FLAGS"] = " ".join(filter(None, (os.environ.get("XLA_FLAGS"), faster)))
    jax.config.update(_QUICKLY.lower(), True)
    os.environ[_QUICKLY] = "1"
    worker = getattr(config, "workerinput", None)
    if worker is None:
        config._compiled = tempfile.TemporaryDirectory(prefix="engram-compiled-")  # pyright: ignore
    folder = worker["compiled"] if worker else config._compiled.name  # pyright: ignore
    cache = {
        "jax_compilation_cache_dir": str(folder),
        "jax_compilation_cache_max_size": 2**34,
        _WRITTEN_FROM: 0.1,
    }
    for name, value in cache.items():
        jax.config.update(name, value)
        os.environ[name.upper()] = str(value)  # for the processes that tests start


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node) -> None:
    if hasattr(node.config, "_compiled"):
        node.workerinput["compiled"] = node.config._compiled.name


def pytest_unconfigure(config: pytest.Config) -> None:
    if hasattr(config, "_compiled"):
        config._compiled.cleanup()  # pyright: ignore


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests first, so that no worker is left with one at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_collection_finish() -> None:
    """Look for garbage less often, and not among what is loaded: tracing makes many small objects."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)
    jax.devices()  # one, whichever command would choose first in this process


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: some tests wait for processes, a browser or a signal."""
    return (os.cpu_count() or 1) + 1


@pytest.fixture(autouse=True)
def optimised(request):
    """Programs of tests marked `optimised` are compiled as for a user."""
    changes = request.node.get_closest_marker("optimised") and _QUICKLY in os.environ
    if changes:
        jax.config.update(_QUICKLY.lower(), False)
    yield
    if changes:
        jax.config.update(_QUICKLY.lower(), True)


@pytest.fixture
def x64():
    """For tests that use JAX directly in double precision."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def x32():
    """x64 off, which is JAX's default, whatever the settings of this run."""
    with jax.enable_x64(False):
        yield


class Done(NamedTuple):
    """How a command ended, as `subprocess` has it."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def here(monkeypatch, capsys):
    """Call `engram ARGS` in this process: as exact as in one of its own, and far quicker."""
    from engram.cli import _main

    def call(*args):
        monkeypatch.setattr(sys, "argv", ["engram", *map(str, args)])
        with pytest.raises(SystemExit) as ended:
            _main.main()
        said = capsys.readouterr()
        return Done(ended.value.code or 0, said.out, said.err)

    return call


@pytest.fixture
def surroundings():
    """Environment variables for processes that are killed: they store no compiled programs."""
    return os.environ | {_WRITTEN_FROM.upper(): "1e9"}


@pytest.fixture
def one_size(monkeypatch):
    """Transformers compile for one number of positions instead of four, each with code of its own."""
    monkeypatch.setattr("engram.transformer._passes._LEVELS", (1.0,))


@pytest.fixture(autouse=True, scope="module")
def few_programs():
    """Forget compiled programs in time: each holds memory, and memory maps, of which a process has 65,530."""
    yield
    maps, pages = Path("/proc/self/maps"), Path("/proc/self/statm")
    if not maps.exists():
        return
    resident = int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    if resident > _MOST_BYTES or maps.read_bytes().count(b"\n") > _MOST_MAPS:
        jax.clear_caches()
        eqx.clear_caches()
        gc.collect()


@pytest.fixture(scope="module")
def own_names():
    """A plugin with one name of each kind; its path."""
    from engram.registry import entries, load_plugin, unregister
    from engram.registry._entries import KINDS

    path = Path(__file__).parent / "explorer" / "own_names.py"
    load_plugin(str(path))
    yield path
    for kind in KINDS:
        for name in [name for name, entry in entries(kind).items() if entry.origin == path.stem]:
            unregister(kind, name)


@pytest.fixture(scope="module")
def explorer():
    """The explorer's server on a free port."""
    from engram.explorer import Explorer

    made = Explorer(warm=False).start()
    yield made
    made.stop()
