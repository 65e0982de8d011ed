"""What is to be replayed, what came of it, and how far it has got."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

from chexpoint.model.cell import CellError
from chexpoint.model.ids import Bytes, Digest, NodeId, Seconds
from chexpoint.model.lineage import CellLineage
from chexpoint.model.record import Output
from chexpoint.model.tree import ExecutionTree, Version

VOLATILE_TAG = "chex-volatile"
"""A cell with this tag is run, but what it shows and writes may differ."""
SKIP_TAG = "chex-skip"
"""A cell with this tag is not run in a replay."""

ReplayStatus = Literal["same", "close", "different", "failed", "skipped"]
"""How what a cell did compares with what was recorded; from good to bad, as far as that goes.

``close`` is the same within the tolerance, or apart from volatile parts such as times.
``skipped`` was not run: it is tagged so, or something before it failed or is missing.
"""
REPLAY_STATUSES: tuple[ReplayStatus, ...] = get_args(ReplayStatus)


# ---------------------------------------------------------------- what was recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCell:
    """A node, and what was recorded of the cell that leads to it."""

    lineage: CellLineage
    """Its ``node`` and ``parent`` say where the cell is; that of a first cell is the root's."""
    outputs: tuple[Output, ...] = ()
    cell_id: str = ""
    """How the notebook calls it, if it does."""
    tags: frozenset[str] = frozenset()

    @property
    def node(self) -> NodeId:
        return self.lineage.node

    @property
    def source(self) -> str:
        return self.lineage.source


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentInfo:
    """The Python that versions were recorded with."""

    python: str = ""
    """Such as ``3.11.2``."""
    implementation: str = ""
    machine: str = ""
    """Such as ``x86_64``."""
    system: str = ""
    packages: tuple[tuple[str, str], ...] = ()
    """Name and version of each installed distribution, sorted; names as PEP 503 has them."""


@dataclass(frozen=True, kw_only=True)
class Recording:
    """Versions with everything that is known of them, except for the contents of files.

    This is what a replay runs and compares with, and what a package holds.
    """

    tree: ExecutionTree
    """The versions, and only the nodes on their paths."""
    cells: Mapping[NodeId, RecordedCell]
    """One for each node of the tree."""
    title: str = ""
    """What to call it in a report: the name of the project."""
    folder: str = ""
    """The absolute path of the project where it was recorded, if outputs may show it."""
    extra_files: Mapping[str, Digest] = field(default_factory=dict)
    """Files that no cell has read, but that were seen when a folder was listed.

    By their canonical path (``./data/a.csv``), with the digest of their contents.
    """
    listings: Mapping[Digest, tuple[str, ...]] = field(default_factory=dict)
    """The names that were in a folder when it was listed, by the digest of the list.

    As far as they are known: a file that one version has written is in the lists of the next.
    """
    folders: tuple[str, ...] = ()
    """Folders that must be there although no file is in them, by canonical path."""
    environment: EnvironmentInfo = EnvironmentInfo()
    notes: tuple[str, ...] = ()
    """What a replay cannot know, in sentences, such as files outside of the project."""

    @cached_property
    def labels(self) -> Mapping[str, Version]:
        """The versions by what they are called, oldest first."""
        return {self.tree.labels[version]: version for version in self.tree.versions}


