"""What is worth storing.

The storage-aware strategy asks which choice within the budget saves most.  It compares several
*fillings* (see `filling`): by utility, by utility without the artifacts above some size, and
beginning with one that saves much by itself.  Each is an order that does not depend on the budget,
of which as much is taken as fits.  So what a greater budget takes of a filling holds what a smaller
one takes, and the best of all fillings, by exact plans, can only become better.  A pass that skips
what does not fit and goes on, as the paper has it, uses up small budgets better, but can do worse
with more room: what it took early on may stand in the way.

What is stored stays, and new artifacts get the room that is left, unless another choice saves
more by a factor, or saves more in less room.  Both conditions are about the stored artifacts alone
and not about what is added to them; that is why they keep a greater budget from being worse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from chexpoint.errors import InvalidValue
from chexpoint.graph.ancestry import Ancestry
from chexpoint.graph.experiment import ExperimentGraph
from chexpoint.graph.filling import STAY, Candidates, Filling, fill
from chexpoint.graph.saving import Savings
from chexpoint.graph.shelf import Shelf
from chexpoint.graph.utility import LoadRates
from chexpoint.model import Artifact, ArtifactId, Bytes, Seconds, format_seconds, format_size

Strategy = Literal["storage-aware", "simple", "helix", "all", "none"]

# Limits of size: the greatest artifact halved once, twice, and so on.
_STEPS = range(1, 8)
_FIRSTS = 6
# Where there is much to look at, operations times candidates, fewer fillings must do.
_MUCH = 100_000
_FEW_STEPS = (2, 5)


@dataclass(frozen=True, slots=True)
class Choice:
    """What to store."""

    keep: frozenset[ArtifactId] = frozenset()
    """All that should be in the store of images, whether it is there already or not."""
    drop: frozenset[ArtifactId] = frozenset()
    """What is stored and should not be."""
    reasons: Mapping[ArtifactId, str] = field(default_factory=dict, compare=False)
    """For each candidate a sentence that says why."""
    size_bytes: Bytes = 0
    """What those to keep take on the disk, as far as it is known."""


def choose(
    graph: ExperimentGraph,
    candidates: Iterable[ArtifactId],
    *,
    budget_bytes: Bytes,
    alpha: float = 0.5,
    strategy: Strategy = "storage-aware",
    rates: LoadRates | None = None,
    write_s: Callable[[Artifact], Seconds] = lambda _: 0.0,
) -> Choice:
    """Return which artifacts to store within a budget.

    Parameters
    ----------
    candidates
        Artifacts whose contents are at hand.  Those that are stored are candidates anyway.
    alpha
        How much the quality of models counts against the time that is saved, from 0 to 1.
    strategy
        ``storage-aware`` counts what artifacts share once, and what they save beside each other.
        ``simple`` is Algorithm 1 of the paper without either.  ``helix`` stores from the beginning
        on what takes more than twice as long to compute as to load, until the budget is full.
        ``all`` stores everything, whatever the budget, and ``none`` nothing.
    rates
        What loads take.
    write_s
        What storing an artifact takes that is not stored.

    Raises
    ------
    InvalidValue
        If the strategy is unknown, ``alpha`` is not between 0 and 1, or the budget is negative.
    """
    if strategy not in get_args(Strategy):
        names = ", ".join(get_args(Strategy))
        raise InvalidValue(f"There is no strategy '{strategy}'. Choose one of {names}.")
    if not 0 <= alpha <= 1:
        raise InvalidValue(f"alpha is {alpha}. Choose a number from 0 to 1.")
    if not budget_bytes >= 0:
        raise InvalidValue(f"The budget is {budget_bytes} bytes. Choose 0 or more.")
    ancestry = Ancestry(graph)
    asked, unfit = _sift(ancestry, candidates)
    known = Candidates(
        ancestry,
        asked,
        base=[n for n, each in enumerate(ancestry.artifacts) if is_inline(each)],
        stored=[n for n in asked if ancestry.artifacts[n].stored],
        alpha=alpha,
        rates=rates or LoadRates(),
        write_s=write_s,
    )
    match strategy:
        case "storage-aware":
            kept = _storage_aware(known, budget_bytes)
        case "simple":
            kept = _simple(known, budget_bytes)
        case "helix":
            kept = _helix(known, budget_bytes)
        case "all":
            kept = frozenset(asked)
        case "none":
            kept = frozenset()
    ids = {item: ancestry.artifacts[item].id for item in asked}
    # What cannot be used any more, because a doubt came up later, is dropped too.
    useless = {each.id for each in ancestry.artifacts if each.id in unfit and _is_image(each)}
    return Choice(
        keep=frozenset(ids[item] for item in kept),
        drop=frozenset(ids[item] for item in known.stored - kept) | useless,
        reasons={
            **unfit,
            **{ids[item]: _reason(known, item, kept, strategy) for item in asked},
        },
        size_bytes=known.sizes.together(sorted(kept)),
    )


def is_inline(artifact: Artifact) -> bool:
    """Return whether the contents are in the graph's own table, where they cost nothing."""
    return artifact.stored is not None and not artifact.stored.image


