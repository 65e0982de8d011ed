"""What is recorded in a project is found again, under every name it has."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from chexpoint.errors import CatalogError, InvalidValue
from chexpoint.model import CellAudit, CellLineage, Effect, Event, Hint, Input, NodeId
from chexpoint.project import Project
from chexpoint.project.catalog import APPLICATION, SCHEMA


def cell(node: str, parent: str = "00", count: int = 1, **fields: object) -> CellLineage:
    """Return a cell whose node begins with the given digits."""
    values = {
        "node": NodeId(node.ljust(32, "0")),
        "parent": NodeId(parent.ljust(32, "0")),
        "code": "c0de",
        "strict": "57",
        "number": count,
        "execution_count": count,
        "source": f"print({count})",
        "audit": CellAudit(),
        "seconds": 0.5,
        "size_bytes": 1000,
    }
    return CellLineage(**{**values, **fields})  # type: ignore[arg-type]


FULL = CellAudit(
    inputs=(
        Input(kind="file", name="./caf\udce9.csv", digests=("ab12", "absent")),
        Input(kind="variable", name="HOME", digests=("ff",)),
    ),
    effects=(Effect(path="./日本\n\udcff", kind="written", digest="dd", size_bytes=7),),
    hints=(Hint(kind="time", what="reads the clock", line=2),),
    events=(Event(process="0.1", op="read", name="./caf\udce9.csv", digest="ab12"),),
    gaps=("a process could not be seen",),
    mechanism="audit hook",
    environment_reads=12,
    interrupts=3,
)


def test_a_recorded_cell_comes_back_as_it_was(tmp_path: Path) -> None:
    lineage = cell("abcd", source="x = '\udc80 \\ud800'", audit=FULL, status="error")
    Project.at(tmp_path).record(lineage, "s")
    assert Project.at(tmp_path).nodes() == (lineage,)


def test_nothing_is_made_before_something_is_recorded(tmp_path: Path) -> None:
    project = Project.at(tmp_path)
    assert project.nodes() == ()
    assert project.path_to(cell("abcd")) == (cell("abcd"),)
    with pytest.raises(InvalidValue, match="nothing is recorded"):
        project.node("abcd")
    assert list(tmp_path.iterdir()) == []


def test_folder_and_files_are_private(tmp_path: Path) -> None:
    previous = os.umask(0)
    try:
        project = Project.at(tmp_path)
        project.record(cell("abcd"), "s")
        connection = sqlite3.connect(project.path)
        connection.execute("SELECT * FROM node").fetchall()
        files = sorted(path.name for path in project.path.parent.iterdir())
        modes = {stat.S_IMODE(path.stat().st_mode) for path in project.path.parent.iterdir()}
        connection.close()
    finally:
        os.umask(previous)
    assert files == ["catalog.sqlite", "catalog.sqlite-shm", "catalog.sqlite-wal"]
    assert modes == {0o600}
    assert stat.S_IMODE(project.path.parent.stat().st_mode) == 0o700


def test_a_node_that_runs_again_is_one_node_with_two_runs(tmp_path: Path) -> None:
    project = Project.at(tmp_path)
    project.record(cell("aaaa", count=1, seconds=1.0), "s")
    project.record(cell("bbbb", count=2), "s")
    project.record(cell("aaaa", count=3, seconds=2.0, number=1), "s")
    assert [node.execution_count for node in project.nodes()] == [2, 3]
    assert project.node("1").seconds == 1.0
    assert project.node("3").seconds == 2.0
    assert project.node("aaaa").seconds == 2.0
    with sqlite3.connect(project.path) as connection:
        runs = connection.execute("SELECT id, runs FROM node ORDER BY id").fetchall()
    connection.close()
    assert [(ident[:4], count) for ident, count in runs] == [("aaaa", 2), ("bbbb", 1)]


def test_find_walks_up(tmp_path: Path) -> None:
    Project.at(tmp_path).record(cell("abcd"), "s")
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert Project.find(below).folder == tmp_path
    assert Project.find(tmp_path / ".chex").folder == tmp_path


def test_find_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match=r"no \.chex folder in .* or above: run a notebook"):
        Project.find(tmp_path)


# ------------------------------------------------------------ names of nodes


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Return a project with two sessions; the newest has cells 1 to 3."""
    made = Project.at(tmp_path)
    made.record(cell("abcd01", count=1, number=1), "old")
    made.record(cell("abcd02", "abcd01", count=2), "old")
    made.record(cell("1234", count=1), "new")
    made.record(cell("ffff", "1234", count=2), "new")
    made.record(cell("eeee", "ffff", count=3), "new")
    return made


@pytest.mark.parametrize(
    ("ref", "node"),
    [
        (None, "eeee"),
        ("3", "eeee"),
        ("[2]", "ffff"),
        (" [2] ", "ffff"),
        ("FFFF", "ffff"),
        ("1234", "1234"),
        ("abcd02", "abcd02"),
        ("1234".ljust(32, "0"), "1234"),
    ],
)
def test_a_node_has_several_names(project: Project, ref: str | None, node: str) -> None:
    assert project.node(ref).node.rstrip("0") == node


