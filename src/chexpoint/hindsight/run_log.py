"""The folder of a run: what was recorded of the main loops of one execution of a cell.

``run.json`` is written once, ``events.jsonl`` by the process that trains, and ``saved.jsonl`` by
the one that writes images, after they are durable.  Whoever reads them takes what is whole: any
of the processes may have been killed at any time.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from chexpoint.errors import ChexError
from chexpoint.hindsight.jsonable import jsonable
from chexpoint.hindsight.run_story import BROKEN, NO_IMAGE, Story
from chexpoint.model import LoopRun, LoopSite

FORMAT = 1
_HEAD, _EVENTS, _SAVED = "run.json", "events.jsonl", "saved.jsonl"
_BUFFER_BYTES = 256 * 1024
_SITE = fields(LoopSite)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHead:
    """What is known of a run without reading its events."""

    run: str
    path: Path
    source: str
    session: str = ""
    execution_count: int = 0
    file: str = ""
    time: float = 0.0


# ------------------------------------------------------------ writing


class RunLog:
    """Writes what happens in a run.

    Once it is made nothing here raises: training must not fail because its record does.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problem = ""
        """Why nothing more is written."""
        self._lines: list[bytes] = []
        self._nbytes = 0
        self._pid = os.getpid()
        self._fd = os.open(
            path / _EVENTS, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
        )

    @classmethod
    def create(
        cls,
        folder: Path,
        run: str,
        *,
        source: str,
        sites: Sequence[LoopSite] = (),
        session: str = "",
        execution_count: int = 0,
        file: str = "",
        facts: Mapping[str, Any] | None = None,
    ) -> RunLog:
        """Make the folder of a run, readable by the user only.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        path = folder / run
        for each in (folder, path):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
        head = {
            "format": FORMAT,
            "run": run,
            "session": session,
            "execution_count": execution_count,
            "source": source,
            "file": file,
            "time": time.time(),
            "facts": dict(facts or {}),
            "sites": [asdict(site) for site in sites],
        }
        fresh = path / f"{_HEAD}.new"
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(fd, "w", encoding="utf-8") as out:
            # Not made durable: a training waits for it, and without a head there is no run.
            json.dump(head, out, default=jsonable)
        os.replace(fresh, path / _HEAD)
        return cls(path)

    def event(self, **event: Any) -> None:
        """Add an event; it is written by and by, in the order of the events."""
        if self.problem or self._fd < 0:
            return
        if event.get("e") == "log":
            event["value"] = jsonable(event.get("value"))
            event["labels"] = [[str(k), jsonable(v)] for k, v in event.get("labels") or ()]
        try:
            text = json.dumps(event, separators=(",", ":"), default=jsonable)
        except BROKEN as error:
            self.problem = f"an event cannot be written: {error}"
            return
        self._lines.append(text.encode() + b"\n")
        self._nbytes += len(text)
        if self._nbytes >= _BUFFER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what was added, in one piece."""
        data = b"".join(self._lines)
        self._lines.clear()
        self._nbytes = 0
        # A process that was forked off has a copy of what its parent is going to write.
        if not data or self.problem or self._fd < 0 or os.getpid() != self._pid:
            return
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            self.problem = f"the record of the run cannot be written: {error.strerror}"

    def close(self) -> None:
        """Write what is left."""
        self.flush()
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):
                os.close(fd)


# ------------------------------------------------------------ reading


def list_runs(folder: Path) -> tuple[RunHead, ...]:
    """Return the runs of a folder, the newest first; damaged ones are left out."""
    found = []
    for path in _run_folders(folder):
        with contextlib.suppress(ChexError, *BROKEN):
            head = _read_head(path)
            found.append(
                RunHead(
                    run=path.name,
                    path=path,
                    source=str(head["source"]),
                    session=str(head.get("session", "")),
                    execution_count=int(head.get("execution_count") or 0),
                    file=str(head.get("file", "")),
                    time=float(head.get("time") or 0.0),
                )
            )
    return tuple(sorted(found, key=lambda head: (head.time, head.run), reverse=True))


