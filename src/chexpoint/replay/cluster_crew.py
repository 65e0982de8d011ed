"""The hosts of a cluster that take part in a replay: they are looked at before they are used."""

from __future__ import annotations

import itertools
import pickle
import platform
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from chexpoint import __version__
from chexpoint.errors import ChexError, ClusterError
from chexpoint.lineage import Present, default_cache_folder, root_node
from chexpoint.model import Bytes, EnvironmentInfo, NodeId, Recording, Seconds
from chexpoint.package import environment_differences, environment_info
from chexpoint.replay.cluster import Cluster, Ended, Member, MemberVersions
from chexpoint.replay.cluster_hosts import (
    Host,
    HostFacts,
    Seat,
    Seating,
    host_names,
    seating,
    told,
    version_problems,
)
from chexpoint.replay.cluster_part import leave

# How long hosts may take to take everything in: before the start, and while others work already.
_BOARD_S: Seconds = 120.0
_JOIN_S: Seconds = 20.0
_LEAVE_S: Seconds = 10.0
_SHOWN = 3
_MOST_DISMISSALS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The environment that hosts should have."""

    roots: frozenset[NodeId]
    """Lineages of a fresh interpreter in it."""
    environment: EnvironmentInfo
    whose: str

    @classmethod
    def of(cls, recording: Recording) -> Wanted:
        """Return that of a recording; of this machine, if it does not say."""
        first = {version.path[0] for version in recording.tree.versions}
        recorded = recording.environment
        return cls(
            roots=frozenset(recording.cells[node].lineage.parent for node in first),
            environment=recorded if recorded.packages else environment_info(),
            whose="that the versions were recorded with",
        )

    @classmethod
    def here(cls, folder: Path) -> Wanted:
        """Return that of this machine."""
        present = Present(str(folder), cache_folder=default_cache_folder())
        return cls(
            roots=frozenset({root_node(present.packages())}),
            environment=environment_info(),
            whose="of this machine",
        )


class Crew:
    """The hosts and the places for engines on them; belongs to one thread.

    Parameters
    ----------
    wanted
        What hosts should be like.
    load
        What each host has to know; is sent to it.
    board
        What takes it in there.
    largest
        The memory of the largest state.
    budget
        For the checkpoints on one machine; None is half of what is left there.
    most
        How many engines there may be.
    note
        Called with what the user should know.
    """

    def __init__(
        self,
        cluster: Cluster,
        wanted: Wanted,
        load: object,
        *,
        board: Callable[[str, bytes], HostFacts],
        largest: Bytes,
        budget: float | None,
        most: int | None,
        note: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._wanted = wanted
        self._board = board
        self._data = pickle.dumps(load, protocol=pickle.HIGHEST_PROTOCOL)
        self._largest, self._budget, self._most = largest, budget, most
        self._note = note
        self._jobs = itertools.count(1)
        self._looked_at: set[str] = set()
        self._dismissals: dict[str, int] = {}
        self.hosts: dict[str, Host] = {}
        """By address; those that are lost as well."""
        self.seats: dict[int, Seat] = {}
        """By number; of hosts that are there."""

    def new_job(self) -> int:
        """Return a number that no job has."""
        return next(self._jobs)

    def gather(self) -> None:
        """Take in the hosts that there are; to be called once, before anything runs.

        Raises
        ------
        ClusterError
            If there are none, or one is not fit: it is named.
        """
        members = self._cluster.members()
        if not members:
            raise ClusterError(
                f"the scheduler {self._cluster.address} has no workers: start some with "
                f"'dask worker {self._cluster.address}'"
            )
        problems = self._enlist(members, _BOARD_S)
        if problems:
            raise ClusterError("; ".join(problems[:_SHOWN]) + _more(problems))
        if not self.seats:
            raise ClusterError("no host can run an engine: give --workers 1 or more")

    def look_again(self) -> set[str]:
        """Take in hosts that have come, and return the addresses of those that have gone.

        Raises
        ------
        ClusterError
            If the scheduler does not answer.
        """
        members = self._cluster.members()
        gone = {address for address in self._present() if address not in members}
        for address in gone:
            self.dismiss(address)
        self._looked_at &= members.keys()  # who comes back is new
        fresh = {a: member for a, member in members.items() if a not in self._looked_at}
        if fresh:
            for problem in self._enlist(fresh, _JOIN_S):
                self._note(f"{problem}: it is left out")
        return gone

    def dismiss(self, address: str) -> None:
        """Use a host no more; one that was started again is taken in again, a few times."""
        self.seats = {n: seat for n, seat in self.seats.items() if _address(seat) != address}
        self._dismissals[address] = self._dismissals.get(address, 0) + 1
        if self._dismissals[address] <= _MOST_DISMISSALS:
            self._looked_at.discard(address)

    def part_ways(self) -> None:
        """Have the hosts stop, and forget the replay; wait for that, but not for long."""
        self._cluster.stop_all()
        jobs = {self.new_job(): self.hosts[address].member for address in self._present()}
        for job, member in jobs.items():
            self._cluster.start(job, member, leave)
        until = time.monotonic() + _LEAVE_S
        while jobs and (event := self._cluster.next_event(until - time.monotonic())) is not None:
            if isinstance(event, Ended):
                jobs.pop(event.job, None)

    def _present(self) -> set[str]:
        return {_address(seat) for seat in self.seats.values()}

    # ------------------------------------------------------------ looking at hosts

    def _enlist(self, members: Mapping[str, Member], within_s: Seconds) -> list[str]:
        """Give places to hosts; return what is wrong with others, a sentence each."""
        self._looked_at |= members.keys()
        mine = MemberVersions(
            python=".".join(platform.python_version_tuple()[:2]), chex=__version__
        )
        wrong = version_problems(members, self._cluster.versions(), mine)
        fit = {address: member for address, member in members.items() if address not in wrong}
        facts, failed = self._boarded(fit, within_s)
        problems = [*wrong.values(), *failed]
        for seat in self.seats.values():
            facts.setdefault(_address(seat), seat.host.facts)
        known = {
            address: (members.get(address) or self.hosts[address].member, each.hostname)
            for address, each in facts.items()
        }
        names = host_names(known)
        fresh = [
            Host(member=fit[address], name=names[address], facts=facts[address])
            for address in fit
            if address in facts
        ]
        for host in fresh:
            self.hosts[host.member.address] = host
            self._compare(host)
        found = self._seated(fresh)
        for text in found.notes:
            self._note(text)
        self.seats |= {seat.number: seat for seat in found.seats}
        return [*problems, *found.problems]

    def _seated(self, hosts: Iterable[Host]) -> Seating:
        most = None if self._most is None else max(0, self._most - len(self.seats))
        return seating(
            hosts, largest=self._largest, budget=self._budget, most=most, taken=self.seats
        )

    def _boarded(
        self, members: Mapping[str, Member], within_s: Seconds
    ) -> tuple[dict[str, HostFacts], list[str]]:
        """Bring what is needed to hosts; return what they are like, and who cannot be used."""
        jobs = {}
        facts: dict[str, HostFacts] = {}
        problems = []
        for address, member in members.items():
            try:
                data = self._cluster.send(member, self._data)
            except ClusterError as error:
                problems.append(f"host {told(member)}: {error}")
                continue
            job = self.new_job()
            jobs[job] = address
            self._cluster.start(job, member, self._board, data)
        others = []
        until = time.monotonic() + within_s
        while jobs:
            event = self._cluster.next_event(until - time.monotonic())
            if event is None:
                break
            if not isinstance(event, Ended) or event.job not in jobs:
                others.append(event)
                continue
            address = jobs.pop(event.job)
            try:
                facts[address] = self._cluster.result(event.job)
            except (ChexError, OSError) as error:
                problems.append(f"host {told(members[address])}: {error}")
        self._cluster.put_back(others)
        for job, address in jobs.items():
            self._cluster.stop(job)
            problems.append(f"host {told(members[address])} does not answer")
        return facts, problems

    def _compare(self, host: Host) -> None:
        """Say how the environment of a host differs from the recorded one."""
        wanted = self._wanted
        if host.facts.root in wanted.roots:
            return
        found = environment_differences(wanted.environment, host.facts.environment, None)
        what = f": {'; '.join(found[:_SHOWN])}{_more(found)}" if found else ""
        self._note(f"host {host.name}: Python or its packages are not those {wanted.whose}{what}")


def _address(seat: Seat) -> str:
    return seat.host.member.address


def _more(found: Iterable[str]) -> str:
    count = len(list(found)) - _SHOWN
    return f"; and {count} more" if count > 0 else ""
