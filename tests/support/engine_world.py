"""A world of processes for `EngineState`, in which anything can happen in any order.

The world obeys instructions the way the real processes do: every connection
keeps its order, and nothing is ordered between two connections.  A *move* is
one thing that can happen next; which, is the test's choice.

A worker's state is the list of cells that made it, so the world sees at once
when a cell is given to a worker that is not in the state the engine believes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from chexpoint.engine import events as ev
from chexpoint.engine import instructions as do
from chexpoint.engine.asks import Ask, Request
from chexpoint.engine.situation import Idle
from chexpoint.engine.state import EngineState
from chexpoint.lineage import Step
from chexpoint.model import (
    CellAudit,
    CellLineage,
    CheckpointId,
    Hazard,
    ImageInfo,
    ImageName,
    KnownImage,
    LostVariable,
    NodeId,
    PathCell,
)

Move = tuple[str, str]

MAGICS: dict[str, tuple[str, dict[str, object]]] = {
    "%record": ("record", {"do": "begin", "name": "v", "here": False}),
    "%root": ("go", {"path": [], "files": False, "title": "root"}),
    "%restore": ("restore", {"ref": "root"}),
    "%checkpoint": ("checkpoint", {"name": "m"}),
}
"""Cells that ask something of the engine, and leave the state alone."""


@dataclass
class Worker:
    pid: int
    commands: deque[do.Instruction] = field(default_factory=deque)
    sent: deque[ev.Event] = field(default_factory=deque)
    alive: bool = True
    cells: tuple[str, ...] = ()
    """What has made its state."""
    live: tuple[tuple[str, int], ...] = ()
    """Variables that no image can hold, and the requests that made them."""

    def image(self, name: ImageName) -> ev.Imaged:
        """Return what is told about an image of it."""
        lost = tuple(
            LostVariable(name=made, kind="a", why="b", cell=f"line.{seq}", is_alone=True)
            for made, seq in self.live
        )
        info = ImageInfo(name=name, time=0.0, seconds=0.1, state_bytes=1, stored_bytes=1, lost=lost)
        return ev.Imaged(info)


@dataclass
class Frozen:
    """The process, or line of processes, behind one checkpoint's connection."""

    cells: tuple[str, ...] = ()
    live: tuple[tuple[str, int], ...] = ()
    alive: bool = True
    thaws: deque[bool] = field(default_factory=deque)
    sent: deque[ev.Event] = field(default_factory=deque)


