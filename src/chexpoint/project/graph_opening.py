"""The experiment graph of a project for those who look at it, and how it gets smaller."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from chexpoint.config import Config
from chexpoint.errors import InvalidValue, UnknownImage
from chexpoint.graph import ExperimentGraph, Ledger, LoadRates
from chexpoint.model import Artifact, ArtifactId, Bytes, ImageName, Seconds
from chexpoint.project.graph_settings import GraphSettings, graph_settings
from chexpoint.project.project import FOLDER

if TYPE_CHECKING:
    from chexpoint.store import Store, StoredImage

ARTIFACT_IMAGE = "artifact-"
"""Begins the names of images that hold artifacts."""

_SQLITE = "sqlite:///"
# What is younger may be about to be entered into the ledger.
_OLD_S = 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSweep:
    """What was taken out of a graph, or would be."""

    artifacts: tuple[ArtifactId, ...] = ()
    """Whose contents are not stored any more; what is known about them stays."""
    stored_bytes: Bytes = 0
    """What they had added when they were stored."""
    images: int = 0
    freed_bytes: Bytes = 0
    """What the store got smaller by; others may need part of what was in the images."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedModel:
    """The contents of an artifact where a worker can read them."""

    artifact: ArtifactId
    names: tuple[str, ...]
    contents: str = ""
    """They themselves, if they are little."""
    store: str = ""
    """Else a store with nothing else in it, which the reader removes."""
    image: str = ""
    key: str = ""
    """What the image in it is signed with, in hexadecimal."""


class OpenGraph:
    """The ledger of a project, with the store that belongs to it."""

    def __init__(self, folder: Path, settings: GraphSettings) -> None:
        from chexpoint.store import store_key

        self.folder = folder
        self.settings = settings
        self.ledger = Ledger.open(settings.ledger, key=store_key())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.ledger.close()

    def graph(self) -> ExperimentGraph:
        """Return all that is known."""
        return self.ledger.graph()

    def rates(self) -> LoadRates:
        """Return how long loads take."""
        store = self.settings.store
        backend = store.partition("://")[0] if "://" in store else "file"
        return LoadRates(self.ledger.loads(), backend=backend)

    # ------------------------------------------------------------ getting smaller

    def forget(self, ids: Iterable[ArtifactId]) -> GraphSweep:
        """Let go of the contents of some artifacts: rows first, so that nobody looks for them."""
        dropped = self.ledger.drop_stored(ids)
        freed = self._remove(dropped.images)
        return GraphSweep(
            artifacts=dropped.artifacts,
            stored_bytes=dropped.stored_bytes,
            images=len(dropped.images),
            freed_bytes=freed,
        )

    def collect(self, *, older_than_s: Seconds, budget_bytes: Bytes | None) -> GraphSweep:
        """Let go of contents that no project has used for some time.

        Parameters
        ----------
        budget_bytes
            Only as many go as there are too much; without it all go.
        """
        dropped = self.ledger.gc(older_than_s=older_than_s, budget_bytes=budget_bytes)
        images = [*dropped.images, *self._leftovers()]
        return GraphSweep(
            artifacts=dropped.artifacts,
            stored_bytes=dropped.stored_bytes,
            images=len(images),
            freed_bytes=self._remove(images),
        )

    def foretell(self, *, older_than_s: Seconds, budget_bytes: Bytes | None) -> GraphSweep:
        """Return what `collect` would let go of."""
        stored = [each for each in self.graph().artifacts.values() if each.stored is not None]
        gone = _unused(stored, time.time() - older_than_s, budget_bytes)
        images = {each.stored.image for each in gone if each.stored is not None} - {""}
        return GraphSweep(
            artifacts=tuple(each.id for each in gone),
            stored_bytes=sum(each.stored.stored_bytes for each in gone if each.stored is not None),
            images=len(images) + len(self._leftovers()),
        )

    def _leftovers(self) -> list[ImageName]:
        """Return images of artifacts that the ledger does not know.

        Only where nobody else can know them: another ledger may use the same store.
        """
        own = self.folder / FOLDER
        if self.settings.store != str(own / "store") or _file_of(self.settings.ledger) is None:
            return []
        if not (own / "store").is_dir():
            return []
        with self._store() as store:
            images = store.images()
        known = self.ledger.images()
        before = time.time() - _OLD_S
        return [
            each.name
            for each in images
            if each.name.startswith(ARTIFACT_IMAGE)
            and each.name not in known
            and each.time < before
        ]

    def _remove(self, images: Collection[str]) -> Bytes:
        """Take images out of the store; return how much smaller it is."""
        if not images:
            return 0
        with self._store() as store:
            for image in images:
                with contextlib.suppress(UnknownImage):  # somebody else was faster
                    store.forget(image)
            return store.gc().freed_bytes

    def _store(self) -> Store:
        from chexpoint.store import Store

        return Store.open(self.settings.store, create=False)

    # ------------------------------------------------------------ fetching

    def fetch(self, artifact: Artifact, into: Path) -> FetchedModel | None:
        """Bring the contents of an artifact to where a worker can read them, or return None.

        They are authenticated here.  The worker has no part in it: what it reads elsewhere than
        in the project's own folder would count as an input of the cell.

        Parameters
        ----------
        into
            A folder of ours that is made for a store with the image.

        Raises
        ------
        ChexError
            If the contents are damaged, or signed by others.
        """
        if artifact.stored is None:
            return None
        names = artifact.group.names
        self.ledger.used([artifact.id])
        if not artifact.stored.image:
            text = self.ledger.contents([artifact.id]).get(artifact.id, "")
            return FetchedModel(artifact=artifact.id, names=names, contents=text) if text else None
        try:
            with self._store() as store, store.read(artifact.stored.image) as image:
                return _copied(artifact, image, into)
        except UnknownImage:
            self.ledger.drop_stored([artifact.id], image=artifact.stored.image)
            return None


