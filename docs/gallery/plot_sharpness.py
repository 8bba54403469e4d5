"""
Sharpness and the edge of stability
===================================

Descent with learning rate :math:`\\eta` is stable where the largest eigenvalue of the Hessian is below :math:`2/\\eta`.
Here there are more tokens than dimensions and the data are not separable, so the loss converges to a minimum or oscillates.
"""

import matplotlib.pyplot as plt

import engram

problem = engram.on_sphere(3, num_tokens=6, num_classes=6, dim=2)
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
for k, rate in enumerate((2.0, 10.0, 50.0)):
    descent = engram.GradientDescent(learning_rate=rate, steps=60)
    run = engram.simulate(problem, descent, record=("loss", "sharpness", "stability_gap"))
    left.plot(run.step, run.loss, color=f"C{k}", label=f"learning rate {rate:g}")
    right.plot(run.step, run.sharpness * rate / 2, color=f"C{k}")
    unstable = int((run.stability_gap < 0).sum())
    print(f"rate {rate:g}: {unstable} of {run.sizes['step']} points beyond the edge")
right.axhline(1, color="black", ls="--", lw=1)
left.set(xlabel="step", title="loss")
left.legend()
right.set(xlabel="step", title=r"sharpness $\times\ \eta/2$; unstable above 1", yscale="log")
plt.show()
