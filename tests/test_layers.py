"""A package imports only lower ranks, and only from their package roots."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(__file__).parent.parent / "src" / "chexpoint"

LAYERS = (
    {"errors"},
    {"model"},
    {"config", "palette"},
    {"compare", "graph", "image", "lineage", "package", "plan", "store", "view"},
    {"hindsight"},
    {"engine"},
    {"replay"},
    {"project"},
    {"kernel", "magics", "cli"},
)
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}

# The root modules tie the layers together.
EXEMPT = {"__init__", "__main__"}

# Errors carry facts, and the facts are values of the model; nothing is imported at run time.
TYPE_ONLY = {("errors", "model")}


def chexpoint_imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Yield each module of ours that a file imports, and whether for type checking only."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    type_only = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for statement in block.body
        for node in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            names = ["chexpoint.<relative>"]
        elif isinstance(node, ast.ImportFrom) and node.module == "chexpoint":
            names = [f"chexpoint.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        for name in names:
            if name.startswith("chexpoint."):
                yield name, id(node) in type_only


def violations(root: Path) -> list[str]:
    """Return every import below ``root`` that breaks the rule."""
    found = []
    for path in sorted(root.rglob("*.py")):
        me = path.relative_to(root).parts[0].removesuffix(".py")
        if me in EXEMPT:
            continue
        where = path.relative_to(root)
        if me not in RANK:
            found.append(f"{where}: {me} has no rank")
            continue
        for module, type_only in chexpoint_imports(path):
            it = module.split(".")[1]
            if it in {me, "__version__"} or (type_only and (me, it) in TYPE_ONLY):
                continue
            if it not in RANK:
                found.append(f"{where}: {me} imports {it}, which has no rank")
            elif RANK[it] >= RANK[me]:
                found.append(f"{where}: {me} imports {it}")
            elif module.count(".") > 1:
                found.append(f"{where}: import {it} from its package root")
    return found


def test_the_source_keeps_the_layers() -> None:
    assert violations(SOURCE) == []


def test_the_source_is_found() -> None:
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    modules = {path.stem for path in SOURCE.glob("*.py")}
    assert packages | modules == {*RANK, *EXEMPT}


@pytest.mark.parametrize(
    ("file", "code", "complaint"),
    [
        ("store/chunk.py", "from chexpoint.plan import plan", "store imports plan"),
        ("store/chunk.py", "from chexpoint import lineage", "store imports lineage"),
        ("store/chunk.py", "import chexpoint.engine", "store imports engine"),
        ("model/ids.py", "def f():\n    import chexpoint.engine", "model imports engine"),
        ("kernel/app.py", "from chexpoint.cli import main", "kernel imports cli"),
        ("engine/state.py", "from chexpoint.model.ids import NodeId", "import model from its"),
        ("engine/state.py", "import chexpoint.model.ids", "import model from its package root"),
        ("engine/state.py", "from ..model import NodeId", "<relative>"),
        ("engine/state.py", "from chexpoint.helpers import text", "helpers, which has no rank"),
        ("helpers/text.py", "import os", "helpers has no rank"),
        (
            "plan/cost.py",
            "if TYPE_CHECKING:\n    from chexpoint.store import Chunk",
            "plan imports store",
        ),
    ],
)
def test_a_seeded_violation_is_caught(tmp_path: Path, file: str, code: str, complaint: str) -> None:
    path = tmp_path / file
    path.parent.mkdir()
    path.write_text(code)
    assert [line for line in violations(tmp_path) if complaint in line]


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("store/chunk.py", "from chexpoint.store.merkle import root"),
        ("engine/state.py", "from chexpoint.model import NodeId"),
        ("cli/main.py", "import chexpoint\nfrom chexpoint.engine import Engine"),
        ("cli/main.py", "from chexpoint import __version__"),
        ("errors.py", "if TYPE_CHECKING:\n    from chexpoint.model import Hazard"),
    ],
)
def test_an_allowed_import_is_not_a_violation(tmp_path: Path, file: str, code: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(code)
    assert violations(tmp_path) == []
