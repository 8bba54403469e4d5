"""
Where long training ends
========================

In every problem that can be learnt :math:`t\\,L` tends to the squared norm of the max-margin weights, and margins to
:math:`\\log(t p/a)`. The multipliers :math:`a` also give the rate: it is set by a slow eigenvalue, by a margin that is nearly
a constraint, or by time itself.
"""

import matplotlib.pyplot as plt
import numpy as np

import engram
from engram.theory import separable

times = np.logspace(0, 30, 61)
cases = {
    "two tokens, α = −0.7": engram.two_tokens(-0.7, 0.75),
    "a margin of 1.3": engram.Problem([[1, 0], [1.3, 0.4]], np.array([[1.0], [0.0]]), [0.7, 0.3], [0, 0]),
    "two tokens, α = 0.5": engram.two_tokens(0.5, 0.75),
}  # fmt: skip
figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
for (name, problem), mark in zip(cases.items(), "osD", strict=True):
    a = engram.capacity.max_margin_multipliers(problem)
    run = engram.simulate(problem, engram.GradientFlow(times), record=("margins",))
    predicted, rate = separable.margin_asymptote(times, problem, a), separable.rate(problem, a)
    asymptote = np.where(np.isnan(predicted), np.inf, predicted).min(
        axis=2
    )  # two classes: one margin per token
    on_support = np.isfinite(asymptote[0])
    largest = np.abs(run.margins.values - asymptote)[:, on_support].max(axis=1)
    print(f"{name}: exponent {rate.exponent:.3f}, set by the {rate.set_by}")
    seen = largest > 1e-9  # below is the solver's error
    (line,) = axes.loglog(times[seen], largest[seen], mark, ms=4, label=f"{name}: {rate.set_by}")
    late = np.flatnonzero(seen)[-1]
    law = times**-rate.exponent * np.where(rate.exponent == 1, 1 + np.log(times), 1)
    show = slice(late // 3, late + 4)
    axes.loglog(times[show], law[show] * largest[late] / law[late], color=line.get_color(), lw=1)
axes.set(
    xlabel="time",
    ylabel="margin less its asymptote",
    title="runs (marks) and the predicted rate (lines)",
    ylim=(1e-11, 10),
)
axes.legend()
plt.show()
