"""Records versions in any IPython shell, where there is no supervisor of CHEX.

Hooks of the shell tell where cells begin and end.  What a cell reads is seen by Python's audit
hook alone, so less is known for sure than in the CHEX kernel; and there is no way back to a fresh
interpreter, so what ran before is a gap of the first cell.

Nothing of this may disturb the user: hooks never raise, never wait for a disk, and do nothing in
forked processes.  When something fails, recording stops with one line.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from chexpoint.engine import header_of, strip_header
from chexpoint.errors import CatalogError, ChexError, InvalidValue
from chexpoint.lineage import CellWatch
from chexpoint.magics.plain_link import PlainLink
from chexpoint.magics.plain_loops import PlainLoops
from chexpoint.magics.plain_outputs import Capture, Questions, capture_of
from chexpoint.magics.plain_shell import (
    RunningCell,
    has_variables,
    hash_seed,
    is_fresh,
    origin_of,
    running_info,
    standard_files,
    startup_files,
    watch_of,
)
from chexpoint.model import RecordingStatus

BEFORE = "cells ran before recording began, and what they left is not known"
WHILE_OFF = "cells ran while recording was off, and what they left is not known"
ELSEWHERE = "cells ran in another thread (a subshell), and what they did is not known"
LOST = "a cell could not be recorded, and what it left is not known"

_NO_SHARING = (
    "it will share no cells with other versions, because sets have another order in each process: "
    "start the kernel with PYTHONHASHSEED=0 for one that does"
)
_CATALOG_FOLDER = ".chex"
# How long the user waits to be told that a version can be written.
_BEGIN_TIMEOUT_S = 10.0

_RECORDINGS: WeakKeyDictionary[Any, PlainRecording] = WeakKeyDictionary()


def plain_recording(shell: Any) -> PlainRecording:
    """Return what records in a shell, started; always the same until it is closed."""
    recording = _RECORDINGS.get(shell)
    if recording is None:
        recording = _RECORDINGS[shell] = PlainRecording()
        recording.start(shell)
    return recording


class PlainRecording:
    """Records the cells of one shell; all methods are for the thread that runs them."""

    def __init__(self) -> None:
        self._shell: Any = None
        self._pid = os.getpid()
        self._thread = threading.get_ident()
        self._folder = ""
        self._link: PlainLink | None = None
        self._watch: CellWatch | None = None
        self._capture: Capture | None = None
        self._questions = Questions(self._asked)
        self._depth = 0
        self._running: RunningCell | None = None
        self._is_fresh = True
        """Whether nothing has run in this process yet that counts."""
        self._gap = ""
        """What the next cell that is recorded cannot know."""
        self._version = ""
        self._cells = 0
        self._is_on = False
        self._problem = ""
        self._has_transformer = False
        self.loops = PlainLoops(self._loops_at)

    # ------------------------------------------------------------ for the magics

    def start(self, shell: Any) -> None:
        """Follow the cells of a shell; nothing is recorded before `begin`."""
        self._shell = shell
        self._is_fresh = is_fresh(shell)
        shell.events.register("pre_run_cell", self._before)
        shell.events.register("post_run_cell", self._after)
        if strip_header not in shell.input_transformers_cleanup:
            shell.input_transformers_cleanup.append(strip_header)
            self._has_transformer = True
        self.loops.start(shell)
        atexit.register(self.close)
        if (info := running_info()) is not None:
            self._before(info)

    def begin(self, name: str, here: bool = False) -> list[str]:
        """Begin a version, and return what to tell the user, in lines.

        Parameters
        ----------
        here
            Whether the version begins with the cells that were recorded so far.

        Raises
        ------
        ChexError
            If the version cannot have this name, or cannot be written.
        """
        told = self._begin(name, here=here)
        self._listen()
        return told

    def pause(self) -> None:
        """Record nothing until `resume` or `begin`."""
        self._is_on = False

    def resume(self) -> list[str]:
        """Go on with the version, and return what to tell the user, in lines.

        Raises
        ------
        InvalidValue
            If there is none.
        """
        self._notice_problem()
        if self._link is None or not self._version:
            raise InvalidValue("there is no version to go on with: %chex_record NAME begins one")
        self._is_on = True
        self._listen()
        note = [f"note that {self._gap}"] if self._gap else []
        return [f"recording version '{self._version}' again", *note]

    def status(self) -> RecordingStatus:
        """Return what is being recorded."""
        self._notice_problem()
        folder = self._folder
        with suppress(OSError):  # it may be gone
            folder = folder or os.getcwd()
        return RecordingStatus(
            is_on=self._is_on,
            version=self._version,
            cells=self._cells,
            folder=os.path.join(folder, _CATALOG_FOLDER),
            problem=self._problem,
        )

    def close(self) -> None:
        """Leave the shell as it was, and see to it that everything is written."""
        if self._shell is None or os.getpid() != self._pid:
            return
        atexit.unregister(self.close)
        shell, self._shell = self._shell, None
        _RECORDINGS.pop(shell, None)
        for event, hook in (("pre_run_cell", self._before), ("post_run_cell", self._after)):
            with suppress(ValueError):
                shell.events.unregister(event, hook)
        if self._has_transformer and strip_header in shell.input_transformers_cleanup:
            shell.input_transformers_cleanup.remove(strip_header)
        self.loops.close()
        self._is_on = False
        self._questions.close()
        if self._capture is not None:
            self._capture.close()
        if self._link is not None:
            self._link.close()
        self._notice_problem()

    # ------------------------------------------------------------ hooks of the shell

    def _before(self, info: Any) -> None:
        if self._is_elsewhere():
            return
        self._depth += 1
        if self._depth == 1:
            self._carefully(partial(self._enter, info))

    def _after(self, result: Any) -> None:
        if self._is_elsewhere():
            return
        # An empty cell ends without a beginning.
        if result is not None and not str(result.info.raw_cell or "").strip():
            return
        self._depth = max(0, self._depth - 1)
        if self._depth == 0:
            self._carefully(partial(self._leave, result))

    def _is_elsewhere(self) -> bool:
        """Return whether this is a forked process, or another thread of this one."""
        if os.getpid() != self._pid:
            return True
        if threading.get_ident() == self._thread:
            return False
        self._is_fresh, self._gap = False, ELSEWHERE
        return True

    def _carefully(self, job: Callable[[], None]) -> None:
        try:
            job()
        except KeyboardInterrupt:  # too early or too late to stop the cell itself
            self._is_fresh, self._gap = False, LOST
        except Exception as error:
            self._stop(f"{type(error).__name__}: {error}")

    def _enter(self, info: Any) -> None:
        self._notice_problem()
        self._running = running = RunningCell(self._shell, info)
        words = header_of(running.source) if running.is_kept else None
        if words is not None:
            self._follow(words)
        if self._watch is not None:
            self._watch.begin()
        if running.is_kept:
            self.loops.begin(running.transformed)
        self._listen()

    def _follow(self, words: list[str]) -> None:
        """Have the cell recorded as the next one of the version that its first line names."""
        here = "--here" in words
        name = " ".join(word for word in words if word != "--here")
        try:
            if here or (name and name != self._version):
                _say(*self._begin(name, here=here))
            elif not self._is_on:
                self._is_on = bool(self.resume())
        except ChexError as error:
            _say(f"version '{name}' does not get this cell: {error}")

    def _leave(self, result: Any) -> None:
        running, self._running = self._running, None
        if running is None:
            return
        self.loops.end()
        if running.is_open:
            self._questions.close()
            if self._capture is not None:
                self._capture.end()
        report = self._watch.finish(running.transformed) if self._watch is not None else {}
        # Once anything has run, and while nothing is recorded, it need not be looked at.
        is_step = running.is_kept and (
            not (self._is_fresh or self._version) or not running.says_nothing
        )
        if is_step:
            self._is_fresh = False
        if is_step and self._is_on:
            self._record(running, result, report)
        else:
            self._drop(running)
            if is_step and self._version:
                self._gap = WHILE_OFF
        self._notice_problem()

    def _loops_at(self) -> tuple[str, str] | None:
        if not self._is_on or self._link is None:
            return None
        return os.path.join(self._folder, _CATALOG_FOLDER), self._link.session

    # ------------------------------------------------------------ recording

    def _begin(self, name: str, *, here: bool) -> list[str]:
        if self._shell is None or os.getpid() != self._pid:
            raise InvalidValue("nothing can be recorded in this process")
        self._notice_problem()
        is_branch = here and self._link is not None and self._cells > 0
        gap = self._gap if is_branch else self._gap_at_root()
        was_on = self._is_on
        try:
            self._open().begin(
                name,
                is_branch=is_branch,
                origin=origin_of(self._shell),
                timeout_s=_BEGIN_TIMEOUT_S,
            )
        except InvalidValue:
            raise
        except (ChexError, OSError) as error:
            self._stop(str(error), is_told=not was_on)
            raise CatalogError(str(error)) from None
        self._gap, self._version, self._is_on, self._problem = gap, name, True, ""
        self._cells = self._cells if is_branch else 0
        return self._begun(is_branch=is_branch)

    def _gap_at_root(self) -> str:
        """Return what is in the way of a version that begins with a fresh interpreter."""
        running = self._running
        has_run = running is not None and running.runs_before_begin
        fresh = self._is_fresh and not has_run and not has_variables(self._shell)
        return "" if fresh else BEFORE

    def _begun(self, *, is_branch: bool) -> list[str]:
        text = f"recording version '{self._version}' in {self._folder}"
        if is_branch:
            return [f"{text}, after the {self._cells} cells recorded so far"]
        if self._gap:
            advice = "restart the kernel and begin with the recording for one that can"
            return [text, f"{self._gap}: the version cannot be reproduced for sure; {advice}"]
        if hash_seed() == "random":
            return [text, _NO_SHARING]
        return [text]

    def _open(self) -> PlainLink:
        """Return the link to the process that writes; begin to watch this one."""
        if self._link is not None:
            return self._link
        self._folder = self._folder or os.getcwd()
        profile = str(self._shell.profile_dir.location)
        link = PlainLink(
            self._folder,
            ignored=[profile, *standard_files()],
            startup=startup_files(profile),
            hash_seed=hash_seed(),
        )
        self._capture = capture_of(self._shell, link.post, link.assembly.take)
        self._watch = watch_of(self._shell, self._folder)
        self._watch.start()
        self._watch.finish("")  # what was done here is not the user's doing
        self._watch.begin()
        self._link = link
        return link

    def _listen(self) -> None:
        """Read along what the running cell shows, from now on, if it is to be recorded."""
        running = self._running
        if not self._is_on or running is None or running.is_open:
            return
        if self._link is not None and self._capture is not None:
            running.is_open = True
            self._questions.begin()
            self._link.post(partial(self._link.assembly.begin, self._capture.begin()))

    def _asked(self) -> None:
        if self._watch is not None:
            self._watch.asked_input()

    def _record(self, running: RunningCell, result: Any, report: dict[str, Any]) -> None:
        if self._link is None or self._capture is None:
            return
        if self._gap:
            report["opaque"] = [self._gap, *report.get("opaque", ())]
            self._gap = ""
        self._cells += 1
        message = {
            "op": "cell",
            "cell": running.told(result, report),
            "cell_id": running.cell_id,
        }
        end = self._link.assembly.end
        self._link.post(partial(end, message, is_late=self._capture.is_late))

    def _drop(self, running: RunningCell) -> None:
        if self._link is not None and running.is_open:
            self._link.post(self._link.assembly.drop)

    def _notice_problem(self) -> None:
        """Stop if the link has failed."""
        if self._link is not None and self._link.problem:
            self._stop(self._link.problem)

    def _stop(self, problem: str, *, is_told: bool = False) -> None:
        """Record no more, and say why, once."""
        link, self._link, self._watch = self._link, None, None
        self._is_on, self._version, self._cells, self._problem = False, "", 0, problem
        with suppress(Exception):
            self._questions.close()
            if self._capture is not None:
                self._capture.close()
            self._capture = None
            if link is not None:
                link.abandon()
            if not is_told:
                _say(f"recording stopped: {problem}")


def _say(*lines: str) -> None:
    """Tell the user, before anything that is read along."""
    for line in lines:
        print(f"CHEX: {line}", file=sys.stderr)
    sys.stderr.flush()
