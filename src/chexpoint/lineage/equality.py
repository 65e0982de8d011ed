"""When two states are the same: the lineage g, and Definition 5 of the CHEX paper (section 6).

States are equal if their code hashes (h) and lineages (g) are equal, and their
costs (delta) and sizes (sz) are similar.  There are two kinds of lineage.  The
canonical one goes by what each object held when it was read; it is the one that
names nodes, because pools of workers share out the same work differently each
time.  The strict one is the paper's: the order of events in each process.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest

from chexpoint.errors import InvalidValue
from chexpoint.lineage.digest import digest
from chexpoint.model import (
    Bytes,
    CellLineage,
    Digest,
    Event,
    Input,
    InputKind,
    NodeId,
    Seconds,
    format_seconds,
    format_size,
)

_SHOWN_INPUTS = 3
# What to call an input of each kind, what a cell does with it, and how it differs.
_WORDS: dict[InputKind, tuple[str, str, str]] = {
    "file": ("file", "reads", "was read with other contents"),
    "folder": ("folder", "lists", "had other entries"),
    "look": ("path", "looks at", "was something else"),
    "variable": ("environment variable", "reads", "had another value"),
    "network": ("network", "uses", "was used in another way"),
    "packages": ("installed packages", "changes", "were not the same"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """How far apart costs may be and still count as similar.

    They are similar when one is at most ``factor`` times the other, or when the
    difference is at most the floor: small costs vary a lot and matter little.
    """

    factor: float = 2.0
    floor_s: Seconds = 1.0
    floor_bytes: Bytes = 64 * 2**20

    def __post_init__(self) -> None:
        if not self.factor >= 1:
            raise InvalidValue(f"The factor of a tolerance must be 1 or more, not {self.factor}.")
        for floor in (self.floor_s, self.floor_bytes):
            if not floor >= 0:
                raise InvalidValue(f"The floor of a tolerance must be 0 or more, not {floor}.")

    def is_similar_cost(self, a: Seconds, b: Seconds) -> bool:
        return self._is_similar(a, b, self.floor_s)

    def is_similar_size(self, a: Bytes, b: Bytes) -> bool:
        return self._is_similar(a, b, self.floor_bytes)

    def _is_similar(self, a: float, b: float, floor: float) -> bool:
        return abs(a - b) <= floor or max(a, b) <= self.factor * min(a, b)


_USUAL = Tolerance()


def lineage_digest(parent: NodeId, code: Digest, inputs: Iterable[Input]) -> NodeId:
    """Return the canonical lineage g = H(parent, code, inputs); the order of inputs is free."""
    return NodeId(
        digest("lineage", parent, code, _text(sorted((i.kind, i.name, i.digests) for i in inputs)))
    )


def strict_digest(parent: Digest, code: Digest, events: Iterable[Event]) -> Digest:
    """Return the strict lineage: the order of events counts within each process, not between."""
    return digest("strict lineage", parent, code, _text(sorted(_by_process(events).items())))


def _text(values: object) -> str:
    # One text for all of them: thousands of small hashes take longer than everything else.
    return json.dumps(values, check_circular=False)


def equal_states(
    a: CellLineage,
    b: CellLineage,
    *,
    tolerance: Tolerance = _USUAL,
    strict: bool = False,
    count_interrupts: bool = False,
) -> bool:
    """Return whether two states are equal; the options are those of `differences`."""
    return not differences(
        a, b, tolerance=tolerance, strict=strict, count_interrupts=count_interrupts
    )


def differences(
    a: CellLineage,
    b: CellLineage,
    *,
    tolerance: Tolerance = _USUAL,
    strict: bool = False,
    count_interrupts: bool = False,
) -> list[str]:
    """Return why two states are not equal, one sentence for each reason.

    Parameters
    ----------
    tolerance
        Which costs and sizes are similar.
    strict
        Compare the strict lineages and not the canonical ones.
    count_interrupts
        Take states for different when only one of them had hardware interrupts; this is the safe
        choice of the paper.
    """
    reasons: list[str] = []
    if a.code != b.code:
        reasons.append("The code of the two cells differs.")
    if (a.strict != b.strict) if strict else (a.node != b.node):
        found = [*_path_reasons(a, b), *input_reasons(a, b)] or (
            _order_reason(a, b) if strict else []
        )
        # The code is part of the lineage, so it may be the only reason.
        if not found and not reasons:
            found = ["The lineages differ in something before these cells."]
        reasons += found
    if not tolerance.is_similar_cost(a.seconds, b.seconds):
        took = f"{format_seconds(a.seconds)} and {format_seconds(b.seconds)}"
        reasons.append(f"The cells took {took}, which is too far apart.")
    if not tolerance.is_similar_size(a.size_bytes, b.size_bytes):
        sizes = f"{format_size(a.size_bytes)} and {format_size(b.size_bytes)}"
        reasons.append(f"The states have {sizes}, which is too far apart.")
    if count_interrupts and bool(a.audit.interrupts) != bool(b.audit.interrupts):
        count = a.audit.interrupts + b.audit.interrupts
        reasons.append(f"Only one of the cells was interrupted by the hardware ({count} times).")
    return reasons


def _path_reasons(a: CellLineage, b: CellLineage) -> list[str]:
    return ["The cells before them differ, or what those read."] if a.parent != b.parent else []


def input_reasons(a: CellLineage, b: CellLineage) -> list[str]:
    """Name the first inputs that two cells did not have in common."""
    ours = {(i.kind, i.name): i.digests for i in a.audit.inputs}
    theirs = {(i.kind, i.name): i.digests for i in b.audit.inputs}
    both = sorted(ours.keys() | theirs.keys())
    different = [key for key in both if ours.get(key) != theirs.get(key)]
    reasons = [
        _input_reason(*key, ours.get(key), theirs.get(key)) for key in different[:_SHOWN_INPUTS]
    ]
    if len(different) > _SHOWN_INPUTS:
        reasons.append(f"{len(different) - _SHOWN_INPUTS} more inputs differ.")
    return reasons


def _input_reason(
    kind: InputKind, name: str, a: tuple[Digest, ...] | None, b: tuple[Digest, ...] | None
) -> str:
    noun, verb, change = _WORDS[kind]
    what = f"the {noun} {name}".rstrip()
    if a is None or b is None:
        return f"Only one of the cells {verb} {what}."
    if ("absent",) in (a, b):
        change = "existed for only one of the cells"
    return f"T{what[1:]} {change}."


def _order_reason(a: CellLineage, b: CellLineage) -> list[str]:
    """Name the first event that is not the same."""
    ours, theirs = _by_process(a.audit.events), _by_process(b.audit.events)
    for process in sorted(ours.keys() | theirs.keys()):
        for mine, other in zip_longest(ours.get(process, []), theirs.get(process, [])):
            if mine == other:
                continue
            did, instead = (f"{e.op} {e.name}" if e else "nothing" for e in (mine, other))
            if did == instead:
                return [f"Process {process} did {did} with other contents."]
            return [f"Process {process} did {did} in one cell and {instead} in the other."]
    return []


def _by_process(events: Iterable[Event]) -> dict[str, list[Event]]:
    sequences: dict[str, list[Event]] = {}
    for event in events:
        sequences.setdefault(event.process, []).append(event)
    return sequences