def test_cells_of_another_session_are_counted_on_request(project: Project) -> None:
    assert project.node("2", session="old").node.startswith("abcd02")
    assert project.node(session="old").node.startswith("abcd02")
    assert project.node(session="unheard of").node.startswith("eeee")


@pytest.mark.parametrize(
    ("ref", "message"),
    [
        ("abc", "'abc' is too short: give at least 4 digits"),
        ("abcd", r"'abcd' may mean several nodes: abcd01000000, abcd02000000\. Give more digits"),
        ("abce01", r"no node 'abce01'\. Did you mean abcd0"),
        ("9999", r"no node '9999'\. Known: .*eeee"),
        ("clean", r"no node 'clean'\. Known: "),
        ("7", r"no cell \[7\]\. Known: \[1\], \[2\], \[3\]\."),
        ("[1234]", r"no cell \[1234\]"),
        ("", "no node ''"),
        ("9" * 40, "no node"),
        ("*", r"no node '\*'"),
    ],
)
def test_a_wrong_name_says_what_is_known(project: Project, ref: str, message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        project.node(ref)


def test_a_path_leads_from_the_root(project: Project) -> None:
    path = project.path_to(project.node("3"))
    assert [node.node[:4] for node in path] == ["1234", "ffff", "eeee"]


def test_a_path_keeps_to_the_session_and_to_what_came_before(project: Project) -> None:
    project.record(cell("1234", count=9, number=1), "new")
    project.record(cell("ffff", "1234", count=1, number=2), "another")
    path = project.path_to(project.node("[3]", session="new"))
    assert [node.execution_count for node in path] == [1, 2, 3]


def test_a_path_begins_where_the_record_does(tmp_path: Path) -> None:
    project = Project.at(tmp_path)
    project.record(cell("bbbb", "aaaa", count=2), "s")
    project.record(cell("cccc", "bbbb", count=3), "s")
    assert [node.execution_count for node in project.path_to(project.node())] == [2, 3]
    unrecorded = cell("dddd", "cccc", count=4)
    assert [node.execution_count for node in project.path_to(unrecorded)] == [2, 3, 4]


def test_a_circle_ends(tmp_path: Path) -> None:
    project = Project.at(tmp_path)
    project.record(cell("aaaa", "bbbb", count=1), "s")
    project.record(cell("bbbb", "aaaa", count=2), "s")
    assert len(project.path_to(project.node())) == 2


# ------------------------------------------------------------ trouble


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    project = Project.at(tmp_path)
    project.path.parent.mkdir()
    project.path.write_bytes(b"my shopping list, which is long enough to be a page " * 100)
    before = project.path.read_bytes()
    with pytest.raises(CatalogError, match="damaged, or is not a catalog"):
        project.nodes()
    with pytest.raises(CatalogError, match="damaged, or is not a catalog"):
        project.record(cell("abcd"), "s")
    assert project.path.read_bytes() == before


def test_a_database_of_someone_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    project = Project.at(tmp_path)
    project.path.parent.mkdir()
    connection = sqlite3.connect(project.path)
    connection.execute("CREATE TABLE mine (x)")
    connection.close()
    before = project.path.read_bytes()
    with pytest.raises(CatalogError, match="not a catalog of CHEX"):
        project.nodes()
    with pytest.raises(CatalogError, match="not a catalog of CHEX"):
        project.record(cell("abcd"), "s")
    assert project.path.read_bytes() == before


@pytest.mark.parametrize("part", [0.01, 0.3, 0.6, 0.95])
def test_a_truncated_catalog_is_refused(tmp_path: Path, part: float) -> None:
    project = Project.at(tmp_path)
    for number in range(1, 30):
        project.record(cell(f"{number:04x}", count=number, source="x" * 2000), "s")
    os.truncate(project.path, int(project.path.stat().st_size * part))
    with pytest.raises(CatalogError, match="damaged"):
        project.nodes()
    with pytest.raises(CatalogError, match="damaged"):
        project.record(cell("abcd"), "s")


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    project = Project.at(tmp_path)
    project.record(cell("abcd"), "s")
    connection = sqlite3.connect(project.path)
    connection.execute(f"PRAGMA user_version = {SCHEMA + 1}")
    connection.close()
    with pytest.raises(CatalogError, match=r"newer version of CHEX .* Update chexpoint"):
        project.nodes()
    with pytest.raises(CatalogError, match="newer version of CHEX"):
        project.record(cell("dcba"), "s")


def test_a_damaged_node_is_named(tmp_path: Path) -> None:
    project = Project.at(tmp_path)
    project.record(cell("abcd"), "s")
    with sqlite3.connect(project.path) as connection:
        connection.execute("UPDATE node SET lineage = '{}'")
    connection.close()
    with pytest.raises(CatalogError, match=r"node abcd0+ is damaged"):
        project.node("abcd")


def test_an_empty_file_is_an_empty_catalog(tmp_path: Path) -> None:
    project = Project.at(tmp_path)
    project.path.parent.mkdir()
    project.path.touch()
    assert project.nodes() == ()
    project.record(cell("abcd"), "s")
    assert len(project.nodes()) == 1
    connection = sqlite3.connect(project.path)
    assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA,)
    assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION,)
    connection.close()


