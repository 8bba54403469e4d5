"""The command line: parse, call the library, print. Nothing is computed here."""

from engram.cli._main import main as main
from engram.cli._main import run as run
