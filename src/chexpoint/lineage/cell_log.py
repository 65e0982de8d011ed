"""What is noted while a cell runs, and what follows from it when it has ended.

`CellLog` only collects; `conclude` turns the notes into the canonical inputs,
the effects and the hints of a `CellAudit`.  Paths are real paths until then.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from chexpoint.lineage.fingerprint import Reading, Signature
from chexpoint.lineage.mounts import Link
from chexpoint.lineage.places import Places, without_lots
from chexpoint.lineage.processes import WORKER
from chexpoint.lineage.trail import Step
from chexpoint.model import (
    CellAudit,
    Digest,
    Effect,
    EffectKind,
    Event,
    Hint,
    Input,
    InputKind,
    Mechanism,
)

_MOST_SHOWN = 5


class Outcome:
    """What became of a path that a cell changed."""

    __slots__ = ("kind", "reading")

    def __init__(self, kind: EffectKind, reading: Reading | None = None) -> None:
        self.kind = kind
        self.reading = reading


Note = tuple[str, str, str, Reading | None]
"""Process, what it did, to which path, and what it found there."""


class CellLog:
    """The notes of one cell; mutated under the auditor's lock alone."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.reads: dict[str, list[Reading]] = {}
        self.lists: dict[str, list[tuple[str, Reading]]] = {}
        """Who listed a folder, and what it saw."""
        self.looks: dict[str, set[Digest]] = {}
        """What was asked about paths, and the answers."""
        self.writes: dict[str, Signature | None] = {}
        """What each changed path was before its first change; None if it was not there."""
        self.added: set[str] = set()
        """Files that were there and were added to, or changed in part."""
        self.moved: set[str] = set()
        """New names of files that were there before the cell: reading them is no reading of one's
        own."""
        self.links: set[Link] = set()
        """Those that led to files."""
        self.notes: list[Note] = []
        self.outcomes: dict[str, Outcome] = {}
        self.peers: dict[str, str] = {}
        self.hints: dict[tuple[str, str], None] = {}
        self.gaps: dict[str, None] = {}
        self.environment_reads = 0
        self._modules = 0
        self._entropy: dict[str, int] = {}
        self.pending: set[Reading] = set()
        """Readings whose digests are still being computed."""
        self.needed_privileges: dict[str, None] = {}
        """Programs that were started but could not get the rights they ask for."""

    def read(self, process: str, path: str, reading: Reading) -> bool:
        """Note a read; return whether it told anything new."""
        known = self.reads.get(path)
        if known is None:
            self.reads[path] = [reading]
        else:
            last = known[-1]
            if last.signature == reading.signature and (
                reading.signature is not None or last.digest == reading.digest
            ):
                return False
            known.append(reading)
        self.notes.append((process, "read", path, reading))
        return True

    def word(self, process: str, path: str, word: Digest) -> None:
        """Note that there was nothing to read, and why."""
        self.read(process, path, Reading(None, word))

    def listed(self, process: str, path: str, found: Reading) -> None:
        self.lists.setdefault(path, []).append((process, found))
        self.notes.append((process, "list", path, found))

    def unlist(self, process: str, path: str) -> None:
        """Forget the last listing of a folder by a process: its imports made it."""
        entries = self.lists.get(path, [])
        for at in range(len(entries) - 1, -1, -1):
            if entries[at][0] == process:
                del entries[at]
                break
        if not entries:
            self.lists.pop(path, None)

    def wrote(self, process: str, op: str, path: str, before: Signature | None) -> None:
        """Note that a path is about to change."""
        self.writes.setdefault(path, before)
        self.notes.append((process, op, path, None))

    def followed(self, process: str, link: Link, word: Digest) -> None:
        """Note that a link led to a file."""
        self.links.add(link)
        self.notes.append((process, "follow", os.fsdecode(link[0]), Reading(None, word)))

    def looked(self, path: str, what: str, answer: bool) -> None:
        """Note what the worker asked about a path, and what it was told."""
        self.looks.setdefault(path, set()).add(f"{what}:{'yes' if answer else 'no'}")

    def did(self, process: str, op: str, what: str) -> None:
        self.notes.append((process, op, what, None))

    def hint(self, kind: str, what: str) -> None:
        self.hints[kind, what] = None

    def entropy(self, what: str) -> None:
        """Note that something asked for entropy: a hint, unless it turns out to be an import."""
        self._entropy[what] = self._modules

    def loaded_module(self) -> None:
        """Note that a file of Python or of a package was opened to be loaded.

        Libraries take entropy while they are being loaded, and load more files then.  What they
        seed with it shows when random numbers are drawn.
        """
        self._modules += 1
        if self._entropy:
            self._entropy = {what: n for what, n in self._entropy.items() if not n}

    def gap(self, why: str) -> None:
        self.gaps[why] = None

    @property
    def entropy_left(self) -> list[str]:
        """What asked for entropy and was no import."""
        return list(self._entropy)

    @property
    def is_empty(self) -> bool:
        return not self.notes

    def begin(self, step: Step) -> None:
        """A cell starts; what was noted before it happened in between."""
        self.step = step
        if not self.is_empty:
            paths = sorted({path for _, _, path, _ in self.notes})
            shown = ", ".join(paths[:_MOST_SHOWN])
            self.hint("background", f"files were used between cells, in the background: {shown}")


