"""How long loading an artifact takes, as far as earlier loads tell.

Seconds are a constant and a share for each byte, which differ by where the contents are (the *back
end*: ``file``, ``s3``) and by what they are (the *kind*: ``pandas.DataFrame``).  Both are fitted to
the last loads that were measured.  A kind that is new begins with what all kinds of its back
end take, a back end that is new with a guess.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Iterable

from chexpoint.graph.ancestry import sound
from chexpoint.graph.ledger_values import MeasuredLoad
from chexpoint.model import Artifact, Bytes, Seconds, VariableGroup

Line = tuple[float, float]

LEDGER = "ledger"
"""The back end of contents that are in the graph's own table."""

# A guess for a disk: large tables come back with 550 to 1,100 MB/s, and are written beside cells
# with 260 to 330.
_GUESS: Line = (0.005, 1 / 600e6)
_WRITING_GUESS: Line = (0.05, 1 / 200e6)
_WRITING = " writing"
# The guess counts like two loads, of nothing and of so many bytes.
_TYPICAL_BYTES = 32_000_000
# Older loads do not count, because disks fill and networks change.
_RECENT = 64
# One load beside a busy neighbour must not spoil the rest.
_OUTLIER = 6.0
_LEAST_S = 1e-6


class _Loads:
    """The last loads of one kind, and the line through them."""

    def __init__(self) -> None:
        self._recent: deque[tuple[Bytes, Seconds]] = deque(maxlen=_RECENT)
        self._fitted: tuple[Line, Line] | None = None

    def note(self, size: Bytes, seconds: Seconds) -> None:
        self._recent.append((size, seconds))
        self._fitted = None

    def line(self, prior: Line) -> Line:
        """Return the constant and the share for each byte, from what was known before."""
        if self._fitted is None or self._fitted[0] != prior:
            self._fitted = (prior, _fit([*self._recent], prior))
        return self._fitted[1]


def _fit(loads: list[tuple[Bytes, Seconds]], prior: Line) -> Line:
    """Return the line with the least squares of relative errors.

    A load of ten seconds may be wrong by one second, a load of a millisecond may not.  What it is
    relative to is the line itself, so it is fitted a few times.
    """
    usual = statistics.median(seconds / _at(prior, size) for size, seconds in loads)
    points = [(size, _at(prior, size)) for size in (0, _TYPICAL_BYTES)]
    for size, seconds in loads:
        expected = usual * _at(prior, size)
        points.append((size, min(max(seconds, expected / _OUTLIER), expected * _OUTLIER)))
    line = (usual * prior[0], usual * prior[1])
    for _ in range(4):
        line = _least_squares([(x, y, _at(line, x) ** -2) for x, y in points])
    return line


def _least_squares(points: list[tuple[Bytes, Seconds, float]]) -> Line:
    n = math.fsum(w for _, _, w in points)
    x = math.fsum(w * x for x, _, w in points) / n
    y = math.fsum(w * y for _, y, w in points) / n
    across = math.fsum(w * (each - x) ** 2 for each, _, w in points)
    slope = math.fsum(w * (a - x) * (b - y) for a, b, w in points) / across
    if slope < 0:
        return y, 0.0
    if y < slope * x:
        return 0.0, y / x
    return y - slope * x, slope


def _at(line: Line, size: Bytes) -> Seconds:
    return max(line[0] + line[1] * size, _LEAST_S)


class LoadRates:
    """What loads take, by back end and kind."""

    def __init__(self, loads: Iterable[MeasuredLoad] = (), *, backend: str = "file") -> None:
        self.backend = backend
        """Where contents are that are stored from now on."""
        self._loads: dict[tuple[str, str], _Loads] = {}
        for load in loads:
            self.note(load.backend, load.kind, load.size_bytes, load.seconds)

    def note(self, backend: str, kind: str, size_bytes: Bytes, seconds: Seconds) -> None:
        """Take in a load; what is no time or no size is passed over."""
        if 0 < seconds < math.inf and size_bytes >= 0:
            for key in ((backend, ""), (backend, kind)):
                self._loads.setdefault(key, _Loads()).note(size_bytes, seconds)

    def expect(self, backend: str, kind: str, size_bytes: Bytes) -> Seconds:
        """Return what loading so many bytes of a kind takes."""
        line = _WRITING_GUESS if backend.endswith(_WRITING) else _GUESS
        for key in ((backend, ""), (backend, kind)):
            if key in self._loads:
                line = self._loads[key].line(line)
        return _at(line, max(size_bytes, 0))

    def load_s(self, artifact: Artifact) -> Seconds:
        """Return what loading an artifact takes, or would take if it were stored."""
        if artifact.stored and sound(artifact.stored.load_s):
            return artifact.stored.load_s
        is_inline = artifact.stored is not None and not artifact.stored.image
        backend = LEDGER if is_inline else self.backend
        return self.expect(backend, kind_of(artifact.group), artifact.group.size_bytes)


def writing_to(backend: str) -> str:
    """Return the back end under which it is kept how long writing to another takes."""
    return backend + _WRITING


def kind_of(group: VariableGroup) -> str:
    """Return what a group is, for the time that loading it takes."""
    return "+".join(sorted(set(group.kinds)))
