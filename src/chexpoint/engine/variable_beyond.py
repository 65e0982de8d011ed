"""What a cell changes in its process that is no variable, and cannot be put back.

It makes the cell one that cannot be passed over.
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import locale
import logging
import os
import signal
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from chexpoint.engine.variable_facts import Reader
from chexpoint.engine.variable_reads import CellUses
from chexpoint.image import is_importable, is_own, own_data
from chexpoint.model import Digest

_MODULE_S = 0.003
"""What may be spent on the data of one module."""

HARMLESS_MAGICS = frozenset(
    {"capture", "lsmagic", "pwd", "time", "timeit", "who", "who_ls", "whos"}
    | {"pinfo", "pinfo2", "psource", "pdoc", "pfile", "history", "hist"}
)
# They change how IPython reads or shows the cells after them.
_LASTING_MAGICS = frozenset(
    {"alias", "alias_magic", "autocall", "automagic", "colors", "config", "doctest_mode", "macro"}
    | {"pprint", "precision", "pylab", "rehashx", "unalias", "xmode"}
)


@dataclass(slots=True)
class Beyond:
    """What a cell may change that is no variable and no state which can be put back."""

    reader: Reader
    _facts: dict[str, object] = field(default_factory=dict)
    _own: dict[str, Digest] = field(default_factory=dict)
    _seen: list[str] = field(default_factory=list)
    is_lasting: bool = False
    """Whether what the last cell has changed may matter to others, and it is not seen to which."""

    def begin(self) -> None:
        """Note how things are before a cell."""
        self._facts = _process_facts()
        self._meet_modules()

    def changed(self, uses: CellUses, names: Mapping[str, object]) -> str:
        """Return what a cell has changed, or nothing."""
        self.is_lasting = False
        has_imported = len(sys.modules) != len(self._seen)
        reasons = []
        for what, value in _process_facts().items():
            # Libraries change some things when they are imported, and do so again elsewhere.
            theirs = has_imported and _THEIRS.get(what, uses.words).isdisjoint(uses.words)
            if self._facts.get(what, value) != value and not theirs:
                is_named = what.startswith("sys.") and (
                    not has_imported or not _SYS_WORDS.isdisjoint(uses.words)
                )
                self.is_lasting = self.is_lasting or is_named or what not in _SEEN_LATER
                reasons.append(f"it changes {what}")
        for magic in uses.magics:
            if magic not in HARMLESS_MAGICS and not magic.startswith("chex_"):
                what = "a command of the system" if magic == "!" else f"%{magic}"
                is_shell = magic == "get_ipython"
                self.is_lasting = self.is_lasting or magic in _LASTING_MAGICS
                reasons.append("it uses IPython itself" if is_shell else f"it runs {what}")
        if "resetwarnings" in uses.words:
            reasons.append("it changes the filters of warnings")
        if "__main__" in uses.imports:
            reasons.append("it imports __main__")  # which is no variable
        if patched := _patched(uses, names):
            self.is_lasting = True
            reasons.append(f"it sets {patched}")
        self._meet_modules()
        # Variables may be what such a module holds, too.
        if self._own and (why := self._changed_module(uses)):
            self.is_lasting = True
            reasons.append(why)
        return reasons[0] if reasons else ""

    def _changed_module(self, uses: CellUses) -> str:
        """Return that one of the user's own modules has changed, or nothing."""
        before, self._own = self._own, {name: self._digest(name) for name in self._own}
        for name, digest in self._own.items():
            is_unread = not digest or not before[name]
            is_named = name.rpartition(".")[2] in uses.words
            if is_named if is_unread else digest != before[name]:
                return f"it changes what module {name} holds"
        return ""

    def _meet_modules(self) -> None:
        """Read what the user's own modules hold that are new."""
        count = len(self._seen)
        if len(sys.modules) == count:
            return
        # Mostly some are added at the end.
        before, self._seen = self._seen, list(sys.modules)
        new = self._seen[count:]
        if self._seen[:count] != before:
            new = sorted(set(self._seen).difference(before))
        for name in new:
            module = sys.modules.get(name)
            path = getattr(module, "__file__", None)
            # Most are, and there are thousands.
            if type(path) is str and "site-packages" in path:
                continue
            if is_own(module) and getattr(module, "__name__", "") == name:
                self._own[name] = self._digest(name)

    def _digest(self, name: str) -> Digest:
        module = sys.modules.get(name)
        if not isinstance(module, types.ModuleType):
            return ""
        return self.reader.read(own_data(module), _MODULE_S)[0].digest


