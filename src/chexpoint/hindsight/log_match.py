"""Whether a replay logs what the record did: in the same order, numbers to the last bit."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from chexpoint.compare import Tolerance, compare_outputs
from chexpoint.model import LoggedValue

_EXACT = Tolerance(rtol=0.0, atol=0.0)


@dataclass(frozen=True, slots=True)
class Difference:
    """The first value that the record and a replay do not share."""

    recorded: LoggedValue | None
    """None if only the replay logged."""
    replayed: LoggedValue | None

    @property
    def at(self) -> tuple[int, ...]:
        value = self.recorded or self.replayed
        return value.at if value is not None else ()


def first_difference(
    recorded: Sequence[LoggedValue],
    replayed: Sequence[LoggedValue],
    line_map: Callable[[int], int],
    *,
    has_skipped: bool,
    has_computed: bool,
    is_complete: bool,
) -> Difference | None:
    """Return the first difference between what one iteration logged in the record and now.

    Parameters
    ----------
    has_skipped, has_computed
        Whether blocks were skipped, and whether some were computed.  What a block logs that is
        skipped is missing, rightly.
    is_complete
        Whether the replay has reached the end of the iteration.
    """

    def same(old: LoggedValue, new: LoggedValue) -> bool:
        # Lines of functions of other cells have not moved.
        return new.line in (line_map(old.line), old.line) and is_same_log(old, new)

    if not has_skipped:
        return _in_step(recorded, replayed, same, is_complete=is_complete)
    outer = _in_step(_outer(recorded), _outer(replayed), same, is_complete=is_complete)
    if outer is not None or not has_computed:
        return outer
    # A record does not say in which of the blocks a value was logged.
    rest = iter(_inner(recorded))
    for new in _inner(replayed):
        if not any(same(old, new) for old in rest):
            return Difference(None, new)
    return None


def _outer(values: Sequence[LoggedValue]) -> list[LoggedValue]:
    return [value for value in values if len(value.at) == 1]


def _inner(values: Sequence[LoggedValue]) -> list[LoggedValue]:
    return [value for value in values if len(value.at) > 1]


def _in_step(
    recorded: Sequence[LoggedValue],
    replayed: Sequence[LoggedValue],
    same: Callable[[LoggedValue, LoggedValue], bool],
    *,
    is_complete: bool,
) -> Difference | None:
    for old, new in zip(recorded, replayed, strict=False):
        if not same(old, new):
            return Difference(old, new)
    if len(replayed) > len(recorded):
        return Difference(None, replayed[len(recorded)])
    if len(replayed) < len(recorded) and is_complete:
        return Difference(recorded[len(replayed)], None)
    return None


def is_same_log(old: LoggedValue, new: LoggedValue) -> bool:
    """Return whether two statements logged the same, in the same way."""
    return (old.via, old.name) == (new.via, new.name) and is_same_value(old.value, new.value)


def is_same_value(old: Any, new: Any) -> bool:
    """Return whether two logged values are the same: numbers by their bits, NaN equals NaN.

    Texts may differ in what differs with each run, such as times and addresses: a block that is
    skipped takes no time.
    """
    if isinstance(old, str) and isinstance(new, str):
        return old == new or _is_same_text(old, new)
    return list(_bits(old)) == list(_bits(new))


def _is_same_text(old: str, new: str) -> bool:
    outputs = [{"output_type": "stream", "name": "stdout", "text": text} for text in (old, new)]
    return compare_outputs(outputs[:1], outputs[1:], _EXACT).status != "different"


def _bits(value: Any) -> Iterator[object]:
    """Return what tells values apart; ``1``, ``1.0`` and ``True`` are three values."""
    yield type(value).__name__
    match value:
        case float():
            yield "nan" if value != value else struct.pack("<d", value)  # noqa: PLR0124
        case list() | tuple():
            yield len(value)
            for each in value:
                yield from _bits(each)
        case dict():
            yield len(value)
            for key, each in value.items():
                yield key
                yield from _bits(each)
        case _:
            yield value
