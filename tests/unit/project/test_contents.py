"""Outputs and files are kept by their contents, whole or not at all, and are private."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path

import pytest
import xxhash

from chexpoint.errors import CatalogError, InvalidValue
from chexpoint.project import Project
from tests.unit.project.examples import cell, record, stream

LARGE = stream("x\udcff日" * 40_000)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.at(tmp_path)


def files(project: Project, kind: str = "outputs") -> list[Path]:
    return [path for path in (project.path.parent / kind).rglob("*") if path.is_file()]


def column(project: Project, query: str) -> list[object]:
    connection = sqlite3.connect(project.path)
    found = [row[0] for row in connection.execute(query)]
    connection.close()
    return found


# ------------------------------------------------------------ outputs


def test_equal_outputs_and_sources_are_kept_once(project: Project) -> None:
    for n in range(5):
        record(project, cell(f"{n:04x}", source="same"), outputs=(stream("hello"),))
        record(project, cell(f"{n:04x}", source="same"), outputs=(LARGE,))
    assert column(project, "SELECT count(*) FROM source") == [1]
    assert column(project, "SELECT count(*) FROM output") == [2]
    assert len(files(project)) == 1


def test_large_outputs_are_in_private_files_named_by_their_contents(project: Project) -> None:
    previous = os.umask(0)
    try:
        run = record(project, cell("aaaa"), outputs=(LARGE, stream("and more")))
    finally:
        os.umask(previous)
    assert project.outputs(run) == (LARGE, stream("and more"))
    (path,) = files(project)
    digest = xxhash.xxh3_128_hexdigest(path.read_bytes())
    assert path == project.path.parent / "outputs" / digest[:2] / digest
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o700
    assert column(project, "SELECT text FROM output") == [None]


@pytest.mark.parametrize("length", [64 * 1024, 64 * 1024 + 1])
def test_the_limit_is_64_kb_of_json(project: Project, length: int) -> None:
    around = len('[{"output_type": "stream", "name": "stdout", "text": ""}]')
    run = record(project, cell("aaaa"), outputs=(stream("x" * (length - around)),))
    assert len(files(project)) == (length > 64 * 1024)
    assert project.outputs(run) == (stream("x" * (length - around)),)


@pytest.mark.parametrize("damage", ["flip", "truncate", "delete", "folder"])
def test_a_damaged_file_of_outputs_is_told_and_harms_nothing_else(
    project: Project, damage: str
) -> None:
    version = project.new_version("a", session="s")
    run = record(project, cell("aaaa"), version=version, outputs=(LARGE,))
    good = record(project, cell("bbbb", "aaaa", count=2), version=version, outputs=(stream("b"),))
    (path,) = files(project)
    data = path.read_bytes()
    path.unlink()
    match damage:
        case "flip":
            path.write_bytes(data[:5000] + bytes([data[5000] ^ 1]) + data[5001:])
        case "truncate":
            path.write_bytes(data[:5000])
        case "folder":
            path.mkdir()
    with pytest.raises(CatalogError, match=r"outputs of cell \[1\] \(node aaaa0+\) are damaged"):
        project.outputs(run)
    assert project.outputs(good) == (stream("b"),)
    assert len(project.cells(project.version("a"))) == 2
    assert len(project.tree()) == 2
    if damage != "folder":
        # Recording the same outputs again puts the file right.
        record(project, cell("cccc"), outputs=(LARGE,))
        assert project.outputs(run) == (LARGE,)


def test_damaged_outputs_in_the_catalog_are_told_and_put_right(project: Project) -> None:
    run = record(project, cell("aaaa", source="x = 1"), outputs=(stream("hello"),))
    with sqlite3.connect(project.path) as connection:
        connection.execute("UPDATE output SET text = replace(text, 'hello', 'hallo')")
        connection.execute("UPDATE source SET text = 'x = 2'")
    connection.close()
    with pytest.raises(CatalogError, match="are damaged or missing"):
        project.outputs(run)
    with pytest.raises(CatalogError, match="not the one that ran"):
        project.way_to("aaaa")
    again = record(project, cell("aaaa", source="x = 1"), outputs=(stream("hello"),))
    assert project.outputs(run) == project.outputs(again) == (stream("hello"),)
    assert project.way_to("aaaa")[0].source == "x = 1"


@pytest.mark.parametrize("digest", ["../../../etc/passwd", "zz", "", 3, None, b"\xff"])
def test_a_tampered_digest_leads_nowhere(project: Project, digest: object) -> None:
    run = record(project, cell("aaaa"), outputs=(LARGE,))
    with sqlite3.connect(project.path) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute("UPDATE output SET digest = coalesce(?, 'null')", (digest,))
    connection.close()
    with pytest.raises(CatalogError, match="damaged or missing"):
        project.outputs(run)


@pytest.mark.parametrize("output", [{"data": object()}, {"data": {1, 2}}])
def test_outputs_that_no_notebook_can_hold_are_refused(
    project: Project, output: dict[str, object]
) -> None:
    with pytest.raises(InvalidValue, match=r"outputs of cell \[1\] cannot be kept"):
        record(project, cell("aaaa"), outputs=(output,))
    assert not project.path.exists()


# ------------------------------------------------------------ files


def digest_of(data: bytes) -> str:
    return xxhash.xxh3_128_hexdigest(data)


def test_a_file_is_kept_while_it_has_the_digest(project: Project, tmp_path: Path) -> None:
    data = os.urandom(3 * 2**20 + 5)
    path = tmp_path / "data.bin"
    path.write_bytes(data)
    previous = os.umask(0)
    try:
        assert project.keep_file(str(path), digest_of(data))
    finally:
        os.umask(previous)
    path.write_bytes(b"changed")
    assert project.keep_file(path, digest_of(data))  # it is there already
    kept = project.kept_file(digest_of(data))
    assert kept is not None
    assert kept.read_bytes() == data
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert {stat.S_IMODE(p.stat().st_mode) for p in kept.parents[:3]} == {0o700}
    assert kept == project.path.parent / "files" / kept.name[:2] / kept.name


def test_an_empty_file_is_kept(project: Project, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert project.keep_file(tmp_path / "empty", digest_of(b""))
    assert project.kept_file(digest_of(b"")) is not None


def test_what_is_not_the_file_is_not_kept(project: Project, tmp_path: Path) -> None:
    path = tmp_path / "data.bin"
    path.write_bytes(b"now")
    os.mkfifo(tmp_path / "pipe")
    assert not project.keep_file(path, digest_of(b"before"))
    assert not project.keep_file(tmp_path / "gone", digest_of(b"before"))
    assert not project.keep_file(tmp_path, digest_of(b"before"))
    assert not project.keep_file(tmp_path / "pipe", digest_of(b""))
    for word in ("absent", "volatile", "size:3:4", "../../x", "", "A" * 32):
        assert not project.keep_file(path, word)
        assert project.kept_file(word) is None
    assert files(project, "files") == []


def test_a_damaged_kept_file_is_not_offered_and_is_put_right(
    project: Project, tmp_path: Path
) -> None:
    path = tmp_path / "data.bin"
    path.write_bytes(b"contents")
    digest = digest_of(b"contents")
    project.keep_file(path, digest)
    kept = project.kept_file(digest)
    assert kept is not None
    kept.write_bytes(b"contentz")
    assert project.kept_file(digest) is None
    assert Project.at(tmp_path).kept_file(digest) is None
    assert project.keep_file(path, digest)
    assert project.kept_file(digest) == kept
    kept.unlink()
    assert project.kept_file(digest) is None


def test_a_file_in_the_way_is_explained(project: Project, tmp_path: Path) -> None:
    project.path.parent.mkdir()
    (project.path.parent / "files").touch()
    (tmp_path / "data").write_bytes(b"x")
    with pytest.raises(CatalogError, match="cannot be used"):
        project.keep_file(tmp_path / "data", digest_of(b"x"))
