"""Signs that a cell may give something else when it runs again.

Time cannot be seen from outside: reading the clock is no system call.  So it is
looked for in the code.  Random numbers show in the state of their generator, and
entropy and host names on the stack of the call that asks for them.
"""

from __future__ import annotations

import ast
import dis
import functools
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import BuiltinMethodType, CodeType, FrameType
from typing import Any

from chexpoint.model import Hint

# Calls that give the time whatever their arguments are.
_TIME = frozenset(
    {
        *(
            f"time.{name}{unit}"
            for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time")
            for unit in ("", "_ns")
        ),
        "time.clock_gettime",
        "time.clock_gettime_ns",
        "timeit.default_timer",
        "datetime.datetime.now",
        "datetime.datetime.today",
        "datetime.datetime.utcnow",
        "datetime.date.today",
        "pandas.Timestamp.now",
        "pandas.Timestamp.today",
        "pandas.Timestamp.utcnow",
        "arrow.now",
        "arrow.utcnow",
        "pendulum.now",
        "pendulum.today",
    }
)
# Calls that give the time unless they have this many arguments.
_TIME_WITHOUT = {
    "time.localtime": 1,
    "time.gmtime": 1,
    "time.ctime": 1,
    "time.asctime": 1,
    "time.strftime": 2,
}
# Calls that give the time if their first argument says so.
_TIME_OF = frozenset({"numpy.datetime64", "pandas.Timestamp", "pandas.to_datetime"})

_SEED = {
    "random.seed": "random",
    "random.setstate": "random",
    "numpy.random.seed": "numpy.random",
    "numpy.random.set_state": "numpy.random",
    "torch.manual_seed": "torch",
    "torch.random.manual_seed": "torch",
    "torch.set_rng_state": "torch",
    "torch.random.set_rng_state": "torch",
    "torch.seed": "torch",
    "torch.random.seed": "torch",
}
# Helpers of training libraries and of users, such as `seed_everything`; they seed everything.
_SEEDS_ALL = re.compile(r"seed_\w+|(set|fix|init|reset|setup|global)_\w*seed\w*")
# Its name promises more than it does.
_SEEDS_NONE = frozenset({"tensorflow.random.set_seed"})
# These seed themselves in C, where nothing in Python sees it.
_SELF_SEEDED = frozenset({"random.seed", "random.Random", "torch.seed", "torch.random.seed"})

_DRAWS = {
    "random": re.compile(r"random\.(?!seed|[gs]etstate|SystemRandom)[a-z]\w*"),
    "numpy.random": re.compile(r"numpy\.random\.(?!seed|[gs]et_state|default_rng)[a-z]\w*"),
    "torch": re.compile(r"torch\.(rand|normal|bernoulli|multinomial|poisson|nn\.)\w*.*"),
}
_SEED_CALL = {
    "random": "random.seed(...)",
    "numpy.random": "numpy.random.seed(...)",
    "torch": "torch.manual_seed(...)",
}

# Magics that run what they are given, in the cell's own namespace.
_RUNNING_MAGICS = frozenset({"time", "timeit", "capture", "prun", "memit", "mprun"})
# What IPython keeps of earlier cells: inputs, outputs, and the folders they were in.
_HISTORY = re.compile(r"In|Out|_[iod]h|_i{1,3}|_i[0-9]+|_[0-9]+|_{1,3}")
_MAY_BE_HISTORY = re.compile(rf"\b(?:{_HISTORY.pattern})\b|run_line_magic|run_cell_magic")
_HISTORY_MAGICS = frozenset(
    {"ed", "edit", "hist", "history", "macro", "notebook", "pastebin", "recall", "rep", "rerun"}
    | {"save"}
)

