"""What the graph says after one more run of an operation; the order of runs does not matter.

An operation is what its newest run was, except that a doubt stays for ever and that what was known
once is not forgotten.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from numbers import Real
from typing import NamedTuple

from chexpoint.graph.ledger_values import DIFFERED, READ_DIFFERED
from chexpoint.model import (
    Artifact,
    ArtifactId,
    Operation,
    Read,
    RecordedOperation,
    Seconds,
    StoredArtifact,
)

AVERAGED_RUNS = 10
"""The seconds of an operation are the mean of about its last ten runs: machines change."""


class MergedArtifact(NamedTuple):
    """An artifact after one more run."""

    artifact: Artifact
    is_unsure: bool
    """Whether runs gave different contents, so that nobody can say which are the right ones."""


def merged_operation(old: Operation, new: Operation) -> Operation:
    """Return an operation that has run once more."""
    newest = new if new.time >= old.time else old
    reads, do_differ = _merged_reads(newest, old if newest is new else new)
    return replace(
        newest,
        reads=reads,
        seconds=averaged(old.seconds, old.frequency, new.seconds),
        frequency=old.frequency + 1,
        doubt=_doubt(old.doubt, new.doubt, READ_DIFFERED if do_differ else ""),
    )


def doubted(operation: Operation) -> Operation:
    """Return an operation two runs of which gave different contents."""
    return replace(operation, doubt=_doubt(operation.doubt, DIFFERED))


def merged_artifact(old: MergedArtifact, new: Artifact) -> MergedArtifact:
    """Return an artifact that was computed once more."""
    before, after = old.artifact.group, new.group
    differs = bool(before.digest and after.digest and before.digest != after.digest)
    is_unsure = old.is_unsure or differs
    # Contents that were not looked at are those that were there before, as far as anybody knows.
    group = after if after.digest or not before.digest else before
    merged = replace(
        old.artifact,
        group=replace(group, digest="") if is_unsure else group,
        frequency=old.artifact.frequency + 1,
        score=best_score(old.artifact.score, new.score),
        # What is found there might be of another run than the one that asks.
        stored=None if is_unsure else old.artifact.stored or new.stored,
        used=max(old.artifact.used, new.used),
    )
    return MergedArtifact(merged, is_unsure)


def first_run(recorded: RecordedOperation) -> tuple[Operation, tuple[Artifact, ...]]:
    """Return an operation and its artifacts as they are if nothing was known before."""
    operation = replace(recorded.operation, frequency=1)
    artifacts = (
        replace(
            each,
            operation=operation.id,
            frequency=1,
            score=each.score if is_score(each.score) else None,
            stored=_inline(each) or each.stored,
            used=max(each.used, operation.time),
        )
        for each in recorded.artifacts
    )
    return operation, tuple(sorted(artifacts, key=lambda each: each.id))


def averaged(before: Seconds, runs: int, now: Seconds) -> Seconds:
    """Return the seconds of an operation after one more run."""
    weight = 1 / min(max(runs, 0) + 1, AVERAGED_RUNS)
    return before + weight * (now - before)


# ------------------------------------------------------------ scores


def is_score(value: object) -> bool:
    """Return whether something is a number that models can be compared by."""
    return type(value) is not bool and isinstance(value, Real) and math.isfinite(value)


def best_score(*scores: float | None) -> float | None:
    """Return the highest score, if there is any."""
    known = [float(each) for each in scores if each is not None]
    return max(known, default=None)


def scored(recorded: RecordedOperation) -> tuple[dict[ArtifactId, float], list[str]]:
    """Return the scores of artifacts that an operation found, and what is wrong with others."""
    found: dict[ArtifactId, float] = {}
    wrong = [
        refusal(each.group.names[0], each.score)
        for each in recorded.artifacts
        if each.score is not None and not is_score(each.score)
    ]
    holders = {read.name: read.artifact for read in recorded.operation.reads}
    for artifact in recorded.artifacts:
        holders |= dict.fromkeys(artifact.group.names, artifact.id)
    for score in recorded.scores:
        holder = holders.get(score.name)
        if not is_score(score.value):
            wrong.append(refusal(score.name, score.value))
        elif holder is None:
            wrong.append(f"the score of '{score.name}' is not kept: the cell knows no such model.")
        else:
            found[holder] = max(float(score.value), found.get(holder, -math.inf))
    return found, wrong


def refusal(name: str, value: object) -> str:
    """Return why a score is not kept."""
    shown = repr(value)[:40]
    return f"the score {shown} of '{name}' is not kept, because it is not a finite number."


# ------------------------------------------------------------ parts


def _merged_reads(newest: Operation, other: Operation) -> tuple[tuple[Read, ...], bool]:
    """Return what an operation reads, and whether two runs of it read different contents."""
    known = {(each.name, each.artifact): each.digest for each in other.reads}
    reads, differ = [], False
    for read in newest.reads:
        before = known.get((read.name, read.artifact), "")
        differ |= bool(before and read.digest and before != read.digest)
        # The smaller one of two: whichever came first.
        digest = min(filter(None, (before, read.digest)), default="")
        reads.append(replace(read, digest=digest))
    return tuple(reads), differ


def _doubt(*doubts: str) -> str:
    """Return the doubt that stays; that runs differ says more than what a single one made think."""
    given: Sequence[str] = sorted({each for each in doubts if each})
    for certain in (DIFFERED, READ_DIFFERED):
        if certain in given:
            return certain
    return given[0] if given else ""


def _inline(artifact: Artifact) -> StoredArtifact | None:
    """Return where contents are that are in the graph's own table."""
    if not artifact.group.contents:
        return None
    return StoredArtifact(image="", stored_bytes=len(artifact.group.contents))


def sorted_ids(ids: Iterable[ArtifactId]) -> list[ArtifactId]:
    """Return ids in the order in which rows are locked: everybody's, so that nobody waits for ever.

    What cannot be an id is left out.
    """
    return sorted({each for each in ids if each and isinstance(each, str)})
