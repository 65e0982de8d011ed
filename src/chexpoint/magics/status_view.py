"""How ``%chex_status`` looks, as text and as HTML."""

from __future__ import annotations

from html import escape

from chexpoint.model import Checkpoint, Hazard, Status, format_seconds, format_size
from chexpoint.palette import CHECKPOINT, FAILED, HERE, Look

_HEAD = ("", "checkpoint", "name", "after", "cost", "memory", "used", "note")


def _kept(status: Status) -> list[str]:
    """Return what to say about states on disk, if there is anything to say."""
    if status.persist == "never" and not status.images:
        return []
    word = {"never": "off", "rule": "on", "always": "always"}[status.persist]
    lines = [f"on disk: {status.images} states; keeping them is {word}"]
    if status.unkept:
        lines.append(f"last state not kept on disk: {status.unkept}")
    return lines


class StatusView:
    """A status that notebooks and terminals can show."""

    def __init__(self, status: Status, hazards: list[Hazard]) -> None:
        self._status = status
        self._hazards = hazards

    def _look(self, checkpoint: Checkpoint) -> Look:
        if checkpoint.bad:
            return FAILED
        return HERE if checkpoint.id == self._status.head else CHECKPOINT

    def _row(self, checkpoint: Checkpoint) -> tuple[str, ...]:
        notes = ["bad: hung when restored"] if checkpoint.bad else list(checkpoint.warnings)
        return (
            self._look(checkpoint).sign,
            checkpoint.id,
            checkpoint.name or "",
            f"cell [{checkpoint.execution_count}]" if checkpoint.execution_count else "start",
            format_seconds(checkpoint.cost_s),
            format_size(checkpoint.size_bytes),
            f"{checkpoint.uses}x",
            "; ".join(notes),
        )

    def _lines(self) -> list[str]:
        status = self._status
        since = f"{status.cells_since_head} cell{'s' if status.cells_since_head != 1 else ''}"
        live = (
            f"live state: process {status.worker_pid}, {format_size(status.worker_bytes)},"
            f" {since} ({format_seconds(status.seconds_since_head)}) after"
            f" {status.head or 'its start'}"
        )
        held = (
            f"checkpoints: {len(status.checkpoints)} hold {format_size(status.held_bytes)}"
            f" of {format_size(status.budget_bytes)}; automatic: {status.auto}"
        )
        audit = f"audit: {status.audit}" + (f" ({status.audit_note})" if status.audit_note else "")
        lines = [live, held, audit, *_kept(status)]
        lines += [f"in the way of a checkpoint now: {hazard}" for hazard in self._hazards]
        lines += [f"last checkpoint refused: {hazard}" for hazard in status.refused]
        lines += [f"missing here: {text}" for text in status.missing]
        return lines

    def __repr__(self) -> str:
        rows = [_HEAD, *(self._row(c) for c in self._status.checkpoints)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(_HEAD))]
        table = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        return "\n".join([*self._lines(), *table])

    def _repr_html_(self) -> str:
        from chexpoint.view import html_view

        head = "".join(f"<th>{escape(name)}</th>" for name in _HEAD)
        body = "".join(
            f"<tr><td>{self._look(k).html()}</td>"
            + "".join(f"<td>{escape(text)}</td>" for text in self._row(k)[1:])
            + "</tr>"
            for k in self._status.checkpoints
        )
        lines = "<br>".join(escape(line) for line in self._lines())
        return html_view(f"{lines}<table><tr>{head}</tr>{body}</table>")
