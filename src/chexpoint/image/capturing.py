"""Writes the variables of a namespace, and what belongs to its process, into streams and arrays."""

from __future__ import annotations

import builtins
import contextlib
import gc
import sys
import warnings
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from chexpoint.image.check import difference
from chexpoint.image.devices import DevicePart
from chexpoint.image.loader import DEVICE_MARK, Loader
from chexpoint.image.lost import kind_of, reason_of
from chexpoint.image.memory import lone_arrays, overlaps
from chexpoint.image.modules import INTERPRETERS, library_versions, own_digests
from chexpoint.image.ndarrays import owns_memory
from chexpoint.image.options import options_now
from chexpoint.image.pickler import Dump, Surroundings, dump
from chexpoint.image.process import (
    MODULE,
    PROCESS,
    plain_facts,
    process_variables,
    sources_of,
    states_now,
)
from chexpoint.image.rebuilding import FORMAT, python_version
from chexpoint.image.sharing import groups_of, reachable
from chexpoint.image.touch import TouchLog
from chexpoint.model import ImageDocument, ImageGroup, LostVariable

CHECKED_BYTES = 1 << 20
"""Streams up to this size are loaded again at once, and compared."""

SCALARS = (type(None), bool, int, float, complex, str, bytes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Capture:
    """An image in memory, to be written to a store."""

    document: ImageDocument
    streams: dict[str, bytes]
    arrays: dict[str, Any]
    """Buffers, without a copy; arrays of a device have ``__cuda_array_interface__`` instead."""
    same: frozenset[str]
    """Keys of parts that are what they were in the previous image."""


@dataclass(slots=True, eq=False)
class _Making:
    """An image in the making."""

    values: dict[str, object]
    world: Surroundings
    dumps: dict[str, Dump] = field(default_factory=dict)
    """Streams of single variables."""
    lost: dict[str, str] = field(default_factory=dict)
    """Why a variable cannot be stored."""
    groups: list[ImageGroup] = field(default_factory=list)
    streams: dict[str, bytes] = field(default_factory=dict)
    arrays: dict[str, Any] = field(default_factory=dict)


def capture(
    namespace: Mapping[str, object],
    *,
    touches: TouchLog,
    previous: ImageDocument | None = None,
    execution_count: int = 0,
    only: Collection[str] | None = None,
) -> Capture:
    """Return an image of a namespace.  To be called in a fork: it may take seconds.

    Parameters
    ----------
    namespace
        The variables.  Names that begin with a colon are no variables of the user's, and are
        treated like them.
    touches
        What cells may have changed.
    previous
        An earlier image, whose parts need not be written again.
    only
        Names of the variables that are wanted, without the facts of the process.
    """
    if only is not None:
        return _capture_some(namespace, only)
    facts = plain_facts(touches)
    states = states_now() | options_now()
    values = {k: v for k, v in namespace.items() if k not in INTERPRETERS}
    kept = unchanged_groups(values, touches, previous)
    names = {name for group in kept for name in group.variables}
    making = _Making(
        values={k: v for k, v in values.items() if k not in names},
        world=Surroundings(mains=(namespace, vars(sys.modules["__main__"]))),
    )
    with _undisturbed():
        _add_process(making, facts)
        _write_variables(making)
        # What was loaded to check it may have drawn random numbers; the states are from before.
        states["sources"] = sources_of(making.world.sources)
        _write_process(making, states)
    modules = set(making.world.modules)
    if any(group.arrays for group in kept):
        modules.add("numpy")
    order = {name: place for place, name in enumerate(values)}
    groups = sorted(
        [*kept, *making.groups], key=lambda each: order.get(each.variables[0], len(order))
    )
    document = ImageDocument(
        python=python_version(),
        line=touches.line,
        execution_count=execution_count,
        groups=tuple(groups),
        lost=_lost_variables(making, touches),
        libraries=library_versions(modules),
        facts=facts,
    )
    same = frozenset(key for group in kept for key in (group.stream, *group.arrays))
    return Capture(document=document, streams=making.streams, arrays=making.arrays, same=same)


def _capture_some(namespace: Mapping[str, object], only: Collection[str]) -> Capture:
    """Return an image of some variables, and of nothing else."""
    making = _Making(
        values={name: namespace[name] for name in sorted(only) if name in namespace},
        world=Surroundings(mains=(namespace, vars(sys.modules["__main__"]))),
    )
    with _undisturbed():
        _write_variables(making)
    modules = set(making.world.modules)
    document = ImageDocument(
        python=python_version(),
        line=(),
        execution_count=0,
        groups=tuple(making.groups),
        lost=_lost_variables(making, TouchLog()),
        libraries=library_versions(modules),
        facts={"format": FORMAT, "own_modules": own_digests(modules)},
    )
    return Capture(
        document=document, streams=making.streams, arrays=making.arrays, same=frozenset()
    )


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Show no warnings, and collect no garbage: there is little, and looking for it takes long."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        if was_enabled:
            gc.enable()


def unchanged_groups(
    values: Mapping[str, object], touches: TouchLog, previous: ImageDocument | None
) -> list[ImageGroup]:
    """Return the groups of an earlier image whose variables are surely what they were."""
    if previous is None:
        return []
    found = []
    for group in previous.groups:
        name = group.variables[0]
        if len(group.variables) > 1 or name not in values:
            continue
        is_immutable = _is_scalar(values[name])
        if not is_immutable and not _is_own_array(values[name]):
            continue
        if not touches.changed_since(previous.line, name, is_immutable=is_immutable):
            found.append(group)
    return found


def _is_scalar(value: object) -> bool:
    """Tell whether a value cannot change."""
    if type(value) is tuple:
        return all(map(_is_scalar, value))
    return type(value) in SCALARS


def _is_own_array(value: Any) -> bool:
    """Tell whether a value is a plain array of numbers that owns its memory."""
    numpy = sys.modules.get("numpy")
    if numpy is None or type(value) is not numpy.ndarray:
        return False
    return owns_memory(value) and not value.dtype.hasobject


def _add_process(making: _Making, facts: dict[str, Any]) -> None:
    """Add what belongs to the process; of a module's data what can be stored, and note the rest."""
    dropped = facts["dropped"] = []
    for name, value in process_variables(facts).items():
        if name.startswith(MODULE) and isinstance(value, dict):
            kept = {k: v for k, v in value.items() if _can_be_stored(v, making.world)}
            if len(kept) < len(value):
                dropped.append(name.removeprefix(MODULE))
            making.values[name] = kept
        else:
            making.values[name] = value


def _can_be_stored(value: object, world: Surroundings) -> bool:
    try:
        dump([value], world)
    except Exception:  # pickling runs code of any library
        return False
    return True


def _write_process(making: _Making, states: dict[str, Any]) -> None:
    """Write the states of libraries, those that can be stored."""
    # A world of its own: libraries that only these name need not have the same version.
    world = Surroundings(mains=making.world.mains)
    states = {name: state for name, state in states.items() if _can_be_stored(state, world)}
    _add_group(making, [PROCESS], dump([states], world))


def _write_variables(making: _Making) -> None:
    """Write all variables: each alone, then those together that share something."""
    for name, value in making.values.items():
        try:
            making.dumps[name] = dump([value], making.world)
        except Exception as error:  # pickling runs code of any library
            making.lost[name] = reason_of(error)
    for group in groups_of(making.dumps):
        why = _write_group(making, group)
        if not why:
            continue
        # Perhaps one of them spoils the others.
        alone = {name: _trouble(making, [name], making.dumps[name]) for name in group}
        good = {name: making.dumps[name] for name in group if not alone[name]}
        if len(good) == len(group):
            alone, good = dict.fromkeys(group, why), {}
        making.lost |= {name: trouble for name, trouble in alone.items() if trouble}
        for rest in groups_of(good):
            why = _write_group(making, rest)
            making.lost |= dict.fromkeys(rest, why) if why else {}


def _write_group(making: _Making, group: list[str]) -> str:
    """Write variables into one stream; return why they would not come back, or nothing."""
    written = making.dumps[group[0]]
    memories = [making.dumps[name].memory for name in group]
    joined = overlaps([span for each in memories for span in each.spans])
    alone = lone_arrays(memories)
    if len(group) > 1 or joined or alone:
        try:
            values = [making.values[name] for name in group]
            written = dump(values, making.world, joined, alone=alone)
        except Exception as error:  # pickling runs code of any library
            return reason_of(error)
        foreign = _foreign_memory([making.dumps[name] for name in group])
        if foreign:
            return f"an array shares memory with a {foreign}"
    why = _trouble(making, group, written)
    if not why:
        _add_group(making, group, written)
    return why


def _foreign_memory(dumps: list[Dump]) -> str:
    """Return the kind of an object whose memory an array of another variable shows, or nothing."""
    for one in dumps:
        for number in one.memory.exporters.keys() - one.memo.keys():
            owners = [each.memo[number][1] for each in dumps if number in each.memo]
            if owners:
                return kind_of(owners[0])
    return ""


def _trouble(making: _Making, group: list[str], written: Dump) -> str:
    """Return why a stream would not come back as it is, as far as that can be seen; or nothing."""
    return trouble_of([making.values[name] for name in group], written, making.world)


class Stream(Protocol):
    """What was written: a stream and the memory of its arrays."""

    @property
    def data(self) -> bytes: ...
    @property
    def parts(self) -> list[Any]: ...
    @property
    def weak_count(self) -> int: ...


def trouble_of(stored: list[object], written: Stream, world: Surroundings) -> str:
    """Return why values would not come back as they are, as far as that can be seen; or nothing."""
    is_small = len(written.data) <= CHECKED_BYTES
    is_doubtful = written.weak_count > 0 or b"__main__" in written.data
    if any(isinstance(part, DevicePart) for part in written.parts):
        return ""
    if not is_small and not is_doubtful:
        return ""
    keys = [str(place) for place in range(len(written.parts))]
    # Read-only: whoever changes an array while it is loaded must not change what is stored.
    parts = [part.toreadonly() for part in written.parts]
    names: Any = world.mains[0]
    trusted = {kind for kind, rule in world.rules.items() if rule is not None}
    try:
        loaded = Loader(written.data, keys, lambda key: parts[int(key)], names).run(len(stored))
        where = difference(stored, loaded, trusted) if is_small else ""
    except Exception as error:  # loading runs code of any library
        return f"it cannot be loaded again: {reason_of(error)}"
    return f"it does not come back equal: {where}" if where else ""


def _add_group(making: _Making, group: list[str], written: Dump) -> None:
    """Add a stream and its arrays to the image; each array is named for its variable."""
    keys: list[str] = []
    for name, bound in zip(group, written.bounds, strict=True):
        first = len(keys)
        for place, part in enumerate(written.parts[first:bound]):
            mark = DEVICE_MARK if isinstance(part, DevicePart) else "/"
            keys.append(f"{name}{mark}{place}")
    stream = f"{group[0]}/stream"
    making.streams[stream] = written.data
    making.arrays |= zip(keys, written.parts, strict=True)
    making.groups.append(
        ImageGroup(
            variables=tuple(group),
            stream=stream,
            arrays=tuple(keys),
            size_bytes=written.size_bytes,
        )
    )


def _lost_variables(making: _Making, touches: TouchLog) -> tuple[LostVariable, ...]:
    """Return what cannot be stored, with the cells that make it again."""
    if not making.lost:
        return ()
    spaces = (*making.world.mains, making.values, sys.modules, vars(builtins))
    stop = {id(space) for space in spaces}
    reach = {name: reachable(making.values[name], stop) for name in making.lost}
    stored: set[int] = set()
    for name, written in making.dumps.items():
        if name not in making.lost:
            stored.update(written.memo)
    return tuple(
        LostVariable(
            name=name,
            kind=kind_of(making.values[name]),
            why=why,
            cell=touches.last_cell(name),
            is_alone=touches.is_sole(name) and _is_apart(name, reach, stored),
        )
        for name, why in making.lost.items()
    )


def _is_apart(
    name: str, reach: Mapping[str, Mapping[int, object] | None], stored: set[int]
) -> bool:
    """Tell whether no other variable leads to a mutable object that a lost one leads to."""
    mine = reach[name]
    if mine is None or not stored.isdisjoint(mine):
        return False
    others = (ids for other, ids in reach.items() if other != name)
    return all(ids is not None and mine.keys().isdisjoint(ids) for ids in others)
