"""Pages in one file with nothing outside it: sentences, pictures and tables under a common head."""

import base64
import io
import os
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jinja2
from matplotlib.figure import Figure

import engram
from engram._files import written_whole


class Section(NamedTuple):
    """A part of a page; what is left out is not shown."""

    heading: str = ""
    sentences: Sequence[str] = ()
    picture: Figure | None = None
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()


def write_page(
    path: str | os.PathLike[str], title: str, lead: str, sections: Sequence[Section]
) -> None:
    """Write a page of sections, whole or not at all."""
    environment = page_templates("engram")
    environment.filters["png"] = partial(png_text, dpi=150)
    text = environment.get_template("_sections.html").render(
        title=title, lead=lead, sections=sections, version=engram.__version__
    )
    with written_whole(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def page_templates(package: str) -> jinja2.Environment:
    """The templates of a package, which may extend `_page.html`."""
    folders = [jinja2.PackageLoader(name, ".") for name in (package, "engram")]
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader(folders),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def png_text(figure: Figure, dpi: int) -> str:
    """A picture as PNG in base64, for `src="data:image/png;base64,..."`."""
    file = io.BytesIO()
    figure.savefig(file, dpi=dpi, format="png")
    return base64.b64encode(file.getvalue()).decode()
