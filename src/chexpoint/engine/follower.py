"""The part of `EngineState` that moves the place, and brings the worker there when it must be.

A cell of a recorded version is looked up before it is run.  If an earlier run
can stand for it, only the place moves; see `timeline`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from chexpoint.engine import events as ev
from chexpoint.engine import instructions as do
from chexpoint.engine.asks import Ask, CellText, Request
from chexpoint.engine.errands import with_notes
from chexpoint.engine.imager import Imager
from chexpoint.engine.situation import Binding, Checking, Idle, Loading, Looking, Running
from chexpoint.engine.timeline import Load, Move, Pass, Route
from chexpoint.errors import NotReached
from chexpoint.lineage import Step
from chexpoint.model import (
    ROOT,
    CellRecord,
    ImageName,
    PathCell,
    lineage_from_json,
    path_cell_from_json,
)

# Looking whether files have changed reads them, but nobody waits for ever.
_LOOK_TIMEOUT_S = 60.0


class Follower(Imager):
    """Knows where the user is, and how the worker gets there."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.reuse = True
        """Whether cells of a recorded version may be answered from earlier runs."""
        self.graph = False
        """Whether they are looked for in the experiment graph, too."""
        self.allowed: tuple[str, ...] = ()
        """Kinds of hints in spite of which they may."""
        self._in_version = False
        self._looked: dict[int, ev.Looked] = {}
        self._filled = 0
        """The cell for which the worker has all that is needed, though not all there is."""
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
            self._do(do.Answer(ask, {"accepted": True}))
        else:
            super()._enqueue(ask)

    def _must_begin(self, request: Request, cell: CellText) -> bool:
        """Return whether a cell begins a version before it runs."""
        return cell.begins is not None and request.seq != self._begun

    def _begin(self, request: Request, cell: CellText) -> None:
        self._begun = request.seq
        self._begin_version(cell.begins or "", is_here=False)

    def _begin_version(
        self, name: str, *, is_here: bool, about: Mapping[str, Any] | None = None
    ) -> None:
        if not is_here and self.time.place.parent is not None:
            self.time.go(())
            self._execution_count = 0
        self._in_version, self._is_novel = True, False
        self._do(do.BeginVersion(name, self.time.place, about or {}))

    def _must_look(self, request: Request, cell: CellText) -> bool:
        """Return whether it has to be found out if a cell must be run."""
        if not cell.is_reusable or request.seq in self._looked:
            return False
        if cell.version is not None or self.graph or self.time.worker.absent:
            return True
        return self.reuse and self._in_version and not self._is_novel

    def _look(self, request: Request, cell: CellText) -> None:
        self.doing = Looking(request)
        look = do.Look(request, cell, self.time.place, self.time.worker)
        self._do(look, do.SetTimer("look", _LOOK_TIMEOUT_S))

    def _looked_up(self, event: ev.Looked) -> None:
        if not isinstance(self.doing, Looking) or self.doing.request.seq != event.seq:
            return  # it comes too late: the cell is being run, or waits for another worker
        self.doing = Idle()
        self._do(do.ClearTimer("look"))
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
        if isinstance(waiting, Request) and waiting.seq == event.seq:
            self.queue.popleft()
            count = self._execution_count + 1
            self._do(do.Fail(waiting, "UsageError", event.problem, count))
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
        self._do(do.Recall(request, step, looked.found, self._execution_count))

    def _needs_place(self, request: Request) -> bool:
        """Return whether a request is about the state."""
        if request.kind == "execute":
            return request.cell is None or request.cell.needs_state
        return request.kind in {"comm", "state"}

    def _is_ready_for(self, request: Request) -> bool:
        """Return whether the worker is at the place, with all that a request may need."""
        if not self.time.is_there:
            return False
        is_look = request.cell is None
        return is_look or not self.time.worker.absent or request.seq == self._filled

    def _route(self, request: Request | None) -> Route:
        """Return how the worker gets to the place: all of it, or what a cell needs."""
        route = self.time.route(self.held, self.images)
        looked = self._looked.get(request.seq) if request is not None else None
        way = looked.way if looked is not None and looked.place is self.time.place else None
        if way is None or way.seconds >= route.seconds:
            return route
        if not way.is_from_root:
            return Route(None, False, way.moves)
        root = next((each.id for each in self.held if each.name == ROOT and not each.bad), None)
        return Route(root, root is None, way.moves)

    def _follow(self, request: Request | None) -> bool:
        """Bring the worker a step closer to the place; return whether it could be done now."""
        time = self.time
        if not time.is_under_way:
            if not self.held.all_frozen():
                return False
            if self._begin_way(self._route(request)):
                return True
        self._tell_progress(request)
        if not time.way:
            time.join()
            self._filled = request.seq if request is not None else 0
        else:
            self._move(time.way[0])
        return True

    def _begin_way(self, route: Route) -> bool:
        """Have the worker where a route begins; return whether that takes its time."""
        self.time.set_out(route)
        self._way_cells = sum(isinstance(each, Step) for each in route.cells)
        self._way_s = 0.0
        if route.checkpoint is not None:
            self._thaw(route.checkpoint, keep=True, ask=None)
        elif route.is_fresh:
            self._do(do.KillWorker())
            self._start_worker(attempt=1)
        return route.checkpoint is not None or route.is_fresh

    def _move(self, following: Move) -> None:
        """Have the worker do what is next on its way."""
        if isinstance(following, Load):
            self.doing = Loading(following)
            self._do(do.LoadImage(following.image, following.keep))
        elif isinstance(following, Step):
            self._run_again(following)
        elif following.items or following.unbind:
            self.doing = Binding(following)
            self._do(do.Bind(following.items, following.unbind))
        else:
            self._come_by(following)

    def _run_again(self, following: Step) -> None:
        self._agains += 1
        cell = CellText(following.source, following.cell_id)
        again = Request(-self._agains, "again", (), cell=cell)
        step = Step(self.time.worker, source=following.source, cell_id=following.cell_id)
        step.again_of = following
        self.doing = Running(again, step)
        self._do(do.Dispatch(again, step))

    def _tell_progress(self, request: Request | None) -> None:
        way = self.time.way
        left = sum(step.seconds for step in way)
        cells = sum(isinstance(each, Step) for each in way)
        done = self._way_cells - cells
        count = self._execution_count + 1 + cells
        self._do(do.Progress(request, done, self._way_cells, self._way_s, left, count))

    def _passed(self, step: Step, event: ev.RequestDone) -> None:
        """A cell on the way to the place has been run again."""
        expected = self.time.way[0]
        self.time.passed(step)
        self._way_s += event.seconds
        if not isinstance(expected, Step):
            return
        if event.outcome == "error" and not expected.has_failed:
            line = expected.source.strip().partition("\n")[0][:60]
            self._lose_way(
                NotReached(
                    f"a cell that was run again to get back to this state failed: {line}"
                    "  The state is now the one after that cell."
                )
            )

    def _image_loaded(self, event: ev.ImageLoaded) -> None:
        if not isinstance(self.doing, Loading) or self.doing.load.image != event.name:
            return
        step, ask, self.doing = self.doing.load.step, self.doing.ask, Idle()
        if ask is not None and (event.is_interrupted or event.why):
            self._not_loaded(ask, event.why or "interrupted while a state was being loaded")
        elif event.is_interrupted:
            self._lose_way(NotReached("interrupted while a state was being loaded"))
        elif event.why:
            self._lose_image(event.name, event.why)
        else:
            self.time.loaded(step)
            # What the state is worth is what led to it, not what loading it took.
            self._cells = step.number
            self._seconds = sum(each.seconds for each in step.path())
            self._is_novel = False
            self._do(do.Settle(step))
            if ask is not None:
                self.time.join()
                self._finish(ask, {})

    def _load(self, ask: Ask) -> None:
        """Give the worker the state of an image that a driver has; cells are not run instead."""
        records = [lineage_from_json(data) for data, _ in ask.args["path"]]
        taints = [taint for _, taint in ask.args["path"]]
        cells = [
            PathCell.recorded(CellRecord(lineage=lineage, taint=taint), execution=0)
            for lineage, taint in zip(records, taints, strict=True)
        ]
        self.time.go(cells, records)
        load = Load(ImageName(ask.args["image"]), self.time.place)
        self._execution_count = cells[-1].execution_count if cells else 0
        self.doing = Loading(load, ask)
        self._do(do.LoadImage(load.image, load.keep))

    def _not_loaded(self, ask: Ask, why: str) -> None:
        self.time.join()
        self._finish(ask, error=NotReached(why))

    def _come_by(self, passed: Pass) -> None:
        """The worker is past some cells that it has not run."""
        self.time.came_by(passed)
        self._cells = passed.step.number
        self._seconds = sum(each.seconds for each in passed.step.path())
        self._is_novel = False
        self._do(do.Settle(passed.step))

    def _bound(self, event: ev.Bound) -> None:
        if not isinstance(self.doing, Binding):
            return
        passed, self.doing = self.doing.passed, Idle()
        self._do(do.NoteLoads(passed.items, event))
        if event.is_interrupted:
            self._lose_way(NotReached("interrupted while variables were being loaded"))
        elif event.why:
            self._look_again()
        else:
            self._come_by(passed)

    def _lose_items(self, passed: Pass, why: str) -> None:
        """The worker died while it was loading variables."""
        for item in passed.items:
            self._do(do.NoteLoads((item,), ev.Bound(why, item.artifact)))
        self._look_again()

    def _look_again(self) -> None:
        """Find another way, without what could not be loaded."""
        self.time.stay()
        if self.queue and isinstance(self.queue[0], Request):
            self._looked.pop(self.queue[0].seq, None)

    def _lose_image(self, name: ImageName, why: str) -> None:
        """An image is of no use: find another way."""
        self.images.forget(name)
        self.time.stay()
        self._do(do.ForgetImage(name), do.Mention(f"{why} Cells are run again instead."))

    def _lose_way(self, error: Exception) -> None:
        """The place cannot be reached: fail what waits for it, and stay where the worker is."""
        self.time.join()
        self._is_novel = False
        self._going = None
        waiting = self.queue.popleft() if self.queue else None
        if isinstance(waiting, Request):
            self._looked.pop(waiting.seq, None)
            count = self._execution_count + 1
            self._do(do.Fail(waiting, type(error).__name__, str(error), count))
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
            self._do(do.CheckFiles(self.time.place, put_back=True))

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
                about = ask.args.get("about")
                self._begin_version(ask.args["name"], is_here=ask.args["here"], about=about)
                note = f"recording version {ask.args['name']}"
            case "pause":
                self._do(do.Pause(True))
                note = "recording is off"
            case _:
                self._do(do.Pause(False))
                note = "recording is on"
        self._finish(ask, {}, note=note)


def _cells(count: int) -> str:
    return "1 cell" if count == 1 else f"{count} cells"
