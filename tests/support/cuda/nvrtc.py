"""NVIDIA's run-time compiler, which needs no device: CUDA C in, PTX and machine code out."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path


class NvrtcError(Exception):
    """The compiler refused its input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """What the compiler made for one architecture."""

    ptx: str
    cubin: bytes
    log: str
    """What the assembler says of each kernel: registers, stack, spills."""


@cache
def _library() -> ctypes.CDLL | None:
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(root) for root in (spec.submodule_search_locations or [])] if spec else []
    found = [path for root in roots for path in sorted(root.rglob("libnvrtc.so.*"))]
    for name in [*map(str, found), "libnvrtc.so.12", "libnvrtc.so"]:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def is_available() -> bool:
    """Tell whether there is such a compiler."""
    return _library() is not None


def compile_for(source: str, architecture: str) -> Compiled:
    """Compile for an architecture like ``sm_80``; for ``compute_80`` there is no machine code."""
    library = _library()
    assert library is not None
    program = ctypes.c_void_p()
    _check(
        library.nvrtcCreateProgram(
            ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None
        )
    )
    try:
        options = [f"-arch={architecture}".encode(), b"-std=c++17", b"--ptxas-options=-v"]
        failed = library.nvrtcCompileProgram(
            program, len(options), (ctypes.c_char_p * len(options))(*options)
        )
        log = _text(program, library.nvrtcGetProgramLogSize, library.nvrtcGetProgramLog)
        if failed:
            raise NvrtcError(log.decode())
        ptx = _text(program, library.nvrtcGetPTXSize, library.nvrtcGetPTX)
        real = architecture.startswith("sm_")
        cubin = _text(program, library.nvrtcGetCUBINSize, library.nvrtcGetCUBIN) if real else b""
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))
    return Compiled(ptx=ptx.rstrip(b"\0").decode(), cubin=cubin, log=log.rstrip(b"\0").decode())


def _text(program: ctypes.c_void_p, size_of: Callable[..., int], read: Callable[..., int]) -> bytes:
    size = ctypes.c_size_t()
    _check(size_of(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _check(read(program, buffer))
    return buffer.raw


def _check(code: int) -> None:
    if code:
        raise NvrtcError(f"error {code}")
