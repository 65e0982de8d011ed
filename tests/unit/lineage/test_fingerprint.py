"""Digests of files: right, remembered only when that is safe, and never waited for too long."""

from __future__ import annotations

import os
import queue
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import xxhash

from chexpoint.lineage.fingerprint import (
    LARGEST_BYTES,
    READ_FLAGS,
    SMALL_BYTES,
    Fingerprints,
    Job,
    Reading,
    Signature,
    _Kept,
    is_settled,
    listing,
    signature_of,
    size_word,
)

TIMEOUT_S = 60
LONG_AGO = 1_000_000_000
MIB = 2**20


class Hasher:
    """Fingerprints whose jobs can be waited for."""

    def __init__(self, cache: Path | None = None) -> None:
        self._done: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self.prints = Fingerprints(self._done.put, None if cache is None else str(cache))
        self.read: list[bytes] = []
        """The files whose contents were looked at."""
        contents = self.prints._contents

        def read(fd: int, job: Job) -> str:
            self.read.append(job.path)
            return contents(fd, job)

        self.prints._contents = read  # type: ignore[method-assign]

    def hash(self, path: Path, *, lane: bytes = b"", **options: bool) -> Reading:
        """Have a thread hash a file, by its present signature."""
        reading = Reading(None if lane else signature_of(path.stat()))
        return self.run(Job(os.fsencode(path), -1, reading, **options), lane)

    def run(self, job: Job, lane: bytes = b"") -> Reading:
        self.prints.submit(job, lane)
        self.prints.rush()
        assert self._done.get(timeout=TIMEOUT_S) is job
        return job.reading


def digest_of(data: bytes) -> str:
    return xxhash.xxh3_128_hexdigest(data)


