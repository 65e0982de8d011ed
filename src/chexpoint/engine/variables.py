"""What a cell did to the variables: which it used, and which it changed, by whatever way.

Before a cell its text tells the names that it may use, and the functions behind them the names that
those may use; what shares objects with one of them may change with it.  After the cell all of these
are read again, as they would be stored, and compared with what they were.  There is a budget for
the time this takes: what does not fit counts as changed.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from chexpoint.engine.variable_beyond import Beyond
from chexpoint.engine.variable_contents import LoadedGroup, imported
from chexpoint.engine.variable_digests import clock
from chexpoint.engine.variable_facts import Facts, quick_facts, safe_kind
from chexpoint.engine.variable_groups import Group
from chexpoint.engine.variable_harmless import Harmless
from chexpoint.engine.variable_hidden import BEYOND, hidden_call, set_in_library
from chexpoint.engine.variable_known import Known, Look, Token, token_of
from chexpoint.engine.variable_reads import CellUses, read_uses
from chexpoint.engine.variable_scores import Scores
from chexpoint.engine.variable_states import RANDOM, States, seeded
from chexpoint.engine.variable_telling import PART, Teller
from chexpoint.engine.variable_text import ASKING, FILES
from chexpoint.image import (
    INTERPRETERS,
    trouble_of,
    without_warnings,
)
from chexpoint.lineage import has_users_tasks, is_users_thread
from chexpoint.model import ArtifactId, CellVariables, Seconds, VariableGroup

LEAST_BUDGET_S = 0.015
"""What may be spent after any cell."""

SHARE = 0.02
"""And of a longer cell this share of its time."""

MOST_SAVED_S = 1.0
"""What was not spent may be spent later, up to this."""

LOADED_BUDGET_S = 2.0
"""What may be spent on variables that were loaded, which took longer."""


@dataclass(slots=True)
class _Cell:
    """A cell that runs."""

    uses: CellUses
    before: dict[str, Token]
    reads: set[str]
    touched: set[str]
    direct: set[str]
    """Names that only its own text uses, no function that it can reach."""
    has_figures: bool
    shown: int
    """How many values cells have shown before it."""
    seconds: Seconds = 0.0
    """What was spent on it before it ran."""
    warm: tuple[ArtifactId, ...] = ()
    """Models that it began with."""


class VariableWatch:
    """Watches the variables of a namespace, cell by cell.

    Parameters
    ----------
    namespace
        Returns the user's variables, by name.
    main
        The namespace that functions of the notebook have as their globals.
    """

    def __init__(
        self,
        namespace: Callable[[], Mapping[str, Any]],
        *,
        main: dict[str, Any] | None = None,
    ) -> None:
        self._namespace = namespace
        self._known = Known(vars(sys.modules["__main__"]) if main is None else main)
        self._teller = Teller(self._known)
        self._saved: Seconds = 0.0
        self._cell: _Cell | None = None
        self._scores = Scores()
        self._beyond = Beyond(self._known.reader)
        self._states = States()
        self._states.start()
        self._has_beyond = False
        """Whether a cell has changed what libraries hold: any later one may depend on it."""
        self._held: set[str] = set()
        """Variables that libraries may hold: any call of one may change them."""
        self._had_threads = False

    def prepare(self) -> None:
        """Load what is needed after a cell; else the first one waits for it."""
        from importlib import metadata

        # The first question about any library lists all that is installed.
        with contextlib.suppress(metadata.PackageNotFoundError):
            metadata.distribution("ipython")
        sample: list[object] = [[], {}, (), "", 1.0, len]
        facts, small = self._known.reader.read(sample, LOADED_BUDGET_S)
        if small is not None and facts.digest:
            trouble_of([sample], small, self._known.reader.world())
        self._beyond.begin()

    # ------------------------------------------------------------ cells

    def begin(self, source: str) -> None:
        """Look at things before a cell.

        Parameters
        ----------
        source
            The cell as plain Python, after IPython has transformed it.
        """
        started = clock()
        self._cell = None
        with contextlib.suppress(Exception), self._undisturbed():
            self._cell = self._begun(source)
            self._cell.seconds = clock() - started

    def finish(self, source: str, *, seconds: Seconds) -> CellVariables:
        """Return what a cell did, which began with `begin`.

        Parameters
        ----------
        seconds
            How long it took.
        """
        started = clock()
        cell, self._cell = self._cell, None
        budget = max(LEAST_BUDGET_S, SHARE * seconds) + self._saved
        before = cell.seconds if cell is not None else 0.0
        try:
            with self._undisturbed():
                if cell is None:
                    found = self._lost_track()
                else:
                    found = self._finished(cell, started + budget - before)
        except Exception as error:  # whatever the user's objects do: everything may have changed
            found = self._lost_track(type(error).__name__)
        spent = clock() - started + before
        self._saved = min(MOST_SAVED_S, max(0.0, budget - spent))
        return replace(found, seconds=spent)

    def importing(self) -> contextlib.AbstractContextManager[None]:
        """To be held while statements of a cell run that only import."""
        return self._states.importing()

    def began_with(
        self, artifact: ArtifactId, *, changes: Iterable[str], reads: Iterable[str]
    ) -> None:
        """Note that the running cell puts a stored model into a variable.

        Parameters
        ----------
        changes
            Variables that it changes, which its text does not show.
        reads
            Variables that it depends on.
        """
        if self._cell is not None:
            changed = set(changes)
            self._cell.warm += (artifact,)
            self._cell.touched |= changed
            self._cell.direct -= changed
            self._cell.reads |= set(reads) & self._cell.before.keys()

    def forget(self) -> None:
        """Know nothing any more: something that is no cell may have changed any variable."""
        self._known.forget()

    def _lost_track(self, why: str = "") -> CellVariables:
        """Return that a cell may have done anything."""
        self._scores.finish(CellUses(), {})
        names = sorted(self._names())
        self.forget()
        kinds = tuple(safe_kind(self._names().get(name)) for name in names)
        reason = f"what it did to variables could not be seen ({why or 'no beginning'})"
        group = VariableGroup(names=tuple(names), kinds=kinds, why_not=reason)
        return CellVariables(reads=tuple(names), writes=(group,) if names else (), sticky=reason)

    @contextlib.contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """Show no warnings, and collect no garbage: there is little, and looking takes long."""
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            self._known.reader.forget_types()
            if was_enabled:
                gc.enable()

    def _shown(self) -> int:
        """Return how many values cells have shown."""
        return len(self._known.main.get("_oh", ()))

    def _names(self) -> dict[str, Any]:
        return {
            name: value for name, value in self._namespace().items() if name not in INTERPRETERS
        }

    # ------------------------------------------------------------ before

    def _begun(self, source: str) -> _Cell:
        names = self._names()
        uses = read_uses(source)
        tokens = {name: token_of(value) for name, value in names.items()}
        for name in [
            each for each in self._known.facts if self._known.tokens.get(each) != tokens.get(each)
        ]:
            self._known.drop(name)
        # Only what is not known yet takes time.
        look = Look(names, clock() + LEAST_BUDGET_S / 2 + self._saved / 2)
        with without_warnings():
            self._learn_reach(uses, look)
        every = set(names)
        reads = every if uses.is_opaque else self._known.closure(uses.reads & every, every)
        touched = every if uses.is_opaque else self._known.closure(uses.touched & every, every)
        behind = self._known.function_names | uses.deferred
        direct = uses.touched - behind.union(*(each.reaches for each in self._known.facts.values()))
        held = self._known.closure(self._held & every, every)
        touched, direct = touched | held, direct - held
        if self._had_threads or _has_threads(self._known.main):
            touched, direct = every, set()
        self._scores.begin()
        self._beyond.begin()
        return _Cell(uses, tokens, set(reads), set(touched), direct, _has_figures(), self._shown())

    def _learn_reach(self, uses: CellUses, look: Look) -> None:
        """Get to know the variables that a cell may use, and those behind them."""
        every = look.names.keys()
        while True:
            wanted = (
                every if uses.is_opaque else self._known.closure(uses.touched & every, set(every))
            )
            unknown = {name for name in wanted if name not in self._known.facts}
            if not unknown:
                return
            self._known.read_all(unknown, look)
            self._known.place(unknown)

    # ------------------------------------------------------------ after

    def _finished(self, cell: _Cell, end: float) -> CellVariables:
        uses = cell.uses
        # One that it changes in part may matter to it as well.
        settings = self._states.settings()
        states = self._states.changed(uses.words, only_imports=uses.only_imports)
        names = self._names()
        scores = self._scores.finish(uses, names)
        sticky = self._beyond.changed(uses, names)
        known, touched, direct = self._known, cell.touched, cell.direct
        harmless = Harmless(uses, names, cell.before, touched=touched, direct=direct, known=known)
        look = Look(names, end, harmless.is_kept)
        self._known.imports |= dict.fromkeys(each for each in uses.imports if each in sys.modules)
        self._known.function_names |= uses.deferred
        deleted = sorted(cell.before.keys() - names.keys())
        with without_warnings():
            old = dict(self._known.sharing.groups)
            candidates = self._candidates(cell, names)
            gone = self._known.sharing.of(deleted) - set(deleted)
            for name in deleted:
                self._known.drop(name)
            facts = {name: self._known.facts.get(name) for name in candidates}
            self._known.read_all(candidates, look)
            self._known.place(candidates | gone)
            changed = {
                name for name in candidates if _differs(facts[name], self._known.facts[name])
            }
            groups = self._written(changed, candidates | gone, old)
            writes = [self._teller.group(group, look) for group in groups]
            writes += [
                self._teller.state(name, value, self._states.digests.get(name, "default"))
                for name, value in sorted(states.items())
            ]
        self._states.random_back()
        written = {name for group in groups for name in group}
        mutated = {
            name
            for name in written & cell.before.keys()
            if name not in uses.bound or cell.before[name] == self._known.tokens.get(name)
        }
        reads = (cell.reads | mutated) & cell.before.keys()
        drawn = (states.keys() & RANDOM) - seeded(uses, names)
        beyond = {BEYOND} if self._has_beyond else set()
        if self._asks_about_files(cell):
            beyond.add(FILES)
        is_shown = self._shown() > cell.shown
        hidden = hidden_call(
            uses.tree,
            names,
            mutated=mutated,
            made=written,
            states=states.keys(),
            is_shown=is_shown,
        )
        parts = (name for group in writes if PART in group.why_not for name in group.names)
        changed_part = next((name for name in parts if name in mutated), "")
        is_set = changed_part or set_in_library(uses.tree, names, states.keys())
        why_held = self._why_held(cell, names, written)
        reasons = (
            hidden and f"it calls {hidden}, which may change what a library holds",
            is_set and f"it sets {is_set}, which a library holds",
            why_held,
        )
        sticky = next(filter(None, (sticky, *reasons)), "")
        if hidden or is_set or self._beyond.is_lasting:
            self._held |= self._handed_over(uses, names)
        if any(reasons) or self._beyond.is_lasting:
            self._has_beyond = True
            writes.append(VariableGroup(names=(BEYOND,), kinds=("state",), why_not=sticky))
        writes = [self._kept_back(group) for group in writes]
        return CellVariables(
            reads=tuple(sorted(reads | drawn | beyond | settings)),
            writes=tuple(writes),
            deleted=tuple(deleted),
            sticky=sticky,
            scores=tuple(scores),
            warm=cell.warm,
        )

    def _asks_about_files(self, cell: _Cell) -> bool:
        """Tell whether a cell may ask about files in a way that is not seen."""
        facts = (self._known.facts.get(name) for name in cell.touched)
        return not ASKING.isdisjoint(cell.uses.words) or any(
            each is not None and FILES in each.reaches for each in facts
        )

    def _why_held(self, cell: _Cell, names: Mapping[str, Any], written: set[str]) -> str:
        """Return why others than its variables may change after a cell, or have; or nothing."""
        held = {
            name
            for name in self._held & names.keys()
            if cell.before.get(name) == token_of(names[name])
        }
        # With what has come to share them.
        self._held = self._known.sharing.of(held)
        self._had_threads = _has_threads(self._known.main)
        if changed := sorted(self._held & written):
            return f"it changes '{changed[0]}', which a library may hold"
        if self._had_threads and _goes_on(self._known.main):
            return "something that was begun goes on"
        return ""

    def _handed_over(self, uses: CellUses, names: Mapping[str, Any]) -> set[str]:
        """Return the variables that a cell may have given to a library to keep."""
        every = set(names)
        named = every if uses.is_opaque else self._known.closure(uses.touched & every, every)
        return self._known.sharing.of(
            name for name in named if quick_facts(names[name], ()) is None
        )

    def _kept_back(self, group: VariableGroup) -> VariableGroup:
        """Return a group without its contents if a library may hold it: a copy is another one."""
        if group.why_not or self._held.isdisjoint(group.names):
            return group
        return replace(group, contents="", why_not="a library may hold it")

    def _candidates(self, cell: _Cell, names: Mapping[str, Any]) -> set[str]:
        """Return the variables that a cell may have changed."""
        found = set(cell.touched)
        for name, value in names.items():
            if cell.before.get(name) != token_of(value):
                found.add(name)
        if any(
            "autograd" in self._known.facts[name].why_not
            for name in found & self._known.facts.keys()
        ):
            found |= self._known.of_library("torch")
        if cell.has_figures:
            found |= self._known.of_library("matplotlib")
        # What was imported is found in the packages around it.
        roots = {each.partition(".")[0] for each in cell.uses.imports if "." in each}
        modules = {k: v for k, v in names.items() if type(v) is types.ModuleType}
        found |= {k for k, v in modules.items() if v.__name__.partition(".")[0] in roots}
        return self._known.sharing.of(found) & names.keys()

    def _written(
        self, changed: set[str], looked_at: set[str], old: Mapping[str, Group]
    ) -> list[Group]:
        """Return the groups that are new, changed, or made of others than before."""
        # Whatever joined one of those is in its group now.
        concerned = self._known.sharing.of(looked_at & self._known.facts.keys())
        groups = {self._known.sharing.groups[name] for name in concerned}
        return sorted(
            (
                group
                for group in groups
                if group & changed or any(old.get(name) != group for name in group)
            ),
            key=sorted,
        )

    # ------------------------------------------------------------ what comes from elsewhere

    def bind(self, items: Iterable[LoadedGroup]) -> None:
        """Give variables values that were loaded, and put states of the process in place."""
        values = {name: value for item in items for name, value in item.values.items()}
        states = {name: value for name, value in values.items() if name.startswith(":")}
        variables = {name: value for name, value in values.items() if name not in states}
        self._known.main.update(variables)
        self._states.put(states)
        names = self._names()
        self._known.imports |= dict.fromkeys(imported)
        known = variables.keys() & names.keys()
        look = Look(names, clock() + LOADED_BUDGET_S)
        with self._undisturbed(), without_warnings():
            others = self._known.sharing.of(known) & names.keys()
            self._known.read_all(others, look)
            self._known.place(others)

    def unbind(self, names: Iterable[str]) -> None:
        """Delete variables."""
        gone = set(names)
        left = self._known.sharing.of(gone) - gone
        for name in gone:
            self._known.main.pop(name, None)
            self._known.drop(name)
        self._known.place(left & self._known.facts.keys(), holders=1)


def _differs(before: Facts | None, now: Facts) -> bool:
    """Tell whether a value has changed, as far as anybody knows."""
    if before is now:
        return False
    return before is None or not now.digest or before.digest != now.digest


def _goes_on(main: Mapping[str, Any]) -> bool:
    """Tell whether something of the user's runs on, and may change variables at any time."""
    threads = threading.enumerate()
    return any(is_users_thread(each, main) for each in threads) or has_users_tasks(main)


def _has_threads(main: Mapping[str, Any]) -> bool:
    """Tell whether variables may change that no cell names."""
    pools = (getattr(each, "_target", None) for each in threading.enumerate())
    if any(getattr(each, "__module__", "") == "concurrent.futures.thread" for each in pools):
        return True
    # What is called when an object goes.
    calls = (each.func for each in weakref.finalize._registry.values())  # type: ignore[attr-defined]
    is_called = any(getattr(each, "__module__", None) in {None, "__main__"} for each in calls)
    return is_called or _goes_on(main)


def _has_figures() -> bool:
    """Tell whether pyplot holds figures, which any call of it may change."""
    helpers: Any = sys.modules.get("matplotlib._pylab_helpers")
    return helpers is not None and bool(helpers.Gcf.figs)
