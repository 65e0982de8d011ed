"""Writers that are killed, that come in each other's way, and that run out of disk."""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from chexpoint.project import Project

pytestmark = pytest.mark.slow

GOLDEN_1 = Path(__file__).parents[1] / "golden" / "catalog-1.sqlite"

# What all processes below begin with: a cell that can be told by its session and number, whose
# every third output is too large for the catalog.
EXAMPLES = """
import os, sys
from chexpoint.errors import CatalogError
from chexpoint.model import CellAudit, CellLineage, CellRecord
from chexpoint.project import Project

def node(session, number):
    return f"{session}{number:031x}" if number else "0" * 32

def printed(session, number):
    size = 70_000 if number % 3 == 0 else 10
    text = f"{session}{number} " * size
    return ({"output_type": "stream", "name": "stdout", "text": text[:size]},)

def cell(session, number):
    lineage = CellLineage(
        node=node(session, number), parent=node(session, number - 1), code="c0de", strict="57",
        number=number, execution_count=number, source=f"# {session} {number}", audit=CellAudit(),
        seconds=0.5, size_bytes=1000)
    return CellRecord(lineage=lineage, outputs=printed(session, number), cell_id=str(number))
"""


def check(project: Project, reported: dict[str, int]) -> None:
    """Check that all that was reported is there, and nothing is half there."""
    versions = {version.name: version for version in project.versions()}
    assert len(project.tree()) == sum(len(version.path) for version in versions.values())
    for session, count in reported.items():
        assert len(versions[session].path) >= count
    for session, version in versions.items():
        cells = project.cells(version)
        assert project.way_to(session) == cells
        for number, cell in enumerate(cells, 1):
            assert (cell.source, cell.cell_id) == (f"# {session} {number}", str(number))
            (output,) = project.outputs(cell.execution)
            assert output["text"].startswith(f"{session}{number} "[:10])
            assert project.lineage(cell.execution).execution_count == number
    check_files(project)


