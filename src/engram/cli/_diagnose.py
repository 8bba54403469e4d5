"""`engram explain` and `engram events`: what happened in a run, and who did it."""

import csv
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from engram._errors import InputError
from engram.cli._options import Plugin
from engram.cli._targets import check_file, check_picture, write_picture

Run = Annotated[Path, typer.Argument(metavar="RUN.nc|STORE.zarr", help="A run that `engram simulate ... --out RUN.nc` wrote, or a recording.")]  # fmt: skip
_MOST_ROWS = 200  # printed; --csv prints all


def explain(
    run: Annotated[Path, typer.Argument(metavar="RUN.nc|STORE.zarr|FOLDER", help="A run that `engram simulate ... --out RUN.nc` wrote, a recording, or the folder of a training.")],
    most: Annotated[int, typer.Option(min=1, help="Explain so many of the highest spikes.")] = 8,
    plot: Annotated[Path | None, typer.Option(help="Draw the highest spike, FILE.png, .pdf or .svg.")] = None,
    graph: Annotated[Path | None, typer.Option(help="Draw the strongest pushes of the highest spike as arrows, FILE.png, .pdf or .svg.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the explanation as a page, FILE.html.")] = None,
    plugin: Plugin = None,
) -> None:  # fmt: skip
    """Explain every spike in the loss of a run: whose loss rose, who pushed them, and why.

    The run is repeated from its file, and each change of a margin is divided among the tokens that made
    it, exactly. Of a training, the change of the loss is divided among the matrices.
    """
    del plugin  # loaded
    check_picture("--plot", plot)
    check_picture("--graph", graph)
    check_file("--html", html, (".html",))
    if (run / "config.toml").is_file() and graph is not None:
        raise InputError(
            "`--graph` is of pushes among tokens, and a training has none. Use --plot."
        )
    explanation = _explanation(run, most)
    Console().print(str(explanation), soft_wrap=True, markup=False, highlight=False)
    if html is not None:
        explanation.write_page(html, f"Spikes of {run.name}")
        print(f"written: {html}")
    if not explanation.spikes and (plot or graph):
        option = "--plot" if plot else "--graph"
        raise InputError(f"`{option}` has nothing to draw: the loss never spiked. Leave it out.")
    if plot is not None:
        write_picture(explanation.plot(explanation.highest), plot)
    if graph is not None:
        write_picture(explanation.graph(explanation.highest), graph)


def _explanation(run: Path, most: int) -> Any:
    if not (run / "config.toml").is_file():
        from engram import diagnosis

        return diagnosis.explain(read_run(run), most=most)
    from engram import transformer
    from engram._progress import progress_bar

    transformer.use_devices()
    with progress_bar(f"explain {run.name}", "steps") as report:
        return transformer.explain(run, most=most, progress=report)


def events(
    run: Run,
    token: Annotated[str | None, typer.Option(help="Only those of this token, by its name or number.")] = None,
    what: Annotated[str | None, typer.Option(help="Only these: learnt, forgotten, re-learnt, spike, peak, perfect.")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print all of them as CSV.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw when each token was recalled, FILE.png, .pdf or .svg.")] = None,
    plugin: Plugin = None,
) -> None:  # fmt: skip
    """List what happened in a run: spikes, tokens learnt, forgotten and re-learnt, and by whom."""
    del plugin  # loaded
    check_picture("--plot", plot)
    from engram import diagnosis

    dataset = read_run(run)
    rows = [row for row in _rows(dataset) if what is None or row["what"] == what]
    if token is not None:
        known = [str(label) for label in dataset["token"].values]
        if token not in known:
            shown = ", ".join(known[:10]) + (", ..." if len(known) > 10 else "")
            raise InputError(f"`--token` must be one of {shown}, got {token!r}.")
        rows = [row for row in rows if row["token"] == token]
    if as_csv:
        writer = csv.DictWriter(sys.stdout, list(_COLUMNS), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    else:
        _print(rows)
    if plot is not None:
        write_picture(diagnosis.draw_forgetting(dataset), plot, sys.stderr if as_csv else None)


_COLUMNS = {
    "step": "step", "what": "what", "token": "token", "margin_before": "margin before",
    "margin_after": "margin after", "height": "height", "by": "by", "push": "push",
}  # fmt: skip


def _rows(run: Any) -> list[dict[str, Any]]:
    """One row per event, with who did it where that is known."""
    import engram
    from engram.diagnosis import forgetting

    table = engram.events(run)
    along = "step" if "step" in table.coords else "time"
    labels = [str(label) for label in run["token"].values] if "token" in run.coords else []
    exact = dict(zip(run["token"].values.tolist(), labels, strict=True)) if labels else {}
    causes: dict[tuple[Any, str], tuple[Any, float]] = {}
    if along == "step" and "event_step" in run:
        ledger = forgetting(run)
        columns = (ledger[name].values.tolist() for name in ("step", "of", "by", "push"))
        causes = {
            (step, exact[of]): (by, push) for step, of, by, push in zip(*columns, strict=True)
        }
    rows = []
    for k in range(table.sizes["event"]):
        token = exact.get(table["token"].values[k], "")
        by, push = causes.get((table[along].values[k], token), (None, None))
        row = {"step": table[along].values[k], "what": str(table["what"].values[k]), "token": token}
        row |= {
            name: _plain(table[name].values[k])
            for name in ("margin_before", "margin_after", "height")
        }
        rows.append(row | {"by": exact.get(by, ""), "push": _plain(push)})
    return rows


def _plain(value: Any) -> Any:
    return "" if value is None or value != value else float(value)


def _print(rows: list[dict[str, Any]]) -> None:
    table = Table(*_COLUMNS.values())
    for row in rows[:_MOST_ROWS]:
        table.add_row(*(f"{v:.6g}" if isinstance(v, float) else str(v) for v in row.values()))
    Console().print(table)
    if len(rows) > _MOST_ROWS:
        print(f"... and {len(rows) - _MOST_ROWS} more: --csv prints all of them.")


def read_run(path: Path) -> Any:
    """A run or a recording, with its events."""
    from engram.diagnosis import check_tokens, is_recording, open_recording
    from engram.specs import read_netcdf

    if not path.is_file() and not is_recording(path):
        raise InputError(
            f"RUN must be a file of a run, a recording or the folder of a training, got {path}. Check the name."
        )
    data = open_recording(path) if is_recording(path) else read_netcdf(path)
    is_silent = "event_step" not in data and "spike_step" not in data
    if is_silent and data.attrs.get("kind") != "recording":
        raise InputError(
            f"{path} holds no events. Give a file that `engram simulate ... --out FILE.nc` wrote."
        )
    check_tokens(data)
    return data
