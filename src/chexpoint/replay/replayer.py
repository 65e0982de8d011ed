"""Replays versions: plans, takes engines through the plan, compares what comes of it.

replay = Replayer(recording_of(project), ProjectFiles(project)).run()
print(replay.is_good, replay.computed_cells, replay.cells_in_versions)
"""

from __future__ import annotations

import math
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from chexpoint.compare import Tolerance
from chexpoint.engine import default_budget
from chexpoint.errors import InvalidValue
from chexpoint.model import (
    SKIP_TAG,
    Bytes,
    ExecutionTree,
    NodeId,
    Plan,
    Recording,
    Replay,
    ReplayedCell,
    ReplayHost,
    ReplayProgress,
    Schedule,
    Seconds,
    StepCosts,
)
from chexpoint.plan import TIME_LIMIT, check_schedule, judge_plan, plan
from chexpoint.replay.course import Course
from chexpoint.replay.files import FileSource, missing_file
from chexpoint.replay.lane import Lane
from chexpoint.replay.ledger import Ledger
from chexpoint.replay.replay_log import ReplayLog

STEP_COSTS = StepCosts(
    checkpoint=0.008,
    restore=0.010,
    take=0.004,
    fresh=0.010,
    checkpoint_per_byte=2e-12,
    restore_per_byte=2e-12,
)
"""What steps cost on an ordinary machine: forks copy page tables, not pages."""

_MOST_WORKERS = 256
# More than any machine has; planners are told how much too large a state is.
_NO_LIMIT: Bytes = 2**60
_LOOK_S: Seconds = 0.25
# How much less is tried if several workers are not done with their versions in time.
_LESS = 0.85
_MOST_TRIES = 12
# Planning is worth such a share of what is planned, and at least so long.
_PLANNING = 0.005
_LEAST_PLANNING_S: Seconds = 0.05


