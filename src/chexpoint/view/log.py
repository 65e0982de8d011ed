"""The cells on the way to a state, from the first to the last, as text and as HTML."""

from __future__ import annotations

from collections.abc import Sequence

from chexpoint.model import PathCell, format_seconds
from chexpoint.view.style import html_view
from chexpoint.view.text import LONG, clipped, count, printable, source_lines, xml, xml_lines

LOG_LINES = 6
"""Lines of a source that are shown."""


def log_text(cells: Sequence[PathCell], *, width: int = 100, lines: int | None = LOG_LINES) -> str:
    """Return cells one below the other, as one reads a notebook.

    Parameters
    ----------
    width
        How many columns a line may take.
    lines
        How many lines of each source to show; None for all of them.
    """
    if not cells:
        return "no cells"
    blocks = []
    for number, cell in enumerate(cells, start=1):
        source = [f"    {line}".rstrip() for line in _shown(cell.source, lines)]
        blocks.append("\n".join(clipped(line, width) for line in [_head(number, cell), *source]))
    return "\n\n".join([*blocks, _total(cells)])


def log_html(cells: Sequence[PathCell], *, lines: int | None = LOG_LINES) -> str:
    """Return cells as a table in HTML, which takes its colours from the page."""
    if not cells:
        return html_view("<p>no cells</p>")
    rows = []
    for number, cell in enumerate(cells, start=1):
        marks = ", ".join(_marks(cell))
        rows.append(
            f'<tr><td class="number">{number}</td><td><code>{xml(cell.node[:LONG])}</code></td>'
            f"<td><pre>{xml_lines(_shown(cell.source, lines))}</pre></td>"
            f'<td class="number">{format_seconds(cell.seconds)}</td><td>{marks}</td></tr>\n'
        )
    head = (
        '<tr><th class="number">cell</th><th>node</th><th>source</th>'
        '<th class="number">cost</th><th></th></tr>\n'
    )
    table = f'<div class="scroll"><table>{head}{"".join(rows)}</table></div>'
    return html_view(f'{table}<p class="faint">{_total(cells)}</p>')


def _head(number: int, cell: PathCell) -> str:
    ran = f"[{cell.execution_count}]" if cell.execution_count else ""
    parts = [f"cell {number}", ran, f"node {printable(cell.node[:LONG])}"]
    parts += [format_seconds(cell.seconds), *_marks(cell)]
    return "  ".join(part for part in parts if part)


def _marks(cell: PathCell) -> list[str]:
    marks = ["reused"] if cell.is_reused else []
    return [*marks, "failed"] if cell.status == "error" else marks


def _shown(source: str, lines: int | None) -> list[str]:
    found = source_lines(source)
    if lines is None or len(found) <= lines:
        return found
    return [*found[:lines], f"... {count(len(found) - lines, 'more line')}"]


def _total(cells: Sequence[PathCell]) -> str:
    saved = [cell.seconds for cell in cells if cell.is_reused]
    text = f"{count(len(cells), 'cell')}, {format_seconds(sum(cell.seconds for cell in cells))}"
    if not saved:
        return text
    return f"{text}; {len(saved)} reused, which saved {format_seconds(sum(saved))}"
