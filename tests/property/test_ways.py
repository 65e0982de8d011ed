"""Whatever is stored and wherever a worker is: on its way each cell finds what it read before."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chexpoint.graph import (
    NEVER,
    Bindings,
    Deed,
    GraphWay,
    PassOver,
    follow,
    way_to,
)
from chexpoint.model import (
    ArtifactId,
    CellAudit,
    CellLineage,
    CellVariables,
    Hint,
    NodeId,
    VariableGroup,
)

NAMES = ("a", "b", "c", "d")
ROOT = NodeId("root")


@st.composite
def cells(draw: st.DrawFn) -> tuple[CellVariables, float, bool]:
    """Draw what a cell does; names that it writes together share objects."""
    reads = draw(st.sets(st.sampled_from(NAMES), max_size=3))
    written = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=3))
    is_group = draw(st.booleans())
    groups = [tuple(sorted(written))] if is_group and written else [(name,) for name in written]
    deleted = draw(st.sets(st.sampled_from(NAMES), max_size=1)) - set(written)
    variables = CellVariables(
        reads=tuple(sorted(reads)),
        writes=tuple(VariableGroup(names=names, kinds=("int",) * len(names)) for names in groups),
        deleted=tuple(deleted),
        sticky=draw(st.sampled_from(["", "", "", "it changes the folder"])),
    )
    return variables, draw(st.floats(0, 10)), draw(st.booleans())


def path(drawn: list[tuple[CellVariables, float, bool]]) -> list[Deed]:
    at, deeds = Bindings(ROOT), []
    for number, (variables, seconds, is_doubtful) in enumerate(drawn, 1):
        # A cell reads only what is there, and whoever has a part of a group has it all.
        reads = tuple(name for name in variables.reads if name in at.variables)
        hints = (Hint(kind="time", what="it reads the clock"),) if is_doubtful else ()
        lineage = CellLineage(
            node=NodeId(f"n{number}"),
            parent=NodeId(f"n{number - 1}"),
            code=f"code {number}",
            strict="",
            number=number,
            execution_count=number,
            source=f"cell {number}",
            audit=CellAudit(hints=hints),
            seconds=seconds,
            size_bytes=0,
            variables=replace(variables, reads=reads),
        )
        deed = follow(at, lineage, run=f"run {number}")
        assert deed is not None
        deeds.append(deed)
        at = deed.after
    return deeds


def walk(deeds: list[Deed], start: int, absent: frozenset[str], way: GraphWay) -> dict[str, str]:
    """Do what a way says; return what each variable of the worker is in the end."""
    places = [Bindings(ROOT), *(deed.after for deed in deeds)]
    there = places[start].variables
    mine: dict[str, str] = {k: v for k, v in there.items() if k not in absent}
    at = start
    for move in way.moves:
        if isinstance(move, PassOver):
            assert move.number >= at
            at = move.number
            for name in move.unbind:
                del mine[name]
            for artifact, names in move.load:
                mine |= dict.fromkeys(names, artifact)
            there = places[at].variables
            assert all(there.get(name) == artifact for name, artifact in mine.items())
            assert move.absent == there.keys() - mine.keys()
            continue
        assert move.number == at + 1
        deed = deeds[at]
        for read in deed.operation.reads:
            assert mine.get(read.name) == places[at].variables[read.name], "it reads another one"
        for name in deed.variables.deleted:
            mine.pop(name, None)
        for made in deed.artifacts:
            mine |= dict.fromkeys(made.group.names, made.id)
        at += 1
    assert at == len(deeds)
    return mine


@given(st.data(), st.lists(cells(), min_size=1, max_size=7))
def test_cells_find_what_they_read_and_what_is_needed_is_there(
    data: st.DataObject, drawn: list[tuple[CellVariables, float, bool]]
) -> None:
    deeds = path(drawn)
    ids = sorted({made.id for deed in deeds for made in deed.artifacts})
    stored = data.draw(st.sets(st.sampled_from(ids)) if ids else st.just(set[ArtifactId]()))
    start = data.draw(st.integers(0, len(deeds)))
    before = deeds[start - 1].after.variables if start else {}
    lost = data.draw(st.sets(st.sampled_from(sorted(before))) if before else st.just(set[str]()))
    absent = {name for name in before if before[name] in {before[each] for each in lost}}
    last = deeds[-1].after
    needs = last.closure(data.draw(st.sets(st.sampled_from(NAMES))))

    def load_s(ident: ArtifactId) -> float:
        return 1.0 if ident in stored else NEVER

    found, provident = (
        way_to(
            deeds,
            Bindings(ROOT),
            start=start,
            absent=frozenset(absent),
            needs=needs,
            load_s=load_s,
            spare_s=spare_s,
        )
        for spare_s in (0.0, 0.5)
    )
    if found is None or provident is None:
        # From the beginning there always is one.
        assert start > 0
        assert found is provident
        return
    assert found.seconds <= provident.seconds <= found.seconds + 0.5
    for way in (found, provident):
        mine = walk(deeds, start, frozenset(absent), way)
        for name in needs:
            assert mine.get(name) == last.variables[name]
        run = {move.number for move in way.moves if not isinstance(move, PassOver)}
        if way.moves:
            sticky = {n for n, d in enumerate(deeds, 1) if d.operation.sticky and n > start}
            assert sticky <= run


@pytest.mark.parametrize(
    ("seconds", "is_stored", "later", "is_there"),
    [
        (0.1, False, None, True),
        (3.0, False, None, False),
        (0.1, True, None, False),
        (0.1, False, {"a", "c"}, True),
        (0.1, False, {"b", "c"}, False),
    ],
)
def test_what_is_cheap_and_could_not_be_loaded_later_is_brought_at_once(
    seconds: float, is_stored: bool, later: set[str] | None, is_there: bool
) -> None:
    small, large = (
        CellVariables(reads=(), writes=(VariableGroup(names=(name,), kinds=("int",)),))
        for name in "ab"
    )
    deeds = path([(small, seconds, False), (large, 5.0, False)])
    stored = {made.id for deed in deeds[not is_stored :] for made in deed.artifacts}
    found = way_to(
        deeds,
        Bindings(ROOT),
        start=0,
        absent=frozenset(),
        needs={"b"},
        load_s=lambda ident: 0.01 if ident in stored else NEVER,
        spare_s=0.5,
        later=later,
    )
    assert found is not None
    mine = walk(deeds, 0, frozenset(), found)
    assert ("a" in mine) is is_there
    assert 2 not in {move.number for move in found.moves if not isinstance(move, PassOver)}


@given(st.lists(cells(), min_size=1, max_size=6))
def test_operations_have_one_name_wherever_they_run(
    drawn: list[tuple[CellVariables, float, bool]],
) -> None:
    first, second = path(drawn), path(drawn)
    for one, other in zip(first, second, strict=True):
        assert one.operation.id == other.operation.id
    # A cell of other code in front changes the names of what depends on it, and of nothing else.
    variables = CellVariables(writes=(VariableGroup(names=("z",), kinds=("int",)),))
    moved = path([(variables, 1.0, False), *drawn])[1:]
    for one, other in zip(first, moved, strict=True):
        assert len(one.artifacts) == len(other.artifacts)
