"""``chex show`` finds a cell and shows it in every form, and overwrites nothing of the user's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from chexpoint.cli.show import ShowCommand
from chexpoint.errors import CatalogError, ChexError, InvalidValue
from chexpoint.magics.lineage_view import LineageView
from chexpoint.model import (
    CellAudit,
    CellLineage,
    CellRecord,
    Effect,
    Hint,
    Input,
    NodeId,
    lineage_from_json,
)
from chexpoint.project import Project
from tests.support.commands import run_command


def show(*words: str) -> int:
    """Run the verb with some words."""
    return run_command(ShowCommand(), *words)


def cell(number: int, audit: CellAudit) -> CellLineage:
    return CellLineage(
        node=NodeId(f"{number:x}" * 32),
        parent=NodeId(f"{number - 1:x}" * 32),
        code="c0de",
        strict="57",
        number=number,
        execution_count=number,
        source=f"cell_{number}()",
        audit=audit,
        seconds=2.5,
        size_bytes=2**20,
    )


FIRST = cell(
    10,
    CellAudit(
        inputs=(Input(kind="file", name="./caf\udce9 日本.csv", digests=("0123456789abcdef",)),),
        effects=(Effect(path="./clean.csv", kind="written", digest="ff", size_bytes=10),),
        hints=(Hint(kind="time", what="the clock is read", line=1),),
    ),
)
SECOND = cell(11, CellAudit(inputs=(Input(kind="file", name="./clean.csv", digests=("cell:10",)),)))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working folder, with two recorded cells."""
    monkeypatch.chdir(tmp_path)
    Project.at(tmp_path).record(CellRecord(lineage=FIRST), session="s")
    Project.at(tmp_path).record(CellRecord(lineage=SECOND), session="s")
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_the_newest_cell_is_shown_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert show() == 0
    text = capsys.readouterr().out
    assert text.startswith("cell [11]  node bbbbbbbbbbbb  parent aaaaaaaaaaaa  2.5 s  1.0 MB\n")
    assert "cell_11()" in text
    assert "reads  ./clean.csv  as cell [10] left it" in text
    assert "cell_10()" not in text


@pytest.mark.usefixtures("folder")
def test_a_node_is_shown_with_inputs_effects_and_hints(capsys: pytest.CaptureFixture[str]) -> None:
    show("aaaa")
    text = capsys.readouterr().out
    assert "reads  ./caf\\udce9 日本.csv  0123456789ab" in text
    assert "wrote  ./clean.csv" in text
    assert "hint, line 1: the clock is read" in text


@pytest.mark.usefixtures("folder")
def test_lineage_is_the_whole_path_from_the_root(capsys: pytest.CaptureFixture[str]) -> None:
    show("[11]", "--lineage")
    text = capsys.readouterr().out
    assert text.index("cell [10]") < text.index("cell [11]")


@pytest.mark.usefixtures("folder")
def test_json_holds_the_values_of_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    show("10", "--json")
    printed = capsys.readouterr().out
    assert printed.isascii()
    assert lineage_from_json(json.loads(printed)) == FIRST
    show("--json", "--lineage")
    path = json.loads(capsys.readouterr().out)["path"]
    assert [lineage_from_json(node) for node in path] == [FIRST, SECOND]


def test_a_picture_of_the_path_is_drawn_and_drawn_again(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = folder / "lineage.svg"
    target.touch()
    for _ in range(2):
        assert show("--lineage", "--svg", "lineage.svg") == 0
        assert capsys.readouterr().out == "drew lineage.svg\n"
        tree = ElementTree.parse(target)  # noqa: S314 - our own file
        assert "cell_10()" in {element.text for element in tree.iter()}


@pytest.mark.parametrize("words", [("--svg",), ("--svg", "-")])
@pytest.mark.usefixtures("folder")
def test_a_picture_goes_to_standard_output(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    show(*words)
    tree = ElementTree.fromstring(capsys.readouterr().out)  # noqa: S314 - our own text
    labels = {element.text for element in tree.iter()}
    assert "cell_11()" in labels
    assert "cell_10()" not in labels


@pytest.mark.parametrize("name", ["mine.svg", "mine.py"])
def test_a_file_of_the_user_is_not_overwritten(folder: Path, name: str) -> None:
    (folder / name).write_text("<svg>mine</svg>")
    with pytest.raises(InvalidValue, match=r"not a picture of chex show|does not end in \.svg"):
        show("--svg", name)
    assert (folder / name).read_text() == "<svg>mine</svg>"


@pytest.mark.usefixtures("folder")
def test_json_and_picture_do_not_mix() -> None:
    with pytest.raises(InvalidValue, match=r"name a FILE\.svg"):
        show("--json", "--svg")


def test_another_project_is_named_by_its_folder(
    folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    show("--project", str(folder))
    assert "cell [11]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (("--project", "nowhere"), InvalidValue, "no folder nowhere"),
        (("99",), InvalidValue, r"no cell \[99\]\. Known: \[10\], \[11\]\."),
        (("cccc",), InvalidValue, "no node 'cccc'"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_mistake_is_explained(
    words: tuple[str, ...], error: type[ChexError], message: str
) -> None:
    with pytest.raises(error, match=message):
        show(*words)


def test_a_damaged_catalog_is_one_error(folder: Path) -> None:
    Project.at(folder).path.write_bytes(b"nonsense" * 1000)
    with pytest.raises(CatalogError, match="damaged"):
        show()


PLAIN = """
from chexpoint.cli.command import OneLineParser
from chexpoint.cli.show import ShowCommand
command, parser = ShowCommand(), OneLineParser()
command.prepare_parser(parser)
command.run(parser.parse_args(["10"]))
command.run(parser.parse_args(["10", "--svg"]))
"""


@pytest.mark.slow
def test_a_terminal_without_the_letters_is_no_obstacle(folder: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", PLAIN],
        cwd=folder,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert b"./caf\\udce9 \\u65e5\\u672c.csv  0123456789ab" in result.stdout
    assert b"./caf\\udce9 &#26085;&#26412;.csv" in result.stdout


def test_a_notebook_shows_the_cell_and_the_path() -> None:
    view = LineageView((FIRST, SECOND), SECOND)
    assert repr(view).startswith("cell [11]")
    assert repr(view).endswith("path: [10] > [11]")
    html = view._repr_html_()
    assert "as cell [10] left it" in html
    assert html.index("</table>") < html.index("<svg ")
    assert "cell_10()" in html
