"""
A loss spike and its cause
==========================

Two tokens whose embeddings nearly coincide. With a large learning rate the first step learns the frequent
token and pushes the rare one across the decision boundary: the loss spikes, and yet ends lower than with a small rate.
"""

import matplotlib.pyplot as plt

import engram

problem = engram.two_tokens(correlation=0.95, p1=0.75)
plane = engram.planes.memory_plane(problem)

# %%
# For two dimensions and two classes the loss depends on two numbers only, so this picture shows all of it.

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
map_ = engram.landscape(problem, plane, ("loss",), first=(-1, 8, 120), second=(-17, 10, 120))
left.contour(map_.first, map_.second, map_.loss, levels=12, colors="0.7", linewidths=0.6)
for rate, colour in ((10.0, "#009E73"), (1.0, "#D55E00")):
    descent = engram.GradientDescent(learning_rate=rate, steps=34)
    run = engram.simulate(problem, descent, record=("loss", "margins", "weights"))
    x, y = plane.coordinates(problem, run.weights.values)[0].T
    left.plot(x, y, ".-", color=colour, lw=0.8)
    right.semilogy(run.step, run.loss, ".-", color=colour, label=f"learning rate {rate:g}")
    print(f"rate {rate:g}: {int(run.num_spikes)} spikes, last loss {float(run.loss[-1]):.4f}")
left.set(xlabel=r"$\gamma_1$", ylabel=r"$\gamma_2$", title="the plane, and both paths")
right.set(xlabel="step", title="the loss")
right.legend()
plt.show()
