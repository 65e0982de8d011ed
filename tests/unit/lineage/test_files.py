"""What reading and changing files means for a cell: each rule, played on real files."""

from __future__ import annotations

import os
import queue
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import xxhash

from chexpoint.lineage.cell_log import CellLog, conclude
from chexpoint.lineage.files import Files, Where
from chexpoint.lineage.fingerprint import (
    LARGEST_BYTES,
    LARGEST_WAIT_BYTES,
    Fingerprints,
    Job,
    Reading,
    listing,
    signature_of,
)
from chexpoint.lineage.places import Places
from chexpoint.lineage.processes import WORKER
from chexpoint.lineage.trail import Step
from chexpoint.model import CellAudit

TIMEOUT_S = 60
LARGE = b"large" * 50_000
CREATE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


def digest_of(data: bytes) -> str:
    return xxhash.xxh3_128_hexdigest(data)


class World:
    """A project folder, and cells that do things in it: first told to `Files`, then done."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.places = Places(
            str(self.root / "project"),
            home=str(self.root / "home"),
            tmp=str(self.root / "tmp"),
            environment=[str(self.root / "environment")],
        )
        for name in ("project", "home", "tmp", "environment"):
            (self.root / name).mkdir()
        self._done: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self.files = Files(self.places, Fingerprints(self._done.put))
        self.step = Step(None)
        self.thread = 0
        self.begin()

    def begin(self, parent: Step | None = None) -> None:
        self.step = Step(parent or self.step)
        self.files.log = CellLog(self.step)
        self.files.log.begin(self.step)

    def end(self, *still_open: str, **report: object) -> CellAudit:
        """End the cell and begin the next; return the audit of the one that has ended."""
        log = self.files.log
        self.files.settle({str(self.path(name)) for name in still_open})
        self.files._prints.rush()
        while log.pending:
            self.finish_job()

        def changed(path: str, reading: Reading) -> bool:
            try:
                return signature_of(os.lstat(path)) != reading.signature
            except OSError:
                return True

        audit = conclude(
            log,
            report,
            places=self.places,
            mechanism="system calls",
            packages=None,
            changed=changed,
        )
        self.begin()
        return audit

    def finish_job(self) -> None:
        job = self._done.get(timeout=TIMEOUT_S)
        self.files.done(job)
        self.files.log.pending.discard(job.reading)

    def path(self, name: str) -> Path:
        return self.root / "project" / name

    def where(self, name: str) -> Where:
        return self.files.folders.split(os.fsencode(self.path(name)))

    def _wait(self, act: Callable[[], Job | None]) -> None:
        """Do as the auditor does: what has to wait for a job is tried again after it."""
        while act() is not None:
            self.finish_job()

    # what a cell does

    def read(self, name: str, who: str = WORKER) -> None:
        self.files.read(who, *self.where(name))

    def open(self, name: str, flags: int, who: str = WORKER) -> None:
        folder, last = self.where(name)
        self._wait(lambda: self.files.open_to_change(who, folder, last, flags, self.thread))

    def write(self, name: str, data: bytes, flags: int = CREATE, who: str = WORKER) -> None:
        self.open(name, flags, who)
        fd = os.open(self.path(name), flags, 0o644)
        os.write(fd, data)
        os.close(fd)

    def remove(self, name: str) -> None:
        self._wait(lambda: self.files.remove(WORKER, *self.where(name)))
        path = self.path(name)
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()

    def rename(self, old: str, new: str) -> None:
        self._wait(lambda: self.files.rename(WORKER, self.where(old), self.where(new)))
        self.path(old).rename(self.path(new))

    def mkdir(self, name: str) -> None:
        self.files.create(WORKER, "folder", *self.where(name))
        self.path(name).mkdir()

    def symlink(self, target: str, name: str) -> None:
        self.files.create(WORKER, "link", *self.where(name))
        self.path(name).symlink_to(target)

    def put(self, name: str, data: bytes) -> None:
        """Change a file behind the cell's back."""
        self.path(name).parent.mkdir(parents=True, exist_ok=True)
        self.path(name).write_bytes(data)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def inputs(audit: CellAudit) -> dict[str, tuple[str, ...]]:
    return {found.name: found.digests for found in audit.inputs}


