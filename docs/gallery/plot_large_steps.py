"""
Large steps: oscillate first, be faster later
=============================================

Two tokens whose embeddings nearly coincide. Above a certain learning rate the loss oscillates; then it falls for good, and
lower than with small steps.
"""

import matplotlib.pyplot as plt
import numpy as np

import engram
from engram.theory import interference, large_steps

alpha, p1 = 0.95, 0.75
problem = engram.two_tokens(alpha, p1)
reach, norm = large_steps.reach(problem), interference.max_margin_norm(alpha)

# %%
# A dot is where the loss has come to `stable_loss`: from there on it falls at every step.

figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.5), layout="constrained")
styles = {1.0: ("#D55E00", "-"), 10.0: ("#009E73", "--"), 40.0: ("#0072B2", "-.")}
for rate, (colour, line) in styles.items():
    loss = engram.simulate(problem, engram.GradientDescent(rate, 2000), record=("loss",)).loss
    exit_step = int(np.argmax(loss.values <= large_steps.stable_loss(rate, reach, 1 - p1)))
    bound = large_steps.exit_bound(rate, reach, norm, 1 - p1)
    left.loglog(loss.step[1:], loss[1:], line, color=colour, lw=1.3, label=rf"$\eta = {rate:g}$")
    left.plot(exit_step, loss[exit_step], "o", color=colour, ms=6)
    print(f"rate {rate:g}: stable after {exit_step} steps, at most {bound:.0f}")
left.set(xlabel="step", ylabel="loss", title="two phases", ylim=(1e-5, 20))
left.legend(frameon=False)

# With the learning rate in proportion to the number of steps, the loss falls like 1/T² while the rate is of order one, and faster beyond.

budgets = np.unique(np.geomspace(10, 2000, 40).round().astype(int))
for share, colour, line in ((1e-3, "#D55E00", "-"), (3e-2, "#0072B2", "--")):
    m, losses = (np.zeros(len(budgets)), np.zeros(len(budgets))), np.empty(len(budgets))
    for step in range(1, budgets[-1] + 1):
        m = interference.descent_step(*m, share * budgets, 0.5, p1)
        now = budgets == step
        losses[now] = (p1 * np.logaddexp(0, -m[0]) + (1 - p1) * np.logaddexp(0, -m[1]))[now]
    right.loglog(budgets, losses, line, color=colour, label=rf"$\eta = {share:g}\,T$")
    square = interference.max_margin_norm(0.5) ** 2 / (share * budgets**2)
    right.loglog(budgets, square, ":", color="k", lw=1)
right.plot([], [], ":", color="k", lw=1, label=r"$\|W_{mm}\|^2/(\eta T)$")
right.set(xlabel="steps T", ylabel="loss after T steps", title=r"$\eta$ in proportion to T, $\alpha = 1/2$", ylim=(1e-10, 20))  # fmt: skip
right.legend(frameon=False, loc="lower left")
plt.show()