def check_files(project: Project) -> None:
    """Check the catalog as SQLite sees it, and that each file that it refers to is there."""
    with closing(sqlite3.connect(project.path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        rows = connection.execute("SELECT digest FROM output WHERE text IS NULL").fetchall()
    for (digest,) in rows:
        assert (project.path.parent / "outputs" / digest[:2] / digest).is_file()


# ------------------------------------------------------------ writers side by side

WRITER = (
    EXAMPLES
    + """
folder, session, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
project = Project.at(folder)
print("ready", flush=True)
sys.stdin.readline()
version = project.new_version(session, session=session)
for number in range(1, count + 1):
    project.record(cell(session, number), session=session, version=version)
    print(number, flush=True)
"""
)


def writers(folder: Path, counts: dict[str, int]) -> dict[str, subprocess.Popen[str]]:
    """Start processes that record a version each, all at the same moment."""
    started = {
        session: subprocess.Popen(
            [sys.executable, "-c", WRITER, str(folder), session, str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for session, count in counts.items()
    }
    for process in started.values():
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in started.values():
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return started


def test_two_processes_write_at_once_from_the_first_moment(tmp_path: Path) -> None:
    for process in writers(tmp_path, {"a": 60, "b": 60}).values():
        process.communicate(timeout=120)
        assert process.returncode == 0
    project = Project.at(tmp_path)
    assert {version.name: len(version.path) for version in project.versions()} == {"a": 60, "b": 60}
    check(project, {"a": 60, "b": 60})


@pytest.mark.parametrize(
    "last", [{"a": 1}, {"a": 2, "b": 1}, {"a": 3, "b": 9}, {"a": 13, "b": 4}, {"a": 40, "b": 40}]
)
def test_killed_writers_lose_nothing_they_had_finished(
    tmp_path: Path, last: dict[str, int]
) -> None:
    started = writers(tmp_path, dict.fromkeys(last, 10**6))
    reported = {}
    for session, process in started.items():
        assert process.stdout is not None
        while int(process.stdout.readline()) < last[session]:
            pass
        process.kill()
    for session, process in started.items():
        rest, _ = process.communicate(timeout=60)
        told = [int(line) for line in rest.splitlines(keepends=True) if line.endswith("\n")]
        reported[session] = max(told, default=last[session])
    check(Project.at(tmp_path), reported)
    # The next kernel goes on as if nothing had happened.
    (process,) = writers(tmp_path, {"c": 5}).values()
    process.communicate(timeout=60)
    check(Project.at(tmp_path), {**reported, "c": 5})


# ------------------------------------------------------------ a kill at any point

# One process for all points: each is reached by a fork of it, which kills itself there.
DYING = """
import shutil, signal, sqlite3, traceback
from pathlib import Path

def arm(steps):
    def one():
        nonlocal steps
        steps -= 1
        if steps < 0:
            os.kill(os.getpid(), signal.SIGKILL)
    class Dying(sqlite3.Connection):
        def execute(self, *args):
            one()
            result = super().execute(*args)
            if args[0] == "COMMIT":
                one()
            return result
        def close(self):
            one()
            super().close()
    real = sqlite3.connect
    sqlite3.connect = lambda *args, **kw: real(*args, factory=Dying, **kw)
    def dying(call):
        def wrapped(*args, **kw):
            one()
            return call(*args, **kw)
        return wrapped
    for name in ("open", "fsync", "replace", "mkdir", "close"):
        setattr(os, name, dying(getattr(os, name)))

def every_point(base, prepare, do, check):
    "Kill `do` at its first point, at its second, ... until it gets through; return how many."
    for steps in range(1000):
        folder = Path(base) / str(steps)
        folder.mkdir()
        prepare(folder)
        pid = os.fork()
        if pid == 0:
            try:
                arm(steps)
                do(folder)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert code in (0, -signal.SIGKILL), code
        project = Project.at(folder)
        check(project, code == 0)
        with sqlite3.connect(project.path) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            rows = connection.execute("SELECT digest FROM output WHERE text IS NULL").fetchall()
        connection.close()
        for (digest,) in rows:
            assert (folder / ".chex" / "outputs" / digest[:2] / digest).is_file()
        project.close()
        if code == 0:
            print(steps)
            return
        shutil.rmtree(folder)
"""

FIRST_RECORD = """
def prepare(folder):
    pass

def do(folder):
    project = Project.at(folder)
    version = project.new_version("a", session="a")
    project.record(cell("a", 3), session="a", version=version)  # with large outputs
    project.close()

def check(project, is_through):
    path = project.path
    if not path.exists():
        project.record(cell("b", 1), session="b")
    versions = project.versions()
    assert not is_through or len(versions) == 1
    for version in versions:
        (only,) = project.cells(version)
        assert project.outputs(only.execution) == printed("a", 3)
    # Recording goes on, and the half-written file is in nobody's way.
    version = project.new_version("a", session="b")
    run = project.record(cell("a", 3), session="b", version=version)
    assert project.outputs(run) == printed("a", 3)
    assert len(project.tree()) <= 2
"""

LATER_VERSION = """
def prepare(folder):
    project = Project.at(folder)
    version = project.new_version("a", session="a")
    for number in (1, 2):
        project.record(cell("a", number), session="a", version=version)
    project.close()

def do(folder):
    project = Project.at(folder)
    path = project.cells(project.version("a"))
    version = project.branch("b", path[:1], session="b")
    project.recall(version, path[1].execution, source="# again", cell_id="2")
    project.record(cell("a", 3), session="b", version=version)
    project.set_checkpoints("b", [("1", None, path[0].node, "", 1)])

def check(project, is_through):
    assert [c.source for c in project.way_to("a")] == ["# a 1", "# a 2"]
    versions = project.versions()[1:]
    assert not is_through or len(versions) == 1
    for version in versions:
        cells = project.cells(version)
        assert [c.source for c in cells] == ["# a 1", "# again", "# a 3"][:len(cells)]
        assert not is_through or len(cells) == 3
        assert all(len(project.outputs(c.execution)) == 1 for c in cells)
    assert project.checkpoints() == {}  # its process is dead
"""

MIGRATION = """
golden = sys.argv[2]

def prepare(folder):
    (folder / ".chex").mkdir()
    shutil.copyfile(golden, folder / ".chex" / "catalog.sqlite")

def do(folder):
    assert len(Project.at(folder).tree()) == 10

def check(project, is_through):
    assert len(project.tree()) == 10
    assert len(project.nodes()) == 10
    assert len(project.way_to("dddd")) == 4
    project.record(cell("a", 1), session="a")
    assert len(project.tree()) == 11
"""

KEPT_FILE = """
import xxhash
data = b"contents" * 100_000
digest = xxhash.xxh3_128_hexdigest(data)

def prepare(folder):
    (folder / "data").write_bytes(data)
    project = Project.at(folder)
    project.record(cell("a", 1), session="a")
    project.close()

def do(folder):
    assert Project.at(folder).keep_file(folder / "data", digest)

def check(project, is_through):
    kept = project.kept_file(digest)
    assert kept is not None or not is_through
    assert kept is None or kept.read_bytes() == data
    assert project.keep_file(project.folder / "data", digest)
    assert project.kept_file(digest).read_bytes() == data
"""


@pytest.mark.parametrize(
    ("scenario", "least"),
    [(FIRST_RECORD, 60), (LATER_VERSION, 60), (MIGRATION, 60), (KEPT_FILE, 8)],
    ids=["first record", "later version", "migration", "kept file"],
)
def test_a_kill_at_any_point_leaves_what_was_before_or_what_is_after(
    scenario: str, least: int
) -> None:
    script = EXAMPLES + DYING + scenario + "\nevery_point(sys.argv[1], prepare, do, check)\n"
    # In memory: hundreds of catalogs are made, and a kill is none of the disk's business.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        done = subprocess.run(
            [sys.executable, "-c", script, folder, str(GOLDEN_1)],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) >= least


# ------------------------------------------------------------ no room on the disk

FILLING = (
    EXAMPLES
    + """
folder, has_ballast = sys.argv[1], sys.argv[2] == "ballast"
project = Project.at(folder)
ballast = os.path.join(folder, "ballast")
if has_ballast:
    with open(ballast, "wb") as file:
        file.write(bytes(200_000))
version = project.new_version("a", session="a")
done = 0
while done < 10_000:
    try:
        project.record(cell("a", done + 1), session="a", version=version)
    except CatalogError as error:
        print(error)
        break
    done += 1
print(done)
def whole():
    # In a project of its own, as another process would see it.
    other = Project.at(folder)
    cells = other.cells(other.version("a"))
    assert [c.execution_count for c in cells] == list(range(1, done + 1))
    assert [other.outputs(c.execution) for c in cells] == [printed("a", n + 1) for n in range(done)]
whole()
project.close()
whole()
if has_ballast:
    os.unlink(ballast)
    done += 1
    project.record(cell("a", done), session="a", version=version)
    project.close()
    assert sorted(os.listdir(project.path.parent)) == ["catalog.sqlite", "outputs"]
    try:
        with open(ballast, "wb", buffering=0) as file:
            while True:
                file.write(bytes(512))
    except OSError:
        whole()  # not even the lock file of SQLite fits
print("whole")
"""
)


def fill(folder: Path, *, prefix: Sequence[str] = (), word: str, before: Callable[[], None]) -> str:
    """Record cells until nothing more fits; return why it ended, once all before is found whole."""
    done = subprocess.run(
        [*prefix, sys.executable, "-c", FILLING, str(folder), word],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        preexec_fn=before,
    )
    assert (done.returncode, done.stderr) == (0, "")
    message, count, last = done.stdout.splitlines()
    assert int(count) > 3
    assert last == "whole"
    return message


def small_disk(folder: Path, size: str) -> list[str] | None:
    """Return a command that runs another with a small disk on a folder; None if nobody may."""
    script = 'mount -t tmpfs -o "size=$0" none "$1" && cd "$1" && shift && exec "$@"'
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", script, size, str(folder)]
    if shutil.which("unshare") is None:
        return None
    tried = subprocess.run([*command, "true"], capture_output=True, check=False, timeout=60)
    return command if tried.returncode == 0 else None


@pytest.mark.parametrize("size", ["700k", "1001k", "1400k"])
def test_a_full_disk_is_told_and_all_before_is_whole(tmp_path: Path, size: str) -> None:
    prefix = small_disk(tmp_path, size)
    if prefix is None:
        pytest.skip("a small disk cannot be mounted here")
    message = fill(tmp_path, prefix=prefix, word="ballast", before=lambda: None)
    assert "cannot be written, because the disk is full" in message


@pytest.mark.parametrize("size", [300_000, 500_000])
def test_a_limit_of_the_file_size_is_told_and_all_before_is_whole(
    tmp_path: Path, size: int
) -> None:
    message = fill(
        tmp_path,
        word="none",
        before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
    )
    assert "the disk may be full" in message
