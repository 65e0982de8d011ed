"""Cells are recorded off the loop, in order, and a disk that fails stops nobody."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from chexpoint.model import CellAudit, CellLineage, NodeId
from chexpoint.project import Project, Recorder

if TYPE_CHECKING:
    import pytest


def cell(count: int) -> CellLineage:
    return CellLineage(
        node=NodeId(f"{count:032x}"),
        parent=NodeId(f"{count - 1:032x}"),
        code="c0de",
        strict="57",
        number=count,
        execution_count=count,
        source=f"print({count})",
        audit=CellAudit(),
        seconds=0.5,
        size_bytes=1000,
    )


def test_everything_is_written_in_order_when_it_is_closed(tmp_path: Path) -> None:
    recorder = Recorder(Project.at(tmp_path))
    cells = tuple(cell(n) for n in range(1, 6))
    for lineage in cells:
        recorder.record(lineage)
    recorder.close()
    assert Project.at(tmp_path).nodes() == cells


def test_without_a_cell_nothing_is_made(tmp_path: Path) -> None:
    recorder = Recorder(Project.at(tmp_path))
    recorder.close()
    assert list(tmp_path.iterdir()) == []


def test_two_kernels_in_one_project_have_sessions_of_their_own(tmp_path: Path) -> None:
    for n in (1, 2):
        recorder = Recorder(Project.at(tmp_path))
        recorder.record(cell(n))
        recorder.close()
    assert Recorder(Project.at(tmp_path))._session != Recorder(Project.at(tmp_path))._session
    assert [lineage.execution_count for lineage in Project.at(tmp_path).nodes()] == [1, 2]


def test_a_disk_that_fails_is_told_once_and_stops_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / ".chex").write_bytes(b"in the way")
    recorder = Recorder(Project.at(tmp_path))
    with caplog.at_level(logging.WARNING):
        for n in range(1, 4):
            recorder.record(cell(n))
        recorder.close()
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith("lineage is kept for this session only: ")
    assert str(tmp_path) in message


def test_recording_goes_on_when_the_disk_is_well_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = threading.Event()
    write = Project.record

    def fail_once(self: Project, lineage: CellLineage, session: str) -> None:
        if not failed.is_set():
            failed.set()
            raise OSError("no space")
        write(self, lineage, session)

    monkeypatch.setattr(Project, "record", fail_once)
    recorder = Recorder(Project.at(tmp_path))
    recorder.record(cell(1))
    recorder.record(cell(2))
    recorder.close()
    assert Project.at(tmp_path).nodes() == (cell(2),)


def test_whoever_records_does_not_wait_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = threading.Event()
    write = Project.record

    def wait(self: Project, lineage: CellLineage, session: str) -> None:
        go.wait()
        write(self, lineage, session)

    monkeypatch.setattr(Project, "record", wait)
    recorder = Recorder(Project.at(tmp_path))
    recorder.record(cell(1))
    assert not Project.at(tmp_path).path.exists()
    go.set()
    recorder.close()
    assert Project.at(tmp_path).nodes() == (cell(1),)


def test_a_disk_that_hangs_does_not_hold_up_the_end_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chexpoint.project.recorder._CLOSE_TIMEOUT_S", 0.01)
    go = threading.Event()
    monkeypatch.setattr(Project, "record", lambda *_: go.wait())
    recorder = Recorder(Project.at(tmp_path))
    recorder.record(cell(1))
    recorder.close()
    assert recorder._thread.is_alive()
    go.set()
    recorder._thread.join()