def effects(audit: CellAudit) -> dict[str, str]:
    return {effect.path: effect.kind for effect in audit.effects}


def hints(audit: CellAudit) -> set[str]:
    return {hint.kind for hint in audit.hints}


# ---------------------------------------------------------------- reading


@pytest.mark.parametrize("data", [b"", b"small", LARGE])
def test_a_file_that_is_read_is_an_input(world: World, data: bytes) -> None:
    world.put("in", data)
    world.read("in")
    world.read("in", who="0.1")
    audit = world.end()
    assert inputs(audit) == {"./in": (digest_of(data),)}
    assert effects(audit) == {}


def test_a_file_that_is_not_there_is_an_input_too(world: World) -> None:
    world.read("nowhere")
    world.read("no/folder")
    assert inputs(world.end()) == {"./nowhere": ("absent",), "./no/folder": ("absent",)}


def test_a_file_below_a_file_is_absent(world: World) -> None:
    world.put("in", b"x")
    world.read("in/below")
    assert inputs(world.end()) == {"./in/below": ("absent",)}


def test_what_others_change_between_two_reads_is_seen(world: World) -> None:
    world.put("in", b"one")
    world.read("in")
    world.put("in", b"other")
    world.read("in")
    assert inputs(world.end()) == {"./in": (digest_of(b"one"), digest_of(b"other"))}


def test_what_others_change_after_it_was_read_is_volatile(world: World) -> None:
    world.put("in", b"one")
    world.read("in")
    world.put("in", b"other")
    assert inputs(world.end()) == {"./in": ("volatile",)}


@pytest.mark.parametrize("folder", ["/proc", "/usr/lib"])
def test_a_folder_of_the_system_that_is_listed_is_none(world: World, folder: str) -> None:
    world.read(folder)  # an absolute path stays one
    assert world.end().inputs == ()


def test_a_folder_that_is_listed_is_an_input(world: World) -> None:
    world.put("folder/a", b"")
    world.read("folder")
    (found,) = world.end().inputs
    assert (found.kind, found.name) == ("folder", "./folder")
    assert found.digests == (listing(str(world.path("folder"))),)


def test_pipes_and_sockets_have_no_contents(world: World) -> None:
    os.mkfifo(world.path("pipe"))
    world.read("pipe")
    assert inputs(world.end()) == {"./pipe": ("fifo",)}


def test_size_and_time_stand_for_a_huge_file(world: World) -> None:
    with open(world.path("huge"), "wb") as file:
        file.truncate(LARGEST_BYTES + 1)
    world.read("huge")
    time = world.path("huge").stat().st_mtime_ns
    assert inputs(world.end()) == {"./huge": (f"size:{LARGEST_BYTES + 1}:{time}",)}


def test_the_source_counts_for_a_compiled_module(world: World) -> None:
    world.put("module.py", b"x = 1")
    world.put("__pycache__/module.cpython-311.pyc", b"compiled")
    world.put("__pycache__/gone.cpython-311.pyc", b"compiled")
    world.read("__pycache__/module.cpython-311.pyc")
    world.read("__pycache__/gone.cpython-311.pyc")
    assert inputs(world.end()) == {"./module.py": (digest_of(b"x = 1"),)}


def test_writing_compiled_modules_is_no_effect(world: World) -> None:
    world.mkdir("__pycache__")
    world.write("__pycache__/m.pyc.123", b"compiled")
    world.rename("__pycache__/m.pyc.123", "__pycache__/m.pyc")
    audit = world.end()
    assert (inputs(audit), effects(audit)) == ({}, {})


