"""What is recorded in a project is found again, under every name it has."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from chexpoint.errors import CatalogError, InvalidValue
from chexpoint.project import Project
from chexpoint.project.schema import APPLICATION, SCHEMA
from tests.unit.project.examples import FULL, cell, record


def test_a_recorded_cell_comes_back_as_it_was(tmp_path: Path) -> None:
    lineage = cell("abcd", source="x = '\udc80 \\ud800'", audit=FULL, status="error")
    record(Project.at(tmp_path), lineage, "s")
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
        record(project, cell("abcd"), "s")
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
    record(project, cell("aaaa", count=1, seconds=1.0), "s")
    record(project, cell("bbbb", count=2), "s")
    record(project, cell("aaaa", count=3, seconds=2.0, number=1), "s")
    assert [node.execution_count for node in project.nodes()] == [2, 3]
    assert project.node("1").seconds == 1.0
    assert project.node("3").seconds == 2.0
    assert project.node("aaaa").seconds == 2.0
    with sqlite3.connect(project.path) as connection:
        runs = connection.execute("SELECT id, runs FROM node ORDER BY id").fetchall()
    connection.close()
    assert [(ident[:4], count) for ident, count in runs] == [("aaaa", 2), ("bbbb", 1)]


def test_find_walks_up(tmp_path: Path) -> None:
    record(Project.at(tmp_path), cell("abcd"), "s")
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
    record(made, cell("abcd01", count=1, number=1), "old")
    record(made, cell("abcd02", "abcd01", count=2), "old")
    record(made, cell("1234", count=1), "new")
    record(made, cell("ffff", "1234", count=2), "new")
    record(made, cell("eeee", "ffff", count=3), "new")
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
    record(project, cell("1234", count=9, number=1), "new")
    record(project, cell("ffff", "1234", count=1, number=2), "another")
    path = project.path_to(project.node("[3]", session="new"))
    assert [node.execution_count for node in path] == [1, 2, 3]


def test_a_path_begins_where_the_record_does(tmp_path: Path) -> None:
    project = Project.at(tmp_path)
    record(project, cell("bbbb", "aaaa", count=2), "s")
    record(project, cell("cccc", "bbbb", count=3), "s")
    assert [node.execution_count for node in project.path_to(project.node())] == [2, 3]
    unrecorded = cell("dddd", "cccc", count=4)
    assert [node.execution_count for node in project.path_to(unrecorded)] == [2, 3, 4]


def test_a_circle_ends(tmp_path: Path) -> None:
    project = Project.at(tmp_path)
    record(project, cell("aaaa", "bbbb", count=1), "s")
    record(project, cell("bbbb", "aaaa", count=2), "s")
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
        record(project, cell("abcd"), "s")
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
        record(project, cell("abcd"), "s")
    assert project.path.read_bytes() == before


@pytest.mark.parametrize("part", [0.01, 0.3, 0.6, 0.95])
def test_a_truncated_catalog_is_refused(tmp_path: Path, part: float) -> None:
    project = Project.at(tmp_path)
    for number in range(1, 30):
        record(project, cell(f"{number:04x}", count=number, source="x" * 2000), "s")
    project.close()
    os.truncate(project.path, int(project.path.stat().st_size * part))
    with pytest.raises(CatalogError, match="damaged"):
        project.nodes()
    with pytest.raises(CatalogError, match="damaged"):
        record(project, cell("abcd"), "s")


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    project = Project.at(tmp_path)
    record(project, cell("abcd"), "s")
    connection = sqlite3.connect(project.path)
    connection.execute(f"PRAGMA user_version = {SCHEMA + 1}")
    connection.close()
    with pytest.raises(CatalogError, match=r"newer version of CHEX .* Update chexpoint"):
        project.nodes()
    with pytest.raises(CatalogError, match="newer version of CHEX"):
        record(project, cell("dcba"), "s")


def test_a_damaged_node_is_named(tmp_path: Path) -> None:
    project = Project.at(tmp_path)
    record(project, cell("abcd"), "s")
    with sqlite3.connect(project.path) as connection:
        connection.execute("UPDATE lineage SET text = '{}'")
    connection.close()
    with pytest.raises(CatalogError, match=r"node abcd0+ is damaged"):
        project.node("abcd")


def test_an_empty_file_is_an_empty_catalog(tmp_path: Path) -> None:
    project = Project.at(tmp_path)
    project.path.parent.mkdir()
    project.path.touch()
    assert project.nodes() == ()
    record(project, cell("abcd"), "s")
    assert len(project.nodes()) == 1
    connection = sqlite3.connect(project.path)
    assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA,)
    assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION,)
    connection.close()


def test_a_file_where_the_folder_should_be_is_explained(tmp_path: Path) -> None:
    (tmp_path / ".chex").touch()
    with pytest.raises(CatalogError, match="cannot be used"):
        record(Project.at(tmp_path), cell("abcd"), "s")


AS_NOBODY = """
import os, sys
from chexpoint.errors import CatalogError
from chexpoint.model import CellRecord
from chexpoint.project import Project
project, lineage = Project.at(sys.argv[1]), Project.at(sys.argv[1]).node()
if os.geteuid() == 0:
    os.setgroups([])
    os.setuid(65534)
print(len(project.nodes()))
try:
    project.record(CellRecord(lineage=lineage), session="s")
except CatalogError as error:
    print(error)
print(len(project.nodes()))
"""


@pytest.mark.slow
@pytest.mark.parametrize("is_held", [False, True], ids=["closed", "held open by another process"])
def test_a_folder_without_write_permission_can_be_read(open_folder: Path, is_held: bool) -> None:
    project = Project.at(open_folder)
    record(project, cell("abcd"), "s")
    holder = sqlite3.connect(project.path)
    if is_held:
        holder.execute("SELECT * FROM node").fetchall()
        record(project, cell("dcba", count=2), "s")
    else:
        project.close()
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
