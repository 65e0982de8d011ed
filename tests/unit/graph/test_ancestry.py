"""What it takes to compute artifacts again, and to load them."""

from __future__ import annotations

import math
from random import Random

import pytest

from chexpoint.graph.ancestry import Ancestry
from chexpoint.graph.ledger_values import MeasuredLoad
from chexpoint.graph.utility import LoadRates
from chexpoint.model import ArtifactId
from tests.support.experiment_graphs import MB, Cell, cell, graph_of, variable


def of(name: str) -> ArtifactId:
    return ArtifactId(name)


# ---------------------------------------------------------------- recreation


def test_an_operation_behind_two_others_counts_once() -> None:
    ancestry = Ancestry(
        graph_of(
            cell(10, "raw"),
            cell(1, "left", reads=["raw"]),
            cell(2, "right", reads=["raw"]),
            cell(4, "both", reads=["left", "right"]),
        )
    )
    assert ancestry.recreation_s(of("both")) == 17


def test_a_notebook_that_passes_two_variables_on_takes_what_its_cells_take() -> None:
    """Adding up what each cell reads would double it with every cell."""
    cells = [cell(1, "x0", "y0")]
    for number in range(1, 1000):
        before = [f"x{number - 1}", f"y{number - 1}"]
        cells.append(cell(1, f"x{number}", f"y{number}", reads=before))
    ancestry = Ancestry(graph_of(*cells))
    assert ancestry.recreation_s(of("y999")) == 1000


def test_large_graphs() -> None:
    """A chain of 10,000 cells, and one in which each cell reads some of the last."""
    rng = Random(1)
    chain: list[Cell] = [cell(1, "v0")]
    woven: list[Cell] = [cell(1, "v0")]
    for number in range(1, 10_000):
        chain.append(cell(1, f"v{number}", reads=[f"v{number - 1}"]))
        before = {rng.randrange(max(0, number - 40), number) for _ in range(3)}
        woven.append(cell(1, f"v{number}", reads=[f"v{each}" for each in sorted(before)]))
    assert Ancestry(graph_of(*reversed(chain))).recreation_s(of("v9999")) == 10_000
    ancestry = Ancestry(graph_of(*woven))
    for number in (5, 500, 9_999):
        expected = len(_behind(woven, number))
        assert ancestry.recreation_s(of(f"v{number}")) == expected
        assert ancestry.marginal_s(of(f"v{number}"), {}) == expected


def _behind(cells: list[Cell], number: int) -> set[int]:
    found = {number}
    waiting = [number]
    while waiting:
        for read in cells[waiting.pop()][0].reads:
            before = int(read.artifact[1:])
            if before not in found:
                found.add(before)
                waiting.append(before)
    return found


def test_what_the_graph_does_not_know_counts_nothing() -> None:
    graph = graph_of(cell(3, "x", reads=["colleague"]), cell(math.nan, "y", reads=["x"]))
    orphan = cell(5, "z")[1][0]
    graph.artifacts[orphan.id] = orphan
    ancestry = Ancestry(graph)
    assert ancestry.recreation_s(of("y")) == 3
    assert ancestry.recreation_s(of("z")) == 0
    assert ancestry.recreation_s(of("nobody")) == 0
    assert ancestry.marginal_s(of("nobody"), {of("nothing"): 1.0}) == 0


def test_a_circle_in_a_damaged_graph_does_no_harm() -> None:
    graph = graph_of(
        cell(1, "a", reads=["b"]), cell(2, "b", reads=["a"]), cell(4, "c", reads=["c"])
    )
    ancestry = Ancestry(graph)
    assert {ancestry.recreation_s(of("a")), ancestry.recreation_s(of("b"))} <= {1, 2, 3}
    assert ancestry.recreation_s(of("c")) == 4


