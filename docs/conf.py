"""Sphinx configuration: offline, every picture made again, every warning an error."""

import logging
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import _stories

import _generate
import engram
from engram.explorer import export

logging.getLogger("jax._src.xla_bridge").setLevel(logging.WARNING)  # no TPU is no news

project = "engram"
author = "The engram developers"
copyright = "2026, The engram developers"
release = version = engram.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx-mathjax-offline",
    "sphinx_gallery.gen_gallery",
]
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "engram"
html_show_sphinx = False
html_static_path = ["_static"]
exclude_patterns = ["_build", "gallery", "generated/*-table.md", "**/GALLERY_HEADER.rst"]
default_role = "code"
add_module_names = False
autodoc_typehints = "none"  # shapes are described in words; the types are in the source
autodoc_member_order = "bysource"
napoleon_use_rtype = False
sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "generated/gallery",
    "filename_pattern": "/plot_",
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "write_computation_times": False,
    "min_reported_time": 1e9,
    "remove_config_comments": True,
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "plot_gallery": True,
}
suppress_warnings = ["config.cache"]


def _block(found):
    """A formula between double dollars, as a directive of its own."""
    body = "\n".join(f"   {line.strip()}" for line in found[2].strip().splitlines())
    lines = ["", ".. math::", "", *body.splitlines(), ""]
    return "\n".join(found[1] + line if line else "" for line in lines)


def _formulas(app, what, name, obj, options, lines):
    """Docstrings write formulas as Markdown does, $x$ and $$x$$; autodoc reads reStructuredText."""
    text = "\n".join(lines)
    text = re.sub(r"(?m)^([ ]*)\$\$(.+?)\$\$[ ]*$", _block, text, flags=re.S | re.M)
    text = re.sub(r"\$([^$\n]+(?:\n[^$\n]+)?)\$", lambda found: f":math:`{found[1]}`", text)
    # |B| in words would be a substitution.
    parts = re.split(r"(:math:`[^`]*`|`[^`]*`|\.\. math::.*?\n\n.*?\n\n)", text, flags=re.S)
    parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
    lines[:] = "".join(parts).split("\n")


def _write_explorer(app, fault):
    """The explorer as one file beside the pages, which show it in frames."""
    if fault is None and app.builder.format == "html":
        export(Path(app.outdir) / "explorer-live.html")


def setup(app):
    _stories.setup(app)
    app.connect("build-finished", _write_explorer)
    app.connect("builder-inited", _generate.write_pages, priority=1)
    app.connect("autodoc-process-docstring", _formulas, priority=900)
