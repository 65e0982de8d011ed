"""Replays versions on the hosts of a Dask cluster.

replay = ClusterReplayer(recording_of(project), ProjectFiles(project), cluster="tcp://...").run()
print({cell.host for cell in replay.cells.values()})
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chexpoint.config import Config
from chexpoint.errors import ChexError
from chexpoint.model import (
    Bytes,
    ExecutionTree,
    NodeId,
    Plan,
    Recording,
    ReplayHost,
    Seconds,
)
from chexpoint.replay.cluster import Cluster
from chexpoint.replay.cluster_cargo import load_cargo
from chexpoint.replay.cluster_crew import Crew, Wanted
from chexpoint.replay.cluster_part import Load, board
from chexpoint.replay.cluster_pool import Pool
from chexpoint.replay.cluster_run import ClusterRun
from chexpoint.replay.files import FileSource
from chexpoint.replay.ledger import Ledger
from chexpoint.replay.replayer import STEP_COSTS, Replayer


class ClusterReplayer(Replayer):
    """One replay of some versions, by engines on other machines.

    Parameters
    ----------
    cluster
        The address of a Dask scheduler, a cluster or client object, or how many workers to start in
        this process.
    store
        A folder or a URL that all hosts see, for files that are too large to be sent through Dask.
    engines
        How many engines there may be; by default, one for each thread of the Dask workers, or as
        many as their resource ``engine`` says.
    patience_s
        How long to wait for a scheduler that is gone, or for workers when none is left.
    settings
        See `Replayer`.  The budget is that of each machine, by default half of the memory that is
        available there beside the states themselves.
    """

    def __init__(
        self,
        recording: Recording,
        files: FileSource,
        *,
        cluster: object,
        store: str | None = None,
        engines: int | None = None,
        patience_s: Seconds = 20.0,
        budget_bytes: float | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(recording, files, budget_bytes=budget_bytes, **settings)
        self._where = cluster
        self._store = store
        self._most = engines
        self._patience_s = patience_s
        self._host_budget = budget_bytes
        self._run: ClusterRun | None = None

    def interrupt(self) -> None:
        """Interrupt running cells and run no other; may be called from a signal handler."""
        self._is_interrupted = True

    def _replay(self, ledger: Ledger, base: Path) -> Seconds:
        del base
        tree = self._tree()
        leaves = self._leaves(tree, ledger)
        if not leaves:
            ledger.begin(0)
            return 0.0
        with Cluster(self._where, f"replay-{uuid.uuid4().hex}") as cluster:
            crew = self._crew(cluster, tree, ledger)
            try:
                crew.gather()
                ledger.budget = sum(seat.budget for seat in crew.seats.values())
                pool = Pool(tree, set(leaves))
                self._run = ClusterRun(cluster, crew, ledger, pool, self, self._patience_s)
                return self._run.drive()
            finally:
                if not cluster.is_lost:
                    with contextlib.suppress(ChexError):
                        crew.part_ways()

    def _crew(self, cluster: Cluster, tree: ExecutionTree, ledger: Ledger) -> Crew:
        load = Load(
            recording=self._recording,
            tree=tree,
            costs=STEP_COSTS,
            planner=self._planner,
            timeout_s=self._timeout_s,
            tolerance=self._tolerance,
            cargo=load_cargo(self._recording, self._files, self._store),
            settings=Config(None, os.environ).for_elsewhere(),
        )
        return Crew(
            cluster,
            Wanted.of(self._recording),
            load,
            board=board,
            largest=max(node.size for node in tree.nodes.values()),
            budget=self._host_budget,
            most=self._most,
            note=ledger.note,
        )

    # ------------------------------------------------------------ what a run asks

    @property
    def is_interrupted(self) -> bool:
        """Whether nothing more is to be computed."""
        return self._is_interrupted

    def seconds_left(self) -> Seconds | None:
        """Return how much time there is; None is no limit."""
        return self._seconds_left()

    def divided(
        self, tree: ExecutionTree, leaves: Sequence[NodeId], engines: int, budget: Bytes
    ) -> tuple[tuple[Plan, ...], Seconds]:
        """Return plans for so many engines with this budget each, and when the last one is done."""
        self._workers, self._budget = engines, budget * engines
        plans, seconds = self._plans(tree, list(leaves))
        # One host cannot have what another has left over.
        fitting = (
            each if each.budget <= budget else self.planned(tree, each.versions, budget)
            for each in plans
        )
        return tuple(fitting), seconds

    def planned(self, tree: ExecutionTree, leaves: Sequence[NodeId], budget: Bytes) -> Plan:
        """Return a plan for one engine."""
        self._budget = budget
        return self._plan(tree, leaves, self._seconds_left())

    # ------------------------------------------------------------ what is told at the end

    def _engines(self) -> int:
        return 1 if self._run is None else self._run.engines

    def _hosts(self) -> tuple[ReplayHost, ...]:
        return () if self._run is None else self._run.hosts()
