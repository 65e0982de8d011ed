"""Whether a recorded cell would find the same world now, and whether what it left is still there.

A cell that is not run again must have had nothing to see that has changed since.
What is not known for sure counts as changed.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from chexpoint.errors import ChexError
from chexpoint.lineage.environment import HASH_SEED, HASH_SEED_VARIABLE, Environment
from chexpoint.lineage.looks import answer_now
from chexpoint.lineage.places import Places
from chexpoint.lineage.present import (
    NOT_KNOWN,
    NOW,
    FilesNow,
    difference,
    is_by_lot,
    make_folder,
    path_of,
    put_contents,
)
from chexpoint.lineage.records import Records
from chexpoint.lineage.table import printable
from chexpoint.lineage.trail import root_node
from chexpoint.lineage.variables import SET, value_digest
from chexpoint.model import Bytes, CellLineage, Digest, Effect, Input

_MOST_COMPARED = 5000
# What workers are given unless the user sets it.
_GIVEN = {HASH_SEED_VARIABLE: HASH_SEED}


_ANSWERS = {"yes": True, "no": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """An effect of a cell that is not on disk as the cell left it."""

    effect: Effect
    path: str
    """Its real path; empty if it cannot be found again."""
    why: str
    """A sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A file that is not what a state has seen."""

    name: str
    """Canonical; empty if this only tells that more files were not compared."""
    path: str
    """Its real path."""
    expected: Digest
    """What it held, or ``absent``."""
    why: str
    """A sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenFile:
    """A file that a cell has left or read, and that is worth keeping."""

    name: str
    path: str
    """Its real path."""
    digest: Digest
    """Of the contents to be kept; the file may have changed since."""
    size_bytes: Bytes


