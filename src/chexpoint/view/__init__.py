"""How trees, versions, differences, plans and replays look: text, SVG, HTML of model values.

Pure functions, no I/O.  Pictures and pages need nothing but themselves, and can be read in light
and dark themes.

Names are loaded when they are first used: a kernel that shows nothing need not import them.
"""

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from chexpoint.view.diff_lines import diff_text
    from chexpoint.view.diff_table import diff_html
    from chexpoint.view.difference import (
        CellPair,
        Diff,
        InputChange,
        Side,
        SideCell,
        diff,
        diff_json,
    )
    from chexpoint.view.log import LOG_LINES, log_html, log_text
    from chexpoint.view.outputs import OutputChange
    from chexpoint.view.plan_lines import PlanRow, comparison_text, plan_text, schedule_text
    from chexpoint.view.plan_picture import PLAN_START, plan_svg, schedule_svg
    from chexpoint.view.replay_data import replay_json
    from chexpoint.view.replay_lines import replay_text
    from chexpoint.view.replay_notebooks import recorded_notebook, replay_notebook
    from chexpoint.view.replay_report import replay_page
    from chexpoint.view.replay_suites import replay_junit
    from chexpoint.view.replay_table import replay_html
    from chexpoint.view.style import PAGE_START, html_page
    from chexpoint.view.tree_lines import tree_text
    from chexpoint.view.tree_page import tree_html
    from chexpoint.view.tree_picture import TREE_START, tree_svg
    from chexpoint.view.version_table import (
        VersionRow,
        version_rows,
        versions_html,
        versions_text,
    )

_HOME = {
    "diff_lines": ("diff_text",),
    "diff_table": ("diff_html",),
    "difference": ("CellPair", "Diff", "InputChange", "Side", "SideCell", "diff", "diff_json"),
    "log": ("LOG_LINES", "log_html", "log_text"),
    "outputs": ("OutputChange",),
    "plan_lines": ("PlanRow", "comparison_text", "plan_text", "schedule_text"),
    "plan_picture": ("PLAN_START", "plan_svg", "schedule_svg"),
    "replay_data": ("replay_json",),
    "replay_lines": ("replay_text",),
    "replay_notebooks": ("recorded_notebook", "replay_notebook"),
    "replay_report": ("replay_page",),
    "replay_suites": ("replay_junit",),
    "replay_table": ("replay_html",),
    "style": ("PAGE_START", "html_page"),
    "tree_lines": ("tree_text",),
    "tree_page": ("tree_html",),
    "tree_picture": ("TREE_START", "tree_svg"),
    "version_table": ("VersionRow", "version_rows", "versions_html", "versions_text"),
}


def __getattr__(name: str) -> "Any":
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(f"chexpoint.view.{module}"), name)
    raise AttributeError(f"module 'chexpoint.view' has no attribute '{name}'")


__all__ = [
    "LOG_LINES",
    "PAGE_START",
    "PLAN_START",
    "TREE_START",
    "CellPair",
    "Diff",
    "InputChange",
    "OutputChange",
    "PlanRow",
    "Side",
    "SideCell",
    "VersionRow",
    "comparison_text",
    "diff",
    "diff_html",
    "diff_json",
    "diff_text",
    "html_page",
    "log_html",
    "log_text",
    "plan_svg",
    "plan_text",
    "recorded_notebook",
    "replay_html",
    "replay_json",
    "replay_junit",
    "replay_notebook",
    "replay_page",
    "replay_text",
    "schedule_svg",
    "schedule_text",
    "tree_html",
    "tree_svg",
    "tree_text",
    "version_rows",
    "versions_html",
    "versions_text",
]
