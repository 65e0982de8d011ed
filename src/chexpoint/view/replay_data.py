"""A replay as plain JSON types, for programs."""

from __future__ import annotations

import math
from typing import Any

from chexpoint.model import NodeId, Replay, to_json
from chexpoint.view.replay_facts import VersionResult, saved_cells, version_results


def replay_json(replay: Replay) -> dict[str, Any]:
    """Return what came of each version and cell, and the totals; see the reference of formats.

    A status is null for what is not done, and a budget is null if there is none.
    """
    return {
        "title": replay.recording.title,
        "reproduced": replay.is_good,
        "interrupted": replay.is_interrupted,
        "started": _number(replay.started),
        "seconds": _number(replay.seconds),
        "recorded_seconds": _number(replay.recorded_seconds),
        "no_cache_seconds": _number(replay.no_cache_seconds),
        "planned_seconds": _number(replay.planned_seconds),
        "overhead_seconds": _number(replay.overhead_seconds),
        "cells_in_versions": replay.cells_in_versions,
        "computed_cells": replay.computed_cells,
        "saved_cells": saved_cells(replay),
        "peak_checkpoint_bytes": replay.peak_checkpoint_bytes,
        "budget": _number(replay.budget_bytes),
        "planner": replay.planner,
        "workers": replay.workers,
        "hosts": [to_json(host) for host in replay.hosts],
        "left_out": list(replay.left_out),
        "notes": list(replay.notes),
        "versions": [_version(replay, result) for result in version_results(replay)],
    }


def _version(replay: Replay, result: VersionResult) -> dict[str, Any]:
    return {
        "label": result.label,
        "status": result.status,
        "seconds": _number(result.seconds),
        "recorded_seconds": _number(result.recorded_seconds),
        "cells": [
            _cell(replay, place, node) for place, node in enumerate(result.version.path, start=1)
        ],
    }


def _cell(replay: Replay, place: int, node: NodeId) -> dict[str, Any]:
    cell = replay.cells.get(node)
    return {
        "cell": place,
        "node": node,
        "status": cell.status if cell else None,
        "excused": cell.is_excused if cell else False,
        "seconds": _number(cell.seconds) if cell else None,
        "host": cell.host if cell else "",
        "computed": cell.computed if cell else 0,
        "reasons": list(cell.reasons) if cell else [],
    }


def _number(value: float) -> float | None:
    """Return a number that JSON has: it has neither infinity nor "not a number"."""
    return value if math.isfinite(value) else None
