"""What outsiders import is there, sorted, and cheap to load."""

from __future__ import annotations

import importlib
import subprocess
import sys
from importlib.metadata import entry_points, version

import pytest

import chexpoint
from chexpoint import errors

PACKAGES = [
    "chexpoint",
    "chexpoint.cli",
    "chexpoint.compare",
    "chexpoint.engine",
    "chexpoint.image",
    "chexpoint.lineage",
    "chexpoint.magics",
    "chexpoint.model",
    "chexpoint.package",
    "chexpoint.plan",
    "chexpoint.project",
    "chexpoint.replay",
    "chexpoint.store",
    "chexpoint.view",
]


@pytest.mark.parametrize("name", PACKAGES)
def test_all_is_sorted_and_true(name: str) -> None:
    module = importlib.import_module(name)
    exported = module.__all__
    # Ruff's order: constants, then classes, then the rest.
    assert list(exported) == sorted(
        exported, key=lambda n: (0 if n.isupper() else 1 if n[0].isupper() else 2, n)
    )
    assert [n for n in exported if not hasattr(module, n)] == []


def test_version_is_that_of_the_distribution() -> None:
    assert version("chexpoint") == chexpoint.__version__


def test_command_is_installed() -> None:
    (script,) = entry_points(group="console_scripts", name="chex")
    assert script.value == "chexpoint.cli:main"


def test_errors_have_one_base_and_an_exit_code() -> None:
    classes = [item for item in vars(errors).values() if isinstance(item, type)]
    raised = [item for item in classes if issubclass(item, Exception)]
    assert errors.ChexError in raised
    assert [item for item in raised if not issubclass(item, errors.ChexError)] == []
    assert all(item.exit_code > 0 for item in raised if issubclass(item, errors.ChexError))


def test_every_error_is_in_the_drawn_tree() -> None:
    assert errors.__doc__ is not None
    for name, item in vars(errors).items():
        if isinstance(item, type) and issubclass(item, Exception):
            assert f" {name}" in errors.__doc__


@pytest.mark.slow
def test_import_loads_nothing_heavy() -> None:
    code = "import sys, chexpoint, chexpoint.cli; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()
    heavy = {"IPython", "ipykernel", "jupyter_client", "nbformat", "numpy", "rich", "zmq"}
    assert heavy.isdisjoint(loaded)
