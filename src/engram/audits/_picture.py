"""Draw a claim: what happens, what is printed and what is true, as a picture or as text."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from engram.audits._claim import Curves, Finding

# Okabe and Ito's colours; the line styles tell the curves apart without them.
_STYLES = {
    "true": {"color": "#000000", "linewidth": 2.2},
    "printed": {"color": "#D55E00", "linestyle": "--", "linewidth": 1.8},
    "corrected": {"color": "#0072B2", "linestyle": "-.", "linewidth": 1.8},
}
_OTHERS = ("#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKS = {"true": "●", "printed": "×", "corrected": "○"}
_MORE_MARKS = "◆△□+abcdefghijklmnopqrstuvwxyz"


def curves_of(finding: Finding) -> Curves | None:
    """The claim's own curves; without any, the slack of all cases in rising order."""
    if finding.claim.curves is not None:
        return finding.claim.curves()
    series = {
        name: np.sort(evidence.slack.ravel())
        for name, evidence in (("printed", finding.printed), ("corrected", finding.corrected))
        if evidence is not None and evidence.slack.size > 1
    }
    if not series:
        return None
    share = np.linspace(0, 1, 200)
    spread = {name: np.quantile(values, share) for name, values in series.items()}
    return Curves("slack of all cases, in rising order", ("share of cases", share), spread, "slack")


def draw(axes: Any, curves: Curves) -> None:
    """Draw curves on given matplotlib axes."""
    name, x = curves.x
    for index, (label, y) in enumerate(curves.series.items()):
        style = dict(_STYLES.get(label.split(",")[0], {}))
        if label not in _STYLES:
            style["color"] = _OTHERS[index % len(_OTHERS)]
        axes.plot(x, y, label=label, **style)
    axes.set_xlabel(name)
    axes.set_ylabel(curves.y)
    axes.set_title(curves.title, fontsize=10)
    if curves.log_x:
        axes.set_xscale("log")
    if curves.log_y:
        axes.set_yscale("log")
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
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    high = high if high > low else low + 1.0
    columns = np.linspace(X[0], X[-1], width)
    canvas = [[" "] * width for _ in range(height)]
    marks = _marks(curves.series)
    for label, y in Y.items():
        keep = np.isfinite(y)
        if not keep.any():
            continue
        if len(X) <= width:  # few points: each where it is, and nothing between them
            across = np.round((X[keep] - X[0]) / (X[-1] - X[0]) * (width - 1)).astype(int)
            heights = dict(zip(across.tolist(), y[keep].tolist(), strict=True))
        else:
            between = np.interp(columns, X[keep], y[keep], left=np.nan, right=np.nan)
            heights = {at: value for at, value in enumerate(between) if np.isfinite(value)}
        for column, value in heights.items():
            row = round((high - value) / (high - low) * (height - 1))
            canvas[row][column] = marks[label]
    back = lambda value, log: f"{10**value:.3g}" if log else f"{value:.3g}"
    edge = [back(high, curves.log_y), *[""] * (height - 2), back(low, curves.log_y)]
    lines = [f"{text:>9} │{''.join(row)}" for text, row in zip(edge, canvas, strict=True)]
    left, right = back(X[0], curves.log_x), back(X[-1], curves.log_x)
    title = f"{name} (log)" if curves.log_x else name
    foot = f"{'':9} └{'─' * width}\n{'':11}{left}{title:^{width - len(left) - len(right)}}{right}"
    key = "   ".join(f"{mark} {label}" for label, mark in marks.items())
    return "\n".join([curves.title, *lines, foot, f"{'':11}{key}"])


def _marks(series: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    spare = iter(_MORE_MARKS)
    for label in series:
        mark = _MARKS.get(label.split(",")[0])
        found[label] = mark if mark and mark not in found.values() else next(spare)
    return found
