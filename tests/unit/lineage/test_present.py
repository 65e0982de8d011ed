"""Files are found by their names, looked at as the audit does, and made what they were."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import xxhash

from chexpoint.errors import ChexError
from chexpoint.lineage.fingerprint import LARGEST_BYTES, Job, link_word, listing
from chexpoint.lineage.places import Places
from chexpoint.lineage.present import (
    ELSEWHERE,
    FOLDER,
    LATE,
    NOWHERE,
    FilesNow,
    difference,
    make_folder,
    path_of,
    put_contents,
)
from tests.support.fuse_server import CONTENTS, NAME, can_mount, serving

LARGE = b"large" * 50_000
ANY = "0" * 32


def digest_of(data: bytes) -> str:
    return xxhash.xxh3_128_hexdigest(data)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("project", "home", "tmp"):
        (tmp_path / name).mkdir()
    return tmp_path.resolve()


@pytest.fixture
def places(root: Path) -> Places:
    project, home, tmp = (str(root / name) for name in ("project", "home", "tmp"))
    return Places(project, home=home, tmp=tmp, environment=[str(root / "environment")])


@pytest.fixture
def now(places: Places) -> FilesNow:
    return FilesNow(places)


@pytest.fixture
def contents_read(now: FilesNow, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what becomes a list of the sizes of files whose contents are looked at."""
    read: list[str] = []
    small, large = now._prints.small, now._prints._contents

    def note_small(fd: int, size: int) -> str:
        read.append("small")
        return small(fd, size)

    def note_large(fd: int, job: Job) -> str:
        read.append("large")
        return large(fd, job)

    monkeypatch.setattr(now._prints, "small", note_small)
    monkeypatch.setattr(now._prints, "_contents", note_large)
    return read


def look(now: FilesNow, name: str, then: str = ANY) -> str:
    return now.files({name: then})[name]


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("name", "path"),
    [
        (".", "project"),
        ("./a", "project/a"),
        ("./a/b c\n", "project/a/b c\n"),
        ("./\udcff", "project/\udcff"),
        ("~/a", "home/a"),
        ("$TMP/a", "tmp/a"),
        ("$TMP", "tmp"),
        ("./a*", "project/a*"),
    ],
)
def test_a_name_leads_back_to_its_path(root: Path, places: Places, name: str, path: str) -> None:
    assert path_of(name, places) == f"{root}/{path}"
    assert places.name(f"{root}/{path}") == name


@pytest.mark.parametrize("name", ["/", "/etc/hosts", "/srv/data"])
def test_other_paths_are_their_own_names(places: Places, name: str) -> None:
    assert path_of(name, places) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a",
        "./",
        "../a",
        "./../a",
        "./a/../../b",
        "./a//b",
        "./a/.",
        "//etc/passwd",
        "/etc/../etc/passwd",
        "~root/a",
        "$HOME/a",
        "./a\0b",
        "./\ud800",
        "$TMP/tmp*",
        "$TMP/pymp-*/listener",
        "/dev/shm/psm_*",
        "$TMP/tmpabcdefgh",  # its name is $TMP/tmp*
    ],
)
def test_what_is_no_name_of_a_single_file_leads_nowhere(places: Places, name: str) -> None:
    assert path_of(name, places) == ""


def test_a_name_that_the_file_would_not_have_here_leads_nowhere(root: Path) -> None:
    places = Places(str(root), home=str(root / "home"), tmp=str(root / "tmp"), environment=[])
    assert path_of("./home/a", places) == ""
    assert path_of("./tmp", places) == ""
    assert path_of("~/a", places) == str(root / "home" / "a")


# ---------------------------------------------------------------- what is there


@pytest.mark.parametrize("data", [b"", b"small", LARGE])
def test_a_file_has_the_digest_that_the_audit_gives_it(
    root: Path, now: FilesNow, data: bytes
) -> None:
    (root / "project" / "file").write_bytes(data)
    assert look(now, "./file") == digest_of(data)


