"""How trees, versions, plans, replays, stores, ... look: text, SVG, HTML of model values.

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
    from chexpoint.view.graph_lines import (
        artifact_text,
        artifacts_text,
        graph_gc_text,
        graph_text,
        prospect_text,
    )
    from chexpoint.view.graph_page import graph_html
    from chexpoint.view.graph_picture import GRAPH_START, graph_svg
    from chexpoint.view.graph_rows import (
        ArtifactRow,
        GraphSummary,
        graph_json,
        graph_summary,
        parts_json,
        row_json,
    )
    from chexpoint.view.hindsight_chart import HINDSIGHT_START, hindsight_svg
    from chexpoint.view.hindsight_rows import (
        hindsight_json,
        hindsight_records,
        row_from_json,
        wanted_rows,
    )
    from chexpoint.view.hindsight_table import hindsight_html, hindsight_text
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
    from chexpoint.view.simulation_lines import simulation_text
    from chexpoint.view.simulation_picture import simulation_svg
    from chexpoint.view.store_lines import fsck_text, gc_text, store_text
    from chexpoint.view.store_page import store_html
    from chexpoint.view.store_picture import STORE_START, store_svg
    from chexpoint.view.store_rows import image_names, store_json
    from chexpoint.view.style import PAGE_START, html_page, html_view
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
    "graph_lines": (
        "artifact_text",
        "artifacts_text",
        "graph_gc_text",
        "graph_text",
        "prospect_text",
    ),
    "graph_page": ("graph_html",),
    "graph_picture": ("GRAPH_START", "graph_svg"),
    "graph_rows": (
        "ArtifactRow",
        "GraphSummary",
        "graph_json",
        "graph_summary",
        "parts_json",
        "row_json",
    ),
    "hindsight_chart": ("HINDSIGHT_START", "hindsight_svg"),
    "hindsight_rows": (
        "hindsight_json",
        "hindsight_records",
        "row_from_json",
        "wanted_rows",
    ),
    "hindsight_table": ("hindsight_html", "hindsight_text"),
    "log": ("LOG_LINES", "log_html", "log_text"),
    "outputs": ("OutputChange",),
    "plan_lines": ("PlanRow", "comparison_text", "plan_text", "schedule_text"),
    "plan_picture": ("PLAN_START", "plan_svg", "schedule_svg"),
    "simulation_lines": ("simulation_text",),
    "simulation_picture": ("simulation_svg",),
    "replay_data": ("replay_json",),
    "replay_lines": ("replay_text",),
    "replay_notebooks": ("recorded_notebook", "replay_notebook"),
    "replay_report": ("replay_page",),
    "replay_suites": ("replay_junit",),
    "replay_table": ("replay_html",),
    "store_lines": ("fsck_text", "gc_text", "store_text"),
    "store_page": ("store_html",),
    "store_picture": ("STORE_START", "store_svg"),
    "store_rows": ("image_names", "store_json"),
    "style": ("PAGE_START", "html_page", "html_view"),
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
    "GRAPH_START",
    "HINDSIGHT_START",
    "LOG_LINES",
    "PAGE_START",
    "PLAN_START",
    "STORE_START",
    "TREE_START",
    "ArtifactRow",
    "CellPair",
    "Diff",
    "GraphSummary",
    "InputChange",
    "OutputChange",
    "PlanRow",
    "Side",
    "SideCell",
    "VersionRow",
    "artifact_text",
    "artifacts_text",
    "comparison_text",
    "diff",
    "diff_html",
    "diff_json",
    "diff_text",
    "fsck_text",
    "gc_text",
    "graph_gc_text",
    "graph_html",
    "graph_json",
    "graph_summary",
    "graph_svg",
    "graph_text",
    "hindsight_html",
    "hindsight_json",
    "hindsight_records",
    "hindsight_svg",
    "hindsight_text",
    "html_page",
    "html_view",
    "image_names",
    "log_html",
    "log_text",
    "parts_json",
    "plan_svg",
    "plan_text",
    "prospect_text",
    "recorded_notebook",
    "replay_html",
    "replay_json",
    "replay_junit",
    "replay_notebook",
    "replay_page",
    "replay_text",
    "row_from_json",
    "row_json",
    "schedule_svg",
    "schedule_text",
    "simulation_svg",
    "simulation_text",
    "store_html",
    "store_json",
    "store_svg",
    "store_text",
    "tree_html",
    "tree_svg",
    "tree_text",
    "version_rows",
    "versions_html",
    "versions_text",
    "wanted_rows",
]
