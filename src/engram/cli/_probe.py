"""`engram probe`: matrices of a model's file in; a table, a page and a picture out."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from engram._errors import InputError
from engram._files import written_whole
from engram.cli._targets import check_file, check_picture, write_picture

_TOKENS = 2**22  # bytes of a file with names, at most


def probe(
    file: Annotated[Path, typer.Argument(metavar="FILE.safetensors|FILE.npz", help="A model's weights.")],
    weight: Annotated[list[str], typer.Option(help="The matrix W, shape (k, d); repeat for more, or a pattern such as 'layers.*.ov'.")],
    inputs: Annotated[str, typer.Option(help="Input embeddings, one row per token.")],
    outputs: Annotated[str, typer.Option(help="Output embeddings, one row per class.")],
    targets: Annotated[str | None, typer.Option(help="The class of each token; default by --counts, or each its own.")] = None,
    counts: Annotated[str | None, typer.Option(help="How often each token came, or each class after each token.")] = None,
    names: Annotated[Path | None, typer.Option(help="FILE.txt with what the tokens are called, one per line.")] = None,
    transpose: Annotated[bool, typer.Option("--transpose", help="The matrices are stored as (d, k).")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the dataset, FILE.nc.", rich_help_panel="Output")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page, FILE.html.", rich_help_panel="Output")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw it, FILE.png, .pdf or .svg.", rich_help_panel="Output")] = None,
) -> None:  # fmt: skip
    """Look into a matrix of any model: what it recalls, how surely, and which tokens get in each other's way.

    Shows margins, errors against what is possible, the effective rank, and the nearest confusions. The OV circuits
    of a model's heads, say, as products W_U W_OV W_E that you have stored, are compared by naming them all.
    """
    check_file("--out", out, (".nc",))
    check_file("--html", html, (".html",))
    check_picture("--plot", plot)
    from engram.diagnosis import TensorFile, draw_probe, probe_problem, write_probe_page
    from engram.problem import Problem

    model = TensorFile(file)
    for option, name in (
        ("--inputs", inputs),
        ("--outputs", outputs),
        ("--targets", targets),
        ("--counts", counts),
    ):
        if name is not None:
            model.check(option, name)
    chosen = model.matching("--weight", weight)
    read = lambda name: None if name is None else model[name]
    problem = Problem.from_embeddings(
        model[inputs], model[outputs], read(targets), counts=read(counts), names=_names(names)
    )
    shape = (problem.output_dim, problem.dim)
    _check_shapes(model, chosen, shape[::-1] if transpose else shape, transpose)
    matrices: Any = _Chosen(model, chosen, transpose)
    dataset = probe_problem(problem, matrices if len(chosen) > 1 else matrices[chosen[0]])
    title = f"{file.name}: {chosen[0] if len(chosen) == 1 else f'{len(chosen)} matrices'}"
    _report(dataset, title)
    if out is not None:
        with written_whole(out) as partial:
            partial.write_bytes(dataset.to_netcdf(engine="h5netcdf"))
        print(f"written: {out}")
    if html is not None:
        write_probe_page(dataset, html, title)
        print(f"written: {html}")
    if plot is not None:
        write_picture(draw_probe(dataset), plot)


class _Chosen(dict[str, None]):
    """Matrices that are read when they are asked for."""

    def __init__(self, file: Any, names: list[str], transpose: bool):
        super().__init__(dict.fromkeys(names))
        self._file, self._transpose = file, transpose

    def __getitem__(self, name: str) -> Any:
        matrix = self._file[name]
        return matrix.T if self._transpose else matrix


def _check_shapes(file: Any, names: list[str], shape: tuple[int, ...], transpose: bool) -> None:
    """Refuse matrices of another shape before any is read."""
    for name in names:
        met = file.shapes[name]
        if met != shape:
            turned = "Leave out --transpose." if transpose else "Pass --transpose."
            hint = turned if met == shape[::-1] else "Is it this one that maps inputs to outputs?"
            raise InputError(
                f"`--weight` must name a matrix of shape {shape}, by the dimensions of --outputs and --inputs, "
                f"got {name!r} of shape {met}. {hint}"
            )


def _names(path: Path | None) -> list[str] | None:
    """What tokens are called, one per line."""
    if path is None:
        return None
    if not path.is_file() or path.stat().st_size > _TOKENS:
        raise InputError(
            f"`--names` must be a text file of at most {_TOKENS >> 20} MiB, one name per line, got {path}."
        )
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise InputError(
            f"`--names` must be a text file in UTF-8, got {path}. Convert it."
        ) from None


def _report(dataset: Any, title: str) -> None:
    from engram.diagnosis import CONFUSIONS, SUMMARY, confusion_rows, each_matrix, summary_rows

    console = Console()
    console.print(_table(title, SUMMARY, summary_rows(dataset)))
    matrices = each_matrix(dataset)
    if len(matrices) == 1:
        console.print(_table("nearest confusions", CONFUSIONS, confusion_rows(matrices[0][1])))


def _table(title: str, heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> Table:
    table = Table(title=Text(title), title_justify="left", box=None, pad_edge=False)
    for place, head in enumerate(heads):
        table.add_column(head, no_wrap=place == 0)  # else the names of heads all begin alike
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table