def open_graph(folder: Path, config: Config) -> OpenGraph:
    """Return the graph of the project in a folder.

    Raises
    ------
    InvalidValue
        If there is none.
    GraphError
        If it cannot be read.
    """
    settings = graph_settings(folder, config)
    if not settings.ledger:
        raise InvalidValue("there is no experiment graph: CHEX_GRAPH turns it off")
    file = _file_of(settings.ledger)
    if file is not None and not file.exists():
        raise InvalidValue(
            f"no experiment graph in {file}: run a cell with the CHEX kernel, or name another one "
            "with CHEX_GRAPH"
        )
    return OpenGraph(folder, settings)


def _file_of(ledger: str) -> Path | None:
    """Return the file that a ledger is in; None if it is on a server."""
    if ledger.startswith(_SQLITE):
        return Path(ledger.removeprefix(_SQLITE))
    return None if "://" in ledger else Path(ledger)


def _unused(
    stored: Iterable[Artifact], before: float, budget_bytes: Bytes | None
) -> list[Artifact]:
    """Return what was not used since a time, the oldest first, as the ledger chooses it."""
    ordered = sorted(stored, key=lambda each: (each.used, each.id))
    sizes = [0 if each.stored is None else each.stored.stored_bytes for each in ordered]
    total, gone = sum(sizes), []
    for each, size in zip(ordered, sizes, strict=True):
        if each.used >= before or (budget_bytes is not None and total <= budget_bytes):
            break
        gone.append(each)
        total -= size
    return gone


def _copied(artifact: Artifact, image: StoredImage, into: Path) -> FetchedModel:
    """Put an image into a store of its own, signed with a key that only the reader gets."""
    from chexpoint.store import Store

    key = secrets.token_bytes(32)
    with Store.open(into, key=key) as store:
        store.put(
            image.info.name,
            image.document,
            streams={name: image.stream(name) for name in image.streams},
            arrays={name: image.array(name).data for name in image.arrays},
        )
    return FetchedModel(
        artifact=artifact.id,
        names=artifact.group.names,
        store=str(into),
        image=image.info.name,
        key=key.hex(),
    )
