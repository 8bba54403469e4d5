"""`python -m engram` is `engram`."""

from engram.cli import run

if __name__ == "__main__":
    run()
