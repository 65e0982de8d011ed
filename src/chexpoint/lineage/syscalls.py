"""Which system calls are audited, and the filter program that picks them out.

The program is classic BPF, run by Linux for every system call of a filtered
process.  What it lets pass on the number alone costs nothing: Linux remembers.
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Iterable
from dataclasses import dataclass

_X86_64 = {
    "open": 2,
    "connect": 42,
    "sendto": 44,
    "execve": 59,
    "truncate": 76,
    "rename": 82,
    "mkdir": 83,
    "rmdir": 84,
    "creat": 85,
    "link": 86,
    "unlink": 87,
    "symlink": 88,
    "pivot_root": 155,
    "chroot": 161,
    "mount": 165,
    "openat": 257,
    "mkdirat": 258,
    "unlinkat": 263,
    "renameat": 264,
    "linkat": 265,
    "symlinkat": 266,
    "unshare": 272,
    "open_by_handle_at": 304,
    "setns": 308,
    "renameat2": 316,
    "seccomp": 317,
    "getrandom": 318,
    "execveat": 322,
    "io_uring_setup": 425,
    "move_mount": 429,
    "openat2": 437,
}
_AARCH64 = {
    "mkdirat": 34,
    "unlinkat": 35,
    "symlinkat": 36,
    "linkat": 37,
    "renameat": 38,
    "mount": 40,
    "pivot_root": 41,
    "truncate": 45,
    "chroot": 51,
    "openat": 56,
    "unshare": 97,
    "connect": 203,
    "sendto": 206,
    "execve": 221,
    "open_by_handle_at": 265,
    "setns": 268,
    "renameat2": 276,
    "seccomp": 277,
    "getrandom": 278,
    "execveat": 281,
    "io_uring_setup": 425,
    "move_mount": 429,
    "openat2": 437,
}
# 32-bit programs, and 64-bit ones that use the old gate.
_I386 = {"open": 5, "creat": 8, "execve": 11, "openat": 295, "execveat": 358, "openat2": 437}

UNSEEN = 0x40000000
"""A flag with which CHEX opens files in the worker for itself: Linux ignores it, the filter does
not.  It keeps checkpoints fast; it is no secret, because the audit is no wall."""

# These are looked at more closely, or only used by ourselves.
_SPECIAL = {"openat", "seccomp", "sendto", "getrandom"}
# What C libraries, hash tables and uuid4 ask for all the time, and Python's own generator when a
# process is forked; calls from Python are seen elsewhere, with their line.
_COMMON_ENTROPY = (8, 16, 24, 32, 2496)

_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_NUMBER, _ARCH, _ARGS = 0, 4, 16
_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000
_X32_BIT = 0x40000000


@dataclass(frozen=True, slots=True)
class Architecture:
    """The numbers by which one machine knows its system calls."""

    audit_arch: int
    calls: dict[str, int]
    foreign_arch: int = 0
    """Another kind of program that the machine runs, if any."""
    foreign_calls: dict[str, int] | None = None
    o_directory: int = 0o200000


_ARCHITECTURES = {
    "x86_64": Architecture(0xC000003E, _X86_64, 0x40000003, _I386),
    "aarch64": Architecture(0xC00000B7, _AARCH64, o_directory=0o40000),
}


def architecture(machine: str = "") -> Architecture | None:
    """Return what is known about a kind of machine, this one by default."""
    return _ARCHITECTURES.get(machine or platform.machine())


def names_by_number(arch: Architecture) -> dict[tuple[int, int], str]:
    """Return the name of each audited call by machine and number."""
    found = {(arch.audit_arch, number): name for name, number in arch.calls.items()}
    for name, number in (arch.foreign_calls or {}).items():
        found[arch.foreign_arch, number] = name
    return found


def filter_program(arch: Architecture) -> bytes:
    """Return the filter as an array of ``struct sock_filter``."""
    foreign = _notify_each((arch.foreign_calls or {}).values())
    plain = [number for name, number in arch.calls.items() if name not in _SPECIAL]
    native = [
        (_LOAD, 0, 0, _NUMBER),
        *([(_ANY_BIT, 0, 1, _X32_BIT), (_RETURN, 0, 0, _NOTIFY)] if arch.foreign_arch else []),
        *_notify_openat(arch.calls["openat"]),
        *_notify_each(plain),
        *_notify_sendto(arch.calls["sendto"]),
        *_notify_entropy(arch.calls["getrandom"]),
        (_RETURN, 0, 0, _ALLOW),
    ]
    other = [
        (_EQUAL, 0, len(foreign) + 1, arch.foreign_arch),
        (_LOAD, 0, 0, _NUMBER),
        *foreign,
        (_RETURN, 0, 0, _ALLOW),
    ]
    program = [(_LOAD, 0, 0, _ARCH), (_EQUAL, len(other), 0, arch.audit_arch), *other, *native]
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in program)


_Instruction = tuple[int, int, int, int]


def _notify_each(numbers: Iterable[int]) -> list[_Instruction]:
    out: list[_Instruction] = []
    for number in numbers:
        out += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _NOTIFY)]
    return out


def _notify_openat(number: int) -> list[_Instruction]:
    return [
        (_EQUAL, 0, 4, number),
        (_LOAD, 0, 0, _ARGS + 8 * 2),
        (_ANY_BIT, 0, 1, UNSEEN),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _NOTIFY),
    ]


def _notify_sendto(number: int) -> list[_Instruction]:
    """Notify only if an address is given: connected sockets were seen when they connected."""
    address = _ARGS + 8 * 4
    return [
        (_EQUAL, 0, 5, number),
        (_LOAD, 0, 0, address),
        (_EQUAL, 0, 2, 0),
        (_LOAD, 0, 0, address + 4),
        (_EQUAL, 1, 0, 0),
        (_RETURN, 0, 0, _NOTIFY),
        (_LOAD, 0, 0, _NUMBER),
    ]


def _notify_entropy(number: int) -> list[_Instruction]:
    sizes = _COMMON_ENTROPY
    out: list[_Instruction] = [(_EQUAL, 0, len(sizes) + 2, number), (_LOAD, 0, 0, _ARGS + 8)]
    out += [(_EQUAL, len(sizes) - i, 0, size) for i, size in enumerate(sizes)]
    return [*out, (_RETURN, 0, 0, _NOTIFY)]
