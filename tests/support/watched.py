"""A notebook without a kernel, whose variables are watched."""

from __future__ import annotations

import linecache
import sys
import types
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from chexpoint.engine.variables import VariableWatch
from chexpoint.image import Capture, TouchLog, capture
from chexpoint.model import CellVariables, VariableGroup

Seen = dict[int, tuple[int, Any]]


class Watched:
    """A namespace, and what is told about the cells that ran in it."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}
        self.watch = VariableWatch(lambda: self.names, main=self.names)
        # Modules of tests are no modules of the notebook's: there are hundreds.
        self.watch._beyond._seen = list(sys.modules)
        self.groups: dict[str, VariableGroup] = {}
        """The group of each variable, as it was told last."""
        self.error: Exception | None = None

    def run(self, source: str, *, seconds: float = 60.0) -> CellVariables:
        """Run a cell that is said to have taken long, so that there is time for everything."""
        self.watch.begin(source)
        self.error = run_cell(source, self.names)
        found = self.watch.finish(source, seconds=seconds)
        for name in found.deleted:
            self.groups.pop(name, None)
        for group in found.writes:
            self.groups |= dict.fromkeys(group.names, group)
        return found

    def image_of(self, names: Iterable[str]) -> Capture:
        """Return an image of some variables."""
        return capture(self.names, touches=TouchLog(), only=set(names))

    def __getitem__(self, name: str) -> Any:
        return self.names[name]


@st.composite
def programs(draw: st.DrawFn, cells: Sequence[str], names: Sequence[str]) -> list[str]:
    """Draw cells, of one or two statements each.

    Parameters
    ----------
    cells
        Statements, with ``{x}``, ``{y}`` and ``{z}`` for variables.
    names
        Those that are put in.
    """
    found = []
    for _ in range(draw(st.integers(1, 12))):
        parts = draw(st.lists(st.sampled_from(cells), min_size=1, max_size=2))
        letters = st.sampled_from(names)
        texts = [part.format(x=draw(letters), y=draw(letters), z=draw(letters)) for part in parts]
        found.append("\n".join(texts))
    return found


def run_cell(source: str, names: dict[str, Any]) -> Exception | None:
    """Run a cell in a namespace; return what it raised."""
    filename = f"<cell {hash(source)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    try:
        exec(compile(source, filename, "exec", dont_inherit=True), names)  # noqa: S102
    except Exception as error:
        return error.with_traceback(None)
    return None


def written(found: CellVariables) -> list[tuple[str, ...]]:
    """Return the names of the groups that a cell wrote."""
    return [group.names for group in found.writes]


def form_of(value: Any, seen: Seen | None = None) -> Any:
    """Return the contents of a value in a form that can be compared; sharing inside it counts."""
    seen = {} if seen is None else seen
    if isinstance(value, (int, float, str, bytes, bool, type(None), np.generic)):
        return type(value).__name__, repr(value)
    if isinstance(value, types.ModuleType):
        return "module", value.__name__
    if id(value) in seen:
        return "again", seen[id(value)][0]
    # With the object itself, so that no other gets its id.
    seen[id(value)] = (len(seen), value)
    return type(value).__name__, _parts_of(value, seen)


def _parts_of(value: Any, seen: Seen) -> Any:
    parts: Any = repr(value)
    if isinstance(value, (list, tuple)):
        parts = [form_of(each, seen) for each in value]
    elif isinstance(value, dict):
        parts = [(form_of(key, seen), form_of(each, seen)) for key, each in value.items()]
    elif isinstance(value, (set, frozenset)):
        parts = sorted(map(repr, value))
    elif isinstance(value, np.ndarray):
        parts = str(value.dtype), value.shape, value.tobytes()
    elif isinstance(value, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        code = value.__code__
        parts = code.co_code, repr(code.co_names), form_of([value.__defaults__, cells], seen)
    elif isinstance(value, types.MethodType):
        parts = form_of(value.__self__, seen), form_of(value.__func__, seen)
    elif isinstance(value, types.BuiltinFunctionType):
        parts = value.__name__, form_of(value.__self__, seen)
    elif isinstance(value, type):
        own = {k: v for k, v in vars(value).items() if not k.startswith("__")}
        parts = value.__qualname__, form_of(own, seen)
    elif hasattr(value, "__dict__"):
        parts = form_of(type(value), seen), form_of(vars(value), seen)
    return parts
