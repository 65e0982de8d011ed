"""An instrumented program does exactly what the program does, whatever the program is."""

from __future__ import annotations

import ast
import builtins
import contextlib
import random
import re
import sysconfig
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chexpoint.hindsight.program.added import compare_programs
from chexpoint.hindsight.program.carrying import carry
from chexpoint.hindsight.program.instrumenting import Instrumented, instrument
from chexpoint.model import LoopSite

pytestmark = pytest.mark.slow

_NAMES = ["a", "b", "c", "d"]
_VALUES = [
    *("0", "1", "a", "b", "len(items)", "[1, 2]", "c", "items[:1]", "a if b else c", "(d := 2)"),
    *("sum(v for v in [1, 1])", "[v for v in range(3) if v != b]", "(lambda: a)()", "items[0]"),
    *("type(a).__name__", "f1", "{1: b}"),
]
_CONDITIONS = ["a", "b == 1", "c in items", "not d", "more()", "a != b", "len(items) < 3"]
_ITERABLES = [
    *("range(3)", "[a, b]", "list(items)", "items", "bag", "count(2)", "'xy'", "[(q := 1), 2]"),
    *("(v for v in range(2))", "reversed([1, 2])", "{1: 2}", "map(type, items)", "[lambda: a, b]"),
]
_PAIRS = ["enumerate('xy')", "zip('ab', items)", "{1: 2}.items()", "[(1, 2), (3, 4)]", "[(a, b)]"]
_FAILING = [
    *("raise ValueError(a)", "assert a, 'no'", "del a", "a = missing", "a = 1 / 0", "a = items[9]")
]
_HEADS = ["", "", '"""A text."""\n', "global b, d\n", '"""A."""\nglobal d\n', "d = b = 1\n"]

_CLASS = """\
class K:
    for w in (1, 2):
        pass

    def go(self):
        for v in range(2):
            emit(v)
"""


