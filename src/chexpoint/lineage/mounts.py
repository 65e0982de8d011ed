"""Where file systems are mounted, and which of them may keep us waiting.

A file server that hangs must never stop the audit: such files are left to a
thread of their own.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import weakref

_FAR = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "autofs", "beegfs", "ceph"}
_FAR |= {"glusterfs", "lustre", "gpfs", "ncpfs", "ocfs2", "orangefs", "virtiofs", "davfs"}
_OCTAL = re.compile(rb"\\([0-7]{3})")
_MAX_LINKS = 40


def far_mounts(mountinfo: bytes) -> frozenset[bytes]:
    """Return the mount points, in ``/proc/PID/mountinfo``, of file systems that may hang."""
    found = set()
    for line in mountinfo.splitlines():
        before, _, after = line.partition(b" - ")
        fields, kind = before.split(), after.split()[:1]
        if len(fields) > 4 and kind:
            name = kind[0].decode("ascii", "replace")
            if name in _FAR or name.split(".")[0] in {"fuse", "fuseblk"}:
                point = _OCTAL.sub(lambda m: bytes([int(m[1], 8)]), fields[4])
                found.add(point)
    return frozenset(found)


class FarMounts:
    """The far mounts of this process; none if it cannot tell."""

    def __init__(self) -> None:
        self.points: frozenset[bytes] = frozenset()
        self._poll = select.poll()
        with contextlib.suppress(OSError):
            self._fd = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
            weakref.finalize(self, os.close, self._fd)
            self._poll.register(self._fd, select.POLLPRI)
            self._read()

    def have_changed(self) -> bool:
        """Return whether anything was mounted since the last call; asked for each folder."""
        if not self._poll.poll(0):
            return False
        before = self.points
        self._read()
        return self.points != before

    def _read(self) -> None:
        with open("/proc/self/mountinfo", "rb") as file:
            self.points = far_mounts(file.read())


Link = tuple[bytes, bytes]
"""A link by its real path, and where it leads."""


def resolve(
    folder: bytes, far: frozenset[bytes], followed: list[Link] | None = None
) -> tuple[bytes, bool]:
    """Return the real path of an absolute folder, and whether it is far.

    Like `os.path.realpath`, but never touches a far file system: as long as the path is on one, it
    is taken as it is written.  Links on the way are added to ``followed``, an empty list.
    """
    links = [] if followed is None else followed
    rest = folder.split(b"/")[::-1]
    done, mount = b"", b""
    while rest:
        part = rest.pop()
        if part in {b"", b"."}:
            continue
        if part == b"..":
            if done == mount:
                mount = b""
            done = done.rpartition(b"/")[0]
            continue
        at = done + b"/" + part
        if not mount and at in far:
            mount = at
        if mount:
            done = at
            continue
        try:
            target = os.readlink(at)
        except OSError:
            done = at
            continue
        links.append((at, target))
        if len(links) > _MAX_LINKS:
            return os.path.normpath(folder), False
        if target.startswith(b"/"):
            done = b""
        rest += target.split(b"/")[::-1]
    return done or b"/", bool(mount)
