"""States that one host has computed are loaded by another, or computed again with a reason."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from chexpoint.compare import Tolerance
from chexpoint.model import NodeId, Recording, ReplayedCell, Seconds
from chexpoint.plan import plan
from chexpoint.project import Project, ProjectFiles, recording_of
from chexpoint.replay import STEP_COSTS, host_lane
from chexpoint.replay.cluster_states import ShippedState
from chexpoint.replay.host_lane import HostLane
from chexpoint.replay.shared_course import SharedCourse
from tests.support.processes import wait_until
from tests.support.studies import record

pytestmark = pytest.mark.slow

BEGIN = "import numpy as np\nx = np.arange(1000)\ndef f(y): return int(x.sum()) + y"
VERSIONS = {
    **{f"v{leaf}": [BEGIN, "z = f(1)", f"print(f(z) + {leaf})"] for leaf in range(3)},
    **{f"w{leaf}": ["open('w.txt', 'w').write('w')", f"print({leaf})"] for leaf in range(2)},
    **{f"g{leaf}": ["g = (n for n in range(9))", f"print(next(g), {leaf})"] for leaf in range(2)},
}


@dataclass
class Told:
    """What lanes tell."""

    cells: dict[NodeId, ReplayedCell] = field(default_factory=dict)
    states: list[ShippedState] = field(default_factory=list)
    was_loaded: list[NodeId] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def begins(self, lane: object, node: NodeId) -> None: ...
    def gave_up(self, lane: object, node: NodeId, reason: str) -> None: ...
    def held(self, lane: object, size_bytes: int) -> None: ...
    def spent(self, seconds: Seconds) -> None: ...
    def useless(self, node: NodeId) -> None: ...

    def computed(self, lane: object, cell: ReplayedCell) -> None:
        self.cells[cell.node] = cell

    def stored(self, state: ShippedState, seconds: Seconds) -> None:
        self.states.append(state)

    def loaded(self, node: NodeId, moving_s: Seconds, seconds: Seconds) -> None:
        self.was_loaded.append(node)

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return record(tmp_path_factory.mktemp("study"), VERSIONS)


def course(recording: Recording, names: list[str]) -> SharedCourse:
    leaves = [recording.labels[name].path[-1] for name in names]
    first = plan(recording.tree, math.inf, costs=STEP_COSTS, versions=leaves)
    return SharedCourse(recording.tree, first, budget=math.inf, costs=STEP_COSTS, planner="pc-move")


def lane(project: Project, told: Told, base: Path, store: Path) -> HostLane:
    base.mkdir()
    return HostLane(
        0,
        recording_of(project),
        ProjectFiles(project),
        base=base,
        budget_bytes=2**33,
        timeout_s=None,
        tolerance=Tolerance(),
        seconds_left=lambda: None,
        watcher=told,
        shared=str(store),
        images=base / "images",
        bandwidth=math.inf,
        states=told,
    )


@pytest.fixture(scope="module")
def sent(project: Project, tmp_path_factory: pytest.TempPathFactory) -> tuple[Told, Path]:
    """One host computes everything, and sends what it can."""
    folder = tmp_path_factory.mktemp("hosts")
    told = Told()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host_lane, "is_worth_sending", lambda *_: True)
        first = lane(project, told, folder / "first", folder / "store")
        try:
            first.start()
            first.follow(course(recording_of(project), [*VERSIONS]))
            assert wait_until(lambda: not first.send_images())
        finally:
            first.close()
    return told, folder


def test_what_another_host_has_computed_is_loaded_and_gives_the_same(
    project: Project, sent: tuple[Told, Path]
) -> None:
    first, folder = sent
    assert {cell.status for cell in first.cells.values()} == {"same"}
    recording = recording_of(project)
    shared = recording.labels["v0"].path[1]
    (state,) = [each for each in first.states if each.node == shared]
    told = Told()
    second = lane(project, told, folder / "second", folder / "store")
    try:
        second.start()
        way = course(recording, ["v1", "v2"])
        second.begin_with(way, state)
        second.follow(way)
        assert told.was_loaded == [shared]
        leaves = {recording.labels[name].path[-1] for name in ("v1", "v2")}
        assert set(told.cells) == leaves  # what leads there was not computed here
        for node in leaves:
            assert told.cells[node].status == "same"
            assert told.cells[node].outputs == first.cells[node].outputs

        # The same bytes are no more what their digest says: all of it is computed.
        for path in (folder / "store").rglob(state.digest):
            path.write_bytes(path.read_bytes()[:-1] + b"x")
        way.take_in([recording.labels["v0"].path[-1]])
        second._forget(shared)
        way.lost([shared])
        second.begin_with(way, state)
        second.follow(way)
        (why,) = [note for note in told.notes if "computed instead of loaded" in note]
        assert "damaged" in why
        assert {cell.status for cell in told.cells.values()} == {"same"}
        assert shared in told.cells
    finally:
        second.close()


def test_states_that_an_image_cannot_hold_are_not_sent_and_it_is_said_why(
    project: Project, sent: tuple[Told, Path]
) -> None:
    told, _ = sent
    recording = recording_of(project)
    unsendable = {recording.labels[name].path[0] for name in ("w0", "g0")}
    assert not unsendable & {state.node for state in told.states}
    assert any("cells before it have written files" in note for note in told.notes)
    assert any("'g'" in note for note in told.notes)
