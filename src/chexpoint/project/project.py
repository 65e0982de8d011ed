"""What was recorded in a project folder, and how its nodes and versions are named."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from chexpoint.errors import InvalidValue
from chexpoint.model import (
    CellLineage,
    CellRecord,
    Digest,
    ExecutionTree,
    ImageName,
    KnownImage,
    NodeId,
    Output,
    PathCell,
    Taint,
    Version,
)
from chexpoint.project import history, search
from chexpoint.project.catalog import Catalog
from chexpoint.project.contents import Contents
from chexpoint.project.held import HeldCheckpoint, held_nodes, replace_held
from chexpoint.project.images import add_image, drop_image, known_images
from chexpoint.project.names import check_version_name
from chexpoint.project.outputs import KeptOutputs
from chexpoint.project.recording import Writer
from chexpoint.project.trouble import explained
from chexpoint.project.way import Ways

FOLDER = ".chex"
LOOP_FOLDER = "loops"
"""In it: what is recorded of loops."""
CATALOG = "catalog.sqlite"
SHORT = search.SHORT

Parameters = tuple[tuple[str, str], ...]


# How long after the end of a cell its record may be written.
_LATE_S = 10.0


class Project:
    """A folder with notebooks, whose ``.chex`` holds what is known of the cells that ran there.

    Any number of processes may record and read at the same time, and none needs to be closed.

    Methods raise `CatalogError` if the catalog is damaged, of a newer version, or cannot be read
    or written.

    Parameters
    ----------
    clock
        Returns the seconds since the epoch.
    """

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self.path = folder / FOLDER / CATALOG
        """The catalog; it may not exist yet."""
        self._clock = clock
        self._catalog = Catalog(self.path)
        self._outputs = KeptOutputs(Contents(folder / FOLDER / "outputs"))
        self._files = Contents(folder / FOLDER / "files")

    @classmethod
    def at(cls, folder: str | os.PathLike[str]) -> Project:
        """Return the project of a folder; nothing is made before something is recorded."""
        return cls(Path(folder).absolute())

    @classmethod
    def find(cls, start: str | os.PathLike[str]) -> Project:
        """Return the project that a folder lies in.

        Raises
        ------
        InvalidValue
            If neither the folder nor one above it has a project.
        """
        first = Path(start).absolute()
        for folder in (first, *first.parents):
            if (folder / FOLDER).is_dir():
                return cls(folder)
        raise InvalidValue(
            f"no {FOLDER} folder in {first} or above: run a notebook with the CHEX kernel there "
            "first"
        )

    def close(self) -> None:
        """Let go of the catalog's file, until something is recorded again."""
        self._catalog.close()

    # ------------------------------------------------------------ recording

    def prepare(self) -> None:
        """Make the catalog, if it is not there.

        Raises
        ------
        CatalogError
            If nothing can be recorded here.
        """
        with self._catalog.writing():
            pass

    def new_version(
        self, name: str, *, session: str, origin: str = "", parameters: Parameters = ()
    ) -> int:
        """Begin a version; return its id.  It is not listed before it has a cell.

        Parameters
        ----------
        session
            Tells the runs of one kernel from those of others; execution counts are unique in it.
        origin
            The notebook or script, if that is known.
        parameters
            Names and values that are set for this version.
        """
        return self.branch(name, (), session=session, origin=origin, parameters=parameters)

    def branch(
        self,
        name: str,
        path: Sequence[PathCell],
        *,
        session: str,
        origin: str = "",
        parameters: Parameters = (),
    ) -> int:
        """Begin a version with cells that were recorded before; return its id.

        Each cell is known by its ``execution``, and is shown with the source and the id it is given
        with.
        """
        check_version_name(name)
        with self._catalog.writing() as connection:
            writer = Writer(connection, self._clock())
            version = writer.add_version(name, session, origin, parameters)
            writer.add_path(version, path)
        return version

    def record(self, cell: CellRecord, *, session: str, version: int | None = None) -> int:
        """Add one run of a cell, which is also the next of a version, if one is given.

        A node that is there already is updated.

        Returns
        -------
        int
            The id of the run.
        """
        # A file of outputs must be there before a row says so.
        with explained(self.path):
            outputs = self._outputs.put(cell)
        with self._catalog.writing() as connection:
            writer = Writer(connection, self._clock())
            kept = writer.keep_outputs(outputs.digest, outputs.text)
            execution = writer.add_run(cell, session, kept)
            if version is not None:
                writer.add_step(
                    version,
                    execution,
                    source=cell.lineage.source,
                    cell_id=cell.cell_id,
                    is_reused=False,
                )
        return execution

    def recall(self, version: int, execution: int, *, source: str, cell_id: str = "") -> None:
        """Add an earlier run to a version as its next cell: its outputs were shown again."""
        with self._catalog.writing() as connection:
            Writer(connection, self._clock()).add_step(
                version, execution, source=source, cell_id=cell_id, is_reused=True
            )

    def keep_file(self, path: str | os.PathLike[str], digest: Digest) -> bool:
        """Keep the contents of a file, if they still have this digest; return whether they have."""
        with explained(self.path.parent):
            return self._files.put_file(Path(path), digest)

    def set_checkpoints(self, session: str, held: Sequence[HeldCheckpoint]) -> None:
        """Say which checkpoints a session of this process holds, in place of what it held before.

        Parameters
        ----------
        held
            Id, name, node, taint and bytes of each.
        """
        if held or self._catalog.exists():
            with self._catalog.writing() as connection:
                replace_held(connection, session, held, self._clock())

    # ------------------------------------------------------------ images

    @property
    def store_folder(self) -> Path:
        """Where states are kept on disk; it may not exist yet."""
        return self.folder / FOLDER / "store"

    @property
    def loop_folder(self) -> Path:
        """Where the runs of loops are recorded."""
        return self.path.parent / LOOP_FOLDER

    def add_image(self, image: KnownImage) -> None:
        """Note that there is an image of a recorded state in the store."""
        with self._catalog.writing() as connection:
            add_image(connection, image, self._clock())

    def drop_image(self, name: ImageName) -> None:
        """Note that an image is of no use any more."""
        if self._catalog.exists():
            with self._catalog.writing() as connection:
                drop_image(connection, name)

    def images(self) -> tuple[KnownImage, ...]:
        """Return the images of recorded states, oldest first; some may be gone from the store."""
        if not self._catalog.exists():
            return ()
        with self._catalog.reading() as connection:
            return known_images(connection)

    def image_nodes(self) -> dict[str, NodeId]:
        """Return which node each image is a state of."""
        return {image.name: image.node for image in self.images()}

    # ------------------------------------------------------------ versions and the tree

    def versions(self) -> tuple[Version, ...]:
        """Return all versions that have a cell, oldest first."""
        if not self._catalog.exists():
            return ()
        with self._catalog.reading() as connection:
            return history.all_versions(connection)

    def tree(self) -> ExecutionTree:
        """Return everything that was recorded, merged."""
        if not self._catalog.exists():
            return ExecutionTree()
        with self._catalog.reading() as connection:
            return history.whole_tree(connection)

    def version(self, ref: str) -> Version:
        """Return the version that a user means: ``name`` is the newest of that name, or ``name@2``.

        Raises
        ------
        InvalidValue
            If there is none.
        """
        self._refuse_empty()
        word = ref.strip()
        with self._catalog.reading() as connection:
            found = history.find_version(connection, word)
            if found is None:
                raise history.no_version(connection, word)
        return found.version

    def cells(self, version: Version) -> tuple[PathCell, ...]:
        """Return the cells of a version, exactly as they ran, in order.

        Raises
        ------
        InvalidValue
            If it is not in the catalog.
        """
        self._refuse_empty()
        with self._catalog.reading() as connection:
            return history.cells_of_version(connection, f"{version.name}@{version.number}")

    def way_to(self, ref: str) -> tuple[PathCell, ...]:
        """Return the runs that lead to a state from the first cell on.

        Parameters
        ----------
        ref
            A version, or else a node or the number of a cell as in `node`.

        Raises
        ------
        InvalidValue
            If nothing, or several things, may be meant, or the way is not recorded completely.
        """
        self._refuse_empty()
        word = ref.strip()
        with self._catalog.reading() as connection:
            ways = Ways(connection)
            way = ways.to_version(word)
            if way is not None:
                return way
            if not search.may_mean_node(word):
                raise history.no_version(connection, word)
            run = search.Search(connection).run(word.lower())
            if run is None:
                raise self._nothing()
            if str(run.node).startswith(word.lower()):
                return ways.to_node(word, run.node)
            return ways.to_run(word, run.ident)

    def runs_after(self, node: NodeId, taint: Taint) -> tuple[PathCell, ...]:
        """Return the runs that went on from a state and did not fail, newest first.

        Of runs with the same source that led to the same state, only the newest.  Runs whose
        outputs were not recorded are left out: there is nothing to show again.
        """
        if not self._catalog.exists():
            return ()
        with self._catalog.reading() as connection:
            return tuple(history.runs_after(connection, node, taint))

    # ------------------------------------------------------------ runs and nodes

    def outputs(self, execution: int) -> tuple[Output, ...]:
        """Return the outputs of a run.

        Raises
        ------
        InvalidValue
            If there is no such run.
        CatalogError
            If they are damaged or missing, with the cell they belong to.
        """
        self._refuse_empty()
        with self._catalog.reading() as connection:
            kept = history.kept_outputs(connection, execution)
        with explained(self.path):
            return self._outputs.get(kept)

    def lineage(self, execution: int) -> CellLineage:
        """Return the lineage of the cell, as it was in a run.

        Raises
        ------
        InvalidValue
            If there is no such run.
        """
        self._refuse_empty()
        with self._catalog.reading() as connection:
            run = search.run_by_id(connection, execution)
        if run is None:
            raise InvalidValue(f"no run has the id {execution}")
        return run.value()

    def nodes(self) -> tuple[CellLineage, ...]:
        """Return all nodes as they were in their latest run, newest last."""
        if not self._catalog.exists():
            return ()
        with self._catalog.reading() as connection:
            return tuple(run.value() for run in search.newest_runs(connection))

    def node(self, ref: str | None = None, session: str | None = None) -> CellLineage:
        """Return the node that a user means.

        Parameters
        ----------
        ref
            At least four digits that only this node begins with, or the number of a cell: ``3`` or
            ``[3]``.  None is the node of the newest run.
        session
            Whose cells are counted; by default, the session in which a cell ran last.

        Raises
        ------
        InvalidValue
            If no node is meant, or several may be.
        """
        word = None if ref is None else ref.strip().lower()
        run = None
        if self._catalog.exists():
            with self._catalog.reading() as connection:
                run = search.Search(connection, session).run(word)
        if run is None:
            raise self._nothing()
        return run.value()

    def path_to(self, node: CellLineage) -> tuple[CellLineage, ...]:
        """Return the nodes that led to one, from the root on, as far as they were recorded.

        Of each, the run is taken that came before the given one in the same session, if any.
        """
        if not self._catalog.exists():
            return (node,)
        with self._catalog.reading() as connection:
            return search.lineages_to(connection, node)

    def executions(self, node: NodeId) -> tuple[tuple[str, int, float, float], ...]:
        """Return the runs of a node, newest first: session, execution count, first and last moment.

        Counts begin again when a kernel goes back: only the time tells such runs apart.
        """
        if not self._catalog.exists():
            return ()
        with self._catalog.reading() as connection:
            rows = connection.execute(
                "SELECT session, execution_count, time - seconds, time, coalesce("
                "(SELECT max(other.time) FROM execution AS other WHERE other.session = this.session"
                " AND other.execution_count = this.execution_count AND other.id < this.id), 0)"
                " FROM execution AS this WHERE node = ? ORDER BY id DESC",
                (node,),
            )
            return tuple(
                (str(session), int(count), max(float(began) - _LATE_S, float(before)), float(ended))
                for session, count, began, ended, before in rows
            )

    # ------------------------------------------------------------ files and checkpoints

    def kept_file(self, digest: Digest) -> Path | None:
        """Return the file with kept contents; None if they were not kept, or are damaged."""
        return self._files.find(digest)

    def checkpoints(self) -> dict[NodeId, str]:
        """Return the nodes that a living kernel holds a checkpoint of, and what to call it."""
        if not self._catalog.exists():
            return {}
        with self._catalog.reading() as connection:
            return held_nodes(connection)

    def _refuse_empty(self) -> None:
        if not self._catalog.exists():
            raise self._nothing()

    def _nothing(self) -> InvalidValue:
        return InvalidValue(
            f"nothing is recorded in {self.folder} yet: run a cell with the CHEX kernel first"
        )
