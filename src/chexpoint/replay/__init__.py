"""Replays versions in engines, and says how what they do compares with what was recorded.

Names are loaded when they are first used: a replay of versions needs nothing of that of loops.
"""

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from chexpoint.replay.cluster import Cluster, Desk, Said, slots_in
    from chexpoint.replay.cluster_cargo import Cargo, HostFiles, cargo_of
    from chexpoint.replay.cluster_crew import Crew, Wanted
    from chexpoint.replay.cluster_hindsight import ClusterHindsightReplayer
    from chexpoint.replay.cluster_hosts import HostFacts, Seat
    from chexpoint.replay.cluster_part import aboard_of, settled, watched
    from chexpoint.replay.cluster_replayer import ClusterReplayer
    from chexpoint.replay.files import FileSource
    from chexpoint.replay.hindsight_plan import plan_hindsight
    from chexpoint.replay.hindsight_replayer import (
        INTERRUPTED,
        HindsightProgress,
        HindsightReplayer,
    )
    from chexpoint.replay.hindsight_source import (
        is_own_cell,
        most_similar,
        runnable,
        similarity,
    )
    from chexpoint.replay.hindsight_values import Epochs, HindsightPlan, NewCell, OldCell
    from chexpoint.replay.hindsight_world import FolderWorld, RecordedWorld, World
    from chexpoint.replay.replay_log import recording_digest
    from chexpoint.replay.replayer import STEP_COSTS, Replayer

_HOME = {
    "cluster": ("Cluster", "Desk", "Said", "slots_in"),
    "cluster_cargo": ("Cargo", "HostFiles", "cargo_of"),
    "cluster_crew": ("Crew", "Wanted"),
    "cluster_hindsight": ("ClusterHindsightReplayer",),
    "cluster_hosts": ("HostFacts", "Seat"),
    "cluster_part": ("aboard_of", "settled", "watched"),
    "cluster_replayer": ("ClusterReplayer",),
    "files": ("FileSource",),
    "hindsight_plan": ("plan_hindsight",),
    "hindsight_replayer": ("INTERRUPTED", "HindsightProgress", "HindsightReplayer"),
    "hindsight_source": ("is_own_cell", "most_similar", "runnable", "similarity"),
    "hindsight_values": ("Epochs", "HindsightPlan", "NewCell", "OldCell"),
    "hindsight_world": ("FolderWorld", "RecordedWorld", "World"),
    "replay_log": ("recording_digest",),
    "replayer": ("STEP_COSTS", "Replayer"),
}


def __getattr__(name: str) -> "Any":
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(f"chexpoint.replay.{module}"), name)
    raise AttributeError(f"module 'chexpoint.replay' has no attribute '{name}'")


__all__ = [
    "INTERRUPTED",
    "STEP_COSTS",
    "Cargo",
    "Cluster",
    "ClusterHindsightReplayer",
    "ClusterReplayer",
    "Crew",
    "Desk",
    "Epochs",
    "FileSource",
    "FolderWorld",
    "HindsightPlan",
    "HindsightProgress",
    "HindsightReplayer",
    "HostFacts",
    "HostFiles",
    "NewCell",
    "OldCell",
    "RecordedWorld",
    "Replayer",
    "Said",
    "Seat",
    "Wanted",
    "World",
    "aboard_of",
    "cargo_of",
    "is_own_cell",
    "most_similar",
    "plan_hindsight",
    "recording_digest",
    "runnable",
    "settled",
    "similarity",
    "slots_in",
    "watched",
]