def _is_image(artifact: Artifact) -> bool:
    return artifact.stored is not None and bool(artifact.stored.image)


# ---------------------------------------------------------------- who is a candidate


def _sift(
    ancestry: Ancestry, candidates: Iterable[ArtifactId]
) -> tuple[list[int], dict[ArtifactId, str]]:
    """Return those that can be stored, in the order of the graph, and why the others cannot."""
    stored = (each.id for each in ancestry.artifacts if _is_image(each))
    fit, unfit = [], {}
    for each in dict.fromkeys((*candidates, *stored)):
        number = ancestry.number.get(each)
        if number is None:
            unfit[each] = "Not stored: nothing is known about it."
        elif why := _why_unfit(ancestry, number):
            unfit[each] = why
        else:
            fit.append(number)
    return sorted(fit, key=lambda each: (ancestry.maker[each], each)), unfit


def _why_unfit(ancestry: Ancestry, number: int) -> str:
    artifact = ancestry.artifacts[number]
    maker = ancestry.maker[number]
    operation = ancestry.operations[maker] if maker >= 0 else None
    why = ""
    if is_inline(artifact):
        why = "Stored in the graph itself: it is little"
    elif artifact.group.why_not:
        why = f"Not stored: {artifact.group.why_not}"
    elif any(name.startswith(":") for name in artifact.group.names):
        why = "Not stored by itself: it is a state of the process"
    elif operation is None:
        why = "Not stored: the cell that made it is not known"
    elif operation.doubt:
        why = f"Not stored: another run of its cell may give something else: {operation.doubt}"
    elif operation.sticky:
        why = f"Not stored: its cell is never passed over: {operation.sticky}"
    return f"{why.rstrip('.')}." if why else ""


# ---------------------------------------------------------------- storage-aware


def _storage_aware(known: Candidates, budget: Bytes) -> frozenset[int]:
    if known.sizes.together(known.items) <= budget:
        return _needed(known, frozenset(known.items))
    by_utility = fill(known, budget)
    if by_utility.is_complete:
        return _needed(known, by_utility.within(budget))
    return _needed(known, _Contest(known, by_utility, budget).winner())


class _Contest:
    """The fillings, and what each of them saves."""

    def __init__(self, known: Candidates, by_utility: Filling, budget: Bytes) -> None:
        self._known = known
        self._budget = budget
        self._savings = Savings(known.ancestry, known.load_s)
        self._nothing = self._savings.saved_s(known.base)
        self._values: dict[frozenset[int], Seconds] = {}
        sizes = {item: known.sizes.together([item]) for item in known.items}
        greatest, least = max(sizes.values()), max(min(sizes.values()), 1)
        much = len(known.ancestry.operations) * len(known.items) > _MUCH
        steps = _FEW_STEPS if much else _STEPS
        limits = [greatest / 2**step for step in steps if greatest / 2**step >= least]
        firsts = _worth_beginning_with(known, sizes, 1 if much else _FIRSTS)
        self._fillings = [
            by_utility,
            *(fill(known, budget, most_bytes=limit) for limit in limits),
            *(fill(known, budget, first=[each], most_bytes=sizes[each]) for each in firsts),
        ]
        # The order of the stored ones among themselves does not matter: all stay, or it is not
        # this filling.
        self._stored_first = fill(known, budget, first=sorted(known.stored))

    def winner(self) -> frozenset[int]:
        """Return what to keep."""
        best = self._best(self._budget)
        stored = self._known.stored
        taken = self._known.sizes.together(sorted(stored))
        if not stored or taken > self._budget:
            return best
        alone = self._value(stored)
        in_less_room = self._value(self._best(taken - 1)) if taken else 0.0
        if self._value(best) > STAY * alone or in_less_room > alone:
            return best
        return self._stored_first.within(self._budget)

    def _best(self, budget: Bytes) -> frozenset[int]:
        """Return the choice that saves most; of equal ones, one that changes less."""
        stored = self._known.stored
        choices = [each.within(budget) for each in (*self._fillings, self._stored_first)]
        return max(choices, key=lambda each: (self._value(each), -len(each ^ stored)))

    def _value(self, choice: frozenset[int]) -> Seconds:
        if choice not in self._values:
            saved = self._savings.saved_s(choice | self._known.base)
            self._values[choice] = saved - self._nothing
        return self._values[choice]


