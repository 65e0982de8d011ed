"""The order of test files: the longest first, so that no process waits for the other in the end."""

from __future__ import annotations

import compileall
from pathlib import Path

import pytest

# A failing assert in the shared checks is as telling as one in a test module.
pytest.register_assert_rewrite("tests.support")

# In minutes on two cores, roughly; all others are far below one.
_LONG = (
    "e2e/test_conformance.py",
    "e2e/test_features.py",
    "e2e/test_studies.py",
    "e2e/test_replay.py",
    "e2e/test_packages.py",
    "browser/test_jupyterlab.py",
)


# Thousands of processes import these, and may not write what they have compiled for the next one.
_COMPILED = ("src", "tests/support")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # once, not in each process of xdist
        for folder in _COMPILED:
            compileall.compile_dir(Path(__file__).parents[1] / folder, quiet=1)


def _rank(item: pytest.Item) -> tuple[int, bool]:
    path = item.path.as_posix()
    for rank, name in enumerate(_LONG):
        if path.endswith(name):
            return rank, False
    return len(_LONG), "/unit/" in path


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_rank)
