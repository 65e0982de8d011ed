"""Trees as text: one line for each run, within the width, and complete."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chexpoint.model import ExecutionTree, Version
from chexpoint.view import tree_text
from chexpoint.view.text import columns
from tests.unit.view.worlds import ident, node, random_tree, tree_of

NODES = [
    node(0x11111111, cell="import numpy as np\nimport os", cost=1.25, size=2**20),
    node(0x22222222, 0x11111111, cell="x = np.arange(10)", cost=2.5, size=2**21),
    node(0x33333333, 0x22222222, cell="x.mean()", cost=0.004, size=2**21),
    node(0x44444444, 0x11111111, cell="x = np.ones(3)", cost=60.0, size=2**30, status="error"),
]


def test_runs_are_lines_and_branches_stand_beside_each_other() -> None:
    tree = tree_of(NODES, 0x33333333, 0x44444444, names=["base", "ones"])
    text = tree_text(tree, checkpoints={ident(0x11111111): "k1"}, here=ident(0x33333333))
    assert text.split("\n") == [
        "○    fresh interpreter",
        "◉    11111111    1   1.2 s  1.0 MB  import numpy as np",
        "├─◈  33333333  2-3   2.5 s  2.0 MB  (base) x = np.arange(10) …",
        "✗    44444444    2  60.0 s  1.0 GB  (ones) x = np.ones(3)",
        "",
        "4 cells, 2 versions   ◈ here   ✗ failed   ◉ checkpoint",
    ]


def test_the_branch_with_the_most_ends_goes_straight_down() -> None:
    nodes = [node(1), node(2, 1), node(3, 1), node(4, 3), node(5, 3), node(6, 2)]
    lines = tree_text(tree_of(nodes, 4, 5, 6)).split("\n")
    graphs = [line[:5].rstrip() for line in lines[:-2]]
    assert graphs == ["○", "●", "├─●", "●", "├─●", "●"]


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from([1, 5, 60]), st.integers(1, 25), st.integers(40, 140))
def test_lines_fit_and_every_label_is_there(
    seed: int, versions: int, cells: int, width: int
) -> None:
    tree = random_tree(seed, versions, cells)
    text = tree_text(tree, here=next(iter(tree.nodes)), width=width)
    assert all(columns(line) <= width for line in text.split("\n"))
    if width >= 100:
        words = [w for names in re.findall(r"\((version-[^)]*)\)", text) for w in names.split(", ")]
        named = {word for word in words if not word.startswith("+")}
        assert len(named) + sum(int(word) for word in words if word not in named) == versions
        assert named <= set(tree.labels.values())
    assert "◈" in text


def test_the_text_is_never_deep() -> None:
    nodes = [node(1)]
    for n in range(1, 300):
        nodes += [node(2 * n, 2 * n - 2 if n > 1 else 1), node(2 * n + 1, 2 * n)]
    text = tree_text(tree_of(nodes, *range(3, 600, 2)))
    assert max(line.count("│") for line in text.split("\n")) <= 1


def test_many_labels_are_counted() -> None:
    text = tree_text(tree_of([node(1)], *[1] * 60), width=80)
    assert "(v59, v58, " in text
    assert ", +" in text
    assert max(map(columns, text.split("\n"))) <= 80


@pytest.mark.parametrize("source", ["\x1b[2J\x00", "\ud800", "x" * 10_000, "日本語" * 99, "a\tb"])
def test_hostile_sources_stay_on_their_line(source: str) -> None:
    version = Version(name=source, path=(ident(1),))
    text = tree_text(ExecutionTree([node(1, cell=source)], [version]), width=70)
    assert text.count("\n") == 3
    assert all(columns(line) <= 70 for line in text.split("\n"))
    assert all(line.isprintable() for line in text.split("\n"))
    text.encode("utf-8")


def test_versions_without_a_cell_stand_at_the_root() -> None:
    text = tree_text(ExecutionTree([node(1)], [Version(name="empty")]))
    assert text.startswith("○  (empty) fresh interpreter\n")


def test_an_empty_tree_is_a_sentence() -> None:
    assert tree_text(ExecutionTree()) == "no cells are recorded yet"
