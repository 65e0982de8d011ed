"""A cluster that is simulated does what one would do, and its judge sees what it would not."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from chexpoint.errors import InvalidPlan, InvalidValue
from chexpoint.model import Cluster, ExecutionTree, HostRun, NodeId, Simulation, TreeNode
from chexpoint.plan import check_schedule, check_simulation, choose_shipping, plan, simulate


def tree(*nodes: tuple[str, str | None, float, int]) -> ExecutionTree:
    return ExecutionTree(
        TreeNode(
            id=NodeId(name), parent=None if parent is None else NodeId(parent), cost=cost, size=size
        )
        for name, parent, cost, size in nodes
    )


TWICE = tree(("root", None, 100, 10), *((f"leaf{n}", "root", 10, 5) for n in range(4)))
"""A long way to four versions, for which there may be no memory."""

BARE = Cluster(hosts=1, start=0.0, task=0.0, cell=0.0, store=0.0, load=0.0)


def actions(run: HostRun) -> list[tuple[str, str | None]]:
    return [(step.action, step.node) for step in run.steps]


def test_without_memory_an_image_is_stored_once_and_loaded_for_the_others() -> None:
    cluster = replace(BARE, memory=0, bandwidth=5.0)
    found = simulate(TWICE, cluster)
    check_simulation(TWICE, found)
    assert found.makespan == 100 + 10 + 3 * (10 / 5 + 10)
    assert [(image.node, image.start, image.ready) for image in found.images] == [
        ("root", 100.0, 102.0)
    ]
    assert found.bytes_moved == 10 + 3 * 10
    assert found.single == 440.0


def test_an_image_that_takes_longer_than_its_cells_is_not_shipped() -> None:
    slow = replace(BARE, memory=0, bandwidth=0.1)
    found = simulate(TWICE, slow)
    assert found.makespan == 440.0
    assert (found.images, found.bytes_moved) == ((), 0)


def test_each_host_has_memory_of_its_own_or_a_share() -> None:
    own = simulate(TWICE, replace(BARE, hosts=2, memory=10))
    assert [run.peak_bytes for run in own.hosts] == [10, 10]
    shared = simulate(TWICE, replace(BARE, hosts=2, memory=10, is_shared=True))
    assert sum(run.peak_bytes for run in shared.hosts) <= 10
    assert own.makespan == 120.0 <= shared.makespan


def test_schedules_of_hosts_pass_the_judge() -> None:
    found = plan(TWICE, 10, workers=2, is_shared=False)
    check_schedule(TWICE, found)
    assert [lane.budget for lane in found.lanes] == [10, 10]
    assert (found.makespan, found.budget) == (120.0, 20)


def test_what_a_lost_host_had_is_done_by_the_others() -> None:
    found = simulate(TWICE, replace(BARE, hosts=2, losses=1))
    check_simulation(TWICE, found)
    lost = [run for run in found.hosts if run.lost is not None]
    assert [run.lost for run in lost] == [60.0]
    assert lost[0].computed == []
    assert {node for run in found.hosts for node in run.computed} == set(TWICE.nodes)
    (left,) = (run for run in found.hosts if run.lost is None)
    assert left.end == 120.0 + 120.0


def test_a_host_that_has_nothing_to_do_waits_for_a_loss() -> None:
    found = simulate(TWICE, replace(BARE, hosts=6, losses=1, start=1.0))
    check_simulation(TWICE, found)
    late = [run.steps[0] for run in found.hosts if run.steps and run.steps[0].start]
    assert [step.action for step in late] == ["start"]
    assert sum(not run.steps for run in found.hosts) == 1


def test_the_bound_sees_that_hosts_have_to_wait_for_what_they_share() -> None:
    found = simulate(TWICE, replace(BARE, hosts=4))
    assert found.lower_bound == 110.0 == found.makespan
    assert simulate(TWICE, replace(BARE, hosts=3)).lower_bound == pytest.approx(100 + 40 / 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hosts": 0}, "the number of hosts is not a whole number >= 1"),
        ({"hosts": True}, "the number of hosts"),
        ({"losses": 1}, "1 of 1 hosts cannot be lost"),
        ({"memory": -1}, "the memory of a cluster"),
        ({"bandwidth": math.nan}, "the bandwidth of a cluster"),
        ({"start": math.inf}, "the start of a cluster"),
    ],
)
def test_there_are_no_such_clusters(changes: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        replace(BARE, **changes)  # type: ignore[arg-type]


def test_shipping_needs_numbers() -> None:
    with pytest.raises(InvalidValue, match="numbers >= 0"):
        choose_shipping(1.0, -1, 1.0)
    assert choose_shipping(10.0, 0, math.inf, load_seconds=1.0) == (True, 1.0)
    assert choose_shipping(1.0, 0, math.inf, load_seconds=1.0) == (False, 1.0)


# ---------------------------------------------------------------- the judge

GOOD = simulate(TWICE, replace(BARE, memory=0, bandwidth=5.0))


def with_steps(simulation: Simulation, at: int, **changes: object) -> Simulation:
    """Return a simulation in which a step of the first host is another one."""
    run = simulation.hosts[0]
    steps = list(run.steps)
    steps[at] = steps[at]._replace(**changes)  # type: ignore[arg-type]
    return replace(simulation, hosts=(replace(run, steps=tuple(steps)), *simulation.hosts[1:]))


def first(action: str) -> int:
    return next(n for n, step in enumerate(GOOD.hosts[0].steps) if step.action == action)


def without(at: int) -> Simulation:
    run = GOOD.hosts[0]
    steps = (*run.steps[:at], *run.steps[at + 1 :])
    return replace(GOOD, hosts=(replace(run, steps=steps),))


WRONG = {
    "no start": (without(0), "the engine has not been started"),
    "no way": (without(1), "the host is not at|cannot keep"),
    "too fast": (with_steps(GOOD, 1, end=99.0), "it takes 99 s and not 100 s"),
    "too early": (with_steps(GOOD, first("load"), start=50.0, end=52.0), "still at the step"),
    "too much": (with_steps(GOOD, 1, held_bytes=7), "checkpoints take 0 bytes"),
    "no image": (replace(GOOD, images=()), "its image is not in the store"),
    "image too early": (
        replace(GOOD, images=(GOOD.images[0]._replace(ready=101.0),)),
        "in the store too early",
    ),
    "nobody wrote it": (
        replace(GOOD, images=(GOOD.images[0]._replace(start=90.0, ready=92.0),)),
        "nobody has written",
    ),
    "a version is missing": (
        without(len(GOOD.hosts[0].steps) - 1),
        "version 'leaf. is not computed|is not computed on any host",
    ),
    "impossible": (replace(GOOD, lower_bound=1000.0), "takes 1000 s at least"),
    "lost before": (
        replace(GOOD, hosts=(replace(GOOD.hosts[0], lost=5.0),)),
        "the host is lost by then",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_is_refused(name: str) -> None:
    wrong, message = WRONG[name]
    with pytest.raises(InvalidPlan, match=message):
        check_simulation(TWICE, wrong)


def test_memory_that_is_shared_is_added_up() -> None:
    found = simulate(TWICE, replace(BARE, hosts=2, memory=20, is_shared=True))
    check_simulation(TWICE, found)
    less = replace(found, cluster=replace(found.cluster, memory=15))
    with pytest.raises(InvalidPlan, match="20 bytes together"):
        check_simulation(TWICE, less)
