"""How ``%chex_lineage`` looks, as text and as HTML."""

from __future__ import annotations

from collections.abc import Sequence

from chexpoint.lineage import lineage_html, lineage_svg, lineage_text
from chexpoint.model import CellLineage


class LineageView:
    """A cell and the path to it, which notebooks and terminals can show."""

    def __init__(self, path: Sequence[CellLineage], node: CellLineage) -> None:
        self._path = path
        self._node = node

    def __repr__(self) -> str:
        cells = " > ".join(f"[{cell.execution_count}]" for cell in self._path)
        way = [f"path: {cells}"] if len(self._path) > 1 else []
        return "\n".join([lineage_text(self._node, self._path), *way])

    def _repr_html_(self) -> str:
        picture = lineage_svg(self._path, self._node.node) if self._path else ""
        table = lineage_html(self._node, self._path)
        return f"{table}<div style='overflow-x:auto;margin-top:8px'>{picture}</div>"