def test_what_can_be_loaded_cuts_off_what_is_behind_it() -> None:
    ancestry = Ancestry(
        graph_of(
            cell(10, "raw", "names"),
            cell(5, "clean", reads=["raw"]),
            cell(2, "features", reads=["clean"]),
            cell(1, "table", reads=["features", "names"]),
        )
    )
    loads = {of("clean"): 0.5}
    assert ancestry.marginal_s(of("features"), loads) == 2.5
    # The first cell runs for the names; the clean data are loaded.
    assert ancestry.marginal_s(of("table"), loads) == 13.5
    # What the first cell makes is there once it runs.
    assert ancestry.marginal_s(of("table"), {of("raw"): 0.5}) == 18
    # It is asked what computing it takes, although it can be loaded.
    assert ancestry.marginal_s(of("clean"), loads) == 15


def test_potential_is_the_best_score_that_an_artifact_led_to() -> None:
    ancestry = Ancestry(
        graph_of(
            cell(1, "data"),
            cell(1, "dull", reads=["data"]),
            cell(1, variable("poor", score=0.6), reads=["data"]),
            cell(1, "better data", reads=["data"]),
            cell(1, variable("good", score=0.8), reads=["better data"]),
            cell(1, variable("broken", score=math.nan), reads=["dull"]),
        )
    )
    assert ancestry.potential(of("data")) == 0.8
    assert ancestry.potential(of("poor")) == 0.6
    assert ancestry.potential(of("dull")) is None
    assert ancestry.potential(of("nobody")) is None


# ---------------------------------------------------------------- loads


def test_loads_that_were_measured_are_believed() -> None:
    rates = LoadRates(backend="s3")
    rng = Random(1)
    for _ in range(60):
        size = int(10 ** rng.uniform(4, 9))
        rates.note("s3", "numpy.ndarray", size, (0.2 + size / 50e6) * rng.uniform(0.9, 1.1))
    for size in (0, 10**6, 10**8, 10**9):
        expected = 0.2 + size / 50e6
        assert rates.expect("s3", "numpy.ndarray", size) == pytest.approx(expected, rel=0.15)
        # What is known of one kind is a beginning for another.
        assert rates.expect("s3", "torch.Tensor", size) == pytest.approx(expected, rel=0.25)
    assert rates.expect("file", "numpy.ndarray", 10**6) < 0.05


def test_one_load_beside_a_busy_neighbour_does_not_spoil_the_rest() -> None:
    rates = LoadRates()
    for _ in range(20):
        rates.note("file", "x", 10 * MB, 0.03)
    before = rates.expect("file", "x", 10 * MB)
    rates.note("file", "x", 10 * MB, 3600)
    assert rates.expect("file", "x", 10 * MB) < 2 * before


def test_it_follows_a_disk_that_becomes_slow() -> None:
    rates = LoadRates(
        MeasuredLoad(backend="file", kind="x", size_bytes=10 * MB, seconds=seconds)
        for seconds in [0.03] * 100 + [0.3] * 100
    )
    assert rates.expect("file", "x", 10 * MB) == pytest.approx(0.3, rel=0.2)


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -1.0, 0.0])
def test_what_is_no_time_teaches_nothing(seconds: float) -> None:
    rates = LoadRates()
    before = rates.expect("file", "x", MB)
    rates.note("file", "x", MB, seconds)
    rates.note("file", "x", -5, 1.0)
    assert rates.expect("file", "x", MB) == before


def test_more_bytes_never_take_less() -> None:
    """Even if the loads that were measured say so."""
    rates = LoadRates()
    for _ in range(30):
        rates.note("file", "x", MB, 2.0)
        rates.note("file", "x", 500 * MB, 0.1)
    times = [rates.expect("file", "x", size) for size in (0, 1, MB, 500 * MB, 10**10)]
    assert times == sorted(times)
    assert times[0] > 0


def test_what_one_artifact_took_counts_for_it() -> None:
    artifact = variable("x", size=100 * MB, stored=True, load_s=7.5)
    assert LoadRates().load_s(artifact) == 7.5
    not_measured = variable("x", size=100 * MB, stored=True)
    assert 0 < LoadRates().load_s(not_measured) < 1
