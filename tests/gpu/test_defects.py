"""Defects that are planted in the kernels are noticed, so that the other tests mean something."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cuda.defects import DEFECTS, Defect, plant
from tests.support.cuda.emulator import build_source, kernels, with_kernels_only

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def verdicts(library: Path, folder: Path) -> dict[str, str]:
    """How each defect was noticed."""
    libraries = {
        name: build_source(with_kernels_only(plant(kernels(), defect), defect.kernels), folder)
        for name, defect in DEFECTS.items()
    }
    arguments = [f"{name}={made}" for name, made in {**libraries, "no defect": library}.items()]
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.cuda.hunt", str(library), *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_is_noticed(verdicts: dict[str, str], name: str) -> None:
    assert verdicts[name]


def test_nothing_is_noticed_where_there_is_no_defect(verdicts: dict[str, str]) -> None:
    assert verdicts["no defect"] == ""


def test_a_defect_whose_place_is_gone_is_an_error() -> None:
    with pytest.raises(LookupError, match="0 times"):
        plant(kernels(), Defect("atomicNothing()", "", ("insert",)))
