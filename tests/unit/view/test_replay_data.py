"""A replay as JSON: what outsiders rely on."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from chexpoint.model import REPLAY_STATUSES, Replay, ReplayHost
from chexpoint.view import replay_json, replay_page, replay_text
from tests.support.replays import (
    good_replay,
    hostile_replay,
    interrupted_replay,
    node_of,
    sample_replay,
)


def test_totals_are_those_of_the_replay() -> None:
    replay = sample_replay()
    data = replay_json(replay)
    assert {name: value for name, value in data.items() if name != "versions"} == {
        "title": "penguins",
        "reproduced": False,
        "interrupted": False,
        "started": replay.started,
        "seconds": replay.seconds,
        "recorded_seconds": replay.recorded_seconds,
        "no_cache_seconds": replay.no_cache_seconds,
        "planned_seconds": replay.planned_seconds,
        "overhead_seconds": 0.02,
        "cells_in_versions": 29,
        "computed_cells": 11,
        "saved_cells": 17,
        "peak_checkpoint_bytes": 96 * 2**20,
        "budget": 128 * 2**20,
        "planner": "pc-move",
        "workers": 1,
        "hosts": [],
        "left_out": [],
        "notes": list(replay.notes),
    }
    assert replay_json(good_replay())["reproduced"] is True


def test_every_version_and_cell_has_its_status() -> None:
    scaled = replay_json(sample_replay())["versions"][2]
    assert (scaled["label"], scaled["status"]) == ("scaled", "failed")
    assert [cell["status"] for cell in scaled["cells"]] == ["same", "same", "failed", "skipped"]
    assert scaled["cells"][2] == {
        "cell": 3,
        "node": node_of("scale"),
        "status": "failed",
        "excused": False,
        "seconds": 0.45,
        "host": "",
        "computed": 1,
        "reasons": ["KeyError: 'flipper_length'", "it did not fail when it was recorded"],
    }
    assert scaled["seconds"] == pytest.approx(sum(cell["seconds"] for cell in scaled["cells"]))


def test_what_is_not_done_is_null() -> None:
    data = replay_json(interrupted_replay())
    assert data["interrupted"] is True
    assert data["left_out"] == ["scaled"]
    deeper = data["versions"][1]
    assert deeper["status"] is None
    last = deeper["cells"][-1]
    assert (last["status"], last["seconds"], last["computed"]) == (None, None, 0)


@pytest.mark.parametrize(
    "make",
    [sample_replay, good_replay, interrupted_replay, hostile_replay],
    ids=lambda m: m.__name__,
)
def test_it_is_json_and_comes_back_as_it_was(make: Callable[[], Replay]) -> None:
    data = replay_json(replace(make(), budget_bytes=float("inf"), seconds=float("nan")))
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert data["budget"] is None
    statuses = {cell["status"] for version in data["versions"] for cell in version["cells"]}
    assert statuses <= {*REPLAY_STATUSES, None}


def test_hosts_of_a_cluster_are_told_with_each_cell_and_in_total() -> None:
    replay = good_replay()
    cells = {node: replace(cell, host="alpha") for node, cell in replay.cells.items()}
    hosts = (
        ReplayHost(name="alpha", engines=2, computed_cells=11),
        ReplayHost(name="beta", engines=1, computed_cells=1, is_lost=True),
    )
    replay = replace(replay, cells=cells, hosts=hosts)
    data = replay_json(replay)
    assert data["hosts"][1] == {"name": "beta", "engines": 1, "computed_cells": 1, "is_lost": True}
    assert {cell["host"] for version in data["versions"] for cell in version["cells"]} == {"alpha"}
    line = "computed on 2 hosts: alpha 11 cells, beta 1 cell (lost)"
    assert line in replay_text(replay)
    page = replay_page(replay)
    assert line in page
    assert "on host alpha" in page
