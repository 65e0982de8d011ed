"""Folders are found by any path, and found anew when links change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chexpoint.lineage.folders import Folders
from chexpoint.lineage.places import Kind, Places
from tests.support.fuse_server import NAME, can_mount, serving


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path.resolve()


@pytest.fixture
def folders(root: Path) -> Folders:
    return Folders(Places(str(root)))


def test_a_path_is_split_at_its_real_folder(root: Path, folders: Folders) -> None:
    (root / "real").mkdir()
    (root / "link").symlink_to("real")
    folder, name = folders.split(os.fsencode(root / "link" / "file"))
    assert (folder.path, name) == (str(root / "real"), b"file")
    assert folder.text(name) == str(root / "real" / "file")
    assert folder.kind is Kind.DATA
    assert folder.far == b""


@pytest.mark.parametrize("end", [b"/", b"/.", b"/x/..", b"//", b"/./"])
def test_a_path_that_ends_in_no_name_is_that_of_the_folder(
    root: Path, folders: Folders, end: bytes
) -> None:
    (root / "real" / "x").mkdir(parents=True)
    folder, name = folders.split(os.fsencode(root / "real") + end)
    assert (folder.path, name) == (str(root), b"real")


@pytest.mark.parametrize("path", [b"/", b"/..", b"//"])
def test_the_root_has_no_name(folders: Folders, path: bytes) -> None:
    folder, name = folders.split(path)
    assert (folder.prefix + name, folder.path) == (b"/", "/")


def test_a_file_beside_the_root(folders: Folders) -> None:
    folder, name = folders.split(b"/etc")
    assert folder.prefix + name == b"/etc"


def test_links_are_followed_to_their_end(root: Path, folders: Folders) -> None:
    (root / "a" / "b").mkdir(parents=True)
    (root / "one").symlink_to("a/two")
    (root / "a" / "two").symlink_to(root / "a" / "b" / "file")
    folder, name = folders.follow(folders.find(os.fsencode(root)), b"one")
    assert folder.prefix + name == os.fsencode(root / "a" / "b" / "file")


def test_a_changed_link_is_found_when_told_to_forget(root: Path, folders: Folders) -> None:
    (root / "old").mkdir()
    (root / "new").mkdir()
    link = root / "link"
    link.symlink_to("old")
    assert folders.find(os.fsencode(link)).path == str(root / "old")
    link.unlink()
    link.symlink_to("new")
    folders.forget()
    assert folders.find(os.fsencode(link)).path == str(root / "new")
    link.unlink()
    link.symlink_to("old")
    folders.look_at_mounts()
    assert folders.find(os.fsencode(link)).path == str(root / "old")


def test_names_need_not_be_text(root: Path, folders: Folders) -> None:
    raw = os.fsencode(root) + b"/\xff\xfe"
    os.mkdir(raw)
    folder = folders.find(raw)
    assert folder.prefix == raw + b"/"
    assert os.fsencode(folder.text(b"\x80")) == raw + b"/\x80"


def test_no_more_folders_are_kept_than_is_reasonable(
    root: Path, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chexpoint.lineage.folders._MOST", 10)
    for n in range(25):
        folders.find(os.fsencode(root / str(n)))
    assert len(folders._known) <= 10


@pytest.mark.slow
@pytest.mark.skipif(not can_mount(), reason="needs the right to mount")
def test_a_far_mount_is_known_as_soon_as_it_is_there(root: Path, folders: Folders) -> None:
    mount = root / "far"
    mount.mkdir()
    (root / "link").symlink_to(mount / NAME)
    assert folders.find(os.fsencode(mount)).far == b""
    folders.expect_mounts()
    with serving(mount) as server:
        server.hang()  # what looks at it from here on hangs too
        here = folders.find(os.fsencode(root))
        assert folders.find(os.fsencode(mount)).far == os.fsencode(mount)
        assert folders.find(os.fsencode(mount / "deep" / "er")).far == os.fsencode(mount)
        assert folders.find(os.fsencode(mount) + b"/..").far == b""
        assert folders.follow(here, b"link")[0].far == os.fsencode(mount)
        assert folders.far_at(here, b"far") == os.fsencode(mount)
        assert folders.far_at(here, b"near") == b""
        assert folders.far_at(folders.find(os.fsencode(mount)), b"x") == os.fsencode(mount)
    folders.look_at_mounts()
    assert folders.find(os.fsencode(mount)).far == b""
