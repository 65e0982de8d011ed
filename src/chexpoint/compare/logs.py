"""The deferred check: what the record logged must be what the replay logs.

What a cell prints by the way, such as the loss after each epoch, tells very much about what it
does: hardly anything can go another way without being seen there.  A replay may log more, because
statements may have been added in hindsight, but not less, and in no other order.

References
----------
Garcia et al., Hindsight Logging for Model Training, VLDB 2021, section 3.3.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chexpoint.compare.finding import quoted, sentence
from chexpoint.compare.numbers import has_close_numbers, without_numbers
from chexpoint.compare.streams import stream_of, without_own_lines
from chexpoint.compare.texts import LARGEST_TEXT, lasting_lines
from chexpoint.compare.tolerance import Tolerance
from chexpoint.compare.volatile import without_volatile
from chexpoint.model import Output


def missing_from_log(
    recorded: Sequence[Output], replayed: Sequence[Output], tolerance: Tolerance
) -> str | None:
    """Return the first line that the record logged and the replay does not, in a sentence.

    None if there is no such line.  Standard output and standard error are logs of their own.
    """
    before, now = _logs(recorded), _logs(replayed)
    for name, log in before.items():
        other = now.get(name, "")
        if log == other or max(len(log), len(other)) > LARGEST_TEXT:
            continue  # what is that long has been found to differ, or to be the same, as a whole
        missing = _missing_line(log, other, tolerance)
        if missing is not None:
            number, line = missing
            where = f"line {number} of {name}"
            return sentence(f"the replay does not log {where} any more: {quoted(line)}")
    return None


def _logs(outputs: Sequence[Output]) -> dict[str, str]:
    """Return all that was written to each stream."""
    texts: dict[str, list[str]] = {}
    for name, text in filter(None, map(stream_of, outputs)):
        texts.setdefault(name, []).append(text)
    return {name: without_own_lines("".join(texts[name])) for name in sorted(texts)}


def _missing_line(log: str, other: str, tolerance: Tolerance) -> tuple[int, str] | None:
    """Return the number and text of the first line of a log that another does not have.

    Each line is taken for the next one that is close to it: if there is any way to find all of
    them in order, this is one.  No line is looked at twice.
    """
    candidates = lasting_lines(other)
    for number, line in enumerate(lasting_lines(log), start=1):
        if line and not _goes_on_with(line, candidates, tolerance):
            return number, line
    return None


def _goes_on_with(line: str, candidates: Iterator[str], tolerance: Tolerance) -> bool:
    """Return whether a line is still to come; takes the candidates up to it."""
    normal = without_volatile(line, tolerance)
    rest = without_numbers(normal)
    for other in candidates:
        if other == line:
            return True
        # What is left without numbers is compared first: that takes no time if it is much longer.
        candidate = without_volatile(other, tolerance)
        if without_numbers(candidate) == rest and has_close_numbers(normal, candidate, tolerance):
            return True
    return False
