"""`python -m engram` is `engram`."""

from engram.cli import main

if __name__ == "__main__":
    main()
