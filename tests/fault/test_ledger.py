"""Whatever happens to the database of a ledger or to its writers: one clear line, or nothing."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from chexpoint.errors import GraphError
from chexpoint.graph.ledger import Ledger
from chexpoint.graph.ledger_postgres import Patience
from chexpoint.model import ArtifactId, OperationId, StoredArtifact
from tests.support.ledgers import KEY, artifact, run
from tests.support.postgres import PostgresServer, postgres_server

ROOT = Path(__file__).parents[2]
SOON = Patience(connect_s=0.1, statement_s=0.2, busy_s=0.1)
A = ArtifactId("a")

METHODS: dict[str, Callable[[Ledger], object]] = {
    "merge": lambda ledger: ledger.merge(run("op", [artifact("a")])),
    "set_score": lambda ledger: ledger.set_score(A, 0.5),
    "set_stored": lambda ledger: ledger.set_stored(A, StoredArtifact(image="i")),
    "drop_stored": lambda ledger: ledger.drop_stored([A]),
    "used": lambda ledger: ledger.used([A]),
    "note_load": lambda ledger: ledger.note_load("file", "int", 1, 0.5),
    "register": lambda ledger: ledger.register("p", "/p"),
    "unregister": lambda ledger: ledger.unregister("p"),
    "gc": lambda ledger: ledger.gc(older_than_s=0),
    "projects": lambda ledger: ledger.projects(),
    "operations_like": lambda ledger: ledger.operations_like("code", "packages"),
    "recorded": lambda ledger: ledger.recorded(OperationId("op")),
    "artifacts": lambda ledger: ledger.artifacts([A]),
    "contents": lambda ledger: ledger.contents([A]),
    "graph": lambda ledger: ledger.graph(),
    "images": lambda ledger: ledger.images(),
    "loads": lambda ledger: ledger.loads(),
}
WRITING = ("merge", "set_score", "used", "note_load", "register", "gc")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return where a ledger may be."""
    if request.param == "sqlite":
        return str(tmp_path / "graph.sqlite")
    return str(request.getfixturevalue("server").new_place())


def fails(ledger: Ledger, name: str, *, match: str | None = None) -> None:
    """Check that a method says in one line why it cannot do what it should."""
    with pytest.raises(GraphError, match=match) as caught:
        METHODS[name](ledger)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("the graph '")


def all_work(ledger: Ledger) -> None:
    for method in METHODS.values():
        method(ledger)


def test_every_method_is_tried() -> None:
    own = {name for name in vars(Ledger) if not name.startswith("_")}
    assert own - {"open", "close", "problems"} == set(METHODS)


# ------------------------------------------------------------ several writers

# One process for all, because imports take longer than what is tested: it forks the writers before
# any of them opens the ledger, and lets them go at once.
WRITERS = """
import json, os, signal, sys, traceback
import chexpoint.graph.ledger_collecting, chexpoint.graph.ledger_database
import chexpoint.graph.ledger_reading, psycopg
from chexpoint.graph.ledger import Ledger
from chexpoint.model import ArtifactId, StoredArtifact
from tests.support.ledgers import KEY, artifact, run

def write(place, who, count, told):
    with Ledger.open(place, key=KEY) as ledger:
        ledger.register(who, "/" + who)
        for number in range(count):
            shared = [artifact("s1", contents="eA=="), artifact("s2"), artifact("s3")]
            # Everybody has another order, and takes what the others are at.
            ledger.merge(run("shared", shared[::-1] if number % 2 else shared))
            own = f"{who} {number}"
            ledger.merge(run(who, [artifact(own, contents="eA==")], time=float(number)))
            ledger.used([ArtifactId(each) for each in ("s3", "s1", own)])
            ledger.set_stored(ArtifactId("s2"), StoredArtifact(image=own))
            ledger.note_load("file", "int", number, 0.5)
            if number % 5 == 0:
                ledger.gc(older_than_s=1000)
                ledger.drop_stored([ArtifactId("s2"), ArtifactId("s1")])
            os.write(told, b".")

place, count, kills = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
gate, opener = os.pipe()
pipes, pids = {}, {}
for who in kills:
    pipes[who], told = os.pipe()
    pids[who] = os.fork()
    if pids[who] == 0:
        code = 1
        try:
            os.close(opener)
            os.read(gate, 1)
            write(place, who, count, told)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(told)
os.close(opener)
done = {}
for who, kill_after in kills.items():
    done[who] = 0
    while data := os.read(pipes[who], 1 if kill_after else 100):
        done[who] += len(data)
        if done[who] == kill_after:
            os.kill(pids[who], signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pids[who], 0)[1])
    assert code == (-signal.SIGKILL if kill_after else 0), (who, code)
print(json.dumps(done))
"""


