"""Which settings hold: files, environment variables, defaults, and what is wrong with them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from chexpoint.cli import main
from chexpoint.config import SETTINGS, Config
from chexpoint.engine import settings_from
from chexpoint.errors import InvalidValue
from chexpoint.model import DEFAULT_OVERHEAD
from chexpoint.project.graph_settings import graph_settings

pytestmark = pytest.mark.usefixtures("no_variables")


@pytest.fixture
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("CHEX_"):
            monkeypatch.delenv(name)


def write(folder: Path, text: str, name: str = "chexpoint.toml") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_every_default_has_a_meaning(tmp_path: Path) -> None:
    config = Config.at(tmp_path, {})
    assert config.problems == ()
    for setting in SETTINGS:
        held = config.held(setting.name)
        assert held.source == "default"
        assert bool(setting.default) != bool(setting.unset)
        assert (held.value is None) == (not setting.default)


def test_a_variable_goes_before_the_nearest_file(tmp_path: Path) -> None:
    write(tmp_path, 'budget = "1G"\nauto = "always"\npersist = true\n')
    near = tmp_path / "a" / "b"
    write(tmp_path / "a", '[tool.chexpoint]\nbudget = "2G"\noverhead = 0.03\n', "pyproject.toml")
    near.mkdir()
    config = Config.at(near, {"CHEX_OVERHEAD": "off", "CHEX_AUTO": ""})
    assert config.size("budget") == 2 * 2**30
    assert config.held("budget").source == str(tmp_path / "a" / "pyproject.toml")
    assert config.share("overhead") is None
    assert config.held("overhead").source == "CHEX_OVERHEAD"
    assert config.word("auto") == "rule"  # one file counts, not two
    above = Config.at(tmp_path, {})
    assert (above.word("auto"), above.word("persist")) == ("always", "on")


def test_a_project_without_a_table_is_passed_over(tmp_path: Path) -> None:
    write(tmp_path, 'auto = "never"')
    write(tmp_path / "a", "[tool.other]\nx = 1\n", "pyproject.toml")
    write(tmp_path / "a" / "b", "this is [not TOML", "pyproject.toml")
    assert Config.at(tmp_path / "a" / "b", {}).word("auto") == "never"


def test_the_own_file_goes_before_the_project_beside_it(tmp_path: Path) -> None:
    write(tmp_path, 'auto = "never"')
    write(tmp_path, '[tool.chexpoint]\nauto = "always"\n', "pyproject.toml")
    assert Config.at(tmp_path, {}).word("auto") == "never"


def test_a_file_of_somebody_else_in_a_folder_for_all_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, 'graph = "sqlite:///elsewhere"')
    tmp_path.chmod(0o1777)
    assert Config.at(tmp_path, {}).file is not None
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    assert Config.at(tmp_path, {}).file is None


def test_paths_in_a_file_belong_to_its_folder(tmp_path: Path) -> None:
    write(tmp_path, 'graph = "team/graph.sqlite"\ngraph_store = "s3://bucket/x"\n')
    config = Config.at(tmp_path / "deep", {})
    assert config.word("graph") == str(tmp_path / "team" / "graph.sqlite")
    assert config.word("graph_store") == "s3://bucket/x"
    write(tmp_path, "graph = false")
    assert graph_settings(tmp_path, Config.at(tmp_path, {})).ledger == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('budget = "much"', "budget: 'much' is not a size"),
        ("budget = 0", "budget: '0' is not a size"),
        ('auto = "often"', "auto: 'often' is not a mode: choose rule, always or never"),
        ('overhead = "3"', "overhead: '3' is not a share"),
        ("graph_alpha = 2", "graph_alpha: '2' is not a number from 0 to 1"),
        ("budget = [1]", "budget: write a text or a number"),
        ("graph = true", "graph: write a text or a number"),
        ('bugdet = "1G"', "no setting 'bugdet'. Did you mean budget"),
        ('store_key = "00"', "store_key is a secret: set CHEX_STORE_KEY instead"),
        ("budget = ", "Invalid value (at"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_that_names_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    path = write(tmp_path, text)
    (problem,) = Config.at(tmp_path, {}).problems
    assert problem.startswith(f"{path}: {said}")
    assert main(["config", "--project", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert captured.err == f"chex: {problem}\n"
    assert "Traceback" not in captured.out
    # A kernel says so and goes on, with the default.
    settings, wrong = settings_from(Config.at(tmp_path, {}))
    assert wrong == [problem]
    assert (settings.auto, settings.overhead) == ("rule", DEFAULT_OVERHEAD)


def test_a_wrong_value_stops_a_verb_that_needs_it(tmp_path: Path) -> None:
    write(tmp_path, 'store_budget = "much"\n')
    with pytest.raises(InvalidValue, match=r"chexpoint\.toml: store_budget: 'much'"):
        Config.at(tmp_path, {}).size("store_budget")
    write(tmp_path, "]")
    with pytest.raises(InvalidValue, match=r"chexpoint\.toml: Invalid statement"):
        Config.at(tmp_path, {}).size("store_budget")
    assert Config.at(tmp_path, {"CHEX_STORE_BUDGET": "1G"}).size("store_budget") == 2**30


def test_the_command_shows_what_holds_and_where_it_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, 'budget = "3G"\npersist = "on"\n')
    monkeypatch.setenv("CHEX_PERSIST", "always")
    monkeypatch.setenv("CHEX_STORE_KEY", "ab" * 32)
    assert main(["config", "--project", str(tmp_path)]) == 0
    rows = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines()}
    assert rows["file:"] == [str(path)]
    assert rows["budget"] == ["3G", "chexpoint.toml"]
    assert rows["persist"] == ["always", "CHEX_PERSIST"]
    assert rows["auto"] == ["rule", "default"]
    assert rows["store_key"] == ["(secret)", "CHEX_STORE_KEY"]
    assert set(rows) == {"file:", *(setting.name for setting in SETTINGS)}
    assert main(["config", "--project", str(tmp_path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    (budget,) = [each for each in shown["settings"] if each["name"] == "budget"]
    assert (budget["value"], budget["source"]) == ("3G", str(path))
    assert "ab" * 32 not in json.dumps(shown)


def test_a_script_is_told_of_a_wrong_value(tmp_path: Path) -> None:
    write(tmp_path, 'overhead = "a lot"')
    code = "import chexpoint\nfor x in chexpoint.loop(range(2)):\n    pass\nprint('done')"
    (tmp_path / "train.py").write_text(code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "train.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "done\n"
    assert "chexpoint.toml: overhead: 'a lot' is not a share of time" in done.stderr


def test_other_machines_get_what_is_set_but_neither_places_nor_secrets(tmp_path: Path) -> None:
    write(tmp_path, 'audit = "hook"\nbudget = "1G"\ngraph = "graph.sqlite"\n')
    environ = {"CHEX_BUDGET": "2G", "CHEX_STORE_KEY": "ab" * 16, "CHEX_PERSIST": "on"}
    assert Config.at(tmp_path, environ).for_elsewhere() == {
        "CHEX_AUDIT": "hook",
        "CHEX_BUDGET": "2G",
        "CHEX_PERSIST": "on",
    }
