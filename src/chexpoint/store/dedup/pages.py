"""Pages that were written to, as the kernel knows it: then only their chunks have to be hashed.

Linux 6.7 and later can write-protect memory without telling anyone (userfaultfd, asynchronous), and
says in one call which pages were written since, protecting them again (PAGEMAP_SCAN).  The older
soft-dirty bits are not used: where the kernel is built without them, clearing them succeeds, and
nothing is ever dirty.  Whatever is not certain counts as written.
"""

from __future__ import annotations

import ctypes
import fcntl
import functools
import mmap
import os
import platform
import struct
import sys
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from chexpoint.errors import StoreError
from chexpoint.store.dedup.chunks import as_bytes

if TYPE_CHECKING:
    from types import TracebackType

_SYSCALLS = {"x86_64": 323, "aarch64": 282}
_USER_MODE_ONLY = 1
_API, _API_VERSION = 0xC018AA3F, 0xAA
_REGISTER, _REGISTER_WP = 0xC020AA00, 2
_PROTECT, _PROTECT_WP = 0xC018AA06, 1
_FEATURE_WP, _FEATURE_UNPOPULATED, _FEATURE_ASYNC = 1 << 0, 1 << 13, 1 << 15
_SCAN = 0xC0606610
_SCAN_PROTECT, _SCAN_CHECK_ASYNC = 1, 2
_WRITTEN, _PRESENT = 1 << 1, 1 << 3
_REGIONS = 1024


class PageTracker:
    """Tells which pages of buffers were written to since they were asked for last.

    It belongs to the process that made it.  A buffer must not share memory with another one that is
    watched.

    Raises
    ------
    StoreError
        If this machine cannot; see `supported`.
    """

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._watched: set[tuple[int, int]] = set()
        number = _SYSCALLS.get(platform.machine())
        if sys.platform != "linux" or number is None:
            raise StoreError("pages cannot be tracked: only Linux on x86_64 and aarch64 can.")
        flags = os.O_CLOEXEC | os.O_NONBLOCK | _USER_MODE_ONLY
        self._fd = ctypes.CDLL(None, use_errno=True).syscall(number, flags)
        if self._fd < 0:
            raise StoreError(f"pages cannot be tracked: {os.strerror(ctypes.get_errno())}.")
        try:
            wanted = _FEATURE_WP | _FEATURE_UNPOPULATED | _FEATURE_ASYNC
            fcntl.ioctl(self._fd, _API, struct.pack("<3Q", _API_VERSION, wanted, 0))
            self._pagemap = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            os.close(self._fd)
            raise StoreError(f"pages cannot be tracked: {error.strerror}.") from error

    @staticmethod
    def supported() -> str:
        """Return why pages cannot be tracked here; empty if a test on real memory went well."""
        return _self_test()

    def watch(self, buffer: Any) -> bool:
        """Watch a buffer from now on; return whether that is possible."""
        start, stop = _inner_pages(buffer)
        if os.getpid() != self._owner:
            return False
        try:
            if stop > start:
                span = start, stop - start
                fcntl.ioctl(self._fd, _REGISTER, struct.pack("<4Q", *span, _REGISTER_WP, 0))
                fcntl.ioctl(self._fd, _PROTECT, struct.pack("<3Q", *span, _PROTECT_WP))
        except OSError:
            return False
        self._watched.add((start, stop))
        return True

    def dirty(self, buffer: Any) -> list[tuple[int, int]]:
        """Return ranges of bytes that may have changed, and forget them in the same moment.

        Everything, if the buffer is not watched.  The first and the last bytes always, where they
        share a page with something else.
        """
        data = as_bytes(buffer)
        everything = [(0, len(data))] if len(data) else []
        start, stop = _inner_pages(data)
        if (start, stop) not in self._watched or os.getpid() != self._owner:
            return everything
        try:
            written = self._scan(start, stop) if stop > start else []
        except OSError:
            # The memory was given back in between, and is no longer watched.
            self._watched.discard((start, stop))
            return everything
        origin = data.ctypes.data
        ends = [(origin, start), *written, (stop, origin + len(data))] if stop > start else []
        return _joined([(a - origin, b - origin) for a, b in ends if b > a]) or (
            everything if stop <= start else []
        )

    def close(self) -> None:
        """Watch nothing any more."""
        self._watched.clear()
        for fd in (self._fd, self._pagemap):
            if fd >= 0:
                os.close(fd)
        self._fd = self._pagemap = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _scan(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Return pages that were written to, or are not there, and protect them again."""
        regions = np.zeros((_REGIONS, 3), np.uint64)
        found: list[tuple[int, int]] = []
        while start < stop:
            request = bytearray(
                struct.pack(
                    "<12Q",
                    96,
                    _SCAN_PROTECT | _SCAN_CHECK_ASYNC,
                    start,
                    stop,
                    0,
                    regions.ctypes.data,
                    _REGIONS,
                    0,
                    _PRESENT,
                    0,
                    _WRITTEN | _PRESENT,
                    _WRITTEN,
                )
            )
            count = fcntl.ioctl(self._pagemap, _SCAN, request)
            found += [(int(a), int(b)) for a, b, _ in regions[:count]]
            reached = struct.unpack_from("<Q", request, 32)[0]
            if reached <= start:
                raise OSError("the kernel does not get on")
            start = reached
        return found


def _inner_pages(buffer: Any) -> tuple[int, int]:
    """Return the addresses of the pages that belong to a buffer alone."""
    data = as_bytes(buffer)
    start = -(-data.ctypes.data // mmap.PAGESIZE) * mmap.PAGESIZE
    stop = (data.ctypes.data + len(data)) // mmap.PAGESIZE * mmap.PAGESIZE
    return start, max(start, stop)


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(stop, found[-1][1])
        else:
            found.append((start, stop))
    return found


@functools.cache
def _self_test() -> str:
    size, count = mmap.PAGESIZE, 16
    try:
        with PageTracker() as tracker, mmap.mmap(-1, size * count) as memory:
            view = np.frombuffer(memory, np.uint8)
            view[:] = 1
            problem = _try_pages(tracker, view, size)
            del view
            return problem
    except StoreError as error:
        return str(error)
    except OSError as error:
        return f"pages cannot be tracked: {error.strerror}."


def _try_pages(tracker: PageTracker, view: np.ndarray[Any, Any], size: int) -> str:
    if not tracker.watch(view):
        return "pages cannot be tracked: memory cannot be write-protected."
    if tracker.dirty(view):
        return "pages cannot be tracked: pages are dirty that nobody wrote to."
    view[3 * size] = 2
    reader, writer = os.pipe()
    try:
        # The kernel writes, too, and not through the tables of this process.
        os.write(writer, b"x")
        os.readv(reader, [view[7 * size : 7 * size + 1].data])
    finally:
        os.close(reader)
        os.close(writer)
    expected = [(3 * size, 4 * size), (7 * size, 8 * size)]
    if tracker.dirty(view) != expected or tracker.dirty(view):
        return "pages cannot be tracked: the kernel does not say which were written to."
    return ""
