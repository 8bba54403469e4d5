"""Compare numbers bit for bit with those of another commit, or of other compiler flags, on this machine.

    python tools/same_bits.py HEAD~1
    python tools/same_bits.py HEAD --flags=--xla_cpu_parallel_codegen_split_count=1

Each case runs in this working tree and in a clean copy of the commit, with the same interpreter; what differs
is named, with the largest difference relative to the size of the numbers. Bits depend on the machine, so none
are kept. Exit code 1 if anything differs.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

CASES: dict[str, Callable[[], Any]] = {}


def case(fn: Callable[[], Any]) -> Callable[[], Any]:
    """Add a case: a function without arguments that returns a dataset, or arrays by name."""
    CASES[fn.__name__] = fn
    return fn


def _descent(**options: Any) -> Any:
    import engram

    return engram.GradientDescent(**{"learning_rate": 10.0, "steps": 300} | options)


def _sphere() -> Any:
    import engram

    return engram.on_sphere(2, 9, 5, 3, targets="random")


def _in(space: str, **options: Any) -> Any:
    import engram

    return engram.simulate(_sphere(), _descent(), space=space, **options)


@case
def weights():
    return _in("weights")


@case
def particles():
    return _in("particles")


@case
def margins():
    import engram

    return engram.simulate(engram.two_tokens(0.9, 0.75), _descent(), space="margins")


@case
def sparse():
    return _in("particles", at=[0, 5, 100, 290])


@case
def sharpness():
    return _in("weights", record=("sharpness", "stability_gap", "grad_norm", "scores"), every=50)


@case
def momentum():
    import engram

    method = engram.PracticalDescent(engram.dynamics.nesterov(5.0), steps=200, weight_decay=1e-3)
    return engram.simulate(_sphere(), method)


@case
def normalised():
    import engram

    method = engram.PracticalDescent(engram.dynamics.normalised(0.5), steps=200, batch_size=4)
    return engram.simulate(_sphere(), method, key=3)


@case
def stochastic():
    import engram

    sgd = engram.StochasticGradientDescent(learning_rate=5.0, batch_size=3, steps=300)
    return engram.simulate(_sphere(), sgd, key=1)


@case
def adam():
    import engram

    method = engram.PracticalDescent(engram.dynamics.adam(0.1), steps=200)
    return engram.simulate(_sphere(), method, record=("loss", "margins", "stability_gap"))


@case
def layer_norm():
    import engram

    method = engram.PracticalDescent(engram.dynamics.adamw(0.1), steps=200)
    start = np.random.default_rng(0).standard_normal((3, 3))
    system = engram.memory.MemorySystem(_sphere(), layer_norm=True)
    return engram.simulate(system, method, start=start)


@case
def flow():
    import engram

    return engram.simulate(_sphere(), engram.GradientFlow(times=np.geomspace(0.1, 1e3, 20)))


@case
def stochastic_flow():
    import engram

    sgf = engram.StochasticGradientFlow(times=np.linspace(0, 5, 6), learning_rate=0.1, batch_size=2)
    return engram.simulate(_sphere(), sgf, key=2)


@case
def stopped():
    return _in("weights", stop={"loss": 1.0})


@case
def sweep():
    import engram

    spec = {
        "problem": {"family": "two", "p1": 0.75},
        "dynamics": {"kind": "gd", "steps": 200},
        "axes": {"correlation": [-0.9, 0.0, 0.5, 0.95], "learning_rate": [1.0, 10.0, 30.0]},
    }
    return engram.sweep(spec)


@case
def transformer():
    import engram
    from engram.transformer import Config, train

    config = Config(dim=16, sequences=32, length=32)
    return {"losses": train(config, engram.GradientDescent(5.0, 5)).log.loss.to_numpy()}


def _arrays(found: Any) -> dict[str, np.ndarray]:
    values = found.variables if hasattr(found, "variables") else found
    return {str(name): np.asarray(value) for name, value in values.items()}


def compute(out: Path) -> None:
    """Every case of this process's engram, as one file."""
    arrays: dict[str, np.ndarray] = {}
    for name, fn in CASES.items():
        try:
            found = _arrays(fn())
        except Exception as error:  # said, not hidden: it differs unless both fail alike
            found = {"error": np.array(f"{type(error).__name__}: {error}")}
        arrays |= {f"{name}.{key}": value for key, value in found.items()}
    np.savez(out, **{key: value for key, value in arrays.items() if value.dtype != object})


def compare(ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> list[str]:
    """One line per array that differs."""
    lines = []
    for key in sorted(ours.keys() | theirs.keys()):
        if key not in ours or key not in theirs:
            lines.append(f"{key}: only in {'this tree' if key in ours else 'the other'}")
            continue
        a, b = ours[key], theirs[key]
        if a.shape != b.shape or a.dtype.kind != b.dtype.kind:
            lines.append(f"{key}: {a.dtype}{a.shape} here, {b.dtype}{b.shape} there")
        elif a.tobytes() != b.astype(a.dtype).tobytes():
            if a.dtype.kind == "f":
                gap = np.nanmax(np.abs(a - b), initial=0.0) / max(
                    np.nanmax(np.abs(b), initial=0.0), 1e-300
                )
                lines.append(f"{key}: differs by up to {gap:.1e} of its size")
            else:
                lines.append(f"{key}: {a.ravel()[:3]} here, {b.ravel()[:3]} there")
    return lines


def _run(tree: Path, out: Path, flags: str) -> None:
    env = os.environ | {"PYTHONPATH": str(tree / "src")}
    if flags:
        env["XLA_FLAGS"] = " ".join(filter(None, (env.get("XLA_FLAGS"), flags)))
    command = [sys.executable, str(Path(__file__).resolve()), "--compute", str(out)]
    subprocess.run(command, env=env, check=True, cwd=tree)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit", nargs="?", default="HEAD")
    parser.add_argument("--flags", default="", help="XLA_FLAGS for this tree only")
    parser.add_argument("--compute", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.compute:
        compute(args.compute)
        return 0
    here = Path(__file__).resolve().parents[1]
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder) / "tree"
        git = ["git", "-C", str(here), "worktree"]
        subprocess.run([*git, "add", "--detach", "-q", str(other), args.commit], check=True)
        try:
            _run(here, Path(folder) / "ours.npz", args.flags)
            _run(other, Path(folder) / "theirs.npz", "")
        finally:
            subprocess.run([*git, "remove", "--force", str(other)], check=True)
        ours, theirs = (dict(np.load(Path(folder) / name)) for name in ("ours.npz", "theirs.npz"))
    lines = compare(ours, theirs)
    print("\n".join(lines) or f"{len(ours)} arrays of {len(CASES)} cases: the same bits")
    failed = [key for key in ours if key.endswith(".error") and ours[key].dtype.kind == "U"]
    for key in failed:
        print(f"{key}: {ours[key]}")
    return int(bool(lines or failed))


if __name__ == "__main__":
    sys.exit(main())
