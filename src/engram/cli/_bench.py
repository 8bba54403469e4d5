"""`engram bench`: measure, then a table, JSON or a picture."""

import dataclasses
import datetime
import json
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from engram._errors import InputError
from engram.cli._targets import check_picture, write_picture

if TYPE_CHECKING:
    from engram.bench import Change, Growth, Measured


def bench(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Names of benchmarks; default all.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    threads: Annotated[int, typer.Option(min=1, help="Number of cores for both sides.")] = 1,
    repeats: Annotated[int, typer.Option(min=1, help="Number of timed rounds, interleaved.")] = 31,
    processor: Annotated[bool, typer.Option("--processor-time", help="Count processor time, on a machine that has other work.")] = False,
    growth: Annotated[bool, typer.Option("--growth", help="Measure how cost grows with N, M, d and grid cells, and fit exponents.")] = False,
    since: Annotated[Path | None, typer.Option("--compare", metavar="FILE.json", help="Say what became slower or faster since this output of --json.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the results, FILE.png, .pdf or .svg.")] = None,
    only_list: Annotated[bool, typer.Option("--list", help="List the benchmarks and stop.")] = False,
) -> None:  # fmt: skip
    """Time engram and a plain PyTorch loop on the same task, side by side, as ratios.

    Both sides run in this process on the same cores, warm, in turns; rates are medians with their spread (half the
    quartile range). All benchmarks take about eight minutes. PyTorch is optional: `make bench` installs it.
    """
    check_picture("--plot", plot)
    for option, is_given in (
        ("NAME", names),
        ("--compare", since),
        ("--processor-time", processor),
    ):
        if growth and is_given:
            raise InputError(
                f"--growth has benchmarks of its own, got {option} as well. Leave one of them out."
            )
    # Before JAX and PyTorch are imported, for they size their thread pools then.
    from engram.bench import pin_threads

    cores = pin_threads(threads)
    from engram.bench import (
        BENCHMARKS,
        compare,
        draw_growth,
        draw_ratios,
        measure_growth,
        read_measured,
    )
    from engram.transformer import use_devices

    use_devices(cores)
    if only_list:
        for each in BENCHMARKS.values():
            against = f" (against {each.against})" if each.against else ""
            print(f"{each.name:22} {each.unit}{against}")
        return
    earlier = [] if since is None else read_measured(since)
    # A line, not a spinner: a spinner would take turns on the cores that are being timed.
    say = lambda text: Console(stderr=True).print(f"[dim]{text}[/dim]")
    rows: list[Any] = (
        measure_growth(say)
        if growth
        else _ratios(names or _known(earlier), repeats, processor, say)
    )
    where = f"{cores} core{'s' if cores > 1 else ''}{', processor time' if processor else ''}"
    if as_json:
        json.dump([dataclasses.asdict(row) for row in rows], sys.stdout, indent=2)
        print()
    else:
        (_show_growth if growth else _show_ratios)(rows, where)
    if since is not None:
        show_changes(compare(earlier, rows), Console(stderr=as_json))
    if plot is not None:
        title = f"{where}, {platform.machine()}, {datetime.date.today()}"
        write_picture((draw_growth if growth else draw_ratios)(rows, title), plot, sys.stderr)


def _ratios(
    names: list[str], repeats: int, processor: bool, say: Callable[[str], None]
) -> list["Measured"]:
    from engram.bench import BENCHMARKS, Limits, measure, processor_seconds

    clock = processor_seconds if processor else time.perf_counter

    chosen = {
        name: [each for each in BENCHMARKS if each == name or each.startswith(f"{name}-")]
        for name in names
    }
    unknown = [name for name, benchmarks in chosen.items() if not benchmarks]
    if unknown:
        raise InputError(
            f"NAME must be one of {', '.join(BENCHMARKS)}, got {', '.join(unknown)}. "
            "`engram bench --list` says what each is."
        )
    wanted = list(dict.fromkeys(sum(chosen.values(), [])) or BENCHMARKS)
    limits, rows = Limits(clock), []
    for index, name in enumerate(wanted):
        say(f"{index + 1} of {len(wanted)}, {name}: {BENCHMARKS[name].unit}")
        rows.append(measure(BENCHMARKS[name], limits, repeats=repeats, clock=clock))
    return rows


def _show_ratios(rows: list["Measured"], where: str) -> None:
    from engram.bench import ratio_text

    table = Table(title=f"units per second on {where} (median)")
    table.add_column("name", no_wrap=True)
    for column in ("engram", "peer", "ratio", "of limit"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            row.name,
            f"{row.engram:,.4g} ±{row.spread / 2:.0%}",
            "-" if row.peer is None else f"{row.peer:,.4g} ±{(row.peer_spread or 0) / 2:.0%}",
            "-" if row.ratio is None else ratio_text(row.ratio),
            "-" if row.limit_fraction is None else f"{row.limit_fraction:.0%}",
        )
    console = Console()
    console.print(table)
    for row in rows:
        against = f" Against {row.against}." if row.against else ""
        notes = f" {row.note}." if row.note else ""
        console.print(f"[bold]{row.name}[/bold]: {row.work}.{against}{notes}")


def _known(earlier: list["Measured"]) -> list[str]:
    """The benchmarks of an earlier run that there still are."""
    from engram.bench import BENCHMARKS

    return [name for name in dict.fromkeys(row.name for row in earlier) if name in BENCHMARKS]


def show_changes(changes: list["Change"], console: Console) -> None:
    """A table of what moved, and a sentence that names it."""
    table = Table(title="what moved, with intervals of 99 %")
    table.add_column("name", no_wrap=True)
    for column in ("of", "then", "now over then", "verdict"):
        table.add_column(column, justify="right", no_wrap=True)
    for each in changes:
        table.add_row(
            each.name,
            each.of,
            f"{each.then:,.4g}",
            f"{each.change:.2f} ({each.low:.2f} to {each.high:.2f})",
            each.verdict,
        )
    console.print(table)
    console.print(_summary(changes))


def _summary(changes: list["Change"]) -> str:
    of = lambda verdict: [each.name for each in changes if each.verdict == verdict]
    said = [
        f"{verdict}: {', '.join(of(verdict))}" for verdict in ("slower", "faster") if of(verdict)
    ]
    return f"Beyond noise, {'; '.join(said) or 'nothing moved'} ({len(changes)} compared)."


def _show_growth(rows: list["Growth"], where: str) -> None:
    console = Console()
    for row in rows:
        table = Table(title=f"{row.name} ({row.fixed}), {where}")
        table.add_column(row.size, justify="right")
        table.add_column("milliseconds", justify="right")
        for size, seconds in zip(row.sizes, row.seconds, strict=True):
            table.add_row(f"{size:,}", f"{1e3 * seconds:,.4g}")
        console.print(table)
        console.print(
            f"time grows like {row.size}^{row.exponent:.2f} (±{row.error:.2f}); "
            f"operations over the same sizes like {row.size}^{row.counted:.2f}"
        )
