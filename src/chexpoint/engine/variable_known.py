"""What is known about all variables of a namespace: facts, groups, names that functions use."""

from __future__ import annotations

import builtins
import decimal
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from chexpoint.engine.variable_digests import LARGE_BYTES, Held, TooMuch, clock
from chexpoint.engine.variable_facts import (
    SOME_FUNCTION,
    Facts,
    Reader,
    Small,
    plain_function,
    quick_facts,
)
from chexpoint.engine.variable_groups import Sharing
from chexpoint.engine.variable_looking import is_closed
from chexpoint.engine.variable_tables import Span, is_table, memory_of
from chexpoint.engine.variable_text import ANY
from chexpoint.image import is_mutable
from chexpoint.model import Digest, Seconds

_CLOSED_LOOKS = 50
_LEAST_S = 0.05
_OVERDRAFT_S = 0.25
Token = tuple[int, int]
"""The ids of a value and of its type."""


def token_of(value: object) -> Token:
    """Return what tells two values apart while they live."""
    return id(value), id(type(value))


@dataclass(slots=True)
class Look:
    """One look at the variables."""

    names: dict[str, Any]
    end: float
    """Until when there is time."""
    is_kept: Callable[[str], bool] = lambda _: False
    """Tells whether a variable is surely what it was."""
    smalls: dict[str, Small] = field(default_factory=dict)
    overdraft: Seconds = _OVERDRAFT_S
    """How much more may be spent to see what variables share."""
    unread: set[str] = field(default_factory=set)
    """Those that may have changed, and have to be read."""

    def left(self) -> Seconds:
        """Return how much time there is."""
        return self.end - clock()


