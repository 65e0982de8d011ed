"""The audited processes, by logical name, and their memory.

A process is called by how it came to be, not by its number: ``0`` is the
worker, ``0.1`` the first of its children that did anything, and so on.
"""

from __future__ import annotations

import contextlib
import os
import re

_PYTHON = re.compile(rb"(^|/)(python|pypy)[0-9.]*$")
_SHORT, _LONG = 256, 4096
_MOST_WORDS = 16
# A known process costs a descriptor: when there are so many, look for dead ones.
_MANY = 64
# Options of Python that take a value, in the same word or the next.
_WITH_VALUE = b"WX"
WORKER = "0"
CHECKPOINT_NAME = b"chex-checkpoint"
"""What the system calls processes that are checkpoints, or become them."""


class Process:
    """One audited process."""

    __slots__ = (
        "children",
        "import_folders",
        "is_ours",
        "mem",
        "name",
        "next_import_folders",
        "pid",
        "root",
        "unclear_lists",
    )

    def __init__(self, name: str, pid: int) -> None:
        self.name = name
        self.pid = pid
        self.mem = -1
        self.children = 0
        self.is_ours = False
        """A checkpoint of the worker, or one in the making."""
        self.root = b""
        """Set if it sees other file systems than we do."""
        self.import_folders: set[bytes] = set()
        """Of a Python child: the folders its imports will list, once each."""
        self.next_import_folders: tuple[bytes, ...] = ()
        """The same, of the program that it is about to become."""
        self.unclear_lists: list[str] = []
        """Listings of such folders, until it is clear who made them."""

    def read(self, address: int, size: int) -> bytes:
        """Return bytes of its memory; less, or none, where there is none to read."""
        try:
            data = os.pread(self.mem, size, address)
        except (OSError, OverflowError):
            data = b""
        if data:
            return data
        self.forget_memory()  # it may have become another program
        try:
            self.mem = os.open(f"/proc/{self.pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
            return os.pread(self.mem, size, address)
        except (OSError, OverflowError):
            return b""

    def text(self, address: int) -> bytes | None:
        """Return the C string at an address, or None if it cannot be read."""
        data = self.read(address, _SHORT)
        end = data.find(0)
        if end < 0:
            data = self.read(address, _LONG)
            end = data.find(0)
            if end < 0:
                # The page after a short string may not be there.
                room = -address % 4096
                data = self.read(address, room) if room else b""
                end = data.find(0)
        return data[:end] if end >= 0 else None

    def strings(self, address: int, most: int) -> list[bytes]:
        """Return the first strings of an ``argv``."""
        data = self.read(address, 8 * most)
        found = []
        for at in range(0, len(data) - len(data) % 8, 8):
            pointer = int.from_bytes(data[at : at + 8], "little")
            text = self.text(pointer) if pointer else None
            if text is None:
                break
            found.append(text)
        return found

    def look_at_root(self) -> None:
        """See whether it sees other file systems than we do."""
        self.root = b"" if _sees_what_we_see(self.pid) else b"/proc/%d/root" % self.pid

    def forget_memory(self) -> None:
        if self.mem >= 0:
            os.close(self.mem)
            self.mem = -1


class Processes:
    """All processes under one filter; by thread, because that is what notifications tell."""

    def __init__(self) -> None:
        self._by_thread: dict[int, Process] = {}
        self._many = _MANY
        self._worker = Process(WORKER, 0)
        self.import_folders: frozenset[bytes] = frozenset()
        """The folders outside the environment that the worker's imports look into."""
        self.has_namespaces = False
        """Whether any process may see other file systems."""

    @property
    def worker(self) -> Process:
        return self._worker

    def set_worker(self, pid: int) -> None:
        """Another process is the worker now; what the last one started is not its child."""
        for process in {id(p): p for p in self._by_thread.values()}.values():
            process.forget_memory()
        self._worker.forget_memory()
        self._worker = Process(WORKER, pid)
        self._by_thread = {pid: self._worker}

    def find(self, thread: int) -> Process | None:
        """Return the process of a thread, if it was seen before."""
        process = self._by_thread.get(thread)
        if self.has_namespaces and process is not None:
            process.look_at_root()
        return process

    def add(self, thread: int) -> Process:
        """Return the process of a thread that is seen for the first time."""
        if len(self._by_thread) >= self._many:
            self.forget_dead()
            self._many = _MANY + 2 * len(self._by_thread)
        name, parent, is_leader = _family(thread)
        pid = thread if is_leader else self._leader(thread)
        process = self._by_thread.get(pid)
        if process is None:
            if name == CHECKPOINT_NAME:
                process = Process("", pid)
                process.is_ours = True
            else:
                process = self._new(pid, self._by_thread.get(parent, self._worker))
            self._by_thread[pid] = process
        self._by_thread[thread] = process
        if self.has_namespaces:
            process.look_at_root()
        return process

    def _leader(self, thread: int) -> int:
        if os.path.exists(f"/proc/{self._worker.pid}/task/{thread}"):
            return self._worker.pid
        return _leader(thread)

    def _new(self, pid: int, parent: Process) -> Process:
        parent.children += 1
        process = Process(f"{parent.name}.{parent.children}", pid)
        process.import_folders = set(self.import_folders)
        return process

    def executes(self, process: Process, thread: int, program: bytes, argv: int) -> None:
        """A process is about to become another program; ``argv`` is where its words are."""
        process.next_import_folders = ()
        if _PYTHON.search(program) is not None:
            words = process.strings(argv, _MOST_WORDS)
            with contextlib.suppress(OSError):
                cwd = os.fsencode(os.readlink(f"/proc/{thread}/cwd"))
                process.next_import_folders = (*self.import_folders, *_import_folder(words, cwd))
        process.forget_memory()

    def executed(self, process: Process) -> None:
        """What a process did up to now it did as its last program."""
        process.unclear_lists.clear()
        process.import_folders = set(process.next_import_folders)

    def namespace_changed(self) -> None:
        """Some process is about to see other file systems; from now on look at each call."""
        self.has_namespaces = True

    def forget_dead(self) -> list[Process]:
        """Drop processes that have ended; return the children that have not."""
        alive: dict[int, Process] = {}
        for thread, process in list(self._by_thread.items()):
            if process is self._worker:
                if thread != process.pid and not os.path.exists(
                    f"/proc/{process.pid}/task/{thread}"
                ):
                    del self._by_thread[thread]
            elif _is_alive(process.pid):
                if not process.is_ours:
                    alive[process.pid] = process
            else:
                process.forget_memory()
                del self._by_thread[thread]
        return list(alive.values())

    def restart_names(self, alive: list[Process]) -> None:
        """Name the children of a new cell from the start, as far as none is left."""
        if not alive:
            self._worker.children = 0


def _family(thread: int) -> tuple[bytes, int, bool]:
    """Return the name of a thread, the parent of its process, and whether it leads its process."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        # Not the friendlier "status": that takes Linux several times as long.
        stat = _read_stat(thread)
        end = stat.rindex(b")")
        fields = stat[end + 2 :].split()
        # Only the end of a process is signalled, not that of any other thread.
        return stat[stat.index(b"(") + 1 : end], int(fields[1]), fields[35] != b"-1"
    return b"", 0, True


def _leader(thread: int) -> int:
    with (
        contextlib.suppress(OSError, ValueError, IndexError),
        open(f"/proc/{thread}/status", "rb") as file,
    ):
        return int(file.read().split(b"\nTgid:", 1)[1].split(None, 1)[0])
    return thread


def _read_stat(pid: int) -> bytes:
    fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 1024)
    finally:
        os.close(fd)


def _is_alive(pid: int) -> bool:
    try:
        stat = _read_stat(pid)
    except OSError:
        return False
    return stat[stat.rfind(b")") + 2 :][:1] not in {b"Z", b"X", b""}


def _sees_what_we_see(pid: int) -> bool:
    try:
        return (
            os.readlink(f"/proc/{pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt")
            and os.readlink(f"/proc/{pid}/root") == "/"
        )
    except OSError:
        return False


def _import_folder(argv: list[bytes], cwd: bytes) -> tuple[bytes, ...]:
    """Return the folder, if any, that a Python started like this puts first on its path."""
    words = iter(argv[1:])
    for word in words:
        if not word.startswith(b"-"):
            return (os.path.normpath(os.path.dirname(os.path.join(cwd, word))),)
        letters = b"" if word.startswith(b"--") else word[1:]
        for at, letter in enumerate(letters, 1):
            if letter in b"IP":
                return ()  # isolated: no folder of the user's
            if letter in b"cm":
                return (cwd,)
            if letter in _WITH_VALUE:
                if at == len(letters):
                    next(words, None)
                break
        if word == b"-":
            break
    return (cwd,)
