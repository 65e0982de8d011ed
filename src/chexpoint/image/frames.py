"""Rules for pandas: the only door to it.

Frames share memory until one of them is written, and keep a list of who shares it.  Pickling drops
the list; memory that came back shared would then be written through.  So whoever is on such a list
gets memory of its own when it is loaded, which is what the first write would have given it.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chexpoint.image.pickler import ImagePickler


class Own:
    """Stands in a stream for values that get memory of their own."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __reduce__(self) -> tuple[Any, ...]:
        return copied, (self.values,)


def copied(values: Any) -> Any:
    """Return a copy of an array, in the same order."""
    return values.copy("K") if type(values).__module__ == "numpy" else values.copy()


def reduce_block(pickler: ImagePickler, obj: Any) -> Any:
    """Write a block of a frame: some of its columns, of one type."""
    pickler.world.modules.add("pandas")
    if not _is_shared(pickler, obj.values, getattr(obj, "refs", None)):
        return NotImplemented
    make, (values, *rest), *more = obj.__reduce__()
    return make, (Own(values), *rest), *more


def reduce_series(pickler: ImagePickler, obj: Any) -> Any:
    """Write the values and the index of a series."""
    pickler.world.modules.add("pandas")
    block = obj.blocks[0]
    if not _is_shared(pickler, block.values, getattr(block, "refs", None)):
        return NotImplemented
    blocks = [{"values": Own(block.values), "mgr_locs": block.mgr_locs.indexer}]
    state = {"0.14.1": {"axes": list(obj.axes), "blocks": blocks}}
    return copyreg.__newobj__, (type(obj),), ([], [], [], state)  # type: ignore[attr-defined]


def reduce_index(pickler: ImagePickler, obj: Any) -> Any:
    """Write an index."""
    pickler.world.modules.add("pandas")
    if not _is_shared(pickler, getattr(obj, "_data", None), getattr(obj, "_references", None)):
        return NotImplemented
    make, (kind, state), *more = obj.__reduce__()
    if "data" not in state:
        return NotImplemented
    return make, (kind, state | {"data": Own(state["data"])}), *more


def reduce_arrow(pickler: ImagePickler, obj: Any) -> Any:
    """Write a column of Arrow's that is in one chunk; pickling would copy it first."""
    pickler.world.modules.add("pandas")
    state = dict(vars(obj))
    chunks = getattr(state.get("_pa_array"), "chunks", None)
    if not chunks or len(chunks) > 1 or not _is_whole(chunks[0]):
        return NotImplemented
    state |= {"_pa_array": chunks[0]} | ({"_cache": {}} if "_cache" in state else {})
    return copyreg.__newobj__, (type(obj),), state  # type: ignore[attr-defined]


def _is_whole(chunk: Any) -> bool:
    """Tell whether a chunk shows all of its memory: else much that is not its own is written."""
    spare = int(chunk.get_total_buffer_size()) - int(chunk.nbytes)
    return chunk.offset == 0 and spare <= _PADDING * len(chunk.buffers())


# Arrow's buffers are multiples of it.
_PADDING = 64


def _is_shared(pickler: ImagePickler, values: Any, references: Any) -> bool:
    """Tell whether pandas knows of another object with the same memory."""
    if references is None:
        return False
    is_joined = pickler.memory.track(values, id(references))
    if id(values) in pickler.alone:
        return False
    # A stream that stands for itself must not depend on who else is there.
    is_shared = (pickler.is_lone and not is_joined) or bool(references.has_reference())
    if is_shared:
        pickler.memory.own(values)
    return is_shared


RULES: Mapping[type | str, Callable[[ImagePickler, Any], Any]] = {
    "pandas._libs.internals.Block": reduce_block,
    "pandas.core.internals.managers.SingleBlockManager": reduce_series,
    "pandas.core.indexes.base.Index": reduce_index,
    "pandas.Index": reduce_index,
    "pandas.arrays.ArrowExtensionArray": reduce_arrow,
    "pandas.core.arrays.arrow.array.ArrowExtensionArray": reduce_arrow,
}
