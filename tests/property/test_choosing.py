"""What is true of every choice of what to store, on graphs at random."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chexpoint.graph.ancestry import Ancestry
from chexpoint.graph.choosing import Strategy, choose
from chexpoint.graph.experiment import ExperimentGraph
from chexpoint.graph.saving import Savings
from chexpoint.model import ArtifactId
from tests.support.experiment_graphs import (
    MB,
    PerMegabyte,
    all_seconds,
    bytes_of,
    graphs,
    inline_in,
    least_s,
    with_stored,
)

pytestmark = pytest.mark.slow

RATES = PerMegabyte()
NOISE = 1e-6


def tries(count: int) -> settings:
    return settings(max_examples=count, deadline=None)


def loads_of(graph: ExperimentGraph, stored: frozenset[ArtifactId]) -> dict[ArtifactId, float]:
    """Return what can be loaded: these, and what is in the graph's own table."""
    return {each: RATES.load_s(graph.artifacts[each]) for each in stored | inline_in(graph)}


@st.composite
def cases(draw: st.DrawFn, cells: int = 6) -> tuple[ExperimentGraph, list[ArtifactId]]:
    """Return a graph of which some artifacts are stored, and those whose contents are at hand."""
    graph = draw(graphs(cells))
    ids = list(graph.artifacts)
    at_hand = draw(st.lists(st.sampled_from(ids), unique=True))
    stored = draw(st.lists(st.sampled_from(ids), max_size=3, unique=True))
    inline = draw(st.lists(st.sampled_from(ids), max_size=2, unique=True))
    return with_stored(graph, stored, inline), at_hand


@tries(40)
@given(cases(cells=5), st.sampled_from((0.0, 0.5, 1.0)))
def test_a_greater_budget_is_never_worse(
    case: tuple[ExperimentGraph, list[ArtifactId]], alpha: float
) -> None:
    """By exact plans for everything, whatever is stored already."""
    graph, at_hand = case
    known: dict[frozenset[ArtifactId], float] = {}
    before = float("inf")
    for megabytes in range(26):
        keep = choose(graph, at_hand, budget_bytes=megabytes * MB, alpha=alpha, rates=RATES).keep
        if keep not in known:
            known[keep] = all_seconds(graph, loads_of(graph, keep))
        assert known[keep] <= before + NOISE
        before = known[keep]


@tries(60)
@given(cases(), st.integers(0, 25), st.sampled_from(("storage-aware", "simple", "helix")))
def test_every_choice_is_sound(
    case: tuple[ExperimentGraph, list[ArtifactId]], megabytes: int, strategy: Strategy
) -> None:
    graph, at_hand = case
    inline = inline_in(graph)
    stored = {each.id for each in graph.artifacts.values() if each.stored} - inline
    found = choose(graph, at_hand, budget_bytes=megabytes * MB, strategy=strategy, rates=RATES)
    assert found.keep <= (stored | set(at_hand)) - inline
    assert found.drop == stored - found.keep
    assert set(found.reasons) == stored | set(at_hand)
    assert all(each.endswith(".") and "\n" not in each for each in found.reasons.values())
    assert found.size_bytes == bytes_of(graph, found.keep) <= megabytes * MB


@tries(60)
@given(cases(), st.integers(0, 25))
def test_nothing_is_kept_that_would_not_be_loaded(
    case: tuple[ExperimentGraph, list[ArtifactId]], megabytes: int
) -> None:
    graph, at_hand = case
    keep = choose(graph, at_hand, budget_bytes=megabytes * MB, rates=RATES).keep
    loads = loads_of(graph, keep)
    ancestry = Ancestry(graph)
    for each in keep:
        assert loads[each] < ancestry.marginal_s(each, loads)


@tries(40)
@given(cases(cells=5), st.integers(0, 25))
def test_choosing_again_comes_to_rest(
    case: tuple[ExperimentGraph, list[ArtifactId]], megabytes: int
) -> None:
    """A store does not go back and forth between choices, and what it becomes is never worse."""
    graph, at_hand = case
    budget = megabytes * MB
    keep = choose(graph, at_hand, budget_bytes=budget, rates=RATES).keep
    for _ in range(6):
        before = keep
        keep = choose(with_stored(graph, before), at_hand, budget_bytes=budget, rates=RATES).keep
        if keep == before:
            return
        taken = all_seconds(graph, loads_of(graph, before))
        assert all_seconds(graph, loads_of(graph, keep)) <= taken + NOISE
    pytest.fail("it never rests")


@tries(60)
@given(graphs(5), st.data())
def test_what_is_saved_is_that_of_the_best_plans(
    graph: ExperimentGraph, data: st.DataObject
) -> None:
    ids = list(graph.artifacts)
    stored = frozenset(data.draw(st.lists(st.sampled_from(ids), unique=True)))
    ancestry = Ancestry(graph)
    everything = {n: RATES.load_s(each) for n, each in enumerate(ancestry.artifacts)}
    saved = Savings(ancestry, everything).saved_s(ancestry.number[each] for each in stored)
    least = all_seconds(graph, {}) - all_seconds(graph, loads_of(graph, stored))
    assert saved == pytest.approx(least, abs=NOISE)


@tries(60)
@given(graphs(5), st.data())
def test_computing_again_is_never_said_to_take_too_little(
    graph: ExperimentGraph, data: st.DataObject
) -> None:
    ids = list(graph.artifacts)
    wanted = data.draw(st.sampled_from(ids))
    stored = frozenset(data.draw(st.lists(st.sampled_from(ids), unique=True))) - {wanted}
    ancestry = Ancestry(graph)
    assert ancestry.recreation_s(wanted) == pytest.approx(least_s(graph, wanted, {}))
    found = ancestry.marginal_s(wanted, loads_of(graph, stored))
    assert found >= least_s(graph, wanted, loads_of(graph, stored)) - NOISE
