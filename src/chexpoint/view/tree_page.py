"""A page with the picture of a tree and the table of its versions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import tzinfo

from chexpoint.model import ExecutionTree, NodeId
from chexpoint.view.style import html_page
from chexpoint.view.text import xml
from chexpoint.view.tree_picture import tree_svg
from chexpoint.view.version_table import versions_html


def tree_html(
    tree: ExecutionTree,
    *,
    checkpoints: Mapping[NodeId, str] | None = None,
    here: NodeId | None = None,
    width: int = 1200,
    title: str = "Execution tree",
    zone: tzinfo | None = None,
) -> str:
    """Return a page that needs nothing else: the tree, and below it its versions.

    Parameters
    ----------
    checkpoints
        The nodes that a checkpoint is held of, and what to call it.
    here
        The node of the live state.
    width
        How wide the picture should be at most, in pixels.
    zone
        Where times are told; by default, here.
    """
    picture = tree_svg(tree, checkpoints=checkpoints, here=here, width=width)
    return html_page(
        xml(title),
        f'<div style="overflow-x:auto">{picture}</div>\n<h2>Versions</h2>\n'
        f"{versions_html(tree, zone=zone)}",
    )
