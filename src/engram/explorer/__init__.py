"""The browser explorer: a page on 127.0.0.1 that draws what the library computes."""

from engram.explorer._export import export as export
from engram.explorer._notebook import Page as Page
from engram.explorer._notebook import explore as explore
from engram.explorer._presets import figure_states as figure_states
from engram.explorer.server import Explorer as Explorer