def _worth_beginning_with(known: Candidates, sizes: Mapping[int, Bytes], most: int) -> list[int]:
    """Return some artifacts of which each saves more by itself than any smaller one does."""
    found: list[int] = []
    saved = 0.0
    for item in sorted(known.items, key=lambda each: (sizes[each], each)):
        worth = known.worth_s(item, 0)
        if worth > saved:
            saved = worth
            found.append(item)
    # Of many, those of all sizes.
    step = max(1, math.ceil(len(found) / most))
    return found[::-1][::step]


def _needed(known: Candidates, chosen: frozenset[int]) -> frozenset[int]:
    """Return a choice without what is never loaded, because of what was taken after it."""
    kept = set(chosen)
    order = sorted(chosen, key=lambda each: (-known.sizes.together([each]), each))
    before = 0
    # Without one of them the way to another is estimated anew, so once is not enough.
    while before != len(kept):
        before = len(kept)
        for item in order:
            if item in kept and known.gain_s(item, known.set_of(kept - {item})) <= 0:
                kept.remove(item)
    return frozenset(kept)


# ---------------------------------------------------------------- to compare with


def _simple(known: Candidates, budget: Bytes) -> frozenset[int]:
    """Return what Algorithm 1 takes as it was published: full sizes, and each by itself."""
    sizes = {item: known.ancestry.artifacts[item].group.size_bytes for item in known.items}
    again = {item: known.ancestry.recreation(item) for item in known.items}
    per_byte = {
        item: known.ancestry.artifacts[item].frequency * again[item] / max(sizes[item], 1)
        for item in known.items
    }
    total = math.fsum(per_byte.values()) or 1.0
    worth = {
        item: known.blend(item, per_byte[item] / total) if again[item] > known.load_s[item] else 0
        for item in known.items
    }
    kept: set[int] = set()
    taken = 0
    for item in sorted(known.items, key=lambda each: (-worth[each], each)):
        if worth[item] > 0 and taken + sizes[item] <= budget:
            kept.add(item)
            taken += sizes[item]
    return frozenset(kept)


def _helix(known: Candidates, budget: Bytes) -> frozenset[int]:
    """Return what Helix takes; it knows no sharing, and never drops anything that is worth it."""
    kept: set[int] = set()
    taken = 0
    for item in (*sorted(known.stored), *known.items):
        size = known.ancestry.artifacts[item].group.size_bytes
        pays = known.ancestry.recreation(item) > 2 * known.load_s[item]
        if item not in kept and pays and taken + size <= budget:
            kept.add(item)
            taken += size
    return frozenset(kept)


# ---------------------------------------------------------------- reasons


def _reason(known: Candidates, item: int, kept: frozenset[int], strategy: Strategy) -> str:
    write = known.write_s.get(item, 0.0)
    load = known.load_s[item] - write
    others = known.set_of(kept - {item})
    again = known.gain_s(item, others) + load + write
    costs = f"loading it takes {format_seconds(load)}, computing it again {format_seconds(again)}"
    if item in kept:
        return f"Kept: {costs}."
    word = "Dropped" if item in known.stored else "Not stored"
    if strategy == "none":
        return f"{word}: nothing is stored."
    where = " from what is kept" if known.gain_s(item, 0) > 0 else ""
    if again <= load:
        return f"{word}: computing it again{where} takes no longer than loading it."
    if again <= load + write:
        return f"{word}: computing it again{where} takes no longer than storing and loading it."
    shelf = Shelf(known.sizes)
    for each in kept:
        shelf.put(each)
    return f"{word}: it needs {format_size(shelf.added(item))}, and others are worth more."
