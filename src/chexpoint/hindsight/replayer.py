"""Replays main loops of a recorded program: skips blocks whose state is known, checks what it can.

What it finds is appended to a file, line by line, as it happens; see `chexpoint.hindsight.verdict`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from chexpoint.errors import ChexError
from chexpoint.hindsight.facts import differences, use_threads
from chexpoint.hindsight.loading import Images
from chexpoint.hindsight.loggers import Call, LogTap
from chexpoint.hindsight.orders import CellOrder
from chexpoint.hindsight.places import inner_prefix, labels_at, roots_at
from chexpoint.hindsight.restores import note_restore
from chexpoint.hindsight.run_story import NO_IMAGE
from chexpoint.hindsight.runtime import Loops, OpenLoop, SegmentDone, frame_of
from chexpoint.hindsight.scope import bind_names
from chexpoint.hindsight.state.putting_back import CannotPutBack, StoredLeaf, put_back
from chexpoint.hindsight.state.sketches import sketches
from chexpoint.hindsight.state.survey import Survey, take_survey
from chexpoint.model import (
    BlockRecord,
    IterationRecord,
    LoopCheckpoint,
    LoopRecord,
    LoopRun,
    LoopSite,
    Segment,
)

# Added statements are watched so often: what they change, they change at once.
_WATCHED = 3


@dataclass(slots=True, eq=False)
class _Main:
    """The main loop that is running."""

    number: int
    record: LoopRecord
    segment: Segment | None
    names: tuple[str, ...]
    blocks: int = 0
    block_started: float = 0.0
    base: dict[str, object] = field(default_factory=dict)
    """Marks at its beginning."""
    known: dict[str, tuple[object, str]] = field(default_factory=dict)
    """Leaves that were put back: their marks then, and the images."""


class Replayer:
    """The course of a program that is being replayed."""

    def __init__(self, loops: Loops, order: CellOrder, *, images: Images, out: Path) -> None:
        self._loops, self._order, self._images, self._out = loops, order, images, out
        run = order.run
        self._run = run if run is not None else LoopRun(run="", source="")
        self._next = 0
        self._executions: dict[int, int] = {}
        self._main: _Main | None = None
        self._tap = LogTap(self._take_call)
        self._tap.forward = False
        self._added = 0
        self._added_names = order.added_names()
        self._before: Survey | None = None
        self._watched: dict[int, int] = {}
        self.is_done = False
        """Whether the segment was replayed to its end."""

    # ------------------------------------------------------------ the course

    def begin_main(self, loop: OpenLoop, frame: FrameType) -> bool:
        ordinal = self._executions.get(loop.number, 0)
        self._executions[loop.number] = ordinal + 1
        record = self._expected(loop, ordinal)
        if record is None:
            loop.facts["is_passive"] = True
            return True
        number, self._next = self._next, self._next + 1
        use_threads(self._run.facts)
        if number == 0:
            for text in differences(self._run.facts):
                self._event(e="note", text=text)
        is_target = self._order.segment is not None and number == self._order.loop
        main = self._main = _Main(
            number=number,
            record=record,
            segment=self._order.segment if is_target else None,
            names=self._run.sites[record.site].names,
        )
        can_skip = main.segment is None and record.can_jump and record.end is not None
        if can_skip and self._put_back(main, loop, record.end, frame, None, None):
            self._main = None
            return False
        loop.facts["label"] = self._run.sites[record.site].label
        first = _iteration(record, 0).start
        if first is not None:
            # So that what is drawn at random before the loop need not be the same again.  Here,
            # because what the loop runs over may change the state before it gives an item.
            self._put_back(main, loop, first, frame, None, None)
        self._compare_base(main, loop, frame)
        self._tap.install()
        return True

    def take_iterable(self, loop: OpenLoop, iterable: Iterable[Any]) -> int:
        main = self._main
        if main is None or loop.facts.get("is_passive"):
            return 0
        segment = main.segment
        if segment is None or not segment.is_jump or not segment.first:
            return 0
        loop.facts["jump"] = True
        return segment.first

    def begin_iteration(self, loop: OpenLoop, frame: FrameType) -> bool:
        main = self._main
        if main is None or loop.facts.get("is_passive"):
            return False
        main.blocks = self._added = 0
        record = _iteration(main.record, loop.index)
        segment = main.segment
        self._tap.refresh()
        if segment is not None and loop.index >= segment.stop:
            self._finish(main, loop, record.start, frame, loop.index)
        if loop.facts.pop("jump", False):
            start = record.start
            if not self._put_back(main, loop, start, frame, None, None):
                what = f"the state before iteration {loop.index} could not be put back"
                self._event(e="failed", text=what, walk=True)
                raise SegmentDone
        elif loop.index and record.start is not None:
            self._check(main, loop, record.start, frame, (loop.index,))
        self._event(e="iter", n=main.number, i=loop.index, t=round(time.perf_counter(), 6))
        return True

    def end_main(self, loop: OpenLoop, frame: FrameType | None) -> None:
        main, self._main = self._main, None
        self._tap.remove()
        if main is None or frame is None:
            return
        if main.segment is not None:
            self._main = main
            self._finish(main, loop, main.record.end, frame, loop.index + 1)

    def begin_block(self, loop: OpenLoop, frame: FrameType) -> bool:
        main, outer = self._main, self._loops.main
        loop.facts["is_counted"] = True
        if main is None or outer is None or outer.facts.get("is_passive"):
            return True
        record = self._block(main, outer, loop)
        loop.facts["record"] = record
        if record is not None:
            loop.facts["label"] = self._run.sites[record.site].label
        must_run = self._is_reported(main, outer) and self._is_probed(loop)
        checkpoint = None if must_run or record is None else record.checkpoint
        if checkpoint and self._put_back(main, outer, checkpoint, None, loop, frame):
            place = {"n": main.number, "i": outer.index, "b": main.blocks}
            self._event(e="block", **place, skipped=True, s=0.0)
            main.blocks += 1
            return False
        main.block_started = time.perf_counter()
        return True

    def end_block(self, loop: OpenLoop, frame: FrameType | None) -> None:
        main, outer = self._main, self._loops.main
        if main is None or outer is None:
            return
        seconds = round(time.perf_counter() - main.block_started, 6)
        place = {"n": main.number, "i": outer.index, "b": main.blocks}
        self._event(e="block", **place, skipped=False, s=seconds)
        record = loop.facts.get("record")
        after = _after(main.record, outer.index)
        if frame is not None and after is None and record and record.checkpoint is not None:
            at = outer.index, main.blocks
            self._check(main, outer, record.checkpoint, None, at, block=loop, inner=frame)
        main.blocks += 1

    def before_added(self, loop: OpenLoop, group: int, frame: FrameType) -> None:
        self._added += 1
        main = self._main
        if main is not None and self._watched.get(group, 0) < _WATCHED:
            self._watched[group] = self._watched.get(group, 0) + 1
            outer = frame_of(loop, frame)
            names = (*main.names, *self._added_names)
            self._before = take_survey(roots_at(loop, outer, None, None, names))

    def after_added(self, loop: OpenLoop, group: int, frame: FrameType) -> None:
        self._added = max(0, self._added - 1)
        before, self._before = self._before, None
        main = self._main
        if before is None or main is None:
            return
        names = (*main.names, *self._added_names)
        now = take_survey(roots_at(loop, frame_of(loop, frame), None, None, names))
        changed = sorted(now.changed_since(before))
        if changed:
            line = self._loops.own_line(frame.f_lineno)
            self._event(e="changed", n=main.number, at=[loop.index], line=line, leaves=changed)

    def failed(self, error: Exception) -> None:
        self._tap.remove()
        self._main = None
        text = str(error) if isinstance(error, ChexError) else f"{type(error).__name__}: {error}"
        self._event(e="failed", text=text)

    def close(self) -> None:
        """The program has ended."""
        self._tap.remove()
        self._images.close()

    # ------------------------------------------------------------ what the record says

    def _expected(self, loop: OpenLoop, ordinal: int) -> LoopRecord | None:
        """Return the record of a main loop, if it is the next one that was recorded."""
        if self._next >= len(self._run.loops):
            return None
        record = self._run.loops[self._next]
        is_it = self._is_site(record.site, loop) and record.ordinal == ordinal
        return record if is_it else None

    def _block(self, main: _Main, outer: OpenLoop, loop: OpenLoop) -> BlockRecord | None:
        blocks = _iteration(main.record, outer.index).blocks
        if main.blocks >= len(blocks):
            return None
        record = blocks[main.blocks]
        return record if self._is_site(record.site, loop) else None

    def _is_site(self, site: int, loop: OpenLoop) -> bool:
        """Return whether a loop is a recorded one; those of the cell itself have its numbers."""
        program = loop.program
        is_own = program.source == self._order.source and not loop.is_explicit
        if is_own and site != loop.number - program.first:
            return False
        return _is_same(self._run.sites[site], loop.site)

    def _is_reported(self, main: _Main, outer: OpenLoop) -> bool:
        segment = main.segment
        return segment is not None and segment.start <= outer.index < segment.stop

    def _is_probed(self, loop: OpenLoop) -> bool:
        return loop.number - loop.program.first in loop.program.step_into

    def _finish(
        self,
        main: _Main,
        loop: OpenLoop,
        checkpoint: LoopCheckpoint | None,
        frame: FrameType,
        at: int,
    ) -> None:
        if checkpoint is not None:
            self._check(main, loop, checkpoint, frame, (at,))
        self._tap.remove()
        self._main = None
        self.is_done = True
        self._event(e="done")
        raise SegmentDone

    # ------------------------------------------------------------ state

    def _put_back(
        self,
        main: _Main,
        loop: OpenLoop,
        checkpoint: LoopCheckpoint | None,
        frame: FrameType | None,
        block: OpenLoop | None,
        inner: FrameType | None,
    ) -> bool:
        """Put the state of a checkpoint back; say why if that cannot be."""
        if checkpoint is None or _has_digests_only(checkpoint):
            return False
        started = time.perf_counter()
        roots = roots_at(loop, frame, block, inner, main.names)
        try:
            stored = {
                name: self._images.leaf(image, name)
                for name, image in self._missing(main, roots, checkpoint).items()
            }
            # What only added statements read, and perhaps holds some of the state, too.
            everything = roots_at(loop, frame, None, inner, self._added_names)
            beside = {name: each for name, each in everything.items() if name not in roots}
            bound = put_back(roots, stored, beside)
        except (ChexError, KeyError, OSError) as error:
            self._event(e="note", text=f"a state was computed again: {error}")
            return False
        outer = frame if frame is not None else frame_of(loop, inner)
        if outer is not None:
            bind_names(outer, {k: v for k, v in bound.items() if not k.startswith("~")})
        if block is not None and inner is not None:
            prefix = inner_prefix(block)
            own = {k.removeprefix(prefix): v for k, v in bound.items() if k.startswith(prefix)}
            bind_names(inner, own)
        survey = take_survey(roots_at(loop, frame, block, inner, main.names))
        for name, image in checkpoint.leaves.items():
            if name in survey.leaves:
                main.known[name] = survey.leaves[name].mark, image
        self._tell_restored(stored, time.perf_counter() - started)
        return True

    def _tell_restored(self, stored: Mapping[str, StoredLeaf], seconds: float) -> None:
        self._event(e="restored", s=round(seconds, 6))
        if self._order.folder is not None:
            nbytes = sum(memoryview(leaf.data).nbytes for leaf in stored.values())
            note_restore(self._order.folder, nbytes, seconds)

    def _compare_base(self, main: _Main, loop: OpenLoop, frame: FrameType) -> None:
        """Tell what is not as it was when the loop began, and will not be put back."""
        segment = main.segment
        at = segment.first if segment is not None and segment.is_jump else 0
        start = _iteration(main.record, at).start
        covered = {} if start is None else start.leaves
        survey = take_survey(roots_at(loop, frame, None, None, main.names))
        main.base = {name: leaf.mark for name, leaf in survey.leaves.items()}
        now = sketches(survey.leaves)
        differing = sorted(
            name
            for name, sketch in main.record.base.items()
            # Generators that nobody has seeded differ; if the loop uses one, a check shows it.
            if name[0] != "@" and name not in covered and now.get(name, sketch) != sketch
        )
        if differing:
            self._event(e="differs", n=main.number, at=[at], leaves=differing)

    def _missing(
        self, main: _Main, roots: dict[str, object], checkpoint: LoopCheckpoint
    ) -> dict[str, str]:
        """Return the leaves that are not in place already, and the images they are in.

        Raises
        ------
        ChexError
            If a leaf has changed of which the checkpoint says that it is as at the beginning.
        """
        if not main.known and not main.base:
            return dict(checkpoint.leaves)
        now = take_survey(roots).leaves
        for name in main.base.keys() & now.keys():
            if name not in checkpoint.leaves and now[name].mark != main.base[name]:
                raise CannotPutBack(f"'{name}' is not as it was when the loop began")
        wanted = {}
        for name, image in checkpoint.leaves.items():
            mark, at = main.known.get(name, (None, ""))
            if at != image or name not in now or now[name].mark != mark:
                wanted[name] = image
        return wanted

    def _check(
        self,
        main: _Main,
        loop: OpenLoop,
        checkpoint: LoopCheckpoint,
        frame: FrameType | None,
        at: tuple[int, ...],
        *,
        block: OpenLoop | None = None,
        inner: FrameType | None = None,
    ) -> None:
        """Tell what the state is at a point of which the record has one."""
        survey = take_survey(roots_at(loop, frame, block, inner, main.names))
        digests: dict[str, str | None] = {}
        for name, image in checkpoint.leaves.items():
            leaf = survey.leaves.get(name)
            mark, where = main.known.get(name, (None, ""))
            if leaf is None:
                digests[name] = "missing"
            elif where == image and leaf.mark == mark:
                digests[name] = self._run.digests.get(image, {}).get(name)
            elif _is_idle(main, name, image) and leaf.mark == main.base.get(name):
                digests[name] = None
            elif name in self._run.digests.get(image, {}):
                digests[name] = leaf.digest()
                if digests[name] == self._run.digests[image][name]:
                    main.known[name] = leaf.mark, image
            else:
                digests[name] = None
        self._event(e="check", n=main.number, at=list(at), leaves=digests)

    # ------------------------------------------------------------ what it tells

    def _take_call(self, call: Call) -> None:
        main, outer = self._main, self._loops.main
        if main is None or outer is None or outer.index < 0 or outer.is_left:
            return
        if not self._is_reported(main, outer):
            return
        block = self._loops.block
        at = [outer.index] if block is None or block.index < 0 else [outer.index, block.index]
        self._event(
            e="log",
            n=main.number,
            at=at,
            labels=labels_at(outer, block),
            line=self._loops.own_line(call.line),
            via=call.via,
            name=call.name,
            value=call.value,
            added=self._added > 0,
        )

    def _event(self, **fields: Any) -> None:
        with open(self._out, "a", encoding="utf-8") as file:
            file.write(json.dumps(fields) + "\n")


def _has_digests_only(checkpoint: LoopCheckpoint) -> bool:
    """Return whether no contents were kept, of a loop that was over at once."""
    return any(image.startswith(NO_IMAGE) for image in checkpoint.leaves.values())


def _is_idle(main: _Main, name: str, image: str) -> bool:
    """Return whether nobody used a generator of the process: unseeded, it is another each time."""
    start = _iteration(main.record, 0).start
    return name[0] == "@" and start is not None and start.leaves.get(name) == image


def _iteration(record: LoopRecord, index: int) -> IterationRecord:
    """Return what is known of an iteration; nothing if the record does not reach so far."""
    return record.iterations[index] if index < len(record.iterations) else IterationRecord()


def _after(record: LoopRecord, index: int) -> LoopCheckpoint | None:
    """Return the state after an iteration, if the record has it."""
    is_last = index + 1 == len(record.iterations)
    return record.end if is_last else _iteration(record, index + 1).start


def _is_same(one: LoopSite, other: LoopSite) -> bool:
    """Return whether two sites are the same loop; lines move when statements are added."""
    if (one.function, one.kind) != (other.function, other.kind):
        return False
    # The explicit form may have given its iterations a name that the text does not show.
    return one.label == other.label or one.names == other.names
