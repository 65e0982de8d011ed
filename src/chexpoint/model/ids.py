"""Names for things, so that one cannot be passed for another."""

from __future__ import annotations

from typing import Literal, NewType

CheckpointId = NewType("CheckpointId", str)
"""Identifies a checkpoint within one engine; never used for a second one."""

NodeId = NewType("NodeId", str)
"""The lineage of a state, as hexadecimal text: equal states have equal ids everywhere."""

Seconds = float
Bytes = int

ROOT = "root"
"""The name of the checkpoint of the fresh interpreter, before any cell."""

Digest = str
"""The hexadecimal text of a 128-bit hash, or a word where there is nothing to hash."""

ArtifactId = NewType("ArtifactId", str)
"""Names a group of variables as a cell left it, by how it was computed."""

OperationId = NewType("OperationId", str)
"""Names a cell together with all that it depends on."""

KeepStrategy = Literal["storage-aware", "simple", "helix", "all", "none"]
"""How it is chosen which artifacts are stored."""
