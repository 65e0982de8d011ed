"""What instrumented programs call: finds out which loop is what, and asks a course what to do.

The outermost instrumented loop that runs is the main loop.  An instrumented loop that runs in an
iteration of it, in the same function or in one that it calls, is a block.  Loops inside a block
are part of it.
"""

from __future__ import annotations

import builtins
import contextlib
import itertools
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, Protocol, TypeGuard

from chexpoint.model import LoopSite

NAME = "__chex__"
"""By this name, in `builtins`, programs find the loops of their process."""


# A loop that is entered so often, and this soon again, belongs to what it is called by.
_OFTEN, _RARE_S = 256, 0.002


_ListIterator: type[Any] = type(iter([]))


class SegmentDone(BaseException):
    """The part of a loop that was to be replayed has been."""


@dataclass(slots=True, eq=False)
class Program:
    """An instrumented piece of source: its loops have numbers of their own in a process."""

    source: str
    sites: tuple[LoopSite, ...]
    first: int
    """The number of its first loop in the process."""
    offset: int = 0
    """How many lines of its file come before it."""
    left: tuple[tuple[int, str], ...] = ()
    """Lines of loops that are not followed, and why."""
    step_into: frozenset[int] = frozenset()
    """Sites, in its own numbers, that a replay has to execute."""

    @property
    def stop(self) -> int:
        """The number after its last."""
        return self.first + len(self.sites)

    def site(self, number: int) -> LoopSite:
        return self.sites[number - self.first]


@dataclass(slots=True, eq=False)
class OpenLoop:
    """A loop that is running."""

    number: int
    """Of its site, in the process."""
    program: Program
    frame: int
    """Which frame it runs in; an id, because holding the frame would keep its variables alive."""
    code: CodeType
    """The code of that frame: once it is gone, another frame may have its id."""
    index: int = -1
    """Of the iteration that is running."""
    is_exhausted: bool = False
    is_left: bool = False
    """Whether a break, a return or an exception has ended it; nobody can tell which."""
    is_explicit: bool = False
    """Whether it is a `SkipBlock`, which has no place in a text."""
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def site(self) -> LoopSite:
        return self.program.site(self.number)

    def is_in(self, frame: FrameType) -> bool:
        """Return whether it runs in a frame."""
        return id(frame) == self.frame and frame.f_code is self.code


class Course(Protocol):
    """What is to be done at the points of a loop: recording, or replaying."""

    def begin_main(self, loop: OpenLoop, frame: FrameType) -> bool:
        """Return whether the loop is to run."""

    def take_iterable(self, loop: OpenLoop, iterable: Iterable[Any]) -> int:
        """Look at what the main loop runs over; return how many items to pass over."""

    def begin_iteration(self, loop: OpenLoop, frame: FrameType) -> bool:
        """Return whether anything is still to be done in this loop."""

    def end_main(self, loop: OpenLoop, frame: FrameType | None) -> None:
        """The main loop has ended; without a frame, nobody knows where or how."""

    def begin_block(self, loop: OpenLoop, frame: FrameType) -> bool:
        """Return whether the block is to run."""

    def end_block(self, loop: OpenLoop, frame: FrameType | None) -> None:
        """The block has ended; without a frame, by an exception or a return."""

    def before_added(self, loop: OpenLoop, group: int, frame: FrameType) -> None:
        """Statements come that are not in the recorded program."""

    def after_added(self, loop: OpenLoop, group: int, frame: FrameType) -> None:
        """They have run."""

    def failed(self, error: Exception) -> None:
        """Something of ours went wrong: the program goes on without us."""


