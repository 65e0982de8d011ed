"""Calls are written down and looked at later, in order, as they were when they were made."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from chexpoint.lineage.calls import Calls
from chexpoint.lineage.cell_log import CellLog
from chexpoint.lineage.files import Files
from chexpoint.lineage.fingerprint import Fingerprints, Job
from chexpoint.lineage.places import Places
from chexpoint.lineage.syscalls import architecture
from chexpoint.lineage.trail import Step
from tests.support.audited import digest_of

ARCH = architecture()
HERE = 0xFFFFFF9C

pytestmark = pytest.mark.skipif(ARCH is None, reason="system calls of this machine are not known")


class Caller:
    """This process, as the one whose system calls are audited; it makes none of them."""

    def __init__(self, folder: Path) -> None:
        assert ARCH is not None
        self.folder = folder
        self.files = Files(Places(str(folder)), Fingerprints(lambda _: None))
        self.files.log = CellLog(Step(Step(None)))
        self.calls = Calls(ARCH, self.files)
        self.calls.processes.set_worker(os.getpid())
        self._kept: list[object] = []

    def _text(self, name: str) -> int:
        buffer = ctypes.create_string_buffer(os.fsencode(self.folder / name))
        self._kept.append(buffer)
        return ctypes.addressof(buffer)

    def call(self, name: str, *args: int) -> object:
        assert ARCH is not None
        padded = (*args, *[0] * (6 - len(args)))
        call = (1, os.getpid(), 0, ARCH.calls[name], ARCH.audit_arch, 0, *padded)
        verdict = self.calls.handle(self.calls.processes.worker, call)
        if isinstance(verdict, tuple):
            self.calls.look(verdict)
        return verdict

    def open(self, name: str, flags: int = os.O_RDONLY) -> object:
        return self.call("openat", HERE, self._text(name), flags)

    def unlink(self, name: str) -> object:
        return self.call("unlinkat", HERE, self._text(name), 0)

    def reads(self) -> dict[str, list[str]]:
        return {
            os.path.relpath(path, self.folder): [reading.digest for reading in readings]
            for path, readings in self.files.log.reads.items()
        }


@pytest.fixture
def caller(tmp_path: Path) -> Caller:
    return Caller(tmp_path)


def settle(path: Path, contents: bytes) -> None:
    """Write a file, and wait until the clock of the file system has moved on."""
    path.write_bytes(contents)
    while time.time_ns() <= path.stat().st_ctime_ns:
        pass


def tick(path: Path) -> None:
    """Wait until a change of a file would show a later time than now."""
    now = time.time_ns()
    probe = path / "probe"
    while True:
        probe.write_bytes(b"")
        os.utime(probe)
        if probe.stat().st_ctime_ns > now:
            probe.unlink()
            return


def test_reads_are_looked_at_when_there_are_many(caller: Caller, tmp_path: Path) -> None:
    settle(tmp_path / "a", b"one")
    caller.open("a")
    assert caller.reads() == {}
    assert caller.calls.waiting_since
    caller.calls.flush()
    assert caller.reads() == {"a": [digest_of(b"one")]}
    assert not caller.calls.waiting_since
    while not caller.calls.has_many:
        caller.open("a")
    caller.calls.flush()
    assert not caller.calls.has_many


@pytest.mark.parametrize(
    "change",
    [
        lambda caller: caller.open("a", os.O_WRONLY | os.O_TRUNC),
        lambda caller: caller.open("b", os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        lambda caller: caller.unlink("a"),
        lambda caller: caller.call("mkdirat", HERE, caller._text("new"), 0),
        lambda caller: caller.call("connect", 0, 0, 0),
        lambda caller: caller.open(".", os.O_RDONLY | os.O_DIRECTORY),
    ],
    ids=["overwrite", "create", "delete", "folder", "connect", "list"],
)
def test_a_change_comes_after_all_that_was_read_before_it(
    caller: Caller, tmp_path: Path, change: Callable[[Caller], object]
) -> None:
    settle(tmp_path / "a", b"one")
    caller.open("a")
    change(caller)
    assert caller.reads() == {"a": [digest_of(b"one")]}
    ops = [op for _, op, _, _ in caller.files.log.notes]
    assert ops[0] == "read"


def test_what_others_have_changed_by_the_time_of_the_look_is_volatile(
    caller: Caller, tmp_path: Path
) -> None:
    settle(tmp_path / "a", b"one")
    caller.open("a")
    tick(tmp_path)
    (tmp_path / "a").write_bytes(b"two")
    caller.calls.flush()
    assert caller.reads() == {"a": ["volatile"]}


def test_what_has_vanished_by_the_time_of_the_look_is_not_called_absent(
    caller: Caller, tmp_path: Path
) -> None:
    settle(tmp_path / "a", b"one")
    caller.open("a")
    caller.open("never/there")
    tick(tmp_path)
    (tmp_path / "a").unlink()
    caller.calls.flush()
    assert caller.reads() == {"a": ["volatile"], "never/there": ["absent"]}


def test_a_program_is_noted_in_its_place(caller: Caller, tmp_path: Path) -> None:
    settle(tmp_path / "a", b"one")
    settle(tmp_path / "program", b"#!/bin/sh\n")
    caller.open("a")
    argv = (ctypes.c_void_p * 1)(None)
    caller.call("execve", caller._text("program"), ctypes.addressof(argv))
    caller.call("execve", caller._text("nowhere"), ctypes.addressof(argv))
    caller.calls.flush()
    assert [op for _, op, _, _ in caller.files.log.notes] == ["read", "exec", "read"]
    assert caller.reads().keys() == {"a", "program"}


def test_a_large_file_that_was_only_written_down_still_stops_its_change(
    caller: Caller, tmp_path: Path
) -> None:
    settle(tmp_path / "a", bytes(2**20))
    caller.open("a")
    assert isinstance(caller.open("a", os.O_WRONLY | os.O_TRUNC), Job)


def test_a_pipe_is_a_pipe_however_often_it_was_used(caller: Caller, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    caller.open("pipe")
    tick(tmp_path)
    os.utime(tmp_path / "pipe")
    caller.calls.flush()
    assert caller.reads() == {"pipe": ["fifo"]}
