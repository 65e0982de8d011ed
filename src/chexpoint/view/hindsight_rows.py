"""What replays in hindsight found, as rows: for tables, charts and programs."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chexpoint.model import (
    HindsightResult,
    HindsightRow,
    LoggedValue,
    Seconds,
    Standing,
    format_seconds,
    to_json,
)
from chexpoint.view.text import count

STANDINGS: tuple[Standing, ...] = ("exact", "unverified", "diverged")


@dataclass(frozen=True, slots=True, kw_only=True)
class HindsightTotals:
    """What all replays came to."""

    values: int
    by_standing: Mapping[str, int]
    seconds: Seconds
    recorded_seconds: Seconds
    iterations: int
    computed_blocks: int
    skipped_blocks: int

    @property
    def is_good(self) -> bool:
        """Whether nothing diverged."""
        return not self.by_standing["diverged"]


def wanted_rows(
    results: Iterable[HindsightResult], names: Collection[str] = ()
) -> list[HindsightRow]:
    """Return the rows that a user wants to see: what was added, or everything of some names."""
    rows = (row for result in results for row in result.rows)
    if names:
        return [row for row in rows if row.value.name in names]
    return [row for row in rows if row.is_added]


def labels_of(value: LoggedValue) -> dict[str, Any]:
    """Return what a program calls the iterations, each under a name of its own."""
    found: dict[str, Any] = {}
    pairs = value.labels or tuple(zip(("iteration", "step"), value.at, strict=False))
    for name, label in pairs:
        title, number = name, 2
        while title in found:
            title, number = f"{name}.{number}", number + 1
        found[title] = label
    return found


def label_names(rows: Iterable[HindsightRow]) -> list[str]:
    """Return what the iterations of some rows are called, outer ones first."""
    names: dict[str, int] = {}
    for row in rows:
        for depth, name in enumerate(labels_of(row.value)):
            names.setdefault(name, depth)
    return sorted(names, key=lambda name: names[name])


def has_several_loops(rows: Iterable[HindsightRow]) -> bool:
    """Return whether the rows of one version come from more than one main loop."""
    loops: dict[str, set[int]] = {}
    for row in rows:
        loops.setdefault(row.version, set()).add(row.value.loop)
    return any(len(found) > 1 for found in loops.values())


def totals_of(results: Sequence[HindsightResult], names: Collection[str] = ()) -> HindsightTotals:
    """Return what all replays came to, and how far the values that are wanted can be trusted."""
    rows = wanted_rows(results, names)
    return HindsightTotals(
        values=len(rows),
        by_standing={each: sum(row.standing == each for row in rows) for each in STANDINGS},
        seconds=math.fsum(result.seconds for result in results),
        recorded_seconds=math.fsum(result.recorded_seconds for result in results),
        iterations=sum(result.iterations for result in results),
        computed_blocks=sum(result.computed_blocks for result in results),
        skipped_blocks=sum(result.skipped_blocks for result in results),
    )


def hindsight_summary(results: Sequence[HindsightResult], names: Collection[str] = ()) -> str:
    """Return what came of it in one line."""
    totals = totals_of(results, names)
    found = [f"{n} {each}" for each, n in totals.by_standing.items() if n]
    match found:
        case []:
            trust = "nothing was logged"
        case [_]:
            trust = f"all {found[0].split()[1]}"
        case _:
            trust = ", ".join(found)
    took = f"training took {format_seconds(totals.recorded_seconds)}"
    values = count(totals.values, "value")
    return f"CHEX: {values} in {format_seconds(totals.seconds)} ({took}), {trust}"


# ---------------------------------------------------------------- for programs


def hindsight_records(rows: Sequence[HindsightRow]) -> list[dict[str, Any]]:
    """Return rows as a table of a program has them: a column for each loop, then the value."""
    names, several = label_names(rows), has_several_loops(rows)
    records = []
    for row in rows:
        labels = labels_of(row.value)
        loop = {"loop": row.value.loop} if several else {}
        records.append(
            {
                "version": row.version,
                **loop,
                **{name: labels.get(name) for name in names},
                "name": row.value.name,
                "value": row.value.value,
                "standing": row.standing,
            }
        )
    return records


def hindsight_json(
    results: Sequence[HindsightResult],
    left_out: Mapping[str, str] | None = None,
    names: Collection[str] = (),
) -> dict[str, Any]:
    """Return what ``chex hindsight --json`` prints.

    Parameters
    ----------
    left_out
        Versions that were not replayed, and why.
    names
        Values to give; all by default, with what the program itself has logged.
    """
    totals: dict[str, Any] = to_json(totals_of(results, names))
    return {
        "versions": [_result_json(result, names) for result in results],
        "left_out": [
            {"version": version, "reason": reason} for version, reason in (left_out or {}).items()
        ],
        "totals": totals,
    }


def _result_json(result: HindsightResult, names: Collection[str]) -> dict[str, Any]:
    return {
        "version": result.version,
        "rows": [row_json(row) for row in result.rows if not names or row.value.name in names],
        "findings": to_json(result.findings),
        "notes": list(result.notes),
        "failed": result.failed,
        "iterations": result.iterations,
        "computed_blocks": result.computed_blocks,
        "skipped_blocks": result.skipped_blocks,
        "seconds": result.seconds,
        "recorded_seconds": result.recorded_seconds,
        "workers": result.workers,
    }


def row_json(row: HindsightRow) -> dict[str, Any]:
    """Return a row as JSON."""
    value = row.value
    return {
        "version": row.version,
        "loop": value.loop,
        "at": list(value.at),
        "labels": {name: plain(label) for name, label in labels_of(value).items()},
        "name": value.name,
        "value": plain(value.value),
        "standing": row.standing,
        "line": value.line,
        "via": value.via,
        "added": row.is_added,
    }


def row_from_json(data: Mapping[str, Any]) -> HindsightRow:
    """Return the row that `row_json` wrote."""
    return HindsightRow(
        version=data["version"],
        value=LoggedValue(
            loop=data["loop"],
            at=tuple(data["at"]),
            labels=tuple((name, _number(label)) for name, label in data["labels"].items()),
            line=data["line"],
            via=data["via"],
            name=data["name"],
            value=_number(data["value"]),
        ),
        standing=data["standing"],
        is_added=data["added"],
    )


_NO_NUMBERS = ("nan", "inf", "-inf")


def plain(value: Any) -> Any:
    """Return a value that JSON has: numbers that are none go as the texts Python has for them."""
    match value:
        case float() if not math.isfinite(value):
            return str(value)
        case list() | tuple():
            return [plain(item) for item in value]
        case dict():
            return {str(key): plain(item) for key, item in value.items()}
        case None | bool() | int() | float() | str():
            return value
    return str(value)


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, str) and value in _NO_NUMBERS else value
