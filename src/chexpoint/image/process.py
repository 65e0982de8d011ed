"""What belongs to the process and not to a variable: folder, environment, random numbers, options.

Plain facts are kept in the document.  What has to be pickled is a variable of its own kind: its
name begins with a colon, and it is put in place instead of being returned.
"""

from __future__ import annotations

import decimal
import importlib
import linecache
import logging
import os
import random
import sys
import warnings
from collections.abc import Callable, Collection, Mapping
from functools import partial, reduce
from operator import getitem
from pathlib import Path
from typing import Any

from chexpoint.errors import ImageRefused
from chexpoint.image.check import difference
from chexpoint.image.modules import file_digest, own_data, own_modules
from chexpoint.image.options import set_options
from chexpoint.image.quiet import without_warnings
from chexpoint.image.touch import TouchLog

PROCESS = ":process"
MODULE = ":module:"
PATCH = ":patch:"

Undo = Callable[[], object]


def plain_facts(touches: TouchLog) -> dict[str, Any]:
    """Return the facts of this process that are plain data."""
    return {
        "format": 1,
        "cwd": os.getcwd(),
        "environment": changed_environment(),
        "path": list(sys.path),
        "prefix": sys.prefix,
        "argv": list(sys.argv),
        "recursion_limit": sys.getrecursionlimit(),
        "imports": [name for name in touches.imports if name in sys.modules],
        "patches": [list(patch) for patch in touches.patches],
        "own_modules": {
            name: [module.__file__, file_digest(module.__file__ or "")]
            for name, module in own_modules().items()
        },
    }


def changed_environment() -> dict[str, str | None]:
    """Return the environment variables that were changed since the process began; None if gone.

    The rest belongs to the machine, and may hold secrets.
    """
    try:
        first = Path("/proc/self/environ").read_bytes()
    except OSError:
        return {}
    pairs = [entry.partition(b"=") for entry in first.split(b"\0") if entry]
    before = {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
    now = dict(os.environ)
    changed: dict[str, str | None] = {k: v for k, v in now.items() if before.get(k) != v}
    return changed | dict.fromkeys(before.keys() - now.keys())


def process_variables(facts: Mapping[str, Any]) -> dict[str, object]:
    """Return the states of the process that have to be pickled, by names of their own kind."""
    found: dict[str, object] = {
        f"{MODULE}{name}": own_data(sys.modules[name]) for name in facts["own_modules"]
    }
    for module, owner, name in facts["patches"]:
        try:
            holder = _holder(module, owner)
        except (ImportError, AttributeError):
            continue
        if name in vars(holder):
            found[f"{PATCH}{module}:{owner}:{name}"] = vars(holder)[name]
    return found


def _holder(module: str, owner: str) -> Any:
    """Return a module, or a class in it."""
    found: Any = importlib.import_module(module)
    for part in owner.split(".") if owner else ():
        found = getattr(found, part)
    return found


def states_now() -> dict[str, Any]:
    """Return the states of the standard library and of the libraries that are loaded."""
    states: dict[str, Any] = {
        "random": random.getstate(),
        "decimal": decimal.getcontext().copy(),
        "filters": list(warnings.filters),
        "levels": _logging_levels(),
    }
    for name, (get, _) in LIBRARIES.items():
        library = sys.modules.get(name.partition(":")[0])
        if library is not None:
            state = get(library)
            if state is not None:
                states[name] = state
    return states


def set_states(states: Mapping[str, Any]) -> None:
    """Put such states in place."""
    if "random" in states:
        random.setstate(states["random"])
    if "decimal" in states:
        decimal.setcontext(states["decimal"].copy())
    if "filters" in states:
        _set_filters(states["filters"])
    for name, level in states.get("levels", {}).items():
        logging.getLogger(name).setLevel(level)
    for filename, entry in states.get("sources", {}).items():
        linecache.cache.setdefault(filename, entry)
    for name, (_, put) in LIBRARIES.items():
        if name in states:
            put(importlib.import_module(name.partition(":")[0]), states[name])
    set_options(states)


def restore_random(states: Mapping[str, Any]) -> None:
    """Put the states of random numbers in place, and of nothing else."""
    kept = {key: states[key] for key in ("random", "numpy:random") if key in states}
    set_states(kept)
    if "torch" in states:
        sys.modules["torch"].set_rng_state(states["torch"]["seed"].clone())


def sources_of(filenames: Collection[str]) -> dict[str, Any]:
    """Return the sources of cells whose functions are stored, for tracebacks and `inspect`."""
    cache = linecache.cache
    found = {name: cache[name] for name in sorted(filenames) if name in cache}
    return {
        name: entry for name, entry in found.items() if len(entry) == 4 and not os.path.exists(name)
    }


def _logging_levels() -> dict[str, int]:
    loggers = {"": logging.root, **logging.root.manager.loggerDict}
    return {
        name: logger.level
        for name, logger in loggers.items()
        if isinstance(logger, logging.Logger) and logger.level
    }


def _set_filters(filters: list[Any]) -> None:
    warnings.filters[:] = filters  # type: ignore[index]
    # Python caches which warnings were shown, and looks again only if it is told.
    mutated = getattr(warnings, "_filters_mutated", None)
    if mutated is not None:
        mutated()


def _changed_pandas(pandas: Any) -> dict[str, Any] | None:
    options = pandas._config.config._registered_options
    try:
        values = pandas._config.config._global_config
        now = {key: reduce(getitem, key.split("."), values) for key in options}
    except (AttributeError, KeyError, TypeError):
        # Slowly: asking for some options is deprecated.
        with without_warnings():
            now = {key: pandas.get_option(key) for key in options}
    changed = {
        key: now[key]
        for key, option in options.items()
        if option.defval is not now[key] and option.defval != now[key]
    }
    return changed or None


def _changed_matplotlib(matplotlib: Any) -> dict[str, Any] | None:
    # Not by its own means: these look at each name again.
    now = dict.items(matplotlib.rcParams)
    usual = partial(dict.get, matplotlib.rcParamsDefault)
    differ = [(k, v) for k, v in now if v is not usual(k)]
    changed = {k: v for k, v in differ if "backend" not in k and v != usual(k)}
    return changed or None


def _torch_state(torch: Any) -> dict[str, Any]:
    return {
        "seed": torch.get_rng_state(),
        "dtype": torch.get_default_dtype(),
        "grad": torch.is_grad_enabled(),
    }


def _set_torch(torch: Any, state: dict[str, Any]) -> None:
    torch.set_rng_state(state["seed"].clone())
    torch.set_default_dtype(state["dtype"])
    torch.set_grad_enabled(state["grad"])


# How to get and set the state of a library; None means that there is nothing to be kept.
LIBRARIES: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], object]]] = {
    "numpy:random": (
        # It is loaded when it is first used.
        lambda numpy: (
            numpy.random.get_state(legacy=False) if "numpy.random" in sys.modules else None
        ),
        lambda numpy, state: numpy.random.set_state(state),
    ),
    "numpy:print": (
        lambda numpy: numpy.get_printoptions(),
        lambda numpy, state: numpy.set_printoptions(**state),
    ),
    "numpy:errors": (
        lambda numpy: numpy.geterr(),
        lambda numpy, state: numpy.seterr(**state),
    ),
    "pandas": (
        _changed_pandas,
        lambda pandas, state: [pandas.set_option(key, value) for key, value in state.items()],
    ),
    "matplotlib": (
        _changed_matplotlib,
        lambda matplotlib, state: matplotlib.rcParams.update(state),
    ),
    "torch": (_torch_state, _set_torch),
}


