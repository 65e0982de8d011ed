"""Catalogs of older versions, in odd places, and in a sorry state."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from chexpoint.errors import CatalogError, ChexError, InvalidValue
from chexpoint.model import CellAudit, CellRecord, Event, Hint, Input
from chexpoint.project import Project
from chexpoint.project.schema import SCHEMA
from tests.unit.project.examples import FULL, cell, node_id, record, stream

GOLDEN_1 = Path(__file__).parents[2] / "golden" / "catalog-1.sqlite"


# ------------------------------------------------------------ schema 1


@pytest.fixture
def old(tmp_path: Path) -> Project:
    """Return a project with a catalog that was written with schema 1."""
    (tmp_path / ".chex").mkdir()
    shutil.copyfile(GOLDEN_1, tmp_path / ".chex" / "catalog.sqlite")
    return Project.at(tmp_path)


def test_a_catalog_of_schema_1_says_all_that_it_said(old: Project) -> None:
    by_digits = {n.node[:4]: n for n in old.nodes()}
    assert " ".join(by_digits) == "bbbb cccc dddd eeee ffff 9999 cc01 cc02 aaaa dd01"
    assert by_digits["bbbb"] == cell(
        "bbbb", "aaaa", count=2, source="x = '\udc80 \\ud800 日本'  # \x00", seconds=1.25
    )
    assert by_digits["aaaa"] == cell(
        "aaaa",
        source="a = 1",
        audit=CellAudit(
            inputs=FULL.inputs,
            effects=FULL.effects,
            events=(Event("0.1", "read", "./caf\udce9.csv", "ab12"),),
            mechanism="audit hook",
            environment_reads=12,
            interrupts=3,
        ),
    )
    assert by_digits["cccc"].audit.hints == (Hint(kind="time", what="reads the clock", line=2),)
    assert by_digits["ffff"].audit == CellAudit(gaps=("a process could not be seen",), interrupts=4)
    assert old.node("2", session="second").status == "error"
    assert old.node("1", session="second").seconds == 0.25
    assert [n.execution_count for n in old.path_to(old.node("dddd"))] == [1, 2, 3, 4]


def test_a_catalog_of_schema_1_has_a_tree_and_ways(old: Project) -> None:
    tree = old.tree()
    assert {n[:4] for n in tree.children(None)} == {"aaaa", "9999"}
    assert {n[:4] for n in tree.children(node_id("aaaa"))} == {
        "bbbb",
        "eeee",
        "cc01",
        "dd01",
    }
    assert tree.nodes[node_id("cccc")].doubt == "reads the clock"
    assert tree.nodes[node_id("eeee")].doubt == "it failed"
    assert tree.nodes[node_id("bbbb")].cell == "x = '\udc80 \\ud800 日本'  # \x00"
    assert tree.nodes[node_id("aaaa")].last_run == 1_700_000_012.0
    assert tree.versions == ()
    way = old.way_to("dddd")
    assert [each.execution_count for each in way] == [1, 2, 3, 4]
    # The third cell reads the clock: its state, and the one after it, are those of that run.
    assert [each.taint for each in way] == ["", "", way[2].taint, way[2].taint]
    assert way[2].taint
    assert [each.execution_count for each in old.way_to("ffff")] == [1, 2, 3]
    assert old.outputs(way[0].execution) == ()
    # A run that failed left another state than one of the same cell that did not.
    assert old.way_to("2")[-1].taint
    assert not old.way_to("3")[-1].taint


def test_what_schema_1_does_not_say_is_not_guessed(old: Project) -> None:
    with pytest.raises(InvalidValue, match="not recorded completely"):
        old.way_to("9999")
    # A doubtful cell ran twice; nobody knows which of the runs led to the next cell.
    with pytest.raises(InvalidValue, match=r"what led to cell \[4\] is missing"):
        old.way_to("cc02")
    assert [each.execution_count for each in old.way_to("cc01")] == [1, 3]
    # Outputs were not recorded, so no run can be shown again.
    assert old.runs_after(node_id("aaaa"), "") == ()


def test_a_catalog_of_schema_1_goes_on(old: Project) -> None:
    version = old.new_version("new", session="sixth")
    record(old, cell("aaaa", source="a = 1"), "sixth", version=version, outputs=(stream("1"),))
    record(old, cell("bb01", "aaaa", count=2), "sixth", version=version)
    assert len(old.tree()) == 11
    assert len(old.way_to("new")) == 2
    assert len(old.way_to("dddd")) == 4
    with closing(sqlite3.connect(old.path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        tables = connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table'"
        ).fetchall()
        assert not [name for (name,) in tables if name.endswith("_1")]
        (runs,) = connection.execute("SELECT runs FROM node WHERE id LIKE 'aaaa%'").fetchone()
        assert runs == 5


def test_damage_in_schema_1_is_carried_over_and_told(old: Project) -> None:
    with closing(sqlite3.connect(old.path)) as connection:
        connection.execute("UPDATE node SET lineage = '{}' WHERE id LIKE 'bbbb%'")
        connection.execute("UPDATE node SET lineage = 3.5 WHERE id LIKE 'cccc%'")
        connection.execute("DELETE FROM node WHERE id LIKE 'eeee%'")
        connection.commit()
    with pytest.raises(CatalogError, match=r"node bbbb0+ is damaged"):
        old.node("bbbb")
    with pytest.raises(CatalogError, match=r"node cccc0+ is damaged"):
        old.node("cccc")
    with pytest.raises(InvalidValue, match="no node 'eeee'"):
        old.node("eeee")
    assert old.tree().nodes[node_id("bbbb")].doubt == "its record is damaged"
    assert old.node("aaaa").execution_count == 1


# ------------------------------------------------------------ places where nobody can write

READ_ONLY = """
import os, sys
from chexpoint.project import Project
if os.geteuid() == 0:
    os.setgroups([])
    os.setuid(65534)
