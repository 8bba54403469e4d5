"""Pages in one file with nothing outside it: their common head, and pictures within the text."""

import base64
import io

import jinja2
from matplotlib.figure import Figure


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
