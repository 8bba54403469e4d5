"""Programs that JAX has compiled, kept in the user's cache folder for processes that come later.

JAX keeps and finds them; here is where, and whether. They are native code: their folder belongs to the user
alone, and to one processor, one JAX and one engram. Whatever is wrong with them leads to compiling again.
"""

import contextlib
import hashlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import engram

_MOST_BYTES = 2**28  # of all folders; a disk with less than that to spare is left alone
_PATIENCE = 60.0  # seconds for the trial
# On some processors JAX rejects what it has written itself, with a line of the C++ library each time.
_TRIAL = """
import jax
events = []
jax.monitoring.register_event_listener(lambda name, **_: events.append(name))
for _ in range(2):
    jax.jit(lambda x: x + 1)(1.0)
    jax.clear_caches()
print("/jax/compilation_cache/cache_hits" in events)
"""


def use_cache() -> bool:
    """Keep the programs that JAX compiles in the user's cache folder, and take them from there.

    Results are the same to the bit. Commands, the explorer and the workers of sweeps call it; elsewhere it is
    opt-in, since it sets the compilation cache of the whole process. `ENGRAM_CACHE=off` switches it off. A
    compilation cache that was set for JAX stays as it is.

    Returns:
        Whether programs are kept: not on a disk that is full, in a folder that others may write to, or on a
        machine whose JAX cannot read what it has written.
    """
    jax = sys.modules.get("jax")
    is_on = os.environ.get("ENGRAM_CACHE", "").lower() not in ("off", "no", "false", "0")
    if not is_on or not hasattr(os, "geteuid"):
        return False
    with contextlib.suppress(OSError, subprocess.SubprocessError, RuntimeError):
        root = _own(_user_folder(), "engram", "compiled")
        name = "jax_compilation_cache_dir"
        given = getattr(jax.config, name) if jax else os.environ.get(name.upper())
        if (
            given and root not in Path(given).parents
        ):  # else the process that started this one chose it
            return False
        folder = _own(root, _key())
        if shutil.disk_usage(folder).free < _MOST_BYTES or not _works(folder):
            return False
        _trim(root)
        warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")
        settings: dict[str, Any] = {
            "jax_compilation_cache_dir": str(folder),
            "jax_compilation_cache_max_size": -1,  # else JAX takes locks, with a library that may be missing
            "jax_persistent_cache_min_compile_time_secs": 0.0,
            # What is wrong with an entry is no fault of the user's, whatever JAX does about its own.
            "jax_raise_persistent_cache_errors": False,
            "jax_compilation_cache_check_contents": False,
            "jax_compilation_cache_expect_pgle": False,
        }
        for name, value in settings.items():
            if jax:
                jax.config.update(name, value)
            else:
                os.environ[name.upper()] = str(value)
        return True
    return False


def _user_folder() -> Path:
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    folder = given if given.is_absolute() else Path.home() / ".cache"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _own(folder: Path, *names: str) -> Path:
    """A folder within, made if need be, that is the user's own: who writes to it decides what is run."""
    for name in names:
        folder /= name
        with contextlib.suppress(FileExistsError):
            folder.mkdir(0o700)
        about = folder.lstat()
        if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o022:
            raise PermissionError(f"{folder} is not a folder of this user alone")
    return folder


def _key() -> str:
    """What native code depends on."""
    try:
        about = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
        which = ("vendor_id", "cpu family", "model", "flags", "CPU", "Features")
        processor = [line for line in about if line.startswith(which)]
    except OSError:
        processor = list(os.uname())
    parts = [version("jaxlib"), version("jax"), engram.__version__, os.environ.get("XLA_FLAGS", "")]
    return hashlib.sha256("\n".join(parts + processor).encode()).hexdigest()[:16]


def _works(folder: Path) -> bool:
    """Whether JAX reads what it writes on this machine, and quietly: tried once, in a process of its own."""
    verdict = folder / "works"
    known = verdict.read_bytes() if verdict.exists() else b""
    if known not in (b"yes", b"no"):
        plain = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
        plain |= {"JAX_PLATFORMS": "cpu", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
        with tempfile.TemporaryDirectory(dir=folder) as empty:
            tried = subprocess.run(
                [sys.executable, "-P", "-c", _TRIAL],
                env=plain | {"JAX_COMPILATION_CACHE_DIR": empty},
                capture_output=True, text=True, timeout=_PATIENCE,
            )  # fmt: skip
        known = b"yes" if tried.stdout.strip() == "True" and not tried.stderr else b"no"
        verdict.write_bytes(known)
    return known == b"yes"


def _trim(root: Path) -> None:
    """Remove what was used longest ago, of all versions together."""
    files = [(path, path.stat()) for path in root.glob("*/*-cache")]
    files.sort(key=lambda each: max(each[1].st_atime, each[1].st_mtime), reverse=True)
    size = 0
    for path, about in files:
        size += about.st_size
        if size > _MOST_BYTES:
            path.unlink(missing_ok=True)
