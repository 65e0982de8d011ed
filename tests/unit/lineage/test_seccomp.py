"""A filter in one process, served by another."""

from __future__ import annotations

import ctypes
import errno
import os
import select
import signal
import socket
import struct
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chexpoint.lineage.seccomp import Listener, Notification, install
from chexpoint.lineage.syscalls import Architecture, architecture, names_by_number

CAP_SYS_ADMIN = 21
CAPABILITY_VERSION_3 = 0x20080522
DONE = b"done"


def known_architecture() -> Architecture:
    arch = architecture()
    if arch is None:
        pytest.skip("the system calls of this machine are not known")
    return arch


def fork() -> int:
    """Fork, also where the test runner has threads: the child does next to nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def can_filter() -> bool:
    """Try it in a child: a filter stays for the rest of a process's life."""
    arch = architecture()
    if arch is None:
        return False
    pid = fork()
    if pid == 0:
        try:
            install(arch)
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0


pytestmark = pytest.mark.skipif(not can_filter(), reason="seccomp notification is not allowed")


def drop_admin_right() -> None:
    """Take CAP_SYS_ADMIN from this process."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = struct.pack("<Ii", CAPABILITY_VERSION_3, 0)
    data = ctypes.create_string_buffer(24)
    assert libc.capget(header, data) == 0
    words = list(struct.unpack("<6I", data.raw))
    for at in range(3):
        words[at] &= ~(1 << CAP_SYS_ADMIN)
    assert libc.capset(header, struct.pack("<6I", *words)) == 0


class Filtered:
    """A child under a filter, which does one thing and sends what came of it."""

    def __init__(self, pid: int, link: socket.socket) -> None:
        self.pid = pid
        self._link = link
        word, fds, _, _ = socket.recv_fds(link, 100, 1)
        self.said = word
        self.listener = Listener(fds[0]) if fds else None

    def calls(self, arch: Architecture) -> list[tuple[str, Notification]]:
        """Let all calls go until the child has ended; return them by name."""
        assert self.listener is not None
        names = names_by_number(arch)
        found: list[tuple[str, Notification]] = []
        poll = select.poll()
        poll.register(self.listener.fileno(), select.POLLIN)
        while True:
            ((_, event),) = poll.poll()
            if not event & select.POLLIN:
                return found
            call = self.listener.receive()
            if call is not None:
                found.append((names[call[4], call[3]], call))
                self.listener.let_go(call[0])

    def answer(self) -> bytes:
        return self._link.recv(1000)


@contextmanager
def filtered(
    act: Callable[[], bytes], *, before: Callable[[], None] = lambda: None
) -> Iterator[Filtered]:
    """Run a function in a child under a filter."""
    arch = known_architecture()
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = fork()
    if pid == 0:
        status = 1
        try:
            before()
            installed = install(arch)
            word = b"gave up" if installed.gave_up_privileges else b"kept"
            socket.send_fds(theirs, [word], [installed.listener])
            os.close(installed.listener)
            theirs.send(act())
            status = 0
        finally:
            os._exit(status)
    theirs.close()
    with mine:
        child = Filtered(pid, mine)
        try:
            yield child
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            if child.listener is not None:
                child.listener.close()


def test_an_open_is_seen_and_let_go(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"contents")

    def read() -> bytes:
        with open(path, "rb") as file:
            return file.read()

    with filtered(read) as child:
        found = child.calls(known_architecture())
        assert [name for name, _ in found] == ["openat"]
        assert found[0][1][1] == child.pid
        assert child.answer() == b"contents"


def test_what_a_child_of_the_child_does_is_seen_too() -> None:
    def start() -> bytes:
        pid = os.posix_spawn("/bin/true", ["/bin/true"], {})
        return str(pid).encode() if os.waitpid(pid, 0)[1] == 0 else b"failed"

    with filtered(start) as child:
        found = child.calls(known_architecture())
        grandchild = int(child.answer())
        names = [name for name, call in found if call[1] == grandchild]
        assert names[0] == "execve"
        assert "openat" in names


def test_a_failing_call_fails_as_ever(tmp_path: Path) -> None:
    def read() -> bytes:
        try:
            os.open(tmp_path / "nowhere", os.O_RDONLY)
        except FileNotFoundError:
            return b"absent"
        return b"there"

    with filtered(read) as child:
        child.calls(known_architecture())
        assert child.answer() == b"absent"


def test_there_can_be_only_one_listener() -> None:
    def again() -> bytes:
        try:
            install(known_architecture())
        except OSError as error:
            return errno.errorcode[error.errno or 0].encode()
        return b"installed"

    with filtered(again) as child:
        child.calls(known_architecture())
        assert child.answer() == b"EBUSY"


def test_a_caller_that_was_killed_while_it_waited_does_no_harm(tmp_path: Path) -> None:
    with filtered(lambda: str(os.open(tmp_path, os.O_RDONLY)).encode()) as child:
        assert child.listener is not None
        call = child.listener.receive()
        assert call is not None
        os.kill(child.pid, signal.SIGKILL)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        child.listener.let_go(call[0])
        ((_, event),) = _polled(child.listener)
        assert event & select.POLLHUP


def _polled(listener: Listener) -> list[tuple[int, int]]:
    poll = select.poll()
    poll.register(listener.fileno(), select.POLLIN)
    return poll.poll()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs rights to give up")
def test_with_the_right_to_do_so_programs_can_still_gain_rights() -> None:
    with filtered(lambda: DONE) as child:
        child.calls(known_architecture())
        assert child.said == b"kept"


def test_without_the_right_the_filter_still_works_and_says_what_it_cost(tmp_path: Path) -> None:
    def status() -> bytes:
        text = Path("/proc/self/status").read_text(encoding="ascii")
        return next(line for line in text.splitlines() if "NoNewPrivs" in line).encode()

    with filtered(status, before=drop_admin_right) as child:
        names = [name for name, _ in child.calls(known_architecture())]
        assert child.said == b"gave up"
        assert "openat" in names
        assert child.answer().split() == [b"NoNewPrivs:", b"1"]


def test_all_threads_come_under_the_filter(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"contents")
    go, came = threading.Event(), threading.Event()
    found: list[bytes] = []

    def read() -> None:
        go.wait()
        found.append((tmp_path / "file").read_bytes())
        came.set()

    def start() -> None:
        threading.Thread(target=read, daemon=True).start()

    def act() -> bytes:
        go.set()
        came.wait()
        return found[0]

    with filtered(act, before=start) as child:
        calls = child.calls(known_architecture())
        threads = {call[1] for name, call in calls if name == "openat"}
        assert threads
        assert child.pid not in threads
        assert child.answer() == b"contents"
