"""The checkpoints that living kernels hold, and how to tell that a kernel lives."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from chexpoint.errors import CatalogError
from chexpoint.model import NodeId, Taint
from chexpoint.project.rows import as_int, as_node, as_text, stored

HeldCheckpoint = tuple[str, str | None, NodeId, Taint, int]
"""Id, name, node, taint and size."""

_FORGOTTEN_S = 7 * 24 * 3600.0
# In /proc/PID/stat, counted after the name.
_STATE, _STARTED = 0, 19


class Owner(NamedTuple):
    """A process, told apart from all others there ever were."""

    machine: str
    """Since it was booted, and as seen from one container."""
    pid: int
    started: str
    """Empty if that is not known."""

    def is_alive(self) -> bool:
        """Return whether it still runs, and can be seen from here."""
        if self.machine != this_machine():
            return False
        if self.started:
            return _started(self.pid) == self.started
        try:
            os.kill(self.pid, 0)
        except PermissionError:
            return True
        except (OSError, OverflowError):
            return False
        return True


def this_process() -> Owner:
    return Owner(this_machine(), os.getpid(), _started(os.getpid()))


@cache
def this_machine() -> str:
    return f"{_read('/proc/sys/kernel/random/boot_id').strip()} {_link('/proc/self/ns/pid')}"


def replace_held(
    connection: sqlite3.Connection, session: str, held: Sequence[HeldCheckpoint], now: float
) -> None:
    """Make these the checkpoints of a session of this process, and forget those of dead ones."""
    owner = this_process()
    connection.execute("DELETE FROM checkpoint WHERE session = ?", (stored(session),))
    connection.executemany(
        "INSERT OR REPLACE INTO checkpoint (session, machine, pid, started, time, id, name, node,"
        " taint, size_bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                *(stored(session), *owner, now, stored(ident)),
                *(None if name is None else stored(name), stored(node), stored(taint), size),
            )
            for ident, name, node, taint, size in held
        ],
    )
    # Of kernels on other machines one cannot tell, except that the record is old.
    connection.execute(
        "DELETE FROM checkpoint WHERE machine <> ? AND time < ?",
        (owner.machine, now - _FORGOTTEN_S),
    )
    rows = connection.execute(
        "SELECT DISTINCT machine, pid, started FROM checkpoint WHERE machine = ?", (owner.machine,)
    )
    for other in [Owner(*row) for row in rows]:
        if not other.is_alive():
            connection.execute(
                "DELETE FROM checkpoint WHERE machine = ? AND pid = ? AND started = ?", other
            )


def held_nodes(connection: sqlite3.Connection) -> dict[NodeId, str]:
    """Return the nodes that a living kernel holds a checkpoint of, and what to call it.

    Raises
    ------
    CatalogError
        If a row is damaged.
    """
    found: dict[NodeId, str] = {}
    alive: dict[Owner, bool] = {}
    rows = connection.execute(
        "SELECT machine, pid, started, node, coalesce(name, id) FROM checkpoint"
        " ORDER BY name IS NOT NULL, time"
    )
    for machine, pid, started, node, called in rows:
        try:
            owner = Owner(as_text(machine), as_int(pid), as_text(started))
            if alive.setdefault(owner, owner.is_alive()):
                found[as_node(node)] = as_text(called)
        except ValueError as error:
            raise CatalogError(f"a held checkpoint is damaged in the catalog: {error}") from error
    return found


def _started(pid: int) -> str:
    """Return when a process was started, in ticks since the machine was; empty if it has ended."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    if len(fields) <= _STARTED or fields[_STATE] in {"Z", "X"}:
        return ""
    return fields[_STARTED]


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
