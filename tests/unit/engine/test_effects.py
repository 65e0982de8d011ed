"""Which files are said to have changed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from chexpoint.engine import effects
from chexpoint.engine.effects import FileLog, FileWatch, signature

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_file_is_compared_with_what_it_was_at_that_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    log = FileLog()
    log.checkpoint("none yet", str(tmp_path), [])
    log.add([(str(path), signature(str(path)))])
    path.write_text("1")
    log.checkpoint("one", str(tmp_path), [(str(path), signature(str(path)))])
    log.add([(str(path), signature(str(path)))])
    path.write_text("22")
    assert log.changed_since("none yet") == [str(path)]
    assert log.changed_since("one") == [str(path)]
    log.checkpoint("two", str(tmp_path), [(str(path), signature(str(path)))])
    assert log.changed_since("two") == []


def test_files_that_nobody_noted_show_in_the_folder(tmp_path: Path) -> None:
    log = FileLog()
    log.checkpoint("empty", str(tmp_path), [])
    (tmp_path / "new").write_text("")
    assert log.changed_since("empty") == [str(tmp_path / "new")]
    log.forget("empty")
    assert log.changed_since("empty") == []


def test_a_folder_too_large_to_list_is_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(effects, "_MANY", 3)
    monkeypatch.chdir(tmp_path)
    for n in range(4):
        (tmp_path / str(n)).write_text("")
    watch, log = FileWatch(), FileLog()
    log.checkpoint("a", watch.folder, watch.at_checkpoint())
    assert watch.folder == ""
    (tmp_path / "0").unlink()
    assert log.changed_since("a") == []


def test_a_slow_folder_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effects, "_PATIENCE_S", -1.0)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_text("")
    watch = FileWatch()
    watch.at_checkpoint()
    assert watch.folder == ""


def test_links_and_modes_count(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("")
    before = signature(str(path))
    path.chmod(0o755)
    assert signature(str(path)) != before
    link = tmp_path / "link"
    os.symlink("nowhere", link)
    assert signature(str(link)) is not None