class World:
    """Processes, connections, and the engine's state in the middle."""

    def __init__(self, images: Iterable[KnownImage] = ()) -> None:
        self.state = EngineState(budget_bytes=10**9, session=f"s{id(self)}", images=images)
        self.pids = iter(range(100, 10**6))
        self.worker: Worker | None = None
        self.frozen: dict[CheckpointId, Frozen] = {}
        self.thawed: deque[ev.Event] = deque()
        self.thawing: CheckpointId | None = None
        self.timers: set[ev.TimerName] = set()
        self.ids: set[CheckpointId] = set()
        self.ended: dict[int, int] = {}
        self.answered: dict[int, int] = {}
        self.holding = False
        self.stopped = False
        self.refuse_next = False
        self.pending_worker: Worker | None = None
        self.unconcluded: deque[Step] = deque()
        self.recorded: dict[str, dict[str, PathCell]] = {}
        self.lineages: dict[str, CellLineage] = {}
        self.looks: deque[tuple[int, str, Step]] = deque()
        self.checks = 0
        self.computed: list[str] = []
        self.recalled: list[str] = []
        self.images: dict[ImageName, Worker] = {}
        """What each image holds: the worker as it was."""
        self.writing: deque[ImageName] = deque()
        self.loads = 0
        self.lots = iter(range(1, 10**6))
        self.apply(self.state.start())

    # ------------------------------------------------------------ what the engine does

    def handle(self, event: ev.Event) -> None:
        assert not self.stopped, "nothing may happen after Stop"
        self.apply(self.state.handle(event))

    def apply(self, instructions: list[do.Instruction]) -> None:
        for instruction in instructions:
            self.obey(instruction)

    def obey(  # noqa: C901, PLR0912, PLR0915 - a flat table
        self, instruction: do.Instruction
    ) -> None:
        match instruction:
            case do.StartWorker():
                assert self.worker is None, "two workers"
                self.worker = Worker(next(self.pids))
                self.worker.sent.append(ev.WorkerReady(self.worker.pid))
            case do.MakeImage(name, checkpoint) if checkpoint is not None:
                frozen = self.frozen.get(checkpoint)
                assert name not in self.images, "image name used twice"
                if frozen is not None and frozen.alive:
                    self.images[name] = Worker(0, cells=frozen.cells, live=frozen.live)
                self.writing.append(name)
            case do.GiveUpImage(name):
                self.writing.remove(name)
            case (
                do.Dispatch()
                | do.Fork()
                | do.Call()
                | do.MakeImage()
                | do.LoadImage()
                | do.AskWorkerToExit()
            ):
                assert self.worker is not None, f"{instruction} without a worker"
                if isinstance(instruction, do.Fork):
                    assert instruction.checkpoint not in self.ids, "checkpoint id used twice"
                    self.ids.add(instruction.checkpoint)
                if isinstance(instruction, do.Dispatch) and instruction.step is not None:
                    believed = sources(instruction.step.parent)
                    assert self.worker.cells == believed, "the worker is in another state"
                self.worker.commands.append(instruction)
            case do.Thaw(checkpoint, keep):
                assert self.thawing is None, "two thaws at once"
                self.thawing = checkpoint
                frozen = self.frozen.get(checkpoint)
                if frozen is None or not frozen.alive:
                    self.thawed.append(ev.ThawFailed(checkpoint))
                else:
                    frozen.thaws.append(keep)
            case do.Adopt():
                assert self.pending_worker is not None
                self.worker, self.pending_worker = self.pending_worker, None
                self.thawing = None
            case do.KillWorker():
                self.worker = None
            case do.Drop(checkpoint):
                self.frozen.pop(checkpoint, None)
                if self.thawing == checkpoint:
                    self.thawing = self.pending_worker = None
                    self.thawed.clear()
            case do.Abort(request) | do.Fail(request):
                self.ended[request.seq] = self.ended.get(request.seq, 0) + 1
            case do.Answer(ask) if not ask.from_cell:
                self.answered[ask.token] = self.answered.get(ask.token, 0) + 1
            case do.Hold():
                assert not self.holding
                self.holding = True
            case do.Release():
                assert self.holding, "nothing to release"
                self.holding = False
            case do.SetTimer(name):
                self.timers.add(name)
            case do.ClearTimer(name):
                self.timers.discard(name)
            case do.Stop():
                self.stopped = True
            case do.Look(request, cell, place):
                self.looks.append((request.seq, cell.source, place))
            case do.Recall(request, step):
                self.ended[request.seq] = self.ended.get(request.seq, 0) + 1
                self.recalled.append(step.source)
                assert node_of(sources(step)) == step.node, "another state is recalled"
            case do.CheckFiles():
                self.checks += 1
            case _:
                pass

    # ------------------------------------------------------------ what can happen

    def moves(self) -> list[Move]:  # noqa: C901 - a flat table
        """Return everything that can happen next, short of a death or a timeout."""
        found: list[Move] = []
        worker = self.worker
        if worker is not None:
            if worker.alive and worker.commands:
                found.append(("work", ""))
            if worker.sent or not worker.alive:
                found.append(("hear worker", ""))
        for checkpoint, frozen in self.frozen.items():
            if frozen.alive and frozen.thaws and not self.thawed and not self.pending_worker:
                found.append(("thaw", checkpoint))
            if frozen.sent or not frozen.alive:
                found.append(("hear checkpoint", checkpoint))
        if self.thawed:
            found.append(("hear thawing", ""))
        if self.unconcluded:
            found.append(("conclude", ""))
        if self.looks and _is_known(self.looks[0][2]):
            found.append(("answer look", ""))
        if self.checks:
            found.append(("answer check", ""))
        if self.writing:
            found.append(("image", ""))
        return [] if self.stopped else found

    def deaths(self) -> list[Move]:
        """Return who can be killed now."""
        found: list[Move] = []
        if self.stopped:
            return found
        if self.worker is not None and self.worker.alive:
            found.append(("kill worker", ""))
        if self.pending_worker is not None and self.pending_worker.alive:
            found.append(("kill thawed", ""))
        found += [("kill checkpoint", c) for c, f in self.frozen.items() if f.alive]
        found += [("spoil image", name) for name in self.images]
        found += [("time out", t) for t in sorted(self.timers)]
        return found

    def play(self, move: Move) -> None:  # noqa: C901, PLR0912 - a flat table
        what, who = move
        checkpoint = CheckpointId(who)
        match what:
            case "work":
                assert self.worker is not None
                self._work(self.worker)
            case "hear worker":
                self._hear_worker()
            case "thaw":
                self._thaw(checkpoint)
            case "hear checkpoint":
                frozen = self.frozen[checkpoint]
                if frozen.sent:
                    self.handle(frozen.sent.popleft())
                else:
                    del self.frozen[checkpoint]
                    self.handle(ev.CheckpointGone(checkpoint))
            case "hear thawing":
                event = self.thawed.popleft()
                if isinstance(event, ev.ThawFailed):
                    self.thawing = self.pending_worker = None
                self.handle(event)
            case "conclude":
                self._conclude(self.unconcluded.popleft())
            case "answer look":
                self._answer_look(*self.looks.popleft())
            case "answer check":
                self.checks -= 1
                self.handle(ev.FilesChecked(()))
            case "image":
                self._hear_image(self.writing.popleft())
            case "spoil image":
                del self.images[ImageName(who)]
            case "kill worker":
                assert self.worker is not None
                self.worker.alive = False
                self.worker.commands.clear()
            case "kill thawed":
                assert self.pending_worker is not None
                self.pending_worker.alive = False
            case "kill checkpoint":
                self._kill_frozen(checkpoint)
            case "time out":
                self.timers.discard(who)
                self.handle(ev.TimedOut(who))  # type: ignore[arg-type]

    def _run(self, worker: Worker, request: Request, step: Step | None) -> None:
        """Run one request."""
        if request.kind != "again":
            self.ended[request.seq] = self.ended.get(request.seq, 0) + 1
        is_cell = step is not None and request.cell is not None
        if request.cell is not None and request.cell.source in MAGICS:
            is_cell = False
            ask = Ask(-1, *MAGICS[request.cell.source], from_cell=True)  # type: ignore[arg-type]
            worker.sent.append(ev.Asked(ask))
        done = ev.RequestDone(request.seq, 0.001, outcome="ok" if is_cell else None)
        if step is not None and is_cell:
            worker.cells = (*worker.cells, step.source)
            if step.source == "open":
                worker.live = (*worker.live, ("file", request.seq))
            self.computed.append(step.source)
            self.unconcluded.append(step)
            step.seconds = seconds_of(step.source)
            done = replace(done, seconds=step.seconds)
        worker.sent.append(done)

    def _work(self, worker: Worker) -> None:
        match worker.commands.popleft():
            case do.Dispatch(request, step):
                self._run(worker, request, step)
            case do.Fork(checkpoint):
                if self.refuse_next:
                    self.refuse_next = False
                    reasons = (Hazard(kind="native-threads", what="a test"),)
                    worker.sent.append(ev.Refused(checkpoint, reasons))
                else:
                    frozen = Frozen(worker.cells, worker.live)
                    frozen.sent.append(ev.Froze(checkpoint, next(self.pids)))
                    self.frozen[checkpoint] = frozen
                    worker.sent.append(ev.Forked(checkpoint, 0.001))
            case do.MakeImage(name):
                self.images[name] = Worker(0, cells=worker.cells, live=worker.live)
                worker.sent.append(worker.image(name))
            case do.LoadImage(name, keep):
                self._load(worker, name, keep)
            case do.Call():
                worker.sent.append(ev.CallReturned({}))
            case do.AskWorkerToExit():
                worker.alive = False

    def _load(self, worker: Worker, name: ImageName, keep: tuple[str, ...]) -> None:
        image = self.images.get(name)
        if image is None:
            worker.sent.append(ev.ImageLoaded(name, "it is gone."))
            return
        assert image.cells[: len(worker.cells)] == worker.cells, "loaded over another state"
        assert set(keep) == {made for made, _ in worker.live}, "variables are missing"
        assert set(keep) == {made for made, _ in image.live}, "variables are missing"
        worker.cells = image.cells
        self.loads += 1
        worker.sent.append(ev.ImageLoaded(name))

    def _hear_image(self, name: ImageName) -> None:
        image = self.images.get(name)
        if image is None:
            self.handle(ev.ImageFailed(name, "it ended early"))
        else:
            self.handle(image.image(name))

    def _hear_worker(self) -> None:
        worker = self.worker
        assert worker is not None
        if worker.sent:
            self.handle(worker.sent.popleft())
        else:
            self.worker = None
            self.handle(ev.WorkerGone("killed"))

    def _thaw(self, checkpoint: CheckpointId) -> None:
        frozen = self.frozen[checkpoint]
        kept = frozen.thaws.popleft()
        self.pending_worker = Worker(next(self.pids), cells=frozen.cells, live=frozen.live)
        self.thawed.append(ev.Thawed(checkpoint, self.pending_worker.pid, kept))
        if kept:
            frozen.sent.append(ev.Froze(checkpoint, next(self.pids)))
        else:
            frozen.alive = False

    def _kill_frozen(self, checkpoint: CheckpointId) -> None:
        frozen = self.frozen[checkpoint]
        frozen.alive = False
        if frozen.thaws:  # it was told to go live and never did
            frozen.thaws.clear()
            self.thawed.append(ev.ThawFailed(checkpoint))

    def _conclude(self, step: Step) -> None:
        """The lineage of a cell comes out, and it is recorded."""
        parent = step.parent
        assert parent is not None
        parent.node = parent.node or node_of(sources(parent))
        step.taint = f"lot {next(self.lots)}" if "lucky" in step.source else parent.taint
        step.node = node_of(sources(step))
        known = PathCell(
            node=step.node,
            parent=parent.node,
            taint=step.taint,
            source=step.source,
            seconds=seconds_of(step.source),
            execution_count=step.number,
        )
        self.recorded.setdefault(f"{parent.node} {parent.taint}", {})[step.source] = known

    def _answer_look(self, seq: int, source: str, place: Step) -> None:
        state = f"{place.node or node_of(sources(place))} {place.taint}"
        known = self.recorded.get(state, {}).get(source)
        found = None
        if known is not None and "lucky" not in source:
            found = ev.Found(known, a_lineage(known), ())
        self.handle(ev.Looked(seq, place, found=found, is_novel=known is None))

    # ------------------------------------------------------------ how it must end

    def check(self) -> None:
        """Check what holds at every moment."""
        for counts in (self.ended, self.answered):
            assert all(n == 1 for n in counts.values()), "answered twice"
        for checkpoint in self.state.held:
            assert checkpoint.id in self.ids

    def settle(self) -> None:
        """Let everything happen that will; the engine must come to rest, able to work."""
        for _ in range(1000):
            moves = self.moves()
            if not moves:
                break
            self.play(moves[0])
        else:
            raise AssertionError("the engine does not come to rest")
        self.check()
        if not self.stopped:
            assert isinstance(self.state.doing, Idle), f"stuck in {self.state.doing}"
            assert self.worker is not None
            assert not self.holding
            assert not self.state.queue


def sources(step: Step | None) -> tuple[str, ...]:
    """Return the cells that lead to a step."""
    return tuple(each.source for each in step.path()[1:]) if step is not None else ()


def seconds_of(source: str) -> float:
    return 5.0 if source == "slow" else 0.001


def node_of(cells: tuple[str, ...]) -> NodeId:
    return NodeId("/".join(cells) or "root")


def a_lineage(cell: PathCell) -> CellLineage:
    return CellLineage(
        node=cell.node,
        parent=cell.parent,
        code=cell.source,
        strict="",
        number=cell.execution_count,
        execution_count=cell.execution_count,
        source=cell.source,
        audit=CellAudit(),
        seconds=cell.seconds,
        size_bytes=0,
    )


def _is_known(place: Step) -> bool:
    return place.node is not None or place.parent is None
