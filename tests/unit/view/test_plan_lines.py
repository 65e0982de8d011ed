"""Plans as text say what is done for each version, what it costs and what it is good for."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chexpoint.model import ExecutionTree, NodeId, TreeNode, Version
from chexpoint.plan import KINDS, sample_tree
from chexpoint.view import PlanRow, comparison_text, plan_text, schedule_text
from chexpoint.view.text import columns
from tests.unit.view.planned import (
    GB,
    SMALL,
    by_hand,
    by_planner,
    leaf_names,
    side_by_side,
)
from tests.unit.view.worlds import ident, node, random_tree, tree_of

FROM_SCRATCH = (
    "compute 1, compute 2, compute 3, compute 4, restore -, compute 1, compute 2, compute 5"
)


def test_a_plan_is_told_version_by_version() -> None:
    assert plan_text(SMALL, by_hand(SMALL)).split("\n") == [
        "by-hand: 2 versions in 13 min, the least there can be",
        "  no checkpoints  23 min  43 % are saved",
        "  each cell once  13 min  0 % more are needed",
        "  budget          1.0 GB  512 MB at most are held",
        "  cells                8  6 are computed, none twice",
        "",
        "11 min  base    compute 4 cells, checkpoint 'x = load()'",
        "13 min  deeper  go back to 'x = load()' for the last time, compute 2 cells",
        "",
        "checkpoint    made at   takes  restored   saves",
        "'x = load()'   10 min  512 MB    1 time  10 min",
    ]


def test_every_step_is_shown_if_asked_for() -> None:
    lines = plan_text(SMALL, by_hand(SMALL), steps=True).split("\n")
    assert lines[6:15] == [
        "step  done at    held  action",
        "   1   10.0 s     0 B  compute     'import numpy'",
        "   2   10 min     0 B  compute     'x = load()'",
        "   3   10 min  512 MB  checkpoint  'x = load()'",
        "   4   11 min  512 MB  compute     'fit(x, 3)'",
        f"   5   11 min  512 MB  compute     'plot(x)' ({ident(4)[:8]})",
        "   6   11 min     0 B  take        'x = load()'",
        "   7   13 min     0 B  compute     'fit(x, 5)'",
        f"   8   13 min     0 B  compute     'plot(x)' ({ident(6)[:8]})",
    ]


def test_cells_that_are_computed_again_are_counted() -> None:
    text = plan_text(SMALL, by_hand(SMALL, f"{FROM_SCRATCH}, compute 6"))
    assert "at most 77 % above the least" in text
    assert "77 % more are needed" in text
    assert "8 are computed, 2 of them more than once" in text
    assert "deeper  begin afresh, compute 4 cells" in text
    assert "0 B at most are held" in text
    assert "checkpoint " not in text


def test_restores_and_evictions_are_told() -> None:
    steps = (
        "compute 1, checkpoint 1, compute 2, checkpoint 2, compute 3, compute 4, "
        "restore 2, evict 2, evict 1, compute 5, compute 6"
    )
    text = plan_text(SMALL, by_hand(SMALL, steps))
    assert "compute 4 cells, checkpoint 'import numpy', 'x = load()'" in text
    assert "go back to 'x = load()', compute 2 cells, evict 'x = load()', 'import numpy'" in text
    assert "'import numpy'" in text.split("saves\n")[1]


def test_versions_that_end_on_the_way_are_named_with_the_one_that_goes_on() -> None:
    tree = tree_of([node(1), node(2, 1), node(3, 2)], 2, 3, names=["early", "late"])
    text = plan_text(tree, by_hand(tree, "compute 1, compute 2, compute 3"))
    assert text.startswith("by-hand: 2 versions in")
    assert "early, late  compute 3 cells" in text


def test_leaves_without_versions_and_nodes_without_cells_are_called_by_their_ids() -> None:
    tree = sample_tree("an", nodes=12)
    text = plan_text(tree, by_planner(tree))
    for leaf in leaf_names(tree):
        assert f"  {leaf}  " in text


def test_what_there_is_no_time_for_is_named() -> None:
    tree = tree_of([node(1), node(2, 1), node(3, 1), node(4, 3)], 2, 3, 4, names=["a", "b", "c"])
    text = plan_text(tree, by_hand(tree, "compute 1, compute 2", left_out=[4]))
    assert text.startswith("by-hand: 1 of 3 versions in")
    assert "no time for: b, c" in text
    nothing = plan_text(tree, by_hand(tree, "", left_out=[2, 4]))
    assert nothing.startswith("by-hand: 0 of 3 versions in 0 ms")


def test_notes_stand_at_the_end() -> None:
    text = plan_text(SMALL, by_hand(SMALL, notes=("the time was up",)))
    assert text.endswith("\n\nnote: the time was up")


def test_many_versions_and_checkpoints_are_counted() -> None:
    tree = sample_tree("ci", versions=200, length=8)
    found = by_planner(tree, math.inf)
    text = plan_text(tree, found)
    assert len(text.split("\n")) < 120
    assert "... and 140 more versions by" in text
    assert f"... and {len(found.uses) - 20} more checkpoints, which save" in text
    assert "unlimited" in text
    every_step = plan_text(tree, found, steps=True)
    assert every_step.count("\n") > len(found.plan.steps)


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(st.sampled_from(KINDS), st.integers(0, 10**6), st.sampled_from([40, 57, 80, 200]))
def test_no_line_is_longer_than_the_window(kind: str, seed: int, width: int) -> None:
    tree = sample_tree(kind, seed=seed, nodes=40)
    found = by_planner(tree)
    for steps in (False, True):
        text = plan_text(tree, found, width=width, steps=steps)
        assert max(columns(line) for line in text.split("\n")) <= width


def test_names_in_wide_letters_and_hostile_texts_fit() -> None:
    hostile = "\x1b[31m日本語の長い名前" * 20
    root = TreeNode(id=NodeId(hostile), parent=None, cell="", cost=1.0, size=10)
    nodes = [root, *(TreeNode(id=NodeId(f"{n}{hostile}"), parent=root.id) for n in (1, 2))]
    version = Version(name=hostile, path=(root.id, nodes[1].id))
    for tree in (ExecutionTree(nodes), ExecutionTree(nodes, [version])):
        for steps in (False, True):
            text = plan_text(tree, by_planner(tree), width=60, steps=steps)
            assert max(columns(line) for line in text.split("\n")) <= 60
            assert "\x1b" not in text


def test_engines_side_by_side_have_a_part_each() -> None:
    lanes = (
        "compute 1, compute 2, compute 3, compute 4",
        "compute 1, compute 2, compute 5, compute 6",
    )
    schedule, explanations = side_by_side(SMALL, *lanes)
    assert schedule_text(SMALL, schedule, explanations).split("\n") == [
        "2 engines: 2 versions in 12 min, 1.08 times as fast as one alone",
        "  one engine alone  13 min",
        "  all together      23 min  are computed",
        "  budget            2.0 GB  for all of them",
        "",
        "engine 1: 1 version in 11 min; 0 B at most are held, of 1.0 GB",
        "  11 min  base  compute 4 cells",
        "",
        "engine 2: 1 version in 12 min; 0 B at most are held, of 1.0 GB",
        "  12 min  deeper  compute 4 cells",
    ]
    every_step = schedule_text(SMALL, schedule, explanations, steps=True)
    assert every_step.count("compute  'import numpy'") == 2


def test_planners_are_compared_with_the_best_bound() -> None:
    best, worst = by_hand(SMALL), by_hand(SMALL, f"{FROM_SCRATCH}, compute 6", notes=("gave up",))
    low = replace(worst.plan, planner="other", lower_bound=100.0)
    rows = [
        PlanRow(plan=low, peak_bytes=0, checkpoints=0, seconds=0.001),
        PlanRow(plan=best.plan, peak_bytes=GB // 2, checkpoints=1, seconds=2.0),
    ]
    assert comparison_text(rows).split("\n") == [
        "planner    cost  of no cache  above bound    peak  checkpoints  planned in",
        "other    23 min        100 %         77 %     0 B            0        1 ms",
        "by-hand  13 min         57 %          0 %  512 MB            1       2.0 s",
        "",
        "budget 1.0 GB: 23 min without checkpoints, and never less than 13 min, the bound",
        "other: gave up",
    ]


@pytest.mark.parametrize("seed", range(5))
def test_versions_are_counted_wherever_they_end(seed: int) -> None:
    tree = random_tree(seed, 12, 6)
    ends = {version.node for version in tree.versions}
    unnamed = [leaf for leaf in leaf_names(tree) if leaf not in ends]
    text = plan_text(tree, by_planner(tree, GB))
    assert f": {len(tree.versions) + len(unnamed)} versions in " in text.split("\n")[0]
