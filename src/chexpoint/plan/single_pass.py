"""The plan that computes every node once, if there is memory for it."""

from __future__ import annotations

from chexpoint.model import Bytes
from chexpoint.plan.emission import Emitter, tidied
from chexpoint.plan.moves import with_cheap_takes
from chexpoint.plan.problem import FRESH, Move, Problem


def plan_single_pass(problem: Problem) -> list[Move] | None:
    """Return a plan that goes through the tree once; None if that needs more than the budget.

    Every node with several children is held till its last child takes it, which is the one that
    needs most memory for itself.
    """
    needs = _needs(problem)
    if needs[FRESH] > problem.budget:
        return None
    emitter = Emitter(problem)
    # A stack of what is still to be done: nodes to compute, and, negative, nodes to take.
    todo = [FRESH]
    while todo:
        node = todo.pop()
        if node < 0:
            emitter.take(-node)
            continue
        children = sorted(problem.children[node], key=needs.__getitem__)
        if node != FRESH:
            if emitter.worker != problem.parent[node]:
                emitter.reach(problem.parent[node])
            emitter.do(Move("compute", node))
            if len(children) > 1:
                emitter.checkpoint(node)
                children.insert(-1, -node)
        todo += reversed(children)
    return with_cheap_takes(problem, tidied(problem, emitter.moves))


def _needs(problem: Problem) -> list[Bytes]:
    """Return the memory with which each subtree can be gone through once."""
    needs = [0] * len(problem)
    most = [0] * len(problem)
    second = [0] * len(problem)
    for node in range(len(problem) - 1, -1, -1):
        needs[node] = most[node]
        if len(problem.children[node]) > 1 and node != FRESH:
            needs[node] = max(most[node], problem.size[node] + second[node])
        parent = problem.parent[node]
        if node != FRESH:
            if needs[node] > most[parent]:
                most[parent], second[parent] = needs[node], most[parent]
            else:
                second[parent] = max(second[parent], needs[node])
    return needs
