"""Takes one engine through the cells up to a loop, and through a part of that loop."""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chexpoint.engine import Engine, Guest
from chexpoint.errors import EngineClosed, EngineError
from chexpoint.hindsight import JOB_VARIABLE
from chexpoint.model import CellError, CellResult, NodeId
from chexpoint.replay.hindsight_values import HindsightPlan, Probe, ProbedCell
from chexpoint.replay.hindsight_world import World
from chexpoint.replay.scratch import Scratch

_DONE = "SegmentDone"
"""The name of the exception by which a cell ends when there is nothing left to replay."""

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_CELL_LINE = re.compile(r"Cell In\[(\d+)\], line (\d+)")
_FILE_LINE = re.compile(r"""File ["']?([^\n"']+?)["']?(?::|, line )(\d+)""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one probe."""

    probe: Probe
    events: tuple[Mapping[str, Any], ...] = ()
    """What the replaying process has told, in order."""
    failed: str = ""
    notes: tuple[str, ...] = ()

    @property
    def must_walk(self) -> bool:
        """Whether the state to begin with could not be had, so that it must be computed."""
        return self.probe.segment.is_jump and any(event.get("walk") for event in self.events)


def iterations_in(events: Iterable[Mapping[str, Any]], probe: Probe) -> set[int]:
    """Return the iterations of a probe that have begun."""
    segment = probe.segment
    return {
        event["i"]
        for event in events
        if event.get("e") == "iter"
        and event.get("n") == probe.loop
        and segment.start <= event["i"] < segment.stop
    }


def job_text(plan: HindsightPlan, probe: Probe, *, store: str, out: Path) -> str:
    """Return what the process that replays has to know, as JSON."""
    segment = probe.segment
    part = {
        "loop": probe.loop,
        "start": segment.start,
        "stop": segment.stop,
        "first": segment.first,
        "is_jump": segment.is_jump,
    }
    cells = [
        {
            "source": cell.source,
            "added": [list(lines) for lines in cell.added],
            "run": None if cell.folder is None else str(cell.folder),
            "step_into": sorted(cell.step_into),
            "segment": part if at == probe.cell else None,
        }
        for at, cell in enumerate(plan.cells[: probe.cell + 1])
    ]
    return json.dumps({"store": store, "out": str(out), "cells": cells})


class HindsightLane:
    """One engine with a folder of its own, for one probe; its methods belong to one thread.

    Parameters
    ----------
    base
        An empty folder.
    store
        Where the images of loops are.
    guest
        Given, the engine is a guest here; see `Engine`.
    """

    def __init__(
        self,
        plan: HindsightPlan,
        probe: Probe,
        world: World,
        *,
        base: Path,
        store: str,
        guest: Guest | None = None,
    ) -> None:
        self._plan, self._probe, self._world = plan, probe, world
        self._base = base
        self._store = store
        self._guest = guest
        self._engine: Engine | None = None
        self._counts: dict[int, ProbedCell] = {}
        """The cells by the numbers that the engine gives them."""
        self.out = base / "results.jsonl"
        """What the process that replays tells, line by line."""
        self._tail = Tail(self.out)
        self._begun: set[int] = set()
        self._is_done = False
        self._stop = threading.Event()
        self._excused = ""
        """How the cell has failed, if it failed in the training, too."""

    def iterations_done(self) -> int:
        """Return how many iterations have been replayed so far; for one other thread."""
        events = self._tail.read()
        self._begun |= iterations_in(events, self._probe)
        self._is_done = self._is_done or any(event.get("e") == "done" for event in events)
        return len(self._begun) if self._is_done else max(0, len(self._begun) - 1)

    def interrupt(self) -> None:
        """Interrupt the running cell and run no other; may be called by another thread."""
        self._stop.set()
        engine = self._engine
        if engine is not None:
            with contextlib.suppress(EngineClosed):
                engine.interrupt()

    def kill(self) -> None:
        """End the engine although a cell does not listen; may be called by another thread."""
        self._stop.set()
        engine = self._engine
        if engine is not None:
            engine.stop()

    def run(self) -> Outcome:
        """Replay, and return what came of it."""
        job = self._base / "job.json"
        job.write_text(job_text(self._plan, self._probe, store=self._store, out=self.out))
        scratch = Scratch(self._base)
        notes = self._world.lay_out(scratch)
        failed = ""
        try:
            self._engine = Engine(
                cwd=scratch.folder,
                env={JOB_VARIABLE: str(job), "CHEX_AUDIT": "off"},
                auto="never",
                guest=self._guest,
            )
            failed = self._run_cells(self._engine, scratch)
        except EngineError as error:
            failed = str(error).split(". ", maxsplit=1)[0]
        finally:
            engine, self._engine = self._engine, None
            if engine is not None:
                engine.kill()  # its state has nothing left to say
        events = tuple(Tail(self.out).read())
        return Outcome(
            probe=self._probe,
            events=events,
            failed=failed or self._incomplete(events),
            notes=tuple(notes),
        )

    def _incomplete(self, events: Sequence[Mapping[str, Any]]) -> str:
        """Return why not everything was replayed although nothing has failed that had not."""
        failed = _told_failure(events, self._probe)
        return (self._excused or failed) if failed else ""

    def _run_cells(self, engine: Engine, scratch: Scratch) -> str:
        """Run the cells up to the probed one; return why that failed, if it did."""
        before: list[NodeId] = []
        for at, cell in enumerate(self._plan.cells[: self._probe.cell + 1]):
            if self._stop.is_set():
                return "interrupted"
            if why := self._world.make_ready(cell.node, scratch, before):
                return f"cell {at + 1}: {why}"
            self._counts[len(self._counts) + 1] = cell
            result = engine.run(cell.source)
            if self._stop.is_set():
                return "interrupted"
            if result.error is not None:
                failed = self._failure(at, cell, result, result.error)
                if not cell.is_failing:
                    return failed
                self._excused = failed if at == self._probe.cell else ""
            if cell.node is not None:
                before.append(cell.node)
        return ""

    def _failure(self, at: int, cell: ProbedCell, result: CellResult, error: CellError) -> str:
        """Return how a cell has failed, in one sentence; nothing if it has done its work."""
        if error.ename == _DONE:
            return ""
        if not result.execution_count:
            return f"cell {at + 1} has ended the process that replays it"
        if result.execution_count not in self._counts:
            self._counts[result.execution_count] = cell
        return explained(error, cell, self._counts)


def explained(error: CellError, cell: ProbedCell, cells: Mapping[int, ProbedCell]) -> str:
    """Return an error of a cell in one sentence, with the line that raised it.

    Parameters
    ----------
    cells
        By the numbers that tracebacks call them.
    """
    what = f"{error.ename}: {error.evalue}" if error.evalue else error.ename
    what = " ".join(what.split())
    place = _place(error.traceback, cell, cells)
    if place is None:
        return what
    at, line = place
    if any(first <= line <= last for first, last in at.added):
        return f"the added statement in line {line + at.line - 1} raised {what}"
    return f"line {line + at.line - 1} raised {what}"


def _place(
    traceback: Sequence[str], cell: ProbedCell, cells: Mapping[int, ProbedCell]
) -> tuple[ProbedCell, int] | None:
    """Return the innermost line of a cell that a traceback names, and the cell."""
    text = _COLOURS.sub("", "\n".join(traceback))
    found = _CELL_LINE.findall(text)
    if found:
        number, line = found[-1]
        return cells.get(int(number), cell), int(line)
    # In a script all cells are of one file, whose lines are counted.
    lines = [int(line) for file, line in _FILE_LINE.findall(text) if "site-packages" not in file]
    for line in reversed(lines):
        for other in (cell, *cells.values()):
            own = line - other.line + 1
            if 1 <= own <= other.source.count("\n") + 1:
                return other, own
    return None


class Tail:
    """The events in a file that grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0

    def read(self) -> list[dict[str, Any]]:
        """Return what was told since the last call; a line that is not complete comes later."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                *lines, rest = file.read().split(b"\n")
                self._at = file.tell() - len(rest)
        except FileNotFoundError:
            return []
        found = []
        for line in lines:
            with contextlib.suppress(ValueError):  # a process that dies may leave half a line
                event = json.loads(line)
                if isinstance(event, dict):
                    found.append(event)
        return found


def _told_failure(events: Sequence[Mapping[str, Any]], probe: Probe) -> str:
    """Return why a replay whose cells have all run is not complete; nothing if it is."""
    failed = [str(event.get("text", "")) for event in events if event.get("e") == "failed"]
    if failed:
        return failed[0]
    if any(event.get("e") == "done" for event in events):
        return ""
    # A loop that is left by a return, or by the error that ended the training, tells no end.
    begun, wanted = len(iterations_in(events, probe)), probe.segment.stop - probe.segment.start
    if begun == wanted:
        return ""
    if begun:
        return f"the loop ended after {begun} of {wanted} iterations"
    return "the replay did not come to the loop that was recorded"