def apply_plain(facts: Mapping[str, Any]) -> Undo:
    """Put the plain facts in place, those that modules need to be found; return how to undo it.

    Raises
    ------
    ImageRefused
        If the folder is gone.
    """
    before = (
        os.getcwd(),
        dict(os.environ),
        list(sys.path),
        list(sys.argv),
        sys.getrecursionlimit(),
    )

    def undo() -> None:
        os.chdir(before[0])
        os.environ.clear()
        os.environ.update(before[1])
        sys.path[:], sys.argv[:] = before[2], before[3]
        sys.setrecursionlimit(before[4])

    try:
        os.chdir(facts.get("cwd", before[0]))
    except OSError:
        raise ImageRefused(f"folder {facts['cwd']} is gone. Run the cells again.") from None
    for name, value in facts.get("environment", {}).items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    old = facts.get("prefix", sys.prefix)
    if "path" in facts:
        sys.path[:] = [_moved(entry, old, sys.prefix) for entry in facts["path"]]
    sys.argv[:] = facts.get("argv", before[3])
    sys.setrecursionlimit(facts.get("recursion_limit", before[4]))
    return undo


def _moved(entry: str, old: str, new: str) -> str:
    """Return a folder of the search path, in the environment that is used now."""
    is_inside = entry == old or entry.startswith(os.path.join(old, ""))
    return new + entry[len(old) :] if is_inside else entry


def apply_facts(
    facts: Mapping[str, Any], loaded: Mapping[str, object], shared: Collection[str] = ()
) -> dict[str, object]:
    """Put what belongs to the process in place, and return the variables that are left.

    Parameters
    ----------
    shared
        Names of loaded variables that share objects with others.
    """
    for name in facts.get("imports", ()):
        importlib.import_module(name)
    for name, value in loaded.items():
        if name.startswith(MODULE) and isinstance(value, dict):
            module = importlib.import_module(name.removeprefix(MODULE))
            _set_data(vars(module), value, is_shared=name in shared)
        elif name.startswith(PATCH):
            origin, owner, attribute = name.removeprefix(PATCH).split(":")
            setattr(_holder(origin, owner), attribute, value)
    states = loaded.get(PROCESS)
    if isinstance(states, dict):
        set_states(states)
    own = (MODULE, PATCH)
    return {k: v for k, v in loaded.items() if k != PROCESS and not k.startswith(own)}


def _set_data(names: dict[str, Any], data: dict[str, Any], *, is_shared: bool) -> None:
    """Set the globals of a module that have changed since it was imported."""
    for name, value in data.items():
        if is_shared or name not in names or difference(value, names[name]):
            names[name] = value
