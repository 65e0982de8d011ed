"""The ledger: the experiment graph in a database that kernels and colleagues share.

What is known about operations and artifacts is kept for ever; little contents are kept too, signed
with the key of the team, because loading them can run anything.

SQLAlchemy takes a while to import, and most who import the graph have no ledger: so what needs it
is imported where it is used.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from chexpoint.errors import GraphError, InvalidValue
from chexpoint.graph.contents import checked_key
from chexpoint.graph.experiment import ExperimentGraph
from chexpoint.graph.ledger_values import Dropped, LedgerProject, MeasuredLoad
from chexpoint.model import (
    Artifact,
    ArtifactId,
    Bytes,
    Digest,
    Operation,
    OperationId,
    RecordedOperation,
    Seconds,
    StoredArtifact,
)

if TYPE_CHECKING:
    from chexpoint.graph.ledger_postgres import Patience

_PROBLEMS = 100


class Ledger:
    """An experiment graph that is kept.

    Every method raises `GraphError`, with one line that says what to do, if the database cannot be
    used; the next call tries again.  None waits longer than a minute.  Any thread may call them;
    after a fork each process has connections of its own.
    """

    def __init__(
        self,
        where: str | Path,
        *,
        key: bytes,
        clock: Callable[[], float] = time.time,
        patience: Patience | None = None,
    ) -> None:
        try:
            from chexpoint.graph.ledger_database import Database
        except ImportError as error:
            raise GraphError(
                f"the graph needs SQLAlchemy 2 ({error}). Run: pip install 'sqlalchemy>=2'."
            ) from error
        self._key = checked_key(key)
        self._database = Database(where, patience)
        self._clock = clock
        self._project = ""
        self._problems: dict[str, None] = {}
        self._turn = threading.Lock()

    @classmethod
    def open(
        cls,
        where: str | Path,
        *,
        key: bytes,
        clock: Callable[[], float] = time.time,
        patience: Patience | None = None,
    ) -> Ledger:
        """Return the ledger at a place; it is made if there is none.

        Parameters
        ----------
        where
            A path, ``sqlite:////PATH`` or ``postgresql://USER@HOST/DATABASE``.  SQLite does not
            work on network drives.
        key
            What contents are signed with; others than its owners' are not given out.
        clock
            Tells the time, in seconds since the epoch.
        patience
            How long to wait for what.

        Raises
        ------
        InvalidValue
            If it is no place for a ledger, or the key is none.
        GraphError
            If there is something else, or a ledger of a newer version, or nothing can be reached.
        """
        ledger = cls(where, key=key, clock=clock, patience=patience)
        try:
            ledger._database.reading(lambda _: None)
        except BaseException:
            ledger.close()
            raise
        return ledger

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -------------------------------------------------------- writing

    def merge(self, recorded: RecordedOperation) -> list[str]:
        """Add a run of an operation; return what was not kept of it, in sentences.

        If it ran before, it is counted once more.  If an artifact holds something else than it
        did before, the operation is in doubt for ever, and the artifact cannot be loaded.
        """
        from chexpoint.graph import ledger_writing

        run = ledger_writing.prepared(recorded, self._key)
        now = self._clock()
        self._database.writing(lambda c: ledger_writing.merge(c, run, self._project, now))
        return list(run.notes)

    def set_score(self, artifact: ArtifactId, value: float) -> list[str]:
        """Keep the score of a model if it is its best; return why it is not kept, in sentences."""
        from chexpoint.graph import ledger_writing
        from chexpoint.graph.ledger_merging import is_score, refusal

        if not is_score(value):
            return [refusal(artifact, value)]
        scores = {artifact: float(value)}
        known = self._database.writing(lambda c: ledger_writing.write_scores(c, scores))
        return [] if known else [f"the score of '{artifact}' is not kept: it is not in the graph."]

    def set_stored(self, artifact: ArtifactId, stored: StoredArtifact) -> bool:
        """Say where the contents of an artifact are, after they are there.

        Returns
        -------
        bool
            False if the artifact is not known, or if nobody can say what it holds because runs
            differed: then the caller removes the image again.
        """
        from chexpoint.graph import ledger_writing

        return self._database.writing(lambda c: ledger_writing.set_stored(c, artifact, stored))

    def drop_stored(self, ids: Iterable[ArtifactId], *, image: str | None = None) -> Dropped:
        """Say that artifacts are not stored any more; return what the caller removes.

        Parameters
        ----------
        ids
            Those that are not stored are passed by.
        image
            Only those that are in this image: who finds it missing must not drop what somebody
            else has stored anew.
        """
        from chexpoint.graph import ledger_collecting

        wanted = list(ids)
        return self._database.writing(lambda c: ledger_collecting.drop(c, wanted, image=image))

    def used(self, ids: Iterable[ArtifactId]) -> None:
        """Say that artifacts are about to be loaded: from now on no collection takes them."""
        from chexpoint.graph import ledger_writing

        wanted, now = list(ids), self._clock()
        if wanted:
            self._database.writing(lambda c: ledger_writing.used(c, wanted, self._project, now))

    def note_load(self, backend: str, kind: str, size_bytes: Bytes, seconds: Seconds) -> None:
        """Keep how long it took to load something."""
        from chexpoint.graph import ledger_writing

        if not 0 <= seconds < 1e9 or not 0 <= size_bytes < 2**62:
            raise InvalidValue(f"{size_bytes} bytes in {seconds} s is no load.")
        load = MeasuredLoad(
            backend=backend, kind=kind, size_bytes=int(size_bytes), seconds=float(seconds)
        )
        self._database.writing(lambda c: ledger_writing.note_load(c, load))

    # -------------------------------------------------------- projects

    def register(self, project: str, folder: str | Path) -> None:
        """Say which project this ledger is used by from now on, and where that is."""
        from chexpoint.graph import ledger_writing

        if not project:
            raise InvalidValue("a project needs an id.")
        now, place = self._clock(), os.fspath(folder)
        self._database.writing(lambda c: ledger_writing.register(c, project, place, now))
        self._project = project

    def unregister(self, project: str) -> None:
        """Say that a project is no more: nothing is kept for its sake any longer."""
        from chexpoint.graph import ledger_writing

        self._database.writing(lambda c: ledger_writing.unregister(c, project))
        self._project = "" if self._project == project else self._project

    def projects(self) -> list[LedgerProject]:
        """Return the projects that use the ledger."""
        from chexpoint.graph import ledger_reading

        return self._database.reading(ledger_reading.projects)

    def gc(self, *, older_than_s: Seconds, budget_bytes: Bytes | None = None) -> Dropped:
        """Let go of contents that no project has used for some time; return what.

        What is known about the artifacts stays.  The caller removes the images after that; who was
        about to load one misses it, and computes.

        Parameters
        ----------
        older_than_s
            What anybody used within this time is kept, whatever the budget.
        budget_bytes
            Only as many go as there are too much, the longest unused first; without it all go.
        """
        from chexpoint.graph import ledger_collecting

        before = self._clock() - older_than_s
        return self._database.writing(
            lambda c: ledger_collecting.collect(c, before=before, budget_bytes=budget_bytes)
        )

    # -------------------------------------------------------- reading

    def operations_like(self, code: Digest, packages: Digest, limit: int = 200) -> list[Operation]:
        """Return operations of the same code and packages, newest first."""
        from chexpoint.graph import ledger_reading

        return self._database.reading(
            lambda c: ledger_reading.operations_like(c, code, packages, limit, self._tell)
        )

    def recorded(self, operation: OperationId) -> RecordedOperation | None:
        """Return an operation with the lineage and outputs of its newest run.

        None if it is not known, or if what is kept of it was written with another key.
        """
        from chexpoint.graph import ledger_reading

        return self._database.reading(
            lambda c: ledger_reading.recorded(c, operation, self._key, self._tell)
        )

    def artifacts(self, ids: Iterable[ArtifactId]) -> dict[ArtifactId, Artifact]:
        """Return those of some artifacts that are known."""
        from chexpoint.graph import ledger_reading

        wanted = list(ids)
        return self._database.reading(lambda c: ledger_reading.artifacts(c, wanted, self._tell))

    def contents(self, ids: Iterable[ArtifactId]) -> dict[ArtifactId, str]:
        """Return the contents of artifacts that are in the ledger itself.

        Those that somebody without the key wrote are left out.
        """
        from chexpoint.graph import ledger_reading

        wanted = list(ids)
        return self._database.reading(
            lambda c: ledger_reading.contents(c, wanted, self._key, self._tell)
        )

    def graph(self) -> ExperimentGraph:
        """Return the whole graph, without outputs, lineage and contents."""
        from chexpoint.graph import ledger_reading

        return self._database.reading(lambda c: ledger_reading.graph(c, self._tell))

    def images(self) -> set[str]:
        """Return the images that hold artifacts; all others of the store are left-overs."""
        from chexpoint.graph import ledger_reading

        return self._database.reading(ledger_reading.images)

    def loads(self) -> list[MeasuredLoad]:
        """Return how long the last loads of each back end and kind took, oldest first."""
        from chexpoint.graph import ledger_reading

        return self._database.reading(ledger_reading.loads)

    def problems(self) -> list[str]:
        """Return what was wrong with rows that were read so far, each once, in sentences."""
        with self._turn:
            return list(self._problems)

    def _tell(self, problem: str) -> None:
        with self._turn:
            if len(self._problems) < _PROBLEMS:
                self._problems[problem] = None
