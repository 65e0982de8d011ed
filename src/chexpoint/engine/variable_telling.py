"""What is told about the groups that a cell has written: sizes, digests, contents if little."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from chexpoint.engine.variable_contents import contents_text
from chexpoint.engine.variable_facts import (
    SMALL_BYTES,
    SOME_FUNCTION,
    Facts,
    Small,
    quick_facts,
    small_scalar,
)
from chexpoint.engine.variable_groups import Group, joined_spans
from chexpoint.engine.variable_known import Known, Look
from chexpoint.engine.variable_meta import meta_of
from chexpoint.engine.variable_text import ANY, MEMORY
from chexpoint.image import trouble_of
from chexpoint.model import Digest, VariableGroup

PART = "it is a part of module"
"""Why a variable is not stored that a module holds itself."""

ENTANGLED = "there was no time to see what it shares with other variables"
"""Why variables are not stored that may belong together: most of them will turn out not to."""

LITTLE_S = 0.0075
"""What may be spent on one group where the time is up."""


@dataclass(frozen=True, slots=True)
class Teller:
    """Tells about groups."""

    known: Known

    def group(self, group: Group, look: Look) -> VariableGroup:
        """Return a group, with its contents if they are little and come back."""
        names = sorted(group)
        singles = [self.known.facts[name] for name in names]
        is_quick = False
        if len(names) == 1 and not singles[0].overlaps:
            facts, small = singles[0], look.smalls.get(names[0])
            is_quick = quick_facts(look.names[names[0]], ()) is not None
            if small is None and 0 < facts.size_bytes <= SMALL_BYTES:
                small = small_scalar(look.names[names[0]]) if is_quick else None
            if small is None and 0 < facts.size_bytes <= SMALL_BYTES:
                _, small = self.known.reader.read(look.names[names[0]], LITTLE_S)
        else:
            facts, small = self._joint(names, singles, look)
        holders = [self.known.holder_of(look.names[name]) for name in names] if not is_quick else []
        if holder := next(filter(None, holders), ""):
            contents, why = "", f"{PART} {holder}"
        elif len(names) > 1 and any(each.is_entangled for each in singles):
            contents, why = "", ENTANGLED
        else:
            contents, why = self._contents(names, small, look, is_quick=is_quick)
        reaches = set().union(*(each.reaches for each in singles)) - group
        return VariableGroup(
            names=tuple(names),
            kinds=tuple(each.kind for each in singles),
            size_bytes=facts.size_bytes,
            digest=facts.digest,
            parts=facts.parts,
            reaches=tuple(sorted(self._known_names(reaches, look.names) - group)),
            meta={name: meta for name in names if (meta := meta_of(look.names[name]))},
            why_not=facts.why_not or why,
            contents=contents,
        )

    def state(self, name: str, value: object, digest: Digest) -> VariableGroup:
        """Return the group of a state of the process."""
        facts, small = self.known.reader.read(value, LITTLE_S)
        contents = contents_text([name], small) if small is not None else ""
        return VariableGroup(
            names=(name,),
            kinds=("state",),
            size_bytes=facts.size_bytes,
            digest=digest,
            why_not=facts.why_not,
            contents=contents,
        )

    def _joint(
        self, names: list[str], singles: list[Facts], look: Look
    ) -> tuple[Facts, Small | None]:
        """Return the facts about variables that share something."""
        bad = next((each.why_not for each in singles if each.why_not), "")
        parts = tuple(dict(part for each in singles for part in each.parts).items())
        size = sum(each.size_bytes for each in singles)
        if bad or not all(each.digest for each in singles):
            return Facts(kind="", size_bytes=size, parts=parts, why_not=bad), None
        joined = joined_spans(each.print for each in singles)
        values = [look.names[name] for name in names]
        cost = sum(each.cost_s for each in singles)
        left = look.left()
        if cost > max(left, LITTLE_S):
            return Facts(kind="", size_bytes=size, parts=parts), None
        held = self.known.held(look)
        facts, small = self.known.reader.read_joint(values, joined, max(left, LITTLE_S), held)
        if small is not None:
            small = replace(small, is_risky=any(each.is_risky for each in singles))
        return facts, small

    def _contents(
        self, names: list[str], small: Small | None, look: Look, *, is_quick: bool
    ) -> tuple[str, str]:
        """Return small contents as text, or why they cannot be stored; or neither."""
        if small is None or small.is_risky or small.size_bytes > SMALL_BYTES:
            return "", ""
        if not is_quick and not small.is_sure:
            if look.left() < 0:
                return "", ""
            values = [look.names[name] for name in names]
            why = trouble_of(values, small, self.known.reader.world())
            if why:
                return "", why
        roots = [f"{safe_module(look.names[name])}." for name in names]
        imports = [each for each in self.known.imports if each.startswith(tuple(roots))]
        return contents_text(names, small, imports), ""

    def _known_names(self, reaches: set[str], names: Mapping[str, Any]) -> set[str]:
        """Return names that functions use, those that are variables or may become some."""
        if ANY in reaches:
            return {*names, ANY}  # those that are still to come as well
        more = self.known.more_names(frozenset(reaches))
        # Built-in names as well: a later cell may bind one of them.
        return (reaches | more) - {SOME_FUNCTION, ANY, MEMORY}


def safe_module(value: object) -> str:
    """Return the name of a value that is a module; else one that no module has."""
    return value.__name__ if type(value) is type(sys) else ":"
