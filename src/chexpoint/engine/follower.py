"""The part of `EngineState` that moves the place, and brings the worker there when it must be.

A cell of a recorded version is looked up before it is run.  If an earlier run
can stand for it, only the place moves; see `timeline`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chexpoint.engine import events as ev
from chexpoint.engine.errands import with_notes
from chexpoint.engine.keeper import Keeper
from chexpoint.engine.situation import Checking, Idle, Looking, Running
from chexpoint.errors import NotReached
from chexpoint.lineage import Step
from chexpoint.model import path_cell_from_json

if TYPE_CHECKING:
    from chexpoint.engine.events import Ask, CellText, Request

# Looking whether files have changed reads them, but nobody waits for ever.
_LOOK_TIMEOUT_S = 60.0


class Follower(Keeper):
    """Knows where the user is, and how the worker gets there."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.reuse = True
        """Whether cells of a recorded version may be answered from earlier runs."""
        self.allowed: tuple[str, ...] = ()
        """Kinds of hints in spite of which they may."""
        self._in_version = False
        self._looked: dict[int, ev.Looked] = {}
        self._going: Ask | None = None
        self._goal: Step | None = None
        self._put_back: tuple[str, ...] = ()
        self._agains = 0
        self._begun = 0
        self._way_cells, self._way_s = 0, 0.0

    def _enqueue(self, ask: Ask) -> None:
        is_again = isinstance(self.doing, Running) and self.doing.request.kind == "again"
        if ask.from_cell and is_again:
            # The cell is only to bring back a state: what it asks for was done when it ran first.
            self._do(ev.Answer(ask, {"accepted": True}))
        else:
            super()._enqueue(ask)

    def _must_begin(self, request: Request, cell: CellText) -> bool:
        """Return whether a cell begins a version before it runs."""
        return cell.begins is not None and request.seq != self._begun

    def _begin(self, request: Request, cell: CellText) -> None:
        self._begun = request.seq
        self._begin_version(cell.begins or "", is_here=False)

    def _begin_version(self, name: str, *, is_here: bool) -> None:
        if not is_here and self.time.place.parent is not None:
            self.time.go(())
            self._execution_count = 0
        self._in_version, self._is_novel = True, False
        self._do(ev.BeginVersion(name, self.time.place))

    def _must_look(self, request: Request, cell: CellText) -> bool:
        """Return whether it has to be found out if a cell must be run."""
        if not cell.is_reusable or request.seq in self._looked:
            return False
        return cell.version is not None or (self.reuse and self._in_version and not self._is_novel)

    def _look(self, request: Request, cell: CellText) -> None:
        self.doing = Looking(request)
        look = ev.Look(request, cell, self.time.place)
        self._do(look, ev.SetTimer("look", _LOOK_TIMEOUT_S))

    def _looked_up(self, event: ev.Looked) -> None:
        if not isinstance(self.doing, Looking) or self.doing.request.seq != event.seq:
            return  # it comes too late: the cell is being run, or waits for another worker
        self.doing = Idle()
        self._do(ev.ClearTimer("look"))
        if event.place is not self.time.place:
            return  # it was another state that was asked about: ask again
        if event.problem:
            self._refuse(event)
            return
        if event.go is not None:
            self.time.go(event.go)
            self._in_version, self._is_novel = True, False
            self._execution_count = event.go[-1].execution_count if event.go else 0
            event = replace(event, place=self.time.place)
        self._looked[event.seq] = event

    def _refuse(self, event: ev.Looked) -> None:
        waiting = self.queue[0] if self.queue else None
        if isinstance(waiting, ev.Request) and waiting.seq == event.seq:
            self.queue.popleft()
            count = self._execution_count + 1
            self._do(ev.Fail(waiting, "UsageError", event.problem, count))
            self._abort_waiting()

    def _is_known(self, request: Request) -> bool:
        """Return whether a cell has been found that need not be run."""
        looked = self._looked.get(request.seq)
        return looked is not None and looked.found is not None and self.reuse

    def _recall(self, request: Request) -> None:
        """Answer a cell from an earlier run, and move the place alone."""
        self.queue.popleft()
        looked = self._looked.pop(request.seq)
        if looked.found is None or request.cell is None or looked.place is not self.time.place:
            self.queue.appendleft(request)
            return
        step = Step.recalled(self.time.place, looked.found.cell, looked.found.record)
        step.source, step.cell_id = request.cell.source, request.cell.cell_id
        self.time.advance(step)
        self._execution_count += 1
        self._do(ev.Recall(request, step, looked.found, self._execution_count))

    def _needs_place(self, request: Request) -> bool:
        """Return whether a request is about the state."""
        if request.kind == "execute":
            return request.cell is None or request.cell.needs_state
        return request.kind in {"comm", "state"}

    def _follow(self, request: Request | None) -> bool:
        """Bring the worker a step closer to the place; return whether it could be done now."""
        time = self.time
        if not time.is_under_way:
            if not self.held.all_frozen():
                return False
            route = time.route(self.held)
            time.set_out(route)
            self._way_cells, self._way_s = len(route.cells), 0.0
            if route.checkpoint is not None:
                self._thaw(route.checkpoint, keep=True, ask=None)
                return True
            if route.is_fresh:
                self._do(ev.KillWorker())
                self._start_worker(attempt=1)
                return True
        if not time.way:
            self._tell_progress(request)
            time.join()
            return True
        self._tell_progress(request)
        following = time.way[0]
        self._agains += 1
        cell = ev.CellText(following.source, following.cell_id)
        again = ev.Request(-self._agains, "again", (), cell=cell)
        step = Step(time.worker, source=following.source, cell_id=following.cell_id)
        step.again_of = following
        self.doing = Running(again, step)
        self._do(ev.Dispatch(again, step))
        return True

    def _tell_progress(self, request: Request | None) -> None:
        way = self.time.way
        left = sum(step.seconds for step in way)
        done = self._way_cells - len(way)
        count = self._execution_count + 1 + len(way)
        self._do(ev.Progress(request, done, self._way_cells, self._way_s, left, count))

    def _passed(self, step: Step, event: ev.RequestDone) -> None:
        """A cell on the way to the place has been run again."""
        expected = self.time.way[0]
        self.time.passed(step)
        self._way_s += event.seconds
        if event.outcome == "error" and not expected.has_failed:
            line = expected.source.strip().partition("\n")[0][:60]
            self._lose_way(
                NotReached(
                    f"a cell that was run again to get back to this state failed: {line}"
                    "  The state is now the one after that cell."
                )
            )

    def _lose_way(self, error: Exception) -> None:
        """The place cannot be reached: fail what waits for it, and stay where the worker is."""
        self.time.join()
        self._is_novel = False
        self._going = None
        waiting = self.queue.popleft() if self.queue else None
        if isinstance(waiting, ev.Request):
            self._looked.pop(waiting.seq, None)
            count = self._execution_count + 1
            self._do(ev.Fail(waiting, type(error).__name__, str(error), count))
        else:
            self._finish(waiting, error=error)
        self._abort_waiting()

    def _set_out(self, ask: Ask) -> None:
        """Begin to go to a recorded state."""
        self._going, self._way_cells, self._put_back = ask, 0, ()
        cells = [path_cell_from_json(cell) for cell in ask.args["path"]]
        self.time.go(cells)
        self._goal = self.time.place
        self._is_novel = False
        self._execution_count = cells[-1].execution_count if cells else 0
        if ask.args["files"]:
            self.doing = Checking(ask)
            self._do(ev.CheckFiles(self.time.place, put_back=True))

    def _files_checked(self, lines: tuple[str, ...]) -> None:
        if not isinstance(self.doing, Checking):
            return
        ask, self.doing = self.doing.ask, Idle()
        if self.queue and self.queue[0] is ask:  # looked at before setting out
            self._put_back = tuple(line for line in lines if line.endswith("put back"))
            return
        lines, self._put_back = (*self._put_back, *lines), ()
        self._going = None
        again = f"; {_cells(self._way_cells)} run again" if self._way_cells else ""
        goal, there = self._goal, self.time.place.node
        is_it = goal is None or there is None or goal.node in {None, there}
        note = f"at {ask.args['title']}{again}"
        if not is_it:
            note = f"not at {ask.args['title']} but at {str(there)[:12]}{again}"
        self._finish(ask, {"run_again": self._way_cells}, note=with_notes(note, lines))

    def _record(self, ask: Ask) -> None:
        """Begin, pause or go on with a version."""
        match ask.args["do"]:
            case "begin":
                self._begin_version(ask.args["name"], is_here=ask.args["here"])
                note = f"recording version {ask.args['name']}"
            case "pause":
                self._do(ev.Pause(True))
                note = "recording is off"
            case _:
                self._do(ev.Pause(False))
                note = "recording is on"
        self._finish(ask, {}, note=note)


def _cells(count: int) -> str:
    return "1 cell" if count == 1 else f"{count} cells"
