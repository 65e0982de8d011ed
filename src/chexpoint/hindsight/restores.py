"""How long putting states back takes, compared with storing them: the ``c`` of the pace.

Replays note what they measure in the folder of the run that they read from.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from chexpoint.hindsight.run_log import list_runs

_FILE, _SAVED = "restores.jsonl", "saved.jsonl"
_RUNS = 3
DEFAULT_RATIO = 1.0
"""Before anything was put back; the paper found 1.38 on average."""


def note_restore(run: Path, nbytes: int, seconds: float) -> None:
    """Note that a state was put back; nothing depends on it."""
    line = json.dumps({"bytes": nbytes, "seconds": round(seconds, 6)})
    with contextlib.suppress(OSError), open(run / _FILE, "a", encoding="utf-8") as file:
        file.write(line + "\n")


def restore_ratio(folder: Path) -> float:
    """Return how much longer putting back takes than storing, from the newest runs replayed."""
    restored, saved = [0, 0.0], [0, 0.0]
    seen = 0
    for head in list_runs(folder):
        if (head.path / _FILE).exists():
            _add(restored, head.path / _FILE)
            _add(saved, head.path / _SAVED)
            seen += 1
        if seen == _RUNS:
            break
    if not all((*restored, *saved)):
        return DEFAULT_RATIO
    return (restored[1] / restored[0]) / (saved[1] / saved[0])


def _add(total: list[float], path: Path) -> None:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        for line in path.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            if "failed" not in entry:
                total[0] += int(entry["bytes"])
                total[1] += float(entry["seconds"])
