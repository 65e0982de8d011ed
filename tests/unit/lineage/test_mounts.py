"""Where far file systems are, and that looking up a path never touches one."""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chexpoint.lineage.mounts import FarMounts, far_mounts, resolve
from tests.support.fuse_server import can_mount

MNT_DETACH = 2

MOUNTINFO = rb"""
22 28 0:20 / /proc rw,nosuid - proc proc rw
28 1 253:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
30 28 0:30 / /home\040of\040all rw shared:2 master:3 - nfs4 server:/export\040x rw,vers=4.2
31 28 0:31 / /mnt/cloud\134drive rw - fuse.sshfs me@host: rw,user_id=0
32 28 0:32 / /mnt/plain rw - fuse plain rw
33 28 0:33 / /mnt/windows rw - fuseblk /dev/sdb1 rw
34 28 0:34 / /media/share rw - cifs //server/share rw
35 28 0:35 / /tmp rw - tmpfs tmpfs rw
36 28 0:36 / /mnt/fusex rw - fusectl fusectl rw
37 28 0:37 / /run/a-b rw - overlay overlay rw
"""


def test_far_mounts_are_those_of_servers_with_their_names_decoded() -> None:
    assert far_mounts(MOUNTINFO) == {
        b"/home of all",
        b"/mnt/cloud\\drive",
        b"/mnt/plain",
        b"/mnt/windows",
        b"/media/share",
    }


@pytest.mark.parametrize("text", [b"", b"\n\n", b"not a mount", b"1 2 3 - ", b" - nfs server:/ rw"])
def test_lines_that_say_nothing_are_passed_over(text: bytes) -> None:
    assert far_mounts(text) == frozenset()


def test_this_process_can_tell_its_own() -> None:
    mounts = FarMounts()
    assert mounts.points == far_mounts(Path("/proc/self/mountinfo").read_bytes())
    assert not mounts.have_changed()


def test_a_mount_that_comes_later_is_noticed(tmp_path: Path) -> None:
    mounts = FarMounts()
    with mounted_far(tmp_path):
        assert mounts.have_changed()
        assert os.fsencode(tmp_path) in mounts.points
        assert not mounts.have_changed()
    assert mounts.have_changed()
    assert os.fsencode(tmp_path) not in mounts.points


@contextmanager
def mounted_far(folder: Path) -> Iterator[None]:
    """Mount a file system that nobody serves, where that is allowed."""
    if not can_mount():
        pytest.skip("needs the right to mount")
    libc = ctypes.CDLL(None, use_errno=True)
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    try:
        options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
        assert libc.mount(b"test", os.fsencode(folder), b"fuse.test", 0, options) == 0
        try:
            yield
        finally:
            libc.umount2(os.fsencode(folder), MNT_DETACH)
    finally:
        os.close(device)


# ---------------------------------------------------------------- resolve

FAR = frozenset({b"/mnt/far", b"/mnt/far/deep", b"/other"})


@pytest.mark.parametrize(
    ("path", "real", "is_far"),
    [
        (b"/", b"/", False),
        (b"", b"/", False),
        (b"//usr/.//", b"/usr", False),
        (b"/../../usr", b"/usr", False),
        (b"/mnt/far", b"/mnt/far", True),
        (b"/mnt/far/a/../b/./c", b"/mnt/far/b/c", True),
        (b"/mnt/far/deep/x", b"/mnt/far/deep/x", True),
        (b"/mnt/farther", b"/mnt/farther", False),
        (b"/mnt/far/..", b"/mnt", False),
        (b"/mnt/far/a/../../near", b"/mnt/near", False),
        (b"/mnt/far/../../other/x", b"/other/x", True),
        (b"/mnt/far/../far/x", b"/mnt/far/x", True),
    ],
)
def test_a_path_is_far_where_it_ends(path: bytes, real: bytes, is_far: bool) -> None:
    assert resolve(path, FAR) == (real, is_far)


def test_links_are_followed_to_a_far_mount_but_not_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(os.path.realpath(tmp_path))
    far = root / "far"
    far.mkdir()
    (far / "inner").symlink_to(root)
    (root / "link").symlink_to("far/inner")
    (root / "back").symlink_to(far / ".." / "near")
    asked: list[bytes] = []
    read = os.readlink

    def readlink(path: bytes) -> bytes:
        asked.append(path)
        return read(path)

    monkeypatch.setattr(os, "readlink", readlink)
    points = frozenset({os.fsencode(far)})
    assert resolve(os.fsencode(root / "link" / "x"), points) == (
        os.fsencode(far / "inner" / "x"),
        True,
    )
    assert resolve(os.fsencode(root / "back"), points) == (os.fsencode(root / "near"), False)
    assert not [path for path in asked if path.startswith(os.fsencode(far))]
    assert os.fsencode(root / "link") in asked


def test_a_loop_of_links_ends(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    path = os.fsencode(tmp_path / "a" / "x")
    assert resolve(path, frozenset()) == (path, False)


NAMES = st.sampled_from(["a", "b", "c", "d"])
PARTS = st.lists(st.one_of(NAMES, st.sampled_from(["..", "."])), min_size=1, max_size=6)


@st.composite
def trees(draw: st.DrawFn) -> list[tuple[str, str | None]]:
    """Return folders, and links that lead upwards in the order of their names or to nowhere."""
    made = []
    for name in draw(st.lists(st.tuples(NAMES, NAMES), max_size=6, unique=True)):
        path = "/".join(name)
        target = draw(st.one_of(st.none(), PARTS.map("/".join), PARTS.map(lambda p: "/" + p[0])))
        made.append((path, target))
    return made


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(tree=trees(), path=PARTS)
def test_where_nothing_is_far_it_agrees_with_realpath(
    tree: list[tuple[str, str | None]], path: list[str]
) -> None:
    root = os.path.realpath(tempfile.mkdtemp())
    try:
        for name, target in tree:
            at = os.path.join(root, name)
            os.makedirs(os.path.dirname(at), exist_ok=True)
            if target is None:
                os.makedirs(at, exist_ok=True)
            else:
                os.symlink(root + target if target.startswith("/") else target, at)
        asked = os.path.join(root, *path)
        try:
            expected = os.path.realpath(asked, strict=True)
        except FileNotFoundError:
            expected = os.path.realpath(asked)
        except (OSError, NotADirectoryError):
            return  # a loop: the system would not open it either
        assert resolve(os.fsencode(asked), frozenset()) == (os.fsencode(expected), False)
    finally:
        shutil.rmtree(root)
