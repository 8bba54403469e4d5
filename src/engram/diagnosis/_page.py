"""Pages of a diagnosis: sentences, pictures and tables in one file, with nothing outside it."""

import os
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from matplotlib.figure import Figure

import engram
from engram._files import written_whole
from engram._pages import page_templates, png_text


class Section(NamedTuple):
    """A part of a page; what is left out is not shown."""

    heading: str = ""
    sentences: Sequence[str] = ()
    picture: Figure | None = None
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()


def page(title: str, lead: str, sections: Sequence[Section]) -> str:
    """The page as text."""
    environment = page_templates("engram.diagnosis")
    environment.filters["png"] = partial(png_text, dpi=150)
    template = environment.get_template("page.html")
    return template.render(title=title, lead=lead, sections=sections, version=engram.__version__)


def write_page(
    path: str | os.PathLike[str], title: str, lead: str, sections: Sequence[Section]
) -> None:
    """Write the page, whole or not at all."""
    text = page(title, lead, sections)
    with written_whole(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
