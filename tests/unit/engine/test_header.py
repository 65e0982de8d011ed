"""The first line ``%%chex_record NAME`` is taken away, and nothing else changes."""

from __future__ import annotations

import pytest
from IPython.core.inputtransformer2 import TransformerManager

from chexpoint.engine import header_of, strip_header


def transformed(source: str) -> str:
    """Return what IPython runs of a cell."""
    manager = TransformerManager()
    manager.cleanup_transforms.append(strip_header)
    return manager.transform_cell(source)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("%%chex_record baseline\nx = 1", ["baseline"]),
        ("%%chex_record deeper --here\nx = 1", ["deeper", "--here"]),
        ("%%chex_record\nx = 1", []),
        ("\n  \n%%chex_record\tv1  \n\nx = 1", ["v1"]),
        ("    %%chex_record v1\n    x = 1", ["v1"]),
        ("x = 1\n%%chex_record v1", None),
        ("%chex_record v1\nx = 1", None),
        ("%%chex_recorder v1\nx = 1", None),
        ("%%chex_record?\nx = 1", None),
        ("%%chex_record?", None),
        ("%%chex_record v1", None),
        ("%%chex_record v1\n \n", None),
        ("", None),
    ],
)
def test_words_of_the_header(source: str, words: list[str] | None) -> None:
    assert header_of(source) == words


@pytest.mark.parametrize(
    ("source", "same_as"),
    [
        ("%%chex_record v1\nx = 1\nx", "\nx = 1\nx\n"),
        ("\n\n%%chex_record v1\nx = 1", "\nx = 1\n"),
        ("%%chex_record v1\nawait f()", "\nawait f()\n"),
        ("%%chex_record v1\n!ls", "\nget_ipython().system('ls')\n"),
        ("%%chex_record v1\n%cd ..", "\nget_ipython().run_line_magic('cd', '..')\n"),
        (
            "%%chex_record v1\n\n%%time\nx = 1",
            "get_ipython().run_cell_magic('time', '', 'x = 1\\n')\n",
        ),
        ("%%chex_record?", "get_ipython().run_line_magic('pinfo', '%%chex_record')\n"),
        ("%%chex_record v1", "get_ipython().run_cell_magic('chex_record', 'v1', '')\n"),
    ],
)
def test_the_body_runs_as_an_ordinary_cell(source: str, same_as: str) -> None:
    assert transformed(source) == same_as


def test_lines_keep_their_numbers() -> None:
    lines = transformed("%%chex_record v1\na = 1\nb = 2\nc = 3").splitlines()
    assert lines.index("c = 3") == 3


def test_a_terminal_waits_for_more_lines() -> None:
    manager = TransformerManager()
    manager.cleanup_transforms.append(strip_header)
    assert manager.check_complete("%%chex_record v1\nx = 1\n")[0] == "incomplete"
    assert manager.check_complete("%%chex_record v1\nx = 1\n\n")[0] == "complete"
