"""A replay on hosts that are not there: what a cluster is like, and what it would do."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

from chexpoint.errors import InvalidValue
from chexpoint.model.ids import Bytes, NodeId, Seconds
from chexpoint.model.plan import Action

HostAction = Action | Literal["start", "load", "store"]
"""What a host does: a step of a plan, the start of its engine, or something with an image.

To store one takes the host the time of a fork: a copy of the engine writes it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Hosts with one engine each, and a store that all of them see.

    What starting an engine and surrounding a cell cost, unless told, was measured on two cores of
    a virtual machine; telling hosts, and what images cost besides their bytes, is estimated.
    """

    hosts: int
    memory: float = math.inf
    """Bytes for the checkpoints of each host; infinite if there is no limit."""
    is_shared: bool = False
    """Whether these are for all hosts together: engines of one machine."""
    bandwidth: float = 0.0
    """Bytes a second between each host and the store; 0 if no states are shipped."""
    start: Seconds = 0.7
    """Starting an engine."""
    task: Seconds = 0.02
    """Telling a host what it is to do."""
    cell: Seconds = 0.01
    """What surrounds a cell: its audit, its lineage, the comparison."""
    store: Seconds = 0.05
    """Making an image of a state, besides its bytes."""
    load: Seconds = 0.1
    """Making a state of an image, besides its bytes."""
    losses: int = 0
    """Hosts that are lost on the way, one after the other."""

    def __post_init__(self) -> None:
        for name in ("hosts", "losses"):
            value = getattr(self, name)
            least = 1 if name == "hosts" else 0
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InvalidValue(f"the number of {name} is not a whole number >= {least}")
        if self.losses >= self.hosts:
            raise InvalidValue(
                f"{self.losses} of {self.hosts} hosts cannot be lost: one has to be left"
            )
        for name in ("memory", "bandwidth", "start", "task", "cell", "store", "load"):
            value = getattr(self, name)
            has_limit = name not in {"memory", "bandwidth"}
            if not value >= 0 or (has_limit and math.isinf(value)):
                raise InvalidValue(f"the {name} of a cluster is not a number >= 0: {value!r}")

    def moving(self, size: Bytes) -> Seconds:
        """Return how long some bytes take between a host and the store."""
        return size / self.bandwidth if self.bandwidth else math.inf


class HostStep(NamedTuple):
    """One thing that a host does, and when."""

    action: HostAction
    node: NodeId | None
    start: Seconds
    end: Seconds
    held_bytes: Bytes
    """What its checkpoints take afterwards."""


class StoredImage(NamedTuple):
    """A state that a copy of an engine writes to the store, while the engine goes on."""

    node: NodeId
    host: int
    size: Bytes
    start: Seconds
    ready: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRun:
    """What one host does."""

    steps: tuple[HostStep, ...]
    budget: float
    """Bytes that its checkpoints may take."""
    lost: Seconds | None = None
    """When it was lost, if it was; what it was at then came to nothing."""

    @property
    def end(self) -> Seconds:
        return self.steps[-1].end if self.steps else 0.0

    @property
    def computed(self) -> list[NodeId]:
        """The cells that it came to the end of, in order."""
        return [s.node for s in self.steps if s.node is not None and self.has_computed(s)]

    def has_computed(self, step: HostStep) -> bool:
        """Return whether a step has given the state after a cell."""
        is_cut = self.lost is not None and step is self.steps[-1] and step.end >= self.lost
        return step.action == "compute" and not is_cut

    @property
    def computing(self) -> Seconds:
        """What its cells take together."""
        return math.fsum(s.end - s.start for s in self.steps if s.action == "compute")

    @property
    def peak_bytes(self) -> Bytes:
        return max((step.held_bytes for step in self.steps), default=0)


@dataclass(frozen=True)
class Simulation:
    """What a replay on a cluster would be like."""

    cluster: Cluster
    hosts: tuple[HostRun, ...]
    """Those that have something to do first; the others do nothing."""
    images: tuple[StoredImage, ...]
    """What is written to the store."""
    sizes: Mapping[NodeId, Bytes]
    """The bytes of each image that is loaded."""
    single: Seconds
    """When one host alone would be done, if none is lost."""
    lower_bound: Seconds
    """No such cluster is done before."""

    @cached_property
    def makespan(self) -> Seconds:
        """When the last host is done."""
        return max(host.end for host in self.hosts)

    @cached_property
    def computed(self) -> int:
        """Cells that are computed, again and again included."""
        return sum(len(host.computed) for host in self.hosts)

    @cached_property
    def again(self) -> int:
        """How many of them were computed before, or elsewhere."""
        return self.computed - len({node for host in self.hosts for node in host.computed})

    @cached_property
    def loads(self) -> Counter[NodeId]:
        """How often the image of each node is loaded."""
        found = Counter[NodeId]()
        for host in self.hosts:
            found.update(
                step.node for step in host.steps if step.action == "load" and step.node is not None
            )
        return found

    @property
    def bytes_moved(self) -> Bytes:
        """What goes to the store and comes from it."""
        loaded = sum(self.sizes[node] * times for node, times in self.loads.items())
        return loaded + sum(image.size for image in self.images)

    @property
    def peak_bytes(self) -> Bytes:
        """The most that the checkpoints of one host take."""
        return max(host.peak_bytes for host in self.hosts)

    @property
    def utilisation(self) -> float:
        """The share of the time of all hosts in which cells are computed."""
        whole = self.makespan * self.cluster.hosts
        return math.fsum(host.computing for host in self.hosts) / whole if whole else 0.0

    def to_json(self, names: Mapping[NodeId, Any] | None = None) -> dict[str, Any]:
        """Return the simulation as `chex plan --simulate --json` prints it."""

        def name(node: NodeId | None) -> Any:
            return node if node is None or names is None else names.get(node, node)

        return {
            "hosts": self.cluster.hosts,
            "makespan": self.makespan,
            "lower_bound": self.lower_bound,
            "single": self.single,
            "utilisation": self.utilisation,
            "bytes_moved": self.bytes_moved,
            "peak_bytes": self.peak_bytes,
            "cells_computed": self.computed,
            "cells_computed_again": self.again,
            "images": [
                {
                    "node": name(image.node),
                    "host": image.host,
                    "bytes": image.size,
                    "ready": image.ready,
                    "loads": self.loads[image.node],
                }
                for image in self.images
            ],
            "runs": [
                {
                    "end": host.end,
                    "lost": host.lost,
                    "cells": len(host.computed),
                    "computing": host.computing,
                    "budget": None if math.isinf(host.budget) else host.budget,
                    "peak_bytes": host.peak_bytes,
                    "steps": [
                        [step.action, name(step.node), step.start, step.end] for step in host.steps
                    ],
                }
                for host in self.hosts
            ],
        }
