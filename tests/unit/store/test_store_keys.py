"""The key is made once, is private, and is the same for all processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from stat import S_IMODE

import pytest

from chexpoint.errors import InvalidValue, StoreError
from chexpoint.store import store_key


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("CHEX_STORE_KEY", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "chexpoint" / "store.key"


def test_it_is_made_at_first_use_and_kept(path: Path) -> None:
    key = store_key()
    assert len(key) == 32
    assert store_key() == key == bytes.fromhex(path.read_text())
    assert S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_processes_that_make_it_at_once_agree(path: Path) -> None:
    code = "from chexpoint.store import store_key; input(); print(store_key().hex())"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    keys = {each.communicate("\n", timeout=60)[0] for each in started}
    assert keys == {path.read_text()}


def test_the_environment_comes_first(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHEX_STORE_KEY", " " + "ab" * 16 + "\n")
    assert store_key() == b"\xab" * 16
    assert not path.exists()


@pytest.mark.parametrize("text", ["xyz", "ab", "a" * 33, "ab" * 65])
def test_what_is_no_key_is_told(path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("CHEX_STORE_KEY", text)
    with pytest.raises(InvalidValue, match="CHEX_STORE_KEY"):
        store_key()


def test_a_damaged_key_file_is_told(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"\xff\n")
    with pytest.raises(InvalidValue, match=r"store\.key"):
        store_key()


def test_a_folder_that_cannot_be_made_is_told(path: Path) -> None:
    path.parent.touch()
    with pytest.raises(StoreError, match="CHEX_STORE_KEY"):
        store_key()
