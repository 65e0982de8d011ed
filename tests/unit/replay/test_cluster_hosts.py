"""Which hosts are used, for how much, and how they are called."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chexpoint.model import EnvironmentInfo, NodeId
from chexpoint.replay.cluster import SCHEDULER, Member, MemberVersions
from chexpoint.replay.cluster_hosts import (
    Host,
    HostFacts,
    host_names,
    seating,
    shared_cores,
    version_problems,
)

MB = 2**20
MINE = MemberVersions(python="3.11", chex="1.0")


def member(address: str = "tcp://a:1", *, name: str = "", slots: int = 1) -> Member:
    return Member(address=address, name=name or address, slots=slots)


def host(
    address: str = "tcp://a:1",
    *,
    machine: str = "a",
    slots: int = 1,
    cores: int = 2,
    available: int = 1000 * MB,
) -> Host:
    facts = HostFacts(
        machine=machine,
        hostname=machine,
        cores=frozenset(range(cores)),
        available_bytes=available,
        root=NodeId("root"),
        environment=EnvironmentInfo(),
    )
    return Host(member=member(address, slots=slots), name=address, facts=facts)


# ---------------------------------------------------------------- who may take part


@pytest.mark.parametrize(
    ("its", "told"),
    [
        (MemberVersions(python="3.11"), "has no CHEX"),
        (MemberVersions(python="3.11", chex="0.9"), "has chexpoint 0.9, and here is 1.0"),
        (MemberVersions(python="3.12", chex="1.0"), "runs Python 3.12, and here is 3.11"),
        (None, "does not answer"),
    ],
)
def test_a_host_that_cannot_understand_us_is_named(its: MemberVersions | None, told: str) -> None:
    known = {SCHEDULER: MINE, **({} if its is None else {"tcp://a:1": its})}
    found = version_problems({"tcp://a:1": member(name="alpha")}, known, MINE)
    assert list(found) == ["tcp://a:1"]
    assert found["tcp://a:1"].startswith("host alpha (tcp://a:1) ")
    assert told in found["tcp://a:1"]


def test_a_scheduler_without_chex_is_named_too() -> None:
    known = {SCHEDULER: MemberVersions(python="3.11"), "tcp://a:1": MINE}
    found = version_problems({"tcp://a:1": member()}, known, MINE)
    assert list(found.values()) == ["the scheduler has no CHEX: install chexpoint 1.0 there"]


def test_hosts_are_called_as_their_machine_unless_it_has_several() -> None:
    names = host_names(
        {
            "tcp://a:1": (member("tcp://a:1"), "alpha"),
            "tcp://b:1": (member("tcp://b:1", name="first"), "beta"),
            "tcp://b:2": (member("tcp://b:2"), "beta"),
        }
    )
    assert list(names.values()) == ["alpha", "beta/first", "beta/b:2"]


# ---------------------------------------------------------------- memory and cores


def test_each_engine_has_room_for_the_largest_state_and_a_share_of_the_rest() -> None:
    found = seating([host(slots=4)], largest=100 * MB, budget=None)
    assert [seat.budget for seat in found.seats] == [(1000 - 400) // 2 // 4 * MB] * 4
    assert [sorted(seat.cores) for seat in found.seats] == [[0], [1], [0], [1]]


def test_members_on_one_machine_share_its_memory_and_cores() -> None:
    hosts = [host("tcp://a:1", slots=1), host("tcp://a:2", slots=1)]
    found = seating(hosts, largest=100 * MB, budget=300 * MB)
    assert [seat.budget for seat in found.seats] == [150 * MB, 150 * MB]
    assert [sorted(seat.cores) for seat in found.seats] == [[0], [1]]


def test_a_machine_runs_no_more_engines_than_it_has_memory_for() -> None:
    found = seating([host(slots=8)], largest=300 * MB, budget=None)
    assert len(found.seats) == 3
    assert "runs 3 engines instead of 8" in found.notes[0]


def test_a_machine_that_cannot_hold_one_state_is_named() -> None:
    hosts = [host("tcp://a:1", available=50 * MB), host("tcp://b:1", machine="b")]
    found = seating(hosts, largest=100 * MB, budget=None)
    assert [seat.host.name for seat in found.seats] == ["tcp://b:1"]
    assert found.problems[0].startswith("host tcp://a:1 has too little memory: ")


def test_a_budget_is_never_more_than_there_is() -> None:
    found = seating([host()], largest=100 * MB, budget=float("inf"))
    assert [seat.budget for seat in found.seats] == [900 * MB]


def test_few_engines_are_on_as_many_machines_as_possible() -> None:
    hosts = [host(f"tcp://{name}:1", machine=name, slots=2) for name in "abc"]
    found = seating(hosts, largest=MB, budget=None, most=3)
    assert {seat.host.facts.machine for seat in found.seats} == {"a", "b", "c"}
    more = seating(hosts[:1], largest=MB, budget=None, taken=[0, 2])
    assert [seat.number for seat in more.seats] == [1, 3]


@settings(deadline=None)
@given(st.frozensets(st.integers(0, 63), min_size=1), st.integers(1, 80))
def test_cores_are_shared_out_evenly(cores: frozenset[int], count: int) -> None:
    shares = shared_cores(cores, count)
    assert len(shares) == count
    assert all(share and share <= cores for share in shares)
    if count <= len(cores):
        assert frozenset().union(*shares) == cores
        assert sum(map(len, shares)) == len(cores)
        assert max(map(len, shares)) - min(map(len, shares)) <= 1
