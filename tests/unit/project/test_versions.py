"""Versions are recorded cell by cell, and come back exactly as they ran."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from chexpoint.errors import CatalogError, InvalidValue
from chexpoint.model import CellAudit, ExecutionTree, Hint, PathCell, TreeNode, Version
from chexpoint.project import Project, check_version_name
from tests.unit.project.examples import FULL, cell, node_id, record, stream

CLOCK = CellAudit(hints=(Hint(kind="time", what="reads the clock", line=1),))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Return an empty project whose clock counts the times it is read, from 1 on."""
    ticks = itertools.count(1.0)
    return Project(tmp_path, clock=lambda: next(ticks))


def nodes(cells: Sequence[PathCell]) -> list[str]:
    return [each.node[:4] for each in cells]


def counts(cells: Sequence[PathCell]) -> list[int]:
    return [each.execution_count for each in cells]


# ------------------------------------------------------------ recording and listing


def test_a_version_comes_back_exactly_as_it_ran(project: Project) -> None:
    version = project.new_version(
        "baseline",
        session="s",
        origin="caf\udce9.ipynb",
        parameters=(("alpha", "0.5"), ("name", "x\udcff")),
    )
    first = cell("aaaa", source="x = 1  # caf\xe9 \udce9\x00", seconds=0.25, audit=FULL)
    second = cell("bbbb", "aaaa", count=2, source="1/0", status="error", size_bytes=7)
    printed = (stream("one\n"), {"output_type": "display_data", "data": {"text/plain": "\udcff"}})
    one = record(project, first, version=version, taint="t1", outputs=printed, cell_id="c-1")
    two = record(project, second, version=version, taint="t2", parent_taint="t1", cell_id="c-2")
    (listed,) = project.versions()
    assert listed == Version(
        name="baseline",
        number=1,
        path=(node_id("aaaa"), node_id("bbbb")),
        created=1.0,
        origin="caf\udce9.ipynb",
        parameters=(("alpha", "0.5"), ("name", "x\udcff")),
        status="error",
    )
    assert project.cells(listed) == (
        PathCell(
            node=node_id("aaaa"),
            parent=node_id("00"),
            taint="t1",
            source="x = 1  # caf\xe9 \udce9\x00",
            seconds=0.25,
            execution_count=1,
            execution=one,
            cell_id="c-1",
        ),
        PathCell(
            node=node_id("bbbb"),
            parent=node_id("aaaa"),
            taint="t2",
            source="1/0",
            seconds=0.5,
            execution_count=2,
            status="error",
            execution=two,
            cell_id="c-2",
        ),
    )
    assert project.outputs(one) == printed
    assert project.outputs(two) == ()
    assert (project.lineage(one), project.lineage(two)) == (first, second)


def test_a_version_without_a_cell_is_not_there(project: Project) -> None:
    version = project.new_version("a", session="s")
    assert project.versions() == ()
    assert project.tree() == ExecutionTree()
    with pytest.raises(InvalidValue, match="none is recorded yet"):
        project.version("a")
    record(project, cell("aaaa"), version=version)
    assert project.version("a").path == (node_id("aaaa"),)


def test_versions_of_the_same_name_are_numbered(project: Project) -> None:
    for n, name in enumerate(["a", "b", "a", "a"]):
        version = project.new_version(name, session="s")
        record(project, cell(f"a{n:03x}"), version=version)
    assert [(v.name, v.number) for v in project.versions()] == [
        ("a", 1),
        ("b", 1),
        ("a", 2),
        ("a", 3),
    ]
    tree = project.tree()
    assert [tree.labels[v] for v in tree.versions] == ["a@1", "b", "a@2", "a"]
    for listed in tree.versions:
        assert project.version(tree.labels[listed]) == listed
        assert project.version(f"{listed.name}@{listed.number}") == listed


def test_a_recalled_run_keeps_the_source_as_it_was_typed_this_time(project: Project) -> None:
    first = project.new_version("a", session="s")
    run = record(
        project, cell("aaaa", source="x = 1"), version=first, outputs=(stream("1"),), cell_id="c"
    )
    second = project.new_version("a", session="t")
    project.recall(second, run, source="x = 1  # the same", cell_id="other")
    record(project, cell("bbbb", "aaaa", count=2), "t", version=second)
    (before,) = project.cells(project.version("a@1"))
    shown, ran = project.cells(project.version("a@2"))
    assert shown == replace(before, source="x = 1  # the same", cell_id="other", is_reused=True)
    assert not ran.is_reused
    assert project.version("a@1").status == "ok"


