"""Files and notebooks of a package are put where people can work with them."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from chexpoint.errors import InvalidValue
from chexpoint.model import CellAudit, ExecutionTree, Input, Recording, Version
from chexpoint.package import Unpacked, open_package, unpack
from tests.unit.package.worlds import (
    DATA,
    EXTRA,
    HELPER,
    cell,
    digest,
    full_recording,
    ident,
    node_of,
    packed,
    small_recording,
)


def unpacked(folder: Path, recording: Recording) -> Unpacked:
    """Pack a recording, and unpack it into ``out``."""
    with open_package(packed(folder, recording)) as package:
        return unpack(package, folder / "out")


def reading(*files: tuple[str, bytes]) -> Recording:
    """Return versions of one cell each, in which a file was read, oldest first."""
    cells = [
        cell(at, None, CellAudit(inputs=(Input(kind="file", name=name, digests=(digest(data),)),)))
        for at, (name, data) in enumerate(files, start=1)
    ]
    versions = [
        Version(name=f"v{at}", path=(ident(at),), created=float(at))
        for at in range(1, len(files) + 1)
    ]
    return replace(
        small_recording(),
        tree=ExecutionTree([node_of(each) for each in cells], versions),
        cells={each.node: each for each in cells},
    )


def test_files_are_in_their_places(tmp_path: Path) -> None:
    found = unpacked(tmp_path, full_recording())
    out = tmp_path / "out"
    assert (out / "data.csv").read_bytes() == DATA
    assert (out / "sub" / "helper.py").read_bytes() == HELPER
    assert (out / "sub" / "z.txt").read_bytes() == EXTRA
    assert (out / "sub" / "empty").is_dir()
    assert {path.relative_to(out).as_posix() for path in found.files} == {
        "data.csv",
        "sub/helper.py",
        "sub/z.txt",
    }
    assert any("private.csv" in note for note in found.notes)


def test_notebooks_are_beside_them(tmp_path: Path) -> None:
    found = unpacked(tmp_path, full_recording())
    assert {label: path.name for label, path in found.notebooks.items()} == {
        "Base": "Base.ipynb",
        "Base@2": "Base@2.ipynb",
        "base": "base-2.ipynb",
        "größe": "gr__e.ipynb",
    }
    notebook = json.loads(found.notebooks["größe"].read_text())
    assert notebook["metadata"]["name"] == "größe"
    assert found.lock.read_text().startswith("# Recorded with Python 3.12.1")


def test_a_notebook_gives_way_to_a_file_of_its_name(tmp_path: Path) -> None:
    found = unpacked(tmp_path, reading(("./v1.ipynb", DATA), ("./requirements.lock", HELPER)))
    assert (tmp_path / "out" / "v1.ipynb").read_bytes() == DATA
    assert found.notebooks["v1"].name == "v1-2.ipynb"
    assert (tmp_path / "out" / "requirements.lock").read_bytes() == HELPER
    assert found.lock.name == "requirements-2.lock"


def test_the_newest_version_has_its_way(tmp_path: Path) -> None:
    found = unpacked(tmp_path, reading(("./a", DATA), ("./a", HELPER), ("./a", EXTRA)))
    assert (tmp_path / "out" / "a").read_bytes() == EXTRA
    assert found.notes == ("./a had other contents 2 times: here is what the newest version read",)


def test_a_file_that_is_a_folder_elsewhere_is_told(tmp_path: Path) -> None:
    found = unpacked(tmp_path, reading(("./a", DATA), ("./a/b", HELPER), ("./" + "c" * 300, EXTRA)))
    assert (tmp_path / "out" / "a").read_bytes() == DATA
    assert len(found.files) == 1
    assert [note.partition(" has no place: ")[0][:5] for note in found.notes] == ["./a/b", "./ccc"]


def test_only_a_new_or_empty_folder_is_used(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    unpacked(tmp_path, small_recording())
    with pytest.raises(InvalidValue, match="is not empty: name a new folder"):
        unpacked(tmp_path, small_recording())


def test_files_are_readable_by_whoever_the_user_lets(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        unpacked(tmp_path, small_recording())
    finally:
        os.umask(before)
    assert (tmp_path / "out" / "data.csv").stat().st_mode & 0o777 == 0o640


def test_who_waits_is_told_how_far_it_is(tmp_path: Path) -> None:
    told: dict[str, list[tuple[int, int]]] = {"checked": [], "extracted": [], "unpacked": []}
    path = packed(tmp_path, full_recording())
    with open_package(path, watch=lambda *far: told["checked"].append(far)) as package:
        package.extract_files(tmp_path / "files", watch=lambda *far: told["extracted"].append(far))
        unpack(package, tmp_path / "out", watch=lambda *far: told["unpacked"].append(far))
        unpacked_bytes = package.summary.unpacked_bytes
    for far in told.values():
        done = [each for each, _ in far]
        assert done == sorted(done)
        (total,) = {each for _, each in far}
        assert done[-1] == total
    # All but the manifest, which says what to check.
    assert len(DATA) < told["checked"][-1][1] < unpacked_bytes
    assert told["extracted"][-1][1] == told["unpacked"][-1][1] == len(DATA + HELPER + EXTRA)
