"""`engram study`: a question that the paper leaves open, asked and answered with numbers."""

import hashlib
import json
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from engram._errors import InputError
from engram.cli._options import Plugin
from engram.cli._run import end_interrupted, typed
from engram.cli._targets import check_out
from engram.registry import entries


def study(
    what: Annotated[str | None, typer.Argument(metavar="NAME|SPEC.toml", help="A study, or a copied spec of one.")] = None,
    show: Annotated[bool, typer.Option("--list", help="List the studies.")] = False,
    spec: Annotated[bool, typer.Option("--spec", help="Print the study as a spec, to be copied and changed.")] = False,
    tiny: Annotated[bool, typer.Option("--tiny", help="Begin from settings with which it takes seconds, too few for most conclusions.")] = False,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="SETTING=VALUE", help="Change a setting, in TOML syntax; repeat for more.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write to; default out/studies/NAME, and a folder of its own for other settings.")] = None,
    plugin: Plugin = None,
) -> None:  # fmt: skip
    """Study a question beyond the paper: compute, compare with published numbers, draw, and write a page.

    Writes NAME.html, NAME.png, NAME.pdf, NAME.json and all data. Run it again to resume. Exit code 1 if a
    known number is not met. For a variant, copy the spec (--spec) and change a line.
    """
    del plugin  # loaded
    if show or what is None:
        _list()
        return
    from engram._progress import progress_bar
    from engram.studies import read_study, spec_text
    from engram.studies import study as ask

    asked = read_study(what, tiny=tiny, **_settings(set_ or []))
    if spec:
        print(spec_text(asked), end="")
        return
    name = str(asked.settings()["name"])
    folder = out or Path("out/studies") / _folder_name(what, asked)
    check_out(folder)
    console = Console(soft_wrap=True, highlight=False)
    minutes = max(round(asked.minutes), 1)
    lasts = f"about {minutes} minute{'s' * (minutes > 1)} at the usual settings"
    lasts = "seconds" if tiny else lasts
    console.print(f"[bold]{escape(name)}[/bold]  {escape(asked.title)}  ({lasts})")
    try:
        with _Bars(progress_bar) as report:
            result = ask(asked, out=folder, progress=report)
    except KeyboardInterrupt:
        end_interrupted(f"finished parts are kept in {folder}. To resume: {typed()}")
    _print(console, result)
    console.print(f"page: {folder / name}.html")
    if not result.is_met:
        raise typer.Exit(1)


class _Bars:
    """A progress bar for each part, one after the other."""

    def __init__(self, progress_bar: Any):
        self._make, self._part = progress_bar, ""
        self._bar: Any = None
        self._tell: Any = None

    def __enter__(self) -> Any:
        return self._report

    def _report(self, part: str, done: int, total: int) -> None:
        if part != self._part:
            self._end()
            self._part, self._bar = part, self._make(part, "")
            self._tell = self._bar.__enter__()
        self._tell(done, total)

    def _end(self) -> None:
        if self._bar is not None:
            self._bar.__exit__(None, None, None)
            self._bar = None

    def __exit__(self, *_: object) -> None:
        self._end()


def _list() -> None:
    listed = Table.grid(padding=(0, 2))
    for name, entry in entries("study").items():
        listed.add_row(f"[bold]{escape(name)}[/bold]", escape(entry.help))
    console = Console(highlight=False)
    console.print(listed)
    console.print("engram study NAME asks one; engram study NAME --spec prints it to be changed.")


def _folder_name(what: str, asked: Any) -> str:
    """The study's or the spec's name; with other settings than the usual ones each has a folder of its own."""
    from engram.registry import table
    from engram.studies import read_study

    settings, stem = table(asked), Path(what).stem if what.endswith(".toml") else what
    if settings == table(read_study(str(settings["name"]))):
        return stem
    text = json.dumps(settings, sort_keys=True)
    return f"{stem}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"


def _settings(given: list[str]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not (sign and name.strip().isidentifier()):
            raise InputError(
                f"--set must be SETTING=VALUE, got {text!r}. For example --set seeds=5."
            )
        try:
            settings[name.strip()] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            settings[name.strip()] = value.strip()
    return settings


def _print(console: Console, result: Any) -> None:
    from engram.studies import HEADS, cells

    for finding in result.findings:
        console.print(f" · {escape(finding)}")
    shown = Table(*HEADS[:-1], box=None, pad_edge=False, header_style="dim")
    for row in result.rows:
        shown.add_row(*map(escape, cells(row)[:-1]))  # sources are on the page
    if result.rows:
        Console(highlight=False).print(shown)
    known = [row for row in result.rows if row.is_met is not None]
    if not known:
        console.print(f"no known number applies at these settings; {result.seconds:.0f} s")
        return
    console.print(
        f"{sum(bool(row.is_met) for row in known)} of {len(known)} known numbers are met; {result.seconds:.0f} s"
    )
