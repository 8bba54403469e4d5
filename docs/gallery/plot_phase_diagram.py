"""
Your own phase diagram
======================

How many steps until every token is recalled? Forty thousand runs of a thousand steps, in one call. Hatched is where it
was not reached, and the line is where theory says that one step is enough.
"""

import matplotlib.pyplot as plt

import engram

found = engram.sweep(
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
print(found.attrs["summary"])

figure, axes = plt.subplots(figsize=(5.5, 3.6), layout="constrained")
steps = found.first_perfect.transpose("learning_rate", "correlation").clip(min=1)
mesh = axes.pcolormesh(found.correlation, found.learning_rate, steps, norm="log", cmap="viridis_r")
line = engram.sweeps.boundary(found, "one_step")
print(line.told)
nearest = int(abs(line.level).argmin("correlation"))
axes.axvline(float(found.correlation[nearest]), color="black", ls="--", lw=1)
axes.set_facecolor("0.8")
axes.patch.set(hatch="////", edgecolor="0.5")
axes.set(xlabel="correlation of the two tokens", ylabel="learning rate", yscale="log")
figure.colorbar(mesh, label="steps to perfect accuracy")
plt.show()
