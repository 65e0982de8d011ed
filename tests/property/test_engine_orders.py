"""The engine's protocol, in every order of events and with every death."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chexpoint.engine import events as ev
from chexpoint.engine.asks import Ask, CellText, Request
from chexpoint.model import to_json
from tests.support.engine_world import MAGICS, World, sources


class Script:
    """Requests and asks given to an engine, each once."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.requests = 0
        self.asks = 0

    def give(self, step: str) -> None:  # noqa: C901 - a flat table
        world = self.world
        if world.stopped:
            return
        word, _, ref = step.partition(" ")
        match word:
            case "run":
                self.requests += 1
                request = Request(self.requests, "execute", (), cell=cell_of(ref))
                world.handle(ev.Submitted(request))
            case "complete":
                self.requests += 1
                world.handle(ev.Submitted(Request(self.requests, "state", ())))
            case "record":
                self.ask("record", do="begin", name="v", here=ref == "here")
            case "go":
                self.go(ref)
            case "refuse":
                world.refuse_next = True
            case "persist":
                self.ask("persist", mode=ref)
            case "abort":
                world.handle(ev.QueueAborted())
            case "interrupt":
                world.handle(ev.Interrupted(0.0))
            case "checkpoint":
                self.ask("checkpoint", name=ref or None)
            case "restore" | "take" | "evict":
                self.ask(word, ref=ref)
            case "stop":
                world.handle(ev.ShutdownAsked())

    def go(self, ref: str) -> None:
        """Go to a recorded state: the newest of its length, or the root."""
        paths = [c.node for cells in self.world.recorded.values() for c in cells.values()]
        fitting = [p.split("/") for p in paths if p.count("/") + 1 == int(ref)]
        cells = fitting[-1] if fitting else []
        at, path = "root ", []
        for source in cells:
            if source not in self.world.recorded.get(at, {}):
                break
            path.append(self.world.recorded[at][source])
            at = f"{path[-1].node} {path[-1].taint}"
        self.ask("go", path=to_json(path), files=False, title="there")

    def ask(self, op: str, **args: object) -> None:
        self.asks += 1
        self.world.handle(ev.Asked(Ask(self.asks, op, args)))  # type: ignore[arg-type]

    def check_all_answered(self) -> None:
        world = self.world
        assert set(world.ended) == set(range(1, self.requests + 1)), "a request was lost"
        assert set(world.answered) == set(range(1, self.asks + 1)), "an ask was lost"


def cell_of(source: str) -> CellText | None:
    is_magic = source in MAGICS
    needs_state = source == "%checkpoint" or not is_magic
    cell = CellText(source, needs_state=needs_state, is_reusable=not is_magic)
    return cell if source else None


STEPS = st.sampled_from(
    [
        "run",
        "run a",
        "run a",
        "run b",
        "run lucky",
        "run slow",
        "run open",
        *(f"run {magic}" for magic in MAGICS),
        "complete",
        "record",
        "record here",
        "go 1",
        "go 2",
        "checkpoint a",
        "checkpoint b",
        "checkpoint",
        "restore a",
        "restore root",
        "restore nowhere",
        "take a",
        "take b",
        "evict a",
        "refuse",
        "persist always",
        "persist rule",
        "persist never",
        "abort",
        "interrupt",
    ]
)


@settings(max_examples=400, deadline=None)
@given(steps=st.lists(STEPS, max_size=12), data=st.data())
def test_any_order_with_any_deaths_leaves_a_working_engine(
    steps: list[str], data: st.DataObject
) -> None:
    world = World()
    script = Script(world)
    waiting = list(steps)
    deaths = 0
    for _ in range(200):
        moves = [*world.moves()]
        if deaths < 4:
            moves += world.deaths()
        if waiting:
            moves.append(("give", waiting[0]))
        if not moves:
            break
        move = data.draw(st.sampled_from(moves))
        if move[0] == "give":
            script.give(waiting.pop(0))
        else:
            deaths += move in world.deaths()
            world.play(move)
        world.check()
    for step in waiting:
        script.give(step)
    world.settle()
    script.check_all_answered()


@settings(max_examples=300, deadline=None)
@given(steps=st.lists(STEPS, max_size=14), data=st.data())
def test_the_worker_is_where_the_user_is_when_a_cell_runs(
    steps: list[str], data: st.DataObject
) -> None:
    """The world checks each dispatch; here, where the user ends is where plain running ends."""
    world = World()
    script = Script(world)
    for step in steps:
        script.give(step)
        for _ in range(data.draw(st.integers(0, 4))):
            if moves := world.moves():
                world.play(data.draw(st.sampled_from(moves)))
    world.settle()
    here = sources(world.state.time.place)
    script.give("run last")
    world.settle()
    assert world.worker is not None
    assert world.worker.cells == (*here, "last")


