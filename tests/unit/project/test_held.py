"""Held checkpoints are listed while the kernel that holds them lives, and no longer."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from chexpoint.project import Project
from tests.unit.project.examples import cell, node_id, record

A, B, C = node_id("aaaa"), node_id("bbbb"), node_id("cccc")


class Clock:
    """Says what time it is told to be."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def project(tmp_path: Path, clock: Clock) -> Project:
    made = Project(tmp_path, clock=clock)
    record(made, cell("aaaa"))
    return made


def sessions(project: Project) -> set[str]:
    with closing(sqlite3.connect(project.path)) as connection:
        return {session for (session,) in connection.execute("SELECT session FROM checkpoint")}


def test_checkpoints_of_this_process_are_listed_by_name_or_id(project: Project) -> None:
    project.set_checkpoints("s", [("1", None, A, "", 10), ("2", "mine\udcff", B, "taint", 20)])
    assert project.checkpoints() == {A: "1", B: "mine\udcff"}
    with closing(sqlite3.connect(project.path)) as connection:
        row = connection.execute(
            "SELECT session, id, name, node, taint, size_bytes, pid FROM checkpoint WHERE id = '1'"
        ).fetchone()
    assert row == ("s", "1", None, A, "", 10, os.getpid())


def test_what_a_session_held_before_is_replaced(project: Project) -> None:
    project.set_checkpoints("s", [("1", None, A, "", 10), ("2", None, B, "", 10)])
    project.set_checkpoints("other", [("1", None, C, "", 10)])
    project.set_checkpoints("s", [("3", None, B, "", 10)])
    assert project.checkpoints() == {B: "3", C: "1"}
    project.set_checkpoints("s", [])
    assert project.checkpoints() == {C: "1"}


def test_of_two_checkpoints_of_a_node_the_named_one_is_shown(project: Project) -> None:
    project.set_checkpoints("s", [("1", "mine", A, "", 10), ("2", None, A, "", 10)])
    assert project.checkpoints() == {A: "mine"}


HOLDER = """
import sys
from chexpoint.project import Project
Project.at(sys.argv[1]).set_checkpoints("dead", [("1", "theirs", "b" * 32, "", 5)])
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(project: Project) -> Iterator[subprocess.Popen[str]]:
    """Yield another process that holds a checkpoint."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(project.folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate(timeout=60)


@pytest.mark.slow
def test_checkpoints_of_a_dead_kernel_are_not_listed(
    project: Project, holder: subprocess.Popen[str]
) -> None:
    project.set_checkpoints("s", [("1", None, A, "", 10)])
    assert project.checkpoints() == {A: "1", "b" * 32: "theirs"}
    holder.kill()
    os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
    assert project.checkpoints() == {A: "1"}  # dead, though nobody has buried it
    holder.wait(timeout=60)
    assert project.checkpoints() == {A: "1"}
    assert sessions(project) == {"s", "dead"}
    project.set_checkpoints("s", [("1", None, A, "", 10)])
    assert sessions(project) == {"s"}


@pytest.mark.parametrize("change", ["started = '1'", "machine = 'another'", "pid = 4194305"])
def test_a_process_that_is_another_one_does_not_hold_them(project: Project, change: str) -> None:
    project.set_checkpoints("s", [("1", None, A, "", 10)])
    with closing(sqlite3.connect(project.path, isolation_level=None)) as connection:
        connection.execute(f"UPDATE checkpoint SET {change}")  # noqa: S608
    assert project.checkpoints() == {}


def test_where_the_start_of_a_process_is_unknown_its_number_must_do(project: Project) -> None:
    project.set_checkpoints("s", [("1", None, A, "", 10)])
    with closing(sqlite3.connect(project.path, isolation_level=None)) as connection:
        connection.execute("UPDATE checkpoint SET started = ''")
        assert project.checkpoints() == {A: "1"}
        connection.execute("UPDATE checkpoint SET pid = 4194305")
        assert project.checkpoints() == {}


def test_kernels_elsewhere_are_forgotten_when_their_record_is_old(
    project: Project, clock: Clock
) -> None:
    project.set_checkpoints("elsewhere", [("1", None, A, "", 10)])
    with closing(sqlite3.connect(project.path, isolation_level=None)) as connection:
        connection.execute("UPDATE checkpoint SET machine = 'another'")
    clock.now += 3600
    project.set_checkpoints("s", [("1", None, A, "", 10)])
    assert sessions(project) == {"s", "elsewhere"}
    clock.now += 8 * 24 * 3600
    project.set_checkpoints("s", [("1", None, A, "", 10)])
    assert sessions(project) == {"s"}
