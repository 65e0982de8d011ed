"""A device that is a CPU: the kernels of the CUDA engine, in an order that a seed decides."""

from __future__ import annotations

import ctypes
import re
import weakref
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from chexpoint.store.cuda import KERNELS
from tests.support.cuda.toolchain import shared_library

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from chexpoint.store.cuda.device import Argument, DeviceArray

_GUARD = 64
"""Bytes around each array, which nobody may write."""

_POISON = 0xA5


class KernelError(Exception):
    """A kernel did what leaves the result undefined on a device."""


def kernel_names(source: str) -> list[str]:
    """Return the kernels that a source defines."""
    return re.findall(r"^KERNEL (\w+)\(", source, re.MULTILINE)


def host_source(source: str) -> str:
    """Return CUDA C as C++ that a compiler for the CPU takes."""
    runners = "".join(f"RUNNER({name})\n" for name in kernel_names(source))
    return f'#include "shim.h"\n{source}\n{runners}'


def with_kernels_only(source: str, names: Collection[str]) -> str:
    """Return a source without its other kernels: compiling all takes longer."""

    def keep(found: re.Match[str]) -> str:
        return found[0] if found[1] in names else ""

    return re.sub(r"^KERNEL (\w+)\(.*?^\}\n", keep, source, flags=re.MULTILINE | re.DOTALL)


class EmulatedDevice:
    """Runs kernels that were compiled for the CPU; see `Device`.

    Parameters
    ----------
    libraries
        The kernels and the runtime; a kernel is taken from the first that has it.
    seed
        Decides the order of threads, the number of blocks in flight, and the size of blocks.
    yield_odds
        A thread loses the processor at one of so many atomics; 0 for never.
    """

    def __init__(self, *libraries: Path, seed: int = 0, yield_odds: int = 2) -> None:
        self._libraries = [ctypes.CDLL(str(library)) for library in libraries]
        self._seed = seed
        self._odds = yield_odds
        self._threads = (64, 32, 128, 96)[seed % 4]
        self._most_blocks = (3, 1, 16, 5)[seed % 4]
        self._arrays: list[weakref.ref[NDArray[np.uint8]]] = []
        self.launches = 0
        self.fail_at = 0
        """The launch that fails, if any."""
        self.copied: list[int] = []
        """Bytes of each copy to the host."""

    def contents(self, data: object) -> DeviceArray:
        """Return the bytes of an array, where they are."""
        array = np.asarray(data)
        return cast("DeviceArray", array.reshape(-1).view(np.uint8))

    def empty(self, count: int, dtype: str) -> DeviceArray:
        """Return an array full of nonsense, with guards around it."""
        size = count * np.dtype(dtype).itemsize
        whole = np.full(size + 2 * _GUARD, _POISON, np.uint8)
        self._arrays.append(weakref.ref(whole))
        return cast("DeviceArray", whole[_GUARD : _GUARD + size].view(dtype))

    def fill(self, array: DeviceArray, byte: int) -> None:
        """Set all bytes of an array."""
        cast("NDArray[np.uint8]", array.view("u1"))[:] = byte

    def copy(self, target: DeviceArray, source: DeviceArray) -> None:
        """Copy an array to another of its size."""
        assert target.nbytes == source.nbytes
        cast("NDArray[np.uint8]", target.view("u1"))[:] = cast(
            "NDArray[np.uint8]", source.view("u1")
        )

    def launch(
        self, kernel: str, threads: int, *arguments: Argument, bytes_per_thread: int = 8
    ) -> None:
        """Run a kernel with at least so many threads, or fewer that take turns."""
        blocks = min(-(-threads // self._threads), self._most_blocks)
        if blocks:
            self._run(kernel, blocks, arguments, 24 * 8 + self._threads * bytes_per_thread)

    def launch_block(self, kernel: str, *arguments: Argument) -> None:
        """Run a kernel in a single block."""
        self._run(kernel, 1, arguments, 24 * 8 + self._threads * 8)

    def _run(
        self, kernel: str, blocks: int, arguments: tuple[Argument, ...], shared_bytes: int
    ) -> None:
        words = [one if isinstance(one, int) else _address(one) for one in arguments]
        self.launches += 1
        if self.launches == self.fail_at:
            raise KernelError("failed on purpose")
        library = next(one for one in self._libraries if hasattr(one, f"run_{kernel}"))
        library.emu_launch.restype = ctypes.c_char_p
        error = library.emu_launch(
            getattr(library, f"run_{kernel}"),
            (ctypes.c_uint64 * len(words))(*words),
            ctypes.c_uint(blocks),
            ctypes.c_uint(self._threads),
            ctypes.c_uint64(shared_bytes),
            ctypes.c_uint64(self._seed * 1000003 + self.launches),
            ctypes.c_uint(self._odds),
        )
        if error:
            raise KernelError(f"{kernel}: {error.decode()}")

    def to_host(self, array: DeviceArray) -> NDArray[np.uint8]:
        """Return a copy, after a look at all guards."""
        self._arrays = [one for one in self._arrays if one() is not None]
        for whole in self._arrays:
            guards = cast("NDArray[np.uint8]", whole())
            if (guards[:_GUARD] != _POISON).any() or (guards[-_GUARD:] != _POISON).any():
                raise KernelError("a write outside of an array")
        self.copied.append(array.nbytes)
        return cast("NDArray[np.uint8]", array.view("u1")).copy()


def _address(array: DeviceArray) -> int:
    return cast("NDArray[np.uint8]", array).ctypes.data


def build_source(source: str, folder: Path) -> Path:
    """Compile CUDA C for the CPU."""
    return shared_library(host_source(source), folder)


def kernels() -> str:
    """Return the kernels as they are shipped."""
    return KERNELS.read_text(encoding="utf-8")
