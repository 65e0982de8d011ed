"""The files that cells find when they are replayed in hindsight."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from chexpoint.model import (
    CellAudit,
    Digest,
    Effect,
    ExecutionTree,
    Input,
    NodeId,
    RecordedCell,
    Recording,
)
from chexpoint.replay import FolderWorld, RecordedWorld
from chexpoint.replay.scratch import Scratch
from tests.unit.project.examples import cell

DATA = Digest("da" * 16)
MODEL = Digest("0d" * 16)


class Kept:
    """Files by their digest."""

    def __init__(self, **files: Path) -> None:
        self._files = files

    def find(self, name: str, digest: Digest) -> Path | None:
        del name
        return self._files.get(digest)


def recording(*audits: CellAudit) -> tuple[Recording, list[NodeId]]:
    """Return a recording of some cells, and their nodes."""
    cells = {}
    for number, audit in enumerate(audits, start=1):
        lineage = dataclasses.replace(cell(f"{number:02}", f"{number - 1:02}"), audit=audit)
        cells[lineage.node] = RecordedCell(lineage=lineage)
    return Recording(tree=ExecutionTree(), cells=cells), list(cells)


def scratch(folder: Path) -> Scratch:
    folder.mkdir()
    return Scratch(folder)


READS = CellAudit(inputs=(Input(kind="file", name="./data.csv", digests=(DATA,)),))
WRITES = CellAudit(
    effects=(Effect(path="./model.bin", kind="written", digest=MODEL, size_bytes=3),)
)
READS_MODEL = CellAudit(inputs=(Input(kind="file", name="./model.bin", digests=(MODEL,)),))


def test_a_cell_finds_what_it_has_read(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("a,b")
    made, (node,) = recording(READS)
    world, here = RecordedWorld(made, Kept(**{DATA: kept})), scratch(tmp_path / "s")
    assert world.lay_out(here) == []
    assert world.make_ready(node, here, []) == ""
    assert (here.folder / "data.csv").read_text() == "a,b"
    assert world.make_ready(None, here, []) == ""


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    made, (node,) = recording(READS)
    world, here = RecordedWorld(made, Kept()), scratch(tmp_path / "s")
    assert world.make_ready(node, here, []) == "./data.csv, which it reads, is gone"


def test_what_a_cell_before_has_written_is_left_alone(tmp_path: Path) -> None:
    made, (first, second) = recording(WRITES, READS_MODEL)
    world, here = RecordedWorld(made, Kept()), scratch(tmp_path / "s")
    (here.folder / "model.bin").write_text("new")
    assert world.make_ready(second, here, [first]) == ""
    assert (here.folder / "model.bin").read_text() == "new"


def test_what_a_loop_that_was_passed_over_would_have_written_is_put_there(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("old")
    made, (first, second) = recording(WRITES, READS_MODEL)
    world, here = RecordedWorld(made, Kept(**{MODEL: kept})), scratch(tmp_path / "s")
    assert world.make_ready(second, here, [first]) == ""
    assert (here.folder / "model.bin").read_text() == "old"


# ---------------------------------------------------------------- folders


def test_a_script_runs_in_a_copy_of_its_folder(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "data").mkdir(parents=True)
    (home / ".chex" / "store").mkdir(parents=True)
    (home / ".chex" / "store" / "pack").write_text("p")
    (home / "train.py").write_text("x = 1")
    (home / "data" / "a.csv").write_text("a")
    here = scratch(tmp_path / "s")
    world = FolderWorld(home)
    assert world.lay_out(here) == []
    assert world.make_ready(None, here, []) == ""
    assert not (here.folder / ".chex").exists()
    (here.folder / "data" / "a.csv").write_text("changed")
    assert (home / "data" / "a.csv").read_text() == "a"


def test_what_is_too_large_is_read_where_it_is_and_named(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "small").write_bytes(bytes(10))
    (home / "large").write_bytes(bytes(5000))
    here = scratch(tmp_path / "s")
    (note,) = FolderWorld(home, most_bytes=100).lay_out(here)
    assert note == "large (4.9 KB) is not copied: it is read where it is"
    assert (here.folder / "large").is_symlink()
    assert not (here.folder / "small").is_symlink()
