"""The machine as the probes of ``chex doctor`` see it.

Probes ask a `Machine` and never the system itself, so that every restricted machine can be
played in a test.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import errno
import importlib.util
import os
import platform
import resource
import site
from pathlib import Path
from typing import Protocol

from chexpoint.cli.install import KERNEL_NAME
from chexpoint.lineage import architecture, install

# Exit codes of a child that tries the filter; the last one and beyond are error numbers.
_GAVE_UP, _FAILED = 1, 2

PR_SET_CHILD_SUBREAPER = 36
PR_GET_CHILD_SUBREAPER = 37


class Machine(Protocol):
    """What a probe may ask.

    Methods that touch the system raise ``OSError`` where it forbids or lacks what they need;
    none changes anything that outlives the call.
    """

    def read_text(self, path: str) -> str:
        """Return the contents of a small file under /proc or /sys."""

    def fork_child(self) -> int:
        """Fork a child that ends at once, reap it, and return its exit code."""

    def process_limit(self) -> int | None:
        """Return how many processes the user may have, or ``None`` if there is no limit."""

    def make_memfd(self) -> None:
        """Create a file in memory and drop it."""

    def become_subreaper(self) -> None:
        """Adopt orphaned grandchildren for a moment."""

    def openmp_libraries(self) -> dict[str, bool]:
        """Return the installed GNU OpenMP libraries, and whether each one can be paused."""

    def has_library(self, name: str) -> bool:
        """Tell whether a shared library can be loaded."""

    def has_module(self, name: str) -> bool:
        """Tell whether a Python module is installed, without importing it."""

    def kernel_spec(self) -> str | None:
        """Return the folder of the installed CHEX kernel spec, if Jupyter finds one."""

    def try_filter(self) -> bool:
        """Put a child under the audit's filter; return whether that cost it its privileges."""


class ThisMachine:
    """The machine this process runs on."""

    def read_text(self, path: str) -> str:
        """Return the contents of ``path``."""
        return Path(path).read_text(encoding="utf-8", errors="replace")

    def fork_child(self) -> int:
        """Fork and reap."""
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        return os.waitstatus_to_exitcode(status)

    def process_limit(self) -> int | None:
        """Return RLIMIT_NPROC."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
        return None if soft == resource.RLIM_INFINITY else soft

    def make_memfd(self) -> None:
        """Call memfd_create(2)."""
        if not hasattr(os, "memfd_create"):
            raise OSError("this Python has no os.memfd_create")
        os.close(os.memfd_create("chex-doctor"))

    def become_subreaper(self) -> None:
        """Set the subreaper flag and put it back."""
        before = ctypes.c_int()
        _prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(before))
        _prctl(PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1))
        _prctl(PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(before.value))

    def openmp_libraries(self) -> dict[str, bool]:
        """Look at the system's libgomp and at those that wheels bring."""
        return {name: _can_pause(name) for name in _openmp_candidates()}

    def has_library(self, name: str) -> bool:
        """Try to load ``name``."""
        return _load(name) is not None

    def has_module(self, name: str) -> bool:
        """Look for ``name`` on the import path."""
        return importlib.util.find_spec(name) is not None

    def kernel_spec(self) -> str | None:
        """Ask Jupyter."""
        from jupyter_client.kernelspec import KernelSpecManager

        return KernelSpecManager().find_kernel_specs().get(KERNEL_NAME)

    def try_filter(self) -> bool:
        """Fork a child that installs the filter and ends."""
        arch = architecture()
        if arch is None:
            raise OSError(errno.ENOSYS, f"system calls of {platform.machine()} are not known")
        pid = os.fork()
        if pid == 0:
            try:
                os._exit(_GAVE_UP if install(arch).gave_up_privileges else 0)
            except OSError as error:
                os._exit(_FAILED + min(error.errno or 0, 255 - _FAILED))
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if code >= _FAILED or code < 0:
            raise OSError(code - _FAILED, os.strerror(code - _FAILED))
        return code == _GAVE_UP


def _prctl(option: int, argument: object) -> None:
    library = _load(None)
    if library is None or not hasattr(library, "prctl"):
        raise OSError("the C library has no prctl")
    if library.prctl(option, argument, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _load(name: str | None) -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(name, use_errno=True)
    except OSError:
        return None


def _openmp_candidates() -> list[str]:
    system = ctypes.util.find_library("gomp")
    folders = [Path(folder) for folder in (*site.getsitepackages(), site.getusersitepackages())]
    bundled = {
        str(path)
        for folder in folders
        if os.access(folder, os.R_OK | os.X_OK)
        for pattern in ("*.libs/libgomp*.so*", "torch/lib/libgomp*.so*")
        for path in folder.glob(pattern)
    }
    return [*([system] if system else []), *sorted(bundled)]


def _can_pause(name: str) -> bool:
    library = _load(name)
    return library is not None and hasattr(library, "omp_pause_resource_all")
