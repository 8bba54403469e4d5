"""Pictures of what was measured."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from engram import plotting
from engram.bench._growth import Growth
from engram.bench._harness import Measured, ratio_text


def draw_ratios(rows: list[Measured], title: str) -> Figure:
    """How many times as fast engram is, one bar per benchmark, on a logarithmic scale from 1."""
    shown = [row for row in rows if row.ratio is not None][::-1]
    with plotting.style():
        figure = plotting.new_figure(plotting.WIDE, 0.9 + 0.24 * len(shown))
        axes = figure.add_subplot()
        for at, row in enumerate(shown):
            ratio = row.ratio or 1.0
            colour = plotting.COLOURS[0 if ratio >= 1 else 1]
            axes.barh(at, ratio - 1, left=1, height=0.62, color=colour)
            beside = {"xytext": (3, 0), "textcoords": "offset points", "va": "center"}
            axes.annotate(ratio_text(ratio), (max(ratio, 1), at), fontsize=7, **beside)
        axes.set_xscale("log")
        axes.axvline(1, color="0.3", lw=0.8)
        axes.set_yticks(
            range(len(shown)), [f"{row.name}  (against {row.against})" for row in shown]
        )
        axes.set_ylim(-0.7, len(shown) - 0.3)
        axes.margins(x=0.12)
        axes.set_xlabel("times as fast (medians, side by side)")
        axes.set_title(title)
    return figure


def draw_growth(rows: list[Growth], title: str) -> Figure:
    """Times against sizes, with the fitted power laws."""
    with plotting.style():
        figure = plotting.new_figure(plotting.WIDE, 4.4)
        for axes, row in zip(figure.subplots(2, 2).flat, rows, strict=True):
            centre, level = np.exp(np.log(row.sizes).mean()), np.exp(np.log(row.seconds).mean())
            fit = [level * (n / centre) ** row.exponent for n in row.sizes]
            label = f"fit: {row.exponent:.2f} ± {row.error:.2f}; operations: {row.counted:.2f}"
            axes.loglog(row.sizes, fit, color="0.5", lw=1, label=label)
            axes.loglog(row.sizes, row.seconds, "o", color=plotting.COLOURS[0])
            axes.set_xticks(row.sizes, [f"{n:,}" for n in row.sizes])
            plotting.log_ticks(axes.yaxis)
            axes.xaxis.set_minor_locator(NullLocator())
            axes.set_xlabel(row.size)
            axes.set_ylabel("seconds")
            axes.set_title(f"{row.name} ({row.fixed})")
            axes.legend()
        figure.suptitle(title, fontsize=9)
    return figure