project = Project.at(sys.argv[1])
assert not os.access(project.path.parent, os.W_OK)
print(len(project.nodes()), len(project.tree()), len(project.versions()))
"""


def read_as_nobody(folder: Path) -> str:
    """Read a catalog where nothing can be written; return how much is in it."""
    chex = folder / ".chex"
    for path in chex.iterdir():
        path.chmod(0o444)
    chex.chmod(0o555)
    try:
        return subprocess.run(
            [sys.executable, "-c", READ_ONLY, str(folder)],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout.strip()
    finally:
        chex.chmod(0o755)


@pytest.mark.slow
def test_an_older_schema_can_be_read_where_nobody_can_write(open_folder: Path) -> None:
    (open_folder / ".chex").mkdir()
    shutil.copyfile(GOLDEN_1, open_folder / ".chex" / "catalog.sqlite")
    assert read_as_nobody(open_folder) == "10 10 0"
    assert (open_folder / ".chex" / "catalog.sqlite").read_bytes() == GOLDEN_1.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("has_lock_file", [False, True])
def test_a_catalog_of_a_killed_kernel_can_be_read_where_nobody_can_write(
    tmp_path: Path, open_folder: Path, has_lock_file: bool
) -> None:
    project = Project.at(tmp_path)
    record(project, cell("aaaa"), version=project.new_version("a", session="s"))
    # As a kill leaves it: the last transactions are in the log only.
    (open_folder / ".chex").mkdir()
    for path in project.path.parent.iterdir():
        if has_lock_file or not path.name.endswith("-shm"):
            shutil.copyfile(path, open_folder / ".chex" / path.name)
    assert (open_folder / ".chex" / "catalog.sqlite-wal").stat().st_size > 0
    assert read_as_nobody(open_folder) == "1 1 1"


# ------------------------------------------------------------ connections


def test_a_catalog_that_was_deleted_or_replaced_is_not_written_into_the_void(
    tmp_path: Path,
) -> None:
    project = Project.at(tmp_path)
    record(project, cell("aaaa"))
    shutil.rmtree(project.path.parent)
    record(project, cell("bbbb"))
    assert [n.node[:4] for n in Project.at(tmp_path).nodes()] == ["bbbb"]
    other = Project.at(tmp_path / "other")
    record(other, cell("cccc"))
    other.close()
    shutil.rmtree(project.path.parent)
    shutil.copytree(other.path.parent, project.path.parent)
    assert [n.node[:4] for n in project.nodes()] == ["cccc"]
    record(project, cell("dddd"))
    assert [n.node[:4] for n in Project.at(tmp_path).nodes()] == ["cccc", "dddd"]


def test_reading_leaves_no_file_open(tmp_path: Path) -> None:
    record(Project.at(tmp_path), cell("aaaa"))
    reader = Project.at(tmp_path)
    assert len(reader.nodes()) == len(reader.tree()) == 1
    assert not held_files(tmp_path)


def test_a_closed_project_leaves_no_file_open_and_can_be_used_again(tmp_path: Path) -> None:
    project = Project.at(tmp_path)
    record(project, cell("aaaa"))
    assert held_files(tmp_path)
    project.close()
    project.close()
    assert not held_files(tmp_path)
    assert not Path(f"{project.path}-wal").exists()
    record(project, cell("bbbb"))
    assert len(project.nodes()) == 2


def test_a_project_that_nobody_has_any_more_is_closed(tmp_path: Path) -> None:
    record(Project.at(tmp_path), cell("aaaa"))
    assert not held_files(tmp_path)


def held_files(folder: Path) -> list[str]:
    """Return the files in a folder that this process has open."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
    return [path for path in found if path.startswith(os.path.realpath(folder))]