class Known:
    """What is known about variables; no value is kept alive.

    Parameters
    ----------
    main
        The namespace that functions of the notebook have as their globals.
    """

    def __init__(self, main: dict[str, Any]) -> None:
        self.main = main
        self.reader = Reader((main, vars(sys.modules["__main__"])))
        self.facts: dict[str, Facts] = {}
        self.tokens: dict[str, Token] = {}
        self.sharing = Sharing()
        self.imports: dict[str, None] = {}
        """Modules that cells have imported."""
        self.function_names: set[str] = set()
        """Names that functions use which cells have defined."""
        self._closed: dict[str, tuple[Facts, bool]] = {}
        self._held: dict[str, tuple[int, set[int]]] = {}
        self._functions: dict[str, tuple[object, ...] | None] = {}

    def forget(self) -> None:
        """Know nothing about variables any more."""
        self.facts, self.tokens, self.sharing, self._closed = {}, {}, Sharing(), {}
        self._functions = {}

    def read_all(self, names: Iterable[str], look: Look) -> None:
        """Read variables, those first that take the least time."""
        later = []
        changed = (each for each in names if not self._is_same_function(each, look.names[each]))
        for name in sorted(changed):
            value = look.names[name]
            quick = quick_facts(value, self.imports)
            if quick is None:
                known = self.facts.get(name)
                later.append((known.cost_s if known else 0.0, name))
            else:
                self._know(name, value, quick)
        waiting = [each for each in sorted(later) if not self._is_left_alone(each[1], look)]
        look.unread = {name for _, name in waiting}
        for cost, name in waiting:
            value = look.names[name]
            left = look.left()
            small = None
            is_late = cost > left or left <= 0
            if is_late and look.is_kept(name):
                continue
            held = self.held(look)
            if not is_late and left >= _LEAST_S:
                facts, small = self.reader.read(value, left, held=held)
            elif cost <= look.overdraft and look.overdraft > 0:
                # Who does not see what it shares has to take all for one group, and then none of
                # it is ever the same again.
                started = clock()
                facts, small = self.reader.read(value, look.overdraft, arrays_s=_LEAST_S, held=held)
                look.overdraft -= max(0.0, clock() - started - max(left, 0.0))
            elif not is_late:
                facts, small = self.reader.read(value, left, held=held)
            else:
                facts = self.reader.unread(value, TooMuch(), cost / 2)
            if not facts.digest and not facts.why_not and look.is_kept(name):
                continue
            self._know(name, value, facts)
            look.unread.discard(name)
            if small is not None:
                look.smalls[name] = small

    def _is_left_alone(self, name: str, look: Look) -> bool:
        """Tell whether a large variable need not be read: a cell has surely left it as it was."""
        known = self.facts.get(name)
        return known is not None and known.size_bytes >= LARGE_BYTES and look.is_kept(name)

    def held(self, look: Look) -> Held:
        """Return what tells which contents of memory are known: what tables hold at this moment.

        What was taken out of a table, or put together from several, shows the same memory until
        one of them is written; so large tables need not be read to the end.
        """

        def known() -> dict[Span, Digest]:
            found: dict[Span, Digest] = {}
            for name in self.facts.keys() - look.unread:
                places = dict(self.facts[name].places)
                value = look.names.get(name)
                if places and is_table(value) and self.tokens.get(name) == token_of(value):
                    spans = places.keys() & set(memory_of(value))
                    found |= {span: places[span] for span in spans}
            return found

        return known

    def _know(self, name: str, value: object, facts: Facts) -> None:
        # Where it lay before has to be forgotten while that is known.
        self.sharing.drop(name, self.facts.get(name))
        self.facts[name] = facts
        self.tokens[name] = token_of(value)
        self._functions[name] = plain_function(value, self.main)

    def _is_same_function(self, name: str, value: object) -> bool:
        """Tell whether a variable is a function that is surely what it was."""
        known = self._functions.get(name)
        is_there = known is not None and self.tokens.get(name) == token_of(value)
        return is_there and plain_function(value, self.main) == known

    def drop(self, name: str) -> None:
        """Forget a variable."""
        self.sharing.drop(name, self.facts.pop(name, None))
        self.tokens.pop(name, None)
        self._closed.pop(name, None)
        self._functions.pop(name, None)

    def place(self, names: set[str], *, holders: int = 2) -> None:
        """Find the groups of variables that were read again.

        Parameters
        ----------
        holders
            How many tables refer to each value: the namespace, and that of the look.
        """
        looks = [_CLOSED_LOOKS]
        stop = {id(self.main), id(sys.modules), id(vars(builtins))}

        def closed(name: str) -> bool:
            facts = self.facts[name]
            known = self._closed.get(name)
            if known is not None and known[0] is facts:
                return known[1]
            looks[0] -= 1
            answer = looks[0] > 0 and is_closed(self.main.get(name), stop, holders)
            self._closed[name] = (facts, answer)
            return answer

        for name in names:
            self.sharing.drop(name, self.facts.get(name))
        self.sharing.place(names, self.facts, closed)

    def closure(self, first: Iterable[str], every: set[str]) -> set[str]:
        """Return names, with those that functions use which can be reached from them.

        A function may be called through whatever shares objects with it: all of a group count.
        """
        found: set[str] = set()
        waiting = list(first)
        while waiting:
            name = waiting.pop()
            if name in found:
                continue
            found.add(name)
            group = self.sharing.groups.get(name, (name,))
            known = [self.facts[each].reaches for each in group if each in self.facts]
            reaches = frozenset().union(*known)
            if ANY in reaches:
                return set(every)
            waiting += (reaches | self.more_names(reaches)) & every
        return found

    def more_names(self, reaches: frozenset[str]) -> set[str]:
        """Return the names that any function uses, if a value may hold any function."""
        if SOME_FUNCTION not in reaches:
            return set()
        return self.function_names.union(*(each.reaches for each in self.facts.values()))

    def of_library(self, root: str) -> set[str]:
        """Return the variables that hold something of a library."""
        return {
            name
            for name, each in self.facts.items()
            if any(module.partition(".")[0] == root for module in (each.kind, *each.modules))
        }

    def holder_of(self, value: object) -> str:
        """Return the module, of those that cells have imported, that holds a value itself.

        A copy of it would not be what functions of the module use.
        """
        if not is_mutable(value):
            return ""
        if type(value) is decimal.Context and value is decimal.getcontext():
            return "decimal"
        for name in self.imports:
            module = sys.modules.get(name)
            if module is None or module is value:
                continue
            count = len(vars(module))
            known = self._held.get(name)
            if known is None or known[0] != count:
                known = self._held[name] = count, set(map(id, vars(module).values()))
            # One that was put in the place of another has the same name.
            if id(value) in known[1] and any(each is value for each in vars(module).values()):
                return name
        return ""
