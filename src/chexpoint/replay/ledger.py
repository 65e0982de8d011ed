"""Keeps account of a replay: what came of each cell, how far each version is, what all of it cost.

All workers report here; what they report is told on, one thing at a time.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from chexpoint.model import (
    REPLAY_STATUSES,
    Bytes,
    MemoryMoment,
    NodeId,
    Recording,
    Replay,
    ReplayedCell,
    ReplayHost,
    ReplayProgress,
    ReplayStatus,
    Seconds,
    TreeNode,
    Version,
)
from chexpoint.replay.replay_log import ReplayLog

_MOST_NOTES = 50


class Reporter(Protocol):
    """Who reports: a lane, here or elsewhere."""

    @property
    def number(self) -> int:
        """What tells it from others."""


class Remaining(Protocol):
    """Somebody's work."""

    def remaining(self) -> tuple[int, Seconds]:
        """Return how many cells are to be computed, and how long that will take."""


class Ledger:
    """What is known of a replay at any time; may be used by any thread.

    Parameters
    ----------
    done
        What an earlier replay has found out.
    watch
        Called with everything that happens.
    """

    def __init__(
        self,
        recording: Recording,
        budget: float,
        log: ReplayLog,
        done: Mapping[NodeId, ReplayedCell],
        watch: Callable[[ReplayProgress], None] | None,
    ) -> None:
        self.cells: dict[NodeId, ReplayedCell] = dict(done)
        self.courses: dict[int, Remaining] = {}
        """What each worker still has to do."""
        self._recording = recording
        self._tree = recording.tree
        self.budget = budget
        """What checkpoints may hold together."""
        self._log = log
        self._watch = watch
        self._lock = threading.RLock()
        self._started = time.perf_counter()
        self._computed = 0
        self._to_compute = 0
        self._overhead = 0.0
        self._held: dict[int, Bytes] = {}
        self._memory: list[MemoryMoment] = []
        self._notes: dict[str, None] = dict.fromkeys(recording.notes)
        self._open = {
            version: {node for node in version.path if node not in self.cells}
            for version in self._tree.versions
        }
        """What is still to do for each version that is not done."""
        self._settled: set[NodeId] = set()
        """The nodes of versions that are done."""
        self._saved = 0
        self._current: dict[int, Version] = {}
        self._is_logging = True

    # ------------------------------------------------------------ what lanes report

    def begins(self, lane: Reporter, node: NodeId) -> None:
        """Note which version a lane is at."""
        with self._lock:
            current = self._current.get(lane.number)
            through = self._tree.through.get(node, ())
            if current is None or current not in self._open or current not in through:
                waiting = [version for version in through if version in self._open]
                if waiting or through:
                    self._current[lane.number] = (waiting or list(through))[0]

    def computed(self, lane: Reporter, cell: ReplayedCell) -> None:
        """Take note of a cell that was computed, or failed."""
        with self._lock:
            self._computed += cell.computed
            self._set(cell)
            version = self._current.get(lane.number)
            self._tell(
                "cell",
                worker=lane.number,
                host=cell.host,
                version="" if version is None else self._tree.labels[version],
                cell=self._cells_done(version, cell.node),
                cells=0 if version is None else len(version.path),
                status=cell.status,
                text=cell.reasons[0] if cell.reasons and cell.status != "same" else "",
            )
            self._close_versions(cell.node)

    def gave_up(self, lane: Reporter, node: NodeId, reason: str) -> None:
        """Take note that nothing below a node can be computed."""
        del lane
        self._skip_below(node, reason)

    def held(self, lane: Reporter, size_bytes: Bytes) -> None:
        """Take note of what checkpoints hold."""
        with self._lock:
            self._held[lane.number] = size_bytes
            total = sum(self._held.values())
            self._memory.append(MemoryMoment(time=self._seconds(), held_bytes=total))

    def spent(self, seconds: Seconds) -> None:
        """Take note of time that was not spent on computing."""
        with self._lock:
            self._overhead += seconds

    def note(self, text: str) -> None:
        """Tell something, once."""
        with self._lock:
            if text not in self._notes and len(self._notes) < _MOST_NOTES:
                self._notes[text] = None
                self._tell("note", text=text)

    # ------------------------------------------------------------ what the replayer reports

    def input_gone(self, node: NodeId, name: str) -> None:
        """Take note that a cell cannot be computed, nor anything after it."""
        with self._lock:
            reason = f"{name}, which it reads, is gone"
            self._set(ReplayedCell(node=node, status="failed", reasons=(reason,)))
            number = len(self._tree.path(node))
            self._skip_below(node, f"{name}, which cell {number} reads, is gone")

    def has_to_reach(self, path: Iterable[TreeNode]) -> bool:
        """Return whether there is something to compute on a path, and nothing in its way."""
        found = [self.cells.get(node.id) for node in path]
        return None in found and not any(
            cell is not None and not cell.is_excused and cell.status in {"failed", "skipped"}
            for cell in found
        )

    def begin(self, to_compute: int) -> None:
        """Tell that computing begins."""
        with self._lock:
            self._to_compute = to_compute
            self._tell("begin")
            for version in [version for version, nodes in self._open.items() if not nodes]:
                self._close(version)

    def end(self, *, is_interrupted: bool) -> None:
        """Settle what was never reached, and tell that it is over."""
        with self._lock:
            if not is_interrupted:
                for version, nodes in list(self._open.items()):
                    if any(self._is_bad(node) for node in version.path):
                        for node in list(nodes):
                            why = "nothing that needs it can be replayed"
                            self._set(ReplayedCell(node=node, status="skipped", reasons=(why,)))
                            self._close_versions(node)
            self._tell("end")

    def left_out(self) -> tuple[str, ...]:
        """Return the versions that were not done."""
        return tuple(self._tree.labels[version] for version in self._open)

    def result(
        self,
        *,
        started: float,
        planner: str,
        workers: int,
        planned_seconds: Seconds,
        is_interrupted: bool,
        hosts: tuple[ReplayHost, ...] = (),
    ) -> Replay:
        """Return what came of everything."""
        return Replay(
            recording=self._recording,
            cells=self.cells,
            seconds=self._seconds(),
            planned_seconds=planned_seconds,
            overhead_seconds=self._overhead,
            computed_cells=self._computed,
            peak_checkpoint_bytes=max((each.held_bytes for each in self._memory), default=0),
            budget_bytes=self.budget,
            planner=planner,
            workers=workers,
            hosts=hosts,
            memory=tuple(self._memory),
            left_out=() if is_interrupted else self.left_out(),
            notes=tuple(self._notes),
            is_interrupted=is_interrupted,
            started=started,
        )

    # ------------------------------------------------------------ cells and versions

    def _set(self, cell: ReplayedCell) -> None:
        """Keep what came of a cell; of one that is computed again, the worse."""
        known = self.cells.get(cell.node)
        if known is not None:
            worse = max(known, cell, key=lambda each: REPLAY_STATUSES.index(each.status))
            cell = replace(worse, seconds=cell.seconds, computed=known.computed + cell.computed)
        self.cells[cell.node] = cell
        if known is not None and cell.node in self._settled:
            self._saved -= cell.computed - known.computed
        if self._is_logging:
            try:
                self._log.add(cell)
            except OSError as error:
                self._is_logging = False
                self.note(f"this replay cannot be resumed if it is interrupted: {error}")

    def _skip_below(self, node: NodeId, reason: str) -> None:
        with self._lock:
            waiting = [*self._tree.children(node)]
            while waiting:
                at = waiting.pop()
                waiting.extend(self._tree.children(at))
                if at not in self.cells:
                    self._set(ReplayedCell(node=at, status="skipped", reasons=(reason,)))
                    self._close_versions(at)
            self._close_versions(node)

    def _is_bad(self, node: NodeId) -> bool:
        cell = self.cells.get(node)
        return cell is not None and not cell.is_excused and cell.status in {"failed", "skipped"}

    def _close_versions(self, node: NodeId) -> None:
        for version in self._tree.through.get(node, ()):
            nodes = self._open.get(version)
            if nodes is not None:
                nodes.discard(node)
                if not nodes:
                    self._close(version)

    def _close(self, version: Version) -> None:
        del self._open[version]
        fresh = set(version.path) - self._settled
        self._settled |= fresh
        self._saved += len(version.path) - sum(self.cells[node].computed for node in fresh)
        status, reason = self._verdict(version)
        self._tell(
            "version",
            version=self._tree.labels[version],
            cell=len(version.path),
            cells=len(version.path),
            status=status,
            text=reason,
        )

    def _verdict(self, version: Version) -> tuple[ReplayStatus, str]:
        """Return the worst status on the way, and the reason of the first cell that has it."""
        cells = [self.cells[node] for node in version.path]
        found = ["same" if cell.is_excused else cell.status for cell in cells]
        status: ReplayStatus = (
            "failed" if "failed" in found else max(found, key=REPLAY_STATUSES.index)
        )
        for at, cell in enumerate(cells):
            if status != "same" and found[at] == status and cell.reasons:
                return status, f"cell {at + 1}: {cell.reasons[0]}"
        return status, ""

    def _cells_done(self, version: Version | None, node: NodeId) -> int:
        if version is None or node not in version.path:
            return 0
        return version.path.index(node) + 1

    # ------------------------------------------------------------ progress

    def _seconds(self) -> Seconds:
        return time.perf_counter() - self._started

    def _tell(self, kind: str, **facts: object) -> None:
        if self._watch is None:
            return
        left = [course.remaining() for course in self.courses.values()]
        to_compute = self._computed + sum(cells for cells, _ in left) if left else self._to_compute
        done = len(self._tree.versions) - len(self._open)
        self._watch(
            ReplayProgress(
                kind=kind,  # type: ignore[arg-type]
                computed=self._computed,
                to_compute=to_compute,
                saved=max(0, self._saved),
                versions_done=done,
                versions=len(self._tree.versions),
                seconds=self._seconds(),
                seconds_left=max((seconds for _, seconds in left), default=None),
                held_bytes=sum(self._held.values()),
                budget_bytes=self.budget if math.isfinite(self.budget) else 0,
                **facts,  # type: ignore[arg-type]
            )
        )
