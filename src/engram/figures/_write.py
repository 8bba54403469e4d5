"""Write a figure's picture and its data, each whole or not at all."""

from pathlib import Path

from engram._files import written_whole
from engram.figures import loss_spikes

FIGURES = {"fig2": loss_spikes}


def write_figure(name: str, out: Path) -> list[str]:
    """Compute and draw a figure into `out`; return what it shows, in words and numbers."""
    import matplotlib

    matplotlib.use("agg")
    module = FIGURES[name]
    data = module.compute(module.Settings())
    figure = module.draw(data)
    for suffix in (".png", ".pdf"):
        with written_whole(out / f"{name}{suffix}") as path:
            figure.savefig(path, dpi=200)
    with written_whole(out / f"{name}.nc") as path:
        data.to_netcdf(path, engine="h5netcdf")
    return module.findings(data)
