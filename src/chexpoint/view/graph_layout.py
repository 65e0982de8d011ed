"""Which part of an experiment graph is drawn, and where: rows of cells, their variables below.

A cell stands below all that it reads.  A row holds only so many, so that the picture can be read
from top to bottom without scrolling sideways; what does not fit goes into the next one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from chexpoint.model import Artifact, ArtifactId, Operation, OperationId

SLOT = 176.0
"""How wide the place of a box is."""
BOX_WIDTH = 164.0
CELL_HEIGHT, ARTIFACT_HEIGHT = 34.0, 48.0
GRAPH_MARGIN = 16.0

_CELL_GAP = 18.0  # between a cell and its variables
_ROW_GAP = 38.0  # for the lines to what reads them
MOST_CELLS = 60
"""More of them cannot be read."""
_USEFUL = 20
"""So many of these are old ones that are worth most; the others are the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphPart:
    """The part of a graph that is drawn."""

    operations: tuple[Operation, ...]
    """Each after those whose artifacts it reads."""
    artifacts: Mapping[ArtifactId, Artifact]
    all_operations: int
    """How many there are in the whole graph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellPlace:
    """Where a cell and its variables stand; their middles."""

    operation: Operation
    x: float
    y: float
    artifacts: tuple[tuple[Artifact, float, float], ...] = ()
    more: int = 0
    """Artifacts that are not drawn one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphLayout:
    """Where everything is."""

    cells: tuple[CellPlace, ...]
    lines: tuple[tuple[ArtifactId, OperationId], ...]
    """Who reads what."""
    width: float
    height: float
    spots: Mapping[ArtifactId, tuple[float, float]] = field(default_factory=dict)


def graph_part(
    operations: Mapping[OperationId, Operation],
    artifacts: Mapping[ArtifactId, Artifact],
    *,
    wanted: Collection[OperationId] | None = None,
    most: int = MOST_CELLS,
) -> GraphPart:
    """Return what is drawn: all, or the newest cells and the most useful of the older ones.

    States of the process are not drawn.

    Parameters
    ----------
    wanted
        Draw only these.
    """
    known = [each for each in operations.values() if wanted is None or each.id in wanted]
    newest = sorted(known, key=lambda each: (each.time, each.id), reverse=True)
    chosen = newest if len(newest) <= most else newest[: max(most - _USEFUL, 1)]
    if len(newest) > most:
        scored = _worth(artifacts.values())
        rest = newest[len(chosen) :]
        rest.sort(key=lambda each: scored.get(each.id, 0.0) * each.seconds, reverse=True)
        chosen = [*chosen, *rest[: most - len(chosen)]]
    shown = {each.id for each in chosen}
    kept = {
        key: each
        for key, each in artifacts.items()
        if each.operation in shown and not all(name.startswith(":") for name in each.group.names)
    }
    return GraphPart(
        operations=tuple(_in_order(chosen, kept)), artifacts=kept, all_operations=len(operations)
    )


def lay_out_graph(part: GraphPart, *, width: float) -> GraphLayout:
    """Return where everything is drawn.

    Parameters
    ----------
    width
        How wide it may be.
    """
    slots = max(int((width - 2 * GRAPH_MARGIN) / SLOT), 2)
    made: dict[OperationId, list[Artifact]] = {}
    for artifact in part.artifacts.values():
        made.setdefault(artifact.operation, []).append(artifact)
    for group in made.values():
        group.sort(key=lambda each: each.group.names)
    reads = _reads(part)
    rows = _rows(part, reads, {key: min(len(each), slots) for key, each in made.items()}, slots)
    places = _Places(made, reads, slots)
    for row in rows:
        places.add(row)
    lines = tuple(
        (artifact, operation)
        for operation, found in reads.items()
        for artifact in found
        if artifact in places.spots
    )
    used = max((place.x for place in places.cells), default=0.0)
    used = max([used, *(x for x, _ in places.spots.values())]) + BOX_WIDTH / 2 + GRAPH_MARGIN
    return GraphLayout(
        cells=tuple(places.cells),
        lines=lines,
        width=max(used, 2 * GRAPH_MARGIN + BOX_WIDTH),
        height=places.bottom,
        spots=places.spots,
    )