# ---------------------------------------------------------------- links


def test_the_target_of_a_link_counts(world: World) -> None:
    world.put("data/real", b"x")
    world.path("link").symlink_to("data/real")
    world.path("chain").symlink_to(world.path("link"))
    world.read("chain")
    assert inputs(world.end()) == {"./data/real": (digest_of(b"x"),)}


def test_a_link_out_of_the_environment_is_followed_and_one_into_it_only_counted(
    world: World,
) -> None:
    (world.root / "environment" / "lib").write_bytes(b"x")
    world.path("link").symlink_to(world.root / "environment" / "lib")
    world.read("link")
    audit = world.end()
    assert inputs(audit) == {}
    assert audit.environment_reads == 1


def test_a_link_to_nowhere_and_a_loop_do_no_harm(world: World) -> None:
    world.path("nowhere").symlink_to("gone")
    world.path("a").symlink_to("b")
    world.path("b").symlink_to("a")
    for name in ("nowhere", "a"):
        world.read(name)
    world.open("a", CREATE)
    audit = world.end()
    assert inputs(audit)["./gone"] == ("absent",)
    assert effects(audit) == {}


def test_writing_through_a_link_changes_its_target(world: World) -> None:
    world.put("real", b"old")
    world.path("link").symlink_to("real")
    world.write("link", b"new")
    assert effects(world.end()) == {"./real": "written"}


def test_writing_through_a_link_to_nowhere_creates_its_target(world: World) -> None:
    world.path("link").symlink_to("made")
    world.write("link", b"new")
    assert effects(world.end()) == {"./made": "written"}


# ---------------------------------------------------------------- own output


def test_reading_what_the_cell_itself_wrote_is_no_input(world: World) -> None:
    world.write("out", b"x")
    world.read("out")
    audit = world.end()
    assert inputs(audit) == {}
    assert [(e.path, e.kind, e.digest, e.size_bytes) for e in audit.effects] == [
        ("./out", "written", digest_of(b"x"), 1)
    ]


def test_what_is_created_and_deleted_again_is_transient(world: World) -> None:
    world.write("scratch", b"x")
    world.remove("scratch")
    audit = world.end()
    assert (inputs(audit), effects(audit)) == ({}, {"./scratch": "transient"})


def test_what_was_there_before_and_is_deleted_is_deleted(world: World) -> None:
    world.put("old", b"x")
    world.write("old", b"y")
    world.remove("old")
    assert effects(world.end()) == {"./old": "deleted"}


def test_looking_for_a_file_before_creating_it_is_no_input(world: World) -> None:
    world.read("new")
    world.write("new", b"x")
    world.read("new")
    audit = world.end()
    assert (inputs(audit), effects(audit)) == ({}, {"./new": "written"})


def test_a_file_written_under_another_name_first(world: World) -> None:
    world.put("final", b"old")
    world.write("final.tmp", b"new")
    world.rename("final.tmp", "final")
    world.read("final")
    audit = world.end()
    assert inputs(audit) == {}
    assert effects(audit) == {"./final": "written", "./final.tmp": "transient"}


def test_what_was_written_into_a_folder_moves_with_it(world: World) -> None:
    world.mkdir("part")
    world.write("part/file", b"x")
    world.rename("part", "whole")
    world.read("whole/file")
    audit = world.end()
    assert inputs(audit) == {}
    assert effects(audit)["./whole/file"] == "written"
    assert effects(audit)["./whole"] == "folder"
    assert effects(audit).get("./part/file", "transient") == "transient"


def test_what_an_earlier_cell_wrote_into_a_folder_moves_with_it(world: World) -> None:
    world.mkdir("part")
    world.write("part/file", b"x")
    world.end()
    world.rename("part", "whole")
    world.end()
    world.read("whole/file")
    (digests,) = inputs(world.end()).values()
    assert digests in {("cell:1",), ("cell:2",)}