def test_files_that_are_no_text_are_found(root: Path, now: FilesNow) -> None:
    for raw in (b"line\nbreak", b"\xff\xfe", b" "):
        (root / "project" / os.fsdecode(raw)).write_bytes(raw)
    names = [f"./{os.fsdecode(raw)}" for raw in (b"line\nbreak", b"\xff\xfe", b" ")]
    found = now.files(dict.fromkeys(names, ANY))
    assert found == {name: digest_of(os.fsencode(name[2:])) for name in names}


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda path: None, "absent"),
        (lambda path: path.mkdir(), FOLDER),
        (os.mkfifo, "fifo"),
        (lambda path: path.symlink_to("other"), ELSEWHERE),
        (lambda path: path.symlink_to("gone"), ELSEWHERE),
        (lambda path: path.symlink_to("file"), "unreadable"),
    ],
)
def test_what_is_no_file_is_told_by_a_word(
    root: Path, now: FilesNow, make: Callable[[Path], None], word: str
) -> None:
    (root / "project" / "other").write_bytes(b"x")
    make(root / "project" / "file")
    assert look(now, "./file") == word
    assert look(now, "./file", "absent") == word
    assert look(now, "$TMP/tmp*") == NOWHERE


def test_a_file_below_a_file_is_absent(root: Path, now: FilesNow) -> None:
    (root / "project" / "file").write_bytes(b"x")
    assert look(now, "./file/below", "absent") == "absent"


def test_a_file_that_a_link_leads_to_has_another_name(root: Path, now: FilesNow) -> None:
    folder = root / "project" / "folder"
    folder.mkdir()
    (folder / "file").write_bytes(b"x")
    assert look(now, "./folder/file") == digest_of(b"x")
    folder.rename(root / "project" / "moved")
    folder.symlink_to("moved")
    assert look(now, "./folder/file") == ELSEWHERE
    assert look(now, "./folder/none", "absent") == ELSEWHERE
    assert look(now, "./moved/file") == digest_of(b"x")


def test_what_belongs_to_the_environment_is_no_data(root: Path, now: FilesNow) -> None:
    (root / "environment").mkdir()
    (root / "environment" / "lib").write_bytes(b"x")
    assert look(now, f"{root}/environment/lib") == ELSEWHERE


