"""Files that ``chex hindsight`` writes: a table for other programs, and a picture."""

from __future__ import annotations

import csv
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from chexpoint.cli.picture_files import replaceable_file
from chexpoint.errors import InvalidValue

if TYPE_CHECKING:
    import argparse

    from chexpoint.model import HindsightResult

_VERB = "chex hindsight"


@dataclass(frozen=True, slots=True, kw_only=True)
class HindsightFiles:
    """What the user wants written."""

    csv: Path | None = None
    plot: Path | None = None

    @classmethod
    def wanted(cls, args: argparse.Namespace) -> HindsightFiles:
        """Return what a command line asks for.

        Raises
        ------
        InvalidValue
            If a name is not one of such a file, or something else would be lost.
        """
        from chexpoint.view import HINDSIGHT_START

        table = plot = None
        if args.csv is not None:
            table = _with_suffix(args.csv, ".csv", "--csv OUT.csv")
        if args.plot is not None:
            plot = _with_suffix(args.plot, ".svg", "--plot OUT.svg")
            plot = replaceable_file(str(plot), suffix=".svg", start=HINDSIGHT_START, verb=_VERB)
        return cls(csv=table, plot=plot)

    def write(self, results: Sequence[HindsightResult], names: Collection[str]) -> list[str]:
        """Write them, and return a line about each.

        Raises
        ------
        InvalidValue
            If one cannot be written.
        """
        from chexpoint.view import hindsight_svg

        lines = []
        try:
            if self.csv is not None:
                rows = _write_table(self.csv, results, names)
                lines.append(f"wrote {rows:,} rows to {self.csv}")
            if self.plot is not None:
                self.plot.write_text(hindsight_svg(results, names=names), encoding="utf-8")
                lines.append(f"drew {self.plot}")
        except OSError as error:
            why = error.strerror or error
            raise InvalidValue(f"cannot write {error.filename}: {why}") from error
        return lines


def _with_suffix(name: str, suffix: str, example: str) -> Path:
    path = Path(name)
    if path.suffix.lower() != suffix:
        raise InvalidValue(f"'{name}' does not end in {suffix}: write {example}")
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise InvalidValue(f"cannot write {name}: no such folder, or it is one")
    return path


def _write_table(path: Path, results: Sequence[HindsightResult], names: Collection[str]) -> int:
    """Write one row for each value; return how many there are."""
    from chexpoint.view import hindsight_records, wanted_rows

    rows = wanted_rows(results, names)
    records = [
        {**record, "line": row.value.line, "via": row.value.via}
        for record, row in zip(hindsight_records(rows), rows, strict=True)
    ]
    head = list(records[0]) if records else ["version", "name", "value", "standing", "line", "via"]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, head)
        writer.writeheader()
        writer.writerows(records)
    return len(records)