def python(script: str, *arguments: str) -> str:
    """Run a script with the modules of the tests; return what it prints."""
    made = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        timeout=120,
    )
    return made.stdout


@pytest.mark.slow
def test_eight_writers_lose_nothing_from_the_first_moment(place: str) -> None:
    count, names = 8, [f"w{number}" for number in range(8)]
    python(WRITERS, place, str(count), json.dumps(dict.fromkeys(names, 0)))
    with Ledger.open(place, key=KEY) as ledger:
        graph = ledger.graph()
        counts = {key: each.frequency for key, each in graph.operations.items()}
        assert counts == {"shared": 8 * count, **dict.fromkeys(names, count)}
        for name in ("s1", "s2", "s3"):
            assert graph.artifacts[ArtifactId(name)].frequency == 8 * count
        assert {each.doubt for each in graph.operations.values()} == {""}
        assert len(graph.artifacts) == 3 + 8 * count
        own = [ArtifactId(f"{name} {number}") for name in names for number in range(count)]
        assert len(ledger.contents(own)) == 8 * count
        assert [each.id for each in ledger.projects()] == names
        assert ledger.problems() == []


@pytest.mark.slow
def test_a_killed_writer_leaves_what_it_had_finished(place: str) -> None:
    kills = {"w1": 2, "w2": 5, "w3": 9}
    done = json.loads(python(WRITERS, place, "1000", json.dumps(kills)))
    with Ledger.open(place, key=KEY) as ledger:
        graph = ledger.graph()
        for who, count in done.items():
            # One more may be finished than it could tell.
            operation = graph.operations[OperationId(who)]
            assert operation.frequency - count in (0, 1)
            kept = [each for each in graph.artifacts.values() if each.operation == who]
            assert len(kept) == operation.frequency
            assert len(ledger.contents(each.id for each in kept)) == len(kept)
        shared = graph.operations[OperationId("shared")].frequency
        assert shared == graph.artifacts[ArtifactId("s3")].frequency
        assert shared - sum(done.values()) in range(len(kills) + 1)
        all_work(ledger)
    if place.startswith("/"):
        with contextlib.closing(sqlite3.connect(place)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


# ------------------------------------------------------------ a server that goes away


def test_a_server_that_stops_is_told_and_found_again(server: PostgresServer) -> None:
    with Ledger.open(server.new_place(), key=KEY, patience=SOON) as ledger:
        all_work(ledger)
        server.stop()
        try:
            for name in METHODS:
                fails(ledger, name, match="cannot be reached")
        finally:
            server.start()
        all_work(ledger)
        assert ledger.graph().operations[OperationId("op")].frequency == 2
        # It was away and came back while nobody asked.
        server.stop()
        server.start()
        all_work(ledger)


def test_a_server_that_hangs_is_left(server: PostgresServer) -> None:
    with Ledger.open(server.new_place(), key=KEY, patience=SOON) as ledger:
        all_work(ledger)
        with server.hanging():
            all_work(ledger)  # over a new connection
        with server.hanging(whole=True):
            fails(ledger, "merge", match="cannot be reached")
        all_work(ledger)


def test_a_database_that_others_hold_is_told(server: PostgresServer) -> None:
    url = server.new_place()
    with Ledger.open(url, key=KEY, patience=SOON) as ledger:
        all_work(ledger)
        with psycopg.connect(url) as holder:
            holder.execute("LOCK TABLE chex_operation, chex_artifact, chex_use, chex_load")
            holder.execute("LOCK TABLE chex_project")
            for name in WRITING:
                fails(ledger, name, match="others hold it|too long")
        all_work(ledger)


def test_tables_that_are_gone_are_told(server: PostgresServer) -> None:
    url = server.new_place()
    with Ledger.open(url, key=KEY) as ledger:
        with psycopg.connect(url) as connection:
            connection.execute("DROP TABLE chex_operation")
        fails(ledger, "merge", match="tables are gone")


# ------------------------------------------------------------ a file that goes away


def test_a_file_that_is_deleted_is_told_and_begun_anew(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    with Ledger.open(folder / "graph.sqlite", key=KEY) as ledger:
        all_work(ledger)
        for name in METHODS:
            ledger.graph()
            for path in folder.iterdir():
                path.unlink()
            fails(ledger, name, match="was deleted")
        all_work(ledger)
        assert ledger.graph().operations[OperationId("op")].frequency == 1
        # A folder that is gone may be a disk that is gone.
        shutil.rmtree(folder)
        for name in METHODS:
            fails(ledger, name)
        folder.mkdir()
        all_work(ledger)


def test_a_file_that_is_replaced_is_the_ledger_from_then_on(tmp_path: Path) -> None:
    other = tmp_path / "other.sqlite"
    with Ledger.open(other, key=KEY) as ledger:
        ledger.merge(run("other"))
    path = tmp_path / "graph.sqlite"
    with Ledger.open(path, key=KEY) as ledger:
        ledger.merge(run("op"))
        for name in ("graph.sqlite-wal", "graph.sqlite-shm"):
            (tmp_path / name).unlink()
        other.rename(path)
        ledger.merge(run("op"))
        assert set(ledger.graph().operations) == {"other", "op"}


def test_a_file_that_another_process_holds_is_told(tmp_path: Path) -> None:
    path = tmp_path / "graph.sqlite"
    with Ledger.open(path, key=KEY, patience=SOON) as ledger:
        all_work(ledger)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            for name in WRITING:
                fails(ledger, name, match="held by another process")
            ledger.graph()  # who reads need not wait
            holder.execute("ROLLBACK")
        all_work(ledger)


FULL = """
import resource, signal, sys
from chexpoint.errors import GraphError
from chexpoint.graph.ledger import Ledger
from tests.support.ledgers import KEY, artifact, run

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with Ledger.open(sys.argv[1], key=KEY) as ledger:
    def merge(number):
        ledger.merge(run(f"op{number}", [artifact(f"a{number}", contents="eA==" * 9000)]))
    merge(0)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
    done = 1
    try:
        while True:
            merge(done)
            done += 1
    except GraphError as error:
        assert "disk" in str(error) and "\\n" not in str(error), error
    assert set(ledger.graph().operations) == {f"op{number}" for number in range(done)}
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    merge(done)
    assert len(ledger.contents(ledger.graph().artifacts)) == done + 1
"""


def test_a_full_disk_is_told_and_loses_nothing(tmp_path: Path) -> None:
    python(FULL, str(tmp_path / "graph.sqlite"))


# ------------------------------------------------------------ a damaged file


def damaged(path: Path, how: str, seed: int) -> None:
    data = bytearray(path.read_bytes())
    chosen = random.Random(seed)
    if how == "cut":
        del data[chosen.randrange(1, len(data)) :]
    elif how == "zeros":
        start = 4096 * chosen.randrange(len(data) // 4096)
        data[start : start + 4096] = bytes(4096)
    else:
        for _ in range(200):
            data[chosen.randrange(len(data))] = chosen.randrange(256)
    path.write_bytes(data)


@pytest.mark.parametrize("how", ["cut", "zeros", "noise"])
def test_a_damaged_file_gives_one_line_or_what_is_left(tmp_path: Path, how: str) -> None:
    whole = tmp_path / "whole.sqlite"
    with Ledger.open(whole, key=KEY) as ledger:
        for number in range(30):
            name = f"a{number}"
            ledger.merge(run(f"op{number}", [artifact(name, contents="eA==")], output="x" * 500))
    told: list[Any] = []
    for seed in range(6):
        path = tmp_path / f"{seed}.sqlite"
        shutil.copyfile(whole, path)
        damaged(path, how, seed)
        try:
            with Ledger.open(path, key=KEY) as ledger:
                for method in METHODS.values():
                    try:
                        method(ledger)
                    except GraphError as error:
                        told.append(error)
                told += ledger.problems()
        except GraphError as error:
            told.append(error)
    assert told
    assert not [each for each in told if "\n" in str(each)]


def test_an_image_that_gc_let_go_is_a_miss_for_who_was_about_to_load_it(place: str) -> None:
    """What one has looked up is gone when he comes: the rows say so before the image goes."""
    with Ledger.open(place, key=KEY) as mine, Ledger.open(place, key=KEY) as theirs:
        mine.merge(run("op", [artifact("a"), artifact("b")]))
        for name in "ab":
            assert mine.set_stored(ArtifactId(name), StoredArtifact(image=f"image {name}"))
        assert mine.artifacts([A])[A].stored is not None
        assert theirs.gc(older_than_s=-10).images == ("image a", "image b")
        assert mine.artifacts([A])[A].stored is None
        assert mine.drop_stored([A], image="image a").images == ()
