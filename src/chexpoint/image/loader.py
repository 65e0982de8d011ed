"""Loads a stream: the other side of the pickler."""

from __future__ import annotations

import _pickle
import gc
import io
import weakref
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from chexpoint.image import live
from chexpoint.image.lost import Lost
from chexpoint.image.ndarrays import loaded_memory

DEVICE_MARK = "/device"


class Loader(_pickle.Unpickler):
    """Loads one stream into a namespace.

    Parameters
    ----------
    keys
        The parts of the stream, in its order.
    part
        Returns the contents of a part; they become the memory of arrays, without a copy.
    """

    def __init__(
        self,
        data: bytes,
        keys: Sequence[str],
        part: Callable[[str], Any],
        names: dict[str, Any],
    ) -> None:
        on_device = [key for key in keys if DEVICE_MARK in key]
        in_memory = [key for key in keys if DEVICE_MARK not in key]
        super().__init__(io.BytesIO(data), buffers=map(part, in_memory))
        self._names = names
        self._device = [lambda key=key: part(key) for key in on_device]
        self._weak: list[weakref.ref[Any]] = []
        self._late: list[tuple[type, Any]] = []
        self._nans: dict[int | str, float] = {}

    def persistent_load(self, pid: int | str) -> float:
        """Return the not-a-number that a name stands for, each time the same."""
        if pid not in self._nans:
            known = {"math", "numpy"} & {pid}
            self._nans[pid] = import_module(known.pop()).nan if known else float("nan")
        return self._nans[pid]

    def find_class(self, module: str, name: str) -> Any:
        """Return what a stream names; what is bound to the state is found here."""
        if module == live.__name__ and name in live.BOUND:
            return getattr(self, name)
        if module == "__main__":
            raise Lost(f"it names {name} of the notebook, which another variable may change")
        return super().find_class(module, name)

    def run(self, count: int) -> list[Any]:
        """Return the values that the stream holds.

        Raises
        ------
        Lost
            If it cannot be what it was.
        """
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            return self._run(count)
        finally:
            # It holds all that was loaded, and methods of this loader: a cycle.
            self.memo.clear()
            if was_enabled:
                gc.enable()

    def _run(self, count: int) -> list[Any]:
        loaded = [self.load() for _ in range(count)]
        for cls, value in self._late:
            # A base must not be told of subclasses it was told of when they were defined.
            type.__setattr__(cls, "__init_subclass__", value)
        if self._weak:
            self.memo.clear()
            # All that was loaded is in the youngest generation: nothing was collected meanwhile.
            gc.collect(0)
            if any(reference() is None for reference in self._weak):
                raise Lost("nothing that is stored holds the target of a weak reference")
        return loaded

    def main(self) -> dict[str, Any]:
        """Return the namespace."""
        return self._names

    def memory(self, buffer: Any) -> Any:
        """Return a buffer as an array of bytes; what was in the stream gets memory of its own."""
        import numpy as np

        view = memoryview(bytearray(buffer) if isinstance(buffer, bytes) else buffer).cast("B")
        return loaded_memory()(view.nbytes, np.uint8, view)

    def weak(self, target: Any) -> weakref.ref[Any]:
        """Return a weak reference."""
        made = weakref.ref(target)
        self._weak.append(made)
        return made

    def weak_container(self, kind: Callable[..., Any], items: Any) -> Any:
        """Return a weak dictionary or set."""
        made = kind(items)
        if issubclass(kind, weakref.WeakSet):  # type: ignore[arg-type]
            self._weak.extend(map(weakref.ref, items))
        else:
            place = 1 if issubclass(kind, weakref.WeakValueDictionary) else 0  # type: ignore[arg-type]
            self._weak.extend(weakref.ref(item[place]) for item in items)
        return made

    def fill_class(self, cls: Any, state: dict[str, Any]) -> None:
        """Give a class its attributes, without running code of its bases or its metaclass."""
        members = state.pop(":members", {})
        registered = state.pop(":registered", [])
        if "__init_subclass__" in state:
            self._late.append((cls, state.pop("__init_subclass__")))
        for name, value in state.items():
            type.__setattr__(cls, name, value)
        live.prepare_abstract(cls)
        for other in registered:
            cls.register(other)
        for name, attributes in members.items():
            vars(cls.__members__[name]).update(attributes)

    def device(self, number: int) -> Any:
        """Return a part that belongs on a device."""
        return self._device[number]()
