"""Every code block of the documentation can be what it says: commands, magics, Python, data."""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import json
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from IPython.core.inputtransformer2 import TransformerManager

from chexpoint.cli.completion import verbs_of
from chexpoint.cli.main import build_parser
from chexpoint.magics.graph_magics import GraphMagics
from chexpoint.magics.hindsight_magics import HindsightMagics
from chexpoint.magics.looking_magics import LookingMagics
from chexpoint.magics.magics import ChexMagics
from chexpoint.magics.replay_magics import ReplayMagics
from chexpoint.magics.version_magics import VersionMagics
from tests.support.docs_blocks import (
    DOCS,
    PAGES,
    ROOT,
    Block,
    blocks_of,
    chex_commands,
    is_synopsis,
    shell_lines,
)
from tests.support.docs_shell import Typed, is_shown

MAGIC_CLASSES = (
    ChexMagics,
    VersionMagics,
    LookingMagics,
    ReplayMagics,
    HindsightMagics,
    GraphMagics,
)
# A page shows parts: names may come from the text around them, and a cell may come twice, with
# values of other types.  What is deleted in one cell is back after a restore (misc).
MYPY = """
[mypy]
follow_imports = skip
allow_redefinition = true
check_untyped_defs = true
disable_error_code = name-defined, no-redef, import-not-found, import-untyped, misc
[mypy-chexpoint.*]
follow_imports = silent
"""
ON_ALL_PAGES = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@cache
def parsers_of_magics() -> dict[str, Any]:
    """Return the parser of each magic that has one."""
    return {
        name: getattr(function, "parser")  # noqa: B009
        for magics in MAGIC_CLASSES
        for name, function in inspect.getmembers(magics, inspect.isfunction)
        if name.startswith("chex_")
    }


@cache
def flags_of_verbs() -> dict[str, set[str]]:
    """Return the options of each verb."""
    return {
        verb.name: {flag for argument in verb.arguments for flag in argument.flags}
        for verb in verbs_of(build_parser())
    }


