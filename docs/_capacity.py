"""Measure `capacity.json`, what random memories store, and draw `capacity.png` from it.

`.venv/bin/python docs/_capacity.py measure` takes ten minutes of one core; it resumes from the table, and without
`measure` it only draws.
"""

import json
import sys
from pathlib import Path

import matplotlib
import numpy as np

from engram import capacity, plotting
from engram.capacity._curve import half_points
from engram.theory import scaling

matplotlib.use("agg")
TABLE = Path(__file__).with_name("capacity.json")
KINDS = {
    "unit vectors": ({6: 400, 8: 400, 11: 400, 16: 400, 22: 200, 30: 40, 40: 12}, {}),
    "two classes": ({4: 200, 8: 200, 16: 200}, {"num_classes": 2}),
    "normal vectors": ({8: 200, 11: 100}, {"embeddings": "gaussian"}),
}


def measure() -> list[dict]:
    """A row for each kind of memory and dimension, written as soon as it is there."""
    rows = json.loads(TABLE.read_text()) if TABLE.exists() else []
    for kind, (numbers, options) in KINDS.items():
        for d, draws in numbers.items():
            if not any((row["kind"], row["dim"]) == (kind, d) for row in rows):
                curve = capacity.capacity_curve(d, draws=draws, **options)
                rows.append({"kind": kind, "dim": d, "stored": curve.stored.values[0].tolist()})
                TABLE.write_text(",\n".join(json.dumps(row) for row in rows).join("[]") + "\n")
    return rows


def summary(rows: list[dict]) -> list[dict]:
    """The 50 % point of each row with its interval, the law's, the constant C of N log N, and N δ(N) / D."""
    lines = []
    for row in rows:
        d, M = row["dim"], 2 if row["kind"] == "two classes" else None
        half = half_points(np.array([row["stored"]]), np.random.default_rng(0))[0]
        need = lambda N, M=M: (
            N
            * np.interp(
                N,
                near := (int(N), int(N) + 1),
                [scaling.parameters_per_token(M or n) for n in near],
            )
        )
        constants = d * min(d, M - 1 if M else d) / (half * np.log(half))
        over = [need(N) / (d * min(d, M - 1 if M else d)) for N in half]
        lines.append(
            {
                "kind": row["kind"],
                "d": d,
                "draws": len(row["stored"]),
                "half": half.round(2).tolist(),
            }
            | {"law": round(scaling.capacity(d, M), 2), "C": constants[[0, 2, 1]].round(3).tolist()}
            | {"over": np.round(over, 3).tolist()}
        )
    return lines


def draw(lines: list[dict]) -> None:
    """N at the 50 % point against d; and what divides it from the law."""
    import matplotlib.pyplot as plt

    with plotting.style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(6.6, 2.8), layout="constrained")
        dims = np.arange(4, 46)
        left.plot(dims, [scaling.capacity(int(d)) for d in dims], "k-", lw=1, label="law, $M = N$")
        left.plot(dims, 2 * dims, "k--", lw=1, label="$2d$ (Cover), two classes")
        colours = {"unit vectors": "#0072B2", "two classes": "#D55E00", "normal vectors": "#009E73"}
        for kind, colour in colours.items():
            some = [line for line in lines if line["kind"] == kind]
            d = [line["d"] for line in some]
            look = {"fmt": "o^s"[list(colours).index(kind)], "color": colour, "ms": 4, "capsize": 2}
            for ax, values, label in ((left, "half", kind), (right, "over", kind)):
                middle, low, high = np.array([line[values] for line in some]).T
                ax.errorbar(d, middle, [middle - low, high - middle], **look, label=label)
        left.set(
            xscale="log",
            yscale="log",
            xlabel="dimension $d$",
            title="tokens stored by half of the draws",
        )
        right.axhline(1, color="k", lw=1)
        right.set(
            xscale="log",
            xlabel="dimension $d$",
            title=r"$N\,\delta(M)\,/\,D$ at that number",
            ylim=(0.9, 1.2),
        )
        for ax in (left, right):
            ax.set_xticks([4, 8, 16, 32], ["4", "8", "16", "32"])
            ax.minorticks_off()
        left.legend(fontsize=7)
        figure.savefig(TABLE.with_suffix(".png"), dpi=160)


if __name__ == "__main__":
    rows = measure() if "measure" in sys.argv else json.loads(TABLE.read_text())
    lines = summary(rows)
    for line in lines:
        print(line)
    draw(lines)
