"""``chex demo`` runs the studies that can run, judges what it sees, and fails when it should."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from chexpoint.cli import main
from chexpoint.cli.demo import (
    QUICK_STUDY,
    QUICK_VERSIONS,
    STUDIES,
    Outcome,
    Study,
    demo_json,
    lacking_line,
    summary_lines,
)
from chexpoint.model import ReplayStatus
from tests.support.replays import Sample, build

# ---------------------------------------------------------------- what came of it


def outcome(status: ReplayStatus = "same", *, is_recorded: bool = True) -> Outcome:
    """Return what came of two versions that share a cell; the last cell of one has a status."""
    replay = build(
        {
            "load": Sample(source="load()", seconds=1.0),
            "fit": Sample(source="fit()", after="load", seconds=1.0),
            "tune": Sample(source="tune()", after="load", seconds=1.0, status=status),
        },
        {"v1": "fit", "v2": "tune"},
    )
    return Outcome(
        study="tiny",
        recorded_seconds=4.0,
        is_recorded=is_recorded,
        replay=replace(replay, seconds=3.0),
    )


def test_the_summary_has_a_line_for_each_study() -> None:
    lines = summary_lines([outcome(), outcome("different"), outcome(is_recorded=False)])
    assert " ".join(lines[1].split()) == "tiny 2 4.0 s 3.0 s 25 % 3 of 4 reproduced"
    assert lines[2].endswith("not reproduced")
    assert lines[3].endswith("a cell failed")
    assert len({line.index("tiny") for line in lines[1:]}) == 1


@pytest.mark.parametrize(
    ("found", "is_good"),
    [
        (outcome(), True),
        (outcome("close"), True),
        (outcome("different"), False),
        (outcome("failed"), False),
        (outcome(is_recorded=False), False),
    ],
)
def test_only_what_was_recorded_and_is_reproduced_is_good(found: Outcome, is_good: bool) -> None:
    data = demo_json([outcome(), found], {})
    assert data["reproduced"] is is_good
    assert [study["reproduced"] for study in data["studies"]] == [True, is_good]


def test_json_tells_the_saving_and_what_is_lacking() -> None:
    data = demo_json([outcome()], {"other": ("scipy",)})
    assert json.loads(json.dumps(data)) == data
    (study,) = data["studies"]
    assert (study["study"], study["one_by_one_seconds"], study["saved"]) == ("tiny", 4.0, 0.25)
    assert (study["replay"]["computed_cells"], study["replay"]["cells_in_versions"]) == (3, 4)
    assert data["lacking"] == {"other": ["scipy"]}


# ---------------------------------------------------------------- studies


def test_bundled_studies_lack_nothing_here() -> None:
    studies = [Study.bundled(name) for name in STUDIES]
    assert [study.lacks() for study in studies] == [()] * len(studies)
    assert (
        Study.bundled(QUICK_STUDY, most=QUICK_VERSIONS).versions
        == studies[STUDIES.index(QUICK_STUDY)].versions[:QUICK_VERSIONS]
    )


Bundle = Callable[..., Path]


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bundle:
    """Return what makes a study out of sources: a version for each, with one cell."""
    monkeypatch.setattr("chexpoint.cli.demo.bundled", lambda _: tmp_path / "notebooks")

    def make(study: str, *sources: str) -> Path:
        folder = tmp_path / "notebooks" / study
        folder.mkdir(parents=True)
        for number, source in enumerate(sources, start=1):
            cell: dict[str, object] = {
                "cell_type": "code",
                "id": "only",
                "source": source,
                "metadata": {},
                "outputs": [],
                "execution_count": None,
            }
            content = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]}
            (folder / f"v{number}_x.ipynb").write_text(json.dumps(content), encoding="utf-8")
        return folder

    return make


def test_a_copy_has_the_data_and_not_what_runs_have_left(bundle: Bundle, tmp_path: Path) -> None:
    folder = bundle("epidemic", "x = 1")
    for name in ("data.json", "results_x.csv", ".hidden"):
        (folder / name).touch()
    (folder / ".chex").mkdir()
    (folder / "data.json").chmod(0o444)
    copy = tmp_path / "copy"
    Study.bundled("epidemic").copy_to(copy)
    assert {path.name for path in copy.iterdir()} == {"v1_x.ipynb", "data.json"}
    assert (copy / "data.json").stat().st_mode & 0o200


def test_modules_that_are_not_installed_are_found_in_the_code(bundle: Bundle) -> None:
    bundle("digits", "import json\nfrom no_such.module import x", "def f():\n    import other")
    assert Study.bundled("digits").lacks() == ("no_such",)
    bundle("relief", "%env A=1\nimport not_there")
    lacking = {name: Study.bundled(name).lacks() for name in ("digits", "relief")}
    assert lacking_line(lacking) == (
        "digits and relief cannot run without no_such and not_there: pip install 'chexpoint[demo]'"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["digit"], "no study 'digit'. Did you mean digits?"),
        (["digits"], "digits cannot run without no_such: pip install 'chexpoint[demo]'"),
        (["epidemic", "digits"], "digits cannot run without no_such"),
    ],
)
def test_a_study_that_cannot_run_is_one_line(
    bundle: Bundle, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle("digits", "import no_such")
    bundle("epidemic", "x = 1")
    assert main(["demo", *words]) != 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"chex: {said}")
    assert captured.err.count("\n") == 1


def test_nothing_that_is_there_is_replaced(
    bundle: Bundle, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle("epidemic", "x = 1")
    (tmp_path / "out" / "epidemic").mkdir(parents=True)
    assert main(["demo", "epidemic", "--keep", str(tmp_path / "out")]) != 0
    assert "epidemic exists: name another folder" in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert main(["demo", "epidemic", "--keep", str(tmp_path / "file" / "out")]) != 0
    assert "cannot make the folder" in capsys.readouterr().err


# ---------------------------------------------------------------- with an engine


@pytest.mark.slow
def test_studies_that_can_run_do_and_the_others_are_named(
    bundle: Bundle, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle("digits", "import no_such")
    bundle("epidemic", "x = 1; print(x)", "x = 2; print(x)")
    bundle("relief", "import no_such")
    assert main(["demo"]) == 0
    captured = capsys.readouterr()
    assert captured.err == (
        "chex: digits and relief cannot run without no_such: pip install 'chexpoint[demo]'\n"
    )
    assert "○    fresh interpreter\n" in captured.out
    assert "v2_x  same" in captured.out
    last = captured.out.splitlines()[-1]
    assert last.startswith("epidemic")
    assert last.endswith("2 of 2  reproduced")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "verdict"),
    [("import os\nprint(os.urandom(8))", "not reproduced"), ("1 / 0", "a cell failed")],
)
def test_what_is_not_reproduced_fails_the_demo(
    bundle: Bundle, source: str, verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle("epidemic", "x = 1", source)
    assert main(["demo", "--quick"]) == 1
    assert capsys.readouterr().out.splitlines()[-1].endswith(f"  {verdict}")