class Replayer:
    """One replay of some versions.

    Parameters
    ----------
    files
        Where the contents of the files are that cells read.
    budget_bytes
        Memory for the checkpoints of all workers, infinity for no limit; half of what is available
        by default.
    planner
        A name from `chexpoint.plan.PLANNERS`.
    workers
        How many engines run side by side.
    within_s
        Replay as many versions as fit into this time.
    timeout_s
        How long a cell may take.
    log
        A file that keeps what is found out, so that an interrupted replay can be gone on with.
    scratch
        Where the folders that cells run in are made; a temporary folder by default.
    watch
        Called with everything that happens, by one thread at a time.
    """

    def __init__(  # noqa: PLR0913 - all but two have to be named, and few ever are
        self,
        recording: Recording,
        files: FileSource,
        *,
        budget_bytes: float | None = None,
        planner: str = "pc-move",
        workers: int = 1,
        within_s: Seconds | None = None,
        timeout_s: Seconds | None = None,
        tolerance: Tolerance | None = None,
        log: Path | None = None,
        scratch: Path | None = None,
        watch: Callable[[ReplayProgress], None] | None = None,
    ) -> None:
        if not 1 <= workers <= _MOST_WORKERS:
            raise InvalidValue(f"{workers} workers are not possible: 1 to {_MOST_WORKERS} are")
        self._recording = recording
        self._files = files
        self._asked_budget = default_budget() if budget_bytes is None else budget_bytes
        self._budget = int(min(self._asked_budget, _NO_LIMIT))
        self._planner = planner
        self._workers = workers
        self._within_s = within_s
        self._timeout_s = timeout_s
        self._tolerance = tolerance or Tolerance()
        self._log = ReplayLog(log, recording)
        self._scratch = scratch
        self._watch = watch
        self._lanes: list[Lane] = []
        self._is_interrupted = False
        self._failure: BaseException | None = None
        self._deadline: float | None = None

    def interrupt(self) -> None:
        """Interrupt running cells and run no other; may be called from a signal handler."""
        self._is_interrupted = True
        for lane in self._lanes:
            lane.interrupt()

    def run(self, *, resume: bool = False) -> Replay:
        """Replay the versions, and return what came of it.

        Parameters
        ----------
        resume
            Go on where an interrupted replay of the same versions has ended, if there is one.

        Raises
        ------
        InvalidValue
            If it cannot be planned.
        EngineError
            If no engine can be started.
        """
        started = time.time()
        if self._within_s is not None:
            self._deadline = time.monotonic() + self._within_s
        done = self._done_before() if resume else {}
        ledger = Ledger(self._recording, self._asked_budget, self._log, done, self._watch)
        self._log.begin(done)
        base = Path(tempfile.mkdtemp(prefix="chex-replay-", dir=self._scratch))
        try:
            planned = self._replay(ledger, base)
        except BaseException:
            self._log.end(is_complete=False)
            raise
        finally:
            self._end()
            shutil.rmtree(base, ignore_errors=True)
        ledger.end(is_interrupted=self._is_interrupted)
        self._log.end(is_complete=not self._is_interrupted and not ledger.left_out())
        return ledger.result(
            started=started,
            planner=self._planner,
            workers=self._engines(),
            planned_seconds=planned,
            is_interrupted=self._is_interrupted,
            hosts=self._hosts(),
        )

    def _end(self) -> None:
        for lane in self._lanes:
            lane.close()

    def _engines(self) -> int:
        """Return how many engines had something to do."""
        return max(1, len(self._lanes))

    def _hosts(self) -> tuple[ReplayHost, ...]:
        """Return the machines that computed, if not this one alone did."""
        return ()

    # ------------------------------------------------------------ what there is to do

    def _done_before(self) -> dict[NodeId, ReplayedCell]:
        """Return what an earlier replay found out, except for what may turn out better now."""
        return {
            node: cell
            for node, cell in self._log.read().items()
            if cell.is_excused or cell.status not in {"failed", "skipped"}
        }

    def _tree(self) -> ExecutionTree:
        """Return what is planned with: cells that are not run cost nothing."""
        cells = self._recording.cells
        nodes = (
            replace(node, cost=0.0) if SKIP_TAG in cells[node.id].tags else node
            for node in self._recording.tree.nodes.values()
        )
        return ExecutionTree(nodes, self._recording.tree.versions)

    def _leaves(self, tree: ExecutionTree, ledger: Ledger) -> list[NodeId]:
        """Return the leaves that have something to compute on the way to them."""
        for node, cell in self._recording.cells.items():
            missing = None if node in ledger.cells else missing_file(cell.lineage, self._files)
            if missing is not None:
                ledger.input_gone(node, missing)
        return [
            leaf
            for leaf in tree.nodes
            if not tree.children(leaf) and ledger.has_to_reach(tree.path(leaf))
        ]

    # ------------------------------------------------------------ lanes

    def _replay(self, ledger: Ledger, base: Path) -> Seconds:
        """Compute what there is to compute; return what that should take."""
        tree = self._tree()
        leaves = self._leaves(tree, ledger)
        if not leaves:
            ledger.begin(0)
            return 0.0
        # Engines take longer to start than most plans to make.
        for number in range(min(self._workers, len(leaves))):
            self._new_lane(number, ledger, base)
        starting = [threading.Thread(target=self._start, args=(lane,)) for lane in self._lanes]
        for thread in starting:
            thread.start()
        try:
            before = time.perf_counter()
            plans, seconds = self._plans(tree, leaves)
            ledger.spent(time.perf_counter() - before)
        finally:
            for thread in starting:
                thread.join()
        self._raise_failure()
        courses = [self._course(tree, each) for each in plans]
        ledger.begin(sum(course.remaining()[0] for course in courses))
        for lane in self._lanes[len(courses) :]:  # for which there is nothing to do
            lane.close()
        del self._lanes[len(courses) :]
        ledger.courses = dict(enumerate(courses))
        threads = [
            threading.Thread(target=self._drive, args=pair)
            for pair in zip(self._lanes, courses, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(_LOOK_S)
                if self._is_interrupted:
                    self.interrupt()  # a cell may have begun just after the first one
        self._raise_failure()
        return seconds

    def _new_lane(self, number: int, ledger: Ledger, base: Path) -> Lane:
        folder = base / str(number)
        folder.mkdir()
        lane = Lane(
            number,
            self._recording,
            self._files,
            base=folder,
            budget_bytes=self._budget,
            timeout_s=self._timeout_s,
            tolerance=self._tolerance,
            seconds_left=self._seconds_left,
            watcher=ledger,
        )
        self._lanes.append(lane)
        return lane

    def _start(self, lane: Lane) -> None:
        try:
            lane.start()
        except BaseException as error:
            self._fail(error)

    def _drive(self, lane: Lane, course: Course) -> None:
        try:
            try:
                lane.follow(course)
            finally:
                lane.close()
        except BaseException as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        for lane in self._lanes:
            lane.interrupt()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _seconds_left(self) -> Seconds | None:
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    # ------------------------------------------------------------ plans

    def _course(self, tree: ExecutionTree, first: Plan) -> Course:
        return Course(tree, first, budget=first.budget, costs=STEP_COSTS, planner=self._planner)

    def _plans(self, tree: ExecutionTree, leaves: list[NodeId]) -> tuple[tuple[Plan, ...], Seconds]:
        """Return a plan for each worker, and when the last one should be done."""
        left = self._seconds_left()
        if self._workers == 1 or len(leaves) == 1:
            made = self._plan(tree, leaves, left)
            return (made,), made.cost
        if left is None:
            found = self._schedule(tree, leaves)
            return found.lanes, found.makespan
        time_for_all = left * self._workers
        for _ in range(_MOST_TRIES):
            chosen = self._plan(tree, leaves, time_for_all).versions
            if not chosen:
                break
            found = self._schedule(tree, chosen)
            if found.makespan <= left:
                return found.lanes, found.makespan
            time_for_all *= _LESS
        made = self._plan(tree, leaves, left)
        return (made,), made.cost

    def _plan(self, tree: ExecutionTree, leaves: Iterable[NodeId], within: Seconds | None) -> Plan:
        chosen = tuple(leaves)
        made = plan(
            *(tree, self._budget),
            planner=self._planner,
            costs=STEP_COSTS,
            versions=chosen,
            within=within,
        )
        judge_plan(tree, made, costs=STEP_COSTS, leaves=chosen)
        return made

    def _schedule(self, tree: ExecutionTree, leaves: Iterable[NodeId]) -> Schedule:
        chosen = tuple(leaves)
        made = plan(
            *(tree, self._budget),
            planner=self._planner,
            costs=STEP_COSTS,
            versions=chosen,
            workers=self._workers,
            seconds=_planning_s(tree),
        )
        check_schedule(tree, made, costs=STEP_COSTS, leaves=chosen)
        return made


def _planning_s(tree: ExecutionTree) -> Seconds:
    """Return how long may be searched for a better division of a tree among workers."""
    once = math.fsum(node.cost for node in tree.nodes.values())
    return min(max(_LEAST_PLANNING_S, _PLANNING * once), TIME_LIMIT)