def read_run(path: Path) -> LoopRun:
    """Return what was recorded of a run.

    A checkpoint counts only if all of its images are durable.

    Raises
    ------
    ChexError
        If its head is missing, damaged, or written by a newer CHEX.
    """
    head = _read_head(path)
    saved = _saved_images(path)
    story = Story(saved=frozenset(saved))
    for event in _lines(path / _EVENTS):
        with contextlib.suppress(*BROKEN):
            story.add(event)
    try:
        return LoopRun(
            run=path.name,
            source=str(head["source"]),
            session=str(head.get("session", "")),
            execution_count=int(head.get("execution_count") or 0),
            file=str(head.get("file", "")),
            time=float(head.get("time") or 0.0),
            seconds=story.seconds,
            facts=dict(head.get("facts") or {}),
            sites=tuple(_site(each) for each in (*(head.get("sites") or ()), *story.sites)),
            loops=tuple(loop.record() for loop in story.loops),
            values=tuple(story.values),
            digests=_digests(saved, story.digests),
            refused=story.refused,
            stored_bytes=sum(_count(line.get("stored_bytes")) for line in saved.values()),
        )
    except BROKEN as error:
        raise _damaged(path, f"{type(error).__name__}: {error}") from error


def images_of_run(path: Path) -> frozenset[str]:
    """Return the names of the images of one run that are durable."""
    return frozenset(_saved_images(path))


def _run_folders(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink())
    except OSError:
        return []


def _read_head(path: Path) -> dict[str, Any]:
    try:
        head = json.loads((path / _HEAD).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ChexError(
            f"no run '{path.name}' is recorded: run the loop again to record it"
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path, str(error)) from error
    if not isinstance(head, dict) or not isinstance(head.get("source"), str):
        raise _damaged(path, "it is not the head of a run")
    written = head.get("format")
    if not isinstance(written, int) or written > FORMAT:
        raise ChexError(f"run '{path.name}' was recorded by a newer CHEX: update this one")
    return head


def _damaged(path: Path, why: str) -> ChexError:
    reason = " ".join(why.split())
    return ChexError(f"the record of run '{path.name}' is damaged ({reason}): run the loop again")


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Return the JSON objects of a file, without lines that are torn or damaged."""
    try:
        file = open(path, "rb")  # noqa: SIM115 - closed below
    except OSError:
        return
    with file:
        for line in file:
            with contextlib.suppress(ValueError, RecursionError):
                found = json.loads(line)
                if isinstance(found, dict):
                    yield found


def _saved_images(path: Path) -> dict[str, dict[str, Any]]:
    """Return what was said last about each image that is durable."""
    last = {
        line["image"]: line for line in _lines(path / _SAVED) if isinstance(line.get("image"), str)
    }
    return {image: line for image, line in last.items() if "failed" not in line}


def _digests(
    saved: Mapping[str, Mapping[str, Any]], told: Iterable[tuple[str, str, Any]]
) -> dict[str, dict[str, str]]:
    """Return the digests by image and leaf; those that the training process told come first."""
    found: dict[str, dict[str, Any]] = {
        image: dict(line["digests"]) if isinstance(line.get("digests"), dict) else {}
        for image, line in saved.items()
    }
    for image, leaf, digest in told:
        if image in found or image.startswith(NO_IMAGE):
            found.setdefault(image, {})[leaf] = digest
    return {
        image: {leaf: digest for leaf, digest in by_leaf.items() if isinstance(digest, str)}
        for image, by_leaf in found.items()
    }


def _site(data: Mapping[str, Any]) -> LoopSite:
    known: dict[str, Any] = {each.name: data[each.name] for each in _SITE if each.name in data}
    known |= {name: tuple(value) for name, value in known.items() if isinstance(value, list)}
    return LoopSite(**known)


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0
