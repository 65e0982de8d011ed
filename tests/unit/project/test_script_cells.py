"""Where a script is split, and where it is not."""

from __future__ import annotations

import pytest

from chexpoint.project.script_cells import ScriptCell, split_script


def texts(script: str) -> list[str]:
    cells = split_script(script)
    assert "".join(cell.text for cell in cells) == script
    return [cell.text for cell in cells]


def code(script: str) -> list[ScriptCell]:
    return [cell for cell in split_script(script) if cell.is_code]


def test_paragraphs_are_cells() -> None:
    assert texts("import os\nimport sys\n\n\nx = 1\ny = 2\n") == [
        "import os\nimport sys\n\n\n",
        "x = 1\ny = 2\n",
    ]


def test_comments_go_with_what_is_below_them_and_blank_lines_with_what_is_above() -> None:
    assert texts("# head\n\nx = 1\n\n# about y\n\n# more\ny = 2\n# end\n") == [
        "# head\n\nx = 1\n\n",
        "# about y\n\n# more\ny = 2\n# end\n",
    ]


def test_a_comment_alone_separates() -> None:
    assert texts("x = 1\n# about y\ny = 2\n") == ["x = 1\n", "# about y\ny = 2\n"]


@pytest.mark.parametrize(
    "statement",
    [
        "def f():\n\n    x = 1\n\n\n    # comment\n\n    return x\n",
        "@one\n\n# comment\n@two(\n\n)\nclass C:\n\n    x = 1\n\n    y = 2\n",
        "if x:\n    a\n\nelif y:\n\n    b\n\n# comment\nelse:\n    c\n",
        "for i in x:\n    a\n\nelse:\n    b\n",
        "try:\n    a\n\nexcept E:\n    b\n\nfinally:\n    c\n",
        "with a as b, \\\n\\\n        c as d:\n\n    e\n",
        "match x:\n\n    case 1:\n        a\n\n    # comment\n    case _:\n        b\n",
        "x = [\n    1,\n\n    # comment\n\n    2,\n]\n",
        'x = """first\n\n# %%\n\nlast"""\n',
        "x = 1 + \\\n    2\n",
        "x = 1 \\\n# a comment on a continued line\n",
        "x = 1; \\\n\n",
        "@(\n    # comment\n\n    deco\n)\ndef f(): pass\n",
        "x = f'''{\n1\n}\n\n'''\n",
        "async def f():\n\n    async with a:\n\n        await b\n",
        "x: int = (\n\n    1\n)\n",
        "x = 1; y = '''\n\n'''; z = 2\n",
        "if x:\n\ty = 1\n\n\tz = 2\n",
        "def f():\n    pass\n# %%\n    return 1\n",
    ],
)
def test_a_statement_is_never_split(statement: str) -> None:
    assert texts(statement) == [statement]
    assert texts(f"before = 1\n\n{statement}\nafter = 2\n") == [
        "before = 1\n\n",
        f"{statement}\n",
        "after = 2\n",
    ]


def test_marks_are_borders_and_paragraphs_then_are_none() -> None:
    assert texts("import os\n\nx = 1\n# %% second\ny = 1\n\nz = 2\n#%%\nlast = 1\n") == [
        "import os\n\nx = 1\n",
        "# %% second\ny = 1\n\nz = 2\n",
        "#%%\nlast = 1\n",
    ]


@pytest.mark.parametrize("line", ["# %%time", "#%%bash", "    # %%", "# a # %%", "# %%x", "# %"])
def test_other_comments_are_no_marks(line: str) -> None:
    assert len(texts(f"x = 1\ny = 2  # %%\n{line}\n")) == 1


@pytest.mark.parametrize("mark", ["# %%", "#%%", "# %% A title", "# %%%", "#  %%  {}", "# %%\t"])
def test_marks_have_several_forms(mark: str) -> None:
    assert texts(f"x = 1\n{mark}\ny = 2\n") == ["x = 1\n", f"{mark}\ny = 2\n"]


@pytest.mark.parametrize("kind", ["[markdown]", "[md]", "[raw]", "Title [markdown] key=1"])
def test_text_is_not_run(kind: str) -> None:
    script = f'# %% {kind}\n# Text\n#\n# more\n# %%\nx = 1\n# %% {kind}\n"""\nText\n"""\n'
    assert [cell.text for cell in code(script)] == ["# %%\nx = 1\n"]


def test_code_under_a_text_mark_is_run_because_python_runs_it() -> None:
    assert [cell.text for cell in code("# %% [markdown]\nx = 1\n")] == ["# %% [markdown]\nx = 1\n"]


def test_a_docstring_under_a_text_mark_is_the_docstring() -> None:
    (cell,) = code('# %% [markdown]\n"""Title"""\n')
    assert cell.is_head


def test_comments_alone_are_not_run() -> None:
    assert code("# only\n\n# comments\n") == []
    assert split_script("") == ()
    assert len(code("# %%\n# nothing\n# %%\nx = 1\n")) == 1


def test_lines_are_counted_from_one() -> None:
    assert [cell.line for cell in split_script("\n\nx = 1\n\n# c\ny = 2\n")] == [1, 5]


def test_the_docstring_and_future_imports_are_the_head() -> None:
    script = '"""Doc."""\n\nfrom __future__ import annotations\n\nimport os\n\n"""no doc"""\n'
    assert [cell.is_head for cell in split_script(script)] == [True, True, False, False]


def test_a_form_feed_is_white_space_and_ends_no_line() -> None:
    assert texts("x = 1\n\f\ny = '\\x0c \u2028'\n") == ["x = 1\n\f\n", "y = '\\x0c \u2028'\n"]


@pytest.mark.parametrize(
    "script",
    [
        "# parameters\nx = 1\n",
        "#Parameters:\nx = 1\n",
        "# %% parameters\nx = 1\n",
        "# %%\n# parameters\nx = 1\n",
        '# %% tags=["parameters"]\nx = 1\n',
        '# %% Title {"tags": ["a", "parameters"]}\nx = 1\n',
        '# + tags=["parameters"]\nx = 1\n',
    ],
)
def test_a_cell_is_tagged_by_its_mark_or_its_first_comment(script: str) -> None:
    (cell,) = split_script(script)
    assert "parameters" in cell.tags


@pytest.mark.parametrize(
    "script", ["# more parameters\nx = 1\n", "x = 1  # parameters\n", "# a\n# parameters\nx = 1\n"]
)
def test_other_comments_tag_nothing(script: str) -> None:
    (cell,) = split_script(script)
    assert cell.tags == frozenset()


def test_what_is_no_python_is_an_error() -> None:
    with pytest.raises(SyntaxError):
        split_script("x = = 1\n")
