"""The paper's figures, each in three parts: settings, compute (data), draw (picture)."""

from engram.figures._write import FIGURES as FIGURES
from engram.figures._write import write_figure as write_figure
