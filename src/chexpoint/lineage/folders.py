"""Folders as system calls name them, looked up once."""

from __future__ import annotations

import errno
import os

from chexpoint.lineage.mounts import FarMounts, resolve
from chexpoint.lineage.places import Kind, Places

_MOST = 50_000


class Folder:
    """One folder, by its real path."""

    __slots__ = ("far", "kind", "path", "prefix")

    def __init__(self, real: bytes, kind: Kind, far: bytes) -> None:
        self.prefix = real if real.endswith(b"/") else real + b"/"
        self.path = os.fsdecode(real)
        self.kind = kind
        self.far = far
        """The mount point of the far file system it is on, if it is on one."""

    def text(self, name: bytes) -> str:
        """Return the path of an entry."""
        return os.fsdecode(self.prefix + name)


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
        return Folder(at, self._places.kind_below(parent.kind, os.fsdecode(at)), b"")

    def _resolved(self, raw: bytes) -> Folder:
        far = self._far.points
        real, is_far = resolve(raw, far)
        mount = b""
        if is_far:
            mount = max((m for m in far if real == m or real.startswith(m + b"/")), key=len)
        return Folder(real, self._places.kind(os.fsdecode(real)), mount)

    def split(self, raw: bytes) -> tuple[Folder, bytes]:
        """Return the folder of an absolute path, and the name in it."""
        head, _, name = raw.rpartition(b"/")
        if name in {b"", b".", b".."}:
            real = self.find(raw).prefix[:-1]
            head, _, name = real.rpartition(b"/")
        return self.find(head), name

    def follow(self, folder: Folder, name: bytes) -> tuple[Folder, bytes]:
        """Return where the link of that name in a folder leads."""
        real, _ = resolve(folder.prefix + name, self._far.points)
        head, _, last = real.rpartition(b"/")
        return self.find(head), last

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