# ---------------------------------------------------------------- what came of it


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputDifference:
    """One output, or one file, that is not as it was recorded."""

    what: str
    """A sentence: ``the text differs in line 3``, ``wrote other contents to ./model.bin``."""
    recorded: int | None = None
    """The place of the output among those recorded; None if there is none, or it is a file."""
    replayed: int | None = None
    """The place of the output among those of the replay; None if there is none, or it is a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedCell:
    """What came of a node."""

    node: NodeId
    status: ReplayStatus
    reasons: tuple[str, ...] = ()
    """Why it is not the same, in sentences; also why that is no surprise."""
    differences: tuple[OutputDifference, ...] = ()
    outputs: tuple[Output, ...] = ()
    """What it showed this time."""
    seconds: Seconds = 0.0
    """What the cell took when it was computed last."""
    size_bytes: Bytes = 0
    """Memory of the state after it."""
    computed: int = 0
    """How often it was computed."""
    error: CellError | None = None
    """The exception it ended with, expected or not."""
    is_excused: bool = False
    """Whether somebody said that this is as it should be: the cell is tagged."""
    host: str = ""
    """Where it was computed last, if that is not this machine alone."""

    @property
    def is_good(self) -> bool:
        """Whether it may be called reproduced."""
        return self.is_excused or self.status in {"same", "close"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryMoment:
    """How much checkpoints held at one time."""

    time: Seconds
    """Since the replay began."""
    held_bytes: Bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayHost:
    """A machine of a cluster, and what it has done in a replay."""

    name: str
    engines: int
    """How many it runs at most."""
    computed_cells: int = 0
    is_lost: bool = False
    """Whether it has gone before the end."""


@dataclass(frozen=True, kw_only=True)
class Replay:
    """A replay that has ended: completely, or as far as it got."""

    recording: Recording
    cells: Mapping[NodeId, ReplayedCell]
    """One for each node that was reached or given up; none for those still to do."""
    seconds: Seconds
    """Wall time, with start-up, planning and everything."""
    planned_seconds: Seconds = 0.0
    """What the first plan said."""
    overhead_seconds: Seconds = 0.0
    """Planning, checkpoints, restores and evictions together, of all workers."""
    computed_cells: int = 0
    """How many cells were computed, again and again included."""
    peak_checkpoint_bytes: Bytes = 0
    budget_bytes: float = 0
    planner: str = ""
    workers: int = 1
    hosts: tuple[ReplayHost, ...] = ()
    """The machines that computed, if a cluster did."""
    memory: tuple[MemoryMoment, ...] = ()
    left_out: tuple[str, ...] = ()
    """Labels of versions for which there was no time (``--within``)."""
    notes: tuple[str, ...] = ()
    """What the user should know, in sentences: the environment differs, it was planned again."""
    is_interrupted: bool = False
    started: float = 0.0
    """Seconds since the epoch."""

    @property
    def cells_in_versions(self) -> int:
        """How many cells all versions have together: what computing each by itself takes."""
        return sum(len(version.path) for version in self.recording.tree.versions)

    @property
    def recorded_seconds(self) -> Seconds:
        """What the cells of all versions took when they were recorded, each version by itself."""
        nodes = self.recording.tree.nodes
        return sum(
            nodes[node].cost for version in self.recording.tree.versions for node in version.path
        )

    @property
    def no_cache_seconds(self) -> Seconds:
        """What replaying each version by itself would have taken, at the speed of this replay."""
        return sum(
            self.cells[node].seconds
            for version in self.recording.tree.versions
            for node in version.path
            if node in self.cells
        )

    def version_status(self, version: Version) -> ReplayStatus | None:
        """Return the worst status on a version's path; None while something is still to do.

        What is excused counts as the same.
        """
        found: list[ReplayStatus] = []
        for node in version.path:
            cell = self.cells.get(node)
            if cell is None:
                return None
            found.append("same" if cell.is_excused else cell.status)
        # A cell that was not reached says less than the one that failed before it.
        if "failed" in found:
            return "failed"
        return max(found, key=REPLAY_STATUSES.index, default="same")

    @property
    def is_good(self) -> bool:
        """Whether every version that there was time for is reproduced."""
        late = set(self.left_out)
        return not self.is_interrupted and all(
            self.version_status(version) in {"same", "close"}
            for label, version in self.recording.labels.items()
            if label not in late
        )


# ---------------------------------------------------------------- how far it has got


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayProgress:
    """One thing that has happened in a replay, and how things stand after it."""

    kind: Literal["begin", "cell", "version", "note", "end"]
    """``cell``: a cell was computed or given up; ``version``: nothing is left to do for it."""
    worker: int = 0
    host: str = ""
    """Where that worker is, if not here."""
    version: str = ""
    """The label of the version that is being replayed, or is done."""
    cell: int = 0
    """How many cells of that version are done."""
    cells: int = 0
    """How many it has."""
    status: ReplayStatus | None = None
    """Of the cell or the version."""
    text: str = ""
    """A sentence: a note, or why something failed."""
    computed: int = 0
    """Cells computed so far."""
    to_compute: int = 0
    """Cells that are to be computed in all, as far as that is known now."""
    saved: int = 0
    """Cells of versions that are done so far and did not have to be computed for them."""
    versions_done: int = 0
    versions: int = 0
    seconds: Seconds = 0.0
    """Since the replay began."""
    seconds_left: Seconds | None = None
    held_bytes: Bytes = 0
    budget_bytes: float = 0
    """What checkpoints may hold; 0 if there is no limit."""


def replayed_cell_from_json(data: dict[str, Any]) -> ReplayedCell:
    """Return the cell that `to_json` wrote."""
    error = data["error"]
    return ReplayedCell(
        **{
            **data,
            "reasons": tuple(data["reasons"]),
            "differences": tuple(OutputDifference(**each) for each in data["differences"]),
            "outputs": tuple(data["outputs"]),
            "error": error and CellError(**{**error, "traceback": tuple(error["traceback"])}),
        }
    )


def progress_from_json(data: dict[str, Any]) -> ReplayProgress:
    """Return the progress that `to_json` wrote."""
    return ReplayProgress(**data)
