"""What one engine is told, and how its failures are explained."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chexpoint.model import CellError, Segment
from chexpoint.replay.hindsight_lane import Tail, explained, iterations_in, job_text
from chexpoint.replay.hindsight_values import HindsightPlan, Probe, ProbedCell

SEGMENT = Segment(start=3, stop=6, first=2, is_jump=True)
PROBE = Probe(cell=1, loop=0, segment=SEGMENT)


def test_a_job_has_the_cells_up_to_the_loop(tmp_path: Path) -> None:
    cells = (
        ProbedCell(source="x = 1"),
        ProbedCell(
            source="for i in y:\n    print(i)",
            folder=tmp_path / "run",
            added=((2, 2),),
            step_into=frozenset({2, 1}),
        ),
        ProbedCell(source="never(run)"),
    )
    plan = HindsightPlan(version="v", cells=cells, probes=(PROBE,))
    job = json.loads(job_text(plan, PROBE, store="/store", out=tmp_path / "out"))
    assert job["store"] == "/store"
    assert job["out"] == str(tmp_path / "out")
    first, second = job["cells"]
    assert first == {"source": "x = 1", "added": [], "run": None, "step_into": [], "segment": None}
    assert second["run"] == str(tmp_path / "run")
    assert second["added"] == [[2, 2]]
    assert second["step_into"] == [1, 2]
    assert second["segment"] == {"loop": 0, "start": 3, "stop": 6, "first": 2, "is_jump": True}


# ---------------------------------------------------------------- failures

CELL = ProbedCell(source="a\nb\nc\nd", added=((3, 3),))
OTHER = ProbedCell(source="def f():\n    log()", added=((2, 2),))


def error(*traceback: str, evalue: str = "no attribute 'x'") -> CellError:
    return CellError(ename="AttributeError", evalue=evalue, traceback=traceback)


def test_the_line_of_an_added_statement_is_told() -> None:
    lines = ("Cell In[2], line 3\n", "\x1b[31mAttributeError\x1b[0m")
    found = explained(error(*lines), CELL, {2: CELL})
    assert found == "the added statement in line 3 raised AttributeError: no attribute 'x'"


def test_the_innermost_cell_counts_and_not_the_library_below_it() -> None:
    lines = (
        "\x1b[32mCell In[2]\x1b[39m, line 4",
        "\x1b[32mCell In[1]\x1b[39m, line 2, in f()",
        "File ~/venv/lib/site-packages/torch/nn.py:1100, in g()",
    )
    found = explained(error(*lines), CELL, {1: OTHER, 2: CELL})
    assert found.startswith("the added statement in line 2 raised ")


def test_lines_of_scripts_are_those_of_the_file() -> None:
    script = ProbedCell(source="for i in x:\n    print(i.y)", line=40, added=((2, 2),))
    lines = ('  File "/scratch/train.py", line 41, in <module>\n    print(i.y)',)
    found = explained(error(*lines), script, {1: script})
    assert found.startswith("the added statement in line 41 raised ")


def test_other_lines_are_not_called_added() -> None:
    found = explained(error("Cell In[2], line 1", evalue="a\nb"), CELL, {2: CELL})
    assert found == "line 1 raised AttributeError: a b"
    assert explained(error(), CELL, {}) == "AttributeError: no attribute 'x'"


# ---------------------------------------------------------------- events


def test_lines_that_are_not_complete_come_later(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    tail = Tail(path)
    assert tail.read() == []
    with path.open("w", buffering=1) as file:
        file.write('{"e": "iter", "i": 1}\n{"e": "it')
        file.flush()
        assert tail.read() == [{"e": "iter", "i": 1}]
        assert tail.read() == []
        file.write('er", "i": 2}\nbroken\n[1]\n{"e": "done"}\n')
        file.flush()
    assert tail.read() == [{"e": "iter", "i": 2}, {"e": "done"}]


@pytest.mark.parametrize(("number", "counted"), [(2, False), (3, True), (5, True), (6, False)])
def test_only_iterations_of_the_segment_count(number: int, counted: bool) -> None:
    events: list[dict[str, object]] = [
        {"e": "iter", "n": 0, "i": number},
        {"e": "iter", "n": 1, "i": 4},
        {"e": "log"},
    ]
    assert iterations_in(events, PROBE) == ({number} if counted else set())
