"""`engram reproduce`: figures and claims into a folder, and one page that fills as they are made."""

import contextlib
import dataclasses
import json
import multiprocessing
import signal
import sys
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from engram._cache import use_cache
from engram._errors import InputError
from engram._files import clear_leftovers, written_whole
from engram._paper import FIGURES, SCALES
from engram._progress import progress_bar
from engram.cli._run import end_interrupted, typed
from engram.cli._targets import check_out

_KNOWN = (*FIGURES, "claims")
# At the scale "quick", on two cores; the claims are checked beside the figures.
_SECONDS: dict[str, float] = dict(zip(_KNOWN, (1, 1, 3, 9, 4, 12, 75, 70), strict=True))


def reproduce(
    figures: Annotated[list[str] | None, typer.Argument(metavar="FIGURE", help="fig1 to fig7, claims; default all.")] = None,
    scale: Annotated[str, typer.Option(help="quick, medium or paper: Figure 7 in minutes, hours or a day; at paper the other figures "
        "have finer grids and more draws. With tiny, Figure 7 has few sequences, too few for its findings.")] = "quick",
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("out"),
) -> None:  # fmt: skip
    """Reproduce the paper's figures and claims, compare them with reference values, and write one report.

    Writes each figure as .png, .pdf and .nc (everything drawn, as data), the claims as claims.json, and
    report.html again after each of them. Exit code 1 if a value is out of tolerance or a verdict has
    changed.
    """
    for name, given, known in (
        ("FIGURE", figures or [], _KNOWN),
        ("--scale", [scale], SCALES),
    ):
        if unknown := ", ".join(each for each in given if each not in known):
            raise InputError(f"{name} must be one of {', '.join(known)}, got {unknown}. Pick one.")
    wanted = [name for name in _KNOWN if not figures or name in figures]
    _announce(wanted, scale, out)  # before the libraries, which take seconds to load
    from engram.transformer import use_devices

    use_devices()  # one per core, for the transformer
    check_out(out)
    clear_leftovers(out, [*_KNOWN, "report"])
    _Work(wanted, scale, out, is_brief=not figures).do()


def _announce(wanted: list[str], scale: str, out: Path) -> None:
    duration = "this takes long"
    if scale not in ("medium", "paper"):
        audit = _SECONDS["claims"] if "claims" in wanted else 0
        figures = sum(_SECONDS[name] for name in wanted) - audit
        minutes = max(round(max(figures + audit / 2, audit) / 60), 1)  # the audit runs beside them
        duration = f"about {minutes} minute{'s' * (minutes > 1)} on two cores"
    _say(
        f"making {', '.join(wanted)} in {out}: {duration}; {out}/report.html fills as they are done"
    )


def _say(line: str) -> None:
    """At once, also into a file or a pipe: rich flushes."""
    Console().print(line, soft_wrap=True, highlight=False)


def _check_claims(names: list[str] | None, answers: Connection) -> None:
    """In a process of its own: send each claim as it is checked."""
    use_cache()
    from engram.audits import audit, select
    from engram.report import checked

    for claim in select(names):
        (finding,) = audit([claim])
        answers.send(checked(finding))


class _Audit:
    """The claims, checked in a process beside the figures: both are at work in Python half of the time."""

    def __init__(self, names: list[str] | None = None) -> None:
        from engram.audits import select

        self.claims: list[Any] = []
        self.total = len(select(names))
        spawn = multiprocessing.get_context("spawn")
        self._answers, theirs = spawn.Pipe(duplex=False)
        self._process = spawn.Process(target=_check_claims, args=(names, theirs), daemon=True)
        # Inherited by the process: Ctrl-C is for this one to hear, which then ends that one.
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            self._process.start()
        finally:
            signal.signal(signal.SIGINT, handler)
        theirs.close()
        # A pipe holds less than a picture: it is emptied at once, so that the process need not wait.
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with contextlib.suppress(EOFError):
            while True:
                self.claims.append(self._answers.recv())

    def is_done(self, patience: float = 0.0) -> bool:
        """Whether all are checked, after waiting so many seconds."""
        self._reader.join(patience)
        if not self._reader.is_alive() and len(self.claims) < self.total:
            raise RuntimeError("the process of the audit ended early")
        return len(self.claims) == self.total

    def end(self) -> None:
        self._process.terminate()
        self._process.join()


