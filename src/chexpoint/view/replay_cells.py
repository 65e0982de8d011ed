"""The cells of a replay as HTML: what was recorded beside what was replayed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chexpoint.model import (
    CellError,
    NodeId,
    Output,
    OutputDifference,
    RecordedCell,
    Replay,
    ReplayedCell,
    ReplayStatus,
    format_seconds,
    format_size,
)
from chexpoint.view.outputs import output_changes
from chexpoint.view.replay_facts import first_places, head_line, look_of, sentences, word_of
from chexpoint.view.replay_outputs import changes_html, outputs_html, pair_html, traceback_html
from chexpoint.view.text import LONG, clipped, count, listed, printable, xml, xml_lines

GROUPS: tuple[tuple[ReplayStatus, str], ...] = (
    ("failed", "Cells that failed"),
    ("different", "Cells that differ"),
    ("skipped", "Cells that were skipped"),
    ("close", "Cells that are close"),
    ("same", "Cells that are the same"),
)
"""The order in which one wants to read them."""

MOST_BAD, MOST_SAME = 1500, 600
"""So many cells are shown; the others are counted."""

_ROOM = 8_000_000  # letters of cells with their outputs; further ones come without
_PATIENCE = 10
"""After so many cells that there was no room for, no others are tried."""

_OPEN = 30
_MOST_LINES, _MOST_SOURCE = 120, 12_000
_FEW_LINES, _LITTLE_SOURCE = 30, 2000  # of a cell without its outputs
_LONGEST_TITLE = 500
_MOST_REASONS = 20
_MOST_DIFFERENCES = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A cell that is shown, and where."""

    node: NodeId
    place: int
    link: str
    cell: ReplayedCell
    is_open: bool


def entries_of(replay: Replay) -> dict[ReplayStatus, list[Entry]]:
    """Return the cells that are shown of each status, those that are excused last."""
    places = first_places(replay)
    found: dict[ReplayStatus, list[Entry]] = {}
    shown = opened = 0
    for status, _ in GROUPS:
        cells = [(n, replay.cells[n]) for n in places if n in replay.cells]
        those = sorted(
            ((node, cell) for node, cell in cells if cell.status == status),
            key=lambda item: item[1].is_excused,
        )
        room = MOST_SAME if status == "same" else MOST_BAD - shown
        for node, cell in those[: max(room, 0)]:
            is_open = status in {"failed", "different"} and not cell.is_excused and opened < _OPEN
            opened += is_open
            shown += 1
            entry = Entry(
                node=node, place=places[node], link=f"c{shown}", cell=cell, is_open=is_open
            )
            found.setdefault(status, []).append(entry)
    return found


def cells_html(replay: Replay, entries: dict[ReplayStatus, list[Entry]]) -> str:
    """Return all cells that are shown, in groups; as many of them with outputs as there is room."""
    parts, used, refused = [], 0, 0
    for status, title in GROUPS:
        total = sum(cell.status == status for cell in replay.cells.values())
        if not total:
            continue
        group = []
        for entry in entries.get(status, []):
            wants_outputs = status != "same" and refused < _PATIENCE
            made = _cell(replay, entry, has_outputs=wants_outputs)
            if wants_outputs and used + len(made) > _ROOM:
                refused += 1
                made = _cell(replay, entry, has_outputs=False)
            used += len(made)
            group.append(made)
        if more := total - len(group):
            group.append(f'<p class="faint">and {count(more, "more cell")}</p>')
        parts.append(_group(status, f"{title} <small>{total:,}</small>", "\n".join(group)))
    return "\n".join(parts)


def _group(status: ReplayStatus, head: str, body: str) -> str:
    if status != "same":
        return f"<h3>{head}</h3>\n{body}"
    return f'<details class="group"><summary><h3>{head}</h3></summary>\n{body}</details>'


def _cell(replay: Replay, entry: Entry, *, has_outputs: bool) -> str:
    cell, recorded = entry.cell, replay.recording.cells[entry.node]
    look = look_of(cell)
    head = (
        f'<span class="status {look.style}"><span class="sign" aria-hidden="true">{look.sign}'
        f"</span> {word_of(cell)}</span> <b>cell {entry.place}</b>"
        f" <code>{xml(clipped(head_line(recorded.source), 100))}</code>"
    )
    parts = [
        _facts(replay, entry),
        _reasons(cell, has_outputs),
        _source(recorded.source, has_outputs),
    ]
    if has_outputs:
        parts += _skipped(recorded) if cell.status == "skipped" else _outputs(recorded, cell)
    elif cell.status != "same":
        parts.append('<p class="faint">Its outputs would make this page too large.</p>')
    body = "\n".join(part for part in parts if part)
    opened = " open" if entry.is_open else ""
    return (
        f'<details class="cell"{opened}><summary>{head}</summary>\n'
        f'<div class="body" id="{entry.link}">{body}</div></details>'
    )