def test_a_file_opened_to_be_written_but_not_touched_is_no_effect(world: World) -> None:
    world.put("old", b"x")
    world.open("old", os.O_WRONLY)
    audit = world.end()
    assert (inputs(audit), effects(audit)) == ({}, {})


def test_appending_is_an_effect_and_no_input(world: World) -> None:
    world.put("log", b"one\n")
    world.write("log", b"two\n", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    audit = world.end()
    assert inputs(audit) == {}
    (effect,) = audit.effects
    assert effect.digest == digest_of(b"one\ntwo\n")


@pytest.mark.parametrize("data", [b"small", LARGE])
def test_opening_to_read_and_write_is_both(world: World, data: bytes) -> None:
    world.put("db", data)
    world.write("db", b"new", os.O_RDWR)
    audit = world.end()
    assert inputs(audit) == {"./db": (digest_of(data),)}
    assert effects(audit) == {"./db": "written"}
    assert "own-input" in hints(audit)


def test_opening_to_read_and_write_without_writing_is_only_a_read(world: World) -> None:
    world.put("db", b"x")
    world.open("db", os.O_RDWR)
    audit = world.end()
    assert inputs(audit) == {"./db": (digest_of(b"x"),)}
    assert effects(audit) == {}


def test_nobody_waits_for_a_huge_file_that_is_opened_to_read_and_write(world: World) -> None:
    with open(world.path("huge"), "wb") as file:
        file.truncate(LARGEST_WAIT_BYTES + 1)
    time = world.path("huge").stat().st_mtime_ns
    world.open("huge", os.O_RDWR)
    assert inputs(world.end()) == {"./huge": (f"size:{LARGEST_WAIT_BYTES + 1}:{time}",)}


@pytest.mark.parametrize("has_read", [False, True])
def test_a_probe_before_a_file_is_overwritten_is_no_read(world: World, has_read: bool) -> None:
    world.put("data.h5", b"old")
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"started\n")
        process.stdin.flush()
        process.stdout.readline()
        world.thread = process.pid
        world.open("data.h5", os.O_RDWR)
        if has_read:
            process.stdin.write(b"something\n")
            process.stdin.flush()
            process.stdout.readline()
        world.write("data.h5", b"new", os.O_RDWR | os.O_TRUNC)
        process.kill()
    audit = world.end()
    assert inputs(audit) == ({"./data.h5": (digest_of(b"old"),)} if has_read else {})
    assert effects(audit) == {"./data.h5": "written"}


def test_a_large_file_is_hashed_before_it_may_change(world: World) -> None:
    world.put("in", LARGE)
    world.read("in")
    world.write("in", b"new")
    audit = world.end()
    assert inputs(audit) == {"./in": (digest_of(LARGE),)}
    assert "own-input" in hints(audit)


@pytest.mark.parametrize("act", ["remove", "rename"])
def test_a_large_file_is_hashed_before_it_goes(world: World, act: str) -> None:
    world.put("in", LARGE)
    world.read("in")
    world.remove("in") if act == "remove" else world.rename("in", "elsewhere")
    assert inputs(world.end())["./in"] == (digest_of(LARGE),)


@pytest.mark.parametrize(
    "flags",
    [os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_CREAT | os.O_EXCL],
)
def test_a_call_that_will_fail_changes_nothing(world: World, flags: int) -> None:
    if flags & os.O_EXCL:
        world.put("file", b"x")
    world.open("file", flags)
    assert effects(world.end()) == {}


def test_changing_what_is_not_there_changes_nothing(world: World) -> None:
    files, nowhere = world.files, world.where("nowhere")
    assert files.remove(WORKER, *nowhere) is None
    assert files.rename(WORKER, nowhere, world.where("other")) is None
    assert files.link(WORKER, nowhere, world.where("other")) is None
    audit = world.end()
    assert effects(audit) == {}
    assert not files.written


