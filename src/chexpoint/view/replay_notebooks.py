"""A version as a notebook, with the outputs of a replay or with those that were recorded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from chexpoint.model import NodeId, Output, RecordedCell, Recording, ReplayedCell, Version

_CELL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_DISPLAYS = ("display_data", "execute_result")


def replay_notebook(
    recording: Recording, version: Version, cells: Mapping[NodeId, ReplayedCell]
) -> dict[str, Any]:
    """Return a version as a notebook (nbformat 4.5) with what its cells showed in a replay.

    Cells that were not run have no outputs and no number.  Each has its node and its status among
    its metadata, below ``chex``.
    """
    made = []
    for place, node in enumerate(version.path, start=1):
        cell = cells.get(node)
        was_run = cell is not None and cell.status != "skipped"
        made.append(
            _cell(
                recording.cells[node],
                number=place if was_run else None,
                outputs=_shown(cell) if cell else (),
                chex={"status": cell.status, "reasons": list(cell.reasons)} if cell else {},
            )
        )
    return _notebook(recording, version, made)


def recorded_notebook(recording: Recording, version: Version) -> dict[str, Any]:
    """Return a version as a notebook (nbformat 4.5) with the outputs that were recorded."""
    found = [recording.cells[node] for node in version.path]
    cells = [
        _cell(cell, number=cell.lineage.execution_count, outputs=cell.outputs, chex={})
        for cell in found
    ]
    return _notebook(recording, version, cells)


def _notebook(
    recording: Recording, version: Version, cells: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    used: set[str] = set()
    for cell in cells:
        # A cell that was run twice is two cells here, and no two may have the same id.
        cell["id"] = next(name for name in _names(cell["id"]) if name not in used)
        used.add(cell["id"])
    language: dict[str, Any] = {"name": "python"}
    if recording.environment.python:
        language["version"] = recording.environment.python
    made = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {
            "kernelspec": {
                "name": "python3",
                "display_name": "Python 3 (ipykernel)",
                "language": "python",
            },
            "language_info": language,
            "chex": {"version": recording.tree.labels.get(version, version.name)},
        },
        "cells": list(cells),
    }
    found: dict[str, Any] = _clean(made)
    return found


def _names(name: str) -> Iterator[str]:
    yield name
    number = 2
    while True:
        yield f"{name[:50]}-{number}"
        number += 1


def _cell(
    recorded: RecordedCell, *, number: int | None, outputs: Sequence[Output], chex: dict[str, Any]
) -> dict[str, Any]:
    node = recorded.node
    name = recorded.cell_id if _CELL_ID.fullmatch(recorded.cell_id) else ""
    metadata: dict[str, Any] = {"chex": {"node": node, **chex}}
    if tags := sorted(tag for tag in recorded.tags if tag and "," not in tag):
        metadata["tags"] = tags
    return {
        "cell_type": "code",
        "id": name or re.sub(r"[^a-zA-Z0-9_-]", "-", node)[:32] or "cell",
        "metadata": metadata,
        "execution_count": number,
        "source": recorded.source,
        "outputs": [made for output in outputs if (made := _output(output, number)) is not None],
    }


def _shown(cell: ReplayedCell) -> tuple[Output, ...]:
    """Return what a cell showed, with the exception it ended with."""
    error = cell.error
    if error is None or any(output.get("output_type") == "error" for output in cell.outputs):
        return cell.outputs
    made = {"output_type": "error", "ename": error.ename, "evalue": error.evalue}
    return (*cell.outputs, {**made, "traceback": list(error.traceback)})


def _output(output: Output, number: int | None) -> Output | None:
    """Return an output as the format wants it; None if it is nothing of the kind.

    Outputs may come with a package of a stranger, and what is written must be a notebook.
    """
    kind = output.get("output_type")
    if kind == "stream":
        text = output.get("text", "")
        return {
            "output_type": "stream",
            "name": "stderr" if output.get("name") == "stderr" else "stdout",
            "text": text if _is_text(text) else str(text),
        }
    if kind == "error":
        traceback = output.get("traceback")
        return {
            "output_type": "error",
            "ename": str(output.get("ename", "")),
            "evalue": str(output.get("evalue", "")),
            "traceback": [str(line) for line in traceback] if isinstance(traceback, list) else [],
        }
    data, metadata = output.get("data"), output.get("metadata")
    if not isinstance(data, dict) or kind not in _DISPLAYS:
        return None
    made: Output = {
        "output_type": kind,
        "data": {name: _value(str(name), value) for name, value in data.items()},
        "metadata": metadata if isinstance(metadata, dict) else {},
    }
    return {**made, "execution_count": number} if kind == "execute_result" else made


def _value(name: str, value: object) -> object:
    """Return data as the format wants it: text, except for JSON."""
    if _is_text(value) or name == "application/json" or name.endswith("+json"):
        return value
    return str(value)


def _is_text(value: object) -> bool:
    if isinstance(value, list):
        return all(isinstance(line, str) for line in value)
    return isinstance(value, str)


def _clean(value: Any) -> Any:
    """Return a value in which all text can be written as UTF-8."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {_clean(str(key)): _clean(item) for key, item in value.items()}
    return value
