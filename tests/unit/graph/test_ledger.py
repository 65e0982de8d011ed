"""The ledger keeps what runs tell, in a file and on a server, and trusts nobody."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chexpoint.errors import GraphError, InvalidValue
from chexpoint.graph.contents import checked_key, is_marked, mark_of
from chexpoint.graph.ledger import Ledger
from chexpoint.graph.ledger_merging import averaged
from chexpoint.graph.ledger_rows import BadRow, artifact_of, artifact_row
from chexpoint.graph.ledger_tables import METADATA, SCHEMA
from chexpoint.graph.ledger_values import DIFFERED, READ_DIFFERED
from chexpoint.graph.ledger_writing import LOADS_KEPT
from chexpoint.model import (
    Artifact,
    ArtifactId,
    ModelScore,
    OperationId,
    StoredArtifact,
)
from tests.support.ledgers import KEY, artifact, read, run
from tests.support.postgres import PostgresServer, postgres_server

OTHER_KEY = bytes(32)
ODD = "naïve \0 \ud800 'quoted' 🐍\n"


class Clock:
    """A clock that stands until it is set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return where a ledger may be."""
    if request.param == "sqlite":
        return str(tmp_path / "graph" / "graph.sqlite")
    return str(request.getfixturevalue("server").new_place())


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(place: str, clock: Clock) -> Iterator[Ledger]:
    with Ledger.open(place, key=KEY, clock=clock) as opened:
        yield opened


def execute(place: str, statement: str, **values: Any) -> None:
    """Do what a hostile neighbour does."""
    url = f"sqlite:///{place}" if place.startswith("/") else place.replace(":", "+psycopg:", 1)
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        assert connection.execute(sa.text(statement), values).rowcount
    engine.dispose()


def ids(*names: str) -> list[ArtifactId]:
    return [ArtifactId(name) for name in names]


def one(ledger: Ledger, name: str) -> Artifact:
    return ledger.artifacts(ids(name))[ArtifactId(name)]


def doubt(ledger: Ledger, name: str) -> str:
    return ledger.graph().operations[OperationId(name)].doubt


# ------------------------------------------------------------ merging


def test_a_run_comes_back_as_it_was(ledger: Ledger) -> None:
    made = artifact(
        "a",
        names=("df", ODD),
        kinds=("pandas.DataFrame", "list"),
        size_bytes=2**40,
        parts=(("p", 10), ("q", 2**40)),
        reaches=("helper",),
        meta={"df": {"columns": [["é", "float64"]], "rows": 3}},
        why_not=ODD,
    )
    model = ModelScore(name="df", value=0.5, how="chexpoint.score")
    facts: dict[str, Any] = {"source": ODD, "user": "ann", "deleted": ("old",), "sticky": ODD}
    given_run = run(
        "op", [made], scores=[model], output=ODD, reads=(read("x", "r", "dx"),), **facts
    )
    assert ledger.merge(given_run) == []
    kept = ledger.recorded(OperationId("op"))
    stored = replace(made, operation=OperationId("op"), score=0.5, used=100.0)
    assert kept == replace(given_run, artifacts=(stored,))
    assert ledger.graph().operations == {"op": given_run.operation}
    assert ledger.graph().artifacts == {"a": stored}
    assert ledger.recorded(OperationId("other")) is None
    assert ledger.problems() == []


def test_the_same_operation_is_counted_and_shows_its_newest_run(ledger: Ledger) -> None:
    ledger.merge(run("op", [artifact("a")], output="first", seconds=1.0, time=100.0))
    ledger.merge(run("op", [artifact("a")], output="second", seconds=2.0, time=300.0, user="bob"))
    ledger.merge(run("op", [artifact("a")], output="late", seconds=3.0, time=200.0))
    kept = ledger.recorded(OperationId("op"))
    assert kept is not None
    assert kept.operation.frequency == kept.artifacts[0].frequency == 3
    assert kept.operation.seconds == pytest.approx(2.0)
    assert (kept.operation.time, kept.operation.user) == (300.0, "bob")
    assert kept.outputs[0]["text"] == "second"
    assert kept.artifacts[0].used == 300.0
    assert kept.operation.doubt == ""


def test_the_average_follows_a_machine_that_got_faster() -> None:
    seconds = 100.0
    for runs in range(1, 60):
        seconds = averaged(seconds, runs, 1.0)
    assert seconds == pytest.approx(1.0, abs=0.5)


def test_two_runs_of_different_contents_put_the_operation_in_doubt_for_ever(
    ledger: Ledger,
) -> None:
    ledger.merge(run("op", [artifact("a", contents="eA==", digest="d1"), artifact("b")]))
    assert ledger.contents(ids("a")) == {"a": "eA=="}
    ledger.merge(run("op", [artifact("a", contents="eQ==", digest="d2"), artifact("b")]))
    for _ in range(2):
        assert doubt(ledger, "op") == DIFFERED
        assert one(ledger, "a").stored is None
        assert one(ledger, "a").group.digest == ""
        assert one(ledger, "b").group.digest == "d"
        assert ledger.contents(ids("a")) == {}
        assert not ledger.set_stored(ArtifactId("a"), StoredArtifact(image="image"))
        ledger.merge(run("op", [artifact("a", contents="eA==", digest="d1"), artifact("b")]))


def test_contents_that_were_not_looked_at_are_no_difference(ledger: Ledger) -> None:
    for digest in ("d1", "", "d1"):
        ledger.merge(run("op", [artifact("a", digest=digest, parts=((digest, 1),))]))
        assert one(ledger, "a").group.digest == "d1"
        assert one(ledger, "a").group.parts == (("d1", 1),)
    assert doubt(ledger, "op") == ""


def test_reading_different_contents_under_one_name_is_a_doubt(ledger: Ledger) -> None:
    ledger.merge(run("op", [artifact("a")], reads=(read("x", "r", ""),)))
    ledger.merge(run("op", [artifact("a")], reads=(read("x", "r", "d1"),)))
    (known,) = ledger.operations_like("code", "packages")
    assert known.reads == (read("x", "r", "d1"),)
    assert known.doubt == ""
    ledger.merge(run("op", [artifact("a")], reads=(read("x", "r", "d2"),)))
    assert doubt(ledger, "op") == READ_DIFFERED


RUNS = st.lists(
    st.tuples(
        st.sampled_from(["p", "q"]),
        st.lists(
            st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(["", "1", "2"])),
            unique_by=lambda each: each[0],
            max_size=2,
        ),
        st.sampled_from(["", "r1", "r2"]),
        st.sampled_from(["", "a hint", "another hint"]),
        st.sampled_from([None, 0.25, 0.5]),
    ),
    max_size=6,
)
_numbers = itertools.count()


@given(RUNS, st.randoms(use_true_random=False))
@settings(
    deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_the_order_of_runs_does_not_matter(ledger: Ledger, runs: list[Any], random: Any) -> None:
    """The graph is the same in the end: all of it but the mean of the seconds is compared."""

    def merged(order: list[int]) -> list[Any]:
        number = next(_numbers)
        for index in order:
            name, writes, digest, doubts, score = runs[index]
            ledger.merge(
                run(
                    f"{number}-{name}",
                    [artifact(f"{number}-{name}-{a}", digest=d) for a, d in writes],
                    reads=(read("x", "r", digest),),
                    time=float(index),
                    doubt=doubts,
                    scores=[ModelScore(name="x", value=score, how="")] if score and writes else (),
                )
            )
        graph = ledger.graph()
        prefix = f"{number}-"
        operations = [replace(each, seconds=0.0) for each in graph.operations.values()]
        found = {str(each.id): repr(each) for each in operations}
        found |= {str(each.id): repr(each) for each in graph.artifacts.values()}
        return sorted(
            text.replace(prefix, "") for key, text in found.items() if key.startswith(prefix)
        )

    order = list(range(len(runs)))
    first = merged(order)
    random.shuffle(order)
    assert merged(order) == first


# ------------------------------------------------------------ scores


def test_the_best_score_is_kept_also_of_a_model_of_an_earlier_cell(ledger: Ledger) -> None:
    ledger.merge(run("train", [artifact("m", names=("model",))]))
    for value, best in ((0.5, 0.5), (0.4, 0.5), (0.75, 0.75)):
        told = ModelScore(name="model", value=value, how=".score")
        ledger.merge(run("test", [artifact("s")], reads=(read("model", "m"),), scores=[told]))
        assert one(ledger, "m").score == best
        assert one(ledger, "s").score is None
    assert ledger.set_score(ArtifactId("m"), 0.9) == []
    assert one(ledger, "m").score == 0.9
    assert "not in the graph" in ledger.set_score(ArtifactId("unknown"), 0.9)[0]


def test_what_is_no_score_is_refused_with_a_sentence(ledger: Ledger) -> None:
    wrong: list[Any] = [float("nan"), float("inf"), True, "0.5", None]
    for value in wrong:
        told = ModelScore(name="x", value=value, how="chexpoint.score")
        (said,) = ledger.merge(run("op", [artifact("a")], scores=[told]))
        assert said == f"the score {value!r} of 'x' is not kept, because it is not a finite number."
        assert "finite" in ledger.set_score(ArtifactId("a"), value)[0]
        assert one(ledger, "a").score is None
        kept = ledger.recorded(OperationId("op"))
        assert kept is not None
        assert kept.scores == ()


def test_a_score_of_an_unknown_variable_is_told(ledger: Ledger) -> None:
    told = ModelScore(name="nobody", value=1.0, how="")
    assert "'nobody'" in ledger.merge(run("op", [artifact("a")], scores=[told]))[0]


# ------------------------------------------------------------ contents and trust


def test_contents_with_a_wrong_mark_are_absent(ledger: Ledger, place: str) -> None:
    for name in "abc":
        ledger.merge(run(f"op {name}", [artifact(name, contents=f"{name}A==")]))
    assert one(ledger, "a").stored == StoredArtifact(image="", stored_bytes=4)
    execute(place, "UPDATE chex_contents SET data = 'evil' WHERE artifact = 'a'")
    swap = "UPDATE chex_contents SET data = :data, mark = :mark WHERE artifact = 'b'"
    execute(place, swap, data="cA==", mark=mark_of(KEY, "contents c", b"cA=="))
    assert ledger.contents(ids("a", "b", "c", "unknown")) == {"c": "cA=="}
    (problem,) = ledger.problems()
    assert "another key" in problem
    with Ledger.open(place, key=OTHER_KEY) as other:
        assert other.contents(ids("c")) == {}
        assert other.recorded(OperationId("op c")) is None
        assert len(other.problems()) == 2
    # Who runs it again puts it right.
    ledger.merge(run("op a", [artifact("a", contents="aA==")]))
    assert ledger.contents(ids("a")) == {"a": "aA=="}


def test_a_mark_says_what_it_is_on() -> None:
    mark = mark_of(KEY, "contents a", b"data")
    assert is_marked(KEY, "contents a", b"data", mark)
    for key, what, data, wrong in [
        (OTHER_KEY, "contents a", b"data", mark),
        (KEY, "contents", b" adata", mark),
        (KEY, "record a", b"data", mark),
        (KEY, "contents a", b"Data", mark),
        (KEY, "contents a", b"data", mark.upper()),
        (KEY, "contents a", b"data", "\ud800"),
        (KEY, "contents a", b"data", None),
    ]:
        assert not is_marked(key, what, data, wrong)
    for size in (0, 15, 65):
        with pytest.raises(InvalidValue, match="16 to 64 bytes"):
            checked_key(bytes(size))


BAD_DOCUMENTS = ["", "{", "null", "[]", "{}", "1" * 5000, "[" * 100_000, '{"names": "x"}']


def test_rows_of_nonsense_are_unknown_until_somebody_runs_the_cell_again(
    ledger: Ledger, place: str
) -> None:
    for name in "ab":
        ledger.merge(run(name, [artifact(f"{name}1")], output="good"))
    good = ledger.graph()
    for number, document in enumerate(BAD_DOCUMENTS):
        execute(place, "UPDATE chex_operation SET document = :d WHERE id = 'a'", d=document)
        execute(place, "UPDATE chex_artifact SET document = :d WHERE id = 'a1'", d=document)
        assert ledger.graph().operations == {"b": good.operations[OperationId("b")]}
        assert ledger.graph().artifacts == {"b1": good.artifacts[ArtifactId("b1")]}
        assert [each.id for each in ledger.operations_like("code", "packages")] == ["b"]
        assert ledger.artifacts(ids("a1")) == {}
        assert ledger.recorded(OperationId("a")) is None
        assert len(ledger.problems()) == 2
        ledger.merge(run("a", [artifact("a1")], output="good"))
        again = ledger.recorded(OperationId("a"))
        assert again is not None
        assert again.operation.frequency == number + 2


@pytest.mark.parametrize(
    "change",
    [
        {"names": []},
        {"names": ["x", "y"]},
        {"names": "x"},
        {"kinds": [1]},
        {"parts": [1]},
        {"digest": 1},
        {"meta": {"x": 1}},
        {"size_bytes": "1"},
        {"surprise": 1},
    ],
    ids=repr,
)
def test_a_group_must_be_a_group(change: dict[str, Any]) -> None:
    row = artifact_row(artifact("a"))
    assert artifact_of(row) == artifact("a")
    document = json.loads(row["document"]) | change
    with pytest.raises(BadRow, match="the artifact 'a'"):
        artifact_of(row | {"document": json.dumps(document)})


def test_a_record_that_was_changed_is_not_believed(ledger: Ledger, place: str) -> None:
    ledger.merge(run("op", [artifact("a")], output="good"))
    execute(place, "UPDATE chex_record SET data = :d", d=b"evil")
    assert ledger.recorded(OperationId("op")) is None
    assert "another key" in ledger.problems()[0]


def test_numbers_of_the_wrong_type_do_no_harm(tmp_path: Path) -> None:
    """SQLite takes text where a number should be."""
    place = str(tmp_path / "graph.sqlite")
    with Ledger.open(place, key=KEY) as ledger:
        ledger.merge(run("op", [artifact("a", contents="eA==")]))
        execute(place, "UPDATE chex_operation SET frequency='x', seconds='x', time='x'")
        change = "UPDATE chex_artifact SET frequency='x', score='x', used='x', stored_bytes='x'"
        execute(place, change)
        execute(place, "UPDATE chex_use SET time='x'")
        ledger.graph()
        ledger.used(ids("a"))
        ledger.set_score(ArtifactId("a"), 0.5)
        assert ledger.merge(run("op", [artifact("a")])) == []
        ledger.gc(older_than_s=0)
        assert ledger.recorded(OperationId("op")) is not None


def test_what_is_no_json_is_refused_in_one_line(ledger: Ledger) -> None:
    with pytest.raises(GraphError, match="cannot be written to the graph") as caught:
        ledger.merge(run("op", [artifact("a", meta={"x": {"y": object()}})]))
    assert "\n" not in str(caught.value)
    assert ledger.graph().operations == {}


# ------------------------------------------------------------ looking up


def test_operations_of_the_same_code_come_newest_first(ledger: Ledger) -> None:
    for number in range(5):
        ledger.merge(run(f"op{number}", time=float(number), reads=(read("x", f"r{number}"),)))
    ledger.merge(run("other code", code="else"))
    ledger.merge(run("other packages", packages="else"))
    found = ledger.operations_like("code", "packages", limit=3)
    assert [each.id for each in found] == ["op4", "op3", "op2"]
    assert found[0].reads == (read("x", "r4"),)


def test_many_artifacts_at_once(ledger: Ledger) -> None:
    names = [f"a{number:04}" for number in range(700)]
    ledger.merge(run("op", [artifact(name, contents="eA==") for name in names]))
    assert set(ledger.artifacts(ids(*names, "unknown", ""))) == set(names)
    assert len(ledger.contents(ids(*names))) == 700
    ledger.used(ids(*names))
    assert len(ledger.drop_stored(ids(*names)).artifacts) == 700
    assert ledger.contents(ids(*names)) == {}
    assert ledger.artifacts([]) == {}


def test_the_newest_loads_of_each_kind_are_kept(ledger: Ledger) -> None:
    ledger.note_load("s3", "DataFrame", 5, 0.5)
    for number in range(LOADS_KEPT + 5):
        ledger.note_load("file", "DataFrame", number, 0.25)
    loads = ledger.loads()
    assert [each.size_bytes for each in loads if each.backend == "s3"] == [5]
    sizes = [each.size_bytes for each in loads if each.backend == "file"]
    assert sizes == list(range(5, LOADS_KEPT + 5))
    with pytest.raises(InvalidValue):
        ledger.note_load("file", "DataFrame", 1, float("nan"))


# ------------------------------------------------------------ what is stored


def store(ledger: Ledger, name: str, image: str, size: int = 10) -> None:
    ledger.merge(run(f"op {name}", [artifact(name)]))
    assert ledger.set_stored(
        ArtifactId(name), StoredArtifact(image=image, stored_bytes=size, load_s=0.5)
    )


def test_an_image_goes_when_its_last_artifact_does(ledger: Ledger) -> None:
    for name, image in (("a", "one"), ("b", "one"), ("c", "two")):
        store(ledger, name, image)
    assert ledger.images() == {"one", "two"}
    assert one(ledger, "a").stored == StoredArtifact(image="one", stored_bytes=10, load_s=0.5)
    first = ledger.drop_stored(ids("a", "unknown"))
    assert (first.artifacts, first.images, first.stored_bytes) == (("a",), (), 10)
    assert ledger.drop_stored(ids("a")).artifacts == ()
    assert ledger.drop_stored(ids("b", "c")).images == ("one", "two")
    assert one(ledger, "a").stored is None
    assert ledger.images() == set()


def test_who_misses_an_image_does_not_drop_what_was_stored_anew(ledger: Ledger) -> None:
    store(ledger, "a", "old")
    store(ledger, "a", "new")
    assert ledger.drop_stored(ids("a"), image="old").artifacts == ()
    assert ledger.drop_stored(ids("a"), image="new").artifacts == ("a",)


def test_contents_that_move_to_an_image_are_in_the_ledger_no_more(ledger: Ledger) -> None:
    ledger.merge(run("op", [artifact("a", contents="eA==")]))
    assert ledger.set_stored(ArtifactId("a"), StoredArtifact(image="image"))
    assert ledger.contents(ids("a")) == {}
    ledger.merge(run("op", [artifact("a", contents="eA==")]))
    assert one(ledger, "a").stored == StoredArtifact(image="image")
    assert not ledger.set_stored(ArtifactId("unknown"), StoredArtifact(image="image"))


def test_gc_takes_what_nobody_used_for_long_and_keeps_what_is_known(
    ledger: Ledger, clock: Clock
) -> None:
    for name in "abc":
        store(ledger, name, f"image {name}")
    ledger.merge(run("op d", [artifact("d", contents="eA==")]))
    clock.now += 100
    ledger.used(ids("b", "unknown"))
    assert one(ledger, "b").used == clock.now
    before = ledger.graph()
    gone = ledger.gc(older_than_s=50)
    assert gone.artifacts == ("a", "c", "d")
    assert gone.images == ("image a", "image c")
    assert gone.stored_bytes == 24
    after = ledger.graph()
    assert after.operations == before.operations
    unstored = {key: replace(each, stored=None) for key, each in before.artifacts.items()}
    assert after.artifacts == unstored | {"b": before.artifacts[ArtifactId("b")]}
    assert ledger.contents(ids("d")) == {}
    assert ledger.gc(older_than_s=50).artifacts == ()


def test_gc_with_a_budget_takes_the_longest_unused_first(ledger: Ledger, clock: Clock) -> None:
    for name in "cab":
        clock.now += 1
        store(ledger, name, f"image {name}")
    assert ledger.gc(older_than_s=0.5, budget_bytes=30).artifacts == ()
    assert ledger.gc(older_than_s=0.5, budget_bytes=29).artifacts == ("c",)
    # The newest is too young, whatever the budget.
    assert ledger.gc(older_than_s=0.5, budget_bytes=0).artifacts == ("a",)


def test_gc_of_one_project_does_not_take_what_another_uses(
    ledger: Ledger, place: str, clock: Clock
) -> None:
    ledger.register("mine", "/home/ann/mine")
    store(ledger, "a", "image a")
    store(ledger, "b", "image b")
    with Ledger.open(place, key=KEY, clock=clock) as other:
        other.register("theirs", Path("/home/bob/theirs"))
        clock.now += 100
        other.used(ids("b"))
        assert [(each.id, each.artifacts) for each in ledger.projects()] == [
            ("mine", 2),
            ("theirs", 1),
        ]
        assert ledger.gc(older_than_s=50).artifacts == ("a",)
        # A project that is no more keeps nothing.
        ledger.unregister("theirs")
        assert [each.id for each in ledger.projects()] == ["mine"]
        assert ledger.gc(older_than_s=50).artifacts == ("b",)
    with pytest.raises(InvalidValue):
        ledger.register("", "/")


# ------------------------------------------------------------ opening


def test_what_was_written_is_there_the_next_time(place: str) -> None:
    with Ledger.open(place, key=KEY) as ledger:
        ledger.merge(run("op", [artifact("a")]))
    with Ledger.open(place, key=KEY) as ledger:
        assert set(ledger.graph().artifacts) == {"a"}
    # It opens itself again after it was closed.
    assert set(ledger.graph().artifacts) == {"a"}
    ledger.close()


def test_a_newer_ledger_is_not_touched(place: str) -> None:
    Ledger.open(place, key=KEY).close()
    for schema, sentence in ((str(SCHEMA + 1), "newer version"), ("x", "damaged"), ("0", "damag")):
        execute(place, "UPDATE chex_ledger SET value = :v", v=schema)
        with pytest.raises(GraphError, match=sentence) as caught:
            Ledger.open(place, key=KEY)
        assert "\n" not in str(caught.value)


def test_the_tables_are_those_of_the_schema() -> None:
    """Who changes a table counts the schema up, and says how older ledgers get there."""
    told = [
        (
            table.name,
            [(c.name, type(c.type).__name__, c.nullable, c.primary_key) for c in table.columns],
            sorted((str(i.name), [c.name for c in i.columns]) for i in table.indexes),
        )
        for table in METADATA.sorted_tables
    ]
    digest = hashlib.blake2b(repr(told).encode(), digest_size=8).hexdigest()
    assert (SCHEMA, digest) == (1, "ce7b0046b7fcbaa4")


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.sqlite"
    connection = sqlite3.connect(foreign)
    connection.execute("CREATE TABLE t (x)")
    connection.close()
    text = tmp_path / "notes.txt"
    text.write_text("not a database " * 100)
    for path in (foreign, text):
        before = path.read_bytes()
        with pytest.raises(GraphError, match="not a graph of CHEX") as caught:
            Ledger.open(path, key=KEY)
        assert "\n" not in str(caught.value)
        assert path.read_bytes() == before
    with pytest.raises(GraphError):
        Ledger.open(tmp_path, key=KEY)
    with pytest.raises(GraphError):
        Ledger.open(text / "graph.sqlite", key=KEY)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["foreign.sqlite", "notes.txt"]


def test_an_empty_file_becomes_a_ledger(tmp_path: Path) -> None:
    path = tmp_path / "graph.sqlite"
    path.touch()
    with Ledger.open(f"sqlite:///{path}", key=KEY) as ledger:
        ledger.merge(run("op"))
    with Ledger.open(path, key=KEY) as ledger:
        assert set(ledger.graph().operations) == {"op"}


def test_nobody_else_can_read_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / "graph.sqlite"
    with Ledger.open(path, key=KEY) as ledger:
        ledger.merge(run("op"))
        assert {each.stat().st_mode & 0o777 for each in tmp_path.iterdir()} == {0o600}


@pytest.mark.parametrize(
    "where",
    [
        "",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:////x?mode=ro",
        "mysql://u:secret@h/d",
        "postgresql://u:secret@h:port/d",
        "://",
    ],
)
def test_what_is_no_place_for_a_ledger_is_told(where: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        Ledger.open(where, key=KEY)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_server_that_is_not_there_is_told_without_the_password(tmp_path: Path) -> None:
    url = f"postgresql://ann:secret@/graph?host={tmp_path}"
    with pytest.raises(GraphError, match="cannot be reached") as caught:
        Ledger.open(url, key=KEY)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_importing_the_ledger_is_cheap() -> None:
    code = (
        "import sys, chexpoint.graph.ledger\n"
        "assert not {'sqlalchemy', 'psycopg', 'sqlite3'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ------------------------------------------------------------ threads and forks


def test_threads_share_a_ledger(ledger: Ledger) -> None:
    failures: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for _ in range(10):
                ledger.merge(run("shared", [artifact("a")]))
                ledger.merge(run(name, [artifact(f"a {name}")]))
                ledger.graph()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(f"t{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    counts = {key: each.frequency for key, each in ledger.graph().operations.items()}
    assert counts == {"shared": 40, "t0": 10, "t1": 10, "t2": 10, "t3": 10}


def test_a_fork_opens_connections_of_its_own(ledger: Ledger) -> None:
    ledger.merge(run("op"))
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            ledger.merge(run("op"))
            ledger.close()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    ledger.merge(run("op"))
    assert ledger.graph().operations[OperationId("op")].frequency == 3
