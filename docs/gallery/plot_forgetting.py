"""
Forgetting with limited capacity
================================

When there are more tokens than dimensions, the minimiser of the cross-entropy may recall fewer tokens than another matrix does:
long training forgets. Both matrices are computed with certificates.
"""

import matplotlib.pyplot as plt
import numpy as np

import engram

for seed in range(100):
    problem = engram.on_sphere(seed, num_tokens=5, num_classes=2, dim=2)
    result = engram.capacity.calibration(problem)
    if result.excess > 0.15:
        break
print(
    f"draw {seed}: error {result.error:.2f} at the loss's minimiser, {result.least.error:.2f} for the best W"
)

plane = engram.planes.memory_plane(problem)
descent = engram.GradientDescent(learning_rate=2.0, steps=3000)
run = engram.simulate(problem, descent, record=("error", "loss", "weights"), points=300)
x, y = plane.coordinates(problem, run.weights.values)[0].T
size = 1.3 * max(np.abs(x).max(), np.abs(y).max())
map_ = engram.landscape(
    problem, plane, ("loss", "error"), first=(-size, size, 200), second=(-size, size, 200)
)

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
mesh = left.pcolormesh(map_.first, map_.second, map_.error, cmap="Blues_r")
left.plot(x, y, color="#D55E00", lw=1.5)
left.plot(x[-1], y[-1], "*", color="#D55E00", ms=10)
left.set(title="where descent goes", xlabel=r"$\gamma_1$", ylabel=r"$\gamma_2$")
figure.colorbar(mesh, label="0-1 loss")
right.semilogx(run.step + 1, run.error, drawstyle="steps-post", label="0-1 loss")
right.semilogx(run.step + 1, run.loss, label="cross-entropy")
right.axhline(result.least.error, color="black", ls="--", lw=1, label="smallest 0-1 loss")
right.set(xlabel="step + 1", title="the loss falls, the error stays", ylim=(0.1, 0.9))
right.legend(loc="upper right", ncols=3, fontsize=6.5)
plt.show()
