"""The paper's figures, each in parts: settings, compute (data), compare, findings, draw (picture)."""

from engram._paper import FIGURES as FIGURES
from engram._paper import SCALES as SCALES
from engram.figures._comparison import Comparison as Comparison
from engram.figures._labels import words as words
from engram.figures._reference import case_of as case_of
from engram.figures._reference import problem_of as problem_of
from engram.figures._reference import reference as reference
from engram.figures._write import FigureResult as FigureResult
from engram.figures._write import compute_again as compute_again
from engram.figures._write import module_of as module_of
from engram.figures._write import settings_at as settings_at
from engram.figures._write import write_data as write_data
from engram.figures._write import write_figure as write_figure