@settings(max_examples=300, deadline=None)
@given(steps=st.lists(STEPS, max_size=10), back=st.integers(0, 4), data=st.data())
def test_after_a_restart_images_lead_to_the_same_state(
    steps: list[str], back: int, data: st.DataObject
) -> None:
    before = World()
    script = Script(before)
    for step in ["persist always", *steps]:
        script.give(step)
        for _ in range(data.draw(st.integers(0, 4))):
            if moves := before.moves():
                before.play(data.draw(st.sampled_from(moves)))
    before.settle()
    images = [
        replace(picture.known(), node=picture.step.node, taint=picture.step.taint)
        for picture in before.state.images
        if picture.step.node is not None
    ]
    after = World(images)
    after.images, after.recorded = before.images, before.recorded
    script = Script(after)
    script.go(str(back))
    after.settle()
    here = sources(after.state.time.place)
    script.give("run last")
    after.settle()
    assert after.worker is not None
    assert after.worker.cells == (*here, "last")


def test_a_slow_cell_is_not_run_again_after_a_restart() -> None:
    before = World()
    script = Script(before)
    for step in ("persist rule", "run open", "run slow", "run a"):
        script.give(step)
        before.settle()
    images = [picture.known() for picture in before.state.images]
    assert [(image.needs, image.keep) for image in images] == [(1, ("file",))]
    after = World(images)
    after.images, after.recorded = before.images, before.recorded
    Script(after).go("3")
    after.settle()
    assert (after.computed, after.loads) == (["open", "a"], 1)
    assert after.worker is not None
    assert after.worker.cells == ("open", "slow", "a")


def test_a_spoilt_image_is_not_missed() -> None:
    before = World()
    script = Script(before)
    for step in ("persist rule", "run slow"):
        script.give(step)
        before.settle()
    after = World([picture.known() for picture in before.state.images])
    after.recorded = before.recorded
    Script(after).go("1")
    after.settle()
    assert (after.computed, after.loads) == (["slow"], 0)
    assert len(after.state.images) == 0


def test_a_run_of_the_whole_notebook_computes_only_what_is_new() -> None:
    world = World()
    script = Script(world)
    for version in (["a", "b", "c"], ["a", "b", "changed"], ["a", "b", "changed"]):
        script.give("record")
        for cell in version:
            script.give(f"run {cell}")
        world.settle()
    assert world.computed == ["a", "b", "c", "a", "b", "changed"]
    assert world.recalled == ["a", "b", "a", "b", "changed"]
    script.give("complete")
    world.settle()
    assert world.worker is not None
    assert world.worker.cells == ("a", "b", "changed")


SCRIPTS = [
    ["record", "run a", "run b", "record", "run a", "run c"],
    ["record", "run a", "checkpoint x", "run b", "record", "run a", "run b", "complete"],
    ["record", "run a", "run b", "go 1", "run c"],
    ["run %record", "run a", "run b", "run %record", "run a", "run %checkpoint", "run c"],
    ["run %record", "run a", "run %root", "run b"],
    ["run", "checkpoint a", "run", "restore a", "run"],
    ["checkpoint a", "run", "take a", "run"],
    ["checkpoint a", "checkpoint b", "restore a", "restore b"],
    ["run", "refuse", "checkpoint a", "run"],
    ["checkpoint a", "run", "stop"],
]


@pytest.mark.parametrize("steps", SCRIPTS, ids=" ".join)
def test_every_single_death_at_every_moment(steps: list[str]) -> None:
    """Follow one order, and at each moment let each possible death happen, then settle."""
    moments = _moments(steps)
    tried = 0
    for world, script, rest in moments:
        for death in world.deaths():
            other_world, other_script = copy.deepcopy((world, script))
            other_world.play(death)
            for step in rest:
                other_script.give(step)
            other_world.settle()
            other_script.check_all_answered()
            tried += 1
    assert tried > len(steps)


def _moments(steps: list[str]) -> list[tuple[World, Script, list[str]]]:
    world = World()
    script = Script(world)
    waiting = list(steps)
    found = []
    while True:
        found.append((*copy.deepcopy((world, script)), list(waiting)))
        moves = world.moves()
        if moves:
            world.play(moves[0])
        elif waiting:
            script.give(waiting.pop(0))
        else:
            return found


def test_a_worker_that_dies_idle_is_revived_at_its_checkpoint() -> None:
    world = World()
    script = Script(world)
    world.settle()
    script.give("checkpoint a")
    world.settle()
    head = world.state.head
    world.play(("kill worker", ""))
    world.settle()
    assert world.state.head == head
    assert head is not None
    assert world.state.held[head].uses == 1


def test_without_any_checkpoint_a_fresh_worker_starts() -> None:
    world = World()
    world.settle()
    for checkpoint in list(world.frozen):
        world.play(("kill checkpoint", checkpoint))
    world.settle()
    world.play(("kill worker", ""))
    world.settle()
    assert world.state.worker_alive
    assert [c.name for c in world.state.held] == ["root"]


def test_a_worker_that_cannot_start_stops_the_engine() -> None:
    world = World()
    for _ in range(2):
        assert world.worker is not None
        world.worker.sent.clear()
        world.play(("kill worker", ""))
        world.play(("hear worker", ""))
    assert world.stopped


def test_requests_behind_a_failed_one_are_aborted() -> None:
    world = World()
    script = Script(world)
    world.settle()
    for step in ("run", "run", "run", "abort"):
        script.give(step)
    world.settle()
    assert world.ended == {1: 1, 2: 1, 3: 1}
    script.give("run")
    world.settle()
    assert world.ended[4] == 1
