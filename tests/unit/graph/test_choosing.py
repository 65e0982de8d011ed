"""What is stored, and what is said about it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from chexpoint.errors import InvalidValue
from chexpoint.graph.choosing import Choice, choose
from chexpoint.graph.experiment import ExperimentGraph
from chexpoint.model import ArtifactId, StoredArtifact
from tests.support.experiment_graphs import MB, PerMegabyte, cell, graph_of, variable


def chosen(graph: ExperimentGraph, megabytes: float, **options: Any) -> Choice:
    """Return the choice if everything is at hand, and loads take a second for each megabyte."""
    return choose(
        graph,
        graph.artifacts,
        budget_bytes=int(megabytes * MB),
        rates=PerMegabyte(),
        **options,
    )


def said(choice: Choice, name: str) -> str:
    return choice.reasons[ArtifactId(name)]


def store_inline(graph: ExperimentGraph, name: str) -> None:
    artifact = graph.artifacts[ArtifactId(name)]
    graph.artifacts[artifact.id] = replace(artifact, stored=StoredArtifact(image=""))


# ---------------------------------------------------------------- what is worth it


def test_what_saves_most_for_its_size_is_kept() -> None:
    graph = graph_of(
        cell(20, variable("model", size=MB)),
        cell(20, variable("table", size=10 * MB)),
        cell(0.5, variable("copy", size=MB)),
    )
    found = chosen(graph, 5)
    assert found.keep == {"model"}
    assert found.size_bytes == MB
    assert said(found, "model") == ("Kept: loading it takes 1.0 s, computing it again 20.0 s.")
    assert said(found, "table") == "Not stored: it needs 9.5 MB, and others are worth more."
    assert said(found, "copy") == (
        "Not stored: computing it again takes no longer than loading it."
    )


def test_what_takes_as_long_to_load_is_not_kept_although_there_is_room() -> None:
    graph = graph_of(cell(1, variable("table", size=MB)))
    assert not chosen(graph, 1000).keep
    assert not chosen(graph, 1000, strategy="simple").keep


def test_what_saves_less_than_storing_it_takes_is_not_kept() -> None:
    graph = graph_of(cell(3, variable("table", size=MB)))
    assert chosen(graph, 10, write_s=lambda _: 1.0).keep == {"table"}
    found = chosen(graph, 10, write_s=lambda _: 2.5)
    assert not found.keep
    assert said(found, "table") == (
        "Not stored: computing it again takes no longer than storing and loading it."
    )
    table = graph.artifacts[ArtifactId("table")]
    graph.artifacts[table.id] = replace(table, stored=StoredArtifact(image="i", load_s=1.0))
    assert chosen(graph, 10, write_s=lambda _: 2.5).keep == {"table"}


def test_frequent_artifacts_come_first() -> None:
    graph = graph_of(
        cell(20, variable("rare", size=2 * MB)),
        cell(15, variable("frequent", size=2 * MB, frequency=5)),
    )
    assert chosen(graph, 3).keep == {"frequent"}


def test_alpha_weighs_good_models_against_time() -> None:
    graph = graph_of(
        cell(30, variable("slow", size=2 * MB)),
        cell(10, variable("good", size=2 * MB, score=0.9)),
    )
    assert chosen(graph, 2, alpha=0).keep == {"slow"}
    assert chosen(graph, 2, alpha=1, strategy="simple").keep == {"good"}


def test_scores_that_are_no_shares_do_no_harm() -> None:
    graph = graph_of(
        cell(9, variable("loss", score=-1e300)),
        cell(9, variable("points", score=1e300)),
        cell(9, variable("nothing", score=math.nan)),
    )
    assert chosen(graph, 3).keep == {"loss", "points", "nothing"}


# ---------------------------------------------------------------- beside each other


def test_arrays_that_two_artifacts_share_are_paid_for_once() -> None:
    shared = [("columns", 8 * MB)]
    graph = graph_of(
        cell(50, variable("clean", size=8 * MB, parts=shared)),
        cell(50, variable("features", size=9 * MB, parts=shared), reads=["clean"]),
    )
    assert chosen(graph, 9).keep == {"clean", "features"}
    assert chosen(graph, 9).size_bytes == 9 * MB
    assert len(chosen(graph, 9, strategy="simple").keep) == 1


def test_room_is_that_on_the_disk() -> None:
    """What was stored has shrunk to a tenth, so others are taken to do the same, nearly."""
    graph = graph_of(
        cell(500, variable("zeros", size=100 * MB, parts=[("columns", 100 * MB)])),
        cell(500, variable("more", size=100 * MB)),
    )
    assert not chosen(graph, 30).keep
    zeros = graph.artifacts[ArtifactId("zeros")]
    stored = StoredArtifact(image="i", stored_bytes=10 * MB, load_s=100.0)
    graph.artifacts[zeros.id] = replace(zeros, stored=stored)
    found = chosen(graph, 30)
    assert found.keep == {"zeros", "more"}
    assert 20 * MB <= found.size_bytes < 25 * MB
    assert chosen(graph, 15).keep == {"zeros"}


def test_what_stands_next_to_something_kept_is_not() -> None:
    """Each of these alone is worth storing; all of them are not."""
    cells = [cell(100, variable("v0", size=2 * MB))]
    cells += [
        cell(0.1, variable(f"v{number}", size=(2 + number) * MB), reads=[f"v{number - 1}"])
        for number in range(1, 6)
    ]
    found = chosen(graph_of(*cells), 1000)
    assert found.keep == {"v0"}
    others = set(found.reasons) - found.keep
    assert {found.reasons[each] for each in others} == {
        "Not stored: computing it again from what is kept takes no longer than loading it."
    }
    assert len(chosen(graph_of(*cells), 1000, strategy="simple").keep) == 6


def test_what_much_is_computed_from_is_worth_more() -> None:
    """The table saves no more than the other by itself, but it is behind everything."""
    graph = graph_of(
        cell(20, variable("table", size=4 * MB)),
        cell(20, variable("lonely", size=4 * MB)),
        *(cell(1, variable(f"plot {n}", why_not="it is open"), reads=["table"]) for n in range(3)),
    )
    assert chosen(graph, 4, alpha=0).keep == {"table"}


def test_one_large_artifact_can_be_worth_more_than_a_small_one() -> None:
    """By what it saves per byte the small one comes first, and then the other does not fit."""
    graph = graph_of(
        cell(0.9, variable("small", size=MB // 10)),
        cell(60, variable("large", size=10 * MB)),
    )
    assert chosen(graph, 10).keep == {"large"}
    assert chosen(graph, 1).keep == {"small"}


# ---------------------------------------------------------------- what is stored already


def test_a_better_artifact_takes_the_place_of_a_stored_one() -> None:
    def case(seconds: float) -> Choice:
        graph = graph_of(
            cell(10, variable("old", size=2 * MB, stored=True)),
            cell(seconds, variable("new", size=2 * MB)),
        )
        return choose(graph, [ArtifactId("new")], budget_bytes=3 * MB, rates=PerMegabyte(), alpha=0)

    much_better = case(20)
    assert much_better.keep == {"new"}
    assert much_better.drop == {"old"}
    assert said(much_better, "old") == "Dropped: it needs 1.9 MB, and others are worth more."
    # Else a store would be rewritten for every little thing.
    hardly_better = case(10.3)
    assert hardly_better.keep == {"old"}
    assert not hardly_better.drop


def test_a_smaller_budget_drops_what_is_stored() -> None:
    graph = graph_of(
        cell(10, variable("a", size=2 * MB, stored=True)),
        cell(30, variable("b", size=2 * MB, stored=True)),
    )
    found = choose(graph, [], budget_bytes=3 * MB, rates=PerMegabyte())
    assert found.keep == {"b"}
    assert found.drop == {"a"}


def test_what_is_stored_is_dropped_if_a_doubt_comes_up() -> None:
    graph = graph_of(cell(10, variable("a", stored=True), doubt="two runs of it differed"))
    found = chosen(graph, 10)
    assert not found.keep
    assert found.drop == {"a"}


# ---------------------------------------------------------------- who is no candidate


def test_what_cannot_be_stored_or_costs_nothing_is_no_candidate() -> None:
    graph = graph_of(
        cell(50, variable("stream", why_not="a generator cannot be stored.")),
        cell(50, variable("settings", size=100)),
        cell(50, variable(":numpy:random", size=100)),
        cell(50, variable("noise"), doubt="it uses random numbers"),
        cell(50, variable("folder"), sticky="it changes the folder"),
    )
    store_inline(graph, "settings")
    for strategy in ("storage-aware", "simple", "helix", "all"):
        found = chosen(graph, 100, strategy=strategy)
        assert not found.keep
        assert not found.drop
        assert found.reasons == {
            "stream": "Not stored: a generator cannot be stored.",
            "settings": "Stored in the graph itself: it is little.",
            ":numpy:random": "Not stored by itself: it is a state of the process.",
            "noise": "Not stored: another run of its cell may give something else: "
            "it uses random numbers.",
            "folder": "Not stored: its cell is never passed over: it changes the folder.",
        }


def test_what_is_stored_in_the_graph_itself_makes_others_cheap() -> None:
    graph = graph_of(
        cell(100, variable("total", size=100)),
        cell(0.1, variable("table", size=2 * MB), reads=["total"]),
    )
    assert chosen(graph, 100).keep == {"total"}
    store_inline(graph, "total")
    assert not chosen(graph, 100).keep


def test_unknown_candidates_are_said_to_be_unknown() -> None:
    found = choose(ExperimentGraph(), [ArtifactId("x")], budget_bytes=MB)
    assert found == Choice()
    assert said(found, "x") == "Not stored: nothing is known about it."


# ---------------------------------------------------------------- to compare with


def test_helix_fills_the_store_from_the_beginning() -> None:
    graph = graph_of(
        cell(5, variable("first", size=2 * MB)),
        cell(3, variable("cheap", size=2 * MB)),
        cell(90, variable("best", size=2 * MB), reads=["first"]),
    )
    assert chosen(graph, 3, strategy="helix").keep == {"first"}
    assert chosen(graph, 6, strategy="helix").keep == {"first", "best"}


def test_all_and_none_do_not_ask_for_the_budget() -> None:
    graph = graph_of(cell(5, variable("a")), cell(0, variable("b", stored=True)))
    assert chosen(graph, 0, strategy="all").keep == {"a", "b"}
    none = chosen(graph, 100, strategy="none")
    assert not none.keep
    assert none.drop == {"b"}
    assert said(none, "b") == "Dropped: nothing is stored."


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategy": "best"}, "There is no strategy 'best'"),
        ({"alpha": 1.5}, "alpha is 1.5"),
        ({"alpha": math.nan}, "alpha is nan"),
        ({"budget_bytes": -1}, "The budget is -1 bytes"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        choose(ExperimentGraph(), [], **{"budget_bytes": MB, **options})
