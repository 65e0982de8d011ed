"""Notebooks and scripts become cells; whatever is wrong with a file is told in one line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from chexpoint.errors import InvalidValue
from chexpoint.project.sources import SourceFile, read_source


def code_cell(source: object, **more: Any) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "source": source,
        "metadata": {},
        "outputs": [],
        "execution_count": None,
        **more,
    }


def notebook(*cells: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": list(cells), **more}


def written(folder: Path, content: object, name: str = "a.ipynb") -> Path:
    path = folder / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_text(text, encoding="utf-8")
    return path


def sources(file: SourceFile) -> list[str]:
    return [cell.source for cell in file.cells]


def refusal(path: Path) -> str:
    """Return what is said of a file that cannot be read."""
    with pytest.raises(InvalidValue) as caught:
        read_source(path)
    message = str(caught.value)
    assert message.startswith(f"{path}")
    assert "\n" not in message
    return message.removeprefix(f"{path}")


# ---------------------------------------------------------------- notebooks


def test_code_cells_of_a_notebook_in_order(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        notebook(
            code_cell(["x = 1\n", "y = 2"], id="one", metadata={"tags": ["parameters", "b"]}),
            {"cell_type": "markdown", "id": "text", "source": "text", "metadata": {}},
            code_cell("", id="empty"),
            code_cell(" \n\t", id="blank"),
            {"cell_type": "raw", "id": "raw", "source": "raw", "metadata": {}},
            code_cell("# note", id="two"),
            code_cell("%%time\nz = 3", id="three"),
        ),
    )
    file = read_source(path)
    assert file.kind == "notebook"
    assert sources(file) == ["x = 1\ny = 2", "# note", "%%time\nz = 3"]
    assert [cell.number for cell in file.cells] == [1, 2, 3]
    assert [cell.cell_id for cell in file.cells] == ["one", "two", "three"]
    assert file.cells[0].tags == {"parameters", "b"}
    assert all(cell.kind == "cell" and cell.line is None for cell in file.cells)


def test_cells_without_an_id_get_none(tmp_path: Path) -> None:
    file = read_source(written(tmp_path, notebook(code_cell("x = 1"), code_cell("y = 1"))))
    assert [cell.cell_id for cell in file.cells] == ["", ""]


def test_ids_that_are_not_unique_do_no_harm(tmp_path: Path) -> None:
    cells = code_cell("x = 1", id="a"), code_cell("y = 1", id="a")
    assert sources(read_source(written(tmp_path, notebook(*cells)))) == ["x = 1", "y = 1"]


@pytest.mark.parametrize(
    "old",
    [
        {
            "nbformat": 3,
            "nbformat_minor": 0,
            "metadata": {"name": ""},
            "worksheets": [
                {
                    "metadata": {},
                    "cells": [
                        {
                            "cell_type": "code",
                            "input": ["x = 1\n", "y = 2"],
                            "language": "python",
                            "outputs": [],
                            "metadata": {},
                            "collapsed": False,
                        }
                    ],
                }
            ],
        },
        {
            "nbformat": 2,
            "metadata": {"name": ""},
            "worksheets": [
                {
                    "cells": [
                        {
                            "cell_type": "code",
                            "input": "x = 1\ny = 2",
                            "language": "python",
                            "outputs": [],
                        }
                    ]
                }
            ],
        },
        {
            "nbformat": 1,
            "cells": [{"cell_type": "code", "code": "x = 1\ny = 2", "prompt_number": 1}],
        },
    ],
    ids=["3", "2", "1"],
)
def test_old_notebooks_are_converted(tmp_path: Path, old: dict[str, Any]) -> None:
    assert sources(read_source(written(tmp_path, old))) == ["x = 1\ny = 2"]


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"kernelspec": {"name": "ir", "display_name": "says nothing"}},
        {"kernelspec": {"name": "python3", "display_name": "P", "language": "python"}},
        {"kernelspec": {"name": "chex", "display_name": "C", "language": "Python"}},
        {"language_info": {"name": "python"}},
        {"language_info": {"name": "ipython"}},
    ],
)
def test_python_needs_not_be_named(tmp_path: Path, metadata: dict[str, Any]) -> None:
    path = written(tmp_path, notebook(code_cell("x = 1"), metadata=metadata))
    assert sources(read_source(path)) == ["x = 1"]


@pytest.mark.parametrize(
    ("metadata", "language"),
    [
        ({"kernelspec": {"name": "ir", "display_name": "R", "language": "R"}}, "R"),
        ({"language_info": {"name": "julia"}}, "julia"),
    ],
)
def test_other_languages_are_refused(
    tmp_path: Path, metadata: dict[str, Any], language: str
) -> None:
    path = written(tmp_path, notebook(code_cell("x <- 1"), metadata=metadata))
    assert refusal(path) == f": written in {language}; only Python is recorded"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("x = 1", "not JSON (Expecting value: line 1, column 1)"),
        ("[]", "not a notebook"),
        ({"a": 1}, "not a notebook"),
        ({"nbformat": "4"}, "not a notebook"),
        ({"nbformat": True}, "not a notebook"),
        (notebook(nbformat=5), "version 5, which is too new"),
        (notebook(nbformat=0), "not a valid notebook"),
        (notebook(nbformat_minor="x"), "not a valid notebook"),
        ({"nbformat": 4, "nbformat_minor": 5, "metadata": {}}, "not a valid notebook"),
        (notebook(metadata=[]), "not a valid notebook"),
        (notebook(code_cell(5, id="a")), "not a valid notebook"),
        (notebook(code_cell(["x = ", 5], id="a")), "not a valid notebook"),
        (notebook(code_cell("x", id="a", metadata={"tags": "b"})), "not a valid notebook"),
        (notebook({"cell_type": "odd"}), "not a valid notebook"),
        (notebook({"cell_type": "odd", "source": "", "metadata": {}}), "not a valid notebook"),
        ("[" * 100_000, "nested too deeply"),
        (notebook({}, metadata={"deep": json.loads("[" * 500 + "]" * 500)}), "nested too deeply"),
        (b"\xff\xfe{}", "not UTF-8 (at byte 0)"),
        (json.dumps(notebook()).encode("utf-16"), "not UTF-8"),
    ],
)
def test_what_is_no_notebook_is_refused(tmp_path: Path, content: object, reason: str) -> None:
    assert reason in refusal(written(tmp_path, content))


def test_a_byte_order_mark_is_no_harm(tmp_path: Path) -> None:
    data = json.dumps(notebook(code_cell("x = 1"))).encode("utf-8-sig")
    assert sources(read_source(written(tmp_path, data))) == ["x = 1"]


# ---------------------------------------------------------------- scripts


def test_cells_of_a_script(tmp_path: Path) -> None:
    path = written(tmp_path, '"""Doc."""\n\n# parameters\nx = 1\n\ny = 2\n', "a.py")
    file = read_source(path)
    assert file.kind == "script"
    assert sources(file) == ['"""Doc."""\n', "# parameters\nx = 1\n", "y = 2"]
    assert [cell.number for cell in file.cells] == [1, 2, 3]
    assert [cell.line for cell in file.cells] == [1, 3, 6]
    assert [cell.is_head for cell in file.cells] == [True, False, False]
    assert file.cells[1].tags == {"parameters"}


def test_every_line_of_a_script_is_in_a_cell(tmp_path: Path) -> None:
    script = (
        "#!/usr/bin/env python\n# ---\n# jupyter: {}\n# ---\n\n"
        "# %% [markdown]\n# Title\n\n# %%\nx = 1\n\n"
        '# %% [markdown]\n"""\nText\n"""\n\n# %% [raw]\n# raw\n# %% Second\ny = 2\n# end\n'
    )
    file = read_source(written(tmp_path, script, "a.py"))
    assert "".join(f"{source}\n" for source in sources(file)) == script
    assert [cell.line for cell in file.cells] == [1, 19]


@pytest.mark.parametrize("script", ["", "\n\n", "# a comment\n", "# %% [markdown]\n# text\n"])
def test_a_script_may_have_nothing_to_run(tmp_path: Path, script: str) -> None:
    assert read_source(written(tmp_path, script, "a.py")).cells == ()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("# coding: latin-1\nx = 'é'\n".encode("latin-1"), ["# coding: latin-1\nx = 'é'"]),
        ("x = 'é'\n".encode("utf-8-sig"), ["x = 'é'"]),
        (b"x = 1\r\n\r\ny = '''a\r\nb'''\r\n", ["x = 1\n", "y = '''a\nb'''"]),
        (b"x = 1\r\ry = 2\r", ["x = 1\n", "y = 2"]),
        (b"if 1:\n\tx = 1\n\x0c\ny = 2", ["if 1:\n\tx = 1\n\x0c", "y = 2"]),
    ],
    ids=["declared", "mark", "crlf", "cr", "form feed"],
)
def test_scripts_are_read_as_python_reads_them(
    tmp_path: Path, data: bytes, expected: list[str]
) -> None:
    assert sources(read_source(written(tmp_path, data, "a.py"))) == expected


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"x = 1\n\ny = = 2\n", ":3: SyntaxError: invalid syntax"),
        (b"x = 1\nawait x\n", ":2: SyntaxError: 'await' outside function"),
        (b"return 1\n", ":1: SyntaxError: 'return' outside function"),
        (b"if 1:\nx = 1\n", ":2: IndentationError"),
        (b"if 1:\n\tx = 1\n        y = 1\n", ":3: TabError"),
        (b"!ls\n", ":1: SyntaxError"),
        (b"x = 1\n%time y\n", ":2: SyntaxError"),
        (b"x = 1\n\0\n", ":2: a null byte"),
        (b"# coding: nope\n", "unknown encoding: nope"),
        (b"x = '\xe9'\n", ":1: SyntaxError: (unicode error)"),
        (b"x = 1 \\", "unexpected EOF"),
        (b"x = " + b"(" * 300 + b")" * 300, "too many nested parentheses"),
        (b"x = " + b"-" * 100_000 + b"1", "nested too deeply"),
    ],
)
def test_what_is_no_script_is_refused(tmp_path: Path, data: bytes, reason: str) -> None:
    assert reason in refusal(written(tmp_path, data, "a.py"))


def test_warnings_of_the_parser_wait_until_the_cell_runs(tmp_path: Path) -> None:
    assert len(read_source(written(tmp_path, "x = 1 is 1\ny = '\\d'\n", "a.py")).cells) == 1


# ---------------------------------------------------------------- files


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    (tmp_path / "folder.ipynb").mkdir()
    os.mkfifo(tmp_path / "pipe.py")
    assert refusal(tmp_path / "folder.ipynb") == ": a folder, not a file"
    assert refusal(tmp_path / "pipe.py") == ": not a regular file"
    assert refusal(tmp_path / "none.py") == ": No such file or directory"
    assert "neither a notebook" in refusal(written(tmp_path, "x = 1", "a.txt"))
    assert "null" in refusal(tmp_path / "a\0b.py")


def test_the_ending_may_be_in_capitals(tmp_path: Path) -> None:
    assert read_source(written(tmp_path, "x = 1", "A.PY")).kind == "script"