# What files a cell reads is known, wherever it looks for them; the rest is no matter of cells.
# Scripts are told their own names before their first cell, and have all others in common.
_SYS_WORDS = frozenset({"sys", "path", "argv"})
_SEEN_LATER = frozenset(
    {"sys.path", "sys.argv", "what runs at exit"}
    | {"the extensions of IPython", "what IPython calls", "how IPython reads cells"}
)

# The words of a cell that changes these itself.
_THEIRS: Mapping[str, frozenset[str]] = {
    "the environment": frozenset({"environ", "putenv", "unsetenv", "load_dotenv", "setenv"}),
    "what runs at exit": frozenset({"atexit"}),
    "the hooks of the interpreter": frozenset({"excepthook", "signal", "settrace", "setprofile"}),
    "the built-in names": frozenset({"builtins"}),
    "the back end of matplotlib": frozenset({"use", "switch_backend"}),
    "what loggers do": frozenset(
        {"addHandler", "basicConfig", "dictConfig", "disabled", "fileConfig", "getLogger"}
        | {"handlers", "logging", "propagate", "removeHandler"}
    ),
}


def _process_facts() -> dict[str, object]:
    facts: dict[str, object] = {
        "the working folder": _folder(),
        # Not as text: to decode all of it takes longer than all else here.
        "the environment": hash(frozenset(os.environ._data.items())),  # type: ignore[attr-defined]
        "sys.path": tuple(sys.path),
        "sys.argv": tuple(map(str, sys.argv)),
        "the recursion limit": sys.getrecursionlimit(),
        "what runs at exit": atexit._ncallbacks(),
        "the hooks of the interpreter": tuple(map(id, _hooks())),
        "the built-in names": len(vars(builtins)),
        "the locale": locale.setlocale(locale.LC_ALL),
        "what loggers do": _loggers(),
        "the streams": (id(sys.stdout), id(sys.stderr)),
        "the interpreter": (sys.getswitchinterval(), sys.get_int_max_str_digits()),
    }
    mock: Any = sys.modules.get("unittest.mock")
    if mock is not None:
        facts["what mock has replaced"] = tuple(map(id, mock._patch._active_patches))
    matplotlib: Any = sys.modules.get("matplotlib")
    if matplotlib is not None:
        with contextlib.suppress(Exception):
            back_end = dict.get(matplotlib.rcParams, "backend")
            if isinstance(back_end, str):  # it was chosen
                facts["the back end of matplotlib"] = back_end
    return facts | _shell_facts()


def _loggers() -> tuple[object, ...]:
    """Return the loggers that are not as they are made, and what they give messages to."""
    every = [logging.root, *logging.root.manager.loggerDict.values()]
    return tuple(
        (id(each), each.disabled, each.propagate, *map(id, each.handlers))
        for each in every
        if isinstance(each, logging.Logger)
        and (each.handlers or each.disabled or not each.propagate)
    )


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""


def _hooks() -> list[object]:
    found: list[Callable[..., object] | object] = [sys.excepthook, sys.gettrace(), sys.getprofile()]
    with contextlib.suppress(Exception):
        found += [signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGTERM)]
    return found


def _shell_facts() -> dict[str, object]:
    core: Any = sys.modules.get("IPython.core.interactiveshell")
    shell = getattr(getattr(core, "InteractiveShell", None), "_instance", None)
    if shell is None:
        return {}
    with contextlib.suppress(Exception):
        return {
            "the extensions of IPython": frozenset(shell.extension_manager.loaded),
            "what IPython calls": sum(map(len, shell.events.callbacks.values())),
            "how IPython reads cells": (
                len(shell.input_transformers_post),
                len(shell.ast_transformers),
            ),
        }
    return {}


def _patched(uses: CellUses, names: Mapping[str, object]) -> str:
    """Return an attribute of a module, or of a class in one, that the text of a cell sets."""
    for dotted in uses.targets:
        root, *path, _ = dotted.split(".")
        owner: Any = names.get(root)
        for part in path:
            if not isinstance(owner, type | types.ModuleType):
                break
            owner = vars(owner).get(part)
        is_module = isinstance(owner, types.ModuleType)
        if is_module or (isinstance(owner, type) and is_importable(owner)):
            return dotted
    return ""
