"""Records the main loops of a program: what they log, and their state as often as is cheap.

The state is surveyed at two kinds of points: before each iteration of a main loop, and after each
block.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

from chexpoint.hindsight.facts import facts_now
from chexpoint.hindsight.keeping import FIRST_BYTES, KeptStates, RunImages
from chexpoint.hindsight.loggers import Call, LogTap
from chexpoint.hindsight.passive import active_part, iterators_in
from chexpoint.hindsight.places import labels_at, roots_at
from chexpoint.hindsight.restores import restore_ratio
from chexpoint.hindsight.run_log import RunLog
from chexpoint.hindsight.run_place import RunPlace
from chexpoint.hindsight.runtime import Loops, OpenLoop, Program, frame_of
from chexpoint.hindsight.state.sketches import sketches
from chexpoint.hindsight.state.survey import Survey, take_survey
from chexpoint.hindsight.state.walking import Walk
from chexpoint.hindsight.writing.pace import Pace
from chexpoint.model import LoopSite, to_json

# A loop of so many quick iterations is no training: it runs on at full speed.
_MANY, _QUICK_S = 200, 0.0005
# Nor is one that comes again and again and is over at once.
_OFTEN, _SHORT_S = 5, 0.02
_ENTRY_EFFORT = 8 * 2**20
_FLUSH_S = 0.1
_COPY_BYTES_PER_S = 2e9
# A loop that took less is computed again faster than it is read.
_WORTH_S = 0.2


@dataclass(slots=True, eq=False)
class _Main:
    """What is known of the main loop that is running."""

    number: int
    """Among those of the run."""
    ordinal: int
    """Among the executions of its site."""
    pace: Pace
    states: KeptStates
    sketches: Mapping[str, str]
    why_not: str = ""
    """Why its iterations cannot be passed over."""
    unseen: str = ""
    """Why its state cannot be kept."""
    entered: float = 0.0
    started: float = 0.0
    resumed: float = 0.0
    """When the running iteration began, without what we took of it."""
    paid: float = 0.0
    """What we took of it."""
    taken: float = 0.0
    """What we took of the iterations before it."""
    decided: bool | None = None
    """Whether the points up to the next iteration are kept."""
    blocks: int = 0
    block_started: float = 0.0
    expected: float = 0.0
    """What a checkpoint will take, before there was one."""
    is_told: bool = False
    told: float = 0.0
    """When its first iteration began."""


class Recorder:
    """The course of a program that is being recorded; see `chexpoint.hindsight.runtime.Course`."""

    def __init__(
        self, loops: Loops, place: RunPlace, program: Program, *, run: str, count: int, file: str
    ) -> None:
        self._loops, self._place, self._program = loops, place, program
        self._run, self._count, self._file = run, count, file
        self._began = time.perf_counter()
        self._log: RunLog | None = None
        self._images = RunImages(place, run)
        self._main: _Main | None = None
        self._c: float | None = None
        self._flushed = 0.0
        self._mains = 0
        self._executions: dict[int, tuple[int, float]] = {}
        self._sites: dict[int, int] = {}
        self._refused: set[int] = set()
        self._tap = LogTap(self._take_call)
        self.problem = ""
        """Why nothing more is recorded."""

    # ------------------------------------------------------------ the course

    def begin_main(self, loop: OpenLoop, frame: FrameType) -> bool:
        started = time.perf_counter()
        ordinal, seconds = self._executions.get(loop.number, (0, 0.0))
        self._executions[loop.number] = ordinal + 1, seconds
        if ordinal >= _OFTEN and seconds / ordinal < _SHORT_S:
            loop.facts["is_passive"] = True
            return True
        survey = take_survey(roots_at(loop, frame, None, None), effort_bytes=_ENTRY_EFFORT)
        main = self._main = _Main(
            number=self._mains,
            ordinal=ordinal,
            pace=Pace(epsilon=self._place.epsilon, c=self._ratio()),
            states=KeptStates(self._images, survey, self._event),
            sketches=sketches(survey.leaves),
            unseen=_unseen(survey),
            entered=started,
        )
        nbytes = sum(leaf.nbytes for leaf in survey.leaves.values())
        main.expected = (time.perf_counter() - started) + nbytes / _COPY_BYTES_PER_S
        self._tap.install()
        # All before this is what we took, not the program.
        main.started = main.resumed = time.perf_counter()
        return True

    def take_iterable(self, loop: OpenLoop, iterable: Iterable[Any]) -> int:
        main = self._main
        if main is not None and not loop.facts.get("is_passive"):
            main.why_not = active_part(iterable)
            iterators = iterators_in(iterable)
            if iterators and not main.unseen:
                held = Walk(roots_at(loop, frame_of(loop, sys._getframe(1)), None, None)).homes
                if any(id(each) in held for each in iterators):
                    main.unseen = "it runs over an iterator that the program holds as well"
        return 0

    def begin_iteration(self, loop: OpenLoop, frame: FrameType) -> bool:
        main = self._main
        if main is None or loop.facts.get("is_passive"):
            return False
        now = time.perf_counter()
        if loop.index == _MANY and now - main.started < _MANY * _QUICK_S:
            self._forget_main(main, "its iterations are too short to be worth it")
            return False
        if not main.is_told:
            self._tell_main(loop, main)
        checkpoint, in_blocks = None, main.paid
        if loop.index == 0:
            main.pace.spent(main.started - main.entered)
        else:
            main.pace.ran(loop.number, max(0.0, now - main.resumed - main.paid))
            if self._is_wanted(loop, main):
                checkpoint = self._checkpoint(loop, main, frame, None, None)
            if main.paid:
                main.pace.paid(loop.number, main.paid)
        self._tap.refresh()
        t = round(now - self._began, 6)
        main.told = t if loop.index == 0 else main.told
        self._event(e="iter", n=main.number, i=loop.index, t=t, ck=checkpoint)
        if now - self._flushed > _FLUSH_S:
            self._flushed = now
            self._flush()
        main.resumed, main.decided, main.blocks = time.perf_counter(), None, 0
        main.taken, main.paid = main.taken + in_blocks + main.resumed - now, 0.0
        return True

    def end_main(self, loop: OpenLoop, frame: FrameType | None) -> None:
        main, self._main = self._main, None
        self._tap.remove()
        if main is None:
            return
        now = time.perf_counter()
        ordinal, seconds = self._executions[loop.number]
        computed = now - main.started - main.taken - main.paid
        self._executions[loop.number] = ordinal, seconds + max(0.0, computed)
        if not main.is_told:
            return
        checkpoint = None
        if frame is not None:
            main.pace.ran(loop.number, max(0.0, now - main.resumed - main.paid))
            checkpoint = self._last_checkpoint(loop, main, frame)
            how = "end" if loop.is_exhausted or loop.site.kind == "while" else "break"
            t = round(now - self._began, 6)
            iterations = loop.index + 1
            cost = {"paid": round(main.pace.paid_s, 6), "computed": round(main.pace.computed_s, 6)}
            self._event(e="end", n=main.number, i=iterations, how=how, t=t, ck=checkpoint, **cost)
        self._flush()

    def begin_block(self, loop: OpenLoop, frame: FrameType) -> bool:
        if self._main is not None:
            self._main.block_started = time.perf_counter()
        return True

    def end_block(self, loop: OpenLoop, frame: FrameType | None) -> None:
        main, outer = self._main, self._loops.main
        if main is None or outer is None or not main.is_told:
            return
        seconds = time.perf_counter() - main.block_started
        checkpoint = None
        running_s = time.perf_counter() - main.resumed - main.paid
        is_wanted = not loop.site.no_estimate and self._is_wanted(outer, main, running_s)
        if frame is not None and is_wanted:
            checkpoint = self._checkpoint(outer, main, None, loop, frame)
        if loop.site.no_estimate:
            self._refuse(loop, loop.site.no_estimate)
        self._event(
            e="block",
            n=main.number,
            i=outer.index,
            b=main.blocks,
            site=self._site(loop),
            s=round(seconds, 6),
            ck=checkpoint,
        )
        main.blocks += 1

    def before_added(self, loop: OpenLoop, group: int, frame: FrameType) -> None:
        """There are none while a program is recorded."""

    after_added = before_added

    def failed(self, error: Exception) -> None:
        self.problem = f"recording of loops stopped: {type(error).__name__}: {error}"
        self._main = None
        self._tap.remove()

    def close(self) -> None:
        """The program has ended."""
        self._tap.remove()
        self._main = None
        if self._log is not None:
            self._log.close()
        self._images.close()

    # ------------------------------------------------------------ checkpoints

    def _ratio(self) -> float:
        """Return what replays have shown putting back to cost; looked up once."""
        if self._c is None:
            self._c = restore_ratio(self._place.folder)
        return self._c

    def _is_wanted(self, loop: OpenLoop, main: _Main, running_s: float = 0.0) -> bool:
        """Decide once for all points of an iteration: one alone would be of no use."""
        if main.unseen:
            return False
        if not self._place.keeps_all and time.perf_counter() - main.started < _WORTH_S:
            return False
        if main.decided is None:
            sites = [loop.number]
            main.decided = main.pace.allows(sites, main.expected, running_s=running_s)
        return main.decided

    def _checkpoint(
        self,
        loop: OpenLoop,
        main: _Main,
        frame: FrameType | None,
        block: OpenLoop | None,
        inner: FrameType | None,
        *,
        most_bytes: int | None = None,
    ) -> dict[str, str] | None:
        """Keep the state at this point; return where its leaves are, or None if it was not kept.

        Parameters
        ----------
        most_bytes
            Keep it only if no more than this has to be written.
        """
        started = time.perf_counter()
        try:
            if not main.states.is_first_written:
                first = main.states.write_first()
                if first is not None:
                    self._event(e="iter", n=main.number, i=0, t=main.told, ck=first)
            survey = take_survey(roots_at(loop, frame, block, inner))
            if why := _unseen(survey):
                main.unseen = why
                self._refuse(loop, why)
                return None
            return main.states.keep(survey, most_bytes)
        finally:
            main.paid += time.perf_counter() - started + self._images.paid_later()

    def _last_checkpoint(
        self, loop: OpenLoop, main: _Main, frame: FrameType
    ) -> dict[str, str] | None:
        """Keep the state after a loop: what all that was computed can be checked by.

        After a loop that was over at once only digests are kept.
        """
        if main.unseen:
            return None
        if main.states.is_first_written:
            most = None if self._is_wanted(loop, main) else FIRST_BYTES
            return self._checkpoint(loop, main, frame, None, None, most_bytes=most)
        if main.started - main.entered > _WORTH_S:
            return None  # looking at it takes longer than the loop is worth
        survey = take_survey(roots_at(loop, frame, None, None))
        return main.states.keep_digests(survey, main.number)

    # ------------------------------------------------------------ the log

    def _tell_main(self, loop: OpenLoop, main: _Main) -> None:
        main.is_told = True
        self._mains += 1
        if self._log is None:
            self._log = RunLog.create(
                self._place.folder,
                self._run,
                source=self._program.source,
                sites=self._all_sites(),
                session=self._place.session,
                execution_count=self._count,
                file=self._file,
                facts={**facts_now(), "left": [list(each) for each in self._program.left]},
            )
        why = main.unseen or main.why_not
        if main.unseen:
            self._refuse(loop, main.unseen)
        self._event(
            e="loop",
            n=main.number,
            site=self._site(loop),
            k=main.ordinal,
            can_jump=not why,
            why_not=why,
            base=main.sketches,
        )

    def _forget_main(self, main: _Main, why: str) -> None:
        self._main = None
        self._tap.remove()
        if main.is_told:
            self._event(e="can_jump", n=main.number, why_not=why)

    def _refuse(self, loop: OpenLoop, why: str) -> None:
        if loop.number not in self._refused:
            self._refused.add(loop.number)
            self._event(e="refused", site=self._site(loop), why=why)
        if self._main is not None and self._main.unseen:
            self._event(e="can_jump", n=self._main.number, why_not=self._main.unseen)

    def _all_sites(self) -> tuple[LoopSite, ...]:
        """Return the sites of the program, then those of programs before it, renumbered."""
        sites: list[LoopSite] = []
        others = [program for program in self._loops.programs if program is not self._program]
        for program in (self._program, *others):
            start = len(sites)
            for site in program.sites:
                self._sites[program.first + site.site] = start + site.site
                fields = to_json(site)
                fields["site"] += start
                if site.within is not None:
                    fields["within"] += start
                sites.append(LoopSite(**{k: _tuple(v) for k, v in fields.items()}))
        return tuple(sites)

    def _site(self, loop: OpenLoop) -> int:
        number = self._sites.get(loop.number)
        if number is None:
            # Of a program that became known after the beginning.
            number = self._sites[loop.number] = len(self._sites)
            self._event(e="site", about={**to_json(loop.site), "site": number, "within": None})
        return number

    def _take_call(self, call: Call) -> None:
        main, outer = self._main, self._loops.main
        if main is None or outer is None or outer.index < 0 or outer.is_left or not main.is_told:
            return
        self._event(
            e="log",
            n=main.number,
            # Which step of a block it is does not matter: they are compared in their order.
            at=[outer.index] if self._loops.block is None else [outer.index, 0],
            labels=labels_at(outer, None),
            line=self._loops.own_line(call.line),
            via=call.via,
            name=call.name,
            value=call.value,
        )

    def _event(self, **fields: Any) -> None:
        if self._log is not None:
            self._log.event(**fields)

    def _flush(self) -> None:
        if self._log is not None:
            self._log.flush()


def _unseen(survey: Survey) -> str:
    return next((f"{name}: {why}" for name, why in survey.unseen.items()), "")


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
