"""What the engine asks of a device: memory, launches, and a way back to the host.

CuPy is one; the tests have another, which runs the same kernels on the CPU.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

KERNELS = Path(__file__).with_name("kernels.cu")
"""All CUDA C there is."""

OPTIONS = ("-std=c++17",)
"""How it is compiled."""


class DeviceArray(Protocol):
    """A flat array in the memory of a device."""

    @property
    def nbytes(self) -> int: ...

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice) -> DeviceArray: ...

    def view(self, dtype: str) -> DeviceArray: ...


Argument: TypeAlias = "DeviceArray | int"


class Device(Protocol):
    """A device, and the stream on which everything happens in order."""

    def contents(self, data: object) -> DeviceArray:
        """Return the bytes of an array of the user's, without a copy if they are on the device."""

    def empty(self, count: int, dtype: str) -> DeviceArray:
        """Return an array with anything in it."""

    def fill(self, array: DeviceArray, byte: int) -> None:
        """Set all bytes of an array."""

    def copy(self, target: DeviceArray, source: DeviceArray) -> None:
        """Copy an array to another of its size."""

    def launch(
        self, kernel: str, threads: int, *arguments: Argument, bytes_per_thread: int = 8
    ) -> None:
        """Run a kernel with at least so many threads, or fewer that take turns.

        A block has shared memory of 24 words, and ``bytes_per_thread`` for each of its threads.
        """

    def launch_block(self, kernel: str, *arguments: Argument) -> None:
        """Run a kernel in a single block."""

    def to_host(self, array: DeviceArray) -> NDArray[np.uint8]:
        """Return the bytes of an array, in memory of the host; waits for everything before."""
