"""The cheapest reuse plan, as a minimum cut.

On the source's side is what is needed and what runs.  An arc from each artifact to its cell, as
wide as loading takes, is cut if it is loaded; one from each cell to the sink, as wide as its
seconds, if it runs.  Arcs from cells to what they read cannot be cut.  `presolve` leaves little of
this, often nothing; the rest falls into parts that have nothing to do with each other.  Each is cut
by Dinitz's algorithm.  Costs are whole numbers, so the plan is the cheapest to the last bit.

Of several minimum cuts it takes the one closest to the source.  So if running and loading take the
same, it loads, and the cells that run do so in every cheapest plan.
"""

from __future__ import annotations

from chexpoint.graph.presolve import Fate, Presolved
from chexpoint.graph.pruning import PrunedProblem

SOURCE, SINK = 0, 1


class Network:
    """Arcs by number, with what they can still take; the last bit is flipped in the one back."""

    def __init__(self, nodes: int) -> None:
        self.arcs: list[list[int]] = [[] for _ in range(nodes)]
        self.to: list[int] = []
        self.rest: list[int] = []

    def add(self, tail: int, head: int, capacity: int) -> None:
        self.arcs[tail].append(len(self.to))
        self.arcs[head].append(len(self.to) + 1)
        self.to += (head, tail)
        self.rest += (capacity, 0)

    def push(self, path: list[int]) -> None:
        """Send as much as possible along some arcs."""
        rest = self.rest
        amount = min([rest[arc] for arc in path])
        for arc in path:
            rest[arc] -= amount
            rest[arc ^ 1] += amount


def cut_plan(problem: PrunedProblem) -> list[int]:
    """Return the cells that run."""
    known = Presolved(problem)
    chosen: set[int] = set()
    for part in _parts(known):
        chosen.update(_cut(known, part))
    return _all_that_runs(known, chosen)


def _all_that_runs(known: Presolved, chosen: set[int]) -> list[int]:
    problem = known.problem
    is_needed = list(problem.is_target)
    chosen.update(cell for cell, fate in enumerate(known.fate) if fate is Fate.RUNS)
    follow = {cell for cell, fate in enumerate(known.fate) if fate is Fate.FOLLOWS}
    found = []
    for cell in reversed(range(len(problem.cells))):
        if cell in chosen or (
            cell in follow and any(is_needed[each] for each in known.given[cell])
        ):
            found.append(cell)
            for each in problem.reads[cell]:
                is_needed[each] = True
    return found


def _parts(known: Presolved) -> list[list[int]]:
    """Return the open cells, by what hangs together."""
    maker, users = known.problem.maker, known.users
    left = set(known.open)
    parts = []
    for first in known.open:
        if first not in left:
            continue
        left.remove(first)
        part = [first]
        for cell in part:
            near = {user for each in known.given[cell] for user in users[each]}
            for each in known.wants(cell):
                if known.is_passed(each):
                    near.update(users[each])
                else:
                    near.add(maker[each])
            near &= left
            left -= near
            part += near
        parts.append(part)
    return parts


def _cut(known: Presolved, part: list[int]) -> list[int]:
    """Return the cells of a part that run."""
    network = _network(known, part)
    is_needed = _saturate(network)
    return [cell for node, cell in enumerate(part, start=2) if is_needed[node]]


def _network(known: Presolved, part: list[int]) -> Network:
    """Return what is to be cut; cells have the numbers from 2 on."""
    load, never = known.problem.load, known.problem.never
    node = {cell: number for number, cell in enumerate(part, start=2)}
    width: dict[tuple[int, int], int] = {}
    # Stored artifacts that several cells want, and what makes them; the sink if nothing does.
    shared: dict[int, int] = {}
    for cell in part:
        spare = known.saved[cell] - known.seconds[cell]
        width[(SOURCE, node[cell]) if spare > 0 else (node[cell], SINK)] = abs(spare)
        for each in known.given[cell]:
            users = known.users[each]
            if len(users) > 1 and load[each] < never:
                shared[each] = node[cell]
                continue
            for user in users:
                arc = node[user], node[cell]
                width[arc] = min(never, width.get(arc, 0) + load[each])
        passed = (each for each in known.wants(cell) if known.is_passed(each))
        shared.update(dict.fromkeys(passed, SINK))
    for number, (each, head) in enumerate(shared.items(), start=2 + len(part)):
        width[number, head] = load[each]
        for user in known.users[each]:
            width[node[user], number] = never
    network = Network(2 + len(part) + len(shared))
    for (tail, head), capacity in width.items():
        network.add(tail, head, capacity)
    return network


def _saturate(network: Network) -> list[bool]:
    """Send as much as possible from source to sink; return what the source still reaches."""
    while True:
        distance = _distances(network)
        if distance[SOURCE] < 0:
            return _reached(network)
        _block(network, distance)


def _distances(network: Network) -> list[int]:
    """Return how many arcs each node is from the sink; -1 if none lead there."""
    to, rest, arcs = network.to, network.rest, network.arcs
    distance = [-1] * len(arcs)
    distance[SINK] = 0
    queue = [SINK]
    for node in queue:
        for arc in arcs[node]:
            tail = to[arc]
            if distance[tail] < 0 and rest[arc ^ 1]:
                distance[tail] = distance[node] + 1
                queue.append(tail)
    return distance


def _block(network: Network, distance: list[int]) -> None:
    """Send flow along shortest paths until there are none."""
    to, rest = network.to, network.rest
    # How many arcs of each node need not be looked at any more.
    done = [0] * len(distance)
    path: list[int] = []
    node = SOURCE
    while True:
        if node == SINK:
            network.push(path)
            full = next(index for index, arc in enumerate(path) if not rest[arc])
            node = to[path[full] ^ 1]
            del path[full:]
        arcs = network.arcs[node]
        nearer = distance[node] - 1
        index = done[node]
        while index < len(arcs) and not (rest[arcs[index]] and distance[to[arcs[index]]] == nearer):
            index += 1
        done[node] = index
        if index < len(arcs):
            path.append(arcs[index])
            node = to[arcs[index]]
        elif node == SOURCE:
            return
        else:
            distance[node] = -1
            node = to[path.pop() ^ 1]


def _reached(network: Network) -> list[bool]:
    to, rest, arcs = network.to, network.rest, network.arcs
    is_reached = [False] * len(arcs)
    is_reached[SOURCE] = True
    queue = [SOURCE]
    for node in queue:
        for arc in arcs[node]:
            if rest[arc] and not is_reached[to[arc]]:
                is_reached[to[arc]] = True
                queue.append(to[arc])
    return is_reached
