"""Kernels compiled once for all tests, whichever process runs them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.cuda.emulator import build_source, kernels
from tests.support.cuda.toolchain import compiler


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where compiled kernels are."""
    if not compiler():
        pytest.skip("no C++ compiler: set CXX, or install ziglang")
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cuda"
    shared.mkdir(exist_ok=True)
    return shared


@pytest.fixture(scope="session")
def library(folder: Path) -> Path:
    """The kernels as they are shipped, for the CPU."""
    return build_source(kernels(), folder)