@contextmanager
def as_a_user() -> Iterator[None]:
    """Give up for a while the right of root to read everything."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


@pytest.mark.parametrize("data", [b"small", LARGE])
def test_a_file_that_may_not_be_read_is_unreadable(data: bytes) -> None:
    with TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)  # noqa: S103 - the folders of pytest are closed to others
        path = Path(folder, "file")
        path.write_bytes(data)
        path.chmod(0)
        now = FilesNow(Places(folder, environment=[]))
        with as_a_user():
            assert look(now, "./file") == "unreadable"


def test_size_and_time_are_compared_without_reading(
    root: Path, now: FilesNow, contents_read: list[str]
) -> None:
    path = root / "project" / "file"
    path.write_bytes(LARGE)
    word = f"size:{len(LARGE)}:{path.stat().st_mtime_ns}"
    assert look(now, "./file", word) == word
    assert look(now, "./file", "absent") == word
    assert contents_read == []
    path.unlink()
    assert look(now, "./file", word) == "absent"
    path.mkdir()
    assert look(now, "./file", word) == FOLDER


def test_a_huge_file_is_not_hashed(root: Path, now: FilesNow, contents_read: list[str]) -> None:
    path = root / "project" / "file"
    with open(path, "wb") as file:
        file.truncate(LARGEST_BYTES + 1)
    assert look(now, "./file") == f"size:{LARGEST_BYTES + 1}:{path.stat().st_mtime_ns}"
    assert contents_read == []


# ---------------------------------------------------------------- what is remembered


@pytest.mark.parametrize("data", [b"small", LARGE])
def test_a_settled_file_is_read_once(
    root: Path,
    now: FilesNow,
    data: bytes,
    contents_read: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = root / "project" / "file"
    path.write_bytes(data)
    # A moment after the change: it may change once more and look the same.
    changed_at = max(path.stat().st_mtime_ns, path.stat().st_ctime_ns)
    monkeypatch.setattr(time, "time_ns", lambda: changed_at + 40_000_000)
    assert look(now, "./file") == look(now, "./file") == digest_of(data)
    assert len(contents_read) == 2
    monkeypatch.setattr(time, "time_ns", lambda: changed_at + 60_000_000)
    for _ in range(3):
        assert look(now, "./file") == digest_of(data)
    assert len(contents_read) == 3


@pytest.mark.parametrize("data", [b"small", LARGE])
def test_a_change_that_restores_size_and_time_is_seen(
    root: Path, now: FilesNow, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = root / "project" / "file"
    path.write_bytes(data)
    before = path.stat()
    later = max(before.st_mtime_ns, before.st_ctime_ns) + 10**11
    monkeypatch.setattr(time, "time_ns", lambda: later)
    assert look(now, "./file") == digest_of(data)
    while path.stat().st_ctime_ns == before.st_ctime_ns:  # the clock of the file system is coarse
        path.write_bytes(data.swapcase())
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert look(now, "./file") == digest_of(data.swapcase())


def test_a_file_put_in_the_place_of_another_is_seen(root: Path, now: FilesNow) -> None:
    path = root / "project" / "file"
    path.write_bytes(b"one")
    assert look(now, "./file") == digest_of(b"one")
    (root / "project" / "other").write_bytes(b"two")
    os.replace(root / "project" / "other", path)
    assert look(now, "./file") == digest_of(b"two")


def test_large_files_are_known_to_the_next_process(
    root: Path, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = root / "project" / "file"
    data = os.urandom(2**20)
    path.write_bytes(data)
    later = path.stat().st_ctime_ns + 10**11
    monkeypatch.setattr(time, "time_ns", lambda: later)
    cache = str(root / "cache" / "fingerprints.sqlite")
    assert look(FilesNow(places, cache), "./file") == digest_of(data)
    another = FilesNow(places, cache)
    monkeypatch.setattr(another._prints, "_contents", lambda fd, job: "read again")
    assert look(another, "./file") == digest_of(data)


def test_no_more_names_are_kept_than_is_reasonable(
    root: Path, now: FilesNow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chexpoint.lineage.present._MOST_SPOTS", 10)
    (root / "project" / "file").write_bytes(b"x")
    for n in range(25):
        assert look(now, f"./{n}", "absent") == "absent"
        assert look(now, "./file") == digest_of(b"x")
    assert len(now._spots) <= 10


# ---------------------------------------------------------------- far


@pytest.mark.slow
@pytest.mark.skipif(not can_mount(), reason="needs the right to mount")
def test_a_file_server_that_hangs_is_not_waited_for_twice(
    root: Path, now: FilesNow, monkeypatch: pytest.MonkeyPatch
) -> None:
    mount = root / "project" / "far"
    mount.mkdir()
    (root / "project" / "near").write_bytes(b"x")
    expected = {f"./far/{NAME}": digest_of(CONTENTS), "./near": digest_of(b"x")}
    with serving(mount) as server:
        assert now.files(expected) == expected
        assert now.listings(["./far"]) == {"./far": ELSEWHERE}
        server.hang()
        monkeypatch.setattr("chexpoint.lineage.present._FAR_PATIENCE_S", 0.1)
        assert now.files(expected) == expected | {f"./far/{NAME}": LATE}
        # It would wait for ever, were it asked again.
        monkeypatch.setattr("chexpoint.lineage.present._FAR_PATIENCE_S", float(2**20))
        assert now.files(expected) == expected | {f"./far/{NAME}": LATE}


# ---------------------------------------------------------------- folders and links


def test_listings_are_those_of_the_audit(root: Path, now: FilesNow) -> None:
    folder = root / "project" / "folder"
    folder.mkdir()
    (folder / "a").write_bytes(b"")
    (folder / ".chex").mkdir()
    assert now.listings(["./folder"]) == {"./folder": listing(str(folder))}
    (folder / "b").write_bytes(b"")
    (root / "project" / "file").write_bytes(b"")
    (root / "project" / "link").symlink_to("folder")
    assert now.listings(["./folder", "./none", "./link", "./link/x", "$TMP/tmp*"]) == {
        "./folder": listing(str(folder)),
        "./none": "absent",
        "./link": ELSEWHERE,
        "./link/x": ELSEWHERE,
        "$TMP/tmp*": NOWHERE,
    }


def test_only_folders_are_folders(root: Path, now: FilesNow) -> None:
    (root / "project" / "folder" / "inner").mkdir(parents=True)
    (root / "project" / "file").write_bytes(b"")
    (root / "project" / "link").symlink_to("folder")
    names = ["./folder", "./folder/inner", "./file", "./link", "./link/inner", "./none", "$TMP/*"]
    assert now.existing_folders(names) == {"./folder", "./folder/inner"}


def test_links_are_known_by_where_they_lead(root: Path, places: Places, now: FilesNow) -> None:
    link = root / "project" / "link"
    link.symlink_to("one")
    before = now.links(["./link"])
    assert before == {"./link": link_word(b"one", places)}
    link.unlink()
    link.symlink_to("two")
    assert now.links(["./link"]) != before
    assert now.links(["./none", "$TMP/tmp*"]) == {"./none": ELSEWHERE, "$TMP/tmp*": NOWHERE}


def test_links_elsewhere_compare_equal(root: Path) -> None:
    words = set()
    for n in range(2):
        project = Places(str(root / str(n)), environment=[])
        words.add(link_word(os.fsencode(root / str(n) / "file"), project))
    assert len(words) == 1


# ---------------------------------------------------------------- differences


@pytest.mark.parametrize("then", ["", "volatile", "unreadable", "fifo", "socket", "device", "link"])
def test_what_is_not_known_is_never_the_same(then: str) -> None:
    assert difference(then, then) != ""


@pytest.mark.parametrize("word", ["absent", ANY, "size:1:2"])
def test_what_is_known_may_be_the_same(word: str) -> None:
    assert difference(word, word) == ""
    others = {"absent", ANY, "size:1:2", "1" * 32, "volatile", FOLDER, ELSEWHERE, LATE, NOWHERE}
    assert all(difference(word, other) for other in others - {word})


# ---------------------------------------------------------------- putting back


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def kept(root: Path) -> Path:
    path = root / "kept"
    path.write_bytes(LARGE)
    return path


def test_contents_are_put_back_with_folders_and_usual_permissions(root: Path, kept: Path) -> None:
    path = root / "project" / "new" / "deep" / "file"
    kept.chmod(0o400)
    mask = os.umask(0o027)
    try:
        put_contents(str(path), kept, digest_of(LARGE))
    finally:
        os.umask(mask)
    assert path.read_bytes() == LARGE
    assert mode_of(path) == 0o640
    assert os.listdir(path.parent) == ["file"]


def test_a_file_that_is_there_keeps_its_permissions(root: Path, kept: Path) -> None:
    path = root / "project" / "file"
    path.write_bytes(b"edited")
    path.chmod(0o751)
    put_contents(str(path), kept, digest_of(LARGE))
    assert path.read_bytes() == LARGE
    assert mode_of(path) == 0o751


def test_who_reads_the_old_contents_goes_on_reading_them(root: Path, kept: Path) -> None:
    path = root / "project" / "file"
    path.write_bytes(b"edited")
    with open(path, "rb") as file:
        put_contents(str(path), kept, digest_of(LARGE))
        assert file.read() == b"edited"


def test_names_that_are_no_text_can_be_put_back(root: Path, kept: Path) -> None:
    path = root / "project" / os.fsdecode(b"\xff") / "line\nbreak"
    put_contents(str(path), kept, digest_of(LARGE))
    assert path.read_bytes() == LARGE


def test_damaged_contents_are_not_put_back(root: Path, kept: Path) -> None:
    path = root / "project" / "file"
    path.write_bytes(b"edited")
    with pytest.raises(ChexError, match=r"^what is kept of .*file is damaged: run the cell again$"):
        put_contents(str(path), kept, ANY)
    assert path.read_bytes() == b"edited"
    assert os.listdir(path.parent) == ["file"]


@pytest.mark.parametrize(
    "make", [lambda path: path.mkdir(), os.mkfifo, lambda path: path.symlink_to("elsewhere")]
)
def test_only_a_file_is_replaced(root: Path, kept: Path, make: Callable[[Path], None]) -> None:
    path = root / "project" / "file"
    make(path)
    before = path.lstat()
    with pytest.raises(ChexError, match="is no file now, and is not replaced: move it away"):
        put_contents(str(path), kept, digest_of(LARGE))
    assert path.lstat().st_ino == before.st_ino
    assert not (root / "project" / "elsewhere").exists()


@pytest.mark.parametrize("is_link", [True, False])
def test_nothing_is_written_through_a_link_or_a_file(root: Path, kept: Path, is_link: bool) -> None:
    (root / "outside").mkdir()
    on_the_way = root / "project" / "folder"
    on_the_way.symlink_to(root / "outside") if is_link else on_the_way.write_bytes(b"")
    refused = pytest.raises(ChexError, match="leads through a link or a file")
    for inner in ("file", "deep/file"):
        with refused:
            put_contents(str(on_the_way / inner), kept, digest_of(LARGE))
    with refused:
        make_folder(str(on_the_way / "inner"))
    assert os.listdir(root / "outside") == []


def test_folders_are_made_where_there_are_none(root: Path) -> None:
    path = root / "project" / "new" / "deep"
    for _ in range(2):
        make_folder(str(path))
        assert path.is_dir()
