"""Which runs of loops belong to which version, and what a version is now."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chexpoint.errors import InvalidValue
from chexpoint.project import (
    RecordedLoops,
    RecordedProgram,
    best_match,
    carried_to,
    changed_by_cell,
    changed_by_file,
    loops_folder,
    read_source,
)
from chexpoint.project.script_mode import end_source, set_up_source
from chexpoint.replay import OldCell
from tests.unit.project.examples import cell, record
from tests.unit.project.hindsight_runs import PROBED, SET_UP, TRAINING, events, trained, write_run


def test_a_run_is_found_by_session_and_execution_count(tmp_path: Path) -> None:
    project = trained(tmp_path)
    found = RecordedLoops(project).version("base")
    assert [each.source for each in found.cells] == [SET_UP, TRAINING]
    assert [each.run for each in found.cells] == [None, loops_folder(project) / "run-base"]
    assert found.has_loops


def test_a_reused_cell_has_the_run_of_the_session_that_ran_it(tmp_path: Path) -> None:
    project = trained(tmp_path)
    again = project.branch("again", project.way_to("base"), session="later")
    del again
    found = RecordedLoops(project).version("again")
    assert found.cells[1].run == loops_folder(project) / "run-base"


def test_of_several_runs_the_newest_complete_one_counts(tmp_path: Path) -> None:
    project = trained(tmp_path)
    folder = loops_folder(project)
    same: dict[str, Any] = {"session": "base", "execution_count": 2}
    write_run(folder, "newer", time=2.0, **same)
    write_run(folder, "torn", time=3.0, story=events(2, is_complete=False), **same)
    write_run(folder, "other", time=4.0, session="else", execution_count=2)
    assert RecordedLoops(project).version("base").cells[1].run == folder / "newer"


def test_a_run_that_was_interrupted_is_better_than_none(tmp_path: Path) -> None:
    project = trained(tmp_path)
    version = project.new_version("cut", session="cut")
    record(project, cell("c1", source=TRAINING), "cut", version=version)
    write_run(
        loops_folder(project),
        "cut",
        story=events(2, is_complete=False),
        session="cut",
        execution_count=1,
    )
    assert RecordedLoops(project).version("cut").cells[0].run is not None


def test_cells_that_ask_chex_are_no_part_of_a_version(tmp_path: Path) -> None:
    question = f"%%chex_hindsight\n{PROBED}"
    project = trained(tmp_path, cells=(SET_UP, question, TRAINING))
    assert RecordedLoops(project).version("base").sources == (SET_UP, TRAINING)


# ---------------------------------------------------------------- which version


def test_the_version_that_a_file_was_made_from_is_found(tmp_path: Path) -> None:
    trained(tmp_path, "small", cells=("w = 1", TRAINING))
    project = trained(tmp_path, "large", cells=("w = 2", TRAINING), digits="b")
    loops = RecordedLoops(project)
    assert best_match(loops.versions(), f"w = 1\n{PROBED}", is_cell=False).label == "small"
    assert best_match(loops.versions(), f"w = 2\n{PROBED}", is_cell=False).label == "large"
    # Both are as like it: the newer one.
    assert best_match(loops.versions(), PROBED, is_cell=True).label == "large"


def test_where_no_version_is_like_it_that_is_said(tmp_path: Path) -> None:
    loops = RecordedLoops(trained(tmp_path))
    with pytest.raises(InvalidValue, match="no version with recorded loops is like this cell"):
        best_match(loops.versions(), "something = else_", is_cell=True)


def test_scripts_that_python_ran_are_known_by_their_file(tmp_path: Path) -> None:
    project = trained(tmp_path)
    script = tmp_path / "train.py"
    folder = loops_folder(project)
    write_run(folder, "old", file=str(script), time=1.0, source="x = 1")
    write_run(folder, "new", file=str(script), time=2.0, facts={"argv": ["train.py", "--fast"]})
    (found,) = RecordedLoops(project).scripts()
    assert found.is_plain
    assert (found.label, found.origin, found.sources) == ("train.py", "train.py", (TRAINING,))
    assert found.cells[0].source == set_up_source("train.py", ("--fast",))
    script.write_text(f"{PROBED}\n")
    (now,) = changed_by_file(found, read_source(script))
    assert now.source == PROBED


# ---------------------------------------------------------------- what it is now


def program(*cells: OldCell, **fields: Any) -> RecordedProgram:
    return RecordedProgram(label="v", cells=cells, **fields)


def notebook(path: Path, cells: dict[str, str]) -> Path:
    """Write a notebook with some cells by their ids."""
    made: list[dict[str, Any]] = [
        {
            "cell_type": "code",
            "id": cell_id,
            "source": source,
            "metadata": {},
            "outputs": [],
            "execution_count": None,
        }
        for cell_id, source in cells.items()
    ]
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": made}))
    return path


def test_cells_of_a_notebook_are_known_by_their_ids(tmp_path: Path) -> None:
    old = program(
        OldCell(source=SET_UP, cell_id="a"),
        OldCell(source="w = 9", cell_id="b"),  # tried once, changed later
        OldCell(source="w = 0", cell_id="b"),
        OldCell(source=TRAINING, cell_id="c"),
    )
    cells = {
        "b": "w = 0",
        "n": "import math",
        "m": "never_run()",
        "c": f"%%time\n{PROBED}",
        "q": "%%chex_hindsight\nx",
    }
    file = read_source(notebook(tmp_path / "t.ipynb", cells))
    found = [each.source for each in changed_by_file(old, file)]
    assert found == [SET_UP, "w = 9", "w = 0", "import math", f"#\n{PROBED}"]


def test_a_notebook_without_ids_is_taken_as_it_is(tmp_path: Path) -> None:
    old = program(OldCell(source=SET_UP), OldCell(source=TRAINING))
    file = read_source(notebook(tmp_path / "t.ipynb", {"x": SET_UP, "y": PROBED}))
    assert [each.source for each in changed_by_file(old, file)] == [SET_UP, PROBED]


def test_cells_of_a_script_keep_their_lines(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(f"{SET_UP}\n\n{PROBED}\n")
    old = program(
        OldCell(source=set_up_source("train.py", ()), is_own=True),
        OldCell(source=SET_UP),
        OldCell(source=TRAINING),
        OldCell(source=end_source(), is_own=True),
        is_script=True,
    )
    found = changed_by_file(old, read_source(script))
    assert [each.line for each in found] == [1, 4]
    assert found[1].source == PROBED


def test_a_changed_cell_takes_the_place_of_the_one_it_was_made_from() -> None:
    old = program(OldCell(source=SET_UP), OldCell(source=TRAINING), OldCell(source="done = 1"))
    found = [each.source for each in changed_by_cell(old, PROBED)]
    assert found == [SET_UP, PROBED, "done = 1"]
    with pytest.raises(InvalidValue, match="no cell of version v is like this one"):
        changed_by_cell(old, "other(thing)")


def test_what_was_added_is_carried_to_another_version() -> None:
    other = program(
        OldCell(source="import random\nimport math\nw = 5"),
        OldCell(source=TRAINING.replace("range(4)", "range(9)")),
    )
    found, problem = carried_to(other, [SET_UP, TRAINING], [SET_UP, PROBED])
    assert problem == ""
    assert [each.source for each in found] == [
        "import random\nimport math\nw = 5",
        PROBED.replace("range(4)", "range(9)"),
    ]


def test_what_cannot_be_carried_says_why() -> None:
    other = program(OldCell(source="y = 1"))
    found, problem = carried_to(other, [SET_UP, TRAINING], [SET_UP, PROBED])
    assert found == ()
    assert problem
