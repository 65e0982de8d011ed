"""How what a replayed cell showed compares with what was recorded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from chexpoint.compare.alignment import Keys, align
from chexpoint.compare.displays import Data, compare_displays, name_of, richest, telling
from chexpoint.compare.finding import Comparison, Finding, quoted, sentence, worst
from chexpoint.compare.streams import stream_of, text_of, without_own_lines
from chexpoint.compare.texts import compare_texts
from chexpoint.compare.tolerance import Tolerance
from chexpoint.model import Output, OutputDifference

__all__ = ["Comparison", "compare_outputs"]

_OWN = "application/vnd.chex."
_OWN_TEXT = "CHEX: "
_DISPLAYS = ("display_data", "execute_result")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """One thing that a cell showed."""

    place: int
    """Of the output that it begins with."""
    kind: str
    """What belongs together has the same: ``stdout``, ``error``, a MIME type."""
    name: str
    """How a sentence calls it."""
    text: str = ""
    """Of a stream or an error."""
    data: Data | None = None
    """The representations of an object that is displayed; None for text."""

    @property
    def keys(self) -> Keys:
        try:
            content = self.text if self.data is None else json.dumps(self.data, sort_keys=True)
        except (TypeError, ValueError, RecursionError):  # no JSON, or nested too deeply
            return Keys((self.kind, id(self)), self.kind)
        return Keys((self.kind, content), self.kind)


def compare_outputs(
    recorded: Sequence[Output], replayed: Sequence[Output], tolerance: Tolerance
) -> Comparison:
    """Return how two sequences of outputs compare.

    Nothing in them is trusted: whatever they are, something is returned.

    Notes
    -----
    Outputs are compared at their places first.  Only if some differ then, those that belong
    together are looked for, so that one that is missing is named as such.  That cannot make two
    cells the same that were not: the one that is missing is still missing.
    """
    old, new = list(_all_shown(recorded)), list(_all_shown(replayed))

    @cache
    def compare(i: int | None, j: int | None) -> Finding:
        if i is None or j is None:
            return _alone(old[i] if i is not None else new[j or 0], is_new=i is None)
        return _compare(old[i], new[j], tolerance)

    pairs: list[tuple[int | None, int | None]] = [(i, i) for i in range(len(old))]
    if len(old) != len(new) or any(compare(i, j).status == "different" for i, j in pairs):
        pairs = list(align([shown.keys for shown in old], [shown.keys for shown in new]))
    return Comparison(
        status=worst(compare(i, j) for i, j in pairs).status,
        differences=tuple(
            OutputDifference(
                what=sentence(compare(i, j).what),
                recorded=None if i is None else old[i].place,
                replayed=None if j is None else new[j].place,
            )
            for i, j in pairs
            if compare(i, j).status != "same"
        ),
    )


def _compare(old: _Shown, new: _Shown, tolerance: Tolerance) -> Finding:
    if old.data is not None and new.data is not None:
        found = compare_displays(old.data, new.data, tolerance)
    elif old.kind == new.kind:
        found = compare_texts(old.text, new.text, tolerance)
    else:
        found = Finding("different", f"is missing, and there is {new.name} instead")
    return found._replace(what=f"{old.name} {found.what}") if found.what else found


def _alone(shown: _Shown, *, is_new: bool) -> Finding:
    text = f": {quoted(shown.text.strip())}" if shown.text else ""
    return Finding("different", f"{shown.name} is {'new' if is_new else 'missing'}{text}")


# ------------------------------------------------------------ what outputs show


def _all_shown(outputs: Sequence[Output]) -> Iterator[_Shown]:
    """Yield what outputs show.

    What was written to one stream is one text until something else is shown: in which pieces it
    came, and how those of another stream lay between them, is a matter of time.
    """
    streams: dict[str, list[str]] = {}
    places: dict[str, int] = {}
    for place, output in enumerate(outputs):
        stream = stream_of(output)
        if stream is not None:
            name, text = stream
            streams.setdefault(name, []).append(text)
            places.setdefault(name, place)
        elif (shown := _shown(place, output)) is not None:
            yield from _texts(streams, places)
            streams, places = {}, {}
            yield shown
    yield from _texts(streams, places)


def _texts(streams: dict[str, list[str]], places: dict[str, int]) -> Iterator[_Shown]:
    for name in sorted(streams):
        if text := without_own_lines("".join(streams[name])):
            yield _Shown(place=places[name], kind=f"stream {name}", name=name, text=text)


def _shown(place: int, output: object) -> _Shown | None:
    """Return what an output shows that is no stream; None if CHEX has made it."""
    data: Data = {"application/json": output}  # unless it is something that is known
    if isinstance(output, dict) and output.get("output_type") == "error":
        # The traceback has paths and numbers of lines in it, and art.
        name, message = text_of(output.get("ename")), text_of(output.get("evalue"))
        if name is not None and message is not None:
            text = f"{name}: {message}"
            return _Shown(place=place, kind="error", name="the error", text=text)
    elif isinstance(output, dict) and output.get("output_type") in _DISPLAYS:
        data = telling(output.get("data"))
        if _is_own(data):
            return None
    best = richest(data)
    return _Shown(place=place, kind=best, name=name_of(best), data=data)


def _is_own(data: Data) -> bool:
    """Return whether data is a mark of CHEX."""
    if any(kind.startswith(_OWN) for kind in data):
        return True
    plain, markup = text_of(data.get("text/plain")) or "", text_of(data.get("text/html")) or ""
    return plain.startswith(_OWN_TEXT) and _OWN_TEXT in markup
