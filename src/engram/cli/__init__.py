"""The command line: parse, call the library, print. Nothing is computed here."""

from engram.cli._run import run as run
