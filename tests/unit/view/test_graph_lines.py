"""An experiment graph as text."""

from __future__ import annotations

from chexpoint.model import ArtifactId
from chexpoint.view import (
    ArtifactRow,
    artifact_text,
    artifacts_text,
    graph_gc_text,
    graph_summary,
    graph_text,
    prospect_text,
    row_json,
)
from chexpoint.view.graph_rows import cell_line
from tests.unit.view.graphs import FOREST, LOCK, LOGIT, MB, TRAIN, small_graph

GRAPH = small_graph()


def row(ident: ArtifactId, **more: float) -> ArtifactRow:
    return ArtifactRow(artifact=GRAPH.artifacts[ident], operation=GRAPH.maker(ident), **more)


def test_the_whole_is_told_in_a_few_lines() -> None:
    summary = graph_summary(
        GRAPH.operations.values(),
        GRAPH.artifacts.values(),
        where="/study/graph.sqlite",
        store="",
        budget_bytes=42 * MB,
        seconds=(35.0, 30.0, 33.0),
    )
    assert graph_text(summary).split("\n") == [
        "graph:       /study/graph.sqlite, used by 1 project",
        "operations:  6 in 8 runs",
        "artifacts:   7: 2 in the store, 1 little ones in the graph itself",
        "stored:      21.0 MB of 42.0 MB, 50% taken",
        "time saved:  30.0 s of 35.0 s that computing all again takes; 33.0 s if all were stored",
    ]


def test_artifacts_stand_in_columns_and_what_is_too_much_is_counted() -> None:
    text = artifacts_text([row(TRAIN, saves_s=24.0, load_s=0.1), row(LOCK)])
    head, first, second = text.split("\n")
    assert head.split() == ["artifact", "variables", "what", "size", "cell", "saves", "contents"]
    assert first.startswith("bbbbbbbb  train      DataFrame 1,000 x 2  40.0 MB  10.0 s  24.0 s")
    assert first.endswith("stored, 20.0 MB, loads in 100 ms")
    assert second.endswith("not stored: a lock ends with its…")
    assert artifacts_text([row(TRAIN)] * 3, most=1).endswith("and 2 more; --json lists all")


def test_one_artifact_is_told_with_its_cell() -> None:
    text = artifact_text(row(FOREST, compute_s=32.0, load_s=0.01))
    assert "score:           0.91" in text
    assert "computing:       20.0 s, 32.0 s with all that it needs" in text
    assert "reads:           train, y" in text
    assert "clf.parameters:  n_estimators=9" in text
    assert text.endswith("    clf = fit(train, y)")
    assert "never reused:  it reads the clock" in artifact_text(row(LOCK))


def test_what_would_be_done_is_told_line_by_line() -> None:
    text = prospect_text(row(LOGIT), [row(TRAIN)], [GRAPH.operations["fit2"]], 3.1, compute_s=15.1)  # type: ignore[index]
    assert text.split("\n") == [
        "logit in about 3.1 s, 12.0 s less than without the graph",
        "  load  train",
        "  run   logit = fit2(train, y) (3.0 s)",
    ]


def test_a_sweep_says_what_it_freed() -> None:
    told = graph_gc_text(artifacts=1, stored_bytes=MB, images=1, freed_bytes=MB)
    assert told.startswith("let go of the contents of 1 artifact (1.0 MB): 1 image in the store")
    dry = graph_gc_text(artifacts=2, stored_bytes=MB, images=1, freed_bytes=0, is_dry=True)
    assert (
        dry == "would let go of the contents of 2 artifacts (1.0 MB), and of 1 image in the store"
    )


def test_a_cell_is_called_by_its_first_line_of_code() -> None:
    assert cell_line("# %%\n\n  # load\nx = 1\ny = 2") == "x = 1"
    assert cell_line("# only this") == "# only this"
    assert cell_line("") == ""


def test_json_has_no_numbers_that_json_lacks() -> None:
    data = row_json(row(TRAIN, compute_s=float("inf")))
    assert data["compute_s"] is None
    assert data["made_by"]["id"] == "clean"