class Loops:
    """The loops of a process; programs find it under `NAME` in `builtins`."""

    def __init__(self) -> None:
        self.course: Course | None = None
        self.programs: list[Program] = []
        self.main: OpenLoop | None = None
        self.block: OpenLoop | None = None
        self._thread = threading.get_ident()
        self._entered: dict[int, tuple[int, float]] = {}
        """How often each loop was entered, and when first."""
        self._bored: set[int] = set()
        """Loops that come too often to be worth a look."""
        self._added = 0
        """How many added statements are running, one in another: what they do is not followed."""
        self._expected: tuple[int, int] | None = None
        """Site and frame of the loop whose iterable is being evaluated."""

    # ------------------------------------------------------------ for those who run programs

    def add_program(self, program: Program) -> None:
        """Make the loops of a program known; its numbers begin at `next_number`."""
        self.programs.append(program)

    @property
    def next_number(self) -> int:
        return self.programs[-1].stop if self.programs else 0

    def follow(self, course: Course | None) -> None:
        """Do as a course says from now on, in the present thread."""
        self.main = self.block = self._expected = None
        self._added = 0
        self._entered.clear()
        self._bored.clear()
        self.course, self._thread = course, threading.get_ident()

    def program_of(self, number: int) -> Program | None:
        for program in reversed(self.programs):
            if program.first <= number:
                return program if number < program.stop else None
        return None

    def own_line(self, line: int) -> int:
        """Return which line of its program a line of a file is; cells of a script share one."""
        return line - max((p.offset for p in self.programs if p.offset < line), default=0)

    def is_expecting(self, frame: FrameType) -> bool:
        """Return whether an instrumented loop of this frame is about to begin."""
        return self._expected is not None and self._expected[1] == id(frame)

    # ------------------------------------------------------------ called by programs

    def enter(
        self, number: int, frame: FrameType | None = None, *, is_explicit: bool = False
    ) -> bool:
        """A loop is about to begin; return whether it is to run."""
        course = self.course
        if course is None or number in self._bored or threading.get_ident() != self._thread:
            return True
        if self._added:
            return True
        frame = frame or sys._getframe(1)
        self._expected = number, id(frame)
        self._count(number)
        try:
            return self._enter(course, number, frame, is_explicit=is_explicit)
        except Exception as error:
            self._fail(error)
            return True

    def _enter(self, course: Course, number: int, frame: FrameType, *, is_explicit: bool) -> bool:
        program = self.program_of(number)
        if program is None:
            return True
        loop = OpenLoop(number, program, id(frame), frame.f_code, is_explicit=is_explicit)
        if self.main is not None and not _is_inside(self.main, loop, frame):
            self._leave_main(None)
        if self.main is None:
            if course.begin_main(loop, frame):
                self.main = loop
            return self.main is loop
        if self.block is not None and _is_inside(self.block, loop, frame):
            return True
        self._leave_block(None)
        if self.main.index < 0:
            return True  # in what the main loop runs over
        if course.begin_block(loop, frame):
            self.block = loop
        return self.block is loop

    def iterate(
        self, number: int, iterable: Iterable[Any], frame: FrameType | None = None
    ) -> Iterable[Any]:
        """Return what a loop is to run over."""
        course = self.course
        if course is None or number in self._bored or threading.get_ident() != self._thread:
            return iterable
        frame, self._expected = frame or sys._getframe(1), None
        main, block = self.main, self.block
        if _is_it(main, number, frame) and main.index < 0:
            # Here, so that what is wrong with it is the program's own error.
            items = iter(iterable)
            try:
                passed = course.take_iterable(main, iterable)
            except Exception as error:
                self._fail(error)
                return items
            # The chain goes on with the items themselves when nothing more is to be done.
            return itertools.chain(self._main_items(main, items, passed), items)
        if _is_it(block, number, frame):
            return self._block_items(block, iterable)
        return iterable

    def tick(self, number: int, frame: FrameType | None = None) -> None:
        """An iteration of a ``while`` loop begins."""
        if self.course is None or number in self._bored or threading.get_ident() != self._thread:
            return
        frame = frame or sys._getframe(1)
        self._expected = None
        main, block = self.main, self.block
        if _is_it(main, number, frame):
            self._begin_iteration(main, frame)
        elif _is_it(block, number, frame):
            block.index += 1

    def end(self, number: int, frame: FrameType | None = None) -> None:
        """A loop has come to its end, or was skipped."""
        if self.course is None or number in self._bored or threading.get_ident() != self._thread:
            return
        frame = frame or sys._getframe(1)
        self._expected = None
        main, block = self.main, self.block
        if _is_its_end(block, number, frame):
            self._leave_block(frame)
        elif _is_its_end(main, number, frame):
            self._leave_main(frame)

    def before_added(self, number: int) -> None:
        """Statements that were not in the recorded program come next."""
        self._at_added(number, sys._getframe(1), is_before=True)

    def after_added(self, number: int) -> None:
        self._at_added(number, sys._getframe(1), is_before=False)

    def _at_added(self, group: int, frame: FrameType, *, is_before: bool) -> None:
        course, main = self.course, self.main
        if course is None or threading.get_ident() != self._thread:
            return
        self._added = self._added + 1 if is_before else max(0, self._added - 1)
        if main is None:
            return
        try:
            (course.before_added if is_before else course.after_added)(main, group, frame)
        except Exception as error:
            self._fail(error)

    # ------------------------------------------------------------ inside

    def _count(self, number: int) -> None:
        count, since = self._entered.get(number, (0, 0.0))
        if count == 0:
            since = time.perf_counter()
        elif count == _OFTEN and time.perf_counter() - since < _OFTEN * _RARE_S:
            self._bored.add(number)
        self._entered[number] = count + 1, since

    def _main_items(self, main: OpenLoop, items: Iterator[Any], passed: int) -> Iterator[Any]:
        if passed:
            # The state first: items of a list that the loop changes are found in that.
            main.index = passed - 1
            is_followed = self._begin_iteration(main, frame_of(main, sys._getframe(1)))
            _pass_over(items, passed)
            if not is_followed:
                return
            for item in items:
                yield item
                break
        for item in items:
            frame = frame_of(main, sys._getframe(1))
            if self.main is not main or not self._begin_iteration(main, frame):
                yield item
                return
            try:
                yield item
            except GeneratorExit:
                main.is_left = True
                raise
        main.is_exhausted = True

    def _block_items(self, block: OpenLoop, iterable: Iterable[Any]) -> Iterable[Any]:
        if not block.facts.get("is_counted"):
            return iterable
        return _counted(block, iter(iterable))

    def _begin_iteration(self, main: OpenLoop, frame: FrameType | None) -> bool:
        course = self.course
        if course is None or frame is None:
            return False
        try:
            self._leave_block(None)
            main.index += 1
            self._added = 0  # one that was left by an exception is not told so
            return course.begin_iteration(main, frame)
        except Exception as error:
            self._fail(error)
            return False

    def _leave_main(self, frame: FrameType | None) -> None:
        self._leave_block(None)
        main, self.main = self.main, None
        if main is not None and self.course is not None:
            try:
                self.course.end_main(main, frame)
            except Exception as error:
                self._fail(error)

    def _leave_block(self, frame: FrameType | None) -> None:
        block, self.block = self.block, None
        if block is not None and self.course is not None:
            try:
                self.course.end_block(block, frame)
            except Exception as error:
                self._fail(error)

    def _fail(self, error: Exception) -> None:
        course, self.course = self.course, None
        self.main = self.block = None
        if course is not None:
            with contextlib.suppress(Exception):
                course.failed(error)


