"""Draw `muon.png`, the first step and the margins of two classes: `.venv/bin/python docs/_muon.py`."""

from pathlib import Path

import matplotlib
import numpy as np

import engram
from engram import dynamics, plotting
from engram.problem import zipf
from engram.theory import muon

matplotlib.use("agg")
STEPS = 300


def main() -> None:
    """Margins after one step over tokens; the least margin of two classes over steps."""
    import matplotlib.pyplot as plt

    M = 50
    p = zipf(M)
    classes = engram.one_hot(M, M, probs=p)
    pair = engram.Problem(
        np.eye(4), [[0.5, 0, 0, 0.5], [-0.5, 0, 0, 0.5]], [0.4, 0.3, 0.2, 0.1], [0, 1, 0, 1]
    )
    methods = {
        "exact Muon": (lambda rate: dynamics.exact_muon(rate), "#0072B2", "-"),
        "Muon of optax": (lambda rate: dynamics.muon(rate), "#56B4E9", "--"),
        "sign": (lambda rate: dynamics.sign(rate), "#009E73", "-."),
        "Adam": (lambda rate: dynamics.adam(rate), "#E69F00", ":"),
        "descent": (lambda rate: dynamics.sgd(rate), "#D55E00", "-"),
    }
    with plotting.style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(6.6, 2.9), layout="constrained")
        tokens = np.arange(1, M + 1)
        for name, (make, colour, line) in methods.items():
            look = {"color": colour, "ls": line, "lw": 1.4, "label": name}
            run = engram.simulate(
                classes, engram.PracticalDescent(make(1.0), 1), record=("margins",)
            )
            m = run.margins.values[-1]
            left.plot(tokens, m / m.max(), **look)
            run = engram.simulate(
                pair, engram.PracticalDescent(make(0.1), STEPS), record=("margins",)
            )
            least = run.margins.values.min(1)
            right.plot(run.step, least, **look)
            slope = (least[-1] - least[STEPS // 2]) / (STEPS - STEPS // 2)
            print(
                f"{name}: least over largest margin {m.min() / m.max():.4f}, gain per step {slope:.5f}"
            )
        m = muon.first_step_margins(1.0, p)
        left.plot(tokens[::6], (m / m.max())[::6], "ko", ms=3, label="closed form")
        gain = muon.gain_per_step(0.1, pair)
        print(f"bound {gain:.5f} per step; closed form {m.min() / m.max():.4f}")
        right.plot(
            [0, STEPS],
            [0, STEPS * gain],
            "k",
            lw=0.8,
            ls=(0, (1, 2)),
            label=r"Muon's bound $\eta\gamma t$",
        )
        left.set(
            xscale="log",
            yscale="log",
            xlabel="token, by frequency",
            title="margin over the largest, one step",
        )
        right.set(xlabel="step", title="least margin, two classes")
        left.legend(fontsize=6.5)
        right.legend(fontsize=6.5)
        figure.savefig(Path(__file__).with_name("muon.png"), dpi=160)


if __name__ == "__main__":
    main()
