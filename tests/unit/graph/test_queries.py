"""Questions to the experiment graph."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from chexpoint.errors import InvalidValue
from chexpoint.graph.experiment import ExperimentGraph
from chexpoint.graph.queries import (
    best_models,
    columns_of,
    describe,
    top,
    warm_start_candidates,
)
from chexpoint.model import Artifact, ArtifactId
from tests.support.experiment_graphs import MB, PerMegabyte, cell, graph_of, variable

RIDGE = "sklearn.linear_model._ridge.Ridge"
FOREST = "sklearn.ensemble._forest.RandomForestClassifier"


def model(
    name: str, kind: str = RIDGE, *, score: float | None = None, stored: bool = True
) -> Artifact:
    facts = {name: {"role": "model", "class": kind, "parameters": {}}}
    return variable(name, kind=kind, score=score, stored=stored, meta=facts)


@pytest.fixture
def study() -> ExperimentGraph:
    """Two tables; a model of one of them, and some of both."""
    return graph_of(
        cell(5, variable("flights", meta={"flights": {"columns": ["delay", "carrier"]}})),
        cell(1, variable("weather", meta={"weather": {"columns": [["wind", "float64"]]}})),
        cell(2, variable("joined", digest="d1"), reads=["flights", "weather"]),
        cell(9, model("simple", score=0.6), reads=["weather"]),
        cell(9, model("ridge", score=0.7), reads=["joined"], source="ridge.fit(joined)"),
        cell(9, model("forest", FOREST, score=0.8), reads=["joined"]),
        cell(9, model("unknown"), reads=["joined"]),
        cell(1, variable("plot"), reads=["forest"]),
    )


def names(models: list[Artifact]) -> list[str]:
    return [each.id for each in models]


# ---------------------------------------------------------------- models


def test_the_best_model_comes_first_and_one_without_a_score_last(study: ExperimentGraph) -> None:
    assert names(best_models(study)) == ["forest", "ridge", "simple", "unknown"]


def test_models_of_some_data(study: ExperimentGraph) -> None:
    assert names(best_models(study, on=ArtifactId("flights"))) == ["forest", "ridge", "unknown"]
    assert names(best_models(study, on=ArtifactId("weather")))[-2:] == ["simple", "unknown"]
    assert best_models(study, on=ArtifactId("plot")) == []


def test_models_from_a_column(study: ExperimentGraph) -> None:
    assert names(best_models(study, column="carrier")) == ["forest", "ridge", "unknown"]
    assert "simple" in names(best_models(study, column="wind"))
    assert best_models(study, column="no such column") == []


@pytest.mark.parametrize("kind", ["Ridge", RIDGE])
def test_models_of_a_class(study: ExperimentGraph, kind: str) -> None:
    assert names(best_models(study, kind=kind)) == ["ridge", "simple", "unknown"]
    assert best_models(study, kind="idge") == []


def test_models_of_data_that_nobody_knows(study: ExperimentGraph) -> None:
    with pytest.raises(InvalidValue, match="no artifact 'nobody'"):
        best_models(study, on=ArtifactId("nobody"))


@pytest.mark.parametrize(
    "columns",
    [
        ["a", "b"],
        [["a", "int64"], ["b", "object"]],
        {"a": "int64", "b": "object"},
        [{"name": "a"}, {"name": "b"}],
    ],
)
def test_columns_may_come_with_their_types(columns: object) -> None:
    assert columns_of(variable("t", meta={"t": {"columns": columns}})) == {"a", "b"}


@pytest.mark.parametrize("meta", [{"t": None}, {"t": {"columns": 5}}, {"t": {"columns": [[]]}}])
def test_metadata_that_make_no_sense_have_no_columns(meta: object) -> None:
    assert not columns_of(variable("t", meta=meta)) - {""}


# ---------------------------------------------------------------- warm start


def test_warm_start_takes_stored_models_of_the_same_class_and_data(study: ExperimentGraph) -> None:
    found = warm_start_candidates(study, {ArtifactId("joined")}, "Ridge")
    assert names(found) == ["ridge", "unknown"]
    assert names(warm_start_candidates(study, {"d1"}, FOREST)) == ["forest"]


def test_warm_start_takes_nothing_else(study: ExperimentGraph) -> None:
    # The table is behind the model, but it was not trained on it.
    assert warm_start_candidates(study, {ArtifactId("flights")}, "Ridge") == []
    assert warm_start_candidates(study, {ArtifactId("joined")}, "Lasso") == []
    # Data whose contents were not looked at are not equal to other such data.
    assert warm_start_candidates(study, {""}, "Ridge") == []
    ridge = study.artifacts[ArtifactId("ridge")]
    study.artifacts[ridge.id] = replace(ridge, stored=None)
    assert names(warm_start_candidates(study, {"d1"}, "Ridge")) == ["unknown"]


def test_the_state_of_random_numbers_is_no_training_data() -> None:
    graph = graph_of(
        cell(1, variable(":numpy:random", digest="state")),
        cell(1, model("ridge", score=0.5), reads=[":numpy:random"]),
    )
    assert warm_start_candidates(graph, {"state", ArtifactId(":numpy:random")}, "Ridge") == []


def test_scores_that_are_not_numbers_come_last() -> None:
    graph = graph_of(
        cell(1, "x"),
        cell(1, model("broken", score=math.nan), reads=["x"]),
        cell(1, model("poor", score=-5.0), reads=["x"]),
    )
    assert names(warm_start_candidates(graph, {ArtifactId("x")}, "Ridge")) == ["poor", "broken"]


# ---------------------------------------------------------------- time


def test_top_is_by_time_saved_and_frequency() -> None:
    graph = graph_of(
        cell(10, variable("seldom", size=MB)),
        cell(5, variable("often", size=MB, frequency=10)),
        cell(1, variable("never worth it", size=5 * MB)),
        cell(100, variable(":numpy:random", size=10)),
    )
    rows = top(graph, PerMegabyte())
    assert [(row.artifact.id, row.per_load_s, row.total_s) for row in rows] == [
        ("often", 4, 40),
        ("seldom", 9, 9),
    ]


def test_describe_says_what_an_artifact_takes_now(study: ExperimentGraph) -> None:
    flights = study.artifacts[ArtifactId("flights")]
    study.artifacts[flights.id] = variable("flights", size=MB, stored=True)
    study.artifacts[flights.id] = replace(study.artifacts[flights.id], operation=flights.operation)
    found = describe(study, ArtifactId("ridge"), PerMegabyte())
    assert found.recreation_s == 17
    # The flights are loaded in a second.
    assert found.again_s == 13
    assert found.load_s == 1
    assert found.operations == 4
    assert found.reads == ("joined",)
    assert found.source == "ridge.fit(joined)"
    assert (found.score, found.potential) == (0.7, 0.7)
    assert describe(study, ArtifactId("weather")).potential == 0.8
    assert len(describe(study, ArtifactId("joined")).readers) == 3


def test_describe_an_artifact_whose_cell_is_gone() -> None:
    graph = graph_of(cell(1, "x"))
    graph.operations.clear()
    found = describe(graph, ArtifactId("x"))
    assert (found.operations, found.recreation_s, found.source) == (0, 0.0, "")


def test_describe_something_else(study: ExperimentGraph) -> None:
    with pytest.raises(InvalidValue, match="chex graph top"):
        describe(study, ArtifactId("nobody"))
