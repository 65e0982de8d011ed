"""NVIDIA's compiler takes the kernels, for every device since 2017, and what it makes is right."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.support.cuda import nvrtc, ptx
from tests.support.cuda.checks import check_all
from tests.support.cuda.emulator import EmulatedDevice, kernel_names, kernels
from tests.support.cuda.nvrtc import Compiled
from tests.support.cuda.toolchain import shared_library

ARCHITECTURES = ("sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not nvrtc.is_available(), reason="no NVRTC: install nvidia-cuda-nvrtc-cu12"),
]


@cache
def compiled(architecture: str) -> Compiled:
    """Return the kernels for an architecture."""
    return nvrtc.compile_for(kernels(), architecture)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_kernels_compile_and_spill_nothing(architecture: str) -> None:
    made = compiled(architecture)
    names = sorted(kernel_names(kernels()))
    assert made.cubin.startswith(b"\x7fELF")
    assert sorted(re.findall(r"\.visible \.entry (\w+)\(", made.ptx)) == names
    assert ".local" not in made.ptx
    # The assembler has the last word on registers.
    assert sorted(re.findall(r"Compiling entry function '(\w+)'", made.log)) == names
    spills = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores", made.log)
    assert spills == [("0", "0")] * len(names)


def test_what_the_compiler_made_does_all_it_should(folder: Path) -> None:
    # Many architectures get the same instructions.
    translations = {ptx.translate(compiled(one).ptx) for one in ARCHITECTURES}
    assert len(translations) > 1
    for translation in sorted(translations):
        library = shared_library(translation, folder)
        check_all(lambda seed, made=library: EmulatedDevice(made, seed=seed))  # type: ignore[misc]


def test_an_instruction_that_is_not_known_is_an_error() -> None:
    text = compiled("sm_80").ptx
    assert "xor.b64" in text
    with pytest.raises(ptx.UnknownInstruction, match=r"lop3\.b64"):
        ptx.translate(text.replace("xor.b64", "lop3.b64", 1))


def test_an_error_in_a_kernel_is_reported() -> None:
    with pytest.raises(nvrtc.NvrtcError, match="undefined"):
        nvrtc.compile_for("__global__ void f() { undefined(); }", "sm_80")
