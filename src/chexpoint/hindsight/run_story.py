"""The events of a run, put together to what was recorded of its loops; no files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chexpoint.hindsight.jsonable import from_jsonable
from chexpoint.model import (
    BlockRecord,
    IterationRecord,
    LoggedValue,
    LoopCheckpoint,
    LoopRecord,
)

BROKEN = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    IndexError,
    ArithmeticError,
    RecursionError,
)
"""What reading something damaged may raise."""
NO_IMAGE = "~"
"""Begins the names of images that do not exist: of them only digests are known."""
_WIDEST_GAP = 1000
"""Numbers that may be missing in a row; one that is further off is itself wrong."""


@dataclass(slots=True)
class _Iteration:
    began: float
    start: LoopCheckpoint | None = None
    blocks: list[BlockRecord] = field(default_factory=list)


@dataclass(slots=True)
class _Loop:
    """A main loop, as far as it has been read."""

    site: int = 0
    ordinal: int = 0
    iterations: list[_Iteration] = field(default_factory=list)
    end: LoopCheckpoint | None = None
    how: str = ""
    ended: float | None = None
    can_jump: bool = False
    why_not: str = ""
    base: dict[str, str] = field(default_factory=dict)

    def iteration(self, number: int, began: float) -> _Iteration:
        """Return an iteration; those before it of which nothing is known are made."""
        if not 0 <= number < len(self.iterations) + _WIDEST_GAP:
            raise ValueError(number)
        while len(self.iterations) <= number:
            self.iterations.append(_Iteration(began))
        return self.iterations[number]

    def record(self) -> LoopRecord:
        return LoopRecord(
            site=self.site,
            ordinal=self.ordinal,
            iterations=tuple(map(self._iteration_record, range(len(self.iterations)))),
            end=self.end,
            how=self.how,
            can_jump=self.can_jump,
            why_not=self.why_not,
            base=self.base,
        )

    def _iteration_record(self, number: int) -> IterationRecord:
        this = self.iterations[number]
        if number + 1 < len(self.iterations):
            ended = self.iterations[number + 1].began
        elif self.ended is not None:
            ended = self.ended
        else:
            # It was cut off: no more is known than how long its blocks took.
            ended = this.began + sum(block.seconds for block in this.blocks)
        return IterationRecord(
            seconds=max(0.0, ended - this.began), start=this.start, blocks=tuple(this.blocks)
        )


class Story:
    """Takes the events of a run in their order.

    Whatever is wrong with an event raises one of `BROKEN`, and then it has had no effect.
    """

    def __init__(self, *, saved: frozenset[str]) -> None:
        self.loops: list[_Loop] = []
        self.values: list[LoggedValue] = []
        self.digests: list[tuple[str, str, Any]] = []
        self.refused: dict[int, str] = {}
        self.sites: list[Any] = []
        """Of loops that turned up after the beginning."""
        self.seconds = 0.0
        self._saved = saved

    def add(self, event: Mapping[str, Any]) -> None:
        match event.get("e"):
            case "loop":
                self._begin(event)
            case "iter":
                self._iterate(event)
            case "block":
                self._block(event)
            case "log":
                self._log(event)
            case "end":
                self._end(event)
            case "digest":
                self.digests.append((str(event["image"]), str(event["leaf"]), event["digest"]))
            case "can_jump":
                loop = self._loop(event)
                loop.can_jump, loop.why_not = False, str(event["why_not"])
            case "site":
                self.sites.append(event["about"])
            case "refused":
                self.refused[int(event["site"])] = str(event["why"])

    def _loop(self, event: Mapping[str, Any]) -> _Loop:
        number = int(event["n"])
        if not 0 <= number < len(self.loops):
            raise ValueError(number)
        return self.loops[number]

    def _begin(self, event: Mapping[str, Any]) -> None:
        number = int(event["n"])
        if not len(self.loops) <= number < len(self.loops) + _WIDEST_GAP:
            raise ValueError(number)
        loop = _Loop(
            site=int(event["site"]),
            ordinal=int(event.get("k", 0)),
            can_jump=bool(event.get("can_jump")),
            why_not=str(event.get("why_not", "")),
            base={str(k): str(v) for k, v in (event.get("base") or {}).items()},
        )
        while len(self.loops) < number:
            self.loops.append(_Loop())
        self.loops.append(loop)

    def _iterate(self, event: Mapping[str, Any]) -> None:
        loop, number, began = self._loop(event), int(event["i"]), float(event["t"])
        checkpoint = self._checkpoint(event, number)
        iteration = loop.iteration(number, began)
        iteration.began, iteration.start = began, checkpoint
        self.seconds = max(self.seconds, began)

    def _block(self, event: Mapping[str, Any]) -> None:
        loop, number, place = self._loop(event), int(event["i"]), int(event["b"])
        site, seconds = int(event["site"]), float(event["s"])
        checkpoint = self._checkpoint(event, number, place)
        blocks = loop.iterations[number].blocks
        if not len(blocks) <= place < len(blocks) + _WIDEST_GAP:
            raise ValueError(place)
        while len(blocks) < place:
            blocks.append(BlockRecord(site=site, seconds=0.0))
        blocks.append(BlockRecord(site=site, seconds=seconds, checkpoint=checkpoint))

    def _log(self, event: Mapping[str, Any]) -> None:
        self.values.append(
            LoggedValue(
                loop=int(event["n"]),
                at=tuple(int(each) for each in event["at"]),
                labels=tuple((str(k), from_jsonable(v)) for k, v in event.get("labels") or ()),
                line=int(event.get("line") or 0),
                via=str(event.get("via", "log")),
                name=str(event.get("name", "")),
                value=from_jsonable(event.get("value")),
            )
        )

    def _end(self, event: Mapping[str, Any]) -> None:
        loop, ended = self._loop(event), float(event["t"])
        loop.end = self._checkpoint(event, len(loop.iterations))
        loop.how, loop.ended = str(event["how"]), ended
        self.seconds = max(self.seconds, ended)

    def _checkpoint(self, event: Mapping[str, Any], *at: int) -> LoopCheckpoint | None:
        leaves = event.get("ck")
        if leaves is None or not all(map(self._is_saved, leaves.values())):
            return None
        return LoopCheckpoint(leaves=dict(leaves), at=at)

    def _is_saved(self, image: str) -> bool:
        return image in self._saved or image.startswith(NO_IMAGE)
