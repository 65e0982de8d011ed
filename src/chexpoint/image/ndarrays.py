"""Rules for NumPy arrays, and what makes them again.

An array is a view of a block of memory: strides, order, the read-only flag and the sharing between
arrays survive.  NumPy is not imported here: where it is not loaded there are no arrays.
"""

from __future__ import annotations

import array
import functools
import mmap
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from chexpoint.image import live
from chexpoint.image.lost import Lost
from chexpoint.image.memory import SMALL_BYTES, Block

if TYPE_CHECKING:
    from chexpoint.image.pickler import ImagePickler

MASKED = ("numpy.ma.MaskedArray", "numpy.ma.core.MaskedArray")
SPARSE = 2
"""A view of memory this many times its size is stored as a copy: most of that is not its own."""


def reduce_block(_: ImagePickler, block: Block) -> Any:
    """Write a block of memory: as a part of its own, or into the stream if it is small."""
    from pickle import PickleBuffer

    view = block.view()
    if view.nbytes < SMALL_BYTES:
        return live.memory, (bytes(view),)
    return live.memory, (PickleBuffer(view),)


def reduce_array(pickler: ImagePickler, obj: Any) -> Any:
    """Write an array."""
    import numpy as np

    kind = type(obj)
    pickler.world.modules.add("numpy")
    if kind is not np.ndarray:
        return _reduce_subclass(obj, kind, np.ndarray)
    if obj.dtype.hasobject:
        return _reduce_objects(obj)
    if obj.size == 0 or obj.dtype.itemsize == 0:
        return make_empty, (obj.dtype, obj.shape, obj.flags.writeable)
    owner = _owner(obj)
    if isinstance(owner, bytes | bytearray | array.array):
        start = np.frombuffer(owner, np.uint8).__array_interface__["data"][0]
        return view_of, (owner, *_geometry(obj, start))
    _check_owner(pickler, owner)
    start, end = np.lib.array_utils.byte_bounds(obj)
    if end - start > SPARSE * obj.nbytes and pickler.memory.joined_span(start, end) is None:
        pickler.memory.spans.append((start, end))
        obj = obj.copy(order="K")
        pickler.kept[id(obj)] = obj
        # Not one of its spans: where the copy was, another array may be later.
        block = Block(*np.lib.array_utils.byte_bounds(obj), obj)
        pickler.kept[id(block)] = block
    else:
        block = pickler.memory.block(start, end, obj)
    return view_of, (block, *_geometry(obj, block.start))


def _geometry(obj: Any, start: int) -> tuple[Any, ...]:
    """Return how an array lies in memory that begins at an address."""
    offset = obj.__array_interface__["data"][0] - start
    strides = None if obj.flags.c_contiguous else obj.strides
    return obj.dtype, obj.shape, strides, offset, obj.flags.writeable


def _owner(obj: Any) -> object:
    """Return whose memory an array shows: the end of the chain of its bases."""
    import numpy as np

    owner: Any = obj
    while True:
        if type(owner) is loaded_memory():
            return owner  # a tensor may show the same memory, and knows nothing of what is below
        if isinstance(owner, np.ndarray) and owner.base is not None:
            owner = owner.base
        elif isinstance(owner, memoryview) and owner.obj is not None:
            owner = owner.obj
        else:
            return owner


def _check_owner(pickler: ImagePickler, owner: object) -> None:
    """Refuse memory that others may change; remember owners that nothing is known of."""
    import numpy as np

    if isinstance(owner, mmap.mmap):
        raise Lost("its memory is a mapped file")
    if not isinstance(owner, np.ndarray) and type(owner).__module__.partition(".")[0] != "torch":
        pickler.memory.exporters[id(owner)] = owner


def _reduce_subclass(obj: Any, kind: type, base: type) -> Any:
    """Write an array of a subclass as a plain one, its class and its attributes.

    NumPy's own pickling drops the attributes, and that of masked arrays copies the memory.
    """
    is_masked = f"{kind.__module__}.{kind.__name__}" in MASKED and not obj.dtype.hasobject
    is_plain = kind.__reduce__ is base.__reduce__ and kind.__setstate__ is base.__setstate__  # type: ignore[attr-defined]
    if not is_masked and not is_plain:
        return NotImplemented
    return as_subclass, (obj.view(base), kind, dict(getattr(obj, "__dict__", {})))


