"""Rules for arrays on a GPU: their memory is handed to the store as it is, on the device.

A part on a device has a key of its own kind (``x/device0``), because it does not come through
pickle's list of buffers.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chexpoint.image import live
from chexpoint.image.lost import Lost

if TYPE_CHECKING:
    from chexpoint.image.pickler import ImagePickler


@dataclass(frozen=True, slots=True, eq=False)
class DevicePart:
    """Bytes on a device, for whoever understands ``__cuda_array_interface__``."""

    address: int
    nbytes: int
    owner: object
    """Keeps the memory alive."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": (self.nbytes,),
            "typestr": "|u1",
            "data": (self.address, True),
            "version": 3,
        }


def add_part(pickler: ImagePickler, address: int, nbytes: int, owner: object) -> int:
    """Add a part on a device; return its number among these."""
    number = sum(isinstance(part, DevicePart) for part in pickler.memory.parts)
    pickler.memory.parts.append(DevicePart(address, nbytes, owner))
    return number


def reduce_storage(pickler: ImagePickler, storage: Any) -> Any:
    """Write a storage of torch that is on a CUDA device."""
    known = pickler.kept.setdefault(("storage", storage.data_ptr()), storage)
    if known is not storage:
        return live.same, (known,)
    number = add_part(pickler, storage.data_ptr(), storage.nbytes(), storage)
    return torch_storage, (Device(number), str(storage.device))


def reduce_cupy(pickler: ImagePickler, obj: Any) -> Any:
    """Write an array of CuPy that owns its memory."""
    pickler.world.modules.add("cupy")
    if obj.base is not None or not (obj.flags.c_contiguous or obj.flags.f_contiguous):
        raise Lost("it is a view of memory on a device")
    number = add_part(pickler, obj.data.ptr, obj.nbytes, obj)
    return cupy_array, (Device(number), obj.shape, obj.dtype.str, obj.strides)


class Device:
    """Stands for a part on a device in a stream."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return live.device, (self.number,)


def torch_storage(part: Any, device: str) -> Any:
    """Return a storage of torch on a device."""
    import torch

    return torch.as_tensor(part, dtype=torch.uint8).to(device).untyped_storage()


def cupy_array(part: Any, shape: tuple[int, ...], dtype: str, strides: tuple[int, ...]) -> Any:
    """Return an array of CuPy."""
    cupy: Any = importlib.import_module("cupy")

    flat = cupy.asarray(part)
    return cupy.ndarray(shape, dtype, flat.data, strides)


RULES: Mapping[type | str, Callable[[ImagePickler, Any], Any]] = {"cupy.ndarray": reduce_cupy}
