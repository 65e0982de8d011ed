"""The fingerprint of installed packages."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from chexpoint.lineage.environment import (
    Environment,
    environment_fingerprint,
    package_folders,
)
from chexpoint.model import Digest

RECORD = """\
foo/__init__.py,sha256=aaa,10
foo-1.0.dist-info/METADATA,sha256=bbb,20
foo-1.0.dist-info/RECORD,,
"""


def install(folder: Path, name: str, record: str = RECORD) -> Path:
    info = folder / name
    info.mkdir(parents=True, exist_ok=True)
    (info / "RECORD").write_text(record)
    return info / "RECORD"


def fingerprint(*folders: Path, startup: tuple[Path, ...] = ()) -> Digest:
    return environment_fingerprint(map(str, folders), map(str, startup))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    install(tmp_path / "packages", "foo-1.0.dist-info")
    return tmp_path / "packages"


def test_the_same_packages_elsewhere_are_the_same(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    install(elsewhere, "Foo-1.0.dist-info", "\n".join(reversed(RECORD.splitlines())))
    assert fingerprint(folder) == fingerprint(elsewhere)


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("foo-1.1.dist-info", RECORD),
        ("food-1.0.dist-info", RECORD),
        ("foo-1.0.dist-info", RECORD.replace("aaa", "ccc")),
        ("foo-1.0.dist-info", RECORD + "foo/new.py,sha256=ddd,1\n"),
        ("foo-1.0.dist-info", ""),
    ],
)
def test_another_version_or_other_contents_count(
    folder: Path, tmp_path: Path, name: str, record: str
) -> None:
    install(tmp_path / "other", name, record)
    assert fingerprint(folder) != fingerprint(tmp_path / "other")


@pytest.mark.parametrize(
    "line",
    [
        "foo/__pycache__/__init__.cpython-311.pyc,,",
        "foo/__pycache__/__init__.cpython-311.pyc,sha256=eee,9",
        '"foo/a,b.pyc",,',
        "../../../bin/foo,sha256=eee,9",
        "/usr/bin/foo,sha256=eee,9",
        "foo-1.0.dist-info/INSTALLER,sha256=eee,4",
        "foo-1.0.dist-info/REQUESTED,sha256=eee,0",
        "foo-1.0.dist-info/direct_url.json,sha256=eee,99",
        "__editable__.foo.pth,sha256=eee,9",
    ],
)
def test_how_it_was_installed_does_not_count(folder: Path, line: str) -> None:
    before = fingerprint(folder)
    install(folder, "foo-1.0.dist-info", RECORD + line + "\n")
    assert fingerprint(folder) == before


def test_a_new_package_counts_and_removing_it_too(folder: Path) -> None:
    before = fingerprint(folder)
    record = install(folder, "bar-1.0.dist-info")
    assert fingerprint(folder) != before
    record.unlink()
    record.parent.rmdir()
    assert fingerprint(folder) == before


def test_names_are_normalised_and_leftovers_ignored(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    for name in ("a_b.c-1.0.dist-info", "~oo-1.0.dist-info"):
        install(folder, name)
    install(other, "foo-1.0.dist-info")
    install(other, "A_B_C-1.0.dist-info")
    assert fingerprint(folder) == fingerprint(other)


def test_eggs_count_by_name_and_version(tmp_path: Path) -> None:
    found = set()
    for number, name in enumerate(
        ("foo-1.0-py3.11.egg-info", "foo-2.0-py3.11.egg-info", "foo.egg-info", "foo.egg")
    ):
        place = tmp_path / str(number)
        place.mkdir()
        (place / name).write_text("Metadata")
        found.add(fingerprint(place))
    assert len(found) == 4


def test_the_first_folder_hides_packages_of_later_ones(folder: Path, tmp_path: Path) -> None:
    newer = tmp_path / "newer"
    install(newer, "foo-2.0.dist-info")
    assert fingerprint(folder, newer) == fingerprint(folder)
    assert fingerprint(newer, folder) == fingerprint(newer)
    assert fingerprint(newer) != fingerprint(folder)


def test_path_files_count_but_not_where_they_are(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    install(other, "foo-1.0.dist-info")
    before = fingerprint(folder)
    for place in (folder, other):
        (place / "a.pth").write_text(f"{place}/inside\n{sys.prefix}/lib\n/outside\n")
    after = fingerprint(folder)
    assert after != before
    assert after == fingerprint(other)
    (other / "a.pth").write_text("/elsewhere\n")
    assert fingerprint(other) != after


def test_startup_files_count_by_their_contents(folder: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "00.py", tmp_path / "01.py"
    first.write_text("x = 1")
    second.write_text("x = 2")
    both = fingerprint(folder, startup=(first, second))
    assert both == fingerprint(folder, startup=(second, first))
    assert len({both, fingerprint(folder), fingerprint(folder, startup=(first,))}) == 3
    second.write_text("x = 3")
    assert fingerprint(folder, startup=(first, second)) != both


def test_missing_folders_and_files_are_survived(folder: Path, tmp_path: Path) -> None:
    assert fingerprint(folder, tmp_path / "missing") == fingerprint(folder)
    assert fingerprint(folder / "foo-1.0.dist-info" / "RECORD") == fingerprint()
    assert fingerprint(startup=(tmp_path / "missing.py",)) != fingerprint()


def test_records_that_cannot_be_read_are_survived(folder: Path) -> None:
    record = folder / "foo-1.0.dist-info" / "RECORD"
    whole = fingerprint(folder)
    record.write_bytes(b"\xff\xfe,\0\n,,,,\n\n" + bytes(range(256)))
    broken = fingerprint(folder)
    record.unlink()
    missing = fingerprint(folder)
    record.mkdir()
    is_folder = fingerprint(folder)
    record.rmdir()
    os.mkfifo(record)  # reading it would never end
    assert len({whole, broken, missing, is_folder}) == 4
    assert fingerprint(folder) not in {whole, broken, missing}


def test_names_that_are_not_utf8_are_survived(folder: Path) -> None:
    before = fingerprint(folder)
    (folder / os.fsdecode(b"b\xff-1.0.dist-info")).mkdir()
    (folder / os.fsdecode(b"c\xff.pth")).write_bytes(b"/\xff\n")
    assert fingerprint(folder) != before


def test_the_fingerprint_follows_every_change_at_once(folder: Path) -> None:
    environment = Environment([str(folder)])
    seen = [environment.fingerprint()]
    for number in range(5):
        install(folder, f"bar{number}-1.0.dist-info")
        seen.append(environment.fingerprint())
        (folder / "a.pth").write_text(f"/{number}\n")
        seen.append(environment.fingerprint())
    assert len(set(seen)) == 11
    assert environment.fingerprint() == seen[-1] == fingerprint(folder)


def test_folders_that_do_not_change_are_not_read_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Status changes cannot be made to look old, so all files count as settled here.
    monkeypatch.setattr("chexpoint.lineage.environment._GRAIN_NS", 0)
    environment = Environment([str(folder)])
    before = environment.fingerprint()
    (folder / "foo-1.0.dist-info" / "RECORD").write_text("")  # the folder keeps its time
    assert environment.fingerprint() == before
    os.utime(folder, (1, 1))
    assert environment.fingerprint() == fingerprint(folder) != before


def test_folders_that_have_just_changed_are_read_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chexpoint.lineage.environment._GRAIN_NS", 3600 * 10**9)
    environment = Environment([str(folder)])
    before = environment.fingerprint()
    (folder / "foo-1.0.dist-info" / "RECORD").write_text("")  # the folder keeps its time
    assert environment.fingerprint() == fingerprint(folder) != before


def test_what_is_known_of_records_survives_json(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chexpoint.lineage.environment._GRAIN_NS", 0)
    first = Environment([str(folder)])
    found = first.fingerprint()
    records = json.loads(json.dumps(first.records))
    assert Environment([str(folder)], records=records).fingerprint() == found
    # They are believed, so a wrong one shows.
    for known in records.values():
        known[-1] = "other"
    assert Environment([str(folder)], records=records).fingerprint() != found
    # A record that has changed since is read again.
    (folder / "foo-1.0.dist-info" / "RECORD").write_text(RECORD + "more,,\n")
    again = Environment([str(folder)], records=records).fingerprint()
    assert again == fingerprint(folder) != found


def test_records_of_removed_packages_are_forgotten(folder: Path) -> None:
    record = install(folder, "bar-1.0.dist-info")
    environment = Environment([str(folder)])
    environment.fingerprint()
    assert str(record) in environment.records
    record.unlink()
    record.parent.rmdir()
    environment.fingerprint()
    assert list(environment.records) == [str(folder / "foo-1.0.dist-info" / "RECORD")]


@pytest.mark.slow
def test_this_python_has_a_fingerprint() -> None:
    assert any(Path(folder, "pytest").is_dir() for folder in package_folders())
    assert environment_fingerprint() == environment_fingerprint() != fingerprint()
