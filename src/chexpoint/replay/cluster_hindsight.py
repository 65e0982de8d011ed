"""Replays the loops of a version in hindsight, on the hosts of a Dask cluster."""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Any

from chexpoint.errors import ChexError, ClusterError
from chexpoint.model import Seconds
from chexpoint.replay.cluster import Cluster, Said
from chexpoint.replay.cluster_crew import Crew, Wanted
from chexpoint.replay.cluster_hosts import Seat
from chexpoint.replay.cluster_probe import board_hindsight, hindsight_load, run_probe
from chexpoint.replay.hindsight_lane import Outcome
from chexpoint.replay.hindsight_replayer import HindsightReplayer
from chexpoint.replay.hindsight_values import HindsightPlan, Probe
from chexpoint.replay.hindsight_world import RecordedWorld, World

_TICK_S: Seconds = 0.25
_LOOK_S: Seconds = 1.0
_MOST_LOSSES = 3


class ClusterHindsightReplayer(HindsightReplayer):
    """One replay of a version, as planned, by engines on other machines.

    Parameters
    ----------
    cluster
        The address of a Dask scheduler, a cluster or client object, or how many workers to start in
        this process.
    images
        The store that has the images of loops.
    shared
        A folder or a URL that all hosts see, for what is too large to be sent through Dask.
    settings
        See `HindsightReplayer`.
    """

    def __init__(
        self,
        plan: HindsightPlan,
        world: World,
        *,
        cluster: object,
        store: str,
        shared: str | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(plan, world, store=store, **settings)
        if not isinstance(world, RecordedWorld):
            raise ClusterError(
                f"what {plan.version} reads was not recorded, so no other host can have it: leave "
                "out the cluster, or record it with chex record"
            )
        self._recorded = world
        self._where, self._shared = cluster, shared
        self._queue: deque[tuple[int, Probe]] = deque()
        self._jobs: dict[int, tuple[int, Probe, Seat]] = {}
        self._losses: dict[int, int] = {}
        self._notes: dict[str, None] = {}
        self._iterations: dict[int, int] = {}
        """How many each probe has done."""

    def interrupt(self) -> None:
        """Interrupt running cells and run no other; may be called from a signal handler."""
        self._is_interrupted = True

    def _drive(self, base: Path) -> None:
        del base
        recording, files = self._recorded.recording, self._recorded.files
        load = hindsight_load(self._plan, recording, files, self._store, self._shared)
        self._queue = deque(self._waiting)
        with Cluster(self._where, f"hindsight-{uuid.uuid4().hex}") as cluster:
            crew = Crew(
                cluster,
                Wanted.of(recording),
                load,
                board=board_hindsight,
                largest=max((node.size for node in recording.tree.nodes.values()), default=0),
                budget=0,
                most=None,
                note=self._note,
            )
            try:
                crew.gather()
                self._workers = max(1, min(len(crew.seats), len(self._plan.probes)))
                self._work_through(cluster, crew)
            finally:
                if not cluster.is_lost:
                    with contextlib.suppress(ChexError):
                        crew.part_ways()
        self._tell()

    def _work_through(self, cluster: Cluster, crew: Crew) -> None:
        looked = time.monotonic()
        while (self._queue or self._jobs) and not self._is_interrupted:
            self._give(cluster, crew)
            timeout = _TICK_S
            while (event := cluster.next_event(timeout)) is not None:
                timeout = 0.0
                if isinstance(event, Said):
                    self._said(json.loads(event.text))
                elif event.job in self._jobs:
                    self._ended(event.job, cluster, crew)
            self._tell()
            if time.monotonic() - looked > _LOOK_S:
                looked = time.monotonic()
                self._look(cluster, crew)

    def _give(self, cluster: Cluster, crew: Crew) -> None:
        busy = {seat.number for _, _, seat in self._jobs.values()}
        for seat in (seat for number, seat in sorted(crew.seats.items()) if number not in busy):
            if not self._queue:
                return
            number, probe = self._queue.popleft()
            self._iterations[number] = 0
            job = crew.new_job()
            self._jobs[job] = number, probe, seat
            cluster.start(job, seat.host.member, run_probe, number, probe, seat.cores)

    def _said(self, told: dict[str, Any]) -> None:
        if told["probe"] in self._iterations:
            self._iterations[told["probe"]] = told["done"]

    def _ended(self, job: int, cluster: Cluster, crew: Crew) -> None:
        number, probe, seat = self._jobs[job]
        try:
            outcome: Outcome = cluster.result(job)
        except (ChexError, OSError) as error:
            self._lose(seat, str(error), cluster, crew)
            return
        del self._jobs[job]
        segment = outcome.probe.segment
        if outcome.must_walk and not self._is_interrupted:
            walking = replace(probe, segment=replace(segment, first=0, is_jump=False))
            self._queue.append((number, walking))
            return
        where = f"iterations {segment.start} to {segment.stop - 1} were replayed on"
        self._keep(number, replace(outcome, notes=(*outcome.notes, f"{where} {seat.host.name}")))

    def _look(self, cluster: Cluster, crew: Crew) -> None:
        seats = list(crew.seats.values())
        if cluster.is_lost:
            raise ClusterError(f"the scheduler {cluster.address} is lost: go on with --resume")
        for address in crew.look_again():
            seat = next(each for each in seats if each.host.member.address == address)
            self._lose(seat, "it is gone", cluster, crew)
        if not crew.seats:
            raise ClusterError(f"no host of {cluster.address} is left: go on with --resume")

    def _lose(self, seat: Seat, why: str, cluster: Cluster, crew: Crew) -> None:
        """Have others do what a host has not done."""
        address = seat.host.member.address
        crew.dismiss(address)
        self._note(f"host {seat.host.name} is lost, and what it had is given to others: {why}")
        for job, (number, probe, its) in list(self._jobs.items()):
            if its.host.member.address == address:
                del self._jobs[job]
                cluster.stop(job)  # whoever is given up may still be at it
                self._losses[number] = self._losses.get(number, 0) + 1
                if self._losses[number] < _MOST_LOSSES:
                    self._queue.append((number, probe))
                else:
                    failed = f"each host that replayed it was lost ({why})"
                    self._outcomes[number] = Outcome(probe=probe, failed=failed)

    def _note(self, text: str) -> None:
        self._notes[text] = None

    def _told_notes(self) -> tuple[str, ...]:
        return tuple(self._notes)

    def _done(self) -> int:
        return sum(self._iterations.values())
