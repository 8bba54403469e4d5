"""Studies: a question with its settings, computed, compared with what is known, and drawn."""

from engram.studies._run import HEADS as HEADS
from engram.studies._run import StudyResult as StudyResult
from engram.studies._run import cells as cells
from engram.studies._run import read_study as read_study
from engram.studies._run import spec_text as spec_text
from engram.studies._run import study as study
from engram.studies._study import AbstractStudy as AbstractStudy
from engram.studies._study import Row as Row
from engram.studies._work import Work as Work