def test_threads_share_a_project(tmp_path: Path) -> None:
    project = Project.at(tmp_path)
    failures: list[BaseException] = []

    def work(letter: str) -> None:
        try:
            version = project.new_version(letter, session=letter)
            for count in range(1, 11):
                record(project, cell(f"{letter}{count:03x}", count=count), letter, version=version)
                assert len(project.cells(project.version(letter))) == count
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(letter,)) for letter in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert [len(v.path) for v in project.versions()] == [10] * 4


FORKS = """
import ctypes, os, sys, warnings
from chexpoint.model import CellRecord
from chexpoint.project import Project
from dataclasses import replace
warnings.simplefilter("ignore")
folder, kind = sys.argv[1:]
project = Project.at(folder)
example = project.node()
def put(node):
    record = CellRecord(lineage=replace(example, node=node * 32))
    project.record(record, session=node)
def is_ours(fd):
    link = f"/proc/self/fd/{fd}"
    return os.path.lexists(link) and os.readlink(link).startswith(os.path.realpath(folder))
def files():
    return [fd for fd in os.listdir("/proc/self/fd") if is_ours(fd)]
put("1")
assert files()
fork = os.fork if kind == "python" else ctypes.PyDLL(None).fork
for round in range(3):
    pid = fork()
    if pid == 0:
        # Nothing of the parent's connection may be used or closed here.
        assert kind != "python" or not files(), files()
        inherited = files()
        put("abc"[round])
        assert len(project.nodes()) == 3 + 2 * round
        project.close()
        assert set(inherited) <= set(files())
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    put("def"[round])
project.close()
assert not files()
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["python", "behind Python's back"])
def test_a_forked_process_writes_by_a_connection_of_its_own(tmp_path: Path, kind: str) -> None:
    project = Project.at(tmp_path)
    record(project, cell("eeee"))
    project.close()
    done = subprocess.run(
        [sys.executable, "-c", FORKS, str(tmp_path), kind],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert {n.node[0] for n in project.nodes()} == set("e1abcdef")
    with closing(sqlite3.connect(project.path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


HANGS = """
import os, sys, threading, warnings
from chexpoint.model import CellRecord
from chexpoint.project import Project, catalog
warnings.simplefilter("ignore")
catalog._PATIENCE_S = 0.01
project = Project.at(sys.argv[1])
other = Project.at(sys.argv[1] + "/other")
example = CellRecord(lineage=project.node())
begun = threading.Event()
def hang():
    with project._catalog.writing():
        begun.set()
        threading.Event().wait()
threading.Thread(target=hang, daemon=True).start()
begun.wait()
pid = os.fork()
if pid == 0:
    os._exit(len(other.nodes()) or other.record(example, session="s"))
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