class _Writer:
    """Writes programs with loops in loops, that end.  A number says which."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)

    def program(self) -> str:
        functions = [self._function(3) for _ in range(self._dice.randint(1, 3))]
        rows = [self._row(3, in_loop=False, in_function=False) for _ in range(2)]
        calls = [f"call({self._dice.choice(['f0', 'f1', 'f2'])}, {self._value()})" for _ in "123"]
        return "\n".join([*functions, *rows, *calls])

    def _value(self) -> str:
        return self._dice.choice(_VALUES)

    def _row(self, depth: int, *, in_loop: bool, in_function: bool) -> str:
        return "\n".join(
            self._statement(depth, in_loop=in_loop, in_function=in_function)
            for _ in range(self._dice.randint(1, 3))
        )

    def _statement(  # noqa: PLR0911 - one for each kind
        self, depth: int, *, in_loop: bool, in_function: bool
    ) -> str:
        kind = self._dice.randint(0, 13) if depth else 0

        def row(*, in_loop: bool = in_loop) -> str:
            return self._row(depth - 1, in_loop=in_loop, in_function=in_function)

        match kind:
            case 5 | 6 | 7 | 8:
                return self._for(row(in_loop=True), row() if self._dice.random() < 0.1 else "")
            case 9:
                test = self._dice.choice(_CONDITIONS)
                return _block(f"while {test} and more():", row(in_loop=True))
            case 10:
                test = self._dice.choice(_CONDITIONS)
                return f"{_block(f'if {test}:', row())}\n{_block('else:', row())}"
            case 11:
                # Leaving `finally` by `break` or `return` is well defined, but warned of.
                final = f"\n{_block('finally:', 'emit(1)')}" if self._dice.random() < 0.5 else ""
                return f"{_block('try:', row())}\n{_block('except Exception as e:', row())}{final}"
            case 12:
                return _block(f"with manager({self._value()}) as d:", row())
            case 13 if self._dice.random() < 0.5:
                return self._function(depth - 1)
            case 13:
                return f"match {self._value()}:\n    case 1:\n        emit(1)\n" + textwrap.indent(
                    _block("case c:", row()), "    "
                )
        return self._simple(in_loop=in_loop, in_function=in_function)

    def _for(self, body: str, orelse: str) -> str:
        if self._dice.random() < 0.5:
            target = self._dice.choice(["a", "b", "bag[0]"])
            head = f"for {target} in {self._dice.choice(_ITERABLES)}:"
        else:
            targets = ["(a, b)", "(a, *c)", "[c, d]", "d, bag['k']"]
            head = f"for {self._dice.choice(targets)} in {self._dice.choice(_PAIRS)}:"
        return _block(head, body) + (f"\n{_block('else:', orelse)}" if orelse else "")

    def _simple(self, *, in_loop: bool, in_function: bool) -> str:
        name = self._dice.choice(_NAMES)
        if in_loop and self._dice.random() < 0.12:
            return self._dice.choice(["break", "continue"])
        if in_function and self._dice.random() < 0.08:
            return f"return {self._value()}"
        if self._dice.random() < 0.05:
            return self._dice.choice(_FAILING)
        return self._dice.choice(
            [
                f"{name} = {self._value()}",
                f"{name} = ({name}, {self._value()})[1:]",
                f"emit({name}, {self._value()})",
                f"emit({self._value()})",
                f"push(items, {self._value()})",
                f"bag[{self._dice.choice(['1', 'type(a).__name__'])}] = {self._value()}",
                f"{name}, *{self._dice.choice('xyz')} = {self._value()}, 1, 2",
                f"call(f{self._dice.randint(0, 2)}, {self._value()})",
                f"k = lambda: {name}",
                "bag['n'] += 1",
                "import math",
                "pass",
            ]
        )

    def _function(self, depth: int) -> str:
        body = self._dice.choice(_HEADS) + self._row(depth, in_loop=False, in_function=True)
        kind = self._dice.randint(0, 11)
        if kind < 2:
            body = f"{body}\nfor v in range(2):\n    yield v"
        elif kind < 4:
            inner = "def inner():\n    nonlocal a\n    for a in range(2):\n        push(items, a)"
            body = f"{body}\n{inner}\ninner()\nemit(a)"
        elif kind == 4:
            body = f"{body}\nemit(sorted(locals()))"
        elif kind == 5:
            body = f"{body}\n{_CLASS}\nK().go()"
        return _block(f"def f{self._dice.randint(0, 2)}(a=0, c=1):", body)


def _block(head: str, body: str) -> str:
    return f"{head}\n{textwrap.indent(body, '    ')}"


class _Through:
    """The least that a program can find under ``__chex__``; it counts the calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []

    def enter(self, site: int) -> bool:
        self.calls.append(("enter", site))
        return True

    def iterate(self, site: int, iterable: Iterable[Any]) -> Iterator[Any]:
        self.calls.append(("iterate", site))
        return iter(iterable)

    def tick(self, site: int) -> None:
        self.calls.append(("tick", site))

    def end(self, site: int) -> None:
        self.calls.append(("end", site))


class _World:
    """What a generated program can call.  Nothing in it goes on for ever."""

    def __init__(self) -> None:
        self.printed: list[str] = []
        self._left = {"emit": 300, "more": 30, "call": 40}

    def _spend(self, what: str) -> bool:
        self._left[what] -= 1
        return self._left[what] >= 0

    def namespace(self) -> dict[str, Any]:
        def emit(*values: object) -> None:
            if not self._spend("emit"):
                raise RuntimeError("enough")
            self.printed.append(repr(values) if "<" not in repr(values) else "...")

        def push(items: list[Any], value: object) -> None:
            if len(items) < 5:
                items.append(value)

        def call(function: Callable[..., Any], value: object) -> Any:
            result: Any = function(value) if self._spend("call") else None
            return list(result) if hasattr(result, "gi_frame") else result

        def count(stop: int) -> Iterator[int]:
            for number in range(stop):
                emit("next", number)
                yield number

        @contextlib.contextmanager
        def manager(value: object) -> Iterator[object]:
            emit("in")
            try:
                yield value
            finally:
                emit("out")

        def missing_function(value: object) -> None:
            emit("nothing", value)

        functions = dict.fromkeys(("f0", "f1", "f2"), missing_function)
        names = {"emit": emit, "push": push, "call": call, "count": count, "manager": manager}
        values = {"a": 0, "b": 1, "c": 2, "d": 3, "items": [1], "bag": {"k": 0, "n": 0}}
        return {**functions, **names, **values, "more": lambda: self._spend("more")}