class Present:
    """The world as it is now, seen from one project folder; for one thread, and it may wait.

    Parameters
    ----------
    cache_folder
        Where fingerprints are kept; None keeps none.
    environ
        The environment variables that a fresh worker would inherit.
    ignored
        Folders whose files do not count, as the worker has told them.
    startup
        Files that run before the first cell, as the worker has told them.
    hash_seed
        What orders sets of strings in a fresh worker, if not what this process was given.
    """

    def __init__(
        self,
        project: str,
        *,
        cache_folder: str | None = None,
        environ: Mapping[str, str] = os.environ,
        ignored: Iterable[str] = (),
        startup: Iterable[str] = (),
        hash_seed: str | None = None,
    ) -> None:
        self.places = Places(project, ignored=ignored)
        self._environ = environ
        self._records = Records(cache_folder)
        self._environment = Environment(
            startup=startup, records=self._records.load(), hash_seed=hash_seed
        )
        self._files = FilesNow(self.places, self._records.path("fingerprints.sqlite"))

    def packages(self) -> Digest:
        """Return the environment fingerprint."""
        found = self._environment.fingerprint()
        self._records.save(self._environment.records)
        return found

    def changed_inputs(
        self, path: Sequence[CellLineage], *, restored: Collection[str] = ()
    ) -> tuple[str, ...]:
        """Return why the last cell of a path may find other inputs now; empty if surely not.

        Parameters
        ----------
        path
            The runs that led to the state before the cell, from the first cell on, and the
            recorded run of the cell itself.
        restored
            Names of files that will be put back, as cells of this path have left them, before
            anything reads them.
        """
        if not path:
            return ()
        inputs = path[-1].audit.inputs
        files = self._changed_files(path, restored)
        folders = [found.name for found in inputs if found.kind == "folder"]
        listings = self._files.listings(folders) if folders else {}
        changed = []
        for found in inputs:
            why = ""
            match found.kind:
                case "file":
                    why = files.get(found.name, "")
                case "folder":
                    why = _listing_difference(found, listings[found.name])
                case "variable":
                    why = self._variable_difference(found)
                case "network":
                    why = "the network was used: what it answers is not known"
            if why:
                changed.append(printable(why))
        return (
            *changed,
            *self._changed_links(path[-1]),
            *self._changed_looks(path[-1]),
            *self._changed_packages(path),
        )

    def _changed_files(
        self, path: Sequence[CellLineage], restored: Collection[str]
    ) -> dict[str, str]:
        """Return the files that the last cell has read and that differ, and how, by their names."""
        left = _LeftBy(path[:-1])
        expected: dict[str, Digest] = {}
        changed: dict[str, str] = {}
        for found in path[-1].audit.inputs:
            if found.kind != "file":
                continue
            if len(found.digests) != 1:
                changed[found.name] = f"{found.name} changed while the cell ran"
                continue
            then = found.digests[0]
            if then.startswith("cell:"):
                then = left.digest(then, found.name)
                if then and found.name in restored:
                    continue
            expected[found.name] = then
        now = self._files.files(expected)
        for name, then in expected.items():
            if why := difference(then, now[name]):
                changed[name] = f"{name} {why}"
        return changed

    def _variable_difference(self, found: Input) -> str:
        what = f"the environment variable {found.name}"
        if found.digests == (SET,):
            return ""  # by a cell of this path
        value = self._environ.get(found.name, _GIVEN.get(found.name))
        if value is None:
            return "" if found.digests == ("absent",) else f"{what} is not set now"
        if found.digests == ("absent",):
            return f"{what} is set now"
        is_same = found.digests == (value_digest(value, self.places.normalise),)
        return "" if is_same else f"{what} has another value now"

    def _changed_links(self, cell: CellLineage) -> list[str]:
        """Return a sentence for each link that led the cell to a file and leads elsewhere now."""
        followed = {(each.name, each.digest) for each in cell.audit.events if each.op == "follow"}
        now = self._files.links({name for name, _ in followed}) if followed else {}
        changed = sorted({name for name, then in followed if now[name] != then})
        return [printable(f"the link {name} leads elsewhere now") for name in changed]

    def _changed_looks(self, cell: CellLineage) -> list[str]:
        """Return a sentence for each path that the cell has asked about, if the answer differs."""
        changed = {}
        for name, word in {(e.name, e.digest) for e in cell.audit.events if e.op == "look"}:
            real = path_of(name, self.places)
            what, _, then = word.partition(":")
            now = answer_now(real, what) if real else None
            if now is not _ANSWERS.get(then):
                changed[name] = f"{name} is {'' if now else 'not '}there now, or is something else"
        return [printable(why) for _, why in sorted(changed.items())]

    def _changed_packages(self, path: Sequence[CellLineage]) -> list[str]:
        """Return a sentence if packages are not what they were after the last cell."""
        now = self.packages()
        for cell in reversed(path):
            for found in cell.audit.inputs:
                if found.kind == "packages":
                    is_same = found.digests == (now,)
                    return [] if is_same else ["the installed packages are not the same now"]
        is_same = path[0].parent == root_node(now)
        return [] if is_same else ["Python or the installed packages are not the same now"]

    def changed_effects(self, cell: CellLineage) -> tuple[Lost, ...]:
        """Return the effects of a cell that are not on disk as it left them.

        Permissions and times are not looked at, nor is what was transient.
        """
        effects = [effect for effect in cell.audit.effects if effect.kind != "transient"]
        links = self._files.links([e.path for e in effects if _is_link(e)])
        folders = self._files.existing_folders([e.path for e in effects if e.kind == "folder"])
        now = self._files.files(
            {e.path: _left(e) for e in effects if e.kind != "folder" and not _is_link(e)}
        )
        lost = []
        for effect in effects:
            name = effect.path
            if effect.kind == "folder":
                why = "" if name in folders else "is no folder any more"
            elif _is_link(effect):
                why = "" if links[name] == effect.digest else "is not the link that it was"
            else:
                why = difference(_left(effect), now[name])
            if why:
                path = path_of(name, self.places)
                lost.append(Lost(effect=effect, path=path, why=printable(f"{name} {why}")))
        return tuple(lost)

    def different_files(self, path: Sequence[CellLineage]) -> tuple[Difference, ...]:
        """Return the files that are not what the state at the end of a path has seen.

        Of thousands of files only the first are compared; the last entry then tells so.
        """
        seen = files_seen(path)
        expected = dict(list(seen.items())[:_MOST_COMPARED])
        now = self._files.files(expected)
        found = [
            Difference(
                name=name,
                path=path_of(name, self.places),
                expected=then,
                why=printable(f"{name} {why}"),
            )
            for name, then in expected.items()
            if (why := difference(then, now[name]))
        ]
        if len(seen) > len(expected):
            why = f"{len(seen) - len(expected):,} more files were not compared"
            found.append(Difference(name="", path="", expected="", why=why))
        return tuple(found)


