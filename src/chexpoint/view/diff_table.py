"""The difference of two versions side by side, as HTML."""

from __future__ import annotations

from collections.abc import Sequence

from chexpoint.view.diff_lines import (
    MOST_INPUTS,
    cell_groups,
    input_line,
    output_pairs,
    side_title,
    source_pairs,
)
from chexpoint.view.difference import CellPair, Diff
from chexpoint.view.line_pairs import LinePair, changed_spans, near_changes
from chexpoint.view.outputs import OutputChange, data_uri
from chexpoint.view.style import html_view
from chexpoint.view.text import count, xml

_SIDES = '<table class="sides"><colgroup><col class="mark"><col><col class="mark"><col></colgroup>'
_CONTEXT = 3
_MOST_ROWS = 400
_MOST_IMAGE = 4_000_000  # letters; larger images would make the page unusable


def diff_html(found: Diff) -> str:
    """Return a difference as HTML, the sides beside each other; it takes its colours from the page.

    What is only or otherwise on the left is marked with a minus sign, and what is only or otherwise
    on the right with a plus sign, so that nothing depends on colours.
    """
    left, right = xml(side_title(found.left)), xml(side_title(found.right))
    head = (
        f"{_SIDES}<tr><td></td><td><strong>{left}</strong></td>"
        f"<td></td><td><strong>{right}</strong></td></tr></table>"
    )
    cells = "\n".join(_cell(what, pairs[0]) for what, pairs in cell_groups(found))
    return html_view(f"<p>{xml(found.summary)}</p>\n{head}\n{cells}\n")


def _cell(what: str, pair: CellPair) -> str:
    head = f'<div class="head">{xml(what)}</div>'
    if pair.state == "same":
        return f'<div class="cell">{head}</div>'
    parts = []
    if pair.code != "same":
        parts.append(_sides(source_pairs(pair)))
    if pair.inputs:
        parts.append(_inputs(pair))
    parts += [_output(change) for change in pair.outputs]
    body = "".join(f'<div class="part">{part}</div>\n' for part in parts)
    return f'<div class="cell">{head}\n{body}</div>'


def _inputs(pair: CellPair) -> str:
    lines = [f"<div>{xml(input_line(change))}</div>" for change in pair.inputs[:MOST_INPUTS]]
    if len(pair.inputs) > MOST_INPUTS:
        lines.append(f"<div>and {count(len(pair.inputs) - MOST_INPUTS, 'more input')}</div>")
    return "".join(lines)


def _output(change: OutputChange) -> str:
    title = f'<div class="faint">output {xml(change.summary)}</div>'
    if change.kind == "image":
        left, right = _image(change, change.left), _image(change, change.right)
        return f"{title}{_SIDES}<tr><td></td><td>{left}</td><td></td><td>{right}</td></tr></table>"
    if change.kind == "data":
        return title
    pairs, more = output_pairs(change)
    rest = f'<div class="faint">... {count(more, "more line")}</div>' if more else ""
    return f"{title}{_sides(pairs)}{rest}"


def _image(change: OutputChange, value: str | None) -> str:
    if value is None:
        return ""
    uri = data_uri(change.name, value) if len(value) <= _MOST_IMAGE else None
    if uri is None:
        return f'<span class="faint">{xml(change.name)} cannot be shown here</span>'
    return f'<img src="{xml(uri)}" alt="{xml(change.name)}">'


def _sides(pairs: Sequence[LinePair]) -> str:
    rows: list[str] = []
    for entry in near_changes(pairs, _CONTEXT):
        if len(rows) >= _MOST_ROWS:
            rows.append('<tr><td colspan="4" class="faint">...</td></tr>')
            break
        if isinstance(entry, int):
            text = f"... {count(entry, 'line')} the same"
            rows.append(f'<tr><td></td><td colspan="3" class="faint">{text}</td></tr>')
        else:
            rows.append(_line_row(entry))
    return f"{_SIDES}{''.join(rows)}</table>"


def _line_row(pair: LinePair) -> str:
    if pair.is_same:
        cell = f"<td></td><td><pre>{xml(pair.left or '')}</pre></td>"
        return f"<tr>{cell}{cell}</tr>\n"
    old, new = (
        ([], [])
        if pair.left is None or pair.right is None
        else changed_spans(pair.left, pair.right)
    )
    left = _side("old", "-", pair.left, old)
    return f"<tr>{left}{_side('new', '+', pair.right, new)}</tr>\n"


def _side(style: str, mark: str, line: str | None, spans: Sequence[tuple[int, int]]) -> str:
    if line is None:
        return "<td></td><td></td>"
    pieces, at = [], 0
    for start, end in spans:
        pieces.append(f"{xml(line[at:start])}<b>{xml(line[start:end])}</b>")
        at = end
    pieces.append(xml(line[at:]))
    return f'<td class="{style}">{mark}</td><td class="{style}"><pre>{"".join(pieces)}</pre></td>'
