"""Helix's reuse plan: project selection by maximum flow, with Edmonds and Karp's algorithm.

As in "Helix: Holistic Optimization for Accelerating Iterative Machine Learning" (Xin et al., VLDB
2018): to have an artifact is a project that costs what loading it takes; to compute it instead is
one that gives this back, and needs the cell; the cell is one that costs its seconds, and needs all
that it reads.  A cell with one artifact is one project with its computing, as there.  The plan is
the cheapest; it is here to be compared with.
"""

from __future__ import annotations

from chexpoint.graph.cut import SINK, SOURCE, Network
from chexpoint.graph.pruning import PrunedProblem


def helix_plan(problem: PrunedProblem) -> list[int]:
    """Return the cells that run."""
    network = _projects(problem)
    while True:
        arc_to = _shortest_path(network)
        if arc_to[SINK] < 0:
            break
        network.push(_path(network, arc_to))
    return [cell for cell in range(len(problem.cells)) if arc_to[2 + cell] >= 0]


def _projects(problem: PrunedProblem) -> Network:
    """Return the network whose minimum cut leaves the best projects with the source."""
    load = problem.load
    # More than all that can be given back.
    endless = problem.never * (len(load) + 2)
    # Projects are numbered: to run each cell, to have each artifact, to have it without loading.
    having = 2 + len(problem.cells)
    instead = having + len(load)
    network = Network(instead + len(load))
    for each, cost in enumerate(load):
        _add_profit(network, having + each, -cost)
        if problem.is_target[each]:
            network.add(SOURCE, having + each, endless)
    for cell, made in enumerate(problem.made):
        running = 2 + cell
        if problem.must_run[cell]:
            network.add(SOURCE, running, endless)
        for each in problem.reads[cell]:
            network.add(running, having + each, endless)
        if len(made) == 1:
            _add_profit(network, running, load[made[0]] - problem.seconds[cell])
            network.add(running, having + made[0], endless)
            continue
        _add_profit(network, running, -problem.seconds[cell])
        for each in made:
            _add_profit(network, instead + each, load[each])
            network.add(instead + each, having + each, endless)
            network.add(instead + each, running, endless)
    return network


def _add_profit(network: Network, project: int, value: int) -> None:
    if value > 0:
        network.add(SOURCE, project, value)
    elif value < 0:
        network.add(project, SINK, -value)


def _shortest_path(network: Network) -> list[int]:
    """Return by which arc each node was reached first: -1 if by none, up to the sink."""
    to, rest, arcs = network.to, network.rest, network.arcs
    arc_to = [-1] * len(arcs)
    arc_to[SOURCE] = len(to)
    queue = [SOURCE]
    for node in queue:
        for arc in arcs[node]:
            head = to[arc]
            if arc_to[head] < 0 and rest[arc]:
                arc_to[head] = arc
                if head == SINK:
                    return arc_to
                queue.append(head)
    return arc_to


def _path(network: Network, arc_to: list[int]) -> list[int]:
    """Return the arcs by which the sink was reached, from there on."""
    path = []
    node = SINK
    while node != SOURCE:
        path.append(arc_to[node])
        node = network.to[arc_to[node] ^ 1]
    return path