def files_seen(path: Sequence[CellLineage]) -> dict[str, Digest]:
    """Return the files that the state at the end of a path should find, by their names, sorted.

    That is what the last cell that read or changed a file has found or left there: the digest of
    its contents, or ``absent``.  Files of which that is not known are left out.
    """
    seen: dict[str, Digest] = {}
    left = _LeftBy(path)
    for cell in path:
        for found in cell.audit.inputs:
            if found.kind == "file":
                last = found.digests[-1]
                is_left = last.startswith("cell:")
                seen[found.name] = left.digest(last, found.name) if is_left else last
        for effect in cell.audit.effects:
            if effect.kind != "transient":
                seen[effect.path] = _left(effect) if effect.kind != "folder" else ""
    return {
        name: then
        for name, then in sorted(seen.items())
        if then not in NOT_KNOWN and not then.startswith("link:") and not is_by_lot(name)
    }


def worth_keeping(cell: CellLineage, places: Places) -> tuple[SeenFile, ...]:
    """Return the files of the project whose contents a cell has written or read, sorted by name.

    Those that size and time stand for are left out: nothing could tell whether what is kept is
    right.
    """
    found: dict[str, tuple[Digest, Bytes | None]] = {}
    for each in cell.audit.inputs:
        if each.kind == "file" and len(each.digests) == 1:
            found[each.name] = each.digests[0], None
    for effect in cell.audit.effects:
        if effect.kind == "written":
            found[effect.path] = effect.digest, effect.size_bytes
    kept = []
    for name, (then, size) in sorted(found.items()):
        path = path_of(name, places) if name.startswith("./") and _is_of_contents(then) else ""
        size_now = _size(path) if path and size is None else size
        if path and size_now is not None:
            kept.append(SeenFile(name=name, path=path, digest=then, size_bytes=size_now))
    return tuple(kept)


def put_back(lost: Lost, kept: Path | None) -> None:
    """Make an effect what it was, with what is kept of its contents; a folder needs nothing.

    Only inside the project folder: a catalog may come from somebody else.

    Raises
    ------
    ChexError
        If that cannot be done, or would do more than that.
    """
    effect = lost.effect
    name = printable(effect.path)
    if not lost.path or not effect.path.startswith("./"):
        raise ChexError(
            f"{name} is not in the project folder, and not put back: run the cell again"
        )
    try:
        if effect.kind == "folder":
            make_folder(lost.path)
        elif kept is not None and effect.kind != "deleted" and _is_of_contents(effect.digest):
            put_contents(lost.path, kept, effect.digest)
        else:
            raise ChexError(f"{name} cannot be put back: run the cell again")
    except OSError as error:
        why = error.strerror or str(error)
        raise ChexError(f"{name} cannot be put back: {why}; run the cell again") from error


def _size(path: str) -> Bytes | None:
    try:
        return os.lstat(path).st_size
    except OSError:
        return None  # it is gone, and cannot be kept


class _LeftBy:
    """What the cells of a path have left in files."""

    def __init__(self, path: Sequence[CellLineage]) -> None:
        self._cells = {f"cell:{cell.number}": cell for cell in path}
        self._left: dict[Digest, dict[str, Digest]] = {}

    def digest(self, word: Digest, name: str) -> Digest:
        """Return what the cell that a word stands for has left; empty if that is not known."""
        if word not in self._left:
            cell = self._cells.get(word)
            effects = cell.audit.effects if cell is not None else ()
            self._left[word] = {e.path: e.digest for e in effects if e.kind in {"written", "held"}}
        return self._left[word].get(name, "")


def _left(effect: Effect) -> Digest:
    return "absent" if effect.kind == "deleted" else effect.digest


def _is_link(effect: Effect) -> bool:
    return effect.digest.startswith("link:")


def _is_of_contents(digest: Digest) -> bool:
    return digest.isalnum() and digest not in {*NOT_KNOWN, "absent"}


def _listing_difference(found: Input, now: Digest) -> str:
    if found.digests == (now,) and now not in NOW:
        return ""
    if len(found.digests) != 1:
        return f"the entries of {found.name} changed while the cell ran"
    if now in NOW:
        return f"{found.name} {NOW[now]}"
    return f"the entries of {found.name} are not the same now"
