"""`engram bench`: measure, then a table or JSON."""

import dataclasses
import json
import sys

from rich.console import Console
from rich.table import Table


def bench(names: list[str], *, as_json: bool, threads: int, repeats: int, only_list: bool) -> None:
    # Before JAX and PyTorch are imported, for they size their thread pools then.
    from engram.bench._threads import pin_threads

    cores = pin_threads(threads)
    from engram._checks import InputError
    from engram.bench import WORKS, Limits, measure
    from engram.transformer import use_devices

    use_devices(cores)

    if only_list:
        for work in WORKS.values():
            print(f"{work.name:20} {work.work}")
        return
    chosen = {
        name: [work for work in WORKS if work == name or work.startswith(f"{name}-")]
        for name in names
    }
    unknown = [name for name, works in chosen.items() if not works]
    if unknown:
        raise InputError(
            f"NAME must be one of {', '.join(WORKS)}, got {', '.join(unknown)}. "
            "`engram bench --list` says what each is."
        )
    limits, found = Limits(), []
    progress = Console(stderr=True)
    for name in dict.fromkeys(work for works in chosen.values() for work in works) or WORKS:
        # A line, not a spinner: a spinner would take turns on the cores that are being timed.
        progress.print(f"[dim]timing {name}: {WORKS[name].work}[/dim]")
        found.append(measure(WORKS[name], limits, repeats=repeats))
    if as_json:
        json.dump([dataclasses.asdict(row) for row in found], sys.stdout, indent=2)
        print()
        return
    table = Table(title=f"units per second on {cores} core{'s' if cores > 1 else ''} (median)")
    table.add_column("name", no_wrap=True)
    for column in ("engram", "peer", "ratio", "of limit"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in found:
        table.add_row(
            row.name,
            f"{row.engram:,.4g} ±{row.spread / 2:.0%}",
            "-" if row.peer is None else f"{row.peer:,.4g} ±{(row.peer_spread or 0) / 2:.0%}",
            "-" if row.ratio is None else f"{row.ratio:,.3g}",
            "-" if row.limit_fraction is None else f"{row.limit_fraction:.0%}",
        )
    console = Console()
    console.print(table)
    for row in found:
        console.print(
            f"[bold]{row.name}[/bold]: {row.work}" + (f" ({row.note})" if row.note else "")
        )
