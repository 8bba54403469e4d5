"""How many tokens a matrix holds, and how many if the class need only be on a list, at a small size."""

from engram import capacity
from engram.theory import scaling

d = 8
best = capacity.capacity_curve(d, draws=20)
print(
    f"best W: {float(best.stored.mean()):.1f} of as many classes, by the law {scaling.capacity(d):.1f}"
)

listed = capacity.trained_capacity(d, share=0.25, accuracy=1.0, draws=4, steps=200)
law = d**2 / scaling.list_parameters(0.25)
print(f"learnt W, on lists of a quarter: {float(listed.stored.mean()):.1f}, by the law {law:.1f}")
