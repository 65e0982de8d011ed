"""What ``chex record`` tells of the versions it has recorded: line by line, or as JSON."""

from __future__ import annotations

import json
import math
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chexpoint.cli.picture_files import print_text
from chexpoint.errors import InvalidValue
from chexpoint.model import ExecutionTree, format_seconds

if TYPE_CHECKING:
    from chexpoint.project import CellRun, VersionRun, VersionTask

_LONGEST_MESSAGE = 300


class Report:
    """What came of all versions: kept, and told line by line."""

    def __init__(self, *, is_quiet: bool = False) -> None:
        self._is_quiet = is_quiet
        self._started = time.perf_counter()
        self.versions: list[VersionRun] = []
        self.unread: list[tuple[str, str]] = []
        """Files that could not be read, and why not."""
        self.exit_code = 0

    def file_failed(self, file: str, error: InvalidValue) -> None:
        self.unread.append((file, str(error)))
        self.fail(str(error))

    def fail(self, message: str, exit_code: int = 1) -> None:
        """Tell of a failure."""
        self.exit_code = max(self.exit_code, exit_code)
        self.warn(message)

    def warn(self, message: str) -> None:
        print(f"chex: {_one_line(message)}", file=sys.stderr)

    def recorded(self, run: VersionRun) -> None:
        """Tell of a version."""
        self.versions.append(run)
        if run.number is None and run.status == "ok":
            self.warn(f"{run.task.file.path}: no code cells, so there is nothing to record")
            return
        if run.status == "error":
            self.fail(failure_line(run))
        if not self._is_quiet:
            print_text(version_line(run))

    def summarize(self) -> None:
        """Tell how much was recorded."""
        if self._is_quiet:
            return
        recorded = [run for run in self.versions if run.number is not None]
        print_text(
            f"{_count(len(recorded), 'version')} recorded: "
            f"{_count(sum(len(run.cells) for run in recorded), 'cell')} "
            f"in {format_seconds(time.perf_counter() - self._started)}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types."""
        labels = _labels(self.versions)
        return {
            "versions": [_version_json(run, labels) for run in self.versions],
            "unread": [{"file": file, "error": error} for file, error in self.unread],
            "cells": sum(len(run.cells) for run in self.versions),
            "seconds": time.perf_counter() - self._started,
        }


def list_versions(tasks: Sequence[VersionTask], *, is_json: bool, is_fresh: bool) -> None:
    """Tell which versions would be recorded, in which order."""
    from chexpoint.project import Turn, computed_cells, in_turns

    turns = tuple(Turn(task) for task in tasks) if is_fresh else in_turns(tasks)
    cells = sum(len(turn.task.cells()) for turn in turns)
    to_run = cells if is_fresh else computed_cells(tasks)
    if is_json:
        print(
            json.dumps(
                {
                    "versions": [_task_json(turn.task) for turn in turns],
                    "cells": cells,
                    "cells_to_run": to_run,
                }
            )
        )
        return
    for turn in turns:
        print_text(f"{turn.task.name}: {_count(len(turn.task.cells()), 'cell')}")
    shared = f", {to_run} of them to run: the others are shared" if to_run < cells else ""
    print_text(
        f"{_count(len(turns), 'version')} would be recorded: {_count(cells, 'cell')}{shared}"
    )


def _task_json(task: VersionTask) -> dict[str, Any]:
    return {
        "name": task.name,
        "file": str(task.file.path),
        "parameters": {each.name: _json_value(each.value) for each in task.parameters},
        "project": str(task.folder),
        "cells": len(task.cells()),
    }


def version_line(run: VersionRun) -> str:
    """Return what is said of a version that was recorded."""
    cells = _count(len(run.cells), "cell")
    end = {"ok": "", "error": ", the last one failed", "interrupted": ", interrupted"}[run.status]
    reused = sum(cell.is_reused for cell in run.cells)
    known = f", {reused} of them known" if reused else ""
    where = f" on {run.host}" if run.host else ""
    return f"{run.task.name}: {cells} in {format_seconds(run.seconds)}{where}{known}{end}"


def failure_line(run: VersionRun) -> str:
    """Return which cell of a version failed, and how."""
    last = run.cells[-1]
    return f"{_where(run, last)}: {_error_text(last)}"


def _where(run: VersionRun, last: CellRun) -> str:
    file, cell = run.task.file.path, last.cell
    which = f"cell {cell.number}" if cell.number is not None else f"the {cell.kind} cell"
    line = _line_of_error(last, file.name) if cell.line is not None else None
    versions = f" of {run.task.name}" if run.task.parameters else ""
    return f"{file}{'' if line is None else f':{line}'}: {which}{versions}"


def _line_of_error(run: CellRun, name: str) -> int | None:
    """Return the line of a script that an error comes from, else where its cell begins."""
    text = "\n".join(run.error.traceback) if run.error is not None else ""
    found = re.findall(rf'File "[^"\n]*{re.escape(name)}", line (\d+)', text)
    return int(found[-1]) if found else run.cell.line


def _error_text(run: CellRun) -> str:
    if run.error is None:
        return ""
    return _one_line(f"{run.error.ename}: {run.error.evalue}".removesuffix(": "))


def _one_line(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= _LONGEST_MESSAGE else f"{line[: _LONGEST_MESSAGE - 3]}..."


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _labels(runs: Sequence[VersionRun]) -> dict[tuple[Path, str, int], str]:
    """Return how versions are called now, by their folder, name and number."""
    from chexpoint.project import Project

    labels = {}
    for folder in {run.task.folder for run in runs}:
        versions = Project.at(folder).versions()
        for version, label in ExecutionTree((), versions).labels.items():
            labels[folder, version.name, version.number] = label
    return labels


def _version_json(run: VersionRun, labels: dict[tuple[Path, str, int], str]) -> dict[str, Any]:
    task = run.task
    return {
        "name": task.name,
        "label": labels.get((task.folder, task.name, run.number or 0)),
        "file": str(task.file.path),
        "parameters": {each.name: _json_value(each.value) for each in task.parameters},
        "status": run.status,
        "seconds": run.seconds,
        "project": str(task.folder),
        "host": run.host or None,
        "cells": [
            {
                "number": each.cell.number,
                "kind": each.cell.kind,
                "line": each.cell.line,
                "node": each.node,
                "seconds": each.seconds,
                "status": each.status,
                "error": _error_text(each) or None,
                "reused": each.is_reused,
            }
            for each in run.cells
        ],
    }


def _json_value(value: Any) -> Any:
    """Return a value of a parameter as JSON has it: there are no infinite numbers."""
    match value:
        case float() if not math.isfinite(value):
            return str(value)
        case list():
            return [_json_value(item) for item in value]
        case dict():
            return {str(key): _json_value(item) for key, item in value.items()}
    return value
