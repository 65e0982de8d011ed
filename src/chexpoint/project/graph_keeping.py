"""What one kernel stores in the experiment graph, and what it drops: the ledger and the store."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from chexpoint.engine import Chosen
from chexpoint.errors import ChexError
from chexpoint.graph import Deed, choose
from chexpoint.lineage import Step
from chexpoint.model import Artifact, ArtifactId, Bytes, Digest, ImageInfo, Seconds, StoredArtifact
from chexpoint.project.graph_settings import GraphSettings
from chexpoint.project.project import Project

if TYPE_CHECKING:
    from chexpoint.graph import ExperimentGraph, Ledger, LoadRates

# So many times what writing takes must be saved: whether anybody will load it is not known.
_PAYS = 2
# Of what is thought to be new in an image, at least this share must have been written to tell how
# long that takes.
_NEW = 0.1
# What is in the store already is only looked at.
_KNOWN_BYTES_PER_S = 2e9
# Another kernel may have stored something meanwhile.
_REFRESH_S = 20.0
# Dropped contents may take this part of the room for a while: to free them is some work.
_UNSWEPT = 0.25


class GraphKeeping:
    """Keeps results of one kernel for others, within the budget of the graph.

    Parameters
    ----------
    tell
        Shows the user a line.
    """

    def __init__(
        self, project: Project, settings: GraphSettings, *, tell: Callable[[str], None]
    ) -> None:
        self._project = project
        self._settings = settings
        self._tell = tell
        self._told: set[str] = set()
        self._ledger: Ledger | None = None
        self._graph: ExperimentGraph | None = None
        self._graph_time = 0.0
        self._rates: LoadRates | None = None
        self.is_used = False
        """Whether cells are looked for in the graph, and results stored for others."""
        self.reasons: dict[ArtifactId, str] = {}
        """Why each artifact is stored, or not."""
        self._unswept_bytes = 0
        """What artifacts took that were dropped, and may still take on the disk."""
        self._wishes: dict[ArtifactId, tuple[str, ...]] = {}
        """What is to be stored, as the variables that it is, until it is known what came of it."""
        self._useless: set[ArtifactId] = set()
        """Artifacts that could not be loaded here."""

    @property
    def store(self) -> str:
        """Where contents go."""
        return self._settings.store

    def prepare(self) -> None:
        """Open the ledger, so that the first cell does not wait for it."""
        self._open()

    # ------------------------------------------------------------ what is stored

    def _choose(self, step: Step, deed: Deed) -> Chosen:
        large = [
            (artifact, group)
            for artifact, group in zip(deed.artifacts, deed.variables.writes, strict=True)
            if not group.contents and not group.why_not and not group.names[0].startswith(":")
        ]
        if not self.is_used or not self.store:
            return Chosen(step, ())
        after = deed.after.variables
        present = {
            artifact: names
            for artifact, names in self._wishes.items()
            if all(after.get(name) == artifact for name in names)
        }
        if deed.operation.doubt or not large:
            return self._as_chosen(step, present)
        graph = self._whole()
        stored = self._stored()
        mine = {artifact.id: group.names for artifact, group in large}
        rates = self._load_rates()
        held = self._parts_of((stored | self._wishes.keys()) - mine.keys())
        choice = choose(
            graph,
            stored | mine.keys() | self._wishes.keys(),
            budget_bytes=self._settings.budget_bytes,
            alpha=self._settings.alpha,
            strategy=self._settings.strategy,
            rates=rates,
            write_s=lambda artifact: _PAYS * self._writing_s(artifact, held),
        )
        self.reasons |= choice.reasons
        self._drop(choice.drop & stored)
        wanted = choice.keep - stored
        groups = {each: names for each, names in (present | mine).items() if each in wanted}
        self._wishes |= groups
        return self._as_chosen(step, groups)

    def _as_chosen(self, step: Step, groups: Mapping[ArtifactId, tuple[str, ...]]) -> Chosen:
        if not groups:
            return Chosen(step, ())
        artifacts, held = self._whole().artifacts, self._parts_of(self._stored() - groups.keys())
        writing = (self._writing_s(artifacts[each], held) for each in groups if each in artifacts)
        return Chosen(step, tuple(groups.items()), write_s=sum(writing))

    def _parts_of(self, ids: Collection[ArtifactId]) -> set[Digest]:
        """Return the arrays in some artifacts."""
        artifacts = self._whole().artifacts
        found = (artifacts[each].group for each in ids if each in artifacts)
        return {digest for group in found for digest, _ in group.parts}

    def _stored(self) -> set[ArtifactId]:
        """Return what is in the store, as far as is known here."""
        every = self._whole().artifacts.values()
        return {each.id for each in every if each.stored is not None and each.stored.image}

    def _writing_s(self, artifact: Artifact, held: Collection[Digest]) -> Seconds:
        """Return what writing an artifact takes, as far as known."""
        new = _new_bytes(artifact, held)
        known = artifact.group.size_bytes - new
        seconds = self._load_rates().expect(self._writing(), "", new)
        return seconds + known / _KNOWN_BYTES_PER_S

    def _note_write(self, artifact: Artifact, info: ImageInfo) -> None:
        """Remember how long it took to write an image; what was there already says nothing."""
        new = min(
            _new_bytes(artifact, self._parts_of(self._stored() - {artifact.id})), info.state_bytes
        )
        if info.seconds > 0 and info.stored_bytes > _NEW * new:
            self._load_rates().note(self._writing(), "", new, info.seconds)
            self._open().note_load(self._writing(), "", new, info.seconds)

    def _drop(self, ids: Iterable[ArtifactId]) -> None:
        """Take the contents of artifacts out of the store: rows first, so that nobody looks."""
        ids = sorted(ids)
        if not ids:
            return
        graph = self._whole()
        dropped = self._open().drop_stored(ids)
        for each in ids:
            graph.artifacts[each] = replace(graph.artifacts[each], stored=None)
        self._forget_images(dropped.images, dropped.stored_bytes)

    def _forget_images(self, images: Iterable[str], stored_bytes: Bytes) -> None:
        from chexpoint.store import Store

        with Store.open(self.store, create=False) as store:
            for image in images:
                store.forget(image)
        self._unswept_bytes += stored_bytes
        if self._unswept_bytes > _UNSWEPT * self._settings.budget_bytes:
            self._sweep()

    def _sweep(self) -> None:
        """Free what dropped artifacts take on the disk, unless others use the store now."""
        from chexpoint.store import Store

        self._unswept_bytes = 0
        with contextlib.suppress(ChexError, OSError), Store.open(self.store, create=False) as store:
            store.gc()

    def kept(self, artifact: ArtifactId, info: ImageInfo | None, why: str) -> None:
        """An artifact is in the store now, or could not be stored."""
        self._wishes.pop(artifact, None)
        if info is None:
            self.reasons[artifact] = f"Not stored: {why.rstrip('.')}."
            return
        rates = self._load_rates()
        load_s = rates.expect(self._backend(), "", info.state_bytes)
        stored = StoredArtifact(image=info.name, stored_bytes=info.stored_bytes, load_s=load_s)
        if not self._open().set_stored(artifact, stored):
            self._forget_images([info.name], info.stored_bytes)
            return
        self._useless.discard(artifact)
        graph = self._whole()
        if artifact in graph.artifacts:
            self._note_write(graph.artifacts[artifact], info)
            graph.artifacts[artifact] = replace(graph.artifacts[artifact], stored=stored)

    # ------------------------------------------------------------ the ledger

    def _open(self) -> Ledger:
        if self._ledger is None:
            from chexpoint.graph import Ledger
            from chexpoint.store import store_key

            self._ledger = Ledger.open(self._settings.ledger, key=store_key())
            self._ledger.register(str(self._project.folder), str(self._project.folder))
        return self._ledger

    def _whole(self) -> ExperimentGraph:
        now = time.monotonic()
        if self._graph is None or now - self._graph_time > _REFRESH_S:
            self._graph, self._graph_time = self._open().graph(), now
        return self._graph

    def _load_rates(self) -> LoadRates:
        if self._rates is None:
            from chexpoint.graph import LoadRates

            self._rates = LoadRates(self._open().loads())
        return self._rates

    def _backend(self) -> str:
        return self.store.partition("://")[0] if "://" in self.store else "file"

    def _writing(self) -> str:
        """Return under which name it is kept how long writing takes."""
        from chexpoint.graph import writing_to

        return writing_to(self._backend())

    def _say(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._tell(text)

    def failed(self, error: Exception) -> None:
        """Something is wrong with the graph: say so once, and go on without."""
        self._ledger, self._graph = None, None
        text = str(error) if isinstance(error, ChexError) else f"{type(error).__name__}: {error}"
        self._say(f"the experiment graph is not used: {text}")

    def close(self) -> None:
        if self._unswept_bytes:
            self._sweep()
        if self._ledger is not None:
            self._ledger.close()


def _new_bytes(artifact: Artifact, held: Collection[Digest]) -> Bytes:
    """Return how much of an artifact is not among the arrays that are in the store."""
    parts = dict(artifact.group.parts)
    known = sum(size for digest, size in parts.items() if digest in held)
    return max(0, artifact.group.size_bytes - known)
