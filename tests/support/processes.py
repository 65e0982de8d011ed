"""Finding and awaiting the processes of a kernel, by a mark in their environment.

A mark set in the kernel's environment is inherited by everything it forks or starts, whatever its
parent or process group has become since, so a scan of /proc finds them all.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PATIENCE_S = 60.0
"""How long to wait for what should be a matter of milliseconds: a machine may be at its limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A live process that carries the mark."""

    pid: int
    command: str


def marked(name: str, value: str) -> list[Process]:
    """All live processes with `name=value` in their environment, by process id."""
    mark = f"{name}={value}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            # A process may end, or belong to someone else, while it is being read.
            with suppress(OSError):
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    found.append(Process(pid=int(entry.name), command=command))
    return sorted(found, key=lambda process: process.pid)


def wait_none_marked(name: str, value: str, *, timeout_s: float = PATIENCE_S) -> list[Process]:
    """Wait until no process carries the mark; return those that still do after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while remaining := marked(name, value):
        left_s = deadline - time.monotonic()
        if left_s <= 0 or not wait_exit(remaining[0].pid, timeout_s=left_s):
            return remaining
    return []


def wait_exit(pid: int, *, timeout_s: float = PATIENCE_S) -> bool:
    """Wait until a process, of whatever parent, has ended; return whether it has."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))
    finally:
        os.close(descriptor)


def wait_until(is_so: Callable[[], object], *, timeout_s: float = 240.0) -> bool:
    """Wait until something is so that no event tells of; return whether it is.

    Leaves the processor to others meanwhile: what is waited for may have a low priority.
    """
    deadline = time.monotonic() + timeout_s
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def wait_reaped(pid: int, *, timeout_s: float = PATIENCE_S) -> bool:
    """Wait until the parent of a process has noticed that it ended; return whether it has."""
    return wait_until(lambda: not os.path.exists(f"/proc/{pid}"), timeout_s=timeout_s)
