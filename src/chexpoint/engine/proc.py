"""What Linux tells about processes through ``/proc``; everything may be missing.

Functions return an empty or None answer where ``/proc`` is hidden, so that a
restricted machine loses a capability and not the kernel.
"""

from __future__ import annotations

import ctypes
import os
import re
import select
import signal
from dataclasses import dataclass

from chexpoint.lineage import UNSEEN

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK = os.sysconf("SC_CLK_TCK")

PR_SET_PDEATHSIG = 1
_PR_SET_NAME, _PR_GET_NAME = 15, 16
PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37

libc = ctypes.CDLL(None, use_errno=True)


def prctl(option: int, value: int) -> bool:
    """Set a process attribute; return whether the system allowed it."""
    return bool(libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) == 0)


def can_adopt_orphans() -> bool:
    """Return whether a process may become the parent of orphans here; changes nothing."""
    answer = ctypes.c_int()
    return bool(libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(answer), 0, 0, 0) == 0)


def name() -> bytes:
    """Return what this thread is called in lists of processes."""
    buffer = ctypes.create_string_buffer(16)
    libc.prctl(_PR_GET_NAME, buffer, 0, 0, 0)
    return buffer.value


def set_name(text: bytes) -> None:
    """Call this thread something else; at most 15 bytes are kept."""
    libc.prctl(_PR_SET_NAME, ctypes.create_string_buffer(text), 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Mapping:
    """One line of ``/proc/PID/maps``."""

    start: int
    end: int
    flags: str
    """Four letters, such as ``rw-s``."""
    offset: int
    inode: int
    path: str

    @property
    def is_executable(self) -> bool:
        return self.flags[2] == "x"


_LINE = r"([0-9a-f]+)-([0-9a-f]+) (%s) ([0-9a-f]+) \S+ (\d+) *(.*)$"
_ANY = re.compile("^" + _LINE % "....", re.MULTILINE)
_SHARED_WRITABLE = re.compile("^" + _LINE % ".w.s", re.MULTILINE)


def read_maps() -> str:
    """Return ``/proc/self/maps``; thousands of lines, so it is read once for each checkpoint."""
    return _read("/proc/self/maps")


def mappings(maps: str, *, shared_writable: bool = False) -> list[Mapping]:
    """Return what is mapped into this process; what is asked for is picked before it is parsed."""
    lines = (_SHARED_WRITABLE if shared_writable else _ANY).findall(maps)
    return [
        Mapping(int(start, 16), int(end, 16), flags, int(offset, 16), int(inode), path)
        for start, end, flags, offset, inode, path in lines
    ]


def mapped_files(maps: str, containing: str) -> set[str]:
    """Return the mapped files whose name contains a word."""
    if containing not in maps:
        return set()
    paths = {line[line.find("/") :] for line in maps.splitlines() if containing in line}
    return {path for path in paths if containing in os.path.basename(path)}


def children(pid: int) -> list[int]:
    """Return the direct children of a process, zombies included."""
    if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
        return _children_by_scanning(pid)
    found: list[int] = []
    for task in _listdir(f"/proc/{pid}/task"):
        found.extend(int(child) for child in _read(f"/proc/{pid}/task/{task}/children").split())
    return found


def _children_by_scanning(pid: int) -> list[int]:
    """Look at every process: some kernels are built without the list of children."""
    found = []
    for name in _listdir("/proc"):
        if name.isdigit():
            stat = _read(f"/proc/{name}/stat")
            fields = stat[stat.rfind(")") + 2 :].split()
            if len(fields) > 1 and int(fields[1]) == pid:
                found.append(int(name))
    return found


def descendants(pid: int) -> list[int]:
    """Return all processes below one, nearest first."""
    found = children(pid)
    for child in found:
        found.extend(children(child))
    return found


def command_line(pid: int) -> str:
    """Return how a process was called, shortened for a message."""
    words = _read(f"/proc/{pid}/cmdline").split("\0")
    text = " ".join([os.path.basename(words[0]), *words[1:]]).strip()
    text = text or _read(f"/proc/{pid}/comm").strip() or "?"
    return text if len(text) <= 60 else text[:57] + "..."


def state_letter(pid: int) -> str:
    """Return the scheduler state of a process: ``R``, ``S``, ``Z``, or ``""`` if it is gone."""
    stat = _read(f"/proc/{pid}/stat")
    return stat[stat.rfind(")") + 2 : stat.rfind(")") + 3]


def cpu_seconds(pid: int) -> float:
    """Return the CPU time all threads of a process have used."""
    stat = _read(f"/proc/{pid}/stat")
    fields = stat[stat.rfind(")") + 2 :].split()
    return (int(fields[11]) + int(fields[12])) / _TICK if len(fields) > 12 else 0.0


def resident_bytes(pid: int | str = "self") -> int:
    fields = _read(f"/proc/{pid}/statm").split()
    return int(fields[1]) * _PAGE if fields else 0


def page_table_bytes(pid: int | str = "self") -> int:
    for line in _read(f"/proc/{pid}/status").splitlines():
        if line.startswith("VmPTE:"):
            return int(line.split()[1]) * 1024
    return 0


@dataclass(frozen=True, slots=True)
class Memory:
    """The anonymous memory of one process."""

    private: int
    """Only this process has it: what ending the process frees."""
    share: int
    """Its part of what it shares with others (proportional)."""
    copied: int
    """Shared memory that it has mapped; a checkpoint has copies of its own."""
    whole: int
    """Everything it can see, shared or not."""
    page_tables: int


_ROLLUP = re.compile(r"^(Pss|Pss_Anon|Pss_Shmem|Private_Dirty|Anonymous): +(\d+)", re.MULTILINE)


def memory(pid: int) -> Memory | None:
    """Measure a process; slow for many small pages, so not for the supervisor's loop."""
    rollup = _read(f"/proc/{pid}/smaps_rollup")
    fields = {name: int(size) * 1024 for name, size in _ROLLUP.findall(rollup)}
    if not fields:
        return None
    return Memory(
        private=fields.get("Private_Dirty", 0),
        share=fields.get("Pss_Anon", fields.get("Pss", 0)),
        copied=fields.get("Pss_Shmem", 0),
        whole=fields.get("Anonymous", 0),
        page_tables=page_table_bytes(pid),
    )


def describe_exit(status: int) -> str:
    """Return in words how a process ended, from its wait status."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = f"signal {number}"
        hint = ", perhaps for lack of memory" if number == signal.SIGKILL else ""
        return f"killed by {name}{hint}"
    return f"exit status {os.waitstatus_to_exitcode(status)}"


def open_unseen(path: str, flags: int = os.O_RDONLY) -> int:
    """Open a file for CHEX itself: the audit does not stop this process for it."""
    return os.open(path, flags | os.O_CLOEXEC | UNSEEN)


def list_unseen(path: str) -> list[str]:
    """Return the names in a folder; see `open_unseen`."""
    fd = open_unseen(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return os.listdir(fd)
    finally:
        os.close(fd)


def _read(path: str) -> str:
    try:
        with open(open_unseen(path), encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _listdir(path: str) -> list[str]:
    try:
        return list_unseen(path)
    except OSError:
        return []


def wait_for_end(pid: int) -> bool:
    """Wait until a process has ended; return False at once if this system cannot tell."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    try:
        poll = select.poll()
        poll.register(process, select.POLLIN)
        poll.poll()
    finally:
        os.close(process)
    return True
