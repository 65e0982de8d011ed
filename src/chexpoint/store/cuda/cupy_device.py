"""The door to CuPy: the only module that imports it."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from chexpoint.errors import InvalidValue, StoreError
from chexpoint.store.cuda.device import KERNELS, OPTIONS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from chexpoint.store.cuda.device import Argument, DeviceArray

_THREADS = 256
_BLOCKS_PER_PROCESSOR = 32
_SHARED_BYTES = 24 * 8


class CupyDevice:
    """The CUDA device that is current when this is made.

    Everything happens on a stream of its own.  A look is over before it returns, so that the user
    may change the array at once.
    """

    def __init__(self) -> None:
        self._cupy = load_cupy()
        self._device = self._cupy.cuda.Device()
        self._module = compiled_module()
        self._functions: dict[str, Any] = {}
        self._stream = self._cupy.cuda.Stream(non_blocking=True)
        self._most_blocks = _BLOCKS_PER_PROCESSOR * int(
            self._device.attributes["MultiProcessorCount"]
        )

    def contents(self, data: object) -> DeviceArray:
        """Return the bytes of an array, without a copy if they are on this device.

        Work that was begun on the array is waited for.
        """
        exported = ExportedBytes.of(torch_bytes(data))
        if exported is None:
            return self._upload(data)
        try:
            with self._device:
                contents = self._cupy.asarray(exported)
        except (TypeError, ValueError) as error:
            raise InvalidValue(f"the array cannot be read on the device: {error}") from error
        if exported.nbytes and contents.device.id != self._device.id:
            raise InvalidValue(
                f"the array is on device {contents.device.id}, and was on {self._device.id} before;"
                " start a new series."
            )
        return cast("DeviceArray", contents)

    def _upload(self, data: object) -> DeviceArray:
        try:
            host = np.frombuffer(memoryview(data).cast("B"), np.uint8)  # type: ignore[arg-type]
        except (TypeError, ValueError, BufferError) as error:
            raise InvalidValue(
                f"'{type(data).__name__}' has no contiguous bytes; give a contiguous array."
            ) from error
        array = self.empty(len(host), "u1")
        with self._device, self._stream:
            cast("Any", array).set(host, stream=self._stream)
            self._stream.synchronize()
        return array

    def empty(self, count: int, dtype: str) -> DeviceArray:
        """Return an array with anything in it."""
        try:
            with self._device, self._stream:
                return cast("DeviceArray", self._cupy.empty(count, dtype))
        except self._cupy.cuda.memory.OutOfMemoryError as error:
            raise StoreError(
                f"the device has no room for {count * np.dtype(dtype).itemsize} bytes more; "
                "free some, use larger chunks, or copy the array to the host."
            ) from error

    def fill(self, array: DeviceArray, byte: int) -> None:
        """Set all bytes of an array."""
        if array.nbytes:
            with self._device:
                cast("Any", array).data.memset_async(byte, array.nbytes, self._stream)

    def copy(self, target: DeviceArray, source: DeviceArray) -> None:
        """Copy an array to another of its size."""
        with self._device:
            cast("Any", target).data.copy_from_device_async(
                cast("Any", source).data, source.nbytes, self._stream
            )

    def launch(
        self, kernel: str, threads: int, *arguments: Argument, bytes_per_thread: int = 8
    ) -> None:
        """Run a kernel with at least so many threads, or fewer that take turns."""
        blocks = min(-(-threads // _THREADS), self._most_blocks)
        if blocks:
            self._run(kernel, blocks, arguments, _SHARED_BYTES + _THREADS * bytes_per_thread)

    def launch_block(self, kernel: str, *arguments: Argument) -> None:
        """Run a kernel in a single block."""
        self._run(kernel, 1, arguments, _SHARED_BYTES + _THREADS * 8)

    def _run(
        self, kernel: str, blocks: int, arguments: tuple[Argument, ...], shared_bytes: int
    ) -> None:
        words = tuple(np.uint64(one) if isinstance(one, int) else one for one in arguments)
        with self._device, self._stream:
            if kernel not in self._functions:
                self._functions[kernel] = self._module.get_function(kernel)
            function = self._functions[kernel]
            function((blocks,), (_THREADS,), words, shared_mem=shared_bytes)

    def to_host(self, array: DeviceArray) -> NDArray[np.uint8]:
        """Return the bytes of an array, in memory of the host; waits for everything before."""
        if not array.nbytes:
            return np.empty(0, np.uint8)
        host, runtime = self._pinned(array.nbytes), self._cupy.cuda.runtime
        with self._device:
            runtime.memcpyAsync(
                host.ctypes.data,
                cast("Any", array).data.ptr,
                array.nbytes,
                runtime.memcpyDeviceToHost,
                self._stream.ptr,
            )
            self._stream.synchronize()
        return host

    def _pinned(self, nbytes: int) -> NDArray[np.uint8]:
        try:
            with self._device:
                memory = self._cupy.cuda.alloc_pinned_memory(nbytes)
        except self._cupy.cuda.runtime.CUDARuntimeError:
            # The system allows no more of it: slower, but right.
            return np.empty(nbytes, np.uint8)
        return np.frombuffer(memory, np.uint8, nbytes)


class ExportedBytes:
    """Memory of a device that another library owns, as bytes, whatever they mean there."""

    def __init__(self, owner: object, interface: dict[str, Any]) -> None:
        self._owner = owner
        itemsize = np.dtype(interface["typestr"]).itemsize
        shape = tuple(interface["shape"])
        self.nbytes = int(np.prod(shape, dtype=np.int64)) * itemsize
        if self.nbytes and not _is_contiguous(shape, interface.get("strides"), itemsize):
            raise InvalidValue("the array is not C-contiguous; give a contiguous copy of it.")
        self.__cuda_array_interface__ = {
            **interface,
            "shape": (self.nbytes,),
            "typestr": "|u1",
            "strides": None,
            "descr": [("", "|u1")],
        }

    @classmethod
    def of(cls, data: object) -> ExportedBytes | None:
        """Return the memory of an array on a device; None if it is on the host."""
        interface = getattr(data, "__cuda_array_interface__", None)
        if interface is not None:
            return cls(data, interface)
        where = getattr(data, "__dlpack_device__", None)
        if where is None or int(where()[0]) not in {2, 13}:  # CUDA, and CUDA managed
            return None
        try:
            array = load_cupy().from_dlpack(data)
        except (BufferError, TypeError, ValueError, RuntimeError) as error:
            raise InvalidValue(f"the array cannot be read on the device: {error}") from error
        return cls(array, array.__cuda_array_interface__)


def _is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...] | None, itemsize: int) -> bool:
    if strides is None:
        return True
    expected = itemsize
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length != 1 and stride != expected:
            return False
        expected *= length
    return True


def torch_bytes(data: object) -> object:
    """Return a tensor of torch as bytes: it exports neither gradients nor all of its types."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(data, torch.Tensor) or not data.is_cuda:
        return data
    if not data.is_contiguous() or data.is_conj() or data.is_neg():
        raise InvalidValue("the tensor is not contiguous; give tensor.contiguous().")
    # Its export says nothing of streams.
    torch.cuda.current_stream(data.device).synchronize()
    return data.detach().reshape(-1).view(torch.uint8)


@cache
def load_cupy() -> Any:
    """Return CuPy.

    Raises
    ------
    StoreError
        If it is not installed, or there is no device that it can use.
    """
    try:
        cupy = import_module("cupy")
    except ImportError as error:
        raise StoreError(
            "the engine 'cuda' needs CuPy: install chexpoint[gpu], or use another engine."
        ) from error
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise StoreError(
            f"the engine 'cuda' needs a CUDA device, and there is none that works ({error}): "
            "use another engine."
        ) from error
    if not count:
        raise StoreError("the engine 'cuda' needs a CUDA device: use another engine.")
    return cupy


@cache
def compiled_module() -> Any:
    """Return the kernels; CuPy compiles them once for each kind of device."""
    module = load_cupy().RawModule(code=KERNELS.read_text(encoding="utf-8"), options=OPTIONS)
    try:
        module.compile()
    except Exception as error:  # Whatever CuPy raises, the compiler is not there or too old.
        reason = str(error).strip().splitlines()
        raise StoreError(
            f"the kernels cannot be compiled ({reason[0] if reason else type(error).__name__}): "
            "install chexpoint[gpu] again, or use another engine."
        ) from error
    return module
