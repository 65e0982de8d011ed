"""Environments are described, compared and pinned."""

from __future__ import annotations

import platform
import sys
from dataclasses import replace
from importlib.metadata import version

import pytest

from chexpoint.model import EnvironmentInfo
from chexpoint.package import (
    Needs,
    environment_differences,
    environment_info,
    how_to_create,
    lock_text,
    needs_of,
)
from chexpoint.package.needs import imported_modules
from chexpoint.package.venv import pins_of

THEN = EnvironmentInfo(
    python="3.11.2",
    implementation="cpython",
    machine="x86_64",
    system="Linux",
    packages=(
        ("chexpoint", "0.1.0"),
        ("mine", "0.3"),
        ("numpy", "1.26.4"),
        ("pandas", "2.2.0"),
        ("torch", "2.1.0+cpu"),
    ),
)


def test_this_environment_is_described() -> None:
    found = environment_info()
    packages = dict(found.packages)
    assert found.python == platform.python_version()
    assert found.implementation == sys.implementation.name
    assert packages["pytest"] == version("pytest")
    # As PEP 503 has it, however the project spells itself.
    assert "jupyter-client" in packages
    assert list(packages) == sorted(packages)


def test_the_same_environment_does_not_differ() -> None:
    assert environment_differences(THEN, THEN) == ()
    assert environment_differences(EnvironmentInfo(), THEN) == ()
    assert environment_differences(THEN, replace(THEN, python="3.11.9")) == ()


def test_differences_are_told_in_sentences() -> None:
    now = replace(
        THEN,
        python="3.12.0",
        machine="aarch64",
        packages=(("numpy", "2.0"), ("torch", "2.1.0+cpu")),
    )
    assert environment_differences(THEN, now) == (
        "recorded with Python 3.11.2, and this is 3.12.0",
        "recorded on x86_64, and this machine is aarch64",
        "mine 0.3 is not installed",
        "numpy is 2.0 here, and was 1.26.4",
        "pandas 2.2.0 is not installed",
    )
    other = replace(THEN, implementation="pypy")
    assert environment_differences(THEN, other) == ("recorded with cpython, and this is pypy",)


def test_only_what_is_needed_counts() -> None:
    now = replace(THEN, packages=())
    assert environment_differences(THEN, now, ("pandas",)) == ("pandas 2.2.0 is not installed",)


def test_the_way_to_the_same_environment_is_told() -> None:
    commands = how_to_create("my paper.chex", THEN)
    assert commands[1] == "python3.11 -m venv chex-venv"
    assert commands[-1] == "chex-venv/bin/chex replay 'my paper.chex'"


def test_a_lock_file_pins_what_is_needed() -> None:
    needs = Needs(packages=("mine", "numpy", "torch"), local=frozenset({"mine"}))
    text = lock_text(THEN, needs)
    assert text.splitlines() == [
        "# Recorded with Python 3.11.2. Install with: pip install -r requirements.lock",
        "# mine 0.3 was not installed from an index: ask the author for it",
        "numpy==1.26.4",
        "torch==2.1.0",
    ]
    assert pins_of(text) == ("numpy==1.26.4", "torch==2.1.0")


@pytest.mark.parametrize(
    ("source", "modules"),
    [
        ("import a, b.c as d\nfrom e.f import g", {"a", "b", "e"}),
        ("from . import a\nfrom .b import c", set()),
        ("def f():\n    import a", {"a"}),
        ("%matplotlib inline\n!pip install x\nimport a", {"a"}),
        ("%%time\nimport a", {"a"}),
        ("if x:\n    %timeit y\nimport a", {"a"}),
        ("importlib.import_module('a.b'); __import__('c'); import_module(name)", {"a", "c"}),
        ("files = !ls\nimport a\nfrom b import c", {"a", "b"}),
        ("%%bash\nif then", set()),
        ("x = '\\d'", set()),
        ("", set()),
        ("(" * 10_000, set()),
    ],
)
def test_imports_of_a_cell_are_found(source: str, modules: set[str]) -> None:
    assert imported_modules(source) == modules


def test_what_cells_need_is_found_with_all_that_it_needs() -> None:
    here = environment_info()
    found = needs_of(["import sys, sklearn.svm\nimport nowhere"], here)
    assert {"scikit-learn", "scipy", "joblib", "threadpoolctl"} <= set(found.packages)
    # CHEX itself runs there too, but need not be on an index.
    assert {"ipykernel", "xxhash", "traitlets"} <= set(found.packages)
    assert {"chexpoint", "pytest", "nowhere", "polars"}.isdisjoint(found.packages)
    assert list(found.packages) == sorted(found.packages)
    for line in pins_of(lock_text(here, found)):
        name, _, pinned = line.partition("==")
        assert version(name).partition("+")[0] == pinned


def test_optional_parts_are_needed_if_they_were_there() -> None:
    # No cell imports pyarrow to read a Parquet file.
    assert "pyarrow" in needs_of(["import pandas"], environment_info()).packages
    assert "pyarrow" not in needs_of(["import numpy"], environment_info()).packages


def test_only_what_was_recorded_is_needed() -> None:
    assert needs_of(["import pandas"], THEN).packages == ("numpy", "pandas")
