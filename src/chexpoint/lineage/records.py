"""What is kept in the user's cache folder from one kernel to the next; losing it costs time."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile

from chexpoint.lineage.digest import digest
from chexpoint.lineage.environment import RecordCache


class Records:
    """Digests of installed packages, on disk.

    Parameters
    ----------
    folder
        None keeps nothing.
    """

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._saved: RecordCache | None = None

    def path(self, name: str) -> str | None:
        return os.path.join(self._folder, name) if self._folder is not None else None

    def _file(self) -> str | None:
        return self.path(f"packages-{digest('prefix', sys.prefix)[:8]}.json")

    def load(self) -> RecordCache:
        """Return what was saved, or nothing."""
        path = self._file()
        found: RecordCache = {}
        with contextlib.suppress(OSError, ValueError, RecursionError):
            if path is not None:
                with open(path, encoding="utf-8") as file:
                    loaded = json.load(file)
                entries = loaded.items() if isinstance(loaded, dict) else ()
                found = {name: entry for name, entry in entries if entry and _is_list(entry)}
        self._saved = dict(found)
        return found

    def save(self, records: RecordCache) -> None:
        """Save the records if there is anything new."""
        path = self._file()
        if path is None or records == self._saved:
            return
        self._saved = dict(records)
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            fd, temporary = tempfile.mkstemp(dir=os.path.dirname(path))
            with open(fd, "w", encoding="utf-8") as file:
                json.dump(records, file)
            os.replace(temporary, path)


def _is_list(entry: object) -> bool:
    return isinstance(entry, list) and all(isinstance(each, int | str) for each in entry)


def default_cache_folder() -> str:
    """Return the user's cache folder for CHEX."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(base, "chexpoint")
