"""Files travel by their contents: with the load, or through a store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import xxhash

from chexpoint.errors import ClusterError, StoreError
from chexpoint.model import Digest, Recording
from chexpoint.replay import cluster_cargo
from chexpoint.replay.cluster_cargo import HostFiles, load_cargo, stow, wanted_files
from tests.support.replays import good_replay

DATA = b"1.5\n2.5\n"
DIGEST = xxhash.xxh3_128(DATA).hexdigest()


class Folder:
    """Finds the one file that there is."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def find(self, name: str, digest: Digest) -> Path | None:
        return self.path if (name, digest) == ("./data.txt", DIGEST) else None


@pytest.fixture
def files(tmp_path: Path) -> Folder:
    (tmp_path / "data.txt").write_bytes(DATA)
    return Folder(tmp_path / "data.txt")


@pytest.fixture
def recording() -> Recording:
    return replace(good_replay().recording, extra_files={"./data.txt": DIGEST, "./empty.txt": ""})


def test_what_was_listed_is_wanted_with_its_contents(recording: Recording) -> None:
    assert ("./data.txt", DIGEST) in set(wanted_files(recording))
    assert "./empty.txt" not in {name for name, _ in wanted_files(recording)}


@pytest.mark.parametrize("has_store", [False, True])
def test_a_host_finds_what_was_there(
    has_store: bool, recording: Recording, files: Folder, tmp_path: Path
) -> None:
    store = str(tmp_path / "store") if has_store else None
    cargo = load_cargo(recording, files, store)
    assert DIGEST in cargo.digests
    assert bool(cargo.contents) is not has_store
    there = HostFiles(cargo, tmp_path / "host")
    there.try_out()
    found = there.find("./data.txt", DIGEST)
    assert found is not None
    assert found.read_bytes() == DATA
    assert there.find("./data.txt", "0" * 32) is None


@pytest.mark.parametrize("has_store", [False, True])
def test_more_can_be_stowed(
    has_store: bool, recording: Recording, files: Folder, tmp_path: Path
) -> None:
    (tmp_path / "more").write_bytes(b"more")
    digest = xxhash.xxh3_128(b"more").hexdigest()
    cargo = load_cargo(recording, files, str(tmp_path / "store") if has_store else None)
    there = HostFiles(stow(cargo, {digest: tmp_path / "more"}), tmp_path / "host")
    found = there.find("", digest)
    assert found is not None
    assert found.read_bytes() == b"more"


def test_too_much_for_dask_needs_a_store(
    recording: Recording, files: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_cargo, "MOST_THROUGH_DASK", 7)
    with pytest.raises(ClusterError, match=r"take 8 B, too much to send .* --store"):
        load_cargo(recording, files, None)


def test_a_store_that_a_host_cannot_reach_is_found_out_before_anything_runs(
    recording: Recording, files: Folder, tmp_path: Path
) -> None:
    cargo = load_cargo(recording, files, str(tmp_path / "store"))
    there = HostFiles(replace(cargo, store=str(tmp_path / "elsewhere")), tmp_path / "host")
    with pytest.raises(StoreError, match="elsewhere"):
        there.try_out()


def test_contents_that_were_changed_on_their_way_are_refused(
    recording: Recording, files: Folder, tmp_path: Path
) -> None:
    cargo = load_cargo(recording, files, str(tmp_path / "store"))
    (kept,) = (tmp_path / "store").rglob(DIGEST)
    kept.chmod(0o600)
    kept.write_bytes(b"1.5\n9.5\n")
    with pytest.raises(OSError, match="is damaged"):
        HostFiles(cargo, tmp_path / "host").find("./data.txt", DIGEST)
