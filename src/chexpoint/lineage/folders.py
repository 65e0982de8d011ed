"""Folders as system calls name them, looked up once."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from chexpoint.lineage.mounts import FarMounts, Link, resolve
from chexpoint.lineage.places import Kind, Places

_MOST = 50_000


class Folder:
    """One folder, by its real path."""

    __slots__ = ("far", "kind", "links", "path", "prefix")

    def __init__(self, real: bytes, kind: Kind, far: bytes, links: Sequence[Link] = ()) -> None:
        self.prefix = real if real.endswith(b"/") else real + b"/"
        self.path = os.fsdecode(real)
        self.kind = kind
        self.far = far
        """The mount point of the far file system it is on, if it is on one."""
        self.links = links
        """Those that led to it."""

    def text(self, name: bytes) -> str:
        """Return the path of an entry."""
        return os.fsdecode(self.prefix + name)

    def found_by(self, links: Sequence[Link]) -> Folder:
        """Return the same folder, to which other links have led."""
        return Folder(self.prefix[:-1] or b"/", self.kind, self.far, links)


class Folders:
    """Finds folders; remembers them until links between folders may have changed."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._far = FarMounts()
        self._mounts_change = False
        self._known: dict[bytes, Folder] = {}

    def find(self, raw: bytes) -> Folder:
        """Return a folder by any absolute path to it."""
        # A cell may itself start a file server, and then wait for it.
        if self._mounts_change and self._far.have_changed():
            self._known.clear()
        known = self._known.get(raw)
        return known if known is not None else self._add(raw)

    def _add(self, raw: bytes) -> Folder:
        if len(self._known) >= _MOST:
            self._known.clear()
        folder = self._below_known(raw) or self._resolved(raw)
        self._known[raw] = folder
        return folder

    def _below_known(self, raw: bytes) -> Folder | None:
        """Return a plain folder in another one: thousands are met in an import, so be quick."""
        head, slash, name = raw.rpartition(b"/")
        if not head or not slash or name in {b"", b".", b".."}:
            return None
        parent = self.find(head)
        at = parent.prefix + name
        if parent.far or at in self._far.points:
            return None
        try:
            os.readlink(at)
        except OSError as error:
            if error.errno != errno.EINVAL:
                return None
        else:
            return None  # a link
        kind = self._places.kind_below(parent.kind, os.fsdecode(at))
        return Folder(at, kind, b"", parent.links)

    def _resolved(self, raw: bytes) -> Folder:
        far = self._far.points
        links: list[Link] = []
        real, is_far = resolve(raw, far, links)
        mount = b""
        if is_far:
            mount = max((m for m in far if real == m or real.startswith(m + b"/")), key=len)
        return Folder(real, self._places.kind(os.fsdecode(real)), mount, links)

    def split(self, raw: bytes) -> tuple[Folder, bytes]:
        """Return the folder of an absolute path, and the name in it."""
        head, _, name = raw.rpartition(b"/")
        if name in {b"", b".", b".."}:
            found = self.find(raw)
            head, _, name = found.prefix[:-1].rpartition(b"/")
            return self.find(head).found_by(found.links), name
        return self.find(head), name

    def follow(self, folder: Folder, name: bytes) -> tuple[Folder, bytes]:
        """Return where the link of that name in a folder leads."""
        links: list[Link] = []
        real, _ = resolve(folder.prefix + name, self._far.points, links)
        head, _, last = real.rpartition(b"/")
        return self.find(head).found_by(links), last

    def far_at(self, folder: Folder, name: bytes) -> bytes:
        """Return the far mount that an entry of a folder is on, or is; nothing if there is none."""
        at = folder.prefix + name
        return folder.far or (at if at in self._far.points else b"")

    def forget(self) -> None:
        """Links or folders may have changed."""
        self._known.clear()

    def expect_mounts(self) -> None:
        """A process is about to mount something: from now on look before each folder."""
        self._mounts_change = True

    def look_at_mounts(self) -> None:
        """To be called at the start of each cell."""
        self._far.have_changed()
        self._known.clear()
