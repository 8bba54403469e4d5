"""
Margins grow like a logarithm
=============================

Without interference a margin obeys :math:`m + e^m = ct + m_0 + e^{m_0}` under gradient flow (Theorem 2). The solver
does not use this formula, and agrees with it over twelve decades.
"""

import matplotlib.pyplot as plt
import numpy as np

import engram

problem = engram.orthonormal(num_tokens=3, num_classes=2, dim=3, probs=[0.6, 0.3, 0.1])
times = np.logspace(-2, 10, 60)
run = engram.simulate(problem, engram.GradientFlow(times), record=("margins",))

rates = np.asarray(engram.theory.binary.rates(problem))
formula = engram.theory.binary.flow_margin(times[:, None], rates)
worst = np.abs(run.margins.values / formula - 1).max()
print(f"largest relative difference to the closed form: {worst:.1e}")

figure, axes = plt.subplots(figsize=(5.5, 3.4), layout="constrained")
for token in range(3):
    axes.semilogx(times, formula[:, token], color=f"C{token}", lw=1)
    p = problem.probs[token]
    axes.semilogx(times, run.margins[:, token], ".", color=f"C{token}", label=f"frequency {p:g}")
axes.set(xlabel="time", ylabel="margin", title="solver (dots) and theorem (lines)")
axes.legend()
plt.show()