def make_old(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a file look settled: nobody can set the time of its last change, but clocks can."""
    now = max(path.stat().st_mtime_ns, path.stat().st_ctime_ns) + 10**11
    monkeypatch.setattr(time, "time_ns", lambda: now)


# ---------------------------------------------------------------- contents


@pytest.mark.parametrize("size", [0, 1, SMALL_BYTES, MIB - 1, MIB, 3 * MIB + 17])
def test_the_digest_is_that_of_the_contents(tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    path = tmp_path / "file"
    path.write_bytes(data)
    assert Hasher().hash(path).digest == digest_of(data)


def test_a_small_file_is_hashed_at_once(tmp_path: Path) -> None:
    prints = Hasher().prints
    for data in (b"first", b"", b"x" * SMALL_BYTES, b"y"):
        path = tmp_path / "file"
        path.write_bytes(data)
        with open(path, "rb") as file:
            assert prints.small(file.fileno(), len(data)) == digest_of(data)


def test_an_open_descriptor_is_hashed_even_if_the_file_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"contents")
    fd = os.open(path, READ_FLAGS)
    path.unlink()
    job = Job(os.fsencode(path), fd, Reading(signature_of(os.fstat(fd))))
    assert Hasher().run(job).digest == digest_of(b"contents")
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)  # whoever is given it closes it


def test_no_more_than_a_few_descriptors_are_kept_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chexpoint.lineage.fingerprint._MOST_OPEN", 0)
    path = tmp_path / "file"
    path.write_bytes(b"contents")
    job = Job(os.fsencode(path), os.open(path, READ_FLAGS), Reading(signature_of(path.stat())))
    assert Hasher().run(job).digest == digest_of(b"contents")
    assert job.fd == -1


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda path: None, "absent"),
        (lambda path: path.symlink_to("nowhere"), "absent"),
        (lambda path: path.mkdir(), "unreadable"),
    ],
)
def test_where_there_is_nothing_to_hash_a_word_says_why(
    tmp_path: Path, make: Callable[[Path], None], word: str
) -> None:
    path = tmp_path / "file"
    make(path)
    job = Job(os.fsencode(path), -1, Reading((1, 2, 3, 4, 5)))
    assert Hasher().run(job).digest == word


def test_a_file_that_is_not_what_it_was_is_volatile(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")
    job = Job(os.fsencode(path), -1, Reading(signature_of(path.stat())))
    path.write_bytes(b"afterwards")
    assert Hasher().run(job).digest == "volatile"


def test_a_file_that_changes_while_it_is_hashed_is_volatile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(MIB))
    hasher = Hasher()
    contents = hasher.prints._contents

    def change_meanwhile(fd: int, job: Job) -> str:
        found = contents(fd, job)
        path.write_bytes(b"changed")
        return found

    monkeypatch.setattr(hasher.prints, "_contents", change_meanwhile)
    reading = hasher.hash(path)
    assert reading.digest == "volatile"
    assert reading.signature is not None
    assert hasher.prints.known(reading.signature) is None


def test_a_thread_survives_whatever_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"contents")
    hasher = Hasher()

    def fail(fd: int, job: Job) -> str:
        raise RuntimeError("no reason")

    with monkeypatch.context() as patch:
        patch.setattr(hasher.prints, "_contents", fail)
        assert hasher.hash(path).digest == "volatile"
    assert hasher.hash(path).digest == digest_of(b"contents")


# ---------------------------------------------------------------- patience


def test_who_waits_does_not_wait_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chexpoint.lineage.fingerprint._PATIENCE_S", -1.0)
    path = tmp_path / "file"
    path.write_bytes(bytes(MIB))
    signature = signature_of(path.stat())
    job = Job(os.fsencode(path), -1, Reading(signature))
    hasher = Hasher()
    hasher.prints.hurry(job)
    assert hasher.run(job).digest == size_word(signature)
    assert hasher.prints.known(signature) is None


def test_waiting_twice_does_not_make_it_longer(tmp_path: Path) -> None:
    prints = Hasher().prints
    job = Job(b"x", -1, Reading(None))
    prints.hurry(job)
    first = job.deadline
    prints.hurry(job)
    assert job.deadline == first > 0


def test_size_and_time_stand_for_a_huge_file_on_a_far_file_system(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    with open(path, "wb") as file:
        file.truncate(LARGEST_BYTES + 1)
    hasher = Hasher()
    info = path.stat()
    assert hasher.hash(path, lane=b"/far").digest == f"size:{LARGEST_BYTES + 1}:{info.st_mtime_ns}"
    assert hasher.read == []


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda path: path.mkdir(), listing),
        (os.mkfifo, lambda _: "fifo"),
        (lambda path: path.write_bytes(b"x"), lambda _: digest_of(b"x")),
        (lambda path: None, lambda _: "absent"),
    ],
)
def test_what_is_far_is_told_apart_by_the_thread(
    tmp_path: Path, make: Callable[[Path], None], word: Callable[[str], str]
) -> None:
    path = tmp_path / "entry"
    make(path)
    assert Hasher().hash(path, lane=b"/far").digest == word(str(path))


def test_a_file_is_hashed_when_the_cell_has_ended_or_somebody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chexpoint.lineage.fingerprint._DELAY_S", 10 * TIMEOUT_S)
    path = tmp_path / "file"
    path.write_bytes(b"contents")
    signature = signature_of(path.stat())
    for end in ("hurry", "rush"):
        done: queue.SimpleQueue[Job] = queue.SimpleQueue()
        prints = Fingerprints(done.put)
        job = Job(os.fsencode(path), -1, Reading(signature))
        prints.submit(job)
        assert job.reading.digest == ""
        prints.rush() if end == "rush" else prints.hurry(job)
        assert done.get(timeout=TIMEOUT_S).reading.digest == digest_of(b"contents")


# ---------------------------------------------------------------- memory


def test_only_a_settled_file_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"contents")
    hasher = Hasher()
    signature = signature_of(path.stat())
    latest = max(signature[3:])
    monkeypatch.setattr(time, "time_ns", lambda: latest + 40_000_000)
    assert not is_settled(signature)
    hasher.hash(path)
    assert hasher.prints.known(signature) is None
    monkeypatch.setattr(time, "time_ns", lambda: latest + 60_000_000)
    assert is_settled(signature)
    assert not is_settled(signature, far=True)
    hasher.hash(path)
    assert hasher.prints.known(signature) == digest_of(b"contents")


def test_a_time_in_the_future_is_never_settled() -> None:
    far_off = time.time_ns() + 10**15
    assert not is_settled((1, 1, 1, far_off, LONG_AGO))
    assert not is_settled((1, 1, 1, LONG_AGO, far_off))
    assert is_settled((1, 1, 1, LONG_AGO, LONG_AGO))


def test_what_is_remembered_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(1000))
    make_old(path, monkeypatch)
    hasher = Hasher()
    first = hasher.hash(path).digest
    assert hasher.hash(path).digest == first
    assert hasher.read == [os.fsencode(path)]


def test_a_file_that_may_be_mapped_is_read_each_time_and_not_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(1000))
    make_old(path, monkeypatch)
    hasher = Hasher()
    hasher.prints.remember(signature_of(path.stat()), "stale")
    assert hasher.hash(path, trusted=False).digest == digest_of(bytes(1000))
    assert hasher.prints.known(signature_of(path.stat())) == "stale"


def test_memory_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chexpoint.lineage.fingerprint._KEPT", 3)
    prints = Hasher().prints
    for n in range(5):
        prints.remember((1, n, 1, 1, 1), str(n))
    assert prints.known((1, 0, 1, 1, 1)) is None
    assert prints.known((1, 4, 1, 1, 1)) == "4"


# ---------------------------------------------------------------- from one kernel to the next


def large_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = folder / "large"
    path.write_bytes(bytes(2 * MIB))
    make_old(path, monkeypatch)
    return path


def test_another_kernel_need_not_read_a_large_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "new" / "cache.sqlite"
    path = large_file(tmp_path, monkeypatch)
    first = Hasher(cache).hash(path).digest
    assert first == digest_of(bytes(2 * MIB))
    again = Hasher(cache)
    assert again.hash(path).digest == first
    assert again.read == []
    path.write_bytes(b"x" * 2 * MIB)
    assert again.hash(path).digest == digest_of(b"x" * 2 * MIB)


@pytest.mark.parametrize("contents", [b"", b"no database at all " * 1000, bytes(10_000)])
def test_a_damaged_cache_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, contents: bytes
) -> None:
    cache = tmp_path / "cache.sqlite"
    cache.write_bytes(contents)
    path = large_file(tmp_path, monkeypatch)
    first = Hasher(cache).hash(path).digest
    again = Hasher(cache)
    assert again.hash(path).digest == first == digest_of(bytes(2 * MIB))
    assert again.read == []


@pytest.mark.parametrize(
    "schema",
    ["CREATE TABLE fingerprint (something REAL)", "CREATE VIEW fingerprint AS SELECT 1 AS dev"],
)
def test_a_cache_of_another_kind_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schema: str
) -> None:
    cache = tmp_path / "cache.sqlite"
    with closing(sqlite3.connect(cache)) as connection:
        connection.execute(schema)
        connection.commit()
    path = large_file(tmp_path, monkeypatch)
    assert Hasher(cache).hash(path).digest == digest_of(bytes(2 * MIB))


@pytest.mark.slow
def test_a_locked_cache_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache.sqlite"
    path = large_file(tmp_path, monkeypatch)
    with closing(sqlite3.connect(cache, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE other (x)")
        connection.execute("BEGIN EXCLUSIVE")
        assert Hasher(cache).hash(path).digest == digest_of(bytes(2 * MIB))
        connection.execute("ROLLBACK")


def test_a_cache_that_cannot_be_made_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    path = large_file(tmp_path, monkeypatch)
    for cache in (tmp_path / "file" / "cache.sqlite", tmp_path):
        assert Hasher(cache).hash(path).digest == digest_of(bytes(2 * MIB))


def test_numbers_that_a_database_cannot_hold_are_not_kept(tmp_path: Path) -> None:
    kept = _Kept.at(str(tmp_path / "cache.sqlite"))
    assert kept is not None
    with closing(kept._db):
        huge: Signature = (2**63, 2**64 - 1, 1, 2, 3)
        kept.put(huge, "digest")
        assert kept.get(huge) is None
        kept.put((1, 2, 3, 4, 5), "digest")
        assert kept.get((1, 2, 3, 4, 5)) == "digest"
        assert kept.get((1, 2, 3, 4, 6)) is None


# ---------------------------------------------------------------- folders


def test_a_listing_is_that_of_names_in_any_order_without_caches(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder, names in ((one, ["a", "b", "\udcff"]), (two, ["\udcff", "__pycache__", "b", "a"])):
        folder.mkdir()
        for name in names:
            (folder / name).touch()
    assert listing(str(one)) == listing(os.fsencode(two))
    (two / "c").touch()
    assert listing(str(one)) != listing(str(two))
