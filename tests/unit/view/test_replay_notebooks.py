"""Versions become valid notebooks, whatever their outputs are."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chexpoint.model import Replay, Version
from chexpoint.view import recorded_notebook, replay_notebook
from tests.support.replay_outputs import odd_outputs, printed
from tests.support.replays import (
    PENGUINS,
    Sample,
    build,
    good_replay,
    hostile_replay,
    interrupted_replay,
    node_of,
    sample_replay,
)


def version_of(replay: Replay, label: str) -> Version:
    return replay.recording.labels[label]


def replayed(replay: Replay, label: str) -> dict[str, Any]:
    return replay_notebook(replay.recording, version_of(replay, label), replay.cells)


@pytest.mark.parametrize(
    "make",
    [sample_replay, good_replay, interrupted_replay, hostile_replay],
    ids=lambda m: m.__name__,
)
def test_every_version_is_a_valid_notebook(make: Callable[[], Replay]) -> None:
    replay = make()
    for version in replay.recording.tree.versions:
        for notebook in (
            replay_notebook(replay.recording, version, replay.cells),
            recorded_notebook(replay.recording, version),
        ):
            nbformat.validate(notebook)
            text = json.dumps(notebook, ensure_ascii=False, allow_nan=False)
            assert json.loads(text.encode()) == notebook
            assert len(notebook["cells"]) == len(version.path)


def test_cells_have_what_they_showed_in_the_replay_and_what_came_of_them() -> None:
    replay = sample_replay()
    cells = replayed(replay, "deeper")["cells"]
    assert cells[3]["source"] == PENGUINS["fit deeper"].source
    assert [cell["execution_count"] for cell in cells] == [1, 2, 3, 4, 5]
    assert cells[3]["outputs"] == [
        printed("accuracy   0.9552\nrecall     0.9541\nf1         0.9690\n")
    ]
    assert cells[3]["metadata"]["chex"] == {
        "node": node_of("fit deeper"),
        "status": "different",
        "reasons": list(replay.cells[node_of("fit deeper")].reasons),
    }
    assert cells[4]["outputs"][1]["execution_count"] == 5
    assert replayed(replay, "stamped")["cells"][5]["metadata"]["tags"] == ["chex-volatile"]


def test_a_recorded_notebook_has_what_was_recorded() -> None:
    replay = sample_replay()
    notebook = recorded_notebook(replay.recording, version_of(replay, "deeper"))
    assert notebook["cells"][3]["outputs"] == list(PENGUINS["fit deeper"].recorded)
    assert notebook["cells"][3]["metadata"]["chex"] == {"node": node_of("fit deeper")}
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    assert notebook["metadata"]["language_info"] == {"name": "python", "version": "3.11.9"}
    assert notebook["metadata"]["chex"] == {"version": "deeper"}


def test_a_cell_that_failed_ends_with_its_exception() -> None:
    replay = sample_replay()
    *_, failed, skipped = replayed(replay, "scaled")["cells"]
    assert failed["outputs"][-1]["ename"] == "KeyError"
    assert skipped["outputs"] == []
    assert skipped["execution_count"] is None
    node = node_of("scale")
    silent = {**replay.cells, node: replace(replay.cells[node], outputs=())}
    notebook = replay_notebook(replay.recording, version_of(replay, "scaled"), silent)
    assert [o["output_type"] for o in notebook["cells"][2]["outputs"]] == ["error"]


def test_a_cell_that_is_not_done_has_no_outputs_and_no_status() -> None:
    last = replayed(interrupted_replay(), "deeper")["cells"][-1]
    assert last["outputs"] == []
    assert last["execution_count"] is None
    assert "status" not in last["metadata"]["chex"]


def test_ids_are_those_of_the_notebook_as_far_as_they_may_be() -> None:
    samples = {
        name: Sample(source=name, after=after)
        for name, after in (("a", ""), ("b", "a"), ("c", "b"))
    }
    replay = build(samples, {"v": "c"})
    found = dict(replay.recording.cells)
    for name, cell_id in (("a", "intro"), ("b", "intro"), ("c", "not an id")):
        found[node_of(name)] = replace(found[node_of(name)], cell_id=cell_id)
    recording = replace(replay.recording, cells=found)
    (version,) = recording.tree.versions
    ids = [cell["id"] for cell in recorded_notebook(recording, version)["cells"]]
    assert ids == ["intro", "intro-2", node_of("c")[:32]]


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(st.lists(odd_outputs, max_size=4))
def test_whatever_outputs_are_a_valid_notebook_is_written(made: list[dict[str, Any]]) -> None:
    replay = build({"a": Sample(source="a", recorded=tuple(made))}, {"v": "a"})
    (version,) = replay.recording.tree.versions
    nbformat.validate(recorded_notebook(replay.recording, version))
