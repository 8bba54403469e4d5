"""Time this tree and an earlier commit in turns, and report what became slower or faster.

    .venv/bin/python tools/compare_commits.py [COMMIT] [NAME ...]

The default is the commit before, on a part of the benchmarks that takes about five minutes (`make
bench-since` does it). It reports and does not fail: machines are noisy.
"""

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 3
NAMES = (
    "two-tokens",
    "sweep-batched",
    "flow",
    "memory-float64-hand",
    "sharpness-64",
    "transformer-wo2",
    "cold-import",
)


def main(commit: str = "HEAD~1", *names: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tree, archive = Path(folder) / "then", Path(folder) / "then.tar"
        subprocess.run(["git", "-C", str(ROOT), "archive", "-o", str(archive), commit], check=True)
        with tarfile.open(archive) as files:
            files.extractall(tree, filter="data")
        _compare(tree, Path(folder) / "then.json", names or tuple(NAMES))


def _compare(tree: Path, file: Path, names: tuple[str, ...]) -> None:
    rows: dict[Path, list[dict]] = {tree: [], ROOT: []}
    for number in range(ROUNDS):
        for each in (tree, ROOT):
            print(
                f"round {number + 1} of {ROUNDS}: {'then' if each == tree else 'now'}",
                file=sys.stderr,
            )
            rows[each] += _bench(each, *names, "--json", "--repeats", "11")
    from rich.console import Console

    from engram.bench import compare, read_measured
    from engram.cli._bench import show_changes

    found = []
    for measured in rows.values():
        file.write_text(json.dumps(measured))
        found.append(read_measured(file))
    show_changes(compare(*found), Console())


def _bench(tree: Path, *arguments: str) -> list[dict]:
    done = subprocess.run(
        [sys.executable, "-m", "engram", "bench", *arguments],
        env=os.environ | {"PYTHONPATH": str(tree / "src")}, cwd=tree, check=True, stdout=subprocess.PIPE,
    )  # fmt: skip
    return json.loads(done.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
