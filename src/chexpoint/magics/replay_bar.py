"""How far a replay or a package has got, as a notebook shows it."""

from __future__ import annotations

from html import escape

from chexpoint.model import Bytes, ReplayProgress, format_seconds, format_size
from chexpoint.palette import progress_html


class ReplayBar:
    """A bar for all cells, and one below it for the version that each worker is at."""

    def __init__(self) -> None:
        self._last: ReplayProgress | None = None
        self._at: dict[int, ReplayProgress] = {}
        self._notes: list[str] = []

    def take(self, progress: ReplayProgress) -> None:
        """Take one thing that has happened."""
        self._last = progress
        if progress.kind == "cell":
            self._at[progress.worker] = progress
        elif progress.kind == "version":
            label = progress.version
            self._at = {n: each for n, each in self._at.items() if each.version != label}
        elif progress.kind == "note":
            self._notes.append(progress.text)

    def _whole(self) -> str:
        last = self._last
        if last is None:
            return "starting"
        parts = [
            f"{last.computed} of {last.to_compute} cells",
            f"{last.versions_done} of {last.versions} versions",
        ]
        if last.seconds_left is not None:
            parts.append(f"{format_seconds(last.seconds_left)} left")
        if last.saved:
            parts.append(f"{last.saved} cells saved")
        if last.held_bytes:
            parts.append(f"{format_size(last.held_bytes)} held")
        return ", ".join(parts)

    def __repr__(self) -> str:
        at = [f"{each.version} {each.cell}/{each.cells}" for each in self._at.values()]
        return "\n".join([f"CHEX: replaying: {'; '.join([self._whole(), *at])}", *self._notes])

    def _repr_html_(self) -> str:
        last = self._last
        rows = [("replay", last.computed if last else 0, last.to_compute if last else 0)]
        rows += [(each.version, each.cell, each.cells) for _, each in sorted(self._at.items())]
        texts = [self._whole(), *(f"{done} of {total} cells" for _, done, total in rows[1:])]
        body = "".join(
            f"<tr>{_cell(escape(name))}{_cell(progress_html(name, done, total))}"
            f"{_cell(escape(text))}</tr>"
            for (name, done, total), text in zip(rows, texts, strict=True)
        )
        notes = "".join(f"<div>{escape(note)}</div>" for note in self._notes)
        return f"<div><table>{body}</table>{notes}</div>"


class PackingBar:
    """A bar for the bytes that are packed."""

    def __init__(self, done: Bytes = 0, total: Bytes = 0) -> None:
        self._done, self._total = done, total

    def _text(self) -> str:
        return f"{format_size(self._done)} of {format_size(self._total)}" if self._total else ""

    def __repr__(self) -> str:
        return f"CHEX: packing: {self._text() or 'starting'}"

    def _repr_html_(self) -> str:
        return f"<div>{progress_html('packing', self._done, self._total)} {self._text()}</div>"


def _cell(html: str) -> str:
    return f"<td style='text-align:left'>{html}</td>"
