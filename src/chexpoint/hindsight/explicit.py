"""The explicit form: `loop` and `SkipBlock`, for those who prefer to say what their loops are.

In a recorded cell they mark loops that are instrumented anyway.  In a plain Python program they
record by themselves, into the folder ``.chex`` of the current folder or one above it.
"""

from __future__ import annotations

import ast
import atexit
import linecache
import os
import sys
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TypeVar

from chexpoint.config import Config
from chexpoint.errors import InvalidValue
from chexpoint.hindsight.program.instrumenting import instrument
from chexpoint.hindsight.recorder import Recorder
from chexpoint.hindsight.run_place import RunPlace
from chexpoint.hindsight.runtime import Loops, Program, process_loops
from chexpoint.model import LoopSite

T = TypeVar("T")

FOLDER = ".chex"
_LAST_WAIT_S = 600.0


def loop(iterable: Iterable[T], name: str | None = None) -> Iterable[T]:
    """Return an iterable whose loop is recorded, and can be replayed in hindsight.

    Parameters
    ----------
    iterable
        What the loop runs over.  The outermost such loop is the main loop, one inside it a block.
    name
        What its iterations are called in results; by default the loop's variable.

    Examples
    --------
    >>> for epoch in loop(range(2)):
    ...     print(epoch)
    0
    1
    """
    frame = sys._getframe(1)
    loops = process_loops()
    if loops.is_expecting(frame):
        return iterable  # the loop around this call is instrumented
    script = _script(loops)
    if script is None:
        return iterable
    number = script.number(frame, name)
    return _explicit(loops, number, iterable, frame)


def _explicit(loops: Loops, number: int, iterable: Iterable[T], frame: FrameType) -> Iterator[T]:
    # The frame is not kept: what is bound in it would live longer than it should.
    where = frame
    del frame
    try:
        if not loops.enter(number, where):
            return
        items = loops.iterate(number, iterable, where)
    finally:
        del where
    yield from items
    loops.end(number, sys._getframe(1))


class SkipBlock:
    """A block that says itself what it changes.

    Parameters
    ----------
    name
        Tells blocks of a program apart.

    Examples
    --------
    >>> block = SkipBlock("training")
    >>> total = 0
    >>> if block.enter():
    ...     for number in range(4):
    ...         total += number
    >>> block.end()
    >>> total
    6
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._number: int | None = None

    def enter(self) -> bool:
        """Return whether the block is to run: not on a replay that knows its state."""
        frame = sys._getframe(1)
        loops = process_loops()
        script = _script(loops)
        if script is None:
            return True
        self._number = script.number(frame, self._name, is_block=True)
        return loops.enter(self._number, frame, is_explicit=True)

    def end(self) -> None:
        """The block has run, or was skipped."""
        if self._number is not None:
            process_loops().end(self._number, sys._getframe(1))


# ---------------------------------------------------------------- a program that records itself


class _Script:
    """The loops of a program that is not a cell, as they turn up."""

    def __init__(self, loops: Loops) -> None:
        self._loops = loops
        self._numbers: dict[tuple[str, int, str], int] = {}

    def number(self, frame: FrameType, name: str | None, *, is_block: bool = False) -> int:
        """Return the number of the loop that runs at the present line of a frame."""
        code = frame.f_code
        key = code.co_filename, frame.f_lineno, name or ""
        if key not in self._numbers:
            program, site = self._found(frame)
            if site is None or is_block:
                site = _nameless(frame, name)
                program = Program(
                    source=program.source, sites=(site,), first=self._loops.next_number
                )
                self._loops.add_program(program)
            elif name is not None:
                sites = list(program.sites)
                sites[site.site] = replace(site, label=name)
                program.sites = tuple(sites)
            self._numbers[key] = program.first + site.site
        return self._numbers[key]

    def _found(self, frame: FrameType) -> tuple[Program, LoopSite | None]:
        """Return the program of a frame, and the loop at its present line."""
        source = source_of(frame)
        program = next((p for p in self._loops.programs if p.source == source), None)
        if program is None:
            program = _program_of(source, self._loops.next_number)
            self._loops.add_program(program)
        line = frame.f_lineno
        return program, next((site for site in program.sites if site.line == line), None)


def _program_of(source: str, first: int) -> Program:
    try:
        sites = instrument(ast.parse(source)).sites
    except (SyntaxError, ValueError):
        sites = ()
    return Program(source=source, sites=sites, first=first)


def source_of(frame: FrameType) -> str:
    """Return the source of the file that a frame's code is from; empty if nobody knows it."""
    return "".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals))


def _nameless(frame: FrameType, name: str | None) -> LoopSite:
    """Return a site for a loop that was not found in any text: it mentions all its code does."""
    code = frame.f_code
    names = {*code.co_names, *code.co_varnames, *code.co_cellvars, *code.co_freevars}
    function = "" if code.co_name == "<module>" else code.co_qualname
    return LoopSite(
        site=0,
        line=frame.f_lineno,
        kind="for",
        label=name or "step",
        function=function,
        names=tuple(sorted(names)),
    )


_scripts: dict[int, _Script] = {}


def _script(loops: Loops) -> _Script | None:
    """Return the loops of this program; begin to record them if nobody does.  None if not."""
    if os.getpid() not in _scripts:
        _scripts.clear()
        _scripts[os.getpid()] = _Script(loops)
        if loops.course is None:
            _record_program(loops)
    return _scripts[os.getpid()] if loops.course is not None else None


def _record_program(loops: Loops) -> None:
    share = _share()
    main = sys.modules.get("__main__")
    if share is None or getattr(main, "get_ipython", None) is not None:
        return  # in a notebook, recording is switched on there
    file = str(getattr(main, "__file__", "") or "")
    source = ""
    if file:
        source = Path(file).read_text(encoding="utf-8", errors="replace")
    program = _program_of(source, loops.next_number)
    loops.add_program(program)
    folder = project_folder() / FOLDER
    place = RunPlace(
        folder=folder / "loops",
        store=str(folder / "store"),
        session=f"{time.time_ns():x}-{os.getpid()}",
        epsilon=share,
        wait_s=_LAST_WAIT_S,
    )
    recorder = Recorder(
        loops,
        place,
        program,
        run=uuid.uuid4().hex[:16],
        count=0,
        file=os.path.abspath(file) if file else "",
    )
    loops.follow(recorder)
    owner = os.getpid()

    def close() -> None:
        if os.getpid() == owner:
            loops.follow(None)
            recorder.close()

    atexit.register(close)


def project_folder() -> Path:
    """Return the nearest folder with a ``.chex``, from the current one up; else the current."""
    here = Path.cwd()
    return next((at for at in (here, *here.parents) if (at / FOLDER).is_dir()), here)


def _share() -> float | None:
    """Return the share of time that the user allows; None for ``off``."""
    config = Config.at(project_folder())
    try:
        return config.share("overhead")
    except InvalidValue as error:
        sys.stderr.write(f"chex: {error} (not used)\n")
        return config.without_problems().share("overhead")
