"""Sphinx configuration."""

import engram

project = "engram"
author = "The engram developers"
release = version = engram.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx-mathjax-offline"]
myst_enable_extensions = ["dollarmath", "deflist"]
html_theme = "furo"
html_title = "engram"
exclude_patterns = ["_build"]
