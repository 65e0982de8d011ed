"""Recording and replaying programs in this process, and running them as they are."""

from __future__ import annotations

import ast
import builtins
import contextlib
import io
import itertools
import json
import random
import sys
import textwrap
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash

from chexpoint.hindsight import Pace, blocks_to_step_into, compare_programs, judge, recorder
from chexpoint.hindsight.loading import Images
from chexpoint.hindsight.orders import CellOrder
from chexpoint.hindsight.programs import instrumented
from chexpoint.hindsight.recorder import Recorder
from chexpoint.hindsight.replayer import Replayer
from chexpoint.hindsight.run_log import read_run
from chexpoint.hindsight.run_place import RunPlace
from chexpoint.hindsight.runtime import NAME, Loops, SegmentDone
from chexpoint.hindsight.verdict import Judgement
from chexpoint.hindsight.writing.materialiser import Paid, Saved, Snapshot
from chexpoint.model import LoopRun, Segment
from chexpoint.replay.hindsight_source import line_map
from chexpoint.store import Store

BEGINS = "iteration"
"""A program prints a line that begins so at the start of each iteration of its main loop."""
OVER = "over"
"""And this line after the loop."""
PROBE = "P "
"""What added statements print begins so."""

_serial = itertools.count()


class Written:
    """Stores snapshots at once; a `Materialiser` without a process of its own."""

    def __init__(self, store: str, folder: str) -> None:
        self._store, self._saved = Store.open(store), Path(folder) / "saved.jsonl"

    def start(self) -> None:
        pass

    def submit(self, snapshot: Snapshot, *, wait: bool) -> Paid | None:
        held: dict[str, dict[str, bytes]] = {"array": {}, "stream": {}}
        for part in snapshot.parts:
            data = bytearray(part.nbytes)
            part.copy_into(memoryview(data))
            held[part.kind][part.key] = bytes(data)
        self._store.put(
            snapshot.name,
            json.loads(json.dumps(snapshot.document)),
            streams=held["stream"],
            arrays=held["array"],
            like=snapshot.like,
            cost_s=snapshot.cost_s,
        )
        digests = {key: xxhash.xxh3_128_hexdigest(data) for key, data in held["array"].items()}
        line = {"image": snapshot.name, "digests": digests, "bytes": snapshot.nbytes}
        with self._saved.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line | {"stored_bytes": 0, "seconds": 0.0}) + "\n")
        return Paid(seconds=0.0)

    def poll(self) -> list[Saved]:
        return []

    def drain(self, timeout_s: float | None) -> bool:
        return True

    def finish(self) -> None:
        pass

    def paid_later(self) -> float:
        return 0.0


def _paced(wanted: Sequence[bool]) -> type:
    """Return a pace that keeps iterations as a pattern says, over and over."""

    class Patterned(Pace):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self._wanted = itertools.cycle(wanted)

        def allows(self, *_: Any, **__: Any) -> bool:
            return next(self._wanted)

    return Patterned


@contextlib.contextmanager
def fresh_main() -> Iterator[dict[str, Any]]:
    """Let a new module be ``__main__``, with generators in a state that nobody knows."""
    before, module = sys.modules["__main__"], types.ModuleType("__main__")
    random.seed()
    np.random.seed()
    sys.modules["__main__"] = module
    try:
        yield vars(module)
    finally:
        sys.modules["__main__"] = before


@contextlib.contextmanager
def _own_loops() -> Iterator[Loops]:
    """Let programs of this process find loops of their own."""
    before = vars(builtins).get(NAME)
    loops = Loops()
    setattr(builtins, NAME, loops)
    try:
        yield loops
    finally:
        loops.follow(None)
        if before is None:
            delattr(builtins, NAME)
        else:
            setattr(builtins, NAME, before)


@dataclass(frozen=True, slots=True)
class Replayed:
    """What came of a replay."""

    events: list[dict[str, Any]]
    judgement: Judgement

    @property
    def added(self) -> list[str]:
        """What added statements printed."""
        return [row.value.value for row in self.judgement.rows if row.is_added]

    @property
    def standings(self) -> set[str]:
        return {row.standing for row in self.judgement.rows if row.is_added}

    def count(self, kind: str, **fields: object) -> int:
        return sum(
            event["e"] == kind and all(event.get(k) == v for k, v in fields.items())
            for event in self.events
        )


