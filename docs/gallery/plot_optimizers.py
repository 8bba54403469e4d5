"""
The same memory under other optimizers
======================================

Any optax optimizer can train the same memory, and events are detected in the same way. Adam divides by the size of gradients, so
rare tokens are learnt as fast as frequent ones.
"""

import matplotlib.pyplot as plt

import engram
from engram.dynamics import adam, momentum, sgd, sign

problem = engram.on_sphere(0, num_tokens=12, num_classes=12, dim=8, exponent=1.5)
methods = {
    "descent": sgd(1.0),
    "momentum 0.9": momentum(0.2, 0.9),
    "Adam": adam(0.1),
    "sign descent": sign(0.05),
}
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
for name, optimizer in methods.items():
    run = engram.simulate(problem, engram.PracticalDescent(optimizer, steps=200))
    left.semilogy(run.step, run.loss, label=name)
    right.plot(run.step, run.error, drawstyle="steps-post", label=name)
    when = float(run.perfect_from)
    summary = "not perfect in 200 steps" if when != when else f"perfect from step {when:g}"
    print(f"{name:14} {summary}")
left.set(xlabel="step", title="loss")
right.set(xlabel="step", title="0-1 loss (weighted by frequency)")
right.legend()
plt.show()
