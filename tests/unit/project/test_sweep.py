"""Versions that begin alike follow each other, stay together, and none is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chexpoint.errors import InvalidValue
from chexpoint.project.batch_plan import VersionTask, plan_versions
from chexpoint.project.parameters import combinations
from chexpoint.project.sources import SourceCell, SourceFile
from chexpoint.project.sweep import computed_cells, divide, in_turns

TAGGED = frozenset({"parameters"})


def file(*cells: str | tuple[str], name: str = "a.ipynb") -> SourceFile:
    """Return a notebook; a cell in a tuple has the tag."""
    return SourceFile(
        path=Path("/nowhere") / name,
        kind="notebook",
        cells=tuple(
            SourceCell(source=cell, number=number)
            if isinstance(cell, str)
            else SourceCell(source=cell[0], number=number, tags=TAGGED)
            for number, cell in enumerate(cells, start=1)
        ),
    )


def tasks_of(source: SourceFile, *options: str) -> tuple[VersionTask, ...]:
    return plan_versions([source], combinations(options))


TWO_PLACES = file("load()", ("n = 1",), "features(n)", ("lr = 1",), "fit(lr)")


def values(tasks: Sequence[VersionTask]) -> list[str]:
    return [",".join(each.text for each in task.parameters) for task in tasks]


def test_parameters_are_set_below_their_defaults_and_late_ones_vary_fastest() -> None:
    turns = in_turns(tasks_of(TWO_PLACES, "lr=0.1,0.2", "n=5,6"))
    assert [cell.source for cell in turns[0].task.cells()] == [
        *("load()", "n = 1", "# Parameters\nn = 5", "features(n)"),
        *("lr = 1", "# Parameters\nlr = 0.1", "fit(lr)"),
    ]
    assert values([turn.task for turn in turns]) == ["0.1,5", "0.2,5", "0.1,6", "0.2,6"]
    assert [turn.keep for turn in turns] == [(2, 5), (), (5,), ()]


def test_a_parameter_without_a_default_is_set_in_the_first_place() -> None:
    (task,) = tasks_of(TWO_PLACES, "other=1", "lr=2")
    sources = [cell.source for cell in task.cells()]
    assert sources[2] == "# Parameters\nother = 1"
    assert sources[5] == "# Parameters\nlr = 2"
    assert task.overridden() == ()


def test_what_is_set_again_after_its_place_is_told() -> None:
    source = file(("n = 1",), "n = 2", ("lr = 1",), "fit(lr, n)")
    (task,) = tasks_of(source, "n=5", "lr=2")
    assert task.overridden() == ("n",)


def test_shared_cells_are_counted_once() -> None:
    tasks = tasks_of(TWO_PLACES, "lr=0.1,0.2", "n=5,6")
    assert sum(len(task.cells()) for task in tasks) == 28
    assert computed_cells(tasks) == 2 + 2 * (3 + 2 * 2)
    assert computed_cells(()) == 0
    assert in_turns(()) == ()


def test_files_keep_their_order_and_share_nothing() -> None:
    """One that is given twice is to be run twice."""
    files = [file("x = 1"), file(name="empty.ipynb"), file("x = 1", name="b.ipynb"), file("x = 1")]
    tasks = plan_versions(files, combinations([]))
    assert [turn.task for turn in in_turns(tasks)] == list(tasks)
    assert [turn.keep for turn in in_turns(tasks)] == [()] * 4
    assert computed_cells(tasks) == 3
    assert sum(len(group) for group in divide(tasks, 2)) == 4


def test_values_that_cannot_be_hashed_are_no_trouble() -> None:
    tasks = tasks_of(file(("x = 1",), "use(x)"), 'x=[1,2],{"a": 1}')
    assert [len(group) for group in divide(tasks, 2)] == [1, 1]


def test_names_are_all_different() -> None:
    long = "x" * 200
    found = tasks_of(file("x = 1"), f'x=a/b,a-b,a?b,"{long}1","{long}2"')
    names = [task.name for task in found]
    assert len(set(names)) == 5
    assert max(map(len, names)) <= 100


def test_hosts_get_versions_that_part_late() -> None:
    """What is set first tells hosts apart: then its cells are computed once in all."""
    source = file(("n = 1",), *(f"long({at})" for at in range(20)), ("lr = 1",), "fit(lr)")
    tasks = tasks_of(source, "lr=1:8", "n=1:4")
    groups = divide(tasks, 4)
    assert [len(group) for group in groups] == [8] * 4
    assert all(len({task.parameters[1].value for task in group}) == 1 for group in groups)
    assert sum(computed_cells(group) for group in groups) == computed_cells(tasks) + 3


def test_what_cells_take_makes_groups_uneven() -> None:
    source = file(("n = 1",), "work(n)")
    tasks = tasks_of(source, "n=1:4")

    def cost(task: VersionTask, at: int) -> float:
        return 30.0 if at == 2 and task.parameters[0].value == 4 else 1.0

    assert sorted(values(group) for group in divide(tasks, 2, cost=cost)) == [
        ["1", "2", "3"],
        ["4"],
    ]


def test_hosts_must_be_there() -> None:
    with pytest.raises(InvalidValue, match="0 hosts"):
        divide(tasks_of(file("x = 1")), 0)
    assert divide((), 3) == ()


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=4),
    st.lists(st.integers(0, 2), min_size=5, max_size=5),
    st.integers(1, 5),
)
def test_every_version_is_recorded_once_whatever_is_swept(
    counts: list[int], gaps: list[int], hosts: int
) -> None:
    cells: list[str | tuple[str]] = []
    for at, gap in zip(range(len(counts)), gaps, strict=False):
        cells += [f"work({at}, {each})" for each in range(gap)]
        cells.append((f"p{at} = 0",))
    source = file(*cells, "end()")
    tasks = tasks_of(source, *(f"p{at}=1:{most}" for at, most in enumerate(counts)))
    everyone = Counter(task.name for task in tasks)
    turns = in_turns(tasks)
    assert Counter(turn.task.name for turn in turns) == everyone
    run = 0
    kept: list[list[str]] = []
    for turn in turns:
        sources = [cell.source for cell in turn.task.cells()]
        kept = [start for start in kept if sources[: len(start)] == start]
        begin = max((len(start) for start in kept), default=0)
        assert all(begin < length < len(sources) for length in turn.keep)
        kept += [sources[:length] for length in turn.keep]
        run += len(sources) - begin
    assert run == computed_cells(tasks)
    groups = divide(tasks, hosts)
    assert 1 <= len(groups) <= hosts
    assert Counter(task.name for group in groups for task in group) == everyone
    assert max(computed_cells(group) for group in groups) <= computed_cells(tasks)
