"""Deferred checks: whether what a replay found can be trusted.

Logs alone are not enough: they can agree while every weight is wrong.  So the state of the replay
is compared too, wherever the record has a checkpoint.  A value is *exact* if the logs of its
iteration agree and so does the state at the next such point; *diverged* if either does not, or
the state did not before; else *unverified*.

References
----------
Garcia et al., Hindsight Logging for Model Training, VLDB 2021, section 3.3.3.
"""

from __future__ import annotations

import contextlib
import math
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from chexpoint.hindsight.jsonable import from_jsonable
from chexpoint.hindsight.log_match import first_difference
from chexpoint.hindsight.run_story import BROKEN
from chexpoint.hindsight.wording import Words
from chexpoint.model import (
    HindsightFinding,
    HindsightRow,
    LoggedValue,
    LoopCheckpoint,
    LoopRun,
    Segment,
    Standing,
)

MOST_FINDINGS = 20
MISSING = "missing"
"""Stands for the digest of a leaf that a replay does not have."""


class Judgement(NamedTuple):
    """What is to be said about a replay, or a part of one."""

    rows: tuple[HindsightRow, ...] = ()
    findings: tuple[HindsightFinding, ...] = ()
    notes: tuple[str, ...] = ()


def judge(
    run: LoopRun,
    loop: int,
    results: Sequence[Mapping[str, Any]],
    *,
    version: str,
    added: Collection[tuple[int, int]],
    removed: Collection[int],
    line_map: Callable[[int], int],
    segment: Segment | None = None,
) -> Judgement:
    """Return what the events of one segment of a replay say.

    Parameters
    ----------
    results
        In the order in which they were written.  Events that make no sense are left out.
    added
        The first and last lines of added statements, in the new text.  What an event says itself
        comes first: a function that is called by an added statement was not added.
    removed
        Lines of statements of the recorded text that the new one does not have.
    line_map
        Gives the line in the new text of a line in the recorded one.
    segment
        What was to be replayed: the logs of other iterations are not compared, because those were
        only on the way.  None compares all that there are.
    """
    part = _Part(run, loop, added, segment)
    for event in results:
        with contextlib.suppress(*BROKEN):
            part.add(event)
    part.close()
    part.compare_logs(frozenset(removed), line_map)
    rows = tuple(
        HindsightRow(
            version=version,
            value=each.value,
            standing=part.standing(each),
            is_added=each.is_added,
        )
        for each in part.rows
    )
    findings = sorted(part.findings, key=lambda each: each.at)
    return Judgement(rows, tuple(findings), tuple(dict.fromkeys(part.notes)))


def merge_results(parts: Iterable[Judgement]) -> Judgement:
    """Return what several segments say together; findings beyond the first 20 are only counted."""
    every = list(parts)
    rows = [row for part in every for row in part.rows]
    # Only by iteration: inside of one, the order is that in which the program logged.
    rows.sort(key=lambda row: row.value.at[:1])
    found = {(each.at, each.what): each for part in every for each in part.findings}
    findings = sorted(found.values(), key=lambda each: each.at)
    notes = list(dict.fromkeys(note for part in every for note in part.notes))
    if len(findings) > MOST_FINDINGS:
        more = len(findings) - MOST_FINDINGS
        notes.append(f"{more} more difference{'s' * (more > 1)} from the record not shown")
    return Judgement(tuple(rows), tuple(findings[:MOST_FINDINGS]), tuple(notes))


@dataclass(frozen=True, slots=True)
class _Row:
    place: int
    """Among the events."""
    value: LoggedValue
    is_added: bool


@dataclass(frozen=True, slots=True)
class _Check:
    """A comparison of states that could be made."""

    place: int
    agrees: bool


@dataclass(slots=True)
class _Visit:
    """An iteration that was replayed."""

    is_complete: bool = False
    computed: int = 0
    skipped: int = 0
    rows: list[_Row] = field(default_factory=list)


