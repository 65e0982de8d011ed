"""Splitting on generated scripts: the cells are the script, and run as the script does."""

from __future__ import annotations

import ast
import codeop
import contextlib
import io
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from chexpoint.project.script_cells import ScriptCell, split_script

pytestmark = pytest.mark.slow

_NUMBERS = st.integers(0, 9)
_NAMES = st.sampled_from(["a", "b", "c", "data"])
_GAPS = ("", "\n", "\n\n", "   \n", "\t\n", "\f\n", "# note\n", "\n# one\n# two\n\n", "    # in\n")
_INNER_GAPS = ("", "\n", "\n\n# inside\n", "# %%\n", "\n    \n", "        # deep\n\n")
# What `{gap}` stands for may come inside of a statement; `{n}` is a number, `{v}` a name.
_STATEMENTS = (
    "{v} = {n}\n",
    "{v} = {n}  # a comment that ends in \\\n",
    "{v} = {n}; {w} = {n};\n",
    "print({n}); {v} = {n}; print('x')\n",
    "{v} = {n} + \\\n    {n}\n",
    "{v} = {n} \\\n# a comment on a continued line\n",
    "{v} = {n}; \\\n\n",
    "\\\n{v} = {n}\n",
    "{n} + {n}\n",
    '"""text {n}"""\n',
    '{v} = """first\n\n# %%\n\n# last {n}"""\n',
    "print('''a\n\n''' f'{n}')\n",
    "{v} = [\n    {n},\n\n    # inside\n# %%\n    {n},\n]\n",
    "(\n    print(\n\n{n}\n))\n",
    "def f_{v}(x=\n\n{n}):\n{gap}    y = x + {n}\n{gap}    return y\n",
    "def g(): print({n}); return {n}\n",
    "async def h():\n{gap}    return {n}\n",
    "@(\n    # in a decorator\n    lambda f: f\n)\n@staticmethod\n{gap}def d():\n    pass\n",
    "class C{n}:\n    '''doc'''\n{gap}    value: int = {n}\n\n    def m(self):\n        return 1\n",
    "class D: x = {n}\n",
    "if {n} > 4:\n{gap}    {v} = {n}\n{gap}elif {n}:\n    print('e')\n{gap}else:\n    print({n})\n",
    "if {n}: print({n})\n{gap}else: print('no')\n",
    "for i in range({n}):\n{gap}    print(i)\n\nelse:\n    print('end')\n",
    "{v} = {n}\nwhile {v}:\n    {v} -= 1\n{gap}    continue\n",
    "try:\n{gap}    print(1 // {n})\nexcept Exception as e:\n{gap}    print(e)\n{gap}else: pass\n",
    "try:\n{gap}    pass\nfinally:\n{gap}    print('f')\n",
    "import contextlib\nwith contextlib.suppress(Exception):\n{gap}    raise ValueError\n",
    "match {n}:\n{gap}    case 0 | 1:\n        print('a')\n{gap}    case _:\n        print('b')\n",
    "import os as _os, \\\n    sys as _sys\n",
    "from math import (\n    pi,\n\n    tau,\n)\n",
    "del_me = {n}\n\n\ndel del_me\n",
    "lines = [\n'''\n\n# %% [markdown]\n''' for _ in range({n})]\nprint(lines)\n",
    "{v}: int = {n}\n",
    "assert {n} >= 0, (\n\n'no')\n",
    "if {n}:\n\tpass\n{gap}",
)
_MARKS = (
    "# %%\n",
    "#%% title\n",
    "# %% [markdown]\n# Some text\n#\n# more\n",
    '# %% [markdown]\n"""\nSome text\n\nmore\n"""\n',
    "# %% [raw]\n# x = 1\n",
    '# %% Title {"tags": ["parameters"]}\n',
    "# %%timeit\n",
)


@st.composite
def _statements(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(_STATEMENTS))
    text = text.replace("{v}", draw(_NAMES)).replace("{w}", draw(_NAMES))
    for field, values in (("{n}", _NUMBERS.map(str)), ("{gap}", st.sampled_from(_INNER_GAPS))):
        while field in text:
            text = text.replace(field, draw(values), 1)
    return text


@st.composite
def scripts(draw: st.DrawFn) -> str:
    """Return a script that is Python; the paragraphs are anything but tidy."""
    separators = st.sampled_from(_GAPS if draw(st.booleans()) else _GAPS + _MARKS)
    parts = [draw(st.sampled_from(["", '"""About."""\n', "#!/usr/bin/env python\n\n", "\n\n"]))]
    parts.append(draw(st.sampled_from(["", "\nfrom __future__ import annotations\n"])))
    for statement in draw(st.lists(_statements(), max_size=8)):
        parts += [statement, draw(separators)]
    script = "".join(parts)
    bare = script.rstrip("\n")
    return script if bare.endswith("\\") or draw(st.booleans()) else bare


def outcome(*sources: str) -> tuple[str, dict[str, Any]]:
    """Run sources in one namespace; return what they print, and what can be compared of it."""
    space: dict[str, Any] = {"__name__": "__main__"}
    printed = io.StringIO()
    compiler = codeop.Compile()  # it keeps what __future__ imports have switched on
    with contextlib.redirect_stdout(printed):
        for source in sources:
            try:
                exec(compiler(source, "script", "exec"), space)  # noqa: S102 - it was made here
            except Exception as error:
                printed.write(repr(error))
                break
    space.pop("__builtins__", None)
    space.pop("__doc__", None)  # which of the strings is the docstring, the engine takes care of
    kept = {
        name: (type(value).__name__, value if isinstance(value, int | str | list) else None)
        for name, value in space.items()
    }
    return printed.getvalue(), kept


def code_of(cells: tuple[ScriptCell, ...]) -> list[str]:
    return [cell.text for cell in cells if cell.is_code]


@given(scripts())
def test_the_cells_are_the_script_line_for_line(script: str) -> None:
    cells = split_script(script)
    assert "".join(cell.text for cell in cells) == script
    for cell in cells:
        before = script.split("\n")[: cell.line - 1]
        assert script.startswith("".join(f"{line}\n" for line in before) + cell.text)
        assert cell.text.endswith("\n") or cell is cells[-1]


@given(scripts())
def test_no_statement_is_split_and_none_is_left_out(script: str) -> None:
    cells = split_script(script)
    event(f"{len(cells)} cells")
    whole = [ast.dump(statement) for statement in ast.parse(script).body]
    parts = [ast.dump(statement) for cell in cells for statement in ast.parse(cell.text).body]
    assert parts == whole
    for cell in cells:
        statements = ast.parse(cell.text).body
        assert cell.is_code or all(
            isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant) for s in statements
        )
        assert statements or not cell.is_code


@given(scripts())
def test_the_cells_run_as_the_script_does(script: str) -> None:
    assert outcome(*code_of(split_script(script))) == outcome(script)
