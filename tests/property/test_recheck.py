"""Inputs count as unchanged if, and only if, another look by the audit finds the same."""

from __future__ import annotations

import contextlib
import os
import queue
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chexpoint.lineage import Places
from chexpoint.lineage.cell_log import CellLog, conclude
from chexpoint.lineage.files import Files
from chexpoint.lineage.fingerprint import Fingerprints, Job, Reading, Signature, signature_of
from chexpoint.lineage.processes import WORKER
from chexpoint.lineage.recheck import Present
from chexpoint.lineage.trail import Step, root_node
from chexpoint.model import CellAudit, CellLineage, Input, NodeId

TIMEOUT_S = 60
IN_FOLDER = os.fsdecode(b"d/\xff")
NAMES = ("a\nb", "d", IN_FOLDER, "e")
CONTENTS = (b"one", b"two", b"1" * 100_000, b"")
READ = (*NAMES, ".", "d/none")

Act = tuple[str, str, str | bytes]
"""What is done, to which name, and with what."""

AT_FIRST: tuple[Act, ...] = (
    ("write", "a\nb", b"one"),
    ("folder", "d", ""),
    ("write", IN_FOLDER, b"one"),
)
PLAIN_ACTS: st.SearchStrategy[Act] = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(NAMES), st.sampled_from(CONTENTS)),
    st.tuples(st.just("folder"), st.sampled_from(NAMES), st.just("")),
    st.tuples(st.just("pipe"), st.sampled_from(NAMES), st.just("")),
)
ACTS = st.one_of(
    PLAIN_ACTS,
    st.tuples(st.just("delete"), st.sampled_from(NAMES), st.just("")),
    st.tuples(st.just("rename"), st.sampled_from(NAMES), st.sampled_from(NAMES)),
    st.tuples(st.just("link"), st.sampled_from(NAMES), st.sampled_from(NAMES)),
    st.just(("move and link", "d", "e")),
    st.tuples(st.just("touch"), st.sampled_from(NAMES), st.just("")),
    st.tuples(st.just("sneak"), st.sampled_from(NAMES), st.sampled_from(CONTENTS)),
)


class World:
    """A folder in which files change."""

    def __init__(self, root: str) -> None:
        self.root = Path(os.path.realpath(root))
        self._seen: set[Signature] = set()

    def do(self, act: Act) -> None:
        """Do something, or nothing if it cannot be done."""
        what, name, with_what = act
        path = self.root / name
        with contextlib.suppress(OSError):
            match what:
                case "write" if isinstance(with_what, bytes):
                    self._write(path, with_what)
                case "sneak" if isinstance(with_what, bytes):
                    self._sneak(path, with_what)
                case "folder":
                    path.mkdir()
                case "pipe":
                    os.mkfifo(path)
                case "delete":
                    path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
                case "rename" | "move and link" | "link":
                    other = self.root / os.fsdecode(with_what)
                    if what != "link":
                        path.rename(other)
                    if what != "rename":
                        path.symlink_to(other)
                case "touch":
                    os.utime(path)

    def _write(self, path: Path, data: bytes, times: tuple[int, int] | None = None) -> None:
        """Write a file so that its signature tells: no two changes in one tick of the clock."""
        if path.is_fifo():
            return
        path.write_bytes(data)
        while True:
            if times is not None:
                os.utime(path, ns=times)
            signature = signature_of(path.stat())
            if signature not in self._seen:
                break
            path.write_bytes(data)
        self._seen.add(signature)

    def _sneak(self, path: Path, data: bytes) -> None:
        """Change a file so that size and time stay as they are."""
        info = path.stat()
        padded = data[: info.st_size].ljust(info.st_size, b"x")
        self._write(path, padded, (info.st_atime_ns, info.st_mtime_ns))


def audited(places: Places, names: Sequence[str]) -> CellAudit:
    """Return the audit of a cell that opens some files and lists some folders."""
    done: queue.SimpleQueue[Job] = queue.SimpleQueue()
    prints = Fingerprints(done.put)
    files = Files(places, prints)
    log = files.log = CellLog(Step(Step(None)))
    for name in names:
        files.read(WORKER, *files.folders.split(os.fsencode(os.path.join(places.project, name))))
    prints.rush()
    while log.pending:
        log.pending.discard(done.get(timeout=TIMEOUT_S).reading)

    def changed(path: str, reading: Reading) -> bool:
        return signature_of(os.lstat(path)) != reading.signature

    return conclude(
        log, {}, places=places, mechanism="system calls", packages=None, changed=changed
    )


def cell_of(audit: CellAudit, parent: NodeId) -> CellLineage:
    return CellLineage(
        node=NodeId("node"),
        parent=parent,
        code="code",
        strict="strict",
        number=1,
        execution_count=1,
        source="",
        audit=audit,
        seconds=0.0,
        size_bytes=0,
    )


def is_sure(found: Input) -> bool:
    return not {"fifo", "unreadable"} & set(found.digests)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("cache"))


@contextlib.contextmanager
def clock(*, is_late: bool) -> Iterator[None]:
    """Let all files look as if they had changed long ago, so that signatures are trusted."""
    with pytest.MonkeyPatch.context() as patch:
        if is_late:
            patch.setattr(time, "time_ns", lambda: int(time.time() * 1e9) + 10**12)
        yield


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(
    before=st.lists(ACTS, max_size=4),
    names=st.lists(st.sampled_from(READ), min_size=3, unique=True),
    rounds=st.lists(st.lists(ACTS, max_size=3), min_size=1, max_size=4),
    is_late=st.booleans(),
)
def test_inputs_are_unchanged_if_and_only_if_the_audit_finds_the_same(
    before: list[Act], names: list[str], rounds: list[list[Act]], is_late: bool, cache: str
) -> None:
    with tempfile.TemporaryDirectory() as root, clock(is_late=is_late):
        world = World(root)
        present = Present(root, cache_folder=cache)
        for act in (*AT_FIRST, *before):
            world.do(act)
        then = audited(present.places, names)
        cell = cell_of(then, root_node(present.packages()))
        for acts in ([], *rounds):
            for act in acts:
                world.do(act)
            changed = present.changed_inputs([cell])
            now = audited(present.places, names)
            is_same = now.inputs == then.inputs and all(map(is_sure, then.inputs))
            assert (changed == ()) == is_same, (changed, then.inputs, now.inputs)
            assert all(why.isprintable() for why in changed)
