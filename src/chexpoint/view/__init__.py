"""How trees, versions, logs and differences look: text, SVG and HTML from values of the model.

Pure functions, no I/O.  Pictures and pages need nothing but themselves, and can be read in light
and dark themes.
"""

from chexpoint.view.diff_lines import diff_text
from chexpoint.view.diff_table import diff_html
from chexpoint.view.difference import CellPair, Diff, InputChange, Side, SideCell, diff, diff_json
from chexpoint.view.log import LOG_LINES, log_html, log_text
from chexpoint.view.outputs import OutputChange
from chexpoint.view.style import PAGE_START, html_page
from chexpoint.view.tree_lines import tree_text
from chexpoint.view.tree_page import tree_html
from chexpoint.view.tree_picture import TREE_START, tree_svg
from chexpoint.view.version_table import VersionRow, version_rows, versions_html, versions_text

__all__ = [
    "LOG_LINES",
    "PAGE_START",
    "TREE_START",
    "CellPair",
    "Diff",
    "InputChange",
    "OutputChange",
    "Side",
    "SideCell",
    "VersionRow",
    "diff",
    "diff_html",
    "diff_json",
    "diff_text",
    "html_page",
    "log_html",
    "log_text",
    "tree_html",
    "tree_svg",
    "tree_text",
    "version_rows",
    "versions_html",
    "versions_text",
]
