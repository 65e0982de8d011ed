"""Running cells in an audited engine, and reading what was recorded of them."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import dedent

import xxhash

from chexpoint.engine import Engine
from chexpoint.model import CellLineage, Digest, EffectKind, Input

CELL_TIMEOUT_S = 120.0


def run(engine: Engine, source: str) -> CellLineage:
    """Run a cell that must not fail; return its lineage."""
    source = dedent(source).strip()
    result = engine.run(source, timeout_s=CELL_TIMEOUT_S)
    assert result.error is None, "\n".join(result.error.traceback)
    lineage = engine.lineage()[-1]
    assert lineage.source == source
    return lineage


def run_all(engine: Engine, sources: Sequence[str]) -> tuple[CellLineage, ...]:
    """Run cells that must not fail; return the lineage of each."""
    for source in sources:
        result = engine.run(source, timeout_s=CELL_TIMEOUT_S)
        assert result.error is None, "\n".join(result.error.traceback)
    return engine.lineage()[-len(sources) :]


def digest_of(contents: bytes) -> Digest:
    """Return the digest that a file with these contents has."""
    return xxhash.xxh3_128_hexdigest(contents)


def reads(lineage: CellLineage) -> dict[str, tuple[Digest, ...]]:
    """Return the files that a cell read, with what was in them."""
    return {i.name: i.digests for i in lineage.audit.inputs if i.kind == "file"}


def lists(lineage: CellLineage) -> dict[str, tuple[Digest, ...]]:
    """Return the folders that a cell listed, with the digests of their entries."""
    return {i.name: i.digests for i in lineage.audit.inputs if i.kind == "folder"}


def effects(lineage: CellLineage) -> dict[str, EffectKind]:
    """Return what a cell changed, and how."""
    return {effect.path: effect.kind for effect in lineage.audit.effects}


def hints(lineage: CellLineage) -> set[str]:
    """Return the kinds of hints that a cell got."""
    return {hint.kind for hint in lineage.audit.hints}


def differences(
    first: Sequence[CellLineage], second: Sequence[CellLineage]
) -> dict[str, list[Input]]:
    """Return, for each cell by its number and source, the inputs that only one of two runs had."""
    assert [cell.code for cell in first] == [cell.code for cell in second]
    found = {}
    for one, other in zip(first, second, strict=True):
        differing = set(one.audit.inputs) ^ set(other.audit.inputs)
        if differing:
            label = f"{one.number}: {one.source.splitlines()[0]}"
            found[label] = sorted(differing, key=lambda i: (i.kind, i.name, i.digests))
    return found
