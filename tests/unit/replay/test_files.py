"""Cells find what they found when they were recorded."""

from __future__ import annotations

from pathlib import Path

import pytest
import xxhash

from chexpoint.model import (
    CellAudit,
    CellLineage,
    Digest,
    ExecutionTree,
    Input,
    InputKind,
    NodeId,
    Recording,
)
from chexpoint.replay.files import is_in_project, lay_out, make_ready, missing_file, needed_files
from chexpoint.replay.scratch import Scratch


def digest(text: str) -> Digest:
    return xxhash.xxh3_128_hexdigest(text.encode())


class Kept:
    """Files by their contents."""

    def __init__(self, folder: Path, *texts: str) -> None:
        self._folder = folder
        folder.mkdir()
        for text in texts:
            (folder / digest(text)).write_text(text)

    def find(self, name: str, digest: Digest) -> Path | None:
        path = self._folder / digest
        return path if path.exists() else None


def cell(*inputs: tuple[InputKind, str, str]) -> CellLineage:
    return CellLineage(
        node=NodeId("n"),
        parent=NodeId("root"),
        code="c",
        strict="s",
        number=1,
        execution_count=1,
        source="x",
        audit=CellAudit(
            inputs=tuple(Input(kind=kind, name=name, digests=(d,)) for kind, name, d in inputs)
        ),
        seconds=1.0,
        size_bytes=1,
    )


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path / "kept", "one", "two")


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    base = tmp_path / "base"
    base.mkdir()
    return Scratch(base)


def nothing(**more: object) -> Recording:
    return Recording(tree=ExecutionTree(), cells={}, **more)  # type: ignore[arg-type]


def test_only_files_of_the_project_that_no_cell_had_written_are_needed() -> None:
    lineage = cell(
        ("file", "./in.txt", digest("one")),
        ("file", "./made.txt", "cell:2"),
        ("file", "~/home.txt", digest("one")),
        ("file", "/etc/x", digest("one")),
        ("file", "./gone.txt", "absent"),
        ("folder", "./data", digest("one")),
        ("variable", "HOME", digest("one")),
    )
    assert [(n.name, n.digest) for n in needed_files(lineage)] == [
        ("./in.txt", digest("one")),
        ("./gone.txt", "absent"),
    ]


@pytest.mark.parametrize("name", ["../x", "./../x", "./a/../../x", "/x", "~/x", "./a\0b", "x"])
def test_a_name_that_leads_elsewhere_is_not_in_the_project(name: str) -> None:
    assert not is_in_project(name)


def test_files_are_placed_replaced_and_removed(scratch: Scratch, kept: Kept) -> None:
    for text in ("one", "two"):
        lineage = cell(("file", "./sub/in.txt", digest(text)))
        make_ready(lineage, nothing(), kept, scratch, ())
        assert (scratch.folder / "sub/in.txt").read_text() == text
    make_ready(cell(("file", "./sub/in.txt", "absent")), nothing(), kept, scratch, ())
    assert not (scratch.folder / "sub/in.txt").exists()


def test_what_a_cell_before_has_written_is_left_alone(scratch: Scratch, kept: Kept) -> None:
    (scratch.folder / "in.txt").write_text("mine")
    for word in (digest("one"), "absent"):
        make_ready(cell(("file", "./in.txt", word)), nothing(), kept, scratch, {"./in.txt"})
        assert (scratch.folder / "in.txt").read_text() == "mine"


def test_the_first_file_that_nobody_has_is_named(kept: Kept) -> None:
    here, gone = ("file", "./a", digest("one")), ("file", "./b", digest("other"))
    assert missing_file(cell(here), kept) is None  # type: ignore[arg-type]
    assert missing_file(cell(here, gone), kept) == "./b"  # type: ignore[arg-type]


def test_a_folder_shows_the_names_it_had_and_no_others(scratch: Scratch, kept: Kept) -> None:
    recording = nothing(
        extra_files={"./data/a": digest("one"), "./data/b": digest("two"), "./data/big": ""},
        listings={"early": ("a", "big"), "late": ("a", "b", "big")},
        folders=("./data", "./empty"),
    )
    lay_out(recording, kept, scratch)
    assert (scratch.folder / "empty").is_dir()
    assert (scratch.folder / "data/big").read_bytes() == b""
    for listing, names in (("early", ["a", "big"]), ("late", ["a", "b", "big"])):
        make_ready(cell(("folder", "./data", listing)), recording, kept, scratch, ())
        assert sorted(path.name for path in (scratch.folder / "data").iterdir()) == names
    make_ready(cell(("folder", "./data", "early")), recording, kept, scratch, {"./data/b"})
    assert (scratch.folder / "data/b").exists()
