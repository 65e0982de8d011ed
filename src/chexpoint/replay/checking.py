"""How what a cell did in a replay compares with what was recorded of it."""

from __future__ import annotations

import re
from pathlib import Path

from chexpoint.compare import Tolerance, compare_files, compare_outputs, missing_from_log
from chexpoint.lineage import input_reasons
from chexpoint.model import (
    REPLAY_STATUSES,
    VOLATILE_TAG,
    CellLineage,
    CellResult,
    Digest,
    OutputDifference,
    RecordedCell,
    ReplayedCell,
    ReplayStatus,
)
from chexpoint.replay.files import FileSource, is_in_project

_HEX = re.compile("[0-9a-f]{32}")


class Checker:
    """Compares cells; values of one replay that all comparisons need."""

    def __init__(self, files: FileSource, tolerance: Tolerance) -> None:
        self._files = files
        self._tolerance = tolerance

    def check(
        self,
        recorded: RecordedCell,
        result: CellResult,
        lineage: CellLineage | None,
        *,
        folder: Path,
        doubt: str = "",
    ) -> ReplayedCell:
        """Return what came of a cell that has come to an end.

        Parameters
        ----------
        lineage
            Of the replayed cell; None if it has not led to a new state.
        folder
            Where it ran.
        doubt
            Why it was not sure to do the same again: it, or a cell before it, depends on chance.
        """
        shown = compare_outputs(recorded.outputs, result.outputs, self._tolerance)
        written: list[tuple[ReplayStatus, OutputDifference]] = []
        inputs: list[str] = []
        if lineage is not None:
            written = self._compare_effects(recorded.lineage, lineage, folder)
            inputs = _changed_inputs(recorded.lineage, lineage)
        differences = [*shown.differences, *(difference for _, difference in written)]
        status = _worst(shown.status, *(each for each, _ in written))
        if inputs:
            status = _worst(status, "close")
        reasons = [difference.what for difference in differences]
        if shown.status == "different":
            missing = missing_from_log(recorded.outputs, result.outputs, self._tolerance)
            reasons += [missing] if missing else []
        reasons += inputs
        has_failed = result.error is not None and recorded.lineage.status == "ok"
        is_excused = VOLATILE_TAG in recorded.tags and not has_failed and status != "same"
        if has_failed and result.error is not None:
            status = "failed"
            reasons.insert(0, f"{result.error.ename}: {result.error.evalue}".removesuffix(": "))
        elif result.error is None and recorded.lineage.status == "error":
            status = "different"
            reasons.insert(0, "it failed when it was recorded, and did not fail now")
        if is_excused:
            reasons.append(f"it is tagged {VOLATILE_TAG}: it may differ")
        elif doubt and status in {"different", "failed"}:
            reasons.append(f"this was to be expected: {doubt}")
        return ReplayedCell(
            node=recorded.node,
            status=status,
            reasons=tuple(dict.fromkeys(reasons)),
            differences=tuple(differences),
            outputs=result.outputs,
            seconds=result.seconds if lineage is None else lineage.seconds,
            size_bytes=recorded.lineage.size_bytes if lineage is None else lineage.size_bytes,
            computed=1,
            error=result.error,
            is_excused=is_excused,
        )

    def _compare_effects(
        self, recorded: CellLineage, replayed: CellLineage, folder: Path
    ) -> list[tuple[ReplayStatus, OutputDifference]]:
        """Return the files that a cell has not written as it did when it was recorded."""
        before, now = _written(recorded), _written(replayed)
        found: list[tuple[ReplayStatus, OutputDifference]] = []
        for name, digest in before.items():
            if name not in now:
                if recorded.audit.is_complete and replayed.audit.is_complete:
                    found.append(("different", OutputDifference(what=f"{name} was not written")))
            elif now[name] != digest:
                kept = self._files.find(name, digest)
                compared = compare_files(
                    name, kept, folder / name.removeprefix("./"), self._tolerance
                )
                found += [(compared.status, difference) for difference in compared.differences]
        return found


def _written(lineage: CellLineage) -> dict[str, Digest]:
    """Return what a cell has left in files of the project."""
    return {
        effect.path: effect.digest
        for effect in lineage.audit.effects
        if effect.kind == "written" and is_in_project(effect.path) and _HEX.fullmatch(effect.digest)
    }


def _changed_inputs(recorded: CellLineage, replayed: CellLineage) -> list[str]:
    """Return what the cell has not found as it was, unless nobody can know."""
    before, now = recorded.audit, replayed.audit
    if before.mechanism != now.mechanism or not (before.is_complete and now.is_complete):
        return []
    return input_reasons(recorded, replayed)


def _worst(*statuses: ReplayStatus) -> ReplayStatus:
    return max(statuses, key=REPLAY_STATUSES.index)
