"""Compiles the kernels for the CPU, with whatever C++ compiler there is."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent


class CompileError(Exception):
    """A compiler refused its input."""


@cache
def compiler() -> tuple[str, ...]:
    """Return the command of a C++ compiler; empty if there is none."""
    for name in (os.environ.get("CXX", ""), "c++", "g++", "clang++"):
        if name and shutil.which(name.split()[0]):
            return tuple(name.split())
    if importlib.util.find_spec("ziglang"):
        return (sys.executable, "-m", "ziglang", "c++", "-fno-sanitize=undefined")
    return ()


def build(source: str, folder: Path, *, runtime: str, flags: Sequence[str]) -> Path:
    """Compile a source, and link it with a runtime of this folder; the same input only once."""
    partial = [_object(text, folder, flags) for text in (source, _read(runtime))]
    made = folder / f"{_digest(*(path.name for path in partial), *flags)}.so"
    return made if made.exists() else _compile([*flags, *map(str, partial)], made)


def _object(source: str, folder: Path, flags: Sequence[str]) -> Path:
    headers = [_read(path.name) for path in sorted(HERE.glob("*.h"))]
    name = _digest(source, *headers, *flags)
    made = folder / f"{name}.o"
    if made.exists():
        return made
    text = folder / f"{name}-{os.getpid()}.cpp"
    text.write_text(source, encoding="utf-8")
    return _compile([*(flag for flag in flags if flag != "-shared"), "-c", str(text)], made)


def _compile(arguments: list[str], made: Path) -> Path:
    # Others may be at it too.
    partial = made.with_suffix(f".{os.getpid()}")
    command = [
        *compiler(),
        "-std=c++17",
        # Jumps between the stacks of fibres look like errors to the checks of hardened libraries.
        *("-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=0", "-w", "-pthread", "-fno-strict-aliasing"),
        *(f"-I{HERE}", "-o", str(partial), *arguments),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompileError(done.stderr[-4000:])
    partial.rename(made)
    return made


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _read(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def shared_library(source: str, folder: Path) -> Path:
    """Compile a translation of the kernels, and the runtime with its fibres."""
    return build(source, folder, runtime="fibres.cpp", flags=["-O1", "-fPIC", "-shared"])


def race_detector(source: str, folder: Path) -> Path:
    """Compile a program that ends with an error if threads of the kernels race."""
    program = f"{source}\n{_read('races.cpp')}"
    flags = ["-O1", "-g", "-fsanitize=thread"]
    return build(program, folder, runtime="threads.cpp", flags=flags)