def test_a_branch_begins_with_cells_of_another_version(project: Project) -> None:
    first = project.new_version("a", session="s")
    record(project, cell("aaaa"), version=first)
    record(project, cell("bbbb", "aaaa", count=2), version=first)
    record(project, cell("cccc", "bbbb", count=3), version=first)
    path = project.cells(project.version("a"))[:2]
    edited = (path[0], replace(path[1], source="# edited", cell_id="new"))
    branch = project.branch("b", edited, session="t", origin="b.ipynb", parameters=(("k", "v"),))
    record(project, cell("dddd", "bbbb", count=3), "t", version=branch)
    version = project.version("b")
    assert (version.origin, version.parameters) == ("b.ipynb", (("k", "v"),))
    cells = project.cells(version)
    assert nodes(cells) == ["aaaa", "bbbb", "dddd"]
    assert [each.is_reused for each in cells] == [True, True, False]
    assert (cells[1].source, cells[1].cell_id) == ("# edited", "new")
    assert cells[1].execution == path[1].execution
    assert len(project.cells(project.version("a"))) == 3


@pytest.mark.parametrize("change", [{"execution": 0}, {"node": "f" * 32}, {"taint": "other"}])
def test_a_branch_from_something_else_is_refused_and_leaves_nothing(
    project: Project, change: dict[str, object]
) -> None:
    version = project.new_version("a", session="s")
    record(project, cell("aaaa"), version=version)
    (known,) = project.cells(project.version("a"))
    with pytest.raises(InvalidValue, match=r"cell \[1\] cannot begin a version"):
        project.branch("b", (known, replace(known, **change)), session="s")  # type: ignore[arg-type]
    record(project, cell("bbbb"), version=project.new_version("b", session="s"))
    assert [(v.name, v.number) for v in project.versions()] == [("a", 1), ("b", 1)]


def test_what_is_not_there_cannot_be_recorded_or_asked_for(project: Project) -> None:
    run = record(project, cell("aaaa"))
    version = project.new_version("a", session="s")
    with pytest.raises(InvalidValue, match="no version has the id 99"):
        record(project, cell("bbbb"), version=99)
    with pytest.raises(InvalidValue, match="no version has the id 99"):
        project.recall(99, run, source="")
    with pytest.raises(InvalidValue, match="no run has the id 99"):
        project.recall(version, 99, source="")
    with pytest.raises(InvalidValue, match="no run has the id 99"):
        project.outputs(99)
    with pytest.raises(InvalidValue, match="no run has the id 99"):
        project.lineage(99)
    with pytest.raises(InvalidValue, match="no version 'gone@3'"):
        project.cells(Version(name="gone", number=3))
    with pytest.raises(CatalogError, match="too large"):
        project.outputs(2**70)
    assert len(project.nodes()) == 1  # the refused cell was not recorded either


def test_nothing_is_made_by_asking(tmp_path: Path) -> None:
    project = Project.at(tmp_path)
    assert project.versions() == ()
    assert project.tree() == ExecutionTree()
    assert project.runs_after(node_id("00"), "") == ()
    assert project.checkpoints() == {}
    assert project.kept_file("a" * 32) is None
    project.set_checkpoints("s", ())
    for ask in (project.version, project.way_to):
        with pytest.raises(InvalidValue, match="nothing is recorded"):
            ask("a")
    for look in (project.outputs, project.lineage):
        with pytest.raises(InvalidValue, match="nothing is recorded"):
            look(1)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_version_says_what_is_known(project: Project) -> None:
    for name in ("baseline", "baseline", "deep"):
        record(project, cell("aaaa"), version=project.new_version(name, session="s"))
    with pytest.raises(InvalidValue, match=r"no version 'basline'\. Did you mean baseline"):
        project.version("basline")
    with pytest.raises(InvalidValue, match=r"no version 'baseline@7'\. Did you mean baseline@1"):
        project.version("baseline@7")
    with pytest.raises(InvalidValue, match="Known: baseline, baseline@1, deep"):
        project.version("\udcff")
    assert project.version(" deep ").name == "deep"


