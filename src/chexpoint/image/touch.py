"""What cells may have changed: so that an image looks again only at what it must."""

from __future__ import annotations

import gc
import sys
import types
from collections.abc import Iterable, Mapping
from typing import Any, Self

from chexpoint.image.modules import is_importable
from chexpoint.image.source import CellNames, names_of_functions, read_cell
from chexpoint.model import ImageDocument


class TouchLog:
    """The cells of a worker, and which variables each of them may have changed.

    It errs on one side only: a variable that it calls unchanged is.  A cell touches the names in
    its source.  Names that a function uses count as touched by all later cells, because any of them
    may call it, by whatever way it got hold of it.
    """

    def __init__(self) -> None:
        self.line: tuple[str, ...] = ()
        """Uids of the cells so far."""
        self.imports: dict[str, None] = {}
        """Modules that cells imported, in order."""
        self.patches: dict[tuple[str, str, str], None] = {}
        """Attributes of modules and of their classes that cells have set: module, class, name."""
        self._touched: dict[str, int] = {}
        """The number of the last cell that may have changed a name."""
        self._all_touched = -1
        """The number of the last cell that may have changed all of them."""
        self._deferred: set[str] = set()
        """Names that functions use."""
        self._sole: dict[str, int] = {}
        """Since which cell nothing but the namespace refers to a variable's value."""
        self._ids: dict[str, int] = {}
        """What each name was bound to after the last cell."""
        self._is_resumed = False
        """Whether an image brought the variables that are there before the first cell."""
        self._unread = False
        """Whether there are functions whose source was not seen."""
        self._start = 0
        """How many cells ran elsewhere, before this log began."""

    @classmethod
    def resumed(cls, line: Iterable[str], *, document: ImageDocument | None = None) -> Self:
        """Return the log of a worker that was loaded from an image.

        Parameters
        ----------
        line
            The cells that led to the image.
        document
            The image, if what its cells imported and patched is to be known.
        """
        log = cls()
        log.line = tuple(line)
        log._start = len(log.line)
        log._is_resumed = True
        log._unread = True
        if document is not None:
            log.imports = dict.fromkeys(document.facts.get("imports", ()))
            log.patches = dict.fromkeys((a, b, c) for a, b, c in document.facts.get("patches", ()))
        return log

    def ran(self, uid: str, source: str, namespace: Mapping[str, object]) -> None:
        """Note that a cell was run.

        Parameters
        ----------
        source
            What Python ran: magics are calls of ``get_ipython`` in it.
        namespace
            The namespace after the cell.
        """
        number = len(self.line)
        self.line = (*self.line, uid)
        names = read_cell(source)
        if names.is_opaque:
            self._all_touched = number
            self._unread = True
        if self._unread:
            self._deferred |= _names_in_functions(namespace)
            self._unread = False
        self._deferred |= names.deferred
        self._touched |= dict.fromkeys(names.direct, number)
        self.imports |= dict.fromkeys(names.imports)
        self._note_patches(names, namespace)
        # A library may bind names that a cell does not mention: `dill.load_session` does.
        ids = {name: id(value) for name, value in namespace.items()}
        rebound = [name for name, now in ids.items() if self._ids.get(name, now) != now]
        self._touched |= dict.fromkeys(rebound, number)
        self._ids = ids
        self._sole = {name: self._sole_since(name, number) for name in sole_names(namespace)}

    def _sole_since(self, name: str, number: int) -> int:
        """Return since which cell a value is sole that is so after a cell."""
        known = self._sole.get(name)
        if known is not None:
            return known
        # What an image brought was sole when it came; a cell that does not touch it keeps it so.
        is_brought = self._is_resumed and number == self._start and self.last_touch(name) < number
        return number - 1 if is_brought else number

    def everything(self) -> None:
        """Note that something which is no cell may have changed all variables."""
        self._all_touched = len(self.line)
        self._unread = True

    def last_touch(self, name: str) -> int:
        """Return the number of the last cell that may have changed a variable; -1 for none."""
        return max(self._all_touched, self._touched.get(name, -1))

    def last_cell(self, name: str) -> str:
        """Return the uid of the last cell that may have changed a variable; empty for none."""
        number = len(self.line) - 1 if name in self._deferred else self.last_touch(name)
        return self.line[min(number, len(self.line) - 1)] if number >= 0 and self.line else ""

    def is_sole(self, name: str) -> bool:
        """Tell whether only the namespace refers to a value, since a cell last touched it."""
        since = self._sole.get(name)
        return since is not None and since <= self.last_touch(name)

    def changed_since(
        self, line: tuple[str, ...], name: str, *, is_immutable: bool = False
    ) -> bool:
        """Tell whether a variable may have changed since the state that a line of cells led to.

        Parameters
        ----------
        is_immutable
            Whether the value cannot change, only the name be bound to another.
        """
        count = len(line)
        if self.line[:count] != line or name.startswith(("_", ":")):
            return True
        if self.last_touch(name) >= count:
            return True
        if self._is_just_loaded(count):
            return False
        if self._unread or name in self._deferred:
            return True
        since = self._sole.get(name)
        return not is_immutable and (since is None or since >= count)

    def _is_just_loaded(self, count: int) -> bool:
        """Tell whether an image of that many cells was loaded, and no cell has run since."""
        return self._is_resumed and self._start == count == len(self.line)

    def _note_patches(self, names: CellNames, namespace: Mapping[str, object]) -> None:
        """Note attributes of modules, or of classes in modules, that a cell has set."""
        for dotted in names.targets:
            root, *path, attribute = dotted.split(".")
            owner: Any = namespace.get(root)
            for part in path:
                if not isinstance(owner, type | types.ModuleType):
                    break
                owner = vars(owner).get(part)
            if isinstance(owner, types.ModuleType) and owner.__name__ != "__main__":
                self.patches[owner.__name__, "", attribute] = None
            elif isinstance(owner, type) and is_importable(owner):
                self.patches[owner.__module__, owner.__qualname__, attribute] = None


def sole_names(namespace: Mapping[str, object]) -> list[str]:
    """Return the names whose values nothing but the namespace refers to."""
    usual = _reference_counts({"": object()})[0]
    return [
        name
        for name, count in zip(namespace, _reference_counts(namespace), strict=True)
        if count == usual
    ]


def _reference_counts(namespace: Mapping[str, object]) -> list[int]:
    return [sys.getrefcount(value) for value in namespace.values()]


def _names_in_functions(namespace: Mapping[str, object]) -> set[str]:
    """Return the names that functions of a namespace use, wherever they are.

    A generator keeps its function alive, so those of suspended ones are found too.
    """
    found: set[str] = set()
    for obj in gc.get_referrers(namespace, vars(sys.modules["__main__"])):
        if isinstance(obj, types.FunctionType):
            found.update(obj.__code__.co_names, names_of_functions(obj.__code__))
    return found