class _Part:
    """What the events of one segment say, in their order."""

    def __init__(
        self,
        run: LoopRun,
        loop: int,
        added: Collection[tuple[int, int]],
        segment: Segment | None,
    ) -> None:
        self.rows: list[_Row] = []
        self.findings: list[HindsightFinding] = []
        self.notes: list[str] = []
        self._run, self._number, self._segment = run, loop, segment
        self._loop = run.loops[loop]
        self._words = Words(run, loop)
        self._added = tuple(added)
        self._estimated = {name for site in run.sites for name in site.estimate}
        self._visits: dict[int, _Visit] = {}
        self._checks: list[_Check] = []
        self._wrong: set[int] = set()
        """Iterations whose logs differ."""
        self._differed: set[str] = set()
        self._told: set[tuple[int, tuple[str, ...]]] = set()
        self._first_wrong = math.inf
        """From which event on the state is known to differ."""
        self._changed_at = math.inf
        """From which event on an added statement has changed the state."""
        self._checked_inside: set[int] = set()
        """Iterations with a check after one of their blocks."""
        self._here: _Visit | None = None
        self._is_done = False
        self._place = 0

    # ------------------------------------------------------------ events

    def add(self, event: Mapping[str, Any]) -> None:
        self._place += 1
        if event.get("n", self._number) != self._number:
            return
        match event.get("e"):
            case "iter":
                self._leave()
                self._here = self._visits.setdefault(int(event["i"]), _Visit())
            case "block":
                visit = self._visits[int(event["i"])]
                visit.skipped += bool(event["skipped"])
                visit.computed += not event["skipped"]
            case "log":
                self._add_log(event)
            case "check":
                self._add_check(tuple(int(each) for each in event["at"]), event["leaves"])
            case "changed":
                self._add_change(event)
            case "differs":
                self._first_wrong = min(self._first_wrong, self._place)
                leaves = tuple(sorted(map(str, event["leaves"])))
                self._find((), self._words.base(leaves), leaves)
            case "note":
                self.notes.append(str(event["text"]))
            case "done":
                self._leave()
                self._is_done = True

    def close(self) -> None:
        """There are no more events."""
        if not self._is_done and self._visits:
            where = self._words.iteration(max(self._visits))
            self.notes.append(f"the replay ended early, in {where}: later values are missing")
        wanted = () if self._segment is None else range(self._segment.start, self._segment.stop)
        left_out = next((each for each in wanted if each not in self._visits), None)
        if self._is_done and left_out is not None:
            what = f"the record has {self._words.iteration(left_out)}, the replay ended before it"
            self._find((left_out,), what)

    def _leave(self) -> None:
        if self._here is not None:
            self._here.is_complete = True

    def _add_log(self, event: Mapping[str, Any]) -> None:
        value = LoggedValue(
            loop=self._number,
            at=tuple(int(each) for each in event["at"]),
            labels=tuple((str(k), from_jsonable(v)) for k, v in event.get("labels") or ()),
            line=int(event.get("line") or 0),
            via=str(event.get("via", "log")),
            name=str(event.get("name", "")),
            value=from_jsonable(event.get("value")),
        )
        is_added = event.get("added")
        if is_added is None:
            is_added = any(first <= value.line <= last for first, last in self._added)
        if not self._is_wanted(value.at[0]):
            return
        row = _Row(self._place, value, bool(is_added))
        self.rows.append(row)
        self._visits.setdefault(value.at[0], _Visit()).rows.append(row)

    def _add_check(self, at: tuple[int, ...], leaves: Mapping[str, str | None]) -> None:
        # Before an iteration begins its number is of the state before it; afterwards, of the end.
        is_end = len(at) == 1 and (at[0] in self._visits or at[0] >= len(self._loop.iterations))
        recorded = self._loop.end if is_end else self._checkpoint(at)
        if recorded is None:
            return
        if is_end:
            at = (len(self._loop.iterations),)
        comparable = 0
        differing = []
        for leaf, digest in sorted(leaves.items()):
            image = recorded.leaves.get(leaf, "")
            expected = self._run.digests.get(image, {}).get(leaf)
            if digest == MISSING and image:
                differing.append(leaf)
            elif digest is not None and expected is not None:
                comparable += 1
                if digest != expected:
                    differing.append(leaf)
        if comparable or differing:
            self._checks.append(_Check(self._place, not differing))
            self._checked_inside.update(at[:1] if len(at) == 2 else ())
        if differing:
            self._first_wrong = min(self._first_wrong, self._place)
        self._tell_state(at, [leaf for leaf in differing if leaf not in self._differed])
        self._differed.update(differing)

    def _checkpoint(self, at: tuple[int, ...]) -> LoopCheckpoint | None:
        iteration = self._loop.iterations[at[0]]
        return iteration.start if len(at) == 1 else iteration.blocks[at[1]].checkpoint

    def _add_change(self, event: Mapping[str, Any]) -> None:
        leaves = tuple(sorted(map(str, event["leaves"])))
        self._changed_at = min(self._changed_at, self._place)
        line = int(event["line"])
        if (line, leaves) in self._told:
            return
        self._told.add((line, leaves))
        at = tuple(int(each) for each in event.get("at") or ())
        what = self._words.changed(line, leaves)
        self._find(at, what, leaves)

    def _tell_state(self, at: tuple[int, ...], leaves: Sequence[str]) -> None:
        """Say which leaves differ; each is named where it does so first."""
        if not leaves:
            return
        names = dict.fromkeys(leaf.partition(":")[0] for leaf in leaves if leaf[0] != "@")
        missed = tuple(name for name in names if name not in self._estimated)
        self._find(at, self._words.state(at, leaves), leaves, missed)

    def _find(
        self,
        at: tuple[int, ...],
        what: str,
        leaves: Sequence[str] = (),
        missed: tuple[str, ...] = (),
    ) -> None:
        self.findings.append(
            HindsightFinding(
                loop=self._number, at=at, what=what, leaves=tuple(leaves), missed=missed
            )
        )

    # ------------------------------------------------------------ logs

    def compare_logs(self, removed: frozenset[int], line_map: Callable[[int], int]) -> None:
        """Compare, for each iteration, what the statements logged that are in both texts."""
        recorded: dict[int, list[LoggedValue]] = {}
        for value in self._run.values:
            if value.loop == self._number and value.line not in removed:
                recorded.setdefault(value.at[0], []).append(value)
        for number, visit in self._visits.items():
            if not self._is_wanted(number):
                continue
            difference = first_difference(
                recorded.get(number, []),
                [row.value for row in visit.rows if not row.is_added],
                line_map,
                has_skipped=visit.skipped > 0,
                has_computed=visit.computed > 0,
                is_complete=visit.is_complete,
            )
            if difference is not None:
                self._wrong.add(number)
                what = self._words.log(number, difference)
                self._find(difference.at or (number,), what)

    def _is_wanted(self, number: int) -> bool:
        return self._segment is None or self._segment.start <= number < self._segment.stop

    # ------------------------------------------------------------ standing

    def standing(self, row: _Row) -> Standing:
        """Return how far a value can be trusted."""
        number, place = row.value.at[0], row.place
        after = bisect_right(self._checks, place, key=lambda each: each.place)
        if number in self._wrong or place > self._first_wrong:
            return "diverged"
        if after < len(self._checks):
            if not self._checks[after].agrees:
                return "diverged"
        elif number not in self._checked_inside:
            return "unverified"
        return "exact" if place < self._changed_at else "unverified"
