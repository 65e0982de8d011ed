"""ThreadSanitizer sees no race in the kernels, and sees one that is planted."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.cuda.defects import DEFECTS, plant
from tests.support.cuda.emulator import host_source, kernels
from tests.support.cuda.toolchain import CompileError, race_detector

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def clean(folder: Path) -> subprocess.CompletedProcess[str]:
    """What the detector says of the kernels as they are."""
    try:
        program = race_detector(host_source(kernels()), folder)
    except CompileError as error:
        pytest.skip(f"the compiler has no ThreadSanitizer: {str(error).splitlines()[-1]}")
    done = run(program)
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("ThreadSanitizer does not work on this system: unexpected memory mapping")
    return done


def run(program: Path) -> subprocess.CompletedProcess[str]:
    """Run a detector until it finds something."""
    environment = {"TSAN_OPTIONS": "halt_on_error=1:exitcode=66"}
    return subprocess.run(
        [str(program)], env=environment, capture_output=True, text=True, check=False
    )


def test_kernels_have_no_race(clean: subprocess.CompletedProcess[str]) -> None:
    assert clean.returncode == 0, clean.stderr[:2000]


@pytest.mark.usefixtures("clean")
def test_a_race_is_seen(folder: Path) -> None:
    source = plant(kernels(), DEFECTS["claim in two steps"])
    done = run(race_detector(host_source(source), folder))
    assert done.returncode == 66
    assert "data race" in done.stderr
