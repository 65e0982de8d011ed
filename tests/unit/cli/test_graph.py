"""``chex graph`` on a real ledger and a real store."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from chexpoint.cli import main
from chexpoint.cli.completion import bash_script, verbs_of
from chexpoint.cli.graph_answers import parse_age
from chexpoint.cli.main import build_parser
from chexpoint.errors import InvalidValue
from chexpoint.graph import Ledger, LoadRates, find_artifact, outlook, prospect
from chexpoint.model import ArtifactId, ModelScore, RecordedOperation, StoredArtifact
from chexpoint.store import Store
from tests.unit.view.graphs import FOREST, LOCK, LOGIT, RAW, TRAIN, small_graph

KEY = bytes.fromhex("ab" * 32)
DAY_S = 24 * 3600.0


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a project; every test works on a copy of it."""
    made = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CHEX_STORE_KEY", KEY.hex())
        fill(made / ".chex" / "graph.sqlite", made / ".chex" / "store", 40 * DAY_S)
    return made


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working folder: a project with a graph of which two artifacts are in its store."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("CHEX_STORE_KEY", KEY.hex())
    for name in ("CHEX_GRAPH", "CHEX_GRAPH_STORE", "CHEX_GRAPH_BUDGET"):
        monkeypatch.delenv(name, raising=False)
    shutil.copytree(made / ".chex", tmp_path / ".chex")
    return tmp_path


def fill(ledger: Path, store: Path, age_s: float) -> None:
    """Write the graph and what it stores, as if some time ago."""
    ledger.parent.mkdir(exist_ok=True, mode=0o700)
    graph = small_graph()
    when = time.time() - age_s
    with Ledger.open(ledger, key=KEY, clock=lambda: when) as opened, Store.open(store) as images:
        opened.register("somebody", "elsewhere")
        for ident, made in graph.made_by().items():
            artifacts = tuple(
                replace(graph.artifacts[each], stored=None, frequency=1) for each in made
            )
            scores = tuple(
                ModelScore(
                    name=each.group.names[0], value=graph.artifacts[each.id].score or 0, how=""
                )
                for each in artifacts
                if graph.artifacts[each.id].score is not None
            )
            operation = replace(graph.operations[ident], writes=tuple(made), frequency=1)
            run = RecordedOperation(
                operation=operation, artifacts=artifacts, lineage={}, scores=scores
            )
            assert opened.merge(run) == []
        x = np.random.default_rng(0).integers(0, 2**60, 2**16)
        for number, each in enumerate((TRAIN, FOREST)):
            x[0] = number
            info = images.put(f"artifact-{each}", {}, streams={"s": b"x"}, arrays={"x": x.data})
            stored = StoredArtifact(image=info.name, stored_bytes=info.stored_bytes, load_s=0.1)
            assert opened.set_stored(each, stored)


def stored(folder: Path) -> set[ArtifactId]:
    """Return which artifacts the ledger says are stored."""
    with Ledger.open(folder / ".chex" / "graph.sqlite", key=KEY) as ledger:
        return {key for key, each in ledger.graph().artifacts.items() if each.stored is not None}


