"""Single decisions of the engine; their orders are in tests/property."""

from __future__ import annotations

from chexpoint.engine import Ask, Asked, EngineState, Request, Submitted
from chexpoint.engine import events as ev
from chexpoint.engine import instructions as do
from chexpoint.engine.situation import Forking
from chexpoint.errors import ForkRefused, RestoreFailed
from chexpoint.model import CheckpointId


def forking(state: EngineState) -> CheckpointId:
    assert isinstance(state.doing, Forking)
    return state.doing.checkpoint


def test_a_bad_checkpoint_is_not_offered_again() -> None:
    state = EngineState(budget_bytes=2**30)
    state.start()
    state.handle(ev.WorkerReady(1))
    root = forking(state)
    state.handle(ev.Forked(root))
    state.handle(ev.Froze(root, 10))
    state.handle(Asked(Ask(1, "checkpoint", {"name": "a"})))
    checkpoint = forking(state)
    state.handle(ev.Forked(checkpoint))
    state.handle(ev.Froze(checkpoint, 11))
    state.handle(Asked(Ask(2, "restore", {"ref": "a"})))
    state.handle(ev.Thawed(checkpoint, 2, kept=True))
    state.handle(Submitted(Request(1, "execute", ())))
    state.handle(ev.Interrupted(cpu_s=1.0))
    # It computes: not hung.
    state.handle(ev.TimedOut("interrupt", cpu_s=3.9))
    assert not state.held[checkpoint].bad
    # Not any more, but the signal may have been lost.
    instructions = state.handle(ev.TimedOut("interrupt", cpu_s=3.9))
    assert not state.held[checkpoint].bad
    assert do.InterruptAgain() in instructions
    instructions = state.handle(ev.TimedOut("interrupt", cpu_s=3.9))
    assert state.held[checkpoint].bad
    assert any(isinstance(i, do.Fail) for i in instructions)
    (answer,) = state.handle(Asked(Ask(3, "restore", {"ref": "a"})))
    assert isinstance(answer, do.Answer)
    assert isinstance(answer.error, RestoreFailed)


def test_status_tells_what_the_machine_lacks() -> None:
    state = EngineState(budget_bytes=2**30, missing=("no /proc",), can_fork=False)
    state.start()
    assert not any(isinstance(i, do.Fork) for i in state.handle(ev.WorkerReady(1)))
    assert state.status().missing == ("no /proc",)
    answers = state.handle(Asked(Ask(1, "checkpoint", {"name": "a"})))
    (answer,) = [a for a in answers if isinstance(a, do.Answer)]
    assert isinstance(answer.error, ForkRefused)


def test_low_memory_lets_checkpoints_go_before_the_system_must() -> None:
    state = EngineState(budget_bytes=2**40, reserve_bytes=2**30)
    state.start()
    state.handle(ev.WorkerReady(1))
    root = forking(state)
    state.handle(ev.Forked(root))
    for n in range(5):
        state.handle(Asked(Ask(n, "checkpoint", {})))
        state.handle(ev.Forked(forking(state)))
    for available in (2**31, 2**29):
        measured = ev.Measured({}, held_bytes=0, worker_bytes=0, available_bytes=available)
        instructions = state.handle(measured)
        dropped = [i for i in instructions if isinstance(i, do.Drop)]
        assert bool(dropped) == (available < 2**30)
    assert root in state.held
    assert do.Measure(urgent=True) in instructions


def test_more_checkpoints_than_processes_are_reasonable_are_not_held() -> None:
    state = EngineState(budget_bytes=2**50)
    state.start()
    state.handle(ev.WorkerReady(1))
    state.handle(ev.Forked(forking(state)))
    for n in range(300):
        state.handle(Asked(Ask(n, "checkpoint", {})))
        state.handle(ev.Forked(forking(state)))
    assert len(state.held) <= 256
