"""What is kept between kernels is found again, and its loss does no harm."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from chexpoint.lineage.environment import RecordCache
from chexpoint.lineage.records import Records, default_cache_folder

FOUND: RecordCache = {"/lib/a.dist-info/RECORD": [12, 3, 4, "ab"], "/lib/é/RECORD": [1, "cd"]}


def the_file(folder: Path) -> Path:
    (path,) = folder.glob("packages-*.json")
    return path


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "cache"
    Records(str(folder)).save(FOUND)
    assert Records(str(folder)).load() == FOUND
    assert folder.stat().st_mode & 0o777 == 0o700
    assert os.listdir(folder) == [the_file(folder).name]


def test_nothing_saved_is_nothing(tmp_path: Path) -> None:
    assert Records(str(tmp_path)).load() == {}


def test_without_a_folder_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    records = Records(None)
    records.save(FOUND)
    assert records.load() == {}
    assert records.path("x") is None
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "contents", [b"", b"{", b"[1]", b"null", b'{"a": 1}', b'{"a": []}', b"\xff\xfe", b"7"]
)
def test_a_damaged_file_is_as_good_as_none(tmp_path: Path, contents: bytes) -> None:
    Records(str(tmp_path)).save(FOUND)
    the_file(tmp_path).write_bytes(contents)
    records = Records(str(tmp_path))
    assert records.load() == {}
    records.save(FOUND)
    assert Records(str(tmp_path)).load() == FOUND


def test_what_is_not_new_is_not_written_again(tmp_path: Path) -> None:
    Records(str(tmp_path)).save(FOUND)
    records = Records(str(tmp_path))
    found = records.load()
    the_file(tmp_path).unlink()
    records.save(found)
    assert os.listdir(tmp_path) == []
    records.save({**found, "/lib/b/RECORD": [1, "x"]})
    assert len(Records(str(tmp_path)).load()) == len(FOUND) + 1


def test_where_nothing_can_be_written_nothing_fails(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    Records(str(tmp_path / "file" / "below")).save(FOUND)
    assert (tmp_path / "file").read_bytes() == b""


def test_another_python_has_records_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Records(str(tmp_path)).save(FOUND)
    monkeypatch.setattr(sys, "prefix", "/elsewhere")
    assert Records(str(tmp_path)).load() == {}


def test_the_cache_folder_is_where_users_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert default_cache_folder() == "/cache/chexpoint"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert default_cache_folder() == "/home/me/.cache/chexpoint"
