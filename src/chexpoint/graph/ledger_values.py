"""What a ledger tells besides operations and artifacts."""

from __future__ import annotations

from dataclasses import dataclass

from chexpoint.model import ArtifactId, Bytes, Seconds

DIFFERED = "two runs of it gave different contents"
READ_DIFFERED = "two runs of it read different contents"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredLoad:
    """How long it took to load something once."""

    backend: str
    """Where it was: ``ledger``, ``file``, ``s3``."""
    kind: str
    """The type of what was loaded: ``pandas.DataFrame``."""
    size_bytes: Bytes
    seconds: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerProject:
    """A project that uses a ledger."""

    id: str
    folder: str
    """Where it is, on the machine that it is on."""
    seen: float = 0.0
    """When it was registered last, in seconds since the epoch."""
    artifacts: int = 0
    """How many stored artifacts it has used."""
    stored_bytes: Bytes = 0
    """What these take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """Artifacts whose contents no one can find any more."""

    artifacts: tuple[ArtifactId, ...] = ()
    images: tuple[str, ...] = ()
    """Images that no artifact is in any more: the caller removes them from the store."""
    stored_bytes: Bytes = 0
    """What the artifacts took."""