def _write_explorer(wanted: list[str], out: Path) -> dict[str, list[tuple[str, str]]]:
    """The explorer's page beside the report; returns the links to its states, by figure."""
    from engram.explorer import export, figure_states

    name = "explorer.html"
    states = {figure: figure_states(figure) for figure in wanted}
    if any(states.values()):
        export(out / name)
    return {
        figure: [(title, name + address) for title, address in found]
        for figure, found in states.items()
    }


class _Work:
    """One figure after the other, the audit beside them, and the page after each; what is made stays."""

    def __init__(self, wanted: list[str], scale: str, out: Path, is_brief: bool):
        from engram.report import Run

        self.out, self.page, self.is_brief = out, out / "report.html", is_brief
        self.began = time.perf_counter()
        live = _write_explorer(wanted, out)
        self.run = Run([], None, typed(), scale, 0.0, pending=wanted, live=live)
        self.audit = _Audit() if "claims" in wanted else None

    def do(self) -> None:
        """All of it; exit code 1 if a check failed, 130 if interrupted."""
        try:
            self._write()
            for name in [name for name in self.run.pending if name != "claims"]:
                figure = self._figure(name)
                self._write(name, figures=[*self.run.figures, figure])
            self._wait_for_audit()
        except KeyboardInterrupt:
            self._write(pending=(), missing=self.run.pending)
        finally:
            if self.audit is not None:
                self.audit.end()
        _say(f"report: {self.page}")
        for fault in self.run.faults:
            print(f"the check failed: {fault}", file=sys.stderr)
        if self.run.missing:
            missing = ", ".join(self.run.missing)
            end_interrupted(f"{missing} not made. To make them: {self.run.command}")
        if self.run.faults:
            sys.exit(1)

    def _write(self, name: str = "", **parts: Any) -> None:
        """The page again, with what is new; `name` is not pending any more."""
        from engram.report import write_report

        parts = {"pending": [other for other in self.run.pending if other != name]} | parts
        seconds = time.perf_counter() - self.began
        self.run = dataclasses.replace(self.run, seconds=seconds, **parts)
        write_report(self.run, self.page)

    def _figure(self, name: str) -> Any:
        from engram.figures import write_figure

        _say_estimate(name, self.run.scale, self.out)
        with progress_bar(name, "parts") as show:

            def report(done: int, total: int) -> None:
                show(done, total)
                self._look_at_audit()

            figure = write_figure(name, self.out, self.run.scale, report)
        known = [row for row in figure.comparisons if row.reference is not None]
        inside = sum(row.is_ok for row in known)
        state = "[green]" if figure.is_ok else "[bold red]"
        _say(
            f"[bold]{name}[/bold]  {escape(figure.title)}  {state}{inside} of {len(known)} within "
            f"tolerance[/]  {figure.seconds:.1f} s"
        )
        if not self.is_brief:
            listed = Table.grid(padding=(0, 1))
            for finding in figure.findings:
                listed.add_row(" ·", escape(finding))
            Console().print(listed, highlight=False)
        return figure

    def _look_at_audit(self) -> None:
        """Take in the claims once they are all checked."""
        if self.audit is None or self.run.claims is not None or not self.audit.is_done():
            return
        claims = self.audit.claims
        with written_whole(self.out / "claims.json") as partial:
            text = json.dumps([each.record for each in claims], indent=2, ensure_ascii=False)
            partial.write_text(text + "\n", encoding="utf-8")
        changed = sum(bool(claim.changes) for claim in claims)
        _say(
            f"[bold]claims[/bold]  {len(claims)} checked, {changed or 'no'} verdict{'s' * (changed != 1)} "
            f"changed  {sum(claim.seconds for claim in claims):.0f} s"
        )
        self._write("claims", claims=claims)

    def _wait_for_audit(self) -> None:
        if self.audit is None:
            return
        with progress_bar("audit", "claims") as show:
            while not self.audit.is_done(0.2):
                show(len(self.audit.claims), self.audit.total)
        self._look_at_audit()


def _say_estimate(name: str, scale: str, out: Path) -> None:
    from engram.figures import module_of, settings_at

    module = module_of(name)
    if scale in getattr(module, "KEPT", ()):
        minutes = module.estimate(settings_at(name, scale)) / 60
        lasts = f"{minutes:.0f} minutes" if minutes < 100 else f"{minutes / 60:.1f} hours"
        _say(
            f"{name} at the scale {scale!r}: at most about {lasts} on this machine; runs are kept in "
            f"{out}/{name}-runs, and the same command resumes them"
        )
