"""Draw a claim: what happens, what is printed and what is true, as a picture or as text."""

import itertools
from typing import Any

import numpy as np

from engram.audits._claim import Curves, Finding
from engram.audits._evidence import Evidence

# Okabe and Ito's colours; the line styles tell the curves apart without them.
_STYLES = {
    "true": {"color": "#000000", "linewidth": 2.2},
    "printed": {"color": "#D55E00", "linestyle": "--", "linewidth": 1.8},
    "corrected": {"color": "#0072B2", "linestyle": "-.", "linewidth": 1.8},
    "violated below": {"color": "#666666", "linestyle": ":", "linewidth": 1.5},
}
_OTHERS = ("#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKS = {"true": "●", "printed": "×", "corrected": "○"}
_MORE_MARKS = "◆△□+abcdefghijklmnopqrstuvwxyz"


def curves_of(finding: Finding) -> Curves | None:
    """The claim's own curves; without any, the slack over one parameter, or of all cases in rising order."""
    if finding.claim.curves is not None:
        return finding.claim.curves()
    if not finding.claim.is_of_the_paper and (curves := _over_the_parameter(finding.printed)):
        return curves
    share = np.linspace(0, 1, 200)
    series = {
        name: np.quantile(evidence.slack, share)
        for name, evidence in (("printed", finding.printed), ("corrected", finding.corrected))
        if evidence is not None and evidence.slack.size > 1
    }
    title = "slack of all cases, in rising order"
    return Curves(title, ("share of cases", share), series, "slack") if series else None


def _over_the_parameter(evidence: Evidence | None) -> Curves | None:
    """The slack in each case of a box of one parameter, whose cases the search has chosen."""
    parameters = (
        {} if evidence is None else {k: v for k, v in evidence.where.items() if k != "index"}
    )
    if (
        evidence is None
        or len(parameters) != 1
        or evidence.slack.ndim != 1
        or evidence.slack.size < 2
    ):
        return None
    ((name, values),) = parameters.items()
    order, values = np.argsort(values), np.asarray(values, float)
    wide = values.min() > 0 and values.max() > 30 * values.min()
    series = {"violated below": np.zeros(len(values)), "slack": evidence.slack[order]}
    title = "room that the statement has left, in its worst case over the trajectory"
    return Curves(title, (name.replace("_", " "), values[order]), series, "slack", log_x=wide)


def draw(axes: Any, curves: Curves) -> None:
    """Draw curves on given matplotlib axes."""
    name, x = curves.x
    for (label, y), color in zip(curves.series.items(), itertools.cycle(_OTHERS), strict=False):
        style = _STYLES.get(label.split(",")[0], {})
        if label not in _STYLES:
            style = style | {"color": color}
        axes.plot(x, y, label=label, **style)
    scale = {True: "log", False: "linear"}
    axes.set(xlabel=name, ylabel=curves.y, xscale=scale[curves.log_x], yscale=scale[curves.log_y])
    axes.set_title(curves.title, fontsize=10)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


def as_text(curves: Curves, width: int = 64, height: int = 16) -> str:
    """The same picture in characters, for a terminal."""
    name, x = curves.x
    over = lambda values, log: np.log10(values) if log else np.asarray(values, float)
    with np.errstate(all="ignore"):
        X = over(np.maximum(x, np.finfo(float).tiny) if curves.log_x else x, curves.log_x)
        Y = {label: over(y, curves.log_y) for label, y in curves.series.items()}
    finite = np.concatenate([y[np.isfinite(y)] for y in Y.values()])
    low, high = (finite.min(), finite.max()) if len(finite) else (0.0, 1.0)
    high = high if high > low else low + 1.0
    canvas = np.full((height, width), " ")
    key, spare = {}, iter(_MORE_MARKS)
    for label, y in Y.items():
        mark = _MARKS.get(label.split(",")[0], "")
        key[label] = mark if mark and mark not in key.values() else next(spare)
        across, values = X[np.isfinite(y)], y[np.isfinite(y)]
        if len(X) > width and len(values):  # many points: one mark in each column that they span
            columns = np.linspace(X[0], X[-1], width)
            spanned = (columns >= across[0]) & (columns <= across[-1])
            values = np.interp(columns[spanned], across, values)
            across = columns[spanned]
        rows = np.round((high - values) / (high - low) * (height - 1)).astype(int)
        places = np.round((across - X[0]) / (X[-1] - X[0]) * (width - 1)).astype(int)
        canvas[rows, places] = key[label]
    back = lambda value, log: f"{10**value:.3g}" if log else f"{value:.3g}"
    edge = [back(high, curves.log_y), *[""] * (height - 2), back(low, curves.log_y)]
    lines = [f"{text:>9} │{''.join(row)}" for text, row in zip(edge, canvas, strict=True)]
    left, right = back(X[0], curves.log_x), back(X[-1], curves.log_x)
    title = f"{name} (log)" if curves.log_x else name
    foot = f"{'':9} └{'─' * width}\n{'':11}{left}{title:^{width - len(left) - len(right)}}{right}"
    legend = "   ".join(f"{mark} {label}" for label, mark in key.items())
    return "\n".join([curves.title, *lines, foot, f"{'':11}{legend}"])
