"""
Your own phase diagram
======================

How many steps until every token is recalled? One call makes forty thousand runs of a thousand steps. Runs that did not get there
are hatched; left of the line, theory says that one step is enough.
"""

import matplotlib.pyplot as plt

import engram

grid = engram.sweep(
    {
        "problem": {"family": "two", "p1": 0.75},
        "dynamics": {"kind": "gd", "steps": 999},
        "axes": {
            "correlation": {"linspace": [0.0, 0.99, 200]},
            "learning_rate": {"logspace": [-1, 2, 200]},
        },
        "sweep": {"observables": ["first_perfect"]},
    }
)
print(grid.attrs["summary"])

figure, axes = plt.subplots(figsize=(5.5, 3.6), layout="constrained")
steps = grid.first_perfect.transpose("learning_rate", "correlation").clip(min=1)
mesh = axes.pcolormesh(grid.correlation, grid.learning_rate, steps, norm="log", cmap="viridis_r")
line = engram.sweeps.boundary(grid, "one_step")
print(line.summary)
nearest = int(abs(line.level).argmin("correlation"))
axes.axvline(float(grid.correlation[nearest]), color="black", ls="--", lw=1)
axes.set_facecolor("0.8")
axes.patch.set(hatch="////", edgecolor="0.5")
axes.set(xlabel="correlation of the two tokens", ylabel="learning rate", yscale="log")
figure.colorbar(mesh, label="steps to perfect accuracy")
plt.show()