@ON_ALL_PAGES
def test_commands_can_be_typed(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parser = build_parser()
    for block in blocks_of(page):
        for line in shell_lines(block):
            for words in chex_commands(line):
                if is_synopsis(line):
                    assert written_flags(line) <= flags_of_verbs()[words[0]], block
                    continue
                try:
                    parser.parse_args(words)
                except SystemExit:
                    pytest.fail(f"{block}: {line}: {capsys.readouterr().err}")


@ON_ALL_PAGES
def test_verbs_and_options_in_the_text_are_there(page: Path) -> None:
    for code in re.findall(r"`(chex [a-z][^`\n]*)`", page.read_text(encoding="utf-8")):
        verb = code.split()[1]
        assert verb in flags_of_verbs(), code
        assert written_flags(code) <= flags_of_verbs()[verb] | {"-h", "--help"}, code


@ON_ALL_PAGES
def test_magics_can_be_typed(page: Path) -> None:
    for block in blocks_of(page, "python", ""):
        for name, rest in re.findall(r"^%%?(chex_\w+)(.*(?:\n  .*)*)$", block.text, re.MULTILINE):
            parser = parsers_of_magics()[name]
            if is_synopsis(rest):
                assert written_flags(rest) <= set(parser._option_string_actions), block
                continue
            try:
                parser.parse_argstring(rest.partition("  #")[0])
            except Exception as error:  # of IPython or argparse
                pytest.fail(f"{block}: %{name}{rest}: {error}")
    for name, rest in re.findall(r"`%%?(chex_\w+)([^`\n]*)`", page.read_text(encoding="utf-8")):
        assert written_flags(rest) <= set(parsers_of_magics()[name]._option_string_actions), (
            f"%{name}{rest}"
        )


@pytest.mark.parametrize("name", sorted(parsers_of_magics()))
def test_every_option_of_a_magic_is_in_the_reference(name: str) -> None:
    reference = (DOCS / "reference" / "magics.md").read_text(encoding="utf-8")
    (section,) = re.findall(rf"^## %%?{name}\b.*?(?=^## |\Z)", reference, re.DOTALL | re.MULTILINE)
    actions = parsers_of_magics()[name]._actions
    shown = {
        flag
        for action in actions
        if action.help != argparse.SUPPRESS
        for flag in action.option_strings
        if flag.startswith("--") and flag != "--help"
    }
    assert shown <= written_flags(section.replace("`", " "))


@pytest.mark.parametrize("name", sorted(parsers_of_magics()))
def test_every_magic_has_examples_that_can_be_typed(name: str) -> None:
    (function,) = {getattr(each, name) for each in MAGIC_CLASSES if hasattr(each, name)}
    _, _, examples = (function.__doc__ or "").partition("Example")
    shown = re.findall(rf"^\s*%%?{name}\b(.*)$", examples, re.MULTILINE)
    assert shown
    for rest in shown:
        parsers_of_magics()[name].parse_argstring(rest)


@ON_ALL_PAGES
def test_python_can_be_compiled_and_uses_what_is_there(page: Path) -> None:
    for block in blocks_of(page, "python"):
        try:
            tree = ast.parse(TransformerManager().transform_cell(block.text))
        except SyntaxError as error:
            pytest.fail(f"{block}: {error}")
        names = imported_names(tree)
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            function = resolved(call.func, names)
            if callable(function):
                check_call(function, call, f"{block}: {ast.unparse(call)}")


def test_python_has_the_right_types(tmp_path: Path) -> None:
    """All pages in one call: the blocks of a page follow each other, as cells do."""
    (tmp_path / "mypy.ini").write_text(MYPY, encoding="utf-8")
    for page in PAGES:
        name = str(page.relative_to(ROOT).with_suffix(".py")).replace("/", "_").replace("-", "_")
        parts = [
            f"# {block}\n{TransformerManager().transform_cell(block.text)}"
            for block in blocks_of(page, "python")
        ]
        if parts:
            text = "\n".join(["from IPython import get_ipython", *parts])
            (tmp_path / name).write_text(text, encoding="utf-8")
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert len(list(tmp_path.glob("docs_*.py"))) > 15


@pytest.mark.parametrize(
    "block",
    [
        block
        for page in PAGES
        for block in blocks_of(page, "python")
        if re.search(r"(?m)^from chexpoint\.(plan|model|config|hindsight\.state)", block.text)
    ],
    ids=str,
)
def test_python_that_needs_no_project_runs(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # As large as on the page it would take a minute.
    code = compile(block.text.replace("versions=1000", "versions=10"), str(block), "exec")
    exec(code, {})  # noqa: S102


@ON_ALL_PAGES
def test_data_can_be_read(page: Path) -> None:
    for block in blocks_of(page, "json", "toml", "yaml"):
        try:
            match block.language:
                case "json":
                    for line in json_documents(block.text):
                        json.loads(line)
                case "toml":
                    tomllib.loads(block.text)
                case "yaml":
                    yaml.safe_load(block.text)
        except ValueError as error:
            pytest.fail(f"{block}: {error}")


def test_the_blocks_are_found() -> None:
    commands = [
        words
        for page in PAGES
        for block in blocks_of(page)
        for line in shell_lines(block)
        for words in chex_commands(line)
    ]
    assert ["config"] in commands
    assert len(commands) > 100
    assert list(
        chex_commands("A=1 .venv/bin/chex tree > x && pip install y | chex log 'a b' # z")
    ) == [
        ["tree"],
        ["log", "a b"],
    ]


def test_what_a_page_shows_may_differ_in_times_and_sizes_alone() -> None:
    page = ("✓  base  same  4 cells  1.5 s  ad07b243", "", "held 105 MB; 3 of 3 reproduced")
    found = "✓  base    same  4 cells  23 ms  0f07b2aa\n\nheld 1.0 GB; 3 of 3 reproduced\n"
    assert is_shown(page, found)
    assert not is_shown(page, found.replace("4 cells", "5 cells"))
    assert not is_shown(page, found.replace("3 of 3", "2 of 3"))
    assert not is_shown(page, found.replace("same", "close"))
    assert not is_shown(page, "✓  base  same  4 cells  1.5 s  ad07b243\n")
    assert not is_shown(page, "")
    assert is_shown(("first", "...", "last"), "first\nsecond\nthird\nlast\n")
    assert not is_shown(("first", "...", "last"), "first\nsecond\n")
    assert not is_shown(("34 in 51 runs",), "3 in 3 runs\n")
    assert is_shown(("34 in 51 runs",), "3 in 3 runs\n", is_larger=True)


def test_a_shown_failure_is_expected() -> None:
    assert Typed(line="chex replay", shown=("0 of 1 version reproduced: 1 different",)).code == 1
    assert Typed(line="chex replay", shown=("2 of 2 versions reproduced: 2 same",)).code == 0
    assert Typed(line="chex tree", shown=()).code == 0
    assert Typed(line="chex replay a.chex", shown=("Run it? [y/N] y",)).answer == "y"


def written_flags(text: str) -> set[str]:
    """Return the options that a text names."""
    return set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", text))


# ---------------------------------------------------------------- Python


def json_documents(text: str) -> list[str]:
    """Return a text that is one document, or one in each line."""
    try:
        json.loads(text)
    except ValueError:
        return text.splitlines()
    return [text]


def imported_names(tree: ast.AST) -> dict[str, Any]:
    """Return what a block imports from CHEX, by the names it gives it; it must be there."""
    names: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "chexpoint":
                    module = importlib.import_module(alias.name)
                    names[alias.asname or "chexpoint"] = (
                        module if alias.asname else importlib.import_module("chexpoint")
                    )
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("chexpoint"):
            module = importlib.import_module(node.module or "")
            for alias in node.names:
                names[alias.asname or alias.name] = getattr(module, alias.name)
    return names


def resolved(node: ast.AST, names: dict[str, Any]) -> Any:
    """Return what an expression of names and attributes stands for; None if that is not known."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = resolved(node.value, names)
        return None if owner is None else getattr(owner, node.attr)
    return None


def check_call(function: Any, call: ast.Call, where: str) -> None:
    """Fail if a function does not take these arguments."""
    positional = [argument for argument in call.args if not isinstance(argument, ast.Starred)]
    keywords = {keyword.arg: None for keyword in call.keywords if keyword.arg is not None}
    try:
        inspect.signature(function).bind_partial(*positional, **keywords)
    except TypeError as error:
        pytest.fail(f"{where}: {error}")
