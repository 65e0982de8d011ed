"""What outsiders import is there, sorted, and cheap to load."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from importlib.metadata import entry_points, version
from pathlib import Path

import pytest

import chexpoint
from chexpoint import errors

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "chexpoint"
REFERENCE = ROOT / "docs" / "reference" / "python-api.md"

# Nobody imports from the kernel: Jupyter starts it.
PACKAGES = [
    "chexpoint",
    *sorted({f"chexpoint.{path.parent.name}" for path in SOURCE.glob("*/__init__.py")}),
]
PACKAGES.remove("chexpoint.kernel")

# What IPython calls.
FOR_IPYTHON = {"load_ipython_extension", "unload_ipython_extension"}


@pytest.mark.parametrize("name", PACKAGES)
def test_all_is_sorted_and_true(name: str) -> None:
    module = importlib.import_module(name)
    exported = module.__all__
    # Ruff's order: constants, then classes, then the rest.
    assert list(exported) == sorted(
        exported, key=lambda n: (0 if n.isupper() else 1 if n[0].isupper() else 2, n)
    )
    assert [n for n in exported if not hasattr(module, n)] == []


def test_the_reference_names_what_there_is() -> None:
    page = REFERENCE.read_text(encoding="utf-8")
    names = set(re.findall(r"`(chexpoint(?:\.\w+)+)", page))
    own = {f"chexpoint.{name}" for name in chexpoint.__all__ if name != "__version__"}
    assert own - names == {f"chexpoint.{name}" for name in FOR_IPYTHON}
    for name in names - own:
        module, _, attribute = name.removesuffix(".at").rpartition(".")
        assert attribute in importlib.import_module(module).__all__, name


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
