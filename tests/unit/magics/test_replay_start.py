"""A cell that asks for a program: what the engine decides, and what is started."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from chexpoint.engine import Ask, Asked, CellText, EngineState, Request, Submitted
from chexpoint.engine import events as ev
from chexpoint.engine import instructions as do
from chexpoint.engine.situation import Forking, Running
from chexpoint.engine.spawn import Program
from chexpoint.model import CheckpointId

START = Ask(7, "start", {"verb": "replay", "words": []}, from_cell=True)


def forked(state: EngineState) -> CheckpointId:
    """Let the fork that is under way succeed, and return its checkpoint."""
    assert isinstance(state.doing, Forking)
    checkpoint = state.doing.checkpoint
    state.handle(ev.Forked(checkpoint))
    state.handle(ev.Froze(checkpoint, 10))
    return checkpoint


def restored() -> EngineState:
    """Return an engine that runs a cell in a state restored from a checkpoint."""
    state = EngineState(budget_bytes=2**30)
    state.start()
    state.handle(ev.WorkerReady(1))
    root = forked(state)
    state.handle(Asked(Ask(1, "restore", {"ref": "root"})))
    state.handle(ev.Thawed(root, 2, kept=True))
    state.handle(Submitted(Request(1, "execute", (), cell=CellText("%chex_replay"))))
    assert isinstance(state.doing, Running)
    return state


def has_timer(instructions: list[do.Instruction]) -> bool:
    return any(isinstance(each, do.SetTimer) and each.timer == "interrupt" for each in instructions)


def test_a_program_is_started_at_once() -> None:
    assert restored().handle(Asked(START)) == [do.StartProgram(START)]


def test_a_cell_that_waits_for_a_program_does_not_hang() -> None:
    state = restored()
    assert has_timer(state.handle(ev.Interrupted(cpu_s=1.0)))
    state = restored()
    state.handle(Asked(START))
    assert not has_timer(state.handle(ev.Interrupted(cpu_s=1.0)))
    state.handle(ev.RequestDone(1))
    state.handle(Submitted(Request(2, "execute", (), cell=CellText("x = 1"))))
    assert has_timer(state.handle(ev.Interrupted(cpu_s=1.0)))


def test_a_cell_that_is_run_again_for_its_state_starts_nothing() -> None:
    state = restored()
    state.doing = Running(Request(-1, "again", ()), None)
    assert state.handle(Asked(START)) == [do.Answer(START)]


def test_the_time_of_a_program_is_no_cost_of_the_state() -> None:
    state = restored()
    state.handle(ev.RequestDone(1, seconds=600.0, outcome=None))
    assert state.status().seconds_since_head == 0
    assert not isinstance(state.doing, Forking)


def ended(program: Program) -> tuple[int, str, str]:
    """Wait for the end of a program; return its exit code and what it has written."""
    _, status = os.waitpid(program.pid, 0)
    program.has_ended = True
    texts = [(Path(program.folder) / name).read_text() for name in ("out", "err")]
    program.end()
    return os.waitstatus_to_exitcode(status), texts[0], texts[1]


def test_a_program_writes_into_files_of_its_own() -> None:
    program = Program("replay", ["--workers", "0"])
    assert os.getpgid(program.pid) != os.getpgrp()
    assert os.stat(program.folder).st_mode & 0o077 == 0
    code, out, err = ended(program)
    assert (code, out) == (2, "")
    assert err.startswith("chex: --workers 0: give 1 or more")
    assert not os.path.exists(program.folder)


def test_a_program_that_is_not_needed_any_more_ends() -> None:
    program = Program("replay", ["--help"])
    program.end()
    _, status = os.waitpid(program.pid, 0)
    assert os.waitstatus_to_exitcode(status) in {0, -signal.SIGTERM}
    assert not os.path.exists(program.folder)


def test_nothing_else_is_started() -> None:
    with pytest.raises(ValueError, match="chex install cannot be started by a cell"):
        Program("install", [])
