"""
One matrix of a transformer
===========================

The paper's simplified transformer at a small size. Its second output matrix is an associative memory, too. Trained alone, with
random attention, it lowers the loss without learning what follows a trigger: its margins fall. The largest learning
rate spikes first and ends lowest.
"""

import matplotlib.pyplot as plt
import numpy as np

import engram
from engram.transformer import Config, train

config = Config(dim=32, length=64, sequences=64, matrices=("wo2",))
training = train(config, [engram.GradientDescent(rate, 60) for rate in (1.0, 10.0, 100.0)])
log = training.log
print("accuracy at the end:", log.accuracy.values[-1].round(2))

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
for k, rate in enumerate(log.learning_rate.values):
    run = log.isel(run=k)
    left.semilogy(run.step, run.loss, label=f"learning rate {rate:g}")
    right.plot(run.step, np.median(run.margins_wo2, axis=-1))
left.set(xlabel="step", title="loss")
left.legend()
right.set(xlabel="step", title=r"median margin of $W_O^2$")
plt.show()