def test_a_file_where_the_folder_should_be_is_explained(tmp_path: Path) -> None:
    (tmp_path / ".chex").touch()
    with pytest.raises(CatalogError, match="cannot be used"):
        Project.at(tmp_path).record(cell("abcd"), "s")


AS_NOBODY = """
import os, sys
from chexpoint.errors import CatalogError
from chexpoint.project import Project
project, lineage = Project.at(sys.argv[1]), Project.at(sys.argv[1]).node()
if os.geteuid() == 0:
    os.setgroups([])
    os.setuid(65534)
print(len(project.nodes()))
try:
    project.record(lineage, "s")
except CatalogError as error:
    print(error)
print(len(project.nodes()))
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Yield a folder that every user of the machine can reach."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.slow
@pytest.mark.parametrize("is_held", [False, True], ids=["closed", "held open by another process"])
def test_a_folder_without_write_permission_can_be_read(open_folder: Path, is_held: bool) -> None:
    project = Project.at(open_folder)
    project.record(cell("abcd"), "s")
    holder = sqlite3.connect(project.path)
    if is_held:
        holder.execute("SELECT * FROM node").fetchall()
        project.record(cell("dcba", count=2), "s")
    folder = project.path.parent
    for path in folder.iterdir():
        path.chmod(0o444)
    folder.chmod(0o555)
    try:
        result = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, str(open_folder)],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    finally:
        folder.chmod(0o755)
        holder.close()
    first, refused, again = result.stdout.splitlines()
    assert first == again == ("2" if is_held else "1")
    assert "Check its permissions" in refused


# ------------------------------------------------------------ several processes

WRITER = """
import sys
from dataclasses import replace
from chexpoint.project import Project
folder, session, count = sys.argv[1:]
project = Project.at(folder)
example = Project.at(folder + "/example").node()
print("ready", flush=True)
sys.stdin.readline()
number = 0
while number < int(count):
    number += 1
    node = f"{session}{number:031x}"
    project.record(replace(example, node=node, execution_count=number), session)
    print(number, flush=True)
"""


def writer(folder: Path, session: str, count: int) -> subprocess.Popen[str]:
    """Start a process that records cells once it is told to."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), session, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.fixture
def shared(tmp_path: Path) -> Project:
    """Return an empty project, for which writers find an example of a cell."""
    Project.at(tmp_path / "example").record(cell("abcd", audit=FULL, source="x" * 5000), "s")
    return Project.at(tmp_path)


@pytest.mark.slow
def test_two_processes_write_at_once_from_the_first_moment(shared: Project) -> None:
    writers = [writer(shared.folder, session, 100) for session in "ab"]
    for process in writers:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in writers:
        process.communicate(timeout=120)
        assert process.returncode == 0
    counts = {session: set[int]() for session in "ab"}
    for node in shared.nodes():
        counts[node.node[0]].add(node.execution_count)
    assert counts == {"a": set(range(1, 101)), "b": set(range(1, 101))}


@pytest.mark.slow
@pytest.mark.parametrize("last", [1, 2, 3, 7, 20])
def test_a_killed_writer_loses_nothing_it_had_finished(shared: Project, last: int) -> None:
    process = writer(shared.folder, "a", 10**6)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    while int(process.stdout.readline()) < last:
        pass
    process.kill()
    process.communicate(timeout=60)
    counts = [node.execution_count for node in shared.nodes()]
    assert counts == list(range(1, len(counts) + 1))
    assert len(counts) >= last
    shared.record(replace(cell("ffff"), execution_count=len(counts) + 1), "b")
    assert len(shared.nodes()) == len(counts) + 1
    connection = sqlite3.connect(shared.path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


CREATOR = """
import os, sqlite3, sys
from chexpoint.project import Project
from chexpoint.project import catalog
folder, steps = sys.argv[1], int(sys.argv[2])
example = Project.at(folder + "/example").node()

real = sqlite3.connect
class Dying(sqlite3.Connection):
    def execute(self, *args):
        global steps
        steps -= 1
        if steps < 0:
            os.kill(os.getpid(), 9)
        return super().execute(*args)
catalog.sqlite3.connect = lambda *args, **kw: real(*args, factory=Dying, **kw)
Project.at(folder).record(example, "s")
"""


@pytest.mark.slow
def test_a_kill_at_any_statement_of_the_first_record_leaves_a_catalog(shared: Project) -> None:
    for steps in range(100):
        code = subprocess.run(
            [sys.executable, "-c", CREATOR, str(shared.folder), str(steps)], check=False, timeout=60
        ).returncode
        assert len(shared.nodes()) == (1 if code == 0 else 0)
        if code == 0:
            break
        assert code == -9
    assert steps > 10
    shared.record(cell("ffff", count=2), "s")
    assert len(shared.nodes()) == 2
