"""How the cells of a script are run."""

from __future__ import annotations

import ast

import pytest

from chexpoint.project.script_mode import _apart


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        (
            "import a\nfrom b import c\nc(a)\nimport d",
            ["import a\nfrom b import c", "c(a)\nimport d"],
        ),
        ("import a", ["import a"]),
        ("x = 1\nimport a", ["x = 1\nimport a"]),
        # Else it would become the docstring.
        ("import a\n'text'", ["import a\n'text'"]),
        # Which Python refuses, and must go on to.
        ("import a\nfrom __future__ import b", ["import a\nfrom __future__ import b"]),
    ],
)
def test_imports_at_the_beginning_stand_apart(text: str, pieces: list[str]) -> None:
    found = _apart(ast.parse(text).body)
    assert ["\n".join(map(ast.unparse, piece)) for piece in found] == pieces