def conclude(
    log: CellLog,
    report: Mapping[str, Any],
    *,
    places: Places,
    mechanism: Mechanism,
    packages: Digest | None,
    changed: Callable[[str, Reading], bool],
) -> CellAudit:
    """Return what a cell did, from the notes about it and the worker's own report.

    Parameters
    ----------
    packages
        The environment fingerprint, if it is no longer what it was before the cell.
    changed
        Tells whether a file is no longer what it was when it was read.
    """
    names = _Names(places)
    inputs = _Inputs()
    for path, digests in _read(log, changed).items():
        inputs.add("file", names(path), digests)
    for path in _listed(log, report):
        inputs.add("folder", names(path), [found.digest for _, found in log.lists[path]])
    for path, answers in log.looks.items():
        # What is made, or made anew, is often looked for first: that must not be another lineage.
        if path not in log.writes:
            inputs.add("look", names(path), sorted(answers))
    for name, value in report.get("variables", {}).items():
        inputs.add("variable", name, [value if value is not None else "absent"])
    if log.peers:
        inputs.add("network", "", ["volatile"])
    if packages is not None:
        inputs.add("packages", "", [packages])
    return CellAudit(
        inputs=inputs.sorted(),
        effects=_effects(log, names),
        hints=_hints(log, report, names),
        events=(
            *(
                Event(process, op, names(path), "" if reading is None else reading.digest)
                for process, op, path, reading in log.notes
            ),
            *(
                Event(WORKER, "look", names(path), answer)
                for path, answers in log.looks.items()
                for answer in sorted(answers)
            ),
        ),
        gaps=tuple(dict.fromkeys((*log.gaps, *report.get("opaque", ())))),
        mechanism=mechanism,
        environment_reads=log.environment_reads,
        interrupts=report.get("interrupts", 0),
    )


def _read(log: CellLog, changed: Callable[[str, Reading], bool]) -> dict[str, list[Digest]]:
    """Return the files that were read, and what they held."""
    found = {}
    for path, sequence in log.reads.items():
        digests = [reading.digest for reading in sequence]
        if path in log.writes:
            if all(word == "absent" for word in digests):
                continue  # looked for, then created
        elif sequence[-1].signature is not None and changed(path, sequence[-1]):
            digests.append("volatile")
        # Whether anything was seen before or after the change is a matter of luck.
        found[path] = ["volatile"] if "volatile" in digests else digests
        log.looks.pop(path, None)  # the contents tell more
    return found


