"""One page that shows every figure and every claim, with its numbers, and opens anywhere."""

from engram.report._page import Checked as Checked
from engram.report._page import Run as Run
from engram.report._page import checked as checked
from engram.report._page import render as render
from engram.report._page import summary as summary
from engram.report._page import write_report as write_report