@pytest.mark.parametrize("name", ["a", "été", "run-1.2_x+y=z,w", "x" * 100, "3a", "日本"])
def test_names_that_a_version_can_have(name: str) -> None:
    check_version_name(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "needs a name"),
        ("x" * 101, "too long"),
        ("12", "taken for a cell"),
        ("a@2", "'@' cannot be in the name"),
        ("a/b", "'/' cannot be in the name"),
        ("a b", "' ' cannot be in the name"),
        ("a\n", r"'\\n' cannot be in the name"),
        ("a\udcff", r"'\\udcff' cannot be in the name"),
    ],
)
def test_names_that_a_version_cannot_have(project: Project, name: str, message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        project.new_version(name, session="s")
    assert not project.path.exists()


# ------------------------------------------------------------ the tree


def test_the_tree_has_each_node_once_as_it_ran_last_with_its_mean_cost(project: Project) -> None:
    first = project.new_version("a", session="s")
    record(project, cell("aaaa", source="x = 1", seconds=3.0), version=first)
    record(project, cell("bbbb", "aaaa", count=2, audit=CLOCK), version=first)
    second = project.new_version("b", session="t")
    record(project, cell("aaaa", source="x = 1  # again", seconds=1.0), "t", version=second)
    record(project, cell("cccc", "aaaa", count=2, status="error"), "t", version=second)
    record(project, cell("dddd", "aaaa", count=3), "t")  # of no version
    tree = project.tree()
    assert tree.nodes[node_id("aaaa")] == TreeNode(
        id=node_id("aaaa"),
        parent=None,
        cell="x = 1  # again",
        cost=2.0,
        size=1000,
        execution_count=1,
        last_run=5.0,
    )
    assert tree.nodes[node_id("bbbb")].doubt == "reads the clock"
    assert tree.nodes[node_id("cccc")].doubt == "it failed"
    assert tree.nodes[node_id("cccc")].status == "error"
    assert [n[:4] for n in tree.children(node_id("aaaa"))] == ["bbbb", "cccc", "dddd"]
    assert [v.name for v in tree.through[node_id("aaaa")]] == ["a", "b"]
    assert node_id("dddd") not in tree.through


def test_a_node_whose_parent_is_lost_is_a_root_but_has_no_way(project: Project) -> None:
    record(project, cell("bbbb", "aaaa", count=2))
    record(project, cell("cccc", "bbbb", count=3))
    tree = project.tree()
    assert tree.children(None) == (node_id("bbbb"),)
    with pytest.raises(InvalidValue, match=r"what led to cell \[2\] is missing"):
        project.way_to("cccc")


def test_a_circle_is_damage(project: Project) -> None:
    record(project, cell("aaaa", "bbbb", count=2))
    record(project, cell("bbbb", "aaaa", count=3))
    with pytest.raises(CatalogError, match="its own ancestor"):
        project.tree()
    with pytest.raises(InvalidValue, match="not recorded completely"):
        project.way_to("bbbb")


# ------------------------------------------------------------ ways


def test_the_way_to_a_version_is_its_cells(project: Project) -> None:
    version = project.new_version("a", session="s")
    run = record(project, cell("aaaa"), version=version)
    record(project, cell("bbbb", "aaaa", count=2), version=version)
    again = project.new_version("a", session="t")
    project.recall(again, run, source="# typed again", cell_id="c")
    record(project, cell("cccc", "aaaa", count=2), "t", version=again)
    for ref in ("a", "a@1", "a@2"):
        assert project.way_to(ref) == project.cells(project.version(ref))
    assert project.way_to("a")[0].source == "# typed again"
    with pytest.raises(InvalidValue, match=r"no version 'a@3'"):
        project.way_to("a@3")


def test_the_way_to_a_node_keeps_to_the_version_that_led_there(project: Project) -> None:
    first = project.new_version("a", session="s")
    run = record(project, cell("aaaa", seconds=1.0), version=first)
    record(project, cell("aaaa", seconds=2.0), "other")
    second = project.new_version("b", session="s")
    project.recall(second, run, source="# recalled")
    record(project, cell("bbbb", "aaaa", count=2), version=second)
    record(project, cell("aaaa", seconds=3.0))
    way = project.way_to("bbbb")
    assert [(each.seconds, each.source, each.is_reused) for each in way] == [
        (1.0, "# recalled", True),
        (0.5, "print(2)", False),
    ]


def test_the_way_to_a_node_keeps_to_the_session_before_the_run(project: Project) -> None:
    record(project, cell("aaaa", count=1), "s")
    record(project, cell("aaaa", count=7, number=1), "t")
    record(project, cell("bbbb", "aaaa", count=2), "s")
    record(project, cell("aaaa", count=3, number=1), "s")
    assert counts(project.way_to("bbbb")) == [1, 2]
    assert counts(project.way_to("2")) == [1, 2]
    assert counts(project.way_to("[3]")) == [3]


def test_a_way_over_other_sessions_is_better_than_none(project: Project) -> None:
    record(project, cell("aaaa", count=4, number=1), "before")
    record(project, cell("bbbb", "aaaa", count=2), "s")
    record(project, cell("aaaa", count=9, number=1), "after")
    assert counts(project.way_to("bbbb")) == [4, 2]


def test_a_way_goes_through_the_very_run_a_doubtful_state_came_from(project: Project) -> None:
    record(project, cell("aaaa", count=1, audit=CLOCK), taint="t1")
    record(project, cell("aaaa", count=2, audit=CLOCK, number=1), taint="t2")
    record(project, cell("bbbb", "aaaa", count=3, number=2), taint="t1", parent_taint="t1")
    assert counts(project.way_to("bbbb")) == [1, 3]
    record(project, cell("cccc", "aaaa", count=4, number=2), taint="gone", parent_taint="gone")
    with pytest.raises(InvalidValue, match=r"the way to cccc .* what led to cell \[4\] is missing"):
        project.way_to("cccc")


def test_a_node_with_no_way_to_its_newest_state_has_one_to_an_older(project: Project) -> None:
    record(project, cell("aaaa", count=1), "s")
    record(project, cell("bbbb", "aaaa", count=2), "s")
    lost = {"taint": "gone", "parent_taint": "gone"}
    record(project, cell("bbbb", "aaaa", count=9, number=2), "t", **lost)  # type: ignore[arg-type]
    assert counts(project.way_to("bbbb")) == [1, 2]
    with pytest.raises(InvalidValue, match=r"what led to cell \[9\] is missing"):
        project.way_to("[9]")  # this run, and no other


def test_a_version_that_does_not_begin_at_the_root_gets_the_way_there(project: Project) -> None:
    record(project, cell("aaaa", count=1))
    version = project.new_version("late", session="s")
    record(project, cell("bbbb", "aaaa", count=2), version=version)
    assert nodes(project.cells(project.version("late"))) == ["bbbb"]
    assert nodes(project.way_to("late")) == ["aaaa", "bbbb"]
    lost = project.new_version("lost", session="s")
    record(project, cell("dddd", "eeee", count=2), version=lost)
    with pytest.raises(InvalidValue, match="the way to lost is not recorded completely"):
        project.way_to("lost")


def test_a_version_whose_cells_did_not_follow_each_other_gets_the_way_that_did(
    project: Project,
) -> None:
    record(project, cell("aaaa", count=1, audit=CLOCK), taint="t1")
    version = project.new_version("a", session="s")
    record(project, cell("aaaa", count=2, audit=CLOCK, number=1), taint="t2", version=version)
    record(
        project,
        cell("bbbb", "aaaa", count=3, number=2),
        taint="t1",
        parent_taint="t1",
        version=version,
    )
    assert counts(project.cells(project.version("a"))) == [2, 3]
    assert counts(project.way_to("a")) == counts(project.way_to("bbbb")) == [1, 3]


def test_a_first_cell_after_an_unknown_state_has_no_way(project: Project) -> None:
    record(project, cell("aaaa"), taint="t", parent_taint="t")
    with pytest.raises(InvalidValue, match="not recorded completely"):
        project.way_to("aaaa")


def test_a_version_is_meant_before_a_node(project: Project) -> None:
    version = project.new_version("bbbb", session="s")
    record(project, cell("aaaa"), version=version)
    record(project, cell("bbbb", "aaaa", count=2))
    assert nodes(project.way_to("bbbb")) == ["aaaa"]
    assert nodes(project.way_to("bbbb0")) == ["aaaa", "bbbb"]


# ------------------------------------------------------------ runs after a state


def test_runs_after_a_state_newest_first_and_each_once(project: Project) -> None:
    record(project, cell("aaaa", source="x = 1"))
    record(project, cell("bbbb", source="y = 1"))
    record(project, cell("aaaa", source="x = 1  # a comment"))
    again = record(project, cell("aaaa", source="x = 1", seconds=9.0))
    record(project, cell("cccc", source="z"), taint="t1")
    record(project, cell("cccc", source="z"), taint="t2")
    record(project, cell("dddd", source="1/0", status="error"), taint="t3")
    record(project, cell("eeee", "aaaa"))
    record(project, cell("ffff", source="f"), parent_taint="t")
    found = project.runs_after(node_id("00"), "")
    assert [(each.node[:4], each.taint, each.source) for each in found] == [
        ("cccc", "t2", "z"),
        ("cccc", "t1", "z"),
        ("aaaa", "", "x = 1"),
        ("aaaa", "", "x = 1  # a comment"),
        ("bbbb", "", "y = 1"),
    ]
    assert (found[2].execution, found[2].seconds) == (again, 9.0)
    assert nodes(project.runs_after(node_id("00"), "t")) == ["ffff"]
    assert project.runs_after(node_id("00"), "\udcff") == ()


def test_runs_that_did_the_same_keep_their_own_figures(project: Project) -> None:
    first = cell("aaaa", audit=FULL, seconds=1.0)
    same = replace(first, seconds=2.0, audit=replace(FULL, interrupts=99), source="# again")
    other = replace(first, audit=CLOCK, execution_count=5)
    runs = [record(project, each) for each in (first, same, other, first)]
    assert [project.lineage(run) for run in runs] == [first, same, other, first]
    assert project.nodes() == (first,)