class _Names:
    """Canonical names; folders are looked up once."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._folders: dict[str, str] = {}

    def __call__(self, path: str) -> str:
        head, slash, tail = path.rpartition("/")
        if not slash:
            return path
        folder = self._folders.get(head)
        if folder is None:
            folder = self._folders[head] = self._places.name(head) + "/" if head else "/"
        if path in self._places.bases:
            return self._places.name(path)
        if folder[0] == "$" or folder.startswith("/dev/shm"):
            return folder + without_lots(tail)
        return folder + tail


class _Inputs:
    """Gathers inputs by object: two files whose names were drawn by lot may be one."""

    def __init__(self) -> None:
        self._found: dict[tuple[InputKind, str], tuple[Digest, ...]] = {}

    def add(self, kind: InputKind, name: str, digests: list[Digest]) -> None:
        kept = tuple(digests) if len(digests) == 1 else _without_repeats(digests)
        known = self._found.get((kind, name))
        self._found[kind, name] = kept if known is None else tuple(sorted({*known, *kept}))

    def sorted(self) -> tuple[Input, ...]:
        return tuple(
            Input(kind=kind, name=name, digests=digests)
            for (kind, name), digests in sorted(self._found.items())
        )


def _without_repeats(digests: list[Digest]) -> tuple[Digest, ...]:
    return tuple(d for at, d in enumerate(digests) if at == 0 or d != digests[at - 1])


def _listed(log: CellLog, report: Mapping[str, Any]) -> list[str]:
    """Return the folders that were listed for the user, not for the import machinery."""
    by_imports: Mapping[str, int] = report.get("import_lists", {})
    found = []
    for path, entries in log.lists.items():
        if path in log.writes:
            continue  # made by this very cell
        by_worker = sum(1 for process, _ in entries if process == WORKER)
        if len(entries) > by_worker or by_worker > by_imports.get(path, 0):
            found.append(path)
    return found


def _effects(log: CellLog, names: _Names) -> tuple[Effect, ...]:
    found = {}
    for path, outcome in log.outcomes.items():
        reading = outcome.reading
        size = reading.signature[2] if reading is not None and reading.signature else 0
        name, kind = names(path), outcome.kind
        found_there = reading.digest if reading is not None else ""
        if reading is not None and found_there == "absent":
            # On a far file system this comes out late.  Elsewhere it was there at the end of the
            # cell, and somebody else has deleted it before it could be looked at.
            kind, found_there = ("deleted", "absent") if reading.is_far else (kind, "")
        found[name, kind] = Effect(path=name, kind=kind, digest=found_there, size_bytes=size)
    return tuple(effect for _, effect in sorted(found.items()))


def _hints(log: CellLog, report: Mapping[str, Any], names: _Names) -> tuple[Hint, ...]:
    found = [Hint(kind=kind, what=what) for kind, what in log.hints]
    found += [Hint(kind="entropy", what=what) for what in log.entropy_left]
    found += [Hint(kind=h["kind"], what=h["what"], line=h["line"]) for h in report.get("hints", ())]
    named = any(hint.kind == "network" for hint in found)
    if log.peers and not named:
        found += [Hint(kind="network", what=f"it talked to {peer}") for peer in log.peers]
    changes = {path for path, outcome in log.outcomes.items() if outcome.kind != "transient"}
    for path in sorted(changes & log.reads.keys()):
        if any(reading.digest != "absent" for reading in log.reads[path]):
            found.append(
                Hint(kind="own-input", what=f"it changed {names(path)}, which it had read")
            )
    for path in sorted(changes & log.added):
        what = f"it added to {names(path)}, which was there before"
        found.append(Hint(kind="own-input", what=what))
    listed = set(_listed(log, report))
    for path in sorted({path.rpartition("/")[0] for path in changes} & listed):
        what = f"it listed the folder {names(path)} and changed what is in it"
        found.append(Hint(kind="own-input", what=what))
    return tuple(dict.fromkeys(found))
