"""The journal of one kernel: a thread that writes the catalog, and reads it.

The supervisor must never wait for a disk, so it hands everything over, in the order in which it
happened.  See `chexpoint.engine.Journal` for what each call means.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from chexpoint.config import Config
from chexpoint.engine import (
    Ask,
    Bound,
    CellText,
    Drained,
    FilesChecked,
    Item,
    Looked,
    Result,
    Told,
)
from chexpoint.errors import CatalogError, ChexError, InvalidValue
from chexpoint.lineage import Lost, Present, Step, default_cache_folder, put_back
from chexpoint.model import (
    ArtifactId,
    CellRecord,
    Checkpoint,
    Effect,
    ImageInfo,
    ImageName,
    KnownImage,
    PathCell,
    RecordingStatus,
)
from chexpoint.project.graph_settings import GraphSettings, graph_settings
from chexpoint.project.kept_files import keep_files
from chexpoint.project.names import check_version_name
from chexpoint.project.project import Project
from chexpoint.project.reuse import Reuse, Verdict
from chexpoint.project.version_log import VersionLog

if TYPE_CHECKING:
    from chexpoint.project.graphing import Graphing

T = TypeVar("T")

# How long an ending kernel waits for the last cells to be written.
_CLOSE_TIMEOUT_S = 5.0
_SHOWN_FILES = 10


class ProjectJournal:
    """Keeps what the cells of a kernel did in the catalog of a project.

    Parameters
    ----------
    origin
        The notebook, if it is known.
    """

    def __init__(self, project: Project, *, origin: str = "") -> None:
        self._project = project
        self._session = f"{time.time_ns():x}-{os.getpid()}"
        name = version_name(Path(origin).stem) or "run"
        self._log = VersionLog(project, session=self._session, name=name, origin=origin)
        self._present: Present | None = None
        self._reuse: Reuse | None = None
        self._allowed: tuple[str, ...] = ()
        self._startup: tuple[str, ...] = ()
        self._ignored: tuple[str, ...] = ()
        self._is_on = True
        self._problem = ""
        self._held: tuple[object, ...] = ()
        self._switched: tuple[int, tuple[PathCell, ...] | None] = (0, None)
        """The last cell that named a version, and where that has led."""
        self._to_come: tuple[str, ...] = ()
        """All cells of the version, if whoever has begun it knows them."""
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._later: deque[Callable[[], None]] = deque()
        self._results: queue.SimpleQueue[Result] = queue.SimpleQueue()
        self._graph = self._graph_settings()
        self._graphing: Graphing | None = None
        self._uses_graph = False
        self._wake: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._work, name="chex-journal", daemon=True)
        self._has_started = False

    def _graph_settings(self) -> GraphSettings:
        config = Config.at(self._project.folder)
        for problem in config.problems:
            self._results.put(Told(f"{problem} (not used)"))
        try:
            return graph_settings(self._project.folder, config)
        except InvalidValue:
            self._results.put(Told("the experiment graph is not used"))
            return GraphSettings(ledger="", store="")

    # ------------------------------------------------------------ for the supervisor

    def attach(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._prepare_graph()

    def started(self, startup: Sequence[str], ignored: Sequence[str]) -> None:
        self._put(lambda: self._forget_world(startup, ignored))

    def look(self, seq: int, cell: CellText, place: Step, worker: Step) -> None:
        self._put(lambda: self._look(seq, cell, place, worker))

    def use_graph(self, on: bool) -> None:
        self._uses_graph = on
        self._prepare_graph()

    def _prepare_graph(self) -> None:
        """Open the graph if there will be one: it takes a while, in which the worker starts."""
        if self.follows_variables():
            self._put(lambda: self._with_graph(lambda graphing: graphing.prepare()))

    def decisions(self) -> dict[str, str]:
        return {} if self._graphing is None else self._graphing.told()

    def follows_variables(self) -> bool:
        return bool(self._graph.ledger) and (self._uses_graph or self._graph.is_shared)

    def record(self, step: Step, cell: CellRecord, *, is_again: bool) -> None:
        self._put(lambda: self._record(step, cell, is_again=is_again))

    def recalled(self, step: Step) -> None:
        self._put(lambda: self._written(lambda: self._log.recall(step)))

    def begin(self, name: str, place: Step, about: Mapping[str, Any]) -> None:
        self._put(lambda: self._begin(name, place, about))

    def drain(self, ask: Ask) -> None:
        self._put(lambda: self._drain(ask))

    def pause(self, on: bool) -> None:
        self._put(lambda: self._pause(on))

    def allow(self, kinds: Sequence[str]) -> None:
        self._allowed = tuple(kinds)

    def check_files(self, place: Step, *, put_back: bool) -> None:
        self._put(lambda: self._check_files(place, put_back=put_back))

    def hold(self, checkpoints: Sequence[Checkpoint]) -> None:
        self._put(lambda: self._hold(checkpoints))

    def keep_image(self, step: Step, image: KnownImage) -> None:
        self._put(lambda: self._keep_image(step, image))

    def forget_image(self, name: ImageName) -> None:
        self._put(lambda: self._forget_image(name))

    def store(self) -> str:
        return str(self._project.store_folder)

    def artifact_store(self) -> str:
        return self._graph.store

    def note_loads(self, items: Sequence[Item], bound: Bound) -> None:
        self._put(lambda: self._with_graph(lambda graphing: graphing.loaded(items, bound)))

    def keep_artifact(self, artifact: ArtifactId, info: ImageInfo | None, why: str) -> None:
        self._put(lambda: self._with_graph(lambda graphing: graphing.kept(artifact, info, why)))

    def loops(self) -> dict[str, str] | None:
        if not self._is_on or self._problem:
            return None
        folder = str(self._project.loop_folder)
        return {"folder": folder, "store": self.store(), "session": self._session}

    def results(self) -> list[Result]:
        found = []
        with contextlib.suppress(queue.Empty):
            while True:
                found.append(self._results.get_nowait())
        return found

    def status(self) -> RecordingStatus:
        return RecordingStatus(
            is_on=self._is_on and not self._problem,
            version=self._log.name,
            cells=self._log.cells,
            folder=str(self._project.path.parent),
            problem=self._problem,
        )

    def close(self) -> None:
        if self._has_started:
            self._put(lambda: self._hold(()))
            self._jobs.put(None)
            self._thread.join(_CLOSE_TIMEOUT_S)
            if not self._thread.is_alive():
                self._project.close()
                if self._graphing is not None:
                    self._graphing.close()

    # ------------------------------------------------------------ the thread

    def _put(self, job: Callable[[], None]) -> None:
        if not self._has_started:
            self._has_started = True
            self._thread.start()
        self._jobs.put(job)

    def _work(self) -> None:
        while (job := self._next_job()) is not None:
            self._try(job)
        self._catch_up()

    def _try(self, job: Callable[[], None]) -> None:
        try:
            job()
        except Exception as error:  # a kernel goes on without its record
            self._stop(error)

    def _next_job(self) -> Callable[[], None] | None:
        """Return what is to be done next: what nobody waits for comes last."""
        if not self._later:
            return self._jobs.get()
        try:
            return self._jobs.get_nowait()
        except queue.Empty:
            return self._later.popleft()

    def _drain(self, ask: Ask) -> None:
        self._catch_up()
        self._post(Drained(ask))

    def _catch_up(self) -> None:
        """Do what was put off."""
        while self._later:
            self._try(self._later.popleft())

    def _post(self, result: Result) -> None:
        self._results.put(result)
        self._wake()

    def _stop(self, error: Exception) -> None:
        """Record no more, and say so once."""
        if not self._problem:
            self._problem = str(error) or repr(error)
            self._post(Told(f"recording stopped: {self._problem} %chex_record --on goes on."))

    def _written(self, write: Callable[[], None]) -> None:
        if self._is_on and not self._problem:
            write()

    def _with_graph(self, do: Callable[[Graphing], T]) -> T | None:
        """Do something with the experiment graph; a kernel goes on without it."""
        if not self.follows_variables():
            return None
        if self._graphing is None:
            # Not before it is wanted: most kernels have none, and start faster without.
            from chexpoint.project.graphing import Graphing

            tell: Callable[[str], None] = lambda text: self._post(Told(text))  # noqa: E731
            self._graphing = Graphing(self._project, self._graph, tell=tell)
        self._graphing.is_used = self._uses_graph
        try:
            return do(self._graphing)
        except Exception as error:  # of a database, or of ours: cells are recorded all the same
            self._graphing.failed(error)
            return None

    def _record(self, step: Step, cell: CellRecord, *, is_again: bool) -> None:
        whole, cell = cell, replace(cell, lineage=cell.lineage.bare())
        has_strayed = is_again and cell.lineage.status != "ok"  # the node is not what it was
        if not self._is_on or self._problem or has_strayed:
            self._log.wait(step, cell)
            return
        try:
            self._log.record(step, cell, is_again=is_again)
        except Exception:
            self._log.wait(step, cell)
            raise
        keep_files(self._project, cell.lineage, self._world().places)
        if not is_again:
            self._later.append(lambda: self._tell_graph(step, whole))

    def _tell_graph(self, step: Step, cell: CellRecord) -> None:
        chosen = self._with_graph(lambda graphing: graphing.record(step, cell))
        if chosen is not None:
            self._post(chosen)

    def _begin(self, name: str, place: Step, about: Mapping[str, Any]) -> None:
        self._is_on, self._problem = True, ""
        self._to_come = tuple(map(str, about.get("cells", ())))
        chosen = tuple((str(k), str(v)) for k, v in about.get("parameters", ()))
        self._log.begin(name, place, origin=about.get("origin", ""), parameters=chosen)

    def _pause(self, on: bool) -> None:
        self._is_on, self._problem = not on, ""

    def _look(self, seq: int, cell: CellText, place: Step, worker: Step) -> None:
        result = Looked(seq, place)
        try:
            result = self._looked(seq, cell, place, worker)
        except CatalogError as error:  # what cannot be read cannot be reused, nor added to
            self._stop(error)
        except ChexError as error:
            result = Looked(seq, place, why=str(error))
        finally:
            self._post(result)

    def _looked(self, seq: int, cell: CellText, place: Step, worker: Step) -> Looked:
        go, at = None, place
        if cell.version is not None:
            try:
                check_version_name(cell.version)
            except InvalidValue as error:
                return Looked(seq, place, problem=str(error))
            if self._switched[0] != seq:  # a worker that dies meanwhile makes the engine ask again
                self._switched = seq, self._log.switch(cell.version)
            go = self._switched[1]
        if go is not None:
            at = place.path()[0]
            for each in go:
                at = Step.recalled(at, each)
        verdict = self._judge().judge(cell.source, at)
        if verdict.found is None and self._uses_graph:
            verdict = self._with_graph(lambda g: self._sought(g, cell, at, verdict)) or verdict
        is_behind = not worker.is_same_state(at) or bool(worker.absent)
        way = None
        if verdict.found is None and is_behind:
            later = self._after(cell, at)
            way = self._with_graph(
                lambda graphing: graphing.way(cell.source, at, worker, later=later)
            )
        return Looked(
            seq,
            place,
            found=verdict.found,
            why=verdict.why,
            is_novel=verdict.is_novel,
            go=go,
            way=way if go is None else None,
        )

    def _after(self, cell: CellText, at: Step) -> tuple[str, ...] | None:
        """Return the cells that will follow one, if that is known."""
        at_hand = self._to_come[at.number : at.number + 1]
        return self._to_come[at.number + 1 :] if at_hand == (cell.source,) else None

    def _sought(self, graphing: Graphing, cell: CellText, at: Step, verdict: Verdict) -> Verdict:
        """Look for a cell in the experiment graph that is not in the tree."""
        path = self._judge().lineages(at)
        found, why = graphing.find(cell.source, at, path, self._judge().objection)
        return Verdict(found=found, why=verdict.why or why)

    def _forget_world(self, startup: Sequence[str], ignored: Sequence[str]) -> None:
        self._startup, self._ignored = tuple(startup), tuple(ignored)
        self._present = self._reuse = None

    # ------------------------------------------------------------ images

    def _keep_image(self, step: Step, image: KnownImage) -> None:
        if step.node is not None and self._project.path.exists():
            self._project.add_image(replace(image, node=step.node, taint=step.taint))

    def _forget_image(self, name: ImageName) -> None:
        from chexpoint.store import Store

        with contextlib.suppress(ChexError):
            self._project.drop_image(name)
            with Store.open(self._project.store_folder, create=False) as store:
                store.forget(name)

    def _world(self) -> Present:
        if self._present is None:
            self._present = Present(
                str(self._project.folder),
                cache_folder=default_cache_folder(),
                startup=self._startup,
                ignored=self._ignored,
            )
        return self._present

    def _judge(self) -> Reuse:
        if self._reuse is None:
            self._reuse = Reuse(self._project, self._world())
        self._reuse.allowed = self._allowed
        return self._reuse

    def _check_files(self, place: Step, *, put_back: bool) -> None:
        lines: list[str] = []
        try:
            self._log.move(place)
            lines = self._differences(place, restoring=put_back)
        except ChexError as error:
            lines = [str(error)]
        finally:
            self._post(FilesChecked(tuple(lines)))

    def _differences(self, place: Step, *, restoring: bool) -> list[str]:
        path = self._judge().lineages(place)
        lines, put = [], 0
        for each in self._world().different_files(path):
            kept = self._project.kept_file(each.expected) if _is_digest(each.expected) else None
            why = each.why
            if kept is not None and not restoring:
                why += " (--files puts it back)"
            elif kept is not None:
                effect = Effect(path=each.name, kind="written", digest=each.expected)
                try:
                    put_back(Lost(effect=effect, path=each.path, why=each.why), kept)
                except ChexError as error:
                    why = str(error)
                else:
                    put += 1
                    continue
            lines.append(why)
        if put:
            lines.insert(0, f"{put} file{'s' if put != 1 else ''} put back")
        if len(lines) > _SHOWN_FILES:
            lines[_SHOWN_FILES:] = [f"{len(lines) - _SHOWN_FILES} more files differ"]
        return lines

    def _hold(self, checkpoints: Sequence[Checkpoint]) -> None:
        held = tuple(
            (c.id, c.name, c.node, c.taint, c.size_bytes)
            for c in checkpoints
            if c.node is not None and not c.bad
        )
        if held != self._held and self._project.path.exists():
            self._held = held
            with contextlib.suppress(ChexError):  # a picture without them is none the worse
                self._project.set_checkpoints(self._session, held)


def _is_digest(word: str) -> bool:
    return word != "absent" and ":" not in word


def version_name(text: str) -> str:
    """Return a text with what a version's name may not have replaced; empty if nothing is left."""
    name = "".join(c if c.isalnum() or c in "._-+=," else "-" for c in text).strip("-")[:80]
    try:
        check_version_name(name)
    except InvalidValue:
        return ""
    return name
