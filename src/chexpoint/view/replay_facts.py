"""What there is to say about a replay, however it is shown: verdict, results, savings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from chexpoint.model import (
    REPLAY_STATUSES,
    NodeId,
    Replay,
    ReplayedCell,
    ReplayStatus,
    Seconds,
    Version,
    format_seconds,
)
from chexpoint.palette import LOOKS, Look
from chexpoint.view.text import count, first_line, printable

LEFT_OUT = "left out"
"""What is said of a version for which there was no time."""


BAD_FIRST: tuple[ReplayStatus | None, ...] = (
    "failed",
    "different",
    "skipped",
    None,
    "close",
    "same",
)
"""The order in which one wants to know about them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionResult:
    """What came of a version."""

    label: str
    version: Version
    status: ReplayStatus | None
    """None if something of it is not done."""
    is_left_out: bool
    seconds: Seconds
    """What its cells took this time, whichever version they were computed for."""
    recorded_seconds: Seconds
    place: int | None = None
    """The first cell that made the version what it is, counted from 1; None if all are the same."""
    reason: str = ""
    """Why that cell is not the same."""

    @property
    def is_good(self) -> bool:
        """Whether it is reproduced."""
        return self.status in {"same", "close"}

    @property
    def word(self) -> str:
        """How it is called."""
        return LEFT_OUT if self.status is None and self.is_left_out else LOOKS[self.status].word

    @property
    def why(self) -> str:
        """Its reason, with the cell that is meant."""
        return f"cell {self.place}: {self.reason}" if self.place and self.reason else ""


def version_results(replay: Replay) -> tuple[VersionResult, ...]:
    """Return what came of each version, oldest first."""
    late = set(replay.left_out)
    nodes = replay.recording.tree.nodes
    found = []
    for label, version in replay.recording.labels.items():
        status = replay.version_status(version)
        place = _culprit(replay, version, status)
        cell = replay.cells.get(version.path[place - 1]) if place else None
        result = VersionResult(
            label=label,
            version=version,
            status=status,
            is_left_out=label in late,
            seconds=sum(replay.cells[n].seconds for n in version.path if n in replay.cells),
            recorded_seconds=sum(nodes[n].cost for n in version.path),
            place=place,
            reason=why(cell) if cell else "",
        )
        found.append(result)
    return tuple(found)


def _culprit(replay: Replay, version: Version, status: ReplayStatus | None) -> int | None:
    """Return the place of the first cell that has the status of its version."""
    for place, node in enumerate(version.path, start=1):
        cell = replay.cells.get(node)
        is_meant = status is None if cell is None else cell.status == status and not cell.is_excused
        if is_meant and status != "same":
            return place
    return None


def sentences(cell: ReplayedCell) -> tuple[str, ...]:
    """Return why a cell is not the same: all that is known, each once."""
    found = (*cell.reasons, *(difference.what for difference in cell.differences))
    if not found and cell.error:
        found = (f"{cell.error.ename}: {cell.error.evalue}",)
    return tuple(dict.fromkeys(printable(sentence) for sentence in found))


def why(cell: ReplayedCell) -> str:
    """Return in a line why a cell is not the same."""
    return next(iter(sentences(cell)), "")


def look_of(cell: ReplayedCell | None) -> Look:
    """Return how the status of a cell is shown."""
    return LOOKS[cell.status if cell else None]


def word_of(cell: ReplayedCell | None) -> str:
    """Return how the status of a cell is called, and that it is excused if it is."""
    excused = ", excused" if cell and cell.is_excused else ""
    return f"{look_of(cell).word}{excused}"


def tally(words: Iterable[str]) -> str:
    """Return how often there is each word for a status, from good to bad: ``4 same, 1 failed``."""
    order = (*(LOOKS[status].word for status in REPLAY_STATUSES), LOOKS[None].word, LEFT_OUT)
    found = Counter(words)
    return ", ".join(f"{found[word]:,} {word}" for word in order if found[word])


def verdict(results: Sequence[VersionResult]) -> str:
    """Return what came of it all, in a line: ``5 of 6 versions reproduced``."""
    good = sum(result.is_good for result in results)
    return f"{good:,} of {count(len(results), 'version')} reproduced"


def reached_cells(replay: Replay) -> int:
    """Return how many cells the versions have together that were computed for any of them."""
    return sum(
        node in replay.cells and replay.cells[node].computed > 0
        for version in replay.recording.tree.versions
        for node in version.path
    )


def saved_cells(replay: Replay) -> int:
    """Return how many cells need not be computed because versions share them."""
    return max(reached_cells(replay) - replay.computed_cells, 0)


def work(replay: Replay) -> str:
    """Return what was done, and what it would have been without checkpoints."""
    cells, seconds = count(replay.computed_cells, "cell"), format_seconds(replay.seconds)
    more = f" instead of {reached_cells(replay):,}" if saved_cells(replay) else ""
    alone = replay.no_cache_seconds
    longer = f" instead of {format_seconds(alone)}" if alone > replay.seconds else ""
    return f"computed {cells}{more}: {seconds}{longer}"


def hosts_line(replay: Replay) -> str:
    """Return which machines of a cluster have computed how much."""
    each = (
        f"{printable(host.name)} {count(host.computed_cells, 'cell')}"
        f"{' (lost)' if host.is_lost else ''}"
        for host in replay.hosts
    )
    return f"computed on {count(len(replay.hosts), 'host')}: {', '.join(each)}"


def head_line(source: str) -> str:
    """Return the first line of a source that does something: marks and comments say little."""
    lines = source[:2000].split("\n")
    doing = (line for line in lines if line.strip() and not line.lstrip().startswith("#"))
    return first_line(next(doing, "")) or first_line(source)


def first_places(replay: Replay) -> dict[NodeId, int]:
    """Return the place of each node on its path, counted from 1, in the order of versions."""
    return {
        node: place
        for version in replay.recording.tree.versions
        for place, node in enumerate(version.path, start=1)
    }
