"""explore: the page for one's own problem, in a notebook or a browser."""

import html
import os
import secrets
import threading
from pathlib import Path
from typing import Any

from engram._checks import InputError, check_count
from engram.explorer._export import export, own_page, page_text
from engram.explorer.server import Explorer
from engram.problem import Problem

_lock = threading.Lock()
_running: Explorer | None = None  # one server serves all pages of a session


class Page:
    """A page of the explorer; notebooks show it in place.

    Where the browser cannot reach the server, as when a notebook runs on another machine or is opened
    again later, the page computes everything itself.

    Args:
        url: Where it is, on this machine; empty where no server can run.
        problem: What it shows first, if not two tokens.
        height: How tall a notebook shows it, in pixels.
    """

    def __init__(self, url: str, problem: Problem | None, height: int):
        self.url: str = url
        self.problem: Problem | None = problem
        self.height: int = height

    def export(self, path: str | os.PathLike[str]) -> Path:
        """Write the page to a file that needs no server."""
        return export(path, self.problem)

    def wait(self) -> None:
        """Keep a script alive for the page: until Ctrl-C, or until the session's server has ended."""
        if _running is not None and self.url:
            _running.wait()

    def _repr_html_(self) -> str:
        more: dict[str, Any] = {}
        link = ""
        if _running is not None and self.url:
            more["server"] = {"page": self.url, "here": f"{_running.url}here/{_running.boot}"}
            link = f'<p><a href="{self.url}" target="_blank" rel="noopener">Open in a tab of its own</a></p>'
        text = page_text(**more) if self.problem is None else own_page(self.problem, **more)
        return (
            f'<iframe srcdoc="{html.escape(text)}" width="100%" height="{self.height}" '
            'style="border:1px solid #ccc" title="engram explorer" allow="clipboard-write"></iframe>'
            + link
        )

    def __repr__(self) -> str:
        return f"engram explorer at {self.url}" if self.url else "engram explorer, without a server"


def explore(problem: Problem | None = None, *, height: int = 900) -> Page:
    """Open the explorer on a problem of your own: trajectories, traces and events, live.

    A server on 127.0.0.1 is started once per session and ends with it. In a notebook the page appears
    below the cell, and computes by itself where the browser cannot reach the server. Elsewhere open its
    `url`; a script calls `wait()` on the page, or ends at once.

    Args:
        problem: What to show, of at most 200 tokens, 50 classes and 64 dimensions; by default the page
            begins with two tokens.
        height: How tall a notebook shows it, in pixels.

    Returns:
        The page, with its address in `url`.
    """
    from engram.explorer._simulations import own_problem
    from engram.problem import Problem

    check_count("height", height)
    if problem is not None:
        if not isinstance(problem, Problem):
            raise InputError(
                f"`problem` must be an engram.Problem, got {type(problem).__name__}. Try "
                "engram.two_tokens(0.5, 0.75)."
            )
        problem = own_problem("`problem`", problem)
    server = _server()
    if server is None or problem is None:
        return Page("" if server is None else server.url, problem, height)
    name = secrets.token_hex(4)
    server.own[name] = problem
    return Page(f"{server.url}#problem=own&name={name}", problem, height)


def _server() -> Explorer | None:
    """The session's server; None where none can run, as in a browser's own Python."""
    global _running
    with _lock:
        if _running is None:
            try:
                _running = Explorer(framed=True).start()
            except (OSError, RuntimeError, InputError):
                return None
        return _running