def test_a_folder_that_is_made_is_an_effect_and_listing_it_no_input(world: World) -> None:
    world.mkdir("made")
    world.read("made")
    audit = world.end()
    assert (inputs(audit), effects(audit)) == ({}, {"./made": "folder"})


def test_a_folder_that_is_there_already_is_no_effect(world: World) -> None:
    world.path("old").mkdir()
    world.files.create(WORKER, "folder", *world.where("old"))
    assert effects(world.end()) == {}


def test_a_new_link_is_an_effect(world: World) -> None:
    world.put("real", b"x")
    world.symlink("real", "link")
    assert effects(world.end()) == {"./link": "written"}


def test_a_file_that_is_still_open_is_held(world: World) -> None:
    world.write("log", b"x")
    assert effects(world.end("log")) == {"./log": "held"}


def test_paths_are_handed_out_as_they_were_before(world: World) -> None:
    world.put("old", b"four")
    world.write("old", b"x")
    world.write("old", b"xy")
    world.write("new", b"x")
    before = {os.path.basename(path): info for path, info in world.files.written}
    assert before["new"] is None
    assert before["old"] is not None
    assert before["old"].st_size == 4
    assert len(world.files.written) == 2


# ---------------------------------------------------------------- from cell to cell


def test_what_an_earlier_cell_left_is_called_by_the_cell(world: World) -> None:
    world.write("out", b"some time")
    world.end()
    world.read("out")
    assert inputs(world.end()) == {"./out": ("cell:1",)}
    world.read("out")
    assert inputs(world.end()) == {"./out": ("cell:1",)}


def test_what_was_changed_since_is_called_by_its_contents(world: World) -> None:
    world.write("out", b"some time")
    world.end()
    world.put("out", b"edited")
    world.read("out")
    assert inputs(world.end()) == {"./out": (digest_of(b"edited"),)}


def test_what_a_cell_of_another_path_left_is_called_by_its_contents(world: World) -> None:
    first = world.step
    world.end()
    world.write("out", b"x")
    world.end()
    world.begin(first)  # restored to the state after the first cell
    world.read("out")
    assert inputs(world.end()) == {"./out": (digest_of(b"x"),)}


def test_of_two_cells_that_wrote_a_file_the_last_counts(world: World) -> None:
    for data in (b"one", b"two"):
        world.write("out", data)
        world.end()
    world.read("out")
    assert inputs(world.end()) == {"./out": ("cell:2",)}


def test_a_held_file_that_grows_belongs_to_the_cell_that_let_it_grow(world: World) -> None:
    world.write("log", b"x")
    world.end("log")
    world.put("log", b"more")  # through the descriptor that is still open
    world.end("log")
    world.read("log")
    assert inputs(world.end()) == {"./log": ("cell:2",)}


# ---------------------------------------------------------------- elsewhere


def test_the_environment_is_counted_and_changing_it_is_no_effect(world: World) -> None:
    (world.root / "environment" / "lib").write_bytes(b"x")
    world.read("../environment/lib")
    world.write("../environment/lib", b"y")
    audit = world.end()
    assert (inputs(audit), effects(audit)) == ({}, {})
    assert audit.environment_reads == 1


def test_random_numbers_from_the_system_are_hinted_at(world: World) -> None:
    world.files.read(WORKER, *world.files.folders.split(b"/dev/urandom"))
    world.files.read(WORKER, *world.files.folders.split(b"/dev/null"))
    audit = world.end()
    assert hints(audit) == {"entropy"}
    assert inputs(audit) == {}


def test_two_files_whose_names_were_drawn_by_lot_are_one_input(world: World) -> None:
    for name, data in (("tmpabcdefgh", b"1"), ("tmpijklmnop", b"2")):
        (world.root / "tmp" / name).write_bytes(data)
        world.read(f"../tmp/{name}")
    expected = tuple(sorted((digest_of(b"1"), digest_of(b"2"))))
    assert inputs(world.end()) == {"$TMP/tmp*": expected}
