"""Replays the loops of a version in hindsight: engines side by side, and a verdict on each value.

result = HindsightReplayer(plan, world, store=str(project.store_folder), workers=2).run()
print(result.rows[0].value, result.rows[0].standing)
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from chexpoint.errors import InvalidValue
from chexpoint.hindsight import judge, merge_results
from chexpoint.model import (
    HindsightFinding,
    HindsightResult,
    HindsightRow,
    Seconds,
)
from chexpoint.replay.hindsight_lane import HindsightLane, Outcome, iterations_in
from chexpoint.replay.hindsight_log import HindsightLog
from chexpoint.replay.hindsight_source import line_map, moved_lines
from chexpoint.replay.hindsight_values import HindsightPlan, Probe, ProbedCell
from chexpoint.replay.hindsight_world import World

INTERRUPTED = "interrupted"
"""Why a replay failed that was interrupted."""

_MOST_WORKERS = 256
_LOOK_S: Seconds = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class HindsightProgress:
    """How far the replay of a version has got."""

    version: str
    done: int = 0
    """Iterations that are replayed."""
    total: int = 0
    seconds: Seconds = 0.0
    seconds_left: Seconds | None = None


class HindsightReplayer:
    """One replay of a version, as planned.

    Parameters
    ----------
    world
        The files that cells find.
    store
        Where the images of loops are.
    workers
        How many engines run side by side; no more than there are probes.
    scratch
        Where the folders that cells run in are made; a temporary folder by default.
    watch
        Called with how far it has got, by one thread.
    log
        A folder that keeps what is found out, so that an interrupted replay can be gone on with.
    """

    def __init__(
        self,
        plan: HindsightPlan,
        world: World,
        *,
        store: str,
        workers: int = 1,
        scratch: Path | None = None,
        watch: Callable[[HindsightProgress], None] | None = None,
        log: Path | None = None,
    ) -> None:
        if not 1 <= workers <= _MOST_WORKERS:
            raise InvalidValue(f"{workers} workers are not possible: 1 to {_MOST_WORKERS} are")
        self._plan, self._world, self._store = plan, world, store
        self._workers = max(1, min(workers, len(plan.probes)))
        self._scratch = scratch
        self._watch = watch
        self._log = HindsightLog(log, plan)
        self._known = 0
        """How many iterations an earlier replay has done."""
        self._waiting: list[tuple[int, Probe]] = []
        self._lanes: dict[int, HindsightLane] = {}
        self._outcomes: dict[int, Outcome] = {}
        self._lock = threading.Lock()
        self._failure: BaseException | None = None
        self._is_interrupted = False
        self._started = 0.0
        self._told = -1
        self._first = 0.0, 0
        """When iterations were first done, and how many."""

    def interrupt(self) -> None:
        """Interrupt running cells and run no other; may be called from a signal handler."""
        self._is_interrupted = True
        for lane in list(self._lanes.values()):
            lane.interrupt()

    def run(self, *, resume: bool = False) -> HindsightResult:
        """Replay, and return what came of it.

        Parameters
        ----------
        resume
            Go on where an interrupted replay of the same has ended, if there is one.

        Raises
        ------
        EngineError
            If no engine can be started.
        """
        self._started = time.perf_counter()
        probes = self._plan.probes
        self._outcomes = self._log.read(probes) if resume else {}
        self._log.begin(self._outcomes.values())
        self._known = sum(
            probe.segment.stop - probe.segment.start
            for number, probe in enumerate(probes)
            if number in self._outcomes
        )
        self._waiting = [(n, probe) for n, probe in enumerate(probes) if n not in self._outcomes]
        base = Path(tempfile.mkdtemp(prefix="chex-hindsight-", dir=self._scratch))
        try:
            if self._waiting:
                self._drive(base)
        finally:
            shutil.rmtree(base, ignore_errors=True)
        if self._failure is not None:
            raise self._failure
        result = self._result()
        self._log.end(is_complete=not result.failed)
        return result

    def _keep(self, number: int, outcome: Outcome) -> None:
        """Take note of what came of a probe."""
        self._outcomes[number] = outcome
        if not self._is_interrupted:
            self._log.add(outcome)

    # ------------------------------------------------------------ engines

    def _drive(self, base: Path) -> None:
        threads = [
            threading.Thread(target=self._work, args=(base,), name=f"chex-hindsight-{number}")
            for number in range(self._workers)
        ]
        for thread in threads:
            thread.start()
        self._tell()
        for thread in threads:
            while thread.is_alive():
                thread.join(_LOOK_S)
                self._tell()
                if self._is_interrupted:
                    self.interrupt()  # a cell may have begun just after the first one
        self._tell()

    def _work(self, base: Path) -> None:
        """Replay one probe after the other, until there is none left."""
        try:
            while (lane := self._next(base)) is not None:
                number, running = lane
                outcome = running.run()
                if outcome.must_walk and not self._is_interrupted:
                    outcome = self._walking(base, number, outcome.probe).run()
                self._keep(number, outcome)
        except BaseException as error:
            self._failure = self._failure or error
            self.interrupt()

    def _next(self, base: Path) -> tuple[int, HindsightLane] | None:
        with self._lock:
            if self._is_interrupted or not self._waiting:
                return None
            number, probe = self._waiting.pop(0)
            folder = base / str(number)
            folder.mkdir()
            lane = HindsightLane(self._plan, probe, self._world, base=folder, store=self._store)
            self._lanes[number] = lane
            return number, lane

    def _walking(self, base: Path, number: int, probe: Probe) -> HindsightLane:
        """Return a lane that gets to the iterations of a probe through all those before them."""
        segment = replace(probe.segment, first=0, is_jump=False)
        folder = base / f"{number}-walking"
        folder.mkdir()
        walking = replace(probe, segment=segment)
        lane = HindsightLane(self._plan, walking, self._world, base=folder, store=self._store)
        self._lanes[number] = lane
        return lane

    def _done(self) -> int:
        return sum(lane.iterations_done() for lane in list(self._lanes.values()))

    def _tell(self) -> None:
        """Tell how far it has got, if anything is new."""
        done = self._known + self._done()
        if self._watch is None or done == self._told:
            return
        now, total = time.perf_counter(), self._plan.iterations
        left = None
        if self._told > 0:  # what came before the first iterations says nothing about the rest
            since, before = self._first
            left = (now - since) / (done - before) * (total - done)
        else:
            self._first = now, done
        self._told = done
        self._watch(
            HindsightProgress(
                version=self._plan.version,
                done=done,
                total=total,
                seconds=now - self._started,
                seconds_left=left,
            )
        )

    # ------------------------------------------------------------ what came of it

    def _told_notes(self) -> tuple[str, ...]:
        """Return what else the user should know."""
        return ()

    def _result(self) -> HindsightResult:
        outcomes = [outcome for _, outcome in sorted(self._outcomes.items())]
        failed = [INTERRUPTED] if self._is_interrupted else []
        failed += [outcome.failed for outcome in outcomes if outcome.failed]
        notes = [
            *self._plan.notes,
            *self._told_notes(),
            *(note for each in outcomes for note in each.notes),
        ]
        rows: list[HindsightRow] = []
        findings: list[HindsightFinding] = []
        for at, loop in dict.fromkeys((each.probe.cell, each.probe.loop) for each in outcomes):
            parts = [each for each in outcomes if each.probe.is_of(at, loop)]
            run = self._plan.cells[at].run
            if run is None:
                continue
            edited = edited_cell(self._plan, at)
            told = merge_results(
                judge(
                    run,
                    loop,
                    part.events,
                    version=self._plan.version,
                    added=edited.added,
                    removed=edited.removed,
                    line_map=_mapped(edited),
                    segment=part.probe.segment,
                )
                for part in parts
            )
            rows += [_in_file(row, edited.line - 1) for row in told.rows]
            findings += [
                replace(each, what=moved_lines(each.what, edited.line - 1))
                for each in told.findings
            ]
            notes += told.notes
        blocks = [
            bool(event.get("skipped"))
            for outcome in outcomes
            for event in outcome.events
            if event.get("e") == "block"
        ]
        return HindsightResult(
            version=self._plan.version,
            rows=tuple(rows),
            findings=tuple(findings),
            notes=tuple(dict.fromkeys(notes)),
            failed=failed[0] if failed else "",
            iterations=sum(len(iterations_in(each.events, each.probe)) for each in outcomes),
            computed_blocks=blocks.count(False),
            skipped_blocks=blocks.count(True),
            seconds=time.perf_counter() - self._started,
            recorded_seconds=self._plan.recorded_seconds,
            workers=self._workers,
        )


def _mapped(cell: ProbedCell) -> Callable[[int], int]:
    return line_map(cell.old_source, cell.source, added=cell.added, removed=cell.removed)


def _in_file(row: HindsightRow, by: int) -> HindsightRow:
    """Return a row with the line in the file, if the cell is one of a script."""
    if not by or not row.value.line:
        return row
    return replace(row, value=replace(row.value, line=row.value.line + by))


def edited_cell(plan: HindsightPlan, at: int) -> ProbedCell:
    """Return the cell whose lines are meant when a replay tells of lines.

    Lines do not say of which cell they are: if the cell of the loop was left as it was, what was
    added is in a function of another one.
    """
    cell = plan.cells[at]
    if cell.added or cell.removed:
        return cell
    others = [each for each in plan.cells if each.added or each.removed]
    return others[0] if len(others) == 1 else cell
