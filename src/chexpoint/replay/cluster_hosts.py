"""Which hosts of a cluster may be used, and for how much.  Pure decisions.

Several workers of Dask may be on one machine: they share its memory and its cores, and so do the
engines that they start.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from chexpoint.model import Bytes, EnvironmentInfo, NodeId, format_size
from chexpoint.replay.cluster import SCHEDULER, Member, MemberVersions


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """What a member has told of the machine that it is on."""

    machine: str
    """The same for all members that share memory and cores."""
    hostname: str
    cores: frozenset[int]
    """Those that it may use."""
    available_bytes: Bytes
    root: NodeId
    """The lineage of a fresh interpreter: it is another one where other packages are."""
    environment: EnvironmentInfo
    bandwidth: float = 0.0
    """Bytes a second between it and the store; 0 if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A member that may be used."""

    member: Member
    name: str
    """How it is called in reports."""
    facts: HostFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """A place for one engine."""

    number: int
    host: Host
    cores: frozenset[int]
    budget: Bytes
    """For its checkpoints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seating:
    """The places that there are, and what has to be said of hosts."""

    seats: tuple[Seat, ...]
    problems: tuple[str, ...] = ()
    """Of hosts that cannot be used at all, a sentence each."""
    notes: tuple[str, ...] = ()


def version_problems(
    members: Mapping[str, Member], versions: Mapping[str, MemberVersions], mine: MemberVersions
) -> dict[str, str]:
    """Return why members cannot run our code, by address: recordings are sent as they are here."""
    found = {}
    names = {SCHEDULER: "the scheduler"}
    names |= {address: f"host {told(member)}" for address, member in members.items()}
    for address, who in names.items():
        its = versions.get(address)
        if its is None:
            found[address] = f"{who} does not answer"
        elif not its.chex:
            found[address] = f"{who} has no CHEX: install chexpoint {mine.chex} there"
        elif its.chex != mine.chex:
            found[address] = f"{who} has chexpoint {its.chex}, and here is {mine.chex}"
        elif its.python != mine.python:
            found[address] = f"{who} runs Python {its.python}, and here is {mine.python}"
    return found


def told(member: Member) -> str:
    """Return how to call a member of which nothing is known yet."""
    is_named = member.name != member.address
    return f"{member.name} ({member.address})" if is_named else member.address


def host_names(members: Mapping[str, tuple[Member, str]]) -> dict[str, str]:
    """Return how to call hosts, by address: as their machine, and more if it has several members.

    Parameters
    ----------
    members
        With the name of the machine.
    """
    machines = [machine for _, machine in members.values()]
    names = {}
    for address, (member, machine) in members.items():
        rest = member.name if member.name != address else address.rpartition("://")[2]
        names[address] = machine if machines.count(machine) == 1 else f"{machine}/{rest}"
    return names


# ---------------------------------------------------------------- places


def seating(
    hosts: Iterable[Host],
    *,
    largest: Bytes,
    budget: float | None,
    most: int | None = None,
    taken: Collection[int] = (),
) -> Seating:
    """Return the places for engines.

    Parameters
    ----------
    largest
        The memory of the largest state: each engine has one.
    budget
        For the checkpoints on one machine; half of what is left by default.
    most
        How many engines there may be in all.
    taken
        Numbers of places that there are already.
    """
    groups: dict[tuple[str, frozenset[int]], list[Host]] = {}
    for host in hosts:
        groups.setdefault((host.facts.machine, host.facts.cores), []).append(host)
    found: list[tuple[Host, frozenset[int], Bytes]] = []
    problems, notes = [], []
    for (_, cores), group in groups.items():
        available = min(host.facts.available_bytes for host in group)
        wanted = [host for turn in range(_most_slots(group)) for host in _with_slot(group, turn)]
        count = min(len(wanted), available // max(1, largest))
        if count == 0:
            names = " and ".join(host.name for host in group)
            problems.append(
                f"host {names} has too little memory: {format_size(available)} is available, and "
                f"the largest state takes {format_size(largest)}"
            )
            continue
        if count < len(wanted):
            notes.append(
                f"host {group[0].name} runs {count} engines instead of {len(wanted)}: it has no "
                f"memory for more states of {format_size(largest)}"
            )
        left = available - count * largest
        share = int(min(left / 2 if budget is None else budget, left)) // count
        shares = shared_cores(cores, count)
        found += [(wanted[at], shares[at], share) for at in range(count)]
    numbers = iter(n for n in range(len(found) + len(taken)) if n not in set(taken))
    chosen = _spread(found)[:most]
    seats = tuple(
        Seat(number=next(numbers), host=host, cores=cores, budget=share)
        for host, cores, share in chosen
    )
    return Seating(seats=seats, problems=tuple(problems), notes=tuple(notes))


def shared_cores(cores: Collection[int], count: int) -> list[frozenset[int]]:
    """Return the cores of each of so many engines: none has a core of another, if that can be."""
    known = sorted(cores)
    if not known:
        return [frozenset()] * count
    if count > len(known):
        return [frozenset({known[at % len(known)]}) for at in range(count)]
    size = len(known)
    return [frozenset(known[at * size // count : (at + 1) * size // count]) for at in range(count)]


def _most_slots(group: Sequence[Host]) -> int:
    return max(host.member.slots for host in group)


def _with_slot(group: Sequence[Host], turn: int) -> list[Host]:
    return [host for host in group if host.member.slots > turn]


def _spread(
    found: Sequence[tuple[Host, frozenset[int], Bytes]],
) -> list[tuple[Host, frozenset[int], Bytes]]:
    """Return places so that the first ones are on as many hosts as possible."""
    seen: dict[str, int] = {}
    turns = []
    for each in found:
        machine = each[0].facts.machine
        turns.append(seen.get(machine, 0))
        seen[machine] = turns[-1] + 1
    return [each for _, each in sorted(zip(turns, found, strict=True), key=lambda pair: pair[0])]
