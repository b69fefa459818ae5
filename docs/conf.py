"""How the documentation is built; ``make docs`` does it."""

import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

from dualmetric import __version__  # noqa: E402

project = "dualmetric"
author = "The dualmetric developers"
project_copyright = author
version = release = __version__

extensions = [
    "mathml",
    "myst_parser",
    "numpydoc",
    "run_block",
    "sphinx.ext.autodoc",
]
exclude_patterns = ["_build"]
root_doc = "index"

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # types are in the docstrings
numpydoc_show_class_members = False  # pages say which

html_math_renderer = "mathml"
html_theme = "furo"
html_title = f"dualmetric {release}"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_copy_source = False
html_show_sphinx = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"


def escape_names(_app, _what, _name, _obj, _options, lines):
    """Keep names in types such as (rank, n_features_in_) from being read as links."""
    lines[:] = [re.sub(r"(?<=\w)_(?=[,)])", r"\\_", line) for line in lines]


def setup(app):
    """Run it after numpydoc."""
    app.connect("autodoc-process-docstring", escape_names, priority=900)