class Workshop:
    """Where programs are recorded and replayed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store = folder / "loops", str(folder / "store")
        self.problem = ""

    def record(self, source: str, *, wanted: Sequence[bool] = (True,)) -> LoopRun:
        """Record a program, however quick it is."""
        run, source = f"r{next(_serial)}", textwrap.dedent(source)
        place = RunPlace(
            folder=self.folder,
            store=self.store,
            session="s",
            epsilon=1.0,
            materialiser=Written,
        )
        with pytest.MonkeyPatch.context() as patch, _own_loops() as loops, fresh_main() as names:
            patch.setattr(recorder, "Pace", _paced(wanted))
            patch.setattr(recorder, "_WORTH_S", 0.0)
            program, tree = instrumented(loops, ast.parse(source), source)
            course = Recorder(loops, place, program, run=run, count=1, file="")
            loops.follow(course)
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(tree, "<cell>", "exec"), names)  # noqa: S102
            loops.follow(None)
            course.close()
        self.problem = course.problem
        return read_run(self.folder / run)

    def replay(self, run: LoopRun, new: str, segment: Segment, *, loop: int = 0) -> Replayed:
        """Replay a part of a recorded program to which statements were added."""
        new = textwrap.dedent(new)
        edit = compare_programs(run.source, new)
        assert edit.problems == ()
        step_into = blocks_to_step_into(edit, run.sites)
        order = CellOrder(
            source=new, added=edit.ranges, run=run, step_into=step_into, loop=loop, segment=segment
        )
        out = self.folder / f"out{next(_serial)}"
        with _own_loops() as loops, fresh_main() as names:
            _, tree = instrumented(
                loops, ast.parse(new), new, added=edit.ranges, step_into=step_into
            )
            course = Replayer(loops, order, images=Images(self.store), out=out)
            loops.follow(course)
            with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SegmentDone):
                exec(compile(tree, "<cell>", "exec"), names)  # noqa: S102
            loops.follow(None)
            course.close()
        events = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
        lines = line_map(run.source, new, added=edit.ranges, removed=edit.removed)
        return Replayed(events, _judged(run, loop, events, edit.ranges, lines, segment))


def _judged(
    run: LoopRun,
    loop: int,
    events: list[dict[str, Any]],
    added: tuple[tuple[int, int], ...],
    lines: Callable[[int], int],
    segment: Segment,
) -> Judgement:
    return judge(
        run,
        loop,
        events,
        version="v",
        added=added,
        removed=(),
        line_map=lines,
        segment=segment,
    )


def plain_lines(source: str) -> list[list[str]]:
    """Run a program as it is; return what it prints in each iteration of its main loop."""
    told = io.StringIO()
    with fresh_main() as names, contextlib.redirect_stdout(told):
        exec(compile(textwrap.dedent(source), "<plain>", "exec"), names)  # noqa: S102
    found: list[list[str]] = []
    for line in told.getvalue().splitlines():
        if line == OVER:
            break
        if line.startswith(BEGINS):
            found.append([])
        elif found:
            found[-1].append(line)
    return found


def probed(source: str, after: str, probe: str) -> str:
    """Return a program with a statement added after the first line that has a text."""
    lines = textwrap.dedent(source).splitlines()
    at = next(number for number, line in enumerate(lines) if after in line)
    return with_line(lines, at, probe)


def with_line(lines: Sequence[str], at: int, probe: str) -> str:
    """Return a program with a statement after a line, in the same block of statements."""
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    return "\n".join([*lines[: at + 1], indent + probe, *lines[at + 1 :]]) + "\n"


def whole(run: LoopRun, *, loop: int = 0) -> Segment:
    """Return the segment of a whole loop."""
    stop = len(run.loops[loop].iterations)
    return Segment(start=0, stop=stop, first=0, is_jump=False)


def jump(run: LoopRun, to: int, *, loop: int = 0) -> Segment:
    """Return the segment from an iteration on, which is reached at once."""
    record = run.loops[loop]
    assert record.can_jump, record.why_not
    assert record.iterations[to].start is not None
    return Segment(start=to, stop=len(record.iterations), first=to, is_jump=True)


def expected(new: str, segment: Segment) -> list[str]:
    """Return what added statements print in the iterations of a segment, if all is computed."""
    lines = plain_lines(new)[segment.start : segment.stop]
    return [line for row in lines for line in row if line.startswith(PROBE)]
