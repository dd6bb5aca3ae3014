"""Configuration of the documentation: sphinx-build -W docs docs/_build/html."""

from __future__ import annotations

import os
import re
import sys
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
os.environ.setdefault("MPLBACKEND", "Agg")
# The networks of the examples are small: threads would wait for each other longer than they work.
os.environ.setdefault("OMP_NUM_THREADS", "1")

project = "ebm"
author = "ebm developers"
copyright = "2026, ebm developers"
release = version = installed_version("ebm-framework")

extensions = [
    "api_pages",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx-mathjax-offline",
    "sphinx.ext.mathjax",
    "sphinx_gallery.gen_gallery",
    "sphinxcontrib.bibtex",
]
exclude_patterns = ["_build", "api/examples"]
exclude_patterns += [
    f"{folder}/*.{ending}"
    for folder in ("auto_examples", "tutorials")
    for ending in ("ipynb", "md5", "py")
]

myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False

bibtex_bibfiles = ["references.bib"]
bibtex_default_style = "unsrt"
bibtex_reference_style = "author_year"

sphinx_gallery_conf = {
    "examples_dirs": ["../tutorials", "../examples"],
    "gallery_dirs": ["tutorials", "auto_examples"],
    "backreferences_dir": "api/examples",
    "doc_module": ("ebm",),
    "image_scrapers": ("gallery.complete_figures",),
    "filename_pattern": r"/plot_|/tutorials/",
    "within_subsection_order": "gallery.ByNeed",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
    # Its tables ask other servers for scripts.
    "write_computation_times": False,
}

html_theme = "furo"
html_title = f"ebm {version}"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["pages.css"]


def escape_bars(app, what, name, obj, options, lines):
    """Let |θ| in a docstring mean a modulus, not a reStructuredText substitution."""
    lines[:] = [re.sub(r"(?<!`)\|([^\s|`]+)\|(?!`)", r"\\|\1\\|", line) for line in lines]


def setup(app):
    app.connect("autodoc-process-docstring", escape_bars)
