"""
Cycles below the edge of stability
==================================

Three tokens on one line that cannot all be recalled. Below the edge 2/H the minimiser is stable, and yet descent may end on a
cycle; as the learning rate grows, the cycle doubles its period again and again.
"""

import matplotlib.pyplot as plt
import numpy as np

from engram.theory import cycles

tokens, probs = np.array([1.0, -8.0, -0.5]), np.array([0.679, 0.021, 0.3])
edge = cycles.edge(tokens, probs)
birth = cycles.bifurcation(1.3, 9.75, tokens, probs, period=2, multiplier=1.0)
doublings = cycles.doublings(1.34756, 9.76, tokens, probs, count=4)

# %%
# Where descent ends, from two starts for each learning rate. The marks are the ones that the audit proves (J3c).

figure, (left, right) = plt.subplots(
    1, 2, figsize=(9, 3.8), layout="constrained", width_ratios=(1.7, 1)
)
rates = np.linspace(0.9, 1.16, 700) * edge
for start, colour, label in (
    (cycles.minimiser(tokens, probs), "#D55E00", "from beside the minimiser"),
    (1.35, "#0072B2", "from 1.35"),
):
    ends = cycles.descend(start + 1e-3, rates, tokens, probs, skip=3000, keep=48)
    left.plot(rates / edge, ends.T, ",", color=colour)
    left.plot([], [], "o", ms=3, color=colour, label=label)
marks = [("born", birth), *((f"{each.period} → {2 * each.period}", each) for each in doublings)]
heights = (4.6, 4.6, 4.25, -0.65, -1.0)
for row, (label, mark) in enumerate(marks):
    share = mark.learning_rate / edge
    left.axvline(share, color="0.4", lw=0.7, ls=":")
    left.text(share - 0.001, heights[row], label, fontsize=7, ha="right", va="top")
    print(f"{label}: {share:.6f} of the edge")
left.axvline(1, color="k", lw=1)
left.text(0.999, 4.6, "edge 2/H", fontsize=7, ha="right", va="top")
left.set(xlabel=r"$\eta$ over the edge", ylabel="g", title="where descent ends", ylim=(-1.7, 4.8))
left.legend(frameon=False, loc="lower left", fontsize=8)

# Three other tokens, made for it, have a cycle at just above half of the edge. A step from the right overshoots the minimiser a little; left of
# zero the long token is wrong, and pushes far back.

tokens, probs, rate, cycle = cycles.tokens_with_cycle(share=1.3)
g = np.linspace(-0.2, 0.75, 600)
step = g - rate * cycles.slope(g, tokens, probs)
a, b = cycle.points
right.plot(g, step, color="k", lw=1.4, label="one step of descent")
right.plot(g, g, color="0.6", lw=0.8)
right.plot([a, a, b, b, a], [a, b, b, a, a], color="#0072B2", lw=1, ls="--", label="the cycle")
right.plot(*[cycles.minimiser(tokens, probs)] * 2, "o", color="#D55E00", ms=5, label="minimiser")
right.set(xlabel="g", ylabel="g after one step", title=r"a cycle at $\eta = 1.3/H$")
right.legend(frameon=False, fontsize=8, loc="upper center")
print(f"multiplier {cycle.multiplier:.4f}, longest token {tokens[2]:.0f}")
plt.show()
