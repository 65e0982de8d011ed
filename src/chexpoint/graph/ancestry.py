"""What it takes to compute an artifact again, and how good a model it can lead to.

The operations behind an artifact are a *set*: one that two of its ancestors depend on runs once.
Adding up the costs of what an operation reads would count it twice, and in a notebook of
``X, y = step(X, y)`` twice more with each cell.  Sets are bits of a Python int, one for each
operation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from chexpoint.graph.experiment import ExperimentGraph
from chexpoint.model import Artifact, ArtifactId, Seconds

# Up to so many members one by one; more are added up by NumPy.
_FEW = 48


class Ancestry:
    """A graph by numbers: operations in the order of what they need, and artifacts.

    What is not in the graph counts as 0: an artifact that nothing is known of, and an operation
    that is gone.  So does a time that is not a number.
    """

    def __init__(self, graph: ExperimentGraph) -> None:
        self.operations = [graph.operations[each] for each in graph.in_order()]
        place = {operation.id: number for number, operation in enumerate(self.operations)}
        self.artifacts: list[Artifact] = list(graph.artifacts.values())
        self.number: dict[ArtifactId, int] = {
            artifact.id: number for number, artifact in enumerate(self.artifacts)
        }
        self.seconds: list[Seconds] = [sound(each.seconds) for each in self.operations]
        self._weights: Any = None
        """The same for NumPy, once it is needed."""
        self.maker: list[int] = [place.get(each.operation, -1) for each in self.artifacts]
        """The operation of each artifact; -1 if it is gone."""
        self.reads: list[tuple[int, ...]] = [
            self._reads(number) for number in range(len(self.operations))
        ]
        """The artifacts that each operation needs; those only that an operation is known of."""
        self.made: list[list[int]] = [[] for _ in self.operations]
        for artifact, maker in enumerate(self.maker):
            if maker >= 0:
                self.made[maker].append(artifact)
        self.needs: list[int] = []
        """For each operation the set of those that must have run after it has, itself included."""
        self.total: list[Seconds] = []
        """What all of them take."""
        for number, reads in enumerate(self.reads):
            needs, total = self.union(
                number,
                [self.maker[read] for read in reads],
                self.needs.__getitem__,
                self.total.__getitem__,
            )
            self.needs.append(needs)
            self.total.append(total)

    def _reads(self, operation: int) -> tuple[int, ...]:
        numbers = (self.number.get(read.artifact) for read in self.operations[operation].reads)
        known = dict.fromkeys(each for each in numbers if each is not None)
        return tuple(each for each in known if 0 <= self.maker[each] < operation)

    def union(
        self,
        operation: int,
        before: list[int],
        needs: Callable[[int], int],
        total: Callable[[int], Seconds],
    ) -> tuple[int, Seconds]:
        """Return the set of an operation and all that those before it need, and its seconds.

        ``needs`` and ``total`` say the same of those before it.  The greatest set is taken as a
        whole, and what the others add to it is mostly little: that is why this is fast.
        """
        if not before:
            return 1 << operation, self.seconds[operation]
        greatest = max(before, key=total)
        found = needs(greatest)
        more = 0
        for each in before:
            more |= needs(each)
        more &= ~found
        seconds = self.seconds[operation] + total(greatest) + self.weigh(more)
        return found | more | 1 << operation, seconds

    def weigh(self, operations: int) -> Seconds:
        """Return the seconds of a set of operations."""
        if not operations:
            return 0.0
        if operations.bit_count() <= _FEW:
            return math.fsum(self.seconds[each] for each in members(operations))
        import numpy as np

        if self._weights is None:
            self._weights = np.array(self.seconds)
        packed = operations.to_bytes((len(self.seconds) + 7) // 8, "little")
        bits = np.unpackbits(np.frombuffer(packed, np.uint8), bitorder="little")
        return float(bits[: len(self.seconds)] @ self._weights)

    def recreation_s(self, artifact: ArtifactId) -> Seconds:
        """Return what computing an artifact takes if nothing is there."""
        number = self.number.get(artifact)
        return 0.0 if number is None else self.recreation(number)

    def recreation(self, artifact: int) -> Seconds:
        """Return the same for an artifact by its number."""
        maker = self.maker[artifact]
        return self.total[maker] if maker >= 0 else 0.0

    def marginal_s(self, artifact: ArtifactId, loads: Mapping[ArtifactId, Seconds]) -> Seconds:
        """Return what computing an artifact takes if some others can be loaded.

        ``loads`` says how long loading each of these takes.  The way back from the artifact ends
        at each that can be loaded, and it is loaded unless its operation runs anyway.  There can
        be a cheaper way, which runs an operation although what it makes could be loaded; only the
        exact plan finds it, so this is never too little.
        """
        number = self.number.get(artifact)
        if number is None:
            return 0.0
        known = {self.number[each]: load for each, load in loads.items() if each in self.number}
        return self.marginal(number, known)

    def marginal(
        self,
        artifact: int,
        loads: Mapping[int, Seconds],
        after: Callable[[int], bool] = lambda _: True,
    ) -> Seconds:
        """Return the same for artifacts by their numbers.

        ``after`` says whether an operation may depend on any of those that can be loaded; of the
        others, all that they need is taken at once.
        """
        maker = self.maker[artifact]
        if maker < 0:
            return 0.0
        run = {maker}
        whole = 0
        loaded: set[int] = set()
        waiting = [maker]
        while waiting:
            for read in self.reads[waiting.pop()]:
                before = self.maker[read]
                if read != artifact and read in loads:
                    loaded.add(read)
                elif before in run:
                    continue
                elif after(before):
                    run.add(before)
                    waiting.append(before)
                else:
                    whole |= self.needs[before]
        computed = math.fsum(self.seconds[each] for each in run) + self.weigh(whole)
        spared = (each for each in loaded if self.maker[each] not in run)
        return computed + math.fsum(loads[e] for e in spared if not whole >> self.maker[e] & 1)

    def above(self, bits: Mapping[int, int]) -> dict[int, int]:
        """Return, for each operation that depends on some of the artifacts, the set of these.

        ``bits`` says which bit stands for an artifact.
        """
        found: dict[int, int] = {}
        for operation, reads in enumerate(self.reads):
            above = 0
            for read in reads:
                above |= bits.get(read, 0) | found.get(self.maker[read], 0)
            if above:
                found[operation] = above
        return found

    def potentials(self) -> list[float | None]:
        """Return for each artifact the best score of a model that it is, or that it led to."""
        best = [each.score for each in self.artifacts]
        for number in reversed(range(len(self.operations))):
            top = _best(best[each] for each in self.made[number])
            if top is not None:
                for read in self.reads[number]:
                    best[read] = _best((best[read], top))
        return best

    def potential(self, artifact: ArtifactId) -> float | None:
        """Return the best score of a model that can be reached from an artifact."""
        number = self.number.get(artifact)
        return None if number is None else self.potentials()[number]


def _best(scores: Iterable[float | None]) -> float | None:
    known = (each for each in scores if each is not None and not math.isnan(each))
    return max(known, default=None)


def members(numbers: int) -> list[int]:
    """Return the members of a set, ``0b1010`` being 1 and 3."""
    found = []
    while numbers:
        lowest = numbers & -numbers
        found.append(lowest.bit_length() - 1)
        numbers ^= lowest
    return found


def sound(seconds: Seconds) -> Seconds:
    """Return a time that can be added up: 0 for what is no time."""
    return seconds if 0 <= seconds < math.inf else 0.0