_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def run(tree: ast.Module, **extra: object) -> tuple[list[str], dict[str, str], object]:
    """Return what a program prints, leaves behind, and how and where it fails."""
    world = _World()
    namespace = world.namespace() | extra
    own = set(namespace) - {"a", "b", "c", "d", "items", "bag"}
    failed: object = None
    try:
        exec(compile(tree, "<program>", "exec"), namespace)  # noqa: S102 - that is what is tested
    except Exception as error:
        lines = []
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == "<program>":
                lines.append((trace.tb_frame.f_code.co_name, trace.tb_lineno))
            trace = trace.tb_next
        failed = type(error), _ADDRESS.sub("", str(error)), lines
    left = {name: _show(value) for name, value in namespace.items() if name not in own}
    left.pop("__builtins__", None)
    return world.printed, left, failed


def _show(value: object) -> str:
    text = repr(value)
    return text if " at 0x" not in text else str(type(value))


def instrumented(source: str) -> Instrumented:
    tree = ast.parse(source)
    before = ast.dump(tree, include_attributes=True)
    result = instrument(tree)
    assert ast.dump(tree, include_attributes=True) == before
    return result


@given(st.integers(0, 2**32))
@settings(max_examples=80, deadline=None)
def test_it_does_the_same(seed: int) -> None:
    source = _Writer(seed).program()
    plain = ast.parse(source)
    expected = run(plain)
    new = instrumented(source).tree
    through = _Through()
    builtins.__chex__ = through  # type: ignore[attr-defined]
    try:
        assert run(new) == expected
    finally:
        del builtins.__chex__  # type: ignore[attr-defined]
    # A function that was sent to another process finds nothing under that name.
    alone = _Through()
    assert run(new, __chex__=alone) == expected
    assert len(alone.calls) <= len(through.calls)


@given(st.integers(0, 2**32), st.data())
@settings(max_examples=12, deadline=None)
def test_added_statements_are_found_and_leave_the_sites(seed: int, data: st.DataObject) -> None:
    tree = ast.parse(_Writer(seed).program())
    old = ast.unparse(tree)
    rows = [row for node in ast.walk(tree) for row in _rows(node)]
    count = data.draw(st.integers(1, 4))
    for number in range(count):
        row = data.draw(st.sampled_from(rows))
        place = data.draw(st.integers(1, len(row)))  # not before a docstring
        row.insert(place, ast.parse(f"print('added', {number})").body[0])
    new = ast.unparse(tree)
    edit = compare_programs(old, new)
    assert edit.problems == ()
    assert len(edit.added) == count
    before = instrument(ast.parse(old))
    after = instrument(ast.parse(new), added=edit.ranges)
    compile(after.tree, "<program>", "exec")
    assert [_without_lines(site) for site in after.sites] == [
        _without_lines(site) for site in before.sites
    ]
    assert carry(old, new, old).source.strip() == new.strip()


def _rows(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        row = getattr(node, name, None)
        is_elif = name == "orelse" and isinstance(node, ast.If) and _is_if(row)
        if isinstance(row, list) and row and not is_elif:
            yield row


def _is_if(row: list[ast.stmt] | None) -> bool:
    return row is not None and len(row) == 1 and isinstance(row[0], ast.If)


def _without_lines(site: LoopSite) -> LoopSite:
    return replace(site, line=0, no_estimate=str(bool(site.no_estimate)))


def _library() -> list[Path]:
    root = Path(sysconfig.get_paths()["stdlib"])
    found = [*sorted(root.glob("*.py")), *sorted(root.glob("[a-e]*/*.py"))]
    return [path for path in found if "site-packages" not in path.parts][::3][:60]


@pytest.mark.parametrize("path", _library(), ids=lambda path: path.name)
def test_the_standard_library_can_be_instrumented(path: Path) -> None:
    result = instrumented(path.read_text(encoding="utf-8"))
    compile(result.tree, str(path), "exec", dont_inherit=True)
    assert [site.site for site in result.sites] == list(range(len(result.sites)))
    tree = ast.parse(path.read_text(encoding="utf-8"))
    loops = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.For | ast.While)]
    lines = [site.line for site in result.sites]
    assert len(set(lines)) == len(lines)
    assert set(lines) <= set(loops)
