"""What one asks when one looks at a graph: what is meant, what would be done, what it saves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from chexpoint.errors import InvalidValue, suggestion
from chexpoint.graph.experiment import ExperimentGraph
from chexpoint.graph.planning import plan_reuse
from chexpoint.graph.problem import NEVER, ArtifactCost, CellCost, ReuseProblem
from chexpoint.graph.utility import LoadRates
from chexpoint.model import Artifact, ArtifactId, OperationId, Seconds

_LEAST_DIGITS = 4
# Contents in the ledger itself come with the row.
_INLINE_S = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospect:
    """What would be done to have an artifact in a fresh interpreter."""

    target: ArtifactId
    run: frozenset[OperationId] = frozenset()
    load: frozenset[ArtifactId] = frozenset()
    seconds: Seconds = 0.0
    """What that takes; `NEVER` if there is no way."""
    compute_s: Seconds = 0.0
    """What it takes if nothing is loaded."""
    needed: frozenset[OperationId] = frozenset()
    """All operations that it depends on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What it takes to have everything again."""

    compute_s: Seconds = 0.0
    """If all of it is computed."""
    now_s: Seconds = 0.0
    """With what is stored."""
    best_s: Seconds = 0.0
    """If all were stored that can be."""

    @property
    def saved_s(self) -> Seconds:
        """What is saved by what is stored."""
        return max(0.0, self.compute_s - self.now_s)

    @property
    def possible_s(self) -> Seconds:
        """What could be saved."""
        return max(self.saved_s, self.compute_s - self.best_s)


def find_artifact(graph: ExperimentGraph, word: str) -> Artifact:
    """Return the artifact that a user means.

    Parameters
    ----------
    word
        A variable, of which the newest artifact is meant; or an artifact, by at least four digits
        that only it begins with.

    Raises
    ------
    InvalidValue
        If nothing, or several things, may be meant.
    """
    named = [each for each in graph.artifacts.values() if word in each.group.names]
    if named:
        return max(named, key=lambda each: (_time(graph, each), each.id))
    digits = word.lower()
    found = [each for key, each in graph.artifacts.items() if key.startswith(digits)]
    if len(word) < _LEAST_DIGITS or not found:
        every = (each.group.names for each in graph.artifacts.values())
        names = {name for group in every for name in group if not name.startswith(":")}
        if not names:
            raise InvalidValue(f"no variable or artifact '{word}': the graph is empty")
        raise InvalidValue(f"no variable or artifact '{word}'. {suggestion(word, sorted(names))}")
    if len(found) > 1 and digits not in graph.artifacts:
        raise InvalidValue(f"several artifacts begin with '{word}': give more of it")
    return graph.artifacts[ArtifactId(digits)] if len(found) > 1 else found[0]


def prospect(graph: ExperimentGraph, target: ArtifactId, rates: LoadRates) -> Prospect:
    """Return what would be done to have an artifact, by the exact plan.

    Cells that change more than variables are run if the artifact depends on them.
    """
    needed = _needed(graph, target)
    order = [each for each in graph.in_order() if each in needed]
    cells = _Cells(graph, order)
    stored = cells.problem([target], lambda each: _stored_s(each, rates))
    plan = plan_reuse(stored)
    return Prospect(
        target=target,
        run=frozenset(order[number] for number in plan.run),
        load=frozenset(cells.artifacts[number] for number in plan.load),
        seconds=plan.seconds,
        compute_s=math.fsum(cell.seconds for cell in stored.cells),
        needed=frozenset(needed),
    )


def outlook(graph: ExperimentGraph, rates: LoadRates) -> Outlook:
    """Return what it takes to have everything again that a graph knows."""
    cells = _Cells(graph, graph.in_order())
    read = {read.artifact for each in graph.operations.values() for read in each.reads}
    targets = [
        each.id
        for each in graph.artifacts.values()
        if each.id not in read and not is_state(each) and each.operation in graph.operations
    ]
    now = cells.problem(targets, lambda each: _stored_s(each, rates))
    best = cells.problem(targets, lambda each: _possible_s(graph, each, rates))
    never = cells.problem(targets, lambda _: NEVER)
    return Outlook(
        compute_s=plan_reuse(never).seconds,
        now_s=plan_reuse(now).seconds,
        best_s=plan_reuse(best).seconds,
    )


def is_state(artifact: Artifact) -> bool:
    """Return whether an artifact is no variable but a state of the process."""
    return all(name.startswith(":") for name in artifact.group.names)


class _Cells:
    """Operations in their order, and what they make, by numbers."""

    def __init__(self, graph: ExperimentGraph, order: list[OperationId]) -> None:
        self._graph = graph
        self._order = order
        place = {operation: number for number, operation in enumerate(order)}
        self.artifacts: list[ArtifactId] = [
            each.id for each in graph.artifacts.values() if each.operation in place
        ]
        self._numbers = {artifact: number for number, artifact in enumerate(self.artifacts)}
        self._makers = [place[graph.artifacts[each].operation] for each in self.artifacts]

    def problem(
        self, targets: Iterable[ArtifactId], load_s: Callable[[Artifact], Seconds]
    ) -> ReuseProblem:
        """Return the question of how to get some artifacts.

        What is not known in the graph counts as there, as elsewhere.
        """
        cells = []
        for place, operation in enumerate(self._order):
            known = self._graph.operations[operation]
            numbers = {self._numbers.get(read.artifact) for read in known.reads}
            reads = sorted(n for n in numbers if n is not None and self._makers[n] < place)
            seconds = known.seconds if 0 <= known.seconds < NEVER else 0.0
            cells.append(CellCost(seconds, tuple(reads), bool(known.sticky)))
        costs = (
            ArtifactCost(maker, load_s(self._graph.artifacts[artifact]))
            for maker, artifact in zip(self._makers, self.artifacts, strict=True)
        )
        wanted = frozenset(self._numbers[each] for each in targets if each in self._numbers)
        return ReuseProblem(tuple(cells), tuple(costs), wanted)


def _needed(graph: ExperimentGraph, target: ArtifactId) -> set[OperationId]:
    """Return the operations that an artifact depends on."""
    maker = graph.maker(target)
    if maker is None:
        raise InvalidValue("nothing is known of how this artifact was computed")
    found = {maker.id}
    waiting = [maker.id]
    while waiting:
        for each in graph.before(waiting.pop()):
            if each not in found:
                found.add(each)
                waiting.append(each)
    return found


def _stored_s(artifact: Artifact, rates: LoadRates) -> Seconds:
    if artifact.stored is None:
        return NEVER
    return rates.load_s(artifact) if artifact.stored.image else _INLINE_S


def _possible_s(graph: ExperimentGraph, artifact: Artifact, rates: LoadRates) -> Seconds:
    maker = graph.operations[artifact.operation]
    if artifact.stored is None and (artifact.group.why_not or maker.doubt):
        return NEVER
    return _INLINE_S if artifact.stored and not artifact.stored.image else rates.load_s(artifact)


def _time(graph: ExperimentGraph, artifact: Artifact) -> float:
    maker = graph.operations.get(artifact.operation)
    return max(artifact.used, maker.time if maker is not None else 0.0)
