"""Shared writable memory: a fork shares it, a checkpoint must have its own.

Memory that only this process can reach (anonymous ``mmap``, the semaphores and
heap of ``multiprocessing``, deleted files, memfds) is replaced, in the frozen
process, by a copy at the same address.  The copy is a shared mapping again, so
that children forked later still share it.  Memory that has a name in the file
system cannot be replaced: it belongs to others too, and is a hazard.
"""

from __future__ import annotations

import ctypes
import os

from chexpoint.engine.descriptors import open_descriptors
from chexpoint.engine.proc import Mapping, libc, mappings, read_maps

_MAP_SHARED, _MAP_FIXED = 0x01, 0x10
_PROT = {"r": 1, "w": 2, "x": 4}
_mmap = libc.mmap
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]


def shared_mappings(maps: str) -> list[Mapping]:
    """Return the shared writable mappings of this process."""
    return mappings(maps, shared_writable=True)


def is_private_to_us(mapping: Mapping) -> bool:
    """Return whether nobody can reach this memory but processes forked from this one."""
    path = mapping.path
    if path == "/dev/zero (deleted)" or path.startswith("/memfd:"):
        return True
    is_device = path.startswith("/dev/") and not path.startswith("/dev/shm/")
    return path.endswith(" (deleted)") and not is_device and not path.startswith("/SYSV")


def copy_shared_memory() -> None:
    """Replace this process's shared memory by its own copies, in place."""
    groups: dict[tuple[str, int], list[Mapping]] = {}
    for mapping in shared_mappings(read_maps()):
        if is_private_to_us(mapping):
            groups.setdefault((mapping.path, mapping.inode), []).append(mapping)
    if not groups:
        return
    files: dict[int, list[int]] = {}
    for descriptor in open_descriptors():
        if descriptor.is_file:
            files.setdefault(descriptor.inode[1], []).append(descriptor.fd)
    for (_, inode), parts in groups.items():
        _copy(parts, files.get(inode, []))


def _copy(parts: list[Mapping], fds: list[int]) -> None:
    memfd = os.memfd_create("chex-shared", os.MFD_CLOEXEC)
    try:
        size = max(part.offset + part.end - part.start for part in parts)
        os.ftruncate(memfd, size)
        for part in parts:
            length = part.end - part.start
            source = memoryview((ctypes.c_char * length).from_address(part.start)).cast("B")
            done = 0
            while done < length:
                done += os.pwrite(memfd, source[done:], part.offset + done)
        for part in parts:
            prot = sum(bit for letter, bit in _PROT.items() if letter in part.flags)
            address = _mmap(
                part.start,
                part.end - part.start,
                prot,
                _MAP_SHARED | _MAP_FIXED,
                memfd,
                part.offset,
            )
            if address != part.start:
                raise OSError(ctypes.get_errno(), "cannot map shared memory again")
        for fd in fds:
            os.dup2(memfd, fd, inheritable=os.get_inheritable(fd))
    finally:
        os.close(memfd)
