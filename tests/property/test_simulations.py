"""What is promised of simulations holds for any tree and any cluster."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chexpoint.model import Cluster, ExecutionTree, NodeId, StepCosts, TreeNode
from chexpoint.plan import check_simulation, choose_shipping, plan, simulate
from chexpoint.plan.hosts_bound import lower_bound
from chexpoint.plan.problem import Problem

pytestmark = pytest.mark.slow

seconds = st.integers(0, 9).map(float)
some_bytes = st.integers(0, 9)


@st.composite
def trees(draw: st.DrawFn, most: int = 14) -> ExecutionTree:
    nodes: list[TreeNode] = []
    for number in range(draw(st.integers(1, most))):
        parents: list[NodeId | None] = [node.id for node in nodes]
        nodes.append(
            TreeNode(
                id=NodeId(f"n{number}"),
                parent=draw(st.sampled_from(parents[-4:] or [None])),
                cost=draw(seconds),
                size=draw(some_bytes),
                delta=draw(st.none() | some_bytes),
            )
        )
    return ExecutionTree(nodes)


costs_of_steps = st.builds(
    StepCosts, checkpoint=seconds, restore=seconds, take=seconds, fresh=seconds
)


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    hosts = draw(st.integers(1, 5))
    return Cluster(
        hosts=hosts,
        memory=draw(st.integers(0, 20) | st.just(math.inf)),
        is_shared=draw(st.booleans()),
        bandwidth=draw(st.sampled_from([0.0, 0.5, 2.0, 100.0])),
        start=draw(seconds),
        task=draw(st.sampled_from([0.0, 0.25])),
        cell=draw(st.sampled_from([0.0, 0.5])),
        store=draw(st.sampled_from([0.0, 1.0])),
        load=draw(st.sampled_from([0.0, 0.125])),
        losses=draw(st.integers(0, hosts - 1)),
    )


@settings(max_examples=120, deadline=None)
@given(trees(), clusters(), costs_of_steps)
def test_every_simulation_passes_its_judge(
    tree: ExecutionTree, cluster: Cluster, costs: StepCosts
) -> None:
    found = simulate(tree, cluster, costs=costs)
    check_simulation(tree, found, costs=costs)
    each_once = math.fsum(node.cost + cluster.cell for node in tree.nodes.values())
    longest = max(
        math.fsum(node.cost + cluster.cell for node in tree.path(leaf)) for leaf in tree.nodes
    )
    begin = cluster.start + cluster.task
    assert begin + max(longest, each_once / cluster.hosts) <= found.lower_bound * (1 + 1e-9)
    assert found.lower_bound <= found.makespan * (1 + 1e-9)
    assert found.peak_bytes <= cluster.memory
    assert len(found.hosts) == cluster.hosts
    assert 0 <= found.utilisation <= 1 + 1e-9
    assert not found.bytes_moved or cluster.bandwidth


@settings(max_examples=50, deadline=None)
@given(trees(), clusters(), costs_of_steps)
def test_one_host_takes_what_the_plan_costs_and_its_start(
    tree: ExecutionTree, cluster: Cluster, costs: StepCosts
) -> None:
    alone = replace(cluster, hosts=1, losses=0, bandwidth=0.0, cell=0.0)
    found = simulate(tree, alone, costs=costs)
    expected = alone.start + alone.task + plan(tree, alone.memory, costs=costs).cost
    assert found.makespan == pytest.approx(expected, rel=1e-12)
    assert found.single == pytest.approx(expected, rel=1e-12)


@settings(max_examples=50, deadline=None)
@given(trees(), clusters(), costs_of_steps)
def test_more_to_work_with_is_never_slower(
    tree: ExecutionTree, cluster: Cluster, costs: StepCosts
) -> None:
    cluster = replace(cluster, losses=0)
    without = simulate(tree, replace(cluster, bandwidth=0.0), costs=costs)
    shipped = simulate(tree, cluster, costs=costs)
    later = simulate(tree, replace(cluster, bandwidth=0.0, start=cluster.start + 1), costs=costs)
    assert shipped.makespan <= without.makespan * (1 + 1e-12)
    assert without.makespan <= without.single * (1 + 1e-9)
    assert later.makespan == pytest.approx(without.makespan + 1, rel=1e-12)


@settings(max_examples=50, deadline=None)
@given(trees(), st.integers(1, 6))
def test_the_bound_falls_with_hosts_and_meets_the_longest_version(
    tree: ExecutionTree, hosts: int
) -> None:
    problem = Problem(tree, math.inf)
    bounds = [lower_bound(problem, number) for number in (hosts, hosts + 1, 1000)]
    longest = max(math.fsum(node.cost for node in tree.path(leaf)) for leaf in tree.nodes)
    assert bounds[0] * (1 + 1e-9) >= bounds[1] >= longest * (1 - 1e-9)
    assert bounds[2] == pytest.approx(longest, abs=0.2)
    assert lower_bound(problem, 1) == pytest.approx(math.fsum(problem.cost), rel=1e-9)


numbers = st.floats(0, 1e6)


@given(numbers, numbers, st.floats(1e-3, 1e9), numbers, numbers)
def test_the_faster_way_is_chosen(
    prefix: float, size: float, bandwidth: float, store: float, load: float
) -> None:
    chosen = choose_shipping(prefix, size, bandwidth, store, load)
    assert chosen.seconds == min(prefix, store + size / bandwidth + load)
    assert chosen.is_shipped == (chosen.seconds < prefix)
    assert not choose_shipping(prefix, size, 0.0, store, load).is_shipped
