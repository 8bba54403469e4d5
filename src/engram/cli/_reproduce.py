"""`engram reproduce`: figures into a folder."""

from pathlib import Path

from rich.console import Console

from engram.figures import FIGURES, write_figure


def reproduce(names: list[str], out: Path) -> None:
    from engram._checks import InputError
    from engram._files import check_folder

    unknown = [name for name in names if name not in FIGURES]
    if unknown:
        raise InputError(
            f"FIGURE must be one of {', '.join(FIGURES)}, got {', '.join(unknown)}. Pick from those."
        )
    check_folder("--out", out)
    console = Console()
    for name in names or FIGURES:
        with console.status(f"{name}: computing"):
            findings = write_figure(name, out)
        console.print(f"[bold]{name}[/bold] {FIGURES[name].TITLE}")
        for finding in findings:
            console.print(f"  {finding}")
        console.print(f"  written: {out}/{name}.png, .pdf, .nc", soft_wrap=True)
