"""Seccomp user notification: a filter on one side, a listener on the other.

The audited process installs a filter and gives its listener away.  From then
on Linux stops each audited system call, of this process and of everything it
starts, until the owner of the listener lets it go on.  See seccomp_unotify(2).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import struct
from dataclasses import dataclass

from chexpoint.lineage.syscalls import Architecture, filter_program

_SET_MODE_FILTER = 1
_SYNC_THREADS, _SPEC_ALLOW, _NEW_LISTENER, _SYNC_SAYS_ESRCH, _WAIT_KILLABLE = 1, 4, 8, 16, 32
_PR_SET_NO_NEW_PRIVS, _PR_GET_NO_NEW_PRIVS = 38, 39
_RECEIVE, _SEND, _SET_FLAGS = 0xC0502100, 0xC0182101, 0x40082104
_SYNC_WAKE_UP = 1

_NOTIFICATION = struct.Struct("<QIIiIQ6Q")
_RESPONSE = struct.Struct("<QqiI")
_CONTINUE = 1
_ZEROS = bytes(_NOTIFICATION.size)

_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


@dataclass(frozen=True, slots=True)
class Installed:
    """A filter on this process, for the rest of its life."""

    listener: int
    """The descriptor to give to the supervisor."""
    gave_up_privileges: bool
    """Whether programs started from here can no longer gain rights, as sudo does, due to this."""


def install(arch: Architecture) -> Installed:
    """Put this process, and all it starts from now on, under the filter.

    Raises
    ------
    OSError
        Where the system does not allow it.  EBUSY: there is a listener already, as in a kernel
        that runs under another one; EINVAL or ENOSYS: too old a Linux, or not a real one.
    """
    code = filter_program(arch)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(code) // 8, ctypes.addressof(buffer))
    flags = _NEW_LISTENER | _SPEC_ALLOW
    if len(os.listdir("/proc/self/task")) > 1:  # of a library that IPython has loaded
        flags |= _SYNC_THREADS | _SYNC_SAYS_ESRCH
    # Only a kill ends the wait of a call that is being looked at (since Linux 5.19): without it
    # each signal would start the call anew.
    return Installed(*_install(arch.calls["seccomp"], program, (flags | _WAIT_KILLABLE, flags)))


def _install(number: int, program: _Program, attempts: tuple[int, ...]) -> tuple[int, bool]:
    had_given_up = no_new_privileges()
    code = 0
    for flags in attempts:
        fd, code = _try(number, program, flags)
        if code == errno.EACCES:
            _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            fd, code = _try(number, program, flags)
        if not code:
            return fd, no_new_privileges() and not had_given_up
        if code != errno.EINVAL:
            break
    raise OSError(code, os.strerror(code))


def _try(number: int, program: _Program, flags: int) -> tuple[int, int]:
    """Return the listener and no error, or the error."""
    fd = _libc.syscall(
        ctypes.c_long(number),
        _SET_MODE_FILTER,
        ctypes.c_ulong(flags),
        ctypes.byref(program),
    )
    return (fd, 0) if fd >= 0 else (-1, ctypes.get_errno())


def no_new_privileges() -> bool:
    """Return whether programs started from here can gain no rights."""
    return bool(_libc.prctl(_PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0))


Notification = tuple[int, ...]
"""One waiting system call: id, thread, flags, number, architecture, address, six arguments.

A plain tuple, because one is made for each call.
"""


class Listener:
    """The receiving end of a filter."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._buffer = bytearray(_NOTIFICATION.size)
        # A hint to wake the other side on this processor; newer systems only.
        with contextlib.suppress(OSError):
            fcntl.ioctl(fd, _SET_FLAGS, _SYNC_WAKE_UP)

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        os.close(self._fd)

    def receive(self) -> Notification | None:
        """Wait for the next notification and return it; None if its caller has gone."""
        self._buffer[:] = _ZEROS  # or it is refused
        try:
            fcntl.ioctl(self._fd, _RECEIVE, self._buffer, True)
        except (FileNotFoundError, InterruptedError):
            return None
        return _NOTIFICATION.unpack_from(self._buffer)

    def let_go(self, ident: int) -> None:
        """Let a waiting system call go on as if nothing had been."""
        with contextlib.suppress(FileNotFoundError):  # its caller was killed
            fcntl.ioctl(self._fd, _SEND, _RESPONSE.pack(ident, 0, 0, _CONTINUE))