def _is_it(loop: OpenLoop | None, number: int, frame: FrameType) -> TypeGuard[OpenLoop]:
    return loop is not None and loop.number == number and loop.is_in(frame)


def _is_its_end(loop: OpenLoop | None, number: int, frame: FrameType) -> bool:
    # IPython runs each statement at the top level of a cell in a frame of its own.
    is_top = loop is not None and loop.number == number and not loop.site.function
    return is_top or _is_it(loop, number, frame)


def _pass_over(items: Iterator[Any], count: int) -> None:
    if isinstance(items, _ListIterator):
        items.__setstate__(count)  # also where the list had been longer
        return
    for _ in range(count):
        next(items, None)


def _counted(block: OpenLoop, items: Iterator[Any]) -> Iterator[Any]:
    for item in items:
        block.index += 1
        yield item


def _is_inside(outer: OpenLoop, loop: OpenLoop, frame: FrameType) -> bool:
    """Return whether a loop that begins in a frame runs inside another one.

    One that was left by a return or an exception is not told so: it is found out here.
    """
    if not outer.is_in(frame):
        return frame_of(outer, frame.f_back) is not None
    if outer.is_explicit or loop.is_explicit:
        # Until it says that it has ended.
        return outer.is_explicit or loop.number != outer.number
    program = outer.program
    is_same = program.first <= loop.number < program.stop
    inner = loop.site.within if is_same else None
    while inner is not None and inner != outer.site.site:
        inner = program.sites[inner].within
    return inner is not None


def frame_of(loop: OpenLoop, start: FrameType | None) -> FrameType | None:
    """Return the frame that a loop runs in, looking outwards."""
    at = start
    while at is not None and not loop.is_in(at):
        at = at.f_back
    return at


def process_loops() -> Loops:
    """Return the loops of this process, for programs to find."""
    found = vars(builtins).get(NAME)
    if not isinstance(found, Loops):
        found = Loops()
        setattr(builtins, NAME, found)
    return found
