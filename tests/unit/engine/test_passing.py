"""The engine passes over cells, loads what is needed, and stores what was chosen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from chexpoint.engine import Ask, Asked, EngineState, Request, Submitted, Way
from chexpoint.engine import events as ev
from chexpoint.engine import instructions as do
from chexpoint.engine.asks import CellText
from chexpoint.engine.situation import Binding, Forking, Idle, Running
from chexpoint.engine.timeline import Item, Pass
from chexpoint.lineage import Step
from chexpoint.model import (
    ArtifactId,
    CellAudit,
    CellLineage,
    CheckpointId,
    ImageInfo,
    ImageName,
    NodeId,
    PathCell,
)

X = Item(ArtifactId("ax"), ("x",), "text")
Y = Item(ArtifactId("ay"), ("y",), "text")


T = TypeVar("T")


def of(kind: type[T], instructions: Iterable[do.Instruction]) -> list[T]:
    return [each for each in instructions if isinstance(each, kind)]


def doing(state: EngineState, kind: type[T]) -> T:
    """Return what the worker does, which is of a kind."""
    found: object = state.doing
    assert isinstance(found, kind)
    return found


def engine(*, waited_s: float = 0.0) -> EngineState:
    """Return an idle engine that uses the graph, in the fresh interpreter."""
    state = EngineState(budget_bytes=2**30, auto="never")
    state.start()
    state.handle(ev.WorkerReady(1))
    root = doing(state, Forking).checkpoint
    state.handle(ev.Forked(root, 0.01, waited_s))
    state.handle(ev.Froze(root, 10))
    state.time.worker.node = NodeId("root")
    state.handle(Asked(Ask(1, "reuse", {"on": True, "allow": [], "graph": True})))
    return state


def submit(state: EngineState, seq: int, source: str) -> do.Look:
    cell = CellText(source)
    (look,) = of(do.Look, state.handle(Submitted(Request(seq, "execute", (), cell=cell))))
    return look


def known(state: EngineState, seq: int, source: str) -> Step:
    """Have a cell answered from an earlier run; return where the user is then."""
    place = submit(state, seq, source).place
    node = NodeId(f"n{seq}")
    parent = place.node or NodeId("root")
    record = CellLineage(
        node=node,
        parent=parent,
        code="c",
        strict="",
        number=seq,
        execution_count=seq,
        source=source,
        audit=CellAudit(),
        seconds=5.0,
        size_bytes=0,
    )
    cell = PathCell(
        node=node, parent=parent, taint="", source=source, seconds=5.0, execution_count=seq
    )
    found = ev.Found(cell, record, ())
    recalled = of(do.Recall, state.handle(ev.Looked(seq, place, found=found)))
    assert len(recalled) == 1
    return state.time.place


def on_the_way(state: EngineState, *names: str) -> tuple[Step, do.Look]:
    """Have a cell that must run wait behind a known one, and x loaded; others are absent."""
    place = known(state, 1, "x = y = 1")
    look = submit(state, 2, "print(x)")
    there = place.lacking(frozenset(names))
    way = Way(False, (Pass(there, (X,), ()),), 0.1)
    state.handle(ev.Looked(2, look.place, way=way))
    doing(state, Binding)
    return there, look


def test_cell_runs_when_what_it_needs_is_loaded() -> None:
    state = engine()
    there, _ = on_the_way(state, "y")
    done = state.handle(ev.Bound(seconds=(0.1,)))
    (settle,) = of(do.Settle, done)
    assert settle == do.Settle(there)
    assert len(of(do.Dispatch, done)) == 1
    step = doing(state, Running).step
    assert step is not None
    assert step.absent == {"y"}
    assert step.parent is there
    # A variable that it writes is there again.
    state.handle(ev.RequestDone(2, bound=frozenset({"y"})))
    assert step.absent == frozenset()


def test_what_cannot_be_loaded_is_told_and_another_way_is_found() -> None:
    state = engine()
    on_the_way(state)
    done = state.handle(ev.Bound("it is damaged", X.artifact))
    (noted,) = of(do.NoteLoads, done)
    assert noted.bound.why == "it is damaged"
    # It is asked again, and without a way the cell of the place is run.
    (look,) = of(do.Look, done)
    (dispatch,) = of(do.Dispatch, state.handle(ev.Looked(2, look.place)))
    assert dispatch.request.kind == "again"


def test_worker_that_dies_while_it_loads_costs_what_it_loaded() -> None:
    state = engine()
    on_the_way(state)
    done = state.handle(ev.WorkerGone("killed"))
    assert [each.bound.artifact for each in of(do.NoteLoads, done)] == [X.artifact]
    found: object = state.doing
    assert not isinstance(found, Binding)


def test_state_that_lacks_variables_is_no_way_to_a_whole_one() -> None:
    state = engine()
    on_the_way(state, "y")
    state.handle(ev.Bound(seconds=(0.1,)))
    state.handle(ev.RequestDone(2))
    look = submit(state, 3, "print(globals())")
    # Nobody knows a way that leaves nothing out: all is run again, in the fresh interpreter.
    done = state.handle(ev.Looked(3, look.place))
    assert len(of(do.Thaw, done)) == 1


def image(name: str) -> ImageInfo:
    return ImageInfo(name=ImageName(name), time=0.0, seconds=0.1, state_bytes=10, stored_bytes=5)


def ran(state: EngineState, seq: int, *, seconds: float, keepable_bytes: int = 10**6) -> Step:
    """Run a cell; return its step."""
    look = submit(state, seq, f"x{seq} = big()")
    state.handle(ev.Looked(seq, look.place))
    step = doing(state, Running).step
    assert step is not None
    state.handle(ev.RequestDone(seq, seconds=seconds, keepable_bytes=keepable_bytes))
    return step


def keepable(state: EngineState) -> tuple[Step, CheckpointId]:
    """Run a cell that leaves something large, and return its step, and the copy that is taken."""
    return ran(state, 1, seconds=5.0), doing(state, Forking).checkpoint


def writing_two() -> tuple[EngineState, Step, CheckpointId, do.MakeImage]:
    """Have two variables of a copy stored; return its step, it, and the first order."""
    state = engine()
    step, copy = keepable(state)
    state.handle(ev.Forked(copy))
    state.handle(ev.Froze(copy, 11))
    chosen = ev.Chosen(step, ((X.artifact, ("x",)), (Y.artifact, ("y",))))
    (first,) = of(do.MakeImage, state.handle(chosen))
    return state, step, copy, first


def test_chosen_variables_are_stored_by_a_copy_that_then_goes() -> None:
    for is_early in (False, True):
        state = engine()
        step, copy = keepable(state)
        chosen = ev.Chosen(step, ((X.artifact, ("x",)),))
        if is_early:  # the choice comes before the copy is there
            state.handle(chosen)
        state.handle(ev.Forked(copy))
        done = state.handle(ev.Froze(copy, 11))
        if not is_early:
            done = state.handle(chosen)
        (order,) = of(do.MakeImage, done)
        assert (order.checkpoint, order.only) == (copy, ("x",))
        assert order.name.startswith("artifact-ax")
        done = state.handle(ev.Imaged(image(order.name)))
        (kept,) = of(do.KeepArtifact, done)
        assert (kept.artifact, kept.why) == (X.artifact, "")
        assert do.Drop(copy) in done


def test_one_copy_of_a_checkpoint_writes_all_that_was_chosen() -> None:
    state, _, copy, first = writing_two()
    assert (first.only, first.has_more) == (("x",), True)
    done = state.handle(ev.Imaged(image(first.name)))
    (second,) = of(do.MakeImage, done)
    assert (second.only, second.has_more) == (("y",), False)
    assert do.Drop(copy) not in done
    assert do.Drop(copy) in state.handle(ev.Imaged(image(second.name)))


def test_what_turned_out_to_be_of_no_use_is_not_stored_unless_it_was_begun() -> None:
    state, step, copy, first = writing_two()
    done = state.handle(ev.Chosen(Step(parent=step), (), frozenset({X.artifact, Y.artifact})))
    (left_out,) = of(do.KeepArtifact, done)
    assert left_out.artifact == Y.artifact
    assert "did not use it" in left_out.why
    assert do.Drop(copy) not in done
    done = state.handle(ev.Imaged(image(first.name)))
    assert of(do.KeepArtifact, done)[0].artifact == X.artifact
    assert not of(do.MakeImage, done)
    assert do.Drop(copy) in done


def test_what_quick_cells_give_is_put_off_until_a_copy_costs_little() -> None:
    state = engine()
    first = ran(state, 1, seconds=0.2)
    doing(state, Idle)
    look = submit(state, 2, "y = x")  # the next cell is there before it is known what to store
    chosen = ev.Chosen(first, ((X.artifact, ("x",)),))
    assert not of(do.Fork, state.handle(chosen))
    state.handle(ev.Looked(2, look.place))
    second = doing(state, Running).step
    assert second is not None
    state.handle(ev.RequestDone(2, seconds=0.4))
    copy = doing(state, Forking).checkpoint
    state.handle(ev.Forked(copy))
    state.handle(ev.Froze(copy, 11))
    again = ev.Chosen(second, ((X.artifact, ("x",)), (Y.artifact, ("y",))))
    (order,) = of(do.MakeImage, state.handle(again))
    assert (order.checkpoint, order.only, order.has_more) == (copy, ("x",), True)


def test_what_takes_long_to_be_written_is_not_put_off_for_long() -> None:
    state = engine()
    first = ran(state, 1, seconds=0.2)
    look = submit(state, 2, "y = x")
    state.handle(ev.Chosen(first, ((X.artifact, ("x",)),), write_s=2.0))
    state.handle(ev.Looked(2, look.place))
    second = doing(state, Running).step
    assert second is not None
    state.handle(ev.RequestDone(2, seconds=0.001))
    copy = doing(state, Forking).checkpoint
    state.handle(ev.Forked(copy))
    state.handle(ev.Froze(copy, 11))
    assert of(do.MakeImage, state.handle(ev.Chosen(second, ((X.artifact, ("x",)),))))
    # One after the other: copies that wait hold memory.
    look = submit(state, 3, "z = y")
    state.handle(ev.Chosen(Step(parent=second), ((Y.artifact, ("y",)),), write_s=2.0))
    state.handle(ev.Looked(3, look.place))
    state.handle(ev.RequestDone(3, seconds=0.001))
    doing(state, Idle)


def test_what_was_put_off_is_stored_as_soon_as_nobody_waits() -> None:
    state = engine()
    step = ran(state, 1, seconds=0.2)
    doing(state, Idle)
    state.handle(ev.Chosen(step, ((X.artifact, ("x",)),)))
    copy = doing(state, Forking).checkpoint
    ask = Ask(9, "drain")
    state.handle(Asked(ask))
    state.handle(ev.Forked(copy))
    (order,) = of(do.MakeImage, state.handle(ev.Froze(copy, 11)))
    assert order.only == ("x",)
    done = [*state.handle(ev.Drained(ask)), *state.handle(ev.Imaged(image(order.name)))]
    assert do.Drop(copy) in done
    assert of(do.Drain, done) == [do.Drain(ask)], "asked again when all is written"


def test_a_cell_of_which_nothing_is_chosen_is_not_copied() -> None:
    state = engine()
    step = ran(state, 1, seconds=0.2)
    state.handle(ev.Chosen(step, ()))
    doing(state, Idle)
    ran(state, 2, seconds=0.4)
    doing(state, Idle)


def test_what_a_later_cell_has_changed_cannot_be_stored_any_more() -> None:
    state = engine()
    first = ran(state, 1, seconds=0.2)
    submit(state, 2, "x = 1")
    state.handle(ev.Chosen(first, ((X.artifact, ("x",)), (Y.artifact, ("y",)))))
    done = state.handle(ev.Chosen(Step(parent=first), ((Y.artifact, ("y",)),)))
    (gone,) = of(do.KeepArtifact, done)
    assert (gone.artifact, gone.info) == (X.artifact, None)
    assert "before it could be written" in gone.why


def test_what_is_not_there_cannot_be_stored() -> None:
    state = engine()
    step = ran(state, 1, seconds=0.2).lacking(frozenset("x"))
    done = state.handle(ev.Chosen(step, ((X.artifact, ("x",)),)))
    assert [each.artifact for each in of(do.KeepArtifact, done)] == [X.artifact]
    doing(state, Idle)


def test_what_is_on_its_way_is_not_stored_twice() -> None:
    state, step, copy, first = writing_two()
    both = ((X.artifact, ("x",)), (Y.artifact, ("y",)))
    assert not of(do.KeepArtifact, state.handle(ev.Chosen(Step(parent=step), both)))
    (second,) = of(do.MakeImage, state.handle(ev.Imaged(image(first.name))))
    done = state.handle(ev.Imaged(image(second.name)))
    assert do.Drop(copy) in done
    assert not of(do.MakeImage, done)


def test_what_would_take_longer_to_load_is_not_copied_at_once() -> None:
    for size, is_copied in ((10**6, True), (10**10, False)):
        state = engine()
        ran(state, 1, seconds=5.0, keepable_bytes=size)
        assert isinstance(state.doing, Forking) is is_copied


def test_what_forks_take_and_make_cells_wait_counts() -> None:
    for waited_s, is_asked in ((0.0, True), (1.0, False)):
        state = engine(waited_s=waited_s)
        ran(state, 1, seconds=0.7)
        assert isinstance(state.doing, Forking) is is_asked


def test_copy_of_which_nothing_was_chosen_goes() -> None:
    state = engine()
    step, copy = keepable(state)
    state.handle(ev.Forked(copy))
    state.handle(ev.Froze(copy, 11))
    assert do.Drop(copy) in state.handle(ev.Chosen(step, ()))


def test_process_that_cannot_be_copied_stores_it_itself() -> None:
    state = engine()
    step, copy = keepable(state)
    state.handle(ev.Refused(copy, ()))
    doing(state, Idle)
    (order,) = of(do.MakeImage, state.handle(ev.Chosen(step, ((X.artifact, ("x",)),))))
    assert order.checkpoint is None
    (kept,) = of(do.KeepArtifact, state.handle(ev.ImageFailed(order.name, "no room")))
    assert kept == do.KeepArtifact(X.artifact, None, "no room")
    doing(state, Idle)


def test_a_copy_that_is_on_its_way_is_waited_for() -> None:
    state = engine()
    step, copy = keepable(state)
    state.handle(ev.Chosen(step, ((X.artifact, ("x",)),)))
    ask = Ask(9, "drain")
    done = [
        *state.handle(Asked(ask)),
        *state.handle(ev.Drained(ask)),
        *state.handle(ev.Forked(copy)),
    ]
    assert not of(do.Answer, done)
    (order,) = of(do.MakeImage, state.handle(ev.Froze(copy, 11)))
    assert of(do.Drain, state.handle(ev.Imaged(image(order.name)))) == [do.Drain(ask)]
    (answer,) = of(do.Answer, state.handle(ev.Drained(ask)))
    assert answer.ask == ask


def test_all_that_is_written_is_waited_for() -> None:
    state = engine()
    step, copy = keepable(state)
    state.handle(ev.Forked(copy))
    state.handle(ev.Froze(copy, 11))
    (order,) = of(do.MakeImage, state.handle(ev.Chosen(step, ((X.artifact, ("x",)),))))
    ask = Ask(9, "drain")
    assert of(do.Drain, state.handle(Asked(ask))) == [do.Drain(ask)]
    assert not of(do.Answer, state.handle(ev.Drained(ask)))
    assert of(do.Drain, state.handle(ev.Imaged(image(order.name)))) == [do.Drain(ask)]
    (answer,) = of(do.Answer, state.handle(ev.Drained(ask)))
    assert answer.ask == ask


def test_a_cell_ends_with_the_mode_that_its_driver_had_set_before_it() -> None:
    state = engine()
    look = submit(state, 1, "x = 1")
    state.handle(ev.Looked(1, look.place))
    ask = Ask(9, "auto", {"mode": "always"})
    assert not of(do.Answer, state.handle(Asked(ask))), "it may have ended, and not say so yet"
    done = state.handle(ev.RequestDone(1, seconds=0.1))
    assert of(do.Answer, done) == [do.Answer(ask, "always")]
    doing(state, Idle)
    ran(state, 2, seconds=0.1)
    doing(state, Forking)
