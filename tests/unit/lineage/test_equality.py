"""When two states are the same, and why not."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chexpoint.errors import InvalidValue
from chexpoint.lineage.equality import (
    Tolerance,
    differences,
    equal_states,
    lineage_digest,
    strict_digest,
)
from chexpoint.model import CellAudit, CellLineage, Event, Input, InputKind, NodeId

MIB = 2**20
ROOT = NodeId("root")


def read(name: str, *digests: str, kind: InputKind = "file") -> Input:
    return Input(kind=kind, name=name, digests=digests)


def event(process: str, op: str, name: str, digest: str = "") -> Event:
    return Event(process=process, op=op, name=name, digest=digest)


def cell(
    *inputs: Input,
    events: tuple[Event, ...] = (),
    parent: NodeId = ROOT,
    code: str = "code",
    seconds: float = 1.0,
    size_bytes: int = MIB,
    interrupts: int = 0,
) -> CellLineage:
    return CellLineage(
        node=lineage_digest(parent, code, inputs),
        parent=parent,
        code=code,
        strict=strict_digest(parent, code, events),
        number=1,
        execution_count=1,
        source="",
        audit=CellAudit(inputs=inputs, events=events, interrupts=interrupts),
        seconds=seconds,
        size_bytes=size_bytes,
    )


DATA = read("data.csv", "1")

_TEXTS = st.text(max_size=3)
_INPUTS = st.lists(
    st.builds(
        Input,
        kind=st.sampled_from(["file", "folder", "variable", "network", "packages"]),
        name=_TEXTS,
        digests=st.lists(_TEXTS, max_size=2).map(tuple),
    ),
    max_size=3,
    unique_by=lambda i: (i.kind, i.name),
)
_EVENTS = st.lists(
    st.builds(
        Event,
        process=st.sampled_from(["0", "0.1", "0.1.1"]),
        op=st.sampled_from(["read", "write"]),
        name=st.sampled_from("ab"),
        digest=st.sampled_from(["", "1"]),
    ),
    max_size=5,
)
_STATES = st.builds(
    lambda inputs, events, fields: cell(*inputs, events=tuple(events), **fields),
    _INPUTS,
    _EVENTS,
    st.fixed_dictionaries(
        {
            "code": st.sampled_from("ab"),
            "parent": st.sampled_from([NodeId("p"), NodeId("q")]),
            "seconds": st.floats(0, 1e6),
            "size_bytes": st.integers(0, 2**40),
            "interrupts": st.integers(0, 2),
        }
    ),
)


@pytest.mark.slow
@given(_INPUTS, st.randoms(use_true_random=False))
def test_the_order_of_inputs_does_not_matter(inputs: list[Input], rng: random.Random) -> None:
    shuffled = inputs.copy()
    rng.shuffle(shuffled)
    assert lineage_digest(ROOT, "code", inputs) == lineage_digest(ROOT, "code", shuffled)


@pytest.mark.slow
@given(_INPUTS, _INPUTS)
def test_other_inputs_give_another_lineage(a: list[Input], b: list[Input]) -> None:
    def canonical(inputs: list[Input]) -> list[tuple[str, str, tuple[str, ...]]]:
        return sorted((i.kind, i.name, i.digests) for i in inputs)

    is_same = lineage_digest(ROOT, "code", a) == lineage_digest(ROOT, "code", b)
    assert is_same is (canonical(a) == canonical(b))


def test_each_part_of_the_lineage_counts() -> None:
    lineages = {
        lineage_digest(ROOT, "code", [DATA]),
        lineage_digest(NodeId("other"), "code", [DATA]),
        lineage_digest(ROOT, "other", [DATA]),
        lineage_digest(ROOT, "code", []),
        lineage_digest(ROOT, "code", [read("other.csv", "1")]),
        lineage_digest(ROOT, "code", [read("data.csv", "2")]),
        lineage_digest(ROOT, "code", [read("data.csv", "1", "2")]),
        lineage_digest(ROOT, "code", [read("data.csv", "1", kind="folder")]),
    }
    assert len(lineages) == 8


def test_names_that_are_not_utf8_have_a_lineage() -> None:
    name = b"data\xff".decode("utf-8", "surrogateescape")
    assert lineage_digest(ROOT, "code", [read(name, "1")]) != lineage_digest(ROOT, "code", [DATA])


@pytest.mark.slow
@given(_EVENTS, st.randoms(use_true_random=False))
def test_the_interleaving_of_processes_does_not_matter(
    events: list[Event], rng: random.Random
) -> None:
    queues = [[e for e in events if e.process == p] for p in ("0", "0.1", "0.1.1")]
    mixed = []
    while any(queues):
        mixed.append(rng.choice([queue for queue in queues if queue]).pop(0))
    assert strict_digest(ROOT, "code", mixed) == strict_digest(ROOT, "code", events)


def test_the_order_within_a_process_counts() -> None:
    a, b = event("0", "read", "a", "1"), event("0", "read", "b", "2")
    child = event("0.1", "read", "b", "2")
    digests = {
        strict_digest(ROOT, "code", events)
        for events in ([], [a], [a, b], [b, a], [a, child], [a, a], [event("0", "read", "a", "2")])
    }
    assert len(digests) == 7
    assert strict_digest("other", "code", [a]) != strict_digest(ROOT, "code", [a])
    assert strict_digest(ROOT, "other", [a]) != strict_digest(ROOT, "code", [a])


@pytest.mark.slow
@given(_STATES, st.booleans(), st.booleans())
def test_a_state_is_equal_to_itself(
    state: CellLineage, strict: bool, count_interrupts: bool
) -> None:
    tight = Tolerance(factor=1, floor_s=0, floor_bytes=0)
    options = {"strict": strict, "count_interrupts": count_interrupts}
    assert differences(state, state, tolerance=tight, **options) == []


@pytest.mark.slow
@given(_STATES, _STATES, st.booleans(), st.booleans())
def test_equality_is_symmetric(
    a: CellLineage, b: CellLineage, strict: bool, count_interrupts: bool
) -> None:
    there = differences(a, b, strict=strict, count_interrupts=count_interrupts)
    back = differences(b, a, strict=strict, count_interrupts=count_interrupts)
    assert len(there) == len(back)
    assert equal_states(a, b, strict=strict, count_interrupts=count_interrupts) is not bool(there)


@pytest.mark.slow
@given(_STATES, _STATES, st.booleans())
def test_states_with_other_lineages_are_never_equal(
    a: CellLineage, b: CellLineage, strict: bool
) -> None:
    anything = Tolerance(factor=float("inf"), floor_s=1e9, floor_bytes=2**50)
    is_same = (a.strict == b.strict) if strict else (a.node == b.node)
    assert equal_states(a, b, tolerance=anything, strict=strict) is is_same


@pytest.mark.parametrize(
    ("a", "b", "reasons"),
    [
        (cell(), cell(code="other"), ["The code of the two cells differs."]),
        (
            cell(),
            cell(parent=NodeId("other")),
            ["The cells before them differ, or what those read."],
        ),
        (
            cell(DATA),
            cell(read("data.csv", "2")),
            ["The file data.csv was read with other contents."],
        ),
        (cell(DATA), cell(), ["Only one of the cells reads the file data.csv."]),
        (
            cell(DATA),
            cell(read("data.csv", "absent")),
            ["The file data.csv existed for only one of the cells."],
        ),
        (
            cell(read(".", "1", kind="folder")),
            cell(read(".", "2", kind="folder")),
            ["The folder . had other entries."],
        ),
        (
            cell(read("HOME", "1", kind="variable")),
            cell(read("HOME", "2", kind="variable")),
            ["The environment variable HOME had another value."],
        ),
        (
            cell(read("", "volatile", kind="network")),
            cell(),
            ["Only one of the cells uses the network."],
        ),
        (
            cell(read("", "1", kind="packages")),
            cell(read("", "2", kind="packages")),
            ["The installed packages were not the same."],
        ),
        (
            cell(),
            cell(*(read(name, "1") for name in "abcde")),
            [
                "Only one of the cells reads the file a.",
                "Only one of the cells reads the file b.",
                "Only one of the cells reads the file c.",
                "2 more inputs differ.",
            ],
        ),
        (cell(seconds=3), cell(seconds=30), ["The cells took 3.0 s and 30.0 s, which is too far"]),
        (
            cell(size_bytes=100 * MIB),
            cell(size_bytes=300 * MIB),
            ["The states have 100 MB and 300 MB, which is too far"],
        ),
    ],
)
def test_each_reason_is_a_sentence(a: CellLineage, b: CellLineage, reasons: list[str]) -> None:
    found = differences(a, b)
    assert [sentence[: len(reason)] for sentence, reason in zip(found, reasons, strict=True)] == (
        reasons
    )
    assert all(sentence.endswith(".") for sentence in found)


def test_all_reasons_are_given() -> None:
    a = cell(DATA, seconds=1, size_bytes=MIB)
    b = cell(seconds=100, size_bytes=1000 * MIB, interrupts=2, code="other", parent=NodeId("x"))
    assert len(differences(a, b)) == 5
    assert len(differences(a, b, count_interrupts=True)) == 6


def test_strict_equality_goes_by_the_order_of_events() -> None:
    first, second = event("0", "read", "a", "1"), event("0", "write", "b")
    inputs = (read("a", "1"),)
    a, b = cell(*inputs, events=(first, second)), cell(*inputs, events=(second, first))
    assert equal_states(a, b)
    assert differences(a, b, strict=True) == [
        "Process 0 did read a in one cell and write b in the other."
    ]
    assert differences(a, cell(*inputs, events=(first,)), strict=True) == [
        "Process 0 did write b in one cell and nothing in the other."
    ]
    changed = (event("0", "read", "a", "2"), second)
    assert differences(a, cell(*inputs, events=changed), strict=True) == [
        "Process 0 did read a with other contents."
    ]


def test_a_lineage_that_differs_without_a_visible_reason_still_differs() -> None:
    a = cell()
    b = CellLineage(**{**{name: getattr(a, name) for name in a.__slots__}, "node": NodeId("x")})
    assert differences(a, b) == ["The lineages differ in something before these cells."]


def test_interrupts_count_only_if_asked_and_only_when_one_had_none() -> None:
    calm, rough, rougher = cell(), cell(interrupts=1), cell(interrupts=9)
    assert equal_states(calm, rough)
    assert not equal_states(calm, rough, count_interrupts=True)
    assert equal_states(rough, rougher, count_interrupts=True)


def test_similar_costs_are_within_the_factor_or_the_floor() -> None:
    tolerance = Tolerance()
    assert tolerance.is_similar_cost(10, 20)
    assert not tolerance.is_similar_cost(10, 20.1)
    assert tolerance.is_similar_cost(0, 1)
    assert not tolerance.is_similar_cost(0, 1.1)
    assert tolerance.is_similar_size(0, 64 * MIB)
    assert not tolerance.is_similar_size(0, 64 * MIB + 1)
    assert tolerance.is_similar_size(100 * MIB, 200 * MIB)
    assert not tolerance.is_similar_size(100 * MIB, 201 * MIB)


@pytest.mark.parametrize("factor", [0.9, -1, float("nan")])
def test_a_factor_below_one_is_refused(factor: float) -> None:
    with pytest.raises(InvalidValue, match="1 or more"):
        Tolerance(factor=factor)


def test_negative_floors_are_refused() -> None:
    with pytest.raises(InvalidValue, match="0 or more"):
        Tolerance(floor_s=-1)
    with pytest.raises(InvalidValue, match="0 or more"):
        Tolerance(floor_bytes=-1)
