"""Memory that the training process shares with the writer, and which parts of it are free.

Mapped with plain system calls rather than Python's ``mmap``: an object of that would unmap its
addresses in a forked child too, where they are not mapped, or something else is by then.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

PAGE = os.sysconf("SC_PAGE_SIZE")
ALIGNMENT = 64
"""Of parts: that of a cache line, and of the widest vectors."""

_PROT_READ_WRITE = 3
_MAP_SHARED, _MAP_PRIVATE, _MAP_FIXED, _MAP_ANONYMOUS, _MAP_NORESERVE = 1, 2, 0x10, 0x20, 0x4000
_MADV_DONTFORK, _MADV_POPULATE_WRITE = 10, 23
# To a view that was lent: ours, the borrower's variable, and that of the count.
_MOST_REFERENCES = 3
_FAILED = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_mmap = _libc.mmap
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]
_munmap = _libc.munmap
_munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_madvise = _libc.madvise
_madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def aligned(nbytes: int, to: int = ALIGNMENT) -> int:
    """Return the next multiple of a power of two."""
    return (nbytes + to - 1) & -to


class SharedMapping:
    """A file in memory that others may map as well; a fork of this process does not have it.

    Parameters
    ----------
    fd
        The file, which must be long enough.  It stays the caller's.

    Raises
    ------
    OSError
        If the system has no room for it.
    """

    def __init__(self, fd: int, nbytes: int) -> None:
        address = _mmap(None, nbytes, _PROT_READ_WRITE, _MAP_SHARED, fd, 0)
        if address == _FAILED:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        _madvise(address, nbytes, _MADV_DONTFORK)
        self.nbytes = nbytes
        self._address: int | None = address
        self._is_in_use = False

    @contextmanager
    def lent(self, start: int, nbytes: int) -> Iterator[memoryview]:
        """Lend a part of it; notice if somebody keeps it."""
        if self._address is None:
            raise ValueError("the memory is closed")
        owner = (ctypes.c_char * nbytes).from_address(self._address + start)
        is_held = weakref.ref(owner)
        view = memoryview(owner).cast("B")
        del owner
        try:
            yield view
        finally:
            # An array of torch that lies in it refers to the view, one of NumPy to its owner.
            is_referred_to = sys.getrefcount(view) > _MOST_REFERENCES
            try:
                view.release()
            except BufferError:
                is_referred_to = True
            self._is_in_use |= is_referred_to or is_held() is not None

    def populate(self, start: int, nbytes: int) -> None:
        """Have all pages of a range at hand: one call costs less than a fault for each of them.

        Raises
        ------
        MemoryError
            If there are no pages left; a fault would end the process.
        """
        if self._address is None or nbytes <= 0:
            return
        if _madvise(self._address + start, nbytes, _MADV_POPULATE_WRITE) == 0:
            return
        code = ctypes.get_errno()
        # Linux before 5.14 does not know the request: then there are faults.
        if code not in (errno.EINVAL, errno.EINTR):
            raise MemoryError(os.strerror(code))

    def close(self) -> None:
        """Unmap it.  If something still refers to it, that finds zeros from now on."""
        address, self._address = self._address, None
        if address is None:
            return
        if self._is_in_use:
            flags = _MAP_PRIVATE | _MAP_FIXED | _MAP_ANONYMOUS | _MAP_NORESERVE
            _mmap(address, self.nbytes, _PROT_READ_WRITE, flags, -1, 0)
        else:
            _munmap(address, self.nbytes)

    def abandon(self) -> None:
        """Forget it, in a forked child, where it is not mapped."""
        self._address = None


class Slots:
    """Which runs of an address range are in use: the first that fits is taken."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self._free: list[tuple[int, int]] = [(0, nbytes)]
        """Start and length of what is free, by start; no two of them touch."""
        self._taken: dict[int, int] = {}

    def take(self, nbytes: int) -> int | None:
        """Return where a run of whole pages begins that is the caller's now; None for no room."""
        wanted = aligned(max(nbytes, 1), PAGE)
        for place, (start, length) in enumerate(self._free):
            if length >= wanted:
                rest = [(start + wanted, length - wanted)] if length > wanted else []
                self._free[place : place + 1] = rest
                self._taken[start] = wanted
                return start
        return None

    def give(self, start: int) -> None:
        """Free a run again."""
        free = sorted([*self._free, (start, self._taken.pop(start))])
        joined: list[tuple[int, int]] = []
        for each in free:
            if joined and sum(joined[-1]) == each[0]:
                joined[-1] = (joined[-1][0], joined[-1][1] + each[1])
            else:
                joined.append(each)
        self._free = joined

    @property
    def taken_bytes(self) -> int:
        """What is in use together."""
        return sum(self._taken.values())


class Arena:
    """Staging memory of a fixed address range, whose pages come as they are first used.

    Slots are reused from the lowest address on, so that pages that are there already are taken
    before new ones.

    Parameters
    ----------
    nbytes
        What it may grow to.
    """

    def __init__(self, nbytes: int) -> None:
        self.nbytes = aligned(nbytes, PAGE)
        self.fd = os.memfd_create("chex-staging", os.MFD_CLOEXEC)
        """To be passed on; not needed here after that, see `close_fd`."""
        try:
            os.ftruncate(self.fd, self.nbytes)
            self.memory = SharedMapping(self.fd, self.nbytes)
            """All of it; slots are offsets in it."""
        except BaseException:
            os.close(self.fd)
            raise
        self._slots = Slots(self.nbytes)
        self._present = 0
        """All pages below are at hand."""

    def take(self, nbytes: int) -> int | None:
        """Return the start of a free slot with its pages at hand, or None; may raise as they do."""
        start = self._slots.take(nbytes)
        if start is None:
            return None
        end = start + aligned(nbytes, PAGE)
        if end > self._present:
            try:
                self.memory.populate(self._present, end - self._present)
            except MemoryError:
                self._slots.give(start)
                raise
            self._present = end
        return start

    def give(self, start: int) -> None:
        """Free a slot."""
        self._slots.give(start)

    @property
    def present_bytes(self) -> int:
        """Up to where its pages were used."""
        return self._present

    @property
    def taken_bytes(self) -> int:
        """What is in use."""
        return self._slots.taken_bytes

    def close_fd(self) -> None:
        """Close the descriptor; the mapping stays."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def close(self) -> None:
        """Give the memory back to the system."""
        self.close_fd()
        self.memory.close()

    def abandon(self) -> None:
        """Forget it, in a forked child."""
        self.close_fd()
        self.memory.abandon()
