"""Build the sdist and the wheel, and use the wheel in an empty environment, away from the clone.

    .venv/bin/python tools/check_release.py            (`make release` does it)

The environment has the lowest version of every dependency that pyproject.toml allows (with wheels for Python
3.11); `make test` has the newest. There `engram reproduce fig2`, a sweep on two workers and `engram explore`
must work, and a quick part of the tests must pass.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
import urllib.request
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
TOOLS = ("pytest", "pytest-xdist", "hypothesis", "filelock")  # of the extra `test`
TESTS = [
    "problem/test_problem.py",
    "specs/test_specs.py",
    "cli/test_simulate_command.py",
    "sweeps/test_store.py",
    "dynamics/test_flow.py",
    "dynamics/test_optimizers.py",
    "capacity/test_max_margin.py",
    "audits/test_certificates.py",
    "planes/test_planes.py",
]
SPEC = """
[problem]
family = "two"
correlation = 0.95
p1 = 0.75
[dynamics]
kind = "gd"
steps = 50
[axes]
learning_rate = [1.0, 10.0]
[sweep]
observables = ["final_loss"]
"""


def lowest_versions() -> dict[str, str]:
    """The lowest version of each dependency that pyproject.toml allows, by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *extras["cluster"], *extras["test"]]
    found = (re.fullmatch(r"([\w-]+)(?:\[\w+\])?[>=]=([\w.]+)", line) for line in lines)
    return {match[1]: match[2] for match in found if match}


def build() -> Path:
    """Both archives into `dist`; the path of the wheel."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "hatchling", "build", "-d", DIST, cwd=ROOT)
    (wheel,) = DIST.glob("*.whl")
    assert len(list(DIST.glob("*.tar.gz"))) == 1
    return wheel


def install(wheel: Path, folder: Path) -> Path:
    """An environment with the wheel and the lowest versions; its folder of programs."""
    versions = lowest_versions()
    constraints = folder / "lowest.txt"
    constraints.write_text("".join(f"{name}=={at}\n" for name, at in versions.items()))
    venv.create(folder / "venv", with_pip=True)
    programs = folder / "venv" / "bin"
    pip = [programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run(*pip, "-c", constraints, f"{wheel}[cluster]", *TOOLS, cwd=folder)
    return programs


def use(programs: Path, folder: Path) -> None:
    """The commands, in a folder without the clone."""
    (folder / "spec.toml").write_text(SPEC)
    for command in (
        "reproduce fig2 --out out",
        "sweep spec.toml --out sweep.zarr --workers 2",
        "plot sweep.zarr --out sweep.png",
    ):
        run(programs / "engram", *command.split(), cwd=folder)
    for name in ("out/report.html", "out/fig2.png", "sweep.png"):
        assert (folder / name).stat().st_size > 1000, name
    explorer = subprocess.Popen(
        [programs / "engram", "explore", "--no-browser"], cwd=folder, stdout=subprocess.PIPE, text=True
    )  # fmt: skip
    assert explorer.stdout is not None
    try:
        address = explorer.stdout.readline().split()[-1]
        with urllib.request.urlopen(address, timeout=60) as page:
            assert b"<title>engram" in page.read()
    finally:
        explorer.send_signal(signal.SIGINT)
        assert explorer.wait(60) == 130


def test(programs: Path) -> None:
    """A quick part of the tests, on the wheel; old versions may be used in ways that are deprecated."""
    tests = [ROOT / "tests" / name for name in TESTS]
    options = ["-q", "-n", "2", "-m", "not slow", "-p", "no:cacheprovider"]
    options += ["-W", "ignore::DeprecationWarning", "-W", "ignore::PendingDeprecationWarning"]
    run(programs / "python", "-m", "pytest", *options, *tests, cwd=ROOT)


def run(*command: object, cwd: Path) -> None:
    """Run a command to its end; nothing of the clone is on the path of its modules."""
    surroundings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    print("$", *(Path(str(part)).name for part in command), flush=True)
    subprocess.run([str(part) for part in command], cwd=cwd, env=surroundings, check=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="engram-release-") as temporary:
        programs = install(build(), Path(temporary))
        use(programs, Path(temporary))
        test(programs)
