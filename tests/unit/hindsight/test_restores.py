"""What replays show about the cost of putting states back."""

from __future__ import annotations

from pathlib import Path

import pytest

from chexpoint.hindsight.restores import DEFAULT_RATIO, note_restore, restore_ratio
from chexpoint.hindsight.run_log import RunLog


def run_folder(folder: Path, name: str, *saved: str) -> Path:
    log = RunLog.create(folder, name, source="")
    log.close()
    (log.path / "saved.jsonl").write_text("\n".join(saved) + "\n")
    return log.path


def test_without_replays_the_ratio_is_the_default(tmp_path: Path) -> None:
    assert restore_ratio(tmp_path / "nowhere") == DEFAULT_RATIO
    run_folder(tmp_path, "one", '{"image":"a","bytes":100,"seconds":1.0}')
    assert restore_ratio(tmp_path) == DEFAULT_RATIO


def test_the_ratio_is_per_byte(tmp_path: Path) -> None:
    path = run_folder(
        tmp_path,
        "one",
        '{"image":"a","bytes":100,"seconds":1.0}',
        '{"image":"b","failed":"no room"}',
    )
    note_restore(path, 50, 1.0)
    note_restore(path, 150, 1.0)
    assert restore_ratio(tmp_path) == pytest.approx(1.0)
    note_restore(path, 200, 6.0)
    assert restore_ratio(tmp_path) == pytest.approx(2.0)


def test_damage_counts_for_nothing(tmp_path: Path) -> None:
    path = run_folder(tmp_path, "one", "not json")
    (path / "restores.jsonl").write_bytes(b"\xff\xfe\n")
    assert restore_ratio(tmp_path) == DEFAULT_RATIO
    note_restore(tmp_path / "gone", 1, 1.0)
