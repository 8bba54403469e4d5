"""Draw `spike.gif`, the moving picture of the front page: `.venv/bin/python docs/_spike.py`."""

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.animation import FuncAnimation, PillowWriter

import engram
from engram import plotting

matplotlib.use("agg")
STEPS = 34


def main() -> None:
    """Two learning rates, side by side in the plane, in the loss and in the rare token's margin."""
    import matplotlib.pyplot as plt

    problem = engram.two_tokens(correlation=0.95, p1=0.75)
    plane = engram.planes.memory_plane(problem)
    runs = {
        rate: engram.simulate(
            problem, engram.GradientDescent(rate, STEPS), record=("loss", "margins", "weights")
        )
        for rate in (10.0, 1.0)
    }
    map_ = engram.landscape(
        problem, plane, ("loss", "error"), first=(-1, 8, 150), second=(-17, 10, 150)
    )
    with plotting.style():
        figure, axes = plt.subplots(1, 3, figsize=(6.6, 2.3), layout="constrained")
        axes[0].contourf(
            map_.first, map_.second, 1 - map_.error, levels=[0.9, 1.1], colors=["#E4F0FA"]
        )
        axes[0].contour(
            map_.first, map_.second, map_.loss, levels=10, colors="0.75", linewidths=0.5
        )
        axes[0].set(
            title="weights; no error in the blue wedge", xlabel=r"$\gamma_1$", ylabel=r"$\gamma_2$"
        )
        axes[1].set(title="loss", xlabel="step", yscale="log", xlim=(0, STEPS), ylim=(0.04, 2))
        axes[2].set(title="margin of the rare token", xlabel="step", xlim=(0, STEPS), ylim=(-7, 3))
        axes[2].axhline(0, color="0.5", lw=0.8)
        lines = []
        for rate, run in runs.items():
            x, y = plane.coordinates(problem, run.weights.values)[0].T
            look = plotting.rate_style(rate) | {"ms": 2.5, "lw": 1}
            for ax, (a, b) in zip(
                axes, [(x, y), (run.step, run.loss), (run.step, run.margins[:, 1])], strict=True
            ):
                lines.append((*ax.plot([], [], **look, label=f"learning rate {rate:g}"), a, b))
        axes[1].legend(loc="lower left")

        def show(frame: int) -> list:
            for line, a, b in lines:
                line.set_data(np.asarray(a)[: frame + 1], np.asarray(b)[: frame + 1])
            return [line for line, *_ in lines]

        frames = [*range(20), *range(20, STEPS + 1, 2), *[STEPS] * 12]  # and rest on the last
        movie = FuncAnimation(figure, show, frames=frames, blit=False)
        movie.save(Path(__file__).with_name("spike.gif"), PillowWriter(fps=6), dpi=104)


if __name__ == "__main__":
    main()