_NEAR = frozenset({"", "localhost", "127.0.0.1", "::1", "0.0.0.0", "::"})  # noqa: S104


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeSigns:
    """What the code of one cell says about its results."""

    hints: tuple[Hint, ...] = ()
    aliases: Mapping[str, str]
    """What the names that were imported, here or in earlier cells, stand for."""
    seeded: Mapping[str, bool]
    """The generators the cell seeds; False if it leaves the seed to chance."""
    draws: Mapping[str, int]
    """The first line that draws from a generator, as far as the code shows it."""
    only_imports: bool = False
    """Whether the cell does nothing but import, and magics."""


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    """Dotted, with imported names put in full; the last part only if its origin is not known."""
    is_known: bool
    node: ast.Call

    def argument_count(self) -> int:
        return len(self.node.args) + len(self.node.keywords)

    def first_text(self) -> object:
        first = self.node.args[0] if self.node.args else None
        return first.value if isinstance(first, ast.Constant) else None


def scan(source: str, aliases: Mapping[str, str]) -> CodeSigns:
    """Return the signs in a cell's code, which must be plain Python.

    ``aliases`` are those of the cells before it.
    """
    trees = list(_trees(source))
    aliases = {**aliases, **{k: v for tree in trees for k, v in _imports(tree)}}
    calls = [call for tree in trees for call in _calls(tree, aliases)]
    calls.sort(key=lambda call: (call.node.lineno, call.node.col_offset))
    hints: list[Hint] = []
    seeded: dict[str, bool] = {}
    draws: dict[str, int] = {}
    if _MAY_BE_HISTORY.search(source):
        hints += [hint for tree in trees for hint in _history_hints(tree, aliases)]
    for call in calls:
        seeded |= _seeds(call)
        if not call.is_known:
            continue
        hints += _call_hints(call)
        for library, drawing in _DRAWS.items():
            if drawing.fullmatch(call.name):
                draws.setdefault(library, call.node.lineno)
    return CodeSigns(
        hints=tuple(dict.fromkeys(hints)),
        aliases=aliases,
        seeded=seeded,
        draws=draws,
        only_imports=len(trees) == 1 and all(_is_import(node) for node in trees[0].body),
    )


def random_states() -> dict[str, int]:
    """Return a hash of the state of each global generator that is loaded."""
    states: dict[str, int] = {}
    for name, read in _READERS.items():
        module = sys.modules.get(name)
        if module is not None:
            # A module may be half imported, or not what it is called.
            with suppress(Exception):
                states[name] = hash(read(module))
    return states


def random_hints(
    before: Mapping[str, int], after: Mapping[str, int], seeded: set[str], signs: CodeSigns
) -> list[Hint]:
    """Return a hint for each generator that was drawn from and never seeded.

    Of a generator that was not loaded before, only the code tells whether it was used.
    What modules draw while they are imported does not count: it is for names of their own.
    """
    if signs.only_imports:
        return []
    used = [
        name
        for name, state in after.items()
        if (before[name] != state if name in before else name in signs.draws)
    ]
    return [
        Hint(
            kind="random",
            what=f"{name} was used but never seeded: results may differ each time; "
            f"call {_SEED_CALL[name]}",
            line=signs.draws.get(name),
        )
        for name in used
        if name not in seeded and not signs.seeded.get(name)
    ]


def network_hint(host: str, frame: FrameType | None, namespace: Mapping[str, Any]) -> Hint | None:
    """Return a hint if a cell looks up the name of another machine."""
    if host in _NEAR or cell_frame(frame, namespace) is None:
        return None
    return Hint(
        kind="network",
        what=f"{host} was looked up: what comes from there may differ each time",
        line=cell_line(frame, namespace),
    )


def is_users_thread(thread: threading.Thread, namespace: Mapping[str, Any]) -> bool:
    """Return whether a thread runs code of the user's."""
    if type(thread).__module__ == "__main__":
        return True
    target = getattr(thread, "_target", None) or getattr(thread, "function", None)
    while isinstance(target, functools.partial):
        target = target.func
    is_bare = getattr(target, "__module__", None) is None
    if isinstance(target, BuiltinMethodType) and is_bare:
        return True  # a method of a list, say
    function = getattr(target, "__func__", target)
    return getattr(function, "__globals__", None) is namespace