@pytest.mark.slow
def test_a_disk_that_hangs_holds_up_neither_a_fork_nor_the_end(tmp_path: Path) -> None:
    record(Project.at(tmp_path), cell("aaaa"))
    done = subprocess.run(
        [sys.executable, "-c", HANGS, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


# ------------------------------------------------------------ hostile catalogs


def asked(project: Project) -> list[Callable[[], object]]:
    """Return everything that can be asked of a project, with what it may have."""
    example = CellRecord(lineage=cell("cccc"))
    return [
        project.nodes,
        project.node,
        project.versions,
        project.tree,
        project.checkpoints,
        lambda: project.node("bbbb"),
        lambda: project.node("[2]"),
        lambda: project.path_to(cell("bbbb", "aaaa", count=2)),
        lambda: project.version("a"),
        lambda: project.version("nope"),
        lambda: project.cells(project.version("a")),
        lambda: project.way_to("a"),
        lambda: project.way_to("b@1"),
        lambda: project.way_to("bbbb"),
        lambda: project.way_to("2"),
        lambda: project.runs_after(node_id("aaaa"), ""),
        lambda: project.outputs(1),
        lambda: project.outputs(2),
        lambda: project.lineage(2),
        lambda: project.record(example, session="s", version=1),
        lambda: project.recall(1, 2, source="y"),
        lambda: project.set_checkpoints("t", [("2", None, node_id("aaaa"), "", 1)]),
    ]


def answered(project: Project) -> list[str]:
    """Ask everything; return what was refused.  Only errors of CHEX may come."""
    refused = []
    for ask in asked(project):
        try:
            ask()
        except ChexError as error:
            refused.append(str(error))
    project.close()
    return refused


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[Project]:
    """Yield a project with something in every table, in memory: it is written a thousand times."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tmp_path
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield filled(Project.at(folder))


def filled(project: Project) -> Project:
    audit = CellAudit(inputs=(Input(kind="file", name="./x", digests=("ab",)),))
    version = project.new_version("a", session="s", parameters=(("k", "v"),))
    first = record(project, cell("aaaa"), version=version, outputs=(stream("a" * 70_000),))
    record(
        project,
        cell("bbbb", "aaaa", count=2, audit=audit),
        version=version,
        outputs=(stream("b"),),
    )
    again = project.new_version("b", session="s")
    project.recall(again, first, source="# again")
    project.set_checkpoints("s", [("1", "mine", node_id("aaaa"), "", 5)])
    project.close()
    return project


def test_a_whole_catalog_answers_everything(whole: Project) -> None:
    assert answered(whole) == ["no version 'nope'. Known: a, b."]


TABLES = ("source", "lineage", "output", "node", "execution", "version", "step", "checkpoint")
WRONG = ("'words'", "x'ff'", "9e999", "NULL")


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES)
def test_wrong_values_in_any_column_are_told(whole: Project, table: str) -> None:
    saved = whole.path.read_bytes()
    with closing(sqlite3.connect(whole.path)) as connection:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    tried = 0
    for column in columns:
        for value in WRONG:
            whole.path.write_bytes(saved)
            update = f"UPDATE OR IGNORE {table} SET {column} = {value}"  # noqa: S608
            with closing(sqlite3.connect(whole.path, isolation_level=None)) as connection:
                try:
                    is_changed = connection.execute(update).rowcount > 0
                except sqlite3.IntegrityError:  # SQLite itself would not have it
                    is_changed = False
            if is_changed:
                tried += 1
                answered(whole)
    assert tried > len(columns)


@pytest.mark.slow
def test_flipped_bytes_are_survived(whole: Project) -> None:
    saved = whole.path.read_bytes()
    rng = random.Random(1)
    refused = 0
    for _ in range(100):
        data = bytearray(saved)
        for _ in range(rng.choice([1, 3, 20])):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        whole.path.write_bytes(data)
        refused += any("damaged" in line for line in answered(whole))
    assert refused > 20


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("UPDATE step SET execution = 99 WHERE version = 1 AND number = 2", "version a@1 is dam"),
        ("DELETE FROM execution WHERE id = 2", "version a@1 is damaged"),
        ("DELETE FROM node WHERE id LIKE 'bbbb%'", "version a@1 is damaged in the catalog: no n"),
        ("UPDATE version SET parameters = '[[1]]'", "version a@1 is damaged"),
        ("UPDATE version SET parameters = '" + "[" * 9999 + "'", "version a@1 is damaged"),
        ("UPDATE node SET cost = 'x' WHERE id LIKE 'bbbb%'", "node bbbb0+ is damaged"),
        ("UPDATE node SET source = 77 WHERE id LIKE 'bbbb%'", "node bbbb0+ is damaged"),
        ("DROP TABLE step", "damaged, or is not a catalog"),
        ("DROP VIEW run", None),
    ],
)
def test_what_is_damaged_is_named(whole: Project, change: str, message: str | None) -> None:
    with closing(sqlite3.connect(whole.path, isolation_level=None)) as connection:
        connection.execute(change)
    if message is None:
        with pytest.raises(CatalogError, match="damaged, or is not a catalog"):
            whole.nodes()
        assert len(whole.tree()) == 2
    else:
        with pytest.raises(CatalogError, match=message):
            whole.tree()


def test_a_schema_that_cannot_be_is_refused(whole: Project) -> None:
    with closing(sqlite3.connect(whole.path)) as connection:
        connection.execute("PRAGMA user_version = -3")
    with pytest.raises(CatalogError, match="damaged"):
        whole.tree()
