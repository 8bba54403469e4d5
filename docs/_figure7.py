"""Collect `figure7.json`, what trainings of Figure 7 showed at its scales, and draw `figure7.png` from it.

`.venv/bin/python docs/_figure7.py collect medium=DIR paper=DIR` reads the folders `fig7-runs` that
`engram reproduce fig7 --scale medium` keeps, finished or not; without `collect` it only draws.
"""

import json
import sys
from pathlib import Path

import matplotlib
import numpy as np

from engram import plotting, transformer
from engram.figures import fig7_transformer
from engram.figures._training import draw_losses, num_spikes, taken_back
from engram.transformer import formation

matplotlib.use("agg")
TABLE = Path(__file__).with_name("figure7.json")


def summary(name: str, folder: Path) -> list[dict]:
    """One row for each run of a training: its losses, and what the observations are about."""
    log = transformer.open_log(folder / "log.zarr")
    log = log.isel(step=slice(int(log.attrs["recorded"])))
    if not log.sizes["step"]:
        return []
    runs = [log.isel(run=k) for k in range(log.sizes["run"])] if "run" in log.dims else [log]
    return [one(name, run) for run in runs]


def one(name: str, run) -> dict:
    """Numbers of one run, of all steps that are recorded."""
    row = {
        "name": name,
        "steps": run.sizes["step"] - 1,
        "loss": [float(f"{value:.4g}") for value in run.loss.values],
        "accuracy": round(float(run.accuracy[-1]), 4),
        "spikes": num_spikes(run.loss),
        "taken_back": round(taken_back(run.margins_wo2.transpose("step", ...)), 3),
        "taken_back_50": round(taken_back(run.margins_wo2.transpose("step", ...)[:51]), 3),
    }
    if "learning_rate" in run.coords:
        row["rate"] = float(run.learning_rate)
    last, first = run.isel(step=-1), run.margins_wo2.isel(step=0)
    for matrix in ("wo2", "wk2", "wk1_causal"):
        row[f"positive_{matrix}"] = round(float((last[f"margins_{matrix}"] > 0).mean()), 3)
    margins = last.margins_wo2
    row["wo2"] = [round(float(x), 3) for x in (first.mean(), margins.mean(), margins.std())]
    formed = formation(run) if name not in ("alone", "same") else None
    if formed is not None:
        step = lambda value: int(value) if np.isfinite(value) else None
        row["half_formed"] = {
            str(m): step(formed.from_50.sel(matrix=m).item()) for m in formed.matrix.values
        }
    return row


def collect(folders: dict[str, Path]) -> dict:
    """All trainings that are in these folders, by scale."""
    table = {}
    for scale, folder in folders.items():
        settings = fig7_transformer.SCALES[scale]
        rows = [
            row
            for name in fig7_transformer._jobs(settings)
            if (folder / name / "log.zarr").exists()
            for row in summary(name, folder / name)
        ]
        table[scale] = {
            "sequences": settings.sequences,
            "length": settings.length,
            "steps": settings.steps,
            "runs": rows,
        }
    return table


def by_rate(rows: list[dict], dim: int) -> dict[float, list[float]]:
    """Losses of the runs in all three matrices at one width."""
    start = f"d{dim}-rate"
    chosen = [row for row in rows if row["name"].startswith(start)]
    losses = {float(row["name"].removeprefix(start)): row["loss"] for row in chosen}
    return dict(sorted(losses.items()))


def draw(table: dict) -> None:
    """Losses against steps: a row for each width, a column for each scale."""
    import matplotlib.pyplot as plt

    with plotting.style():
        figure, grid = plt.subplots(
            2,
            len(table),
            figsize=(2.3 * len(table) + 0.4, 4.0),
            squeeze=False,
            layout="constrained",
        )
        for column, (scale, part) in zip(grid.T, table.items(), strict=True):
            for axes, dim in zip(column, (64, 128), strict=True):
                for rate, loss in by_rate(part["runs"], dim).items():
                    draw_losses(axes, np.arange(len(loss)), {rate: loss})
                axes.set_xlim(0, part["steps"])
                axes.set_ylim(0.01, 30)
            column[0].set_title(
                f"{scale}: {part['sequences']:,} sequences\nof {part['length']}", fontsize=8
            )
            column[1].set_xlabel("step $t$")
        for axes, dim in zip(grid[:, 0], (64, 128), strict=True):
            axes.set_ylabel(f"$d = {dim}$\nloss")
        grid[0, 0].legend(ncols=2, fontsize=6, handlelength=0.8)
        figure.savefig(TABLE.with_suffix(".png"), dpi=150)


def write_table(table: dict) -> None:
    """The runs as a table, between two comments of the page."""
    page = TABLE.with_suffix(".md")
    before, _, rest = page.read_text().partition("<!-- runs -->\n")
    after = rest.partition("<!-- end of runs -->")[2]
    lines = [
        "| scale | d | η | steps | loss | accuracy | spikes | taken back | W_O^2 > 0 | W_K^2 > 0 | mean and deviation of W_O^2 | half of W_O^2 |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for scale, part in table.items():
        for row in part["runs"]:
            if "-rate" not in row["name"]:
                continue
            dim, rate = row["name"].removeprefix("d").split("-rate")
            formed = row["half_formed"]["wo2"]
            lines.append(
                f"| {scale} | {dim} | {rate} | {row['steps']} | {row['loss'][-1]:.3g} | {row['accuracy']:.3f} | {row['spikes']} | "
                f"{row['taken_back']:.0%} | {row['positive_wo2']:.0%} | {row['positive_wk2']:.0%} | {row['wo2'][1]:.2g}, {row['wo2'][2]:.2g} | "
                f"{'not yet' if formed is None else f'step {formed}'} |"
            )
    text = "\n".join(lines)
    page.write_text(f"{before}<!-- runs -->\n{text}\n<!-- end of runs -->{after}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["collect"]:
        folders = dict(argument.split("=") for argument in sys.argv[2:])
        table = collect({scale: Path(folder) for scale, folder in folders.items()})
        TABLE.write_text(json.dumps(table, indent=None, separators=(",", ":")) + "\n")
    table = json.loads(TABLE.read_text())
    for scale, part in table.items():
        for row in part["runs"]:
            end = min(row["loss"][-10:]), row["loss"][-1], min(row["loss"])
            print(scale, {k: v for k, v in row.items() if k != "loss"}, "last, least:", *end)
    write_table(table)
    draw(table)
