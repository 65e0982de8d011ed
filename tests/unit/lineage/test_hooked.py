"""The notes of a cell from Python's audit hook, in the order in which it saw things."""

from __future__ import annotations

import os
import queue
from pathlib import Path

import pytest
import xxhash

from chexpoint.lineage.cell_log import CellLog, conclude
from chexpoint.lineage.files import Files
from chexpoint.lineage.fingerprint import Fingerprints, Job, signature_of
from chexpoint.lineage.hooked import add_report
from chexpoint.lineage.places import Places
from chexpoint.lineage.trail import Step
from chexpoint.model import CellAudit

TIMEOUT_S = 60


class Hooked:
    """A cell under the audit hook: it does things, and what was seen is looked at when it ends."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._done: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self.files = Files(Places(str(self.root)), Fingerprints(self._done.put))
        self.files.log = CellLog(Step(Step(None)))
        self._opened: list[list[object]] = []

    def saw(self, op: str, name: str, *more: object) -> None:
        """Note what the hook sees before something is done."""
        path = self.root / name
        self._opened.append([op, str(path), self.signature(name), *more])

    def signature(self, name: str) -> list[int] | None:
        path = self.root / name
        return list(signature_of(path.stat())) if path.exists() else None

    def put(self, name: str, data: bytes) -> None:
        (self.root / name).write_bytes(data)

    def end(self) -> CellAudit:
        add_report(self.files, {"opened": self._opened})
        log = self.files.log
        self.files.settle(set())
        self.files._prints.rush()
        while log.pending:
            job = self._done.get(timeout=TIMEOUT_S)
            self.files.done(job)
            log.pending.discard(job.reading)
        return conclude(
            log,
            {},
            places=self.files.places,
            mechanism="audit hook",
            packages=None,
            changed=lambda path, reading: False,
        )


@pytest.fixture
def cell(tmp_path: Path) -> Hooked:
    return Hooked(tmp_path)


def digest_of(data: bytes) -> str:
    return xxhash.xxh3_128_hexdigest(data)


def inputs(audit: CellAudit) -> dict[str, tuple[str, ...]]:
    return {found.name: found.digests for found in audit.inputs}


def effects(audit: CellAudit) -> dict[str, str]:
    return {effect.path: effect.kind for effect in audit.effects}


def test_a_read(cell: Hooked) -> None:
    cell.put("in", b"x")
    cell.saw("read", "in")
    audit = cell.end()
    assert inputs(audit) == {"./in": (digest_of(b"x"),)}
    assert audit.is_complete


def test_a_file_that_was_not_there(cell: Hooked) -> None:
    cell.saw("absent", "nowhere")
    assert inputs(cell.end()) == {"./nowhere": ("absent",)}


def test_a_file_that_was_not_there_until_the_cell_made_it(cell: Hooked) -> None:
    cell.saw("absent", "new")
    cell.saw("write", "new")
    cell.put("new", b"x")
    cell.saw("read", "new")
    audit = cell.end()
    assert (inputs(audit), effects(audit)) == ({}, {"./new": "written"})


def test_a_file_that_was_not_there_until_somebody_made_it(cell: Hooked) -> None:
    cell.saw("absent", "new")
    cell.put("new", b"x")
    assert inputs(cell.end()) == {"./new": ("absent",)}


def test_a_new_database(cell: Hooked) -> None:
    cell.saw("rdwr", "new.db")
    cell.put("new.db", b"x")
    audit = cell.end()
    assert (inputs(audit), effects(audit)) == ({}, {"./new.db": "written"})


def test_a_database_that_is_only_read(cell: Hooked) -> None:
    cell.put("old.db", b"x")
    cell.saw("rdwr", "old.db")
    audit = cell.end()
    assert (inputs(audit), effects(audit)) == ({"./old.db": (digest_of(b"x"),)}, {})


def test_own_output_is_no_input(cell: Hooked) -> None:
    cell.saw("write", "out")
    cell.put("out", b"x")
    cell.saw("read", "out")
    audit = cell.end()
    assert (inputs(audit), effects(audit)) == ({}, {"./out": "written"})


def test_a_file_that_is_no_longer_what_it_was_is_a_gap(cell: Hooked) -> None:
    cell.put("in", b"x")
    cell.saw("read", "in")
    cell.saw("write", "in")
    cell.put("in", b"other")
    audit = cell.end()
    assert inputs(audit) == {"./in": ("volatile",)}
    assert "in changed before its contents could be looked at" in audit.gaps[0]


def test_a_file_that_was_known_before_it_changed_is_no_gap(cell: Hooked) -> None:
    cell.put("in", b"x")
    cell.files._prints.remember(signature_of((cell.root / "in").stat()), "known")
    cell.saw("read", "in")
    cell.saw("write", "in")
    cell.put("in", b"other")
    audit = cell.end()
    assert inputs(audit) == {"./in": ("known",)}


def test_a_rename(cell: Hooked) -> None:
    cell.saw("write", "out.tmp")
    cell.put("out.tmp", b"x")
    cell.saw("rename", "out.tmp", str(cell.root / "out"), None)
    (cell.root / "out.tmp").rename(cell.root / "out")
    audit = cell.end()
    assert inputs(audit) == {}
    assert effects(audit) == {"./out": "written", "./out.tmp": "transient"}


def test_links_are_followed(cell: Hooked) -> None:
    cell.put("real", b"x")
    (cell.root / "link").symlink_to("real")
    cell.saw("read", "link")
    cell.saw("append", "link")
    cell.put("link", b"more")
    audit = cell.end()
    assert set(inputs(audit)) == {"./real"}
    assert effects(audit) == {"./real": "written"}


def test_a_listing_a_peer_and_a_deletion(cell: Hooked) -> None:
    cell.put("old", b"x")
    cell.saw("list", "")
    cell.saw("delete", "old")
    (cell.root / "old").unlink()
    cell._opened.append(["connect", "example.org:80", None])
    audit = cell.end()
    assert [(found.kind, found.digests) for found in audit.inputs] == [
        ("folder", ("volatile",)),
        ("network", ("volatile",)),
    ]
    assert not audit.is_complete
    assert effects(audit) == {"./old": "deleted"}


def test_files_of_the_system_do_not_count(cell: Hooked) -> None:
    cell.saw("read", "/etc/passwd")
    cell.saw("read", os.__file__)
    cell.saw("write", "/dev/null")
    audit = cell.end()
    assert (inputs(audit), effects(audit)) == ({}, {})