def has_users_tasks(namespace: Mapping[str, Any]) -> bool:
    """Return whether a coroutine of the user's goes on when no cell runs."""
    asyncio: Any = sys.modules.get("asyncio")
    try:
        tasks = asyncio.all_tasks(asyncio.get_running_loop())
    except (AttributeError, RuntimeError):  # it was not imported; there is no loop
        return False
    frames = (getattr(task.get_coro(), "cr_frame", None) for task in tasks)
    return any(getattr(frame, "f_globals", None) is namespace for frame in frames)


def thread_hints(namespace: Mapping[str, Any]) -> list[Hint]:
    """Return a hint for each thread of the user's that goes on after the cell, or a coroutine.

    Threads that libraries keep for later do nothing by themselves.
    """
    found = []
    for thread in threading.enumerate():
        if is_users_thread(thread, namespace):
            what = f"thread {thread.name} still runs: what it has done by then may differ"
            found.append(Hint(kind="background", what=what))
    if has_users_tasks(namespace):
        what = "a coroutine still runs: what it has done by then may differ"
        found.append(Hint(kind="background", what=what))
    return found


def input_hint(frame: FrameType | None, namespace: Mapping[str, Any]) -> Hint:
    """Return the hint for a cell that asks the user for input; ``frame`` is of what asks."""
    what = "it asked for input: the answer may differ each time"
    return Hint(kind="input", what=what, line=cell_line(frame, namespace))


def cell_frame(frame: FrameType | None, namespace: Mapping[str, Any]) -> FrameType | None:
    """Return the innermost frame of code that was written in a cell, from ``frame`` outwards."""
    while frame is not None and frame.f_globals is not namespace:
        frame = frame.f_back
    return frame


def cell_line(frame: FrameType | None, namespace: Mapping[str, Any]) -> int | None:
    """Return the line of the running cell that led to ``frame``.

    Functions that earlier cells defined are passed by: their lines are of those cells.
    """
    while (frame := cell_frame(frame, namespace)) is not None:
        if frame.f_code.co_name == "<module>":
            if not frame.f_code.co_filename.startswith("<timed "):
                return frame.f_lineno
            # The lines of `%%time` are counted from below its own; `%time` has but one.
            if frame.f_back is not None and frame.f_back.f_locals.get("cell"):
                return frame.f_lineno + 1
        frame = frame.f_back
    return None


def _trees(source: str, offset: int = 0) -> Iterator[ast.Module]:
    """Yield the tree of some code, and those of the code that its magics run."""
    try:
        tree = _parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    if offset:
        ast.increment_lineno(tree, offset)
    yield tree
    if "run_cell_magic" in source or "run_line_magic" in source:
        for node in ast.walk(tree):
            match node:
                case ast.Call(
                    func=ast.Attribute(attr="run_cell_magic" | "run_line_magic" as kind),
                    args=[ast.Constant(value=str(magic)), *_, ast.Constant(value=str(code))],
                ) if magic in _RUNNING_MAGICS:
                    above = node.lineno if kind == "run_cell_magic" else node.lineno - 1
                    yield from _trees(code, above)


def _parse(source: str) -> ast.Module:
    if "\\" not in source:
        return ast.parse(source)
    # IPython has shown the warnings about escapes already.  Not for every cell: to leave the
    # filters makes Python forget which warnings it has shown.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)


def _imports(tree: ast.AST) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for item in node.names:
                root = item.name.partition(".")[0]
                yield (item.asname, item.name) if item.asname else (root, root)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for item in node.names:
                yield item.asname or item.name, f"{node.module}.{item.name}"


def _is_import(node: ast.stmt) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom():
            return True
        case ast.Expr(ast.Call(ast.Attribute(ast.Call(ast.Name(id="get_ipython"))))):
            return True
    return False