def _facts(replay: Replay, entry: Entry) -> str:
    cell, tree = entry.cell, replay.recording.tree
    labels = [printable(tree.labels[version]) for version in tree.through.get(entry.node, ())]
    facts = [f"in {listed(labels, 70)}", f"recorded {format_seconds(tree.nodes[entry.node].cost)}"]
    if cell.computed:
        again = f", {cell.computed} times" if cell.computed > 1 else ""
        facts.append(f"replayed {format_seconds(cell.seconds)}{again}")
        facts.append(f"state of {format_size(cell.size_bytes)}")
    if cell.host:
        facts.append(f"on host {printable(cell.host)}")
    facts.append(f"node {printable(entry.node[:LONG])}")
    if tags := replay.recording.cells[entry.node].tags:
        facts.append(f"tagged {listed(sorted(map(printable, tags)), 60)}")
    return f'<p class="facts">{xml(" · ".join(facts))}</p>'


def _reasons(cell: ReplayedCell, has_outputs: bool) -> str:
    if cell.status == "same":
        return ""
    # What is said of an output stands above it, if it is shown.
    shown = {printable(d.what) for d in cell.differences if _is_output(d) and has_outputs}
    rest = [sentence for sentence in sentences(cell) if sentence not in shown]
    lines = [f"<li>{xml(sentence)}</li>" for sentence in rest[:_MOST_REASONS]]
    if len(rest) > _MOST_REASONS:
        lines.append(f"<li>and {len(rest) - _MOST_REASONS} more</li>")
    return f'<ul class="reasons">{"".join(lines)}</ul>' if lines else ""


def _source(source: str, has_room: bool) -> str:
    lines, letters = (_MOST_LINES, _MOST_SOURCE) if has_room else (_FEW_LINES, _LITTLE_SOURCE)
    shown = source[:letters].expandtabs(4).strip("\n").split("\n")[:lines]
    more = source.strip("\n").count("\n") + 1 - len(shown)
    note = f'<p class="faint">and {count(more, "more line")}</p>' if more > 0 else ""
    return f'<pre class="source">{xml_lines(shown)}</pre>{note}'


# ---------------------------------------------------------------- outputs


def _is_output(difference: OutputDifference) -> bool:
    return difference.recorded is not None or difference.replayed is not None


def _skipped(recorded: RecordedCell) -> list[str]:
    return [_folded("that was recorded", recorded.outputs)]


def _outputs(recorded: RecordedCell, cell: ReplayedCell) -> list[str]:
    """Return the outputs that differ side by side, and the others folded."""
    before, after = recorded.outputs, cell.outputs
    told: dict[tuple[tuple[int, ...], tuple[int, ...]], list[str]] = {}
    for difference in filter(_is_output, cell.differences):
        where = _pieces(before, difference.recorded), _pieces(after, difference.replayed)
        if any(where):
            told.setdefault(where, []).append(difference.what)
    parts = [
        f"<h4>{xml(clipped('; '.join(whats), _LONGEST_TITLE))}</h4>"
        + pair_html([before[i] for i in left], [after[j] for j in right])
        for (left, right), whats in list(told.items())[:_MOST_DIFFERENCES]
    ]
    if cell.error:
        parts.append(f"<h4>The exception</h4>{_traceback(cell.error)}")
    seen_before = {i for left, _ in told for i in left}
    seen_after = {j for _, right in told for j in right}
    # An exception is shown whole already.
    seen_after |= {j for j, o in enumerate(after) if o.get("output_type") == "error" and cell.error}
    rest_before = [output for i, output in enumerate(before) if i not in seen_before]
    rest_after = [output for j, output in enumerate(after) if j not in seen_after]
    if changes := output_changes(rest_before, rest_after):
        opened = "" if told else " open"
        parts.append(
            f'<details class="fold"{opened}><summary>what else it showed</summary>'
            f"{changes_html(changes)}</details>"
        )
    else:
        parts.append(_folded("that is the same", rest_after))
    return parts


def _traceback(error: CellError) -> str:
    lines = list(error.traceback)
    return traceback_html({"ename": error.ename, "evalue": error.evalue, "traceback": lines})


def _pieces(outputs: Sequence[Output], place: int | None) -> tuple[int, ...]:
    """Return the place of an output; of a stream, with those at which more was written to it.

    They are compared as one text that ends where something else is shown.
    """
    if place is None or not 0 <= place < len(outputs):
        return ()
    name = _stream(outputs[place])
    found = [place]
    for at in range(place + 1, len(outputs) if name else place):
        if not (other := _stream(outputs[at])):
            break
        found += [at] if other == name else []
    return tuple(found)


def _stream(output: Output) -> str:
    """Return the name of a stream; nothing for any other output."""
    return str(output.get("name", "stdout")) if output.get("output_type") == "stream" else ""


def _folded(what: str, outputs: Sequence[Output]) -> str:
    if not outputs:
        return ""
    title = f"{count(len(outputs), 'output')} {what}"
    if len(outputs) > 1:
        title = title.replace("that was", "that were").replace("that is", "that are")
    return f'<details class="fold"><summary>{title}</summary>{outputs_html(outputs)}</details>'
