"""Pictures and pages of an experiment graph: well-formed, within their frame, and honest."""

from __future__ import annotations

import random
from xml.etree import ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st

from chexpoint.graph import ExperimentGraph
from chexpoint.model import Artifact, ArtifactId, Operation, StoredArtifact
from chexpoint.view import (
    GRAPH_START,
    PAGE_START,
    ArtifactRow,
    graph_html,
    graph_summary,
    graph_svg,
)
from tests.unit.view.graphs import FOREST, LABELS, TRAIN, artifact, operation, small_graph

SVG = "{http://www.w3.org/2000/svg}"
GRAPH = small_graph()


def drawn(graph: ExperimentGraph, **options: object) -> ElementTree.Element:
    """Return a picture of ours as elements."""
    text = graph_svg(graph.operations, graph.artifacts, **options)  # type: ignore[arg-type]
    return ElementTree.fromstring(text)  # noqa: S314 - our own text


def texts(picture: ElementTree.Element) -> list[str]:
    """Return everything that is written."""
    return [each.text or "" for each in picture.iter(SVG + "text")]


def of_class(picture: ElementTree.Element, style: str) -> list[ElementTree.Element]:
    """Return the boxes of a class; one more is in the legend."""
    return [each for each in picture.iter(SVG + "rect") if each.get("class") == style]


def row_of(graph: ExperimentGraph, ident: ArtifactId) -> ArtifactRow:
    return ArtifactRow(artifact=graph.artifacts[ident], operation=graph.maker(ident), load_s=0.1)


def chained(cells: int, seed: int = 0) -> ExperimentGraph:
    """Return a graph of many cells, each of which reads some of those shortly before."""
    rng = random.Random(seed)
    operations: list[Operation] = []
    artifacts: list[Artifact] = []
    for number in range(cells):
        before = {rng.randrange(max(0, number - 9), number) for _ in range(min(number, 2))}
        reads = {f"v{each}": ArtifactId(f"{each:032x}") for each in before}
        operations.append(
            operation(f"o{number}", f"v{number} = f()", 1.0, reads=reads, time=number)
        )
        stored = StoredArtifact(image="i") if rng.random() < 0.3 else None
        ident = ArtifactId(f"{number:032x}")
        artifacts.append(artifact(ident, f"o{number}", f"v{number}", "list", stored=stored))
    return ExperimentGraph.of(operations, artifacts)


def test_what_is_stored_is_told_by_shape_and_word() -> None:
    picture = drawn(GRAPH)
    assert len(of_class(picture, "kept")) == 3  # two, and the legend
    assert len(of_class(picture, "inline")) == 2
    assert len(of_class(picture, "open")) == 4
    written = texts(picture)
    assert "score 0.91, 1.0 MB, stored" in written
    assert "40.0 MB, stored" in written
    assert "variable, stored" in written
    assert "DataFrame 1,000 x 2" in written
    assert not [each for each in written if ":random" in each]


def test_a_target_shows_what_is_loaded_and_what_is_run() -> None:
    needed = frozenset(GRAPH.operations) - {"fit", "lock"}
    picture = drawn(
        GRAPH,
        target=ArtifactId("e" * 32),
        run={"fit2"},
        load={TRAIN, LABELS},
        needed=needed,
    )
    assert len(of_class(picture, "run")) == 2
    assert len(of_class(picture, "load")) == 3
    assert len(of_class(picture, "aim")) == 2
    written = texts(picture)
    assert "run, 3.0 s" in written
    assert "load, 40.0 MB" in written
    assert "would be loaded" in written
    assert not [each for each in written if "clf" in each]
    faint = [each for each in picture.iter(SVG + "g") if each.get("class") == "idle"]
    assert len(faint) == 4  # load, clean and label as cells, and raw


def test_a_large_graph_is_drawn_in_part_and_says_so() -> None:
    graph = chained(2000)
    picture = drawn(graph)
    assert len(of_class(picture, "cellbox")) == 61
    assert any(each.startswith("60 of 2,000 cells are drawn") for each in texts(picture))
    assert any("v1999 = f()" in each for each in texts(picture))


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 60), st.integers(0, 5), st.integers(0, 2000))
def test_any_graph_is_drawn_within_its_frame_and_nothing_overlaps(
    cells: int, seed: int, width: int
) -> None:
    picture = drawn(chained(cells, seed), width=width)
    wide, tall = float(picture.get("width", "")), float(picture.get("height", ""))
    places = []
    for rect in of_class(picture, "paper"):
        x, y, w, h = (float(rect.get(key, "")) for key in ("x", "y", "width", "height"))
        assert x >= 0
        assert x + w <= wide
        assert y + h <= tall
        places.append((x, y, x + w, y + h))
    for number, (x1, y1, x2, y2) in enumerate(places):
        for a1, b1, a2, b2 in places[number + 1 :]:
            assert x2 <= a1 or a2 <= x1 or y2 <= b1 or b2 <= y1


def test_what_reads_something_stands_below_it() -> None:
    picture = drawn(chained(40, 3))
    for line in picture.iter(SVG + "path"):
        if line.get("class") == "edge":
            start, end = line.get("d", "").split("C")
            assert float(start.split()[1]) < float(end.split()[-1])


@settings(deadline=None, max_examples=30)
@given(st.text(max_size=60), st.text(min_size=1, max_size=20))
def test_any_text_can_be_drawn(source: str, name: str) -> None:
    graph = ExperimentGraph.of(
        [operation("o", source, 1.0, user=name, doubt=name)],
        [artifact(TRAIN, "o", name, name, meta={name: {name: [source]}}, why_not=source)],
    )
    drawn(graph)
    summary = graph_summary([], [], where=name, store=name, budget_bytes=1)
    page = graph_html(summary, "", models=[row_of(graph, TRAIN)])
    assert "<script" not in page


def test_a_graph_whose_rows_are_circular_is_drawn() -> None:
    graph = ExperimentGraph.of(
        [
            operation("o", "x", 1.0, reads={"y": LABELS}),
            operation("p", "y", 1.0, reads={"x": TRAIN}),
        ],
        [artifact(TRAIN, "o", "x", "int"), artifact(LABELS, "p", "y", "int")],
    )
    assert len(of_class(drawn(graph), "cellbox")) == 3


def test_themes_are_those_of_the_other_pictures() -> None:
    plain = graph_svg(GRAPH.operations, GRAPH.artifacts)
    assert plain.startswith(f'{GRAPH_START} chex-tree" ')
    assert "prefers-color-scheme: dark" in plain
    dark = graph_svg(GRAPH.operations, GRAPH.artifacts, dark=True)
    assert dark.startswith(f'{GRAPH_START} chex-tree chex-dark" ')
    assert "no cell is in the graph yet" in graph_svg({}, {})


def test_the_page_tells_all_and_needs_nothing() -> None:
    summary = graph_summary(
        GRAPH.operations.values(),
        GRAPH.artifacts.values(),
        where="postgresql://ada:secret@db/graph",
        store="s3://team/graph",
        budget_bytes=4 * 2**30,
        projects=2,
        seconds=(35.0, 30.0, 33.0),
    )
    picture = graph_svg(GRAPH.operations, GRAPH.artifacts)
    page = graph_html(summary, picture, models=[row_of(GRAPH, FOREST)], artifacts=[])
    assert page.startswith(PAGE_START)
    assert "<td>postgresql://ada@db/graph, used by 2 projects</td>" in page
    assert "secret" not in page
    assert "<td>30.0 s of 35.0 s that computing all again takes; 33.0 s if all were" in page
    assert "clf.parameters</th><td>n_estimators=9" in page
    assert "By time saved" not in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