class _Places:
    """Gives rows of cells their places, one below the other."""

    def __init__(
        self,
        made: Mapping[OperationId, Sequence[Artifact]],
        reads: Mapping[OperationId, Sequence[ArtifactId]],
        slots: int,
    ) -> None:
        self._made, self._reads, self._slots = made, reads, slots
        self.cells: list[CellPlace] = []
        self.spots: dict[ArtifactId, tuple[float, float]] = {}
        self.bottom = GRAPH_MARGIN

    def add(self, row: Sequence[Operation]) -> None:
        ordered = sorted(row, key=lambda each: (self._above(each), row.index(each)))
        wide = [max(1, min(len(self._made.get(each.id, ())), self._slots)) for each in ordered]
        free = self._slots - sum(wide)
        y = self.bottom + CELL_HEIGHT / 2
        below = y + CELL_HEIGHT / 2 + _CELL_GAP + ARTIFACT_HEIGHT / 2
        slot, has_artifacts = 0, False
        for operation, size in zip(ordered, wide, strict=True):
            # As far to the right as what it reads, if there is room.
            left = max(0, round((self._above(operation) - GRAPH_MARGIN) / SLOT - size / 2))
            skip = min(max(0, left - slot), free)
            slot, free = slot + skip, free - skip
            found = self._made.get(operation.id, ())
            shown = []
            for number, artifact in enumerate(found[:size]):
                x = GRAPH_MARGIN + (slot + number + 0.5) * SLOT
                shown.append((artifact, x, below))
                self.spots[artifact.id] = (x, below)
            self.cells.append(
                CellPlace(
                    operation=operation,
                    x=GRAPH_MARGIN + (slot + size / 2) * SLOT,
                    y=y,
                    artifacts=tuple(shown),
                    more=len(found) - len(shown),
                )
            )
            slot += size
            has_artifacts = has_artifacts or bool(shown)
        high = CELL_HEIGHT + (_CELL_GAP + ARTIFACT_HEIGHT if has_artifacts else 0)
        self.bottom += high + _ROW_GAP

    def _above(self, operation: Operation) -> float:
        """Return the middle of what a cell reads."""
        known = [self.spots[each][0] for each in self._reads[operation.id] if each in self.spots]
        return sum(known) / len(known) if known else 0.0


def _rows(
    part: GraphPart,
    reads: Mapping[OperationId, Sequence[ArtifactId]],
    sizes: Mapping[OperationId, int],
    slots: int,
) -> list[list[Operation]]:
    """Return the cells of each row: below all that they read, in the first row with room."""
    rows: list[list[Operation]] = []
    taken: list[int] = []
    depth: dict[OperationId, int] = {}
    for operation in part.operations:
        makers = (part.artifacts[each].operation for each in reads[operation.id])
        at = max((depth[maker] + 1 for maker in makers if maker in depth), default=0)
        size = max(1, sizes.get(operation.id, 1))
        while at < len(rows) and taken[at] + size > slots:
            at += 1
        while len(rows) <= at:
            rows.append([])
            taken.append(0)
        rows[at].append(operation)
        taken[at] += size
        depth[operation.id] = at
    return [row for row in rows if row]


def _reads(part: GraphPart) -> dict[OperationId, list[ArtifactId]]:
    return {
        operation.id: [
            each
            for each in dict.fromkeys(read.artifact for read in operation.reads)
            if each in part.artifacts and part.artifacts[each].operation != operation.id
        ]
        for operation in part.operations
    }


def _in_order(
    operations: Iterable[Operation], artifacts: Mapping[ArtifactId, Artifact]
) -> list[Operation]:
    """Return operations each after those whose artifacts it reads; else by time."""
    waiting = sorted(operations, key=lambda each: (each.time, each.id))
    known = {each.id: each for each in waiting}
    order: list[Operation] = []
    seen: set[OperationId] = set()
    for start in waiting:
        path = [start.id]
        while path:
            at = path[-1]
            makers = (
                artifacts[read.artifact].operation
                for read in known[at].reads
                if read.artifact in artifacts
            )
            before = next(
                (m for m in makers if m in known and m not in seen and m not in path), None
            )
            if before is not None:
                path.append(before)
                continue
            path.pop()
            if at not in seen:
                seen.add(at)
                order.append(known[at])
    return order


def _worth(artifacts: Iterable[Artifact]) -> dict[OperationId, float]:
    """Return how often something of each operation may be loaded, or is a model with a score."""
    worth: dict[OperationId, float] = {}
    for each in artifacts:
        if each.stored is not None or each.score is not None:
            worth[each.operation] = worth.get(each.operation, 0.0) + max(each.frequency, 1)
    return worth
