"""What `chexpoint.view.diff` needs to know of a version or a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chexpoint.project.project import Project

if TYPE_CHECKING:
    from chexpoint.view import Side


def side_of(project: Project, ref: str) -> Side:
    """Return the cells that led to a version, a node or a cell, with all they read and showed.

    Raises
    ------
    InvalidValue, CatalogError
        If nothing of that name is recorded, or it cannot be read.
    """
    from chexpoint.view import Side, SideCell

    cells = project.way_to(ref)
    return Side(
        label=ref,
        cells=tuple(
            SideCell(
                cell=cell,
                lineage=project.lineage(cell.execution),
                outputs=project.outputs(cell.execution),
            )
            for cell in cells
        ),
    )