def images(folder: Path) -> list[str]:
    with Store.open(folder / ".chex" / "store") as store:
        return [each.name for each in store.images()]


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return what ``chex graph`` prints."""
    assert main(["graph", *words]) == 0
    return capsys.readouterr().out


# ---------------------------------------------------------------- looking


@pytest.mark.usefixtures("folder")
def test_the_whole_is_a_short_table(capsys: pytest.CaptureFixture[str]) -> None:
    told = answer(capsys)
    assert "operations:  6 in 6 runs" in told
    assert "artifacts:   7: 2 in the store" in told
    assert "of 4.0 GB, 0% taken" in told
    # Stored are train and clf: only the cells of logit, y and raw, which is not needed, are left.
    assert "time saved:  31.8 s of 35.0 s that computing all again takes" in told


@pytest.mark.usefixtures("folder")
def test_lists_are_by_time_saved_and_by_score(capsys: pytest.CaptureFixture[str]) -> None:
    first = answer(capsys, "top").split("\n")[1].split()
    assert first[:2] == ["dddddddd", "clf"]
    models = json.loads(answer(capsys, "best", "--json"))["models"]
    assert [each["group"]["names"] for each in models] == [["clf"], ["logit"]]
    assert models[0]["score"] == 0.91
    assert "logit" in answer(capsys, "best", "--kind", "LogisticRegression", "--on", "train")
    assert "clf" in answer(capsys, "best", "--column", "city")
    assert answer(capsys, "best", "--column", "income") == "no such model is known\n"
    assert "clf" in answer(capsys, "warm", "--on", "train", "--kind", "RandomForestClassifier")
    none = answer(capsys, "warm", "--on", "train", "--kind", "LogisticRegression")
    assert none == "no stored model of this class was trained on this data\n"


@pytest.mark.usefixtures("folder")
def test_one_artifact_and_what_leads_to_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert "contents:        stored" in answer(capsys, "show", "clf")
    assert json.loads(answer(capsys, "show", "dddd", "--json"))["id"] == FOREST
    lines = answer(capsys, "--for", "logit").split("\n")
    assert lines[0] == "logit in about 3.1 s, 11.9 s less than without the graph"
    assert [line.split()[0] for line in lines[1:-1]] == ["load", "run", "run"]
    plan = json.loads(answer(capsys, "--for", "logit", "--json"))["plan"]
    assert plan["load"] == [TRAIN]
    assert plan["run"] == ["fit2", "label"]


@pytest.mark.usefixtures("folder")
def test_pictures_and_pages_are_drawn_and_drawn_again(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        told = answer(capsys, "--svg", "g.svg", "--html", "g.html")
        assert told == "drew g.svg\ndrew g.html\n"
    ElementTree.parse("g.svg")  # noqa: S314 - our own file
    assert "By time saved" in Path("g.html").read_text(encoding="utf-8")
    picture = answer(capsys, "show", "logit", "--svg")
    ElementTree.fromstring(picture)  # noqa: S314 - our own text
    assert "would be loaded" in picture
    Path("mine.svg").write_text("<svg>mine</svg>", encoding="utf-8")
    assert main(["graph", "--svg", "mine.svg"]) == 2
    assert "is not a picture of chex graph" in capsys.readouterr().err


# ---------------------------------------------------------------- letting go


def test_what_nobody_uses_goes_rows_first_and_is_freed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = answer(capsys, "gc", "--dry-run")
    assert told.startswith("would let go of the contents of 2 artifacts")
    assert len(images(folder)) == 2
    assert "0 artifacts" in answer(capsys, "gc", "--older-than", "50d")
    assert "0 artifacts" in answer(capsys, "gc", "--budget", "1G")
    data = json.loads(answer(capsys, "gc", "--json"))
    assert set(data["artifacts"]) == {TRAIN, FOREST}
    assert data["images"] == 2
    assert data["freed_bytes"] > 2**19
    assert images(folder) == []
    assert stored(folder) == set()
    assert "clf" in answer(capsys, "best")  # what is known stays


def test_what_another_project_uses_stays(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Ledger.open(folder / ".chex" / "graph.sqlite", key=KEY) as ledger:
        ledger.register("other", "/elsewhere")
        ledger.used([TRAIN])
    answer(capsys, "gc")
    assert stored(folder) == {TRAIN}
    assert images(folder) == [f"artifact-{TRAIN}"]


def test_states_of_the_store_that_are_no_artifacts_stay(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store.open(folder / ".chex" / "store") as store:
        store.put("state", {}, streams={"s": b"state"}, arrays={})
    answer(capsys, "gc")
    assert images(folder) == ["state"]


def test_an_artifact_is_forgotten(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "forget", "clf").startswith("let go of the contents of 1 artifact")
    assert stored(folder) == {TRAIN}
    assert images(folder) == [f"artifact-{TRAIN}"]
    assert main(["graph", "forget", "clf"]) == 2
    assert "'clf' is not stored" in capsys.readouterr().err


def test_a_fetched_model_can_be_read_with_the_key_that_comes_with_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("warm", "--on", f"{TRAIN},d0", "--kind", "RandomForestClassifier")
    data = json.loads(answer(capsys, *words, "--fetch", str(folder / ".chex" / "fetched")))
    assert data["model"]["score"] == 0.91
    model = data["fetched"]
    with (
        Store.open(model["store"], key=bytes.fromhex(model["key"]), create=False) as store,
        store.read(model["image"]) as image,
    ):
        assert image.stream("s") == b"x"
    assert main(["graph", *words, "--fetch", model["store"]]) == 2
    assert "exists: name a new folder" in capsys.readouterr().err
    with Store.open(folder / ".chex" / "store") as store:
        store.forget(f"artifact-{FOREST}")
    data = json.loads(answer(capsys, *words, "--fetch", str(folder / ".chex" / "again")))
    assert data["model"] is None
    assert not (folder / ".chex" / "again").exists()
    assert stored(folder) == {TRAIN}  # what is missing is not looked for again


# ---------------------------------------------------------------- what is wrong


@pytest.fixture(params=["", "CHEX_GRAPH"])
def nowhere(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    monkeypatch.delenv("CHEX_GRAPH", raising=False)
    if request.param:
        monkeypatch.setenv("CHEX_GRAPH", str(tmp_path / "none.sqlite"))
    (tmp_path / ".chex").mkdir()
    yield tmp_path
    assert list((tmp_path / ".chex").iterdir()) == []
    assert not (tmp_path / "none.sqlite").exists()


def test_where_there_is_none_it_is_said_and_none_is_made(
    nowhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["graph", "--project", str(nowhere)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "no experiment graph in" in error


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["show"], "which one?"),
        (["show", "nobody"], "no variable or artifact 'nobody'. Known:"),
        (["show", "trian"], "Did you mean train or raw?"),
        (["show", "clf", "logit"], "one artifact"),
        (["top", "clf"], "chex graph top takes no 'clf'"),
        (["top", "--column", "x"], "--column is for chex graph best"),
        (["--older-than", "3d"], "--older-than is for chex graph gc"),
        (["gc", "--older-than", "long"], "'long' is not a time. Write for example 30d"),
        (["gc", "--budget", "much"], "'much' is not a size"),
        (["forget", "raw"], "'raw' is not stored"),
        (["warm", "--on", "train"], "give the training data with --on and the class with --kind"),
        (["--svg", "--json"], "cannot both go to standard output"),
    ],
)
def test_mistakes_are_told_in_one_line(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["graph", *words]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert why in error


def test_a_graph_that_is_off_or_damaged_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / ".chex" / "graph.sqlite").write_bytes(b"no database, and longer than a header" * 9)
    assert main(["graph"]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    monkeypatch.setenv("CHEX_GRAPH", "off")
    assert main(["graph"]) == 2
    assert "CHEX_GRAPH turns it off" in capsys.readouterr().err


def test_times() -> None:
    assert parse_age("30d") == 30 * DAY_S
    assert parse_age("12h") == DAY_S / 2
    for text in ("d", "-1d", "nand", "infd", ""):
        with pytest.raises(InvalidValue):
            parse_age(text)


def test_the_tab_key_completes_the_questions() -> None:
    script = bash_script(verbs_of(build_parser()))
    case = script.split("        graph)")[1].split("esac")[0]
    assert "best forget gc show top warm" in case
    assert "--older-than" in case


# ---------------------------------------------------------------- by numbers


def test_what_would_be_done_is_the_cheapest() -> None:
    graph, rates = small_graph(), LoadRates()
    found = prospect(graph, LOGIT, rates)
    assert found.run == {"fit2"}
    assert graph.artifacts[TRAIN].id in found.load
    assert found.compute_s == pytest.approx(15.01)
    assert found.needed == {"load", "clean", "label", "fit2"}
    assert prospect(graph, RAW, rates).run == {"load"}
    ahead = outlook(graph, rates)
    assert ahead.compute_s == pytest.approx(35.011)
    assert ahead.now_s <= ahead.compute_s
    assert ahead.best_s <= ahead.now_s
    assert ahead.saved_s <= ahead.possible_s
    assert outlook(type(graph)(), rates).possible_s == 0


def test_a_variable_comes_before_an_artifact_and_the_newest_before_others() -> None:
    graph = small_graph()
    assert find_artifact(graph, "lock").id == LOCK
    old = replace(graph.artifacts[LOCK], id=ArtifactId("9" * 32), operation=graph.in_order()[0])
    graph.artifacts[old.id] = old
    assert find_artifact(graph, "lock").id == LOCK
    assert find_artifact(graph, "9999").id == old.id
    with pytest.raises(InvalidValue, match="no variable"):
        find_artifact(graph, "999")
    graph.artifacts[ArtifactId("9999" + "0" * 28)] = old
    with pytest.raises(InvalidValue, match="several artifacts"):
        find_artifact(graph, "9999")
