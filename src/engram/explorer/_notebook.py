"""explore: the page for one's own problem, in a notebook or a browser."""

import secrets
import threading

from engram._checks import InputError, check_count
from engram.explorer.server import Explorer
from engram.problem import Problem

_lock = threading.Lock()
_running: Explorer | None = None  # one server serves all pages of a session


class Page:
    """A page of the explorer; notebooks show it in place.

    Args:
        url: Where it is, on this machine.
        height: How tall a notebook shows it, in pixels.
    """

    def __init__(self, url: str, height: int):
        self.url: str = url
        self.height: int = height

    def _repr_html_(self) -> str:
        return (
            f'<iframe src="{self.url}" width="100%" height="{self.height}" style="border:1px solid #ccc" '
            'title="engram explorer" allow="clipboard-write"></iframe>'
            f'<p><a href="{self.url}" target="_blank" rel="noopener">Open in a tab of its own</a></p>'
        )

    def __repr__(self) -> str:
        return f"engram explorer at {self.url}"


def explore(problem: Problem | None = None, *, height: int = 900) -> Page:
    """Open the explorer on a problem of your own: trajectories, traces and events, live.

    A server on 127.0.0.1 is started once per session and ends with it. In a notebook the page appears
    below the cell; elsewhere open its `url`. Notebooks that run on another machine need that port forwarded.

    Args:
        problem: What to show, of at most 200 tokens, 50 classes and 64 dimensions; by default the page
            begins with two tokens.
        height: How tall a notebook shows it, in pixels.

    Returns:
        The page, with its address in `url`.
    """
    from engram.explorer._simulations import OWN_SIZES, check_problem
    from engram.problem import Problem

    global _running
    check_count("height", height)
    if problem is not None:
        if not isinstance(problem, Problem):
            raise InputError(
                f"`problem` must be an engram.Problem, got {type(problem).__name__}. Try "
                "engram.two_tokens(0.5, 0.75)."
            )
        check_problem("`problem`", problem, OWN_SIZES)
    with _lock:
        if _running is None:
            _running = Explorer(framed=True).start()
        if problem is None:
            return Page(_running.url, height)
        name = secrets.token_hex(4)
        _running.own[name] = problem.astype("float64")
    return Page(f"{_running.url}#problem=own&name={name}", height)
