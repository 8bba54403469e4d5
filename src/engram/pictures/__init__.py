"""Pictures of runs, comparisons, sweeps and trainings, drawn from what their datasets say of themselves."""

from engram.pictures._plot import plot as plot
from engram.pictures._sweep import Line as Line
from engram.pictures._titles import legend_name as legend_name
from engram.pictures._titles import shown_name as shown_name