def _reduce_objects(obj: Any) -> Any:
    """Write an array of Python objects; a view refers to the array it shows."""
    base = _owner(obj)
    if base is obj:
        return NotImplemented
    if getattr(base, "dtype", None) != obj.dtype or type(base) is not type(obj):
        raise Lost("it shows objects in the memory of something else")
    start = base.__array_interface__["data"][0]  # type: ignore[attr-defined]
    return view_of, (base, *_geometry(obj, start))


def reduce_memmap(pickler: ImagePickler, obj: Any) -> Any:
    """Write a mapped file that is read only as its path; the file must not change."""
    import numpy as np

    if not isinstance(obj.base, mmap.mmap) and obj.mode == "r" and not obj.flags.writeable:
        return reduce_array(pickler, np.array(obj))
    if obj.mode != "r" or obj.filename is None or not isinstance(obj.base, mmap.mmap):
        raise Lost("it is a mapped file that can be written")
    status = os.stat(obj.filename)
    order = "C" if obj.flags.c_contiguous else "F"
    signature = (status.st_size, status.st_mtime_ns)
    pickler.world.modules.add("numpy")
    return open_memmap, (str(obj.filename), signature, obj.dtype, obj.offset, obj.shape, order)


@functools.cache
def loaded_memory() -> Any:
    """Return the type of the memory that an image brought.

    It is a type of its own so that a view of a loaded array refers to that array, not past it to
    the memory: then it can be seen that nothing else shows it.
    """
    import numpy as np

    return type("LoadedMemory", (np.ndarray,), {"__module__": __name__})


def owns_memory(obj: Any) -> bool:
    """Tell whether an array has its memory for itself, as long as nothing refers to the array."""
    return bool(obj.flags.owndata) or type(obj.base) is loaded_memory()


def view_of(
    memory: Any,
    dtype: Any,
    shape: tuple[int, ...],
    strides: tuple[int, ...] | None,
    offset: int,
    is_writable: bool,
) -> Any:
    """Return an array that lies in memory, which another array or a bytes object owns."""
    import numpy as np

    if dtype.hasobject:
        first = memory.ravel(order="K")[offset // dtype.itemsize :]
        steps = strides or _contiguous_strides(shape, dtype.itemsize)
        made = np.lib.stride_tricks.as_strided(first, shape, steps)
    else:
        made = np.ndarray(shape, dtype, memory, offset, strides)
    if not is_writable:
        made.flags.writeable = False
    return made


def _contiguous_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return the strides of an array in C order."""
    strides = [itemsize]
    for length in reversed(shape[1:]):
        strides.append(strides[-1] * length)
    return tuple(reversed(strides)) if shape else ()


def make_empty(dtype: Any, shape: tuple[int, ...], is_writable: bool) -> Any:
    """Return an array without contents."""
    import numpy as np

    made = np.empty(shape, dtype)
    made.flags.writeable = is_writable
    return made


def as_subclass(plain: Any, kind: Any, attributes: dict[str, Any]) -> Any:
    """Return an array as one of a subclass, with its attributes."""
    made = plain.view(kind)
    if attributes:
        made.__dict__.update(attributes)
    return made


def open_memmap(
    path: str,
    signature: tuple[int, int],
    dtype: Any,
    offset: int,
    shape: tuple[int, ...],
    order: Any,
) -> Any:
    """Return a mapped file, if it is the one that was mapped before."""
    import numpy as np

    status = os.stat(path)
    if (status.st_size, status.st_mtime_ns) != signature:
        raise Lost(f"{path} has changed")
    return np.memmap(path, dtype, "r", offset, shape, order)


RULES: Mapping[type | str, Callable[[ImagePickler, Any], Any]] = {
    "chexpoint.image.memory.Block": reduce_block,
    "numpy.ndarray": reduce_array,
    "numpy.memmap": reduce_memmap,
}
