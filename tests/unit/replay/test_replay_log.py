"""What an interrupted replay found out is found again."""

from __future__ import annotations

from pathlib import Path

import pytest

from chexpoint.model import CellError, OutputDifference, ReplayedCell
from chexpoint.replay.replay_log import ReplayLog
from tests.support.replays import many_replay, sample_replay

REPLAY = sample_replay()
NODES = list(REPLAY.recording.cells)
CELLS = [
    ReplayedCell(
        node=NODES[0],
        status="different",
        reasons=("it differs",),
        differences=(OutputDifference(what="the text", recorded=0, replayed=1),),
        outputs=(
            {"output_type": "stream", "name": "stdout", "text": "\u2028 \ud800 \U0001f600\n"},
        ),
        seconds=0.5,
        computed=2,
        error=CellError(ename="E", evalue="v", traceback=("a", "b")),
    ),
    ReplayedCell(node=NODES[1], status="same"),
]


def written(path: Path) -> ReplayLog:
    log = ReplayLog(path, REPLAY.recording)
    log.begin({CELLS[0].node: CELLS[0]})
    log.add(CELLS[1])
    log.end(is_complete=False)
    return log


def test_cells_come_back_as_they_were(tmp_path: Path) -> None:
    log = written(tmp_path / "deep" / "log")
    assert log.read() == {cell.node: cell for cell in CELLS}


def test_a_line_that_was_being_written_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = written(path)
    content = path.read_bytes()
    for cut in range(len(content)):
        path.write_bytes(content[:cut])
        found = log.read()
        assert all(cell in CELLS for cell in found.values())


def test_that_of_other_versions_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    written(path)
    other = many_replay(2, 2).recording
    assert ReplayLog(path, other).read() == {}


@pytest.mark.parametrize(
    "content", [b"", b"null", b"[]", b"{}\n1\n", b"\xff\xfe", b'{"format": 1}']
)
def test_what_is_no_log_is_not_read(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(content)
    assert ReplayLog(path, REPLAY.recording).read() == {}


def test_nothing_is_left_of_a_replay_that_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = ReplayLog(path, REPLAY.recording)
    log.begin({})
    log.add(CELLS[0])
    log.end(is_complete=True)
    assert list(tmp_path.iterdir()) == []


def test_without_a_file_nothing_is_kept() -> None:
    log = ReplayLog(None, REPLAY.recording)
    log.begin({})
    log.add(CELLS[0])
    log.end(is_complete=False)
    assert log.read() == {}
