"""Whether anybody still writes what belongs to a run, and how it is made to hurry."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path

_FILE = "writer.lock"
_LOOK_S = 0.02


def hold_lock(folder: str) -> int | None:
    """Tell that something is being written for a run, as long as this process lives.

    Returns the descriptor of the lock, or None if there can be none.
    """
    try:
        fd = os.open(os.path.join(folder, _FILE), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_SH)
        os.pwrite(fd, b"%10d" % os.getpid(), 0)
    except OSError:
        return None
    return fd


def hasten(pid: int) -> None:
    """Have a writer run like any other process, now that somebody waits for it.

    Where the system does not allow it, it takes longer.
    """
    with contextlib.suppress(OSError), open(f"/proc/{pid}/autogroup", "wb", 0) as file:
        file.write(b"0")
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, 0)


def wait_written(run: Path, timeout_s: float) -> bool:
    """Wait until nobody writes for a run any more; return whether that is so."""
    deadline = time.monotonic() + timeout_s
    try:
        fd = os.open(run / _FILE, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if time.monotonic() > deadline:
                    return False
                _hasten_holder(fd)
                time.sleep(_LOOK_S)
            else:
                return True
    finally:
        os.close(fd)


def _hasten_holder(fd: int) -> None:
    """Have the newest of those hurry who hold a lock."""
    text = os.pread(fd, 16, 0).strip()
    if text.isdigit():
        hasten(int(text))