def _calls(tree: ast.AST, aliases: Mapping[str, str]) -> Iterator[_Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            parts: list[str] = []
            func = node.func
            while isinstance(func, ast.Attribute):
                parts.append(func.attr)
                func = func.value
            if isinstance(func, ast.Name) and func.id in aliases:
                yield _Call(".".join((aliases[func.id], *reversed(parts))), True, node)
            elif parts or isinstance(func, ast.Name):
                yield _Call(parts[0] if parts else getattr(func, "id", ""), False, node)


def _seeds(call: _Call) -> dict[str, bool]:
    """Return the generators that a call seeds, and whether it does so with a given seed."""
    has_seed = call.argument_count() > 0
    if call.is_known and call.name in _SEED:
        return {_SEED[call.name]: has_seed}
    if call.name in _SEEDS_NONE or not _SEEDS_ALL.fullmatch(call.name.rpartition(".")[2]):
        return {}
    return dict.fromkeys(_SEED_CALL, True)


def _call_hints(call: _Call) -> Iterator[Hint]:
    name, count = call.name, call.argument_count()
    if (
        name in _TIME
        or (name in _TIME_WITHOUT and count < _TIME_WITHOUT[name])
        or (name in _TIME_OF and call.first_text() in {"now", "today"})
    ):
        what = f"{name} gives the time at which the cell runs: results differ each time"
        yield Hint(kind="time", what=what, line=call.node.lineno)
    elif name in _SELF_SEEDED and not count:
        what = f"{name} was called without a seed: results differ each time; pass a seed"
        yield Hint(kind="entropy", what=what, line=call.node.lineno)


def _history_hints(tree: ast.Module, aliases: Mapping[str, str]) -> Iterator[Hint]:
    """Yield a hint for each part of IPython's history that code uses, at the first such line."""
    found: dict[str, int] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="run_cell_magic" | "run_line_magic"),
                args=[ast.Constant(value=str(magic)), *_],
            ) if magic in _HISTORY_MAGICS:
                found.setdefault(f"%{magic}", node.lineno)
    if any(_may_read_history(node) for node in ast.walk(tree)):
        with suppress(SyntaxError, ValueError, RecursionError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = compile(tree, "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, True)
            for name, line in _history_reads(code, set(aliases)):
                found.setdefault(name, line)
    for name, line in found.items():
        what = (
            f"{name} goes by the cells that ran before and their numbers: another run may find"
            " something else there; use a variable"
        )
        yield Hint(kind="history", what=what, line=line)


def _may_read_history(node: ast.AST) -> bool:
    match node:
        case ast.Name(id=name, ctx=ast.Load()) | ast.AugAssign(target=ast.Name(id=name)):
            return _HISTORY.fullmatch(name) is not None
    return False


def _history_reads(code: CodeType, bound: set[str]) -> Iterator[tuple[str, int]]:
    """Yield the names of IPython's history that code reads before it binds them, and where."""
    # Of the compiled code: there, what is bound is bound in the order of execution.
    for step in dis.get_instructions(code):
        if step.opname in {"STORE_NAME", "STORE_GLOBAL"}:
            bound.add(step.argval)
        elif step.opname in {"LOAD_NAME", "LOAD_GLOBAL"}:
            if _HISTORY.fullmatch(step.argval) and step.argval not in bound:
                yield step.argval, (step.positions and step.positions.lineno) or 1
        elif isinstance(step.argval, CodeType):
            yield from _history_reads(step.argval, set(bound))


def _numpy_state(module: Any) -> object:
    def flat(value: Any) -> object:
        if isinstance(value, dict):
            return tuple((key, flat(inner)) for key, inner in value.items())
        return value.tobytes() if hasattr(value, "tobytes") else value

    return flat(module.get_state(legacy=False))


_READERS: Mapping[str, Callable[[Any], object]] = {
    "random": lambda module: module.getstate(),
    "numpy.random": _numpy_state,
    "torch": lambda module: module.get_rng_state().numpy().tobytes(),
}
