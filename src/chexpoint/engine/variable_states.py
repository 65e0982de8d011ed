"""States of the process that cells change and that can be put back: random numbers and settings.

They are treated like variables, under names that begin with a colon.
"""

from __future__ import annotations

import contextlib
import decimal
import functools
import logging
import pickle
import random
import sys
import types
import warnings
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import xxhash

from chexpoint.engine.variable_reads import CellUses
from chexpoint.image import set_states, states_now
from chexpoint.model import Digest

RANDOM = frozenset({":random", ":numpy:random", ":torch:random"})

# By what `chexpoint.image` calls them; torch has both kinds in one.
_NAMES = {"filters": ":warnings", "levels": ":logging"}
_KEYS = {name: key for key, name in _NAMES.items()}

# Libraries set these when they are imported; that is not the user's doing.
_WORDS = {
    ":warnings": {"warnings", "filterwarnings", "simplefilter", "captureWarnings"},
    ":logging": {"logging", "setLevel", "basicConfig", "getLogger", "set_verbosity"},
}
_DEFAULTS: dict[str, object] = {
    ":numpy:errors": {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"},
    ":numpy:print": {
        "edgeitems": 3,
        "threshold": 1000,
        "floatmode": "maxprec",
        "precision": 8,
        "suppress": False,
        "linewidth": 75,
        "nanstr": "nan",
        "infstr": "inf",
        "sign": "-",
        "formatter": None,
        "legacy": False,
        "override_repr": None,
    },
}
_SEEDED = {"random": ":random", "numpy.random": ":numpy:random", "torch": ":torch:random"}


@dataclass(slots=True)
class States:
    """The states of libraries, as cells leave them."""

    digests: dict[str, Digest] = field(default_factory=dict)
    """Of those that are not as they were at first."""
    _library_filters: set[str] = field(default_factory=set)
    _library_levels: dict[str, int] = field(default_factory=dict)
    _own_filters: set[str] = field(default_factory=set)
    _filters: list[Any] = field(default_factory=list)
    _texts: list[str] = field(default_factory=list)
    _own_levels: dict[str, int] = field(default_factory=dict)
    _first: dict[str, Digest] = field(default_factory=dict)
    _random: dict[str, Any] = field(default_factory=dict)
    """Of the generators, as the last cell has left them."""
    _settled: set[str] = field(default_factory=set)
    """Random states that a cell has written: before, they are different each time."""

    def start(self) -> None:
        """Take what is there now for what libraries have set."""
        self._adopt(frozenset())
        self.digests = {}
        for name, value in self._now().items():
            digest = _digest(value)
            self.digests[name] = digest
            if name not in RANDOM and name not in _DEFAULTS:
                self._first[name] = digest

    @contextlib.contextmanager
    def importing(self) -> Iterator[None]:
        """To be held while statements run that only import.

        Libraries draw numbers then, from Python's own generator, for names of theirs.  Where cells
        have given it its state, that counts all the same: what they draw next depends on it.
        """
        before = _digest(random.getstate())
        try:
            yield
        finally:
            if ":random" not in self._settled and self.digests.get(":random") == before:
                self.digests[":random"] = _digest(random.getstate())

    def changed(self, words: Collection[str], *, only_imports: bool = False) -> dict[str, object]:
        """Return the states that a cell has changed.

        Parameters
        ----------
        words
            Those in its text.
        only_imports
            Whether it calls nothing itself.
        """
        self._adopt(words)
        values = self._now()
        digests = {name: _digest(value) for name, value in values.items()}
        before, self.digests = self.digests, digests
        # They are at their default again.
        gone = before.keys() - digests.keys() - RANDOM
        found = {
            name: values[name]
            for name in digests
            if (
                before[name] != digests[name]
                if name in before
                else self._is_new(name, values[name], words)
            )
        }
        if only_imports:
            # Libraries may draw numbers when they are imported.
            found = {k: v for k, v in found.items() if k not in RANDOM or k in self._settled}
        self._settled |= found.keys() & RANDOM
        return found | dict.fromkeys(gone)

    def _is_new(self, name: str, value: Any, words: Collection[str]) -> bool:
        """Tell whether a cell has not only loaded a library, but changed its state, too."""
        if name == ":torch:random":
            torch: Any = sys.modules["torch"]
            return self.digests[name] != _digest(torch.Generator().get_state())
        if name == ":numpy:random":
            # It begins at the end of a block, as it does when it is seeded.
            is_drawn = value["state"].get("pos") not in {623, 624} or value["has_gauss"]
            return bool(is_drawn) or not {"seed", "set_state"}.isdisjoint(words)
        return not self.is_default(name)

    def random_back(self) -> None:
        """Let the generators be as the last cell has left them, after our own work."""
        for name, value in self._random.items():
            if name == ":random":
                random.setstate(value)
            elif name == ":numpy:random":
                sys.modules["numpy.random"].set_state(value)
            else:
                sys.modules["torch"].set_rng_state(value)

    def is_default(self, name: str) -> bool:
        """Tell whether a setting is what it was before any cell."""
        now = self.digests.get(name)
        if name in _DEFAULTS:
            return now is None or now == _default(name)
        if name == ":torch":
            return now is None or now == _torch_default()
        return now is None or now == self._first.get(name)

    def settings(self) -> set[str]:
        """Return the settings that are not at their default: every cell may depend on them."""
        return {name for name in self.digests if name not in RANDOM and not self.is_default(name)}

    def put(self, values: Mapping[str, Any]) -> None:
        """Put states in place, and know them."""
        states: dict[str, Any] = {}
        for name, value in values.items():
            if name == ":warnings":
                _put_filters(value)
            elif name == ":torch:random":
                torch: Any = sys.modules.get("torch")
                if torch is not None:
                    torch.set_rng_state(value)
            elif name == ":torch":
                _put_torch(value)
            else:
                _reset(name, value or {})
                if value is not None:
                    states[_KEYS.get(name, name[1:])] = value
        set_states(states)
        now = {name: _digest(value) for name, value in self._now().items()}
        for name in values:
            if name in now:
                self.digests[name] = now[name]
            else:
                self.digests.pop(name, None)

    def _adopt(self, words: Collection[str]) -> None:
        """Take filters and levels for a library's where the text of a cell does not name them.

        Not those that were the user's before.
        """
        if _WORDS[":warnings"].isdisjoint(words):
            texts = self._texts_of(list(warnings.filters))
            self._library_filters.update(set(texts) - self._own_filters)
        if _WORDS[":logging"].isdisjoint(words):
            levels = _levels().items()
            self._library_levels |= {k: v for k, v in levels if self._own_levels.get(k) != v}

    def _texts_of(self, filters: list[Any]) -> list[str]:
        """Return filters as texts: mostly they are those of the cell before."""
        if self._filters != filters:
            self._filters, self._texts = filters, list(map(repr, filters))
        return self._texts

    def _now(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in states_now().items():
            if key == "torch":
                found[":torch:random"] = value["seed"]
                found[":torch"] = {"dtype": value["dtype"], "grad": value["grad"]}
            elif key == "filters":
                texts = self._texts_of(value)
                self._own_filters = set(texts) - self._library_filters
                if self._own_filters:
                    pairs = zip(value, texts, strict=True)
                    found[":warnings"] = [each for each, text in pairs if text in self._own_filters]
            elif key == "levels":
                known = self._library_levels
                levels = {name: level for name, level in value.items() if known.get(name) != level}
                self._own_levels = levels
                if levels:
                    found[":logging"] = levels
            else:
                found[_NAMES.get(key, f":{key}")] = value
        self._random = {name: found[name] for name in RANDOM & found.keys()}
        return found


def _digest(value: Any) -> Digest:
    with contextlib.suppress(Exception):
        if type(value).__module__ == "torch":
            return xxhash.xxh3_128_hexdigest(memoryview(value.numpy()))
        if isinstance(value, decimal.Context):
            return xxhash.xxh3_128_hexdigest(repr(value).encode())
        return xxhash.xxh3_128_hexdigest(pickle.dumps(value, 5))
    return xxhash.xxh3_128_hexdigest(repr(value).encode())


@functools.cache
def _default(name: str) -> Digest:
    return _digest(_DEFAULTS[name])


@functools.cache
def _torch_default() -> Digest:
    torch: Any = sys.modules["torch"]
    return _digest({"dtype": torch.float32, "grad": True})


def _put_torch(value: Mapping[str, Any]) -> None:
    import importlib

    torch: Any = importlib.import_module("torch")
    torch.set_default_dtype(value["dtype"])
    torch.set_grad_enabled(value["grad"])


def _reset(name: str, wanted: Mapping[str, Any]) -> None:
    """Let options be at their default that are not among those wanted."""
    library: Any = sys.modules.get(name[1:])
    if library is None or name not in {":pandas", ":matplotlib"}:
        return
    changed = (states_now().get(name[1:]) or {}).keys() - wanted.keys()
    for key in changed:
        if name == ":pandas":
            library.reset_option(key)
        else:
            library.rcParams[key] = library.rcParamsDefault[key]


def _put_filters(own: list[Any] | None) -> None:
    now = [each for each in warnings.filters if each not in (own or [])]
    set_states({"filters": [*(own or []), *now]})


def _levels() -> dict[str, int]:
    loggers = {"": logging.root, **logging.root.manager.loggerDict}
    return {
        name: logger.level
        for name, logger in loggers.items()
        if isinstance(logger, logging.Logger) and logger.level
    }


def seeded(uses: CellUses, names: Mapping[str, object]) -> set[str]:
    """Return the random states that a cell sets before anything is drawn from them."""
    found: set[str] = set()
    for dotted in uses.seeds:
        root, *path = dotted.split(".")
        owner = names.get(root)
        home = getattr(owner, "__module__", "") if not path else ""
        for part in path[:-1]:
            owner = vars(owner).get(part) if isinstance(owner, types.ModuleType) else None
        if isinstance(owner, types.ModuleType):
            home = owner.__name__
        if home in _SEEDED:
            found.add(_SEEDED[home])
        elif home == "__main__" or path[-1:] == ["seed_everything"]:
            found |= RANDOM
    return found
