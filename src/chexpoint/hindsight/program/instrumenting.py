"""Puts the calls into a program by which its loops are recorded, and skipped on replay.

``__chex__`` is an object among the builtins; without it the functions of the
program still do what they did, so that they can be sent to other processes.
Statements that hold others are copied, expressions are shared with the given
tree, which stays as it is.  Loops whose meaning the calls could change are left
alone, with the reason.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TypeVar

from chexpoint.hindsight.program.effects import Flow, effects_of, flow_of
from chexpoint.hindsight.program.loops_left import (
    Reason,
    class_reason,
    function_reason,
    loop_reason,
    name_reason,
    sent_to_compilers,
)
from chexpoint.hindsight.program.names import FunctionNode, LoopNode, bindings, mentioned, own_nodes
from chexpoint.model import LoopSite

_RUNTIME = "__chex__"
_FOUND = f'__import__("builtins").__dict__.get("{_RUNTIME}")'
_DEEPEST = 2

_Node = TypeVar("_Node", bound=ast.AST)
_Row = list[ast.stmt]


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrumented:
    """A program with the calls in it."""

    tree: ast.Module
    sites: tuple[LoopSite, ...] = ()
    left: tuple[tuple[int, str], ...] = ()
    """Lines of loops that were left alone, and why: ``"it has an `else` clause"``."""


def instrument(
    tree: ast.Module, *, added: Collection[tuple[int, int]] = (), first: int = 0
) -> Instrumented:
    """Return a copy of a program with calls to ``__chex__`` around its loops.

    Parameters
    ----------
    tree
        As `ast.parse` gives it; it is not changed.
    added
        First and last lines of whole statements that were added after the program was
        recorded.  They are put between calls of their own, and count for nothing else:
        the sites are those of the program without them.
    first
        What the calls of the first site have as its number.  The sites count from 0.
    """
    work = _Instrumenter(frozenset(added), sent_to_compilers(tree), first)
    try:
        return work.module(tree)
    except RecursionError:
        reason = "the program is nested too deep"
        return Instrumented(
            tree=ast.Module(list(tree.body), tree.type_ignores), left=((1, reason),)
        )


class _Added(ast.Pass):
    """Stands for a row of added statements while the others are looked at."""

    statements: _Row
    group: int


@dataclass(slots=True)
class _Scope:
    """The function, class or module that statements are in."""

    function: str = ""
    """Its qualified name."""
    inner: str = ""
    """What the qualified names of functions in it begin with."""
    reason: Reason = field(default_factory=Reason)
    node: ast.Module | FunctionNode = field(default_factory=lambda: ast.Module([], []))
    is_module: bool = False
    uses_local: bool = False
    """Whether it needs a variable ``__chex__``."""
    _flow: Flow | None = None

    @property
    def flow(self) -> Flow:
        if self._flow is None:  # most functions have no loops
            self._flow = flow_of(self.node)
        return self._flow


@dataclass(frozen=True, slots=True)
class _Place:
    """Where statements are: their scope, and the loops around them in it."""

    scope: _Scope
    depth: int = 0
    within: int | None = None


@dataclass(slots=True)
class _Instrumenter:
    added: frozenset[tuple[int, int]]
    compiled: frozenset[str]
    first: int
    sites: list[LoopSite] = field(default_factory=list)
    left: list[tuple[int, str]] = field(default_factory=list)
    groups: int = 0
    has_our_names: bool = False

    def module(self, tree: ast.Module) -> Instrumented:
        # Added statements are hidden first, everywhere, so that what is said of loops is what
        # was said when the program was recorded.
        plain = ast.Module(self._hide_row(tree.body), tree.type_ignores)
        reason = name_reason(plain)
        self.has_our_names = bool(reason)
        scope = _Scope(reason=reason, node=plain, is_module=True)
        new = ast.Module(self._row(plain.body, _Place(scope)), tree.type_ignores)
        return Instrumented(tree=new, sites=tuple(self.sites), left=tuple(self.left))

    def _hide_row(self, statements: _Row) -> _Row:
        result: _Row = []
        for place, statement in enumerate(statements):
            if not self._is_added(statement, is_first=place == 0):
                result.append(_with_rows(statement, self._hide_row))
            elif result and isinstance(result[-1], _Added):
                result[-1].statements.append(statement)
            else:
                hidden = ast.copy_location(_Added(), statement)
                hidden.statements, hidden.group = [statement], self.groups
                self.groups += 1
                result.append(hidden)
        return result

    def _is_added(self, statement: ast.stmt, *, is_first: bool) -> bool:
        if (statement.lineno, statement.end_lineno or statement.lineno) not in self.added:
            return False
        is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        is_future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        return not is_future and not (is_first and is_text)  # both have to stay first

    def _row(self, statements: _Row, place: _Place) -> _Row:
        return [new for old in statements for new in self._statement(old, place)]

    def _statement(self, node: ast.stmt, place: _Place) -> _Row:
        match node:
            case _Added():
                before = _call(place.scope, "before_added", node.group, node.statements[0])
                after = _call(place.scope, "after_added", node.group, node.statements[-1])
                return [before, *node.statements, after]
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return [self._function(node, place.scope)]
            case ast.ClassDef(name=name):
                inner = f"{place.scope.inner}{name}."
                scope = _Scope(place.scope.function, inner, class_reason())
                return [_with_rows(node, lambda row: self._row(row, _Place(scope)))]
            case ast.For() | ast.While() | ast.AsyncFor():
                return self._loop(node, place)
        return [_with_rows(node, lambda row: self._row(row, place))]

    def _function(self, node: FunctionNode, around: _Scope) -> ast.stmt:
        name = f"{around.inner}{node.name}"
        is_method = around.inner.endswith(".") and not around.inner.endswith("<locals>.")
        reason = name_reason(node) if self.has_our_names else Reason()
        reason = reason or function_reason(node, self.compiled, is_method=is_method)
        scope = _Scope(name, f"{name}.<locals>.", reason, node)
        new = _with_rows(node, lambda row: self._row(row, _Place(scope)))
        if scope.uses_local:
            start = 0 if ast.get_docstring(node, clean=False) is None else 1
            find = _parsed(f"{_RUNTIME} = {_FOUND}", node.body[start])
            new.body.insert(start, find)
        return new

    def _loop(self, loop: LoopNode, place: _Place) -> _Row:
        depth = place.depth + 1
        reason = place.scope.reason.text or loop_reason(loop)
        if depth > _DEEPEST or reason:
            if depth <= _DEEPEST:
                self.left.append((loop.lineno, reason))
            return [self._walk_loop(loop, place, None)]
        site = len(self.sites)
        self.sites.append(_site(loop, site, place))
        new = self._walk_loop(loop, place, site)
        return _wrapped(new, site + self.first, place.scope)

    def _walk_loop(self, loop: LoopNode, place: _Place, site: int | None) -> LoopNode:
        new = copy.copy(loop)
        new.body = self._row(loop.body, _Place(place.scope, place.depth + 1, site))
        new.orelse = self._row(loop.orelse, place)
        return new


def _site(loop: LoopNode, site: int, place: _Place) -> LoopSite:
    effects = effects_of(loop, place.scope.flow)
    return LoopSite(
        site=site,
        line=loop.lineno,
        kind="while" if isinstance(loop, ast.While) else "for",
        label=_label(loop),
        within=place.within,
        function=place.scope.function,
        names=mentioned(loop),
        bound=tuple(sorted(bindings([loop, *own_nodes(loop)]))),
        estimate=effects.estimate,
        own=effects.own,
        no_estimate=effects.no_estimate,
    )


def _label(loop: LoopNode) -> str:
    if isinstance(loop, ast.While):
        return "step"
    target: ast.expr = loop.target
    while isinstance(target, ast.Tuple | ast.List) and target.elts:
        target = target.elts[0]
    return target.id if isinstance(target, ast.Name) else "step"


def _wrapped(loop: LoopNode, number: int, scope: _Scope) -> _Row:
    """Return a loop with its calls.  Its iterable and body are as they were."""
    is_plain = scope.is_module
    scope.uses_local |= not is_plain
    if isinstance(loop, ast.While):
        loop.body = [_call(scope, "tick", number, loop), *loop.body]
    else:
        text = f"{_RUNTIME}.iterate({number}, _)"
        template = text if is_plain else f"_ if {_RUNTIME} is None else {text}"
        loop.iter = _fill(_expression(template, loop.iter), loop.iter)
    guard = "" if is_plain else f"{_RUNTIME} is None or "
    test = _expression(f"{guard}{_RUNTIME}.enter({number})", loop)
    entered = ast.copy_location(ast.If(test, [loop], []), loop)
    return [entered, _call(scope, "end", number, loop)]


def _fill(template: ast.expr, iterable: ast.expr) -> ast.expr:
    """Put an iterable where the template has ``_``."""
    match template:
        case ast.IfExp(orelse=ast.Call() as call):
            template.body = iterable
            try:
                # Twice the same node would be changed twice by who transforms the tree next.
                call.args[1] = copy.deepcopy(iterable)
            except RecursionError:
                call.args[1] = iterable
        case ast.Call():
            template.args[1] = iterable
    return template


def _call(scope: _Scope, method: str, number: int, at: ast.AST) -> ast.stmt:
    if scope.is_module and not scope.reason:
        return _parsed(f"{_RUNTIME}.{method}({number})", at)
    if scope.reason.can_have_local:
        scope.uses_local = True
        return _parsed(f"if {_RUNTIME} is not None: {_RUNTIME}.{method}({number})", at)
    return _parsed(f"if {_FOUND} is not None: {_FOUND}.{method}({number})", at)


def _parsed(text: str, at: ast.AST) -> ast.stmt:
    return _placed(ast.parse(text).body[0], at)


def _expression(text: str, at: ast.AST) -> ast.expr:
    return _placed(ast.parse(text, mode="eval").body, at)


def _placed(node: _Node, at: ast.AST) -> _Node:
    for each in ast.walk(node):
        ast.copy_location(each, at)
    return node


def _with_rows(node: _Node, change: Callable[[_Row], _Row]) -> _Node:
    """Return a copy of a statement, with all rows of statements in it changed."""
    new = copy.copy(node)
    for name, value in ast.iter_fields(node):
        if not isinstance(value, list) or not value:
            continue
        if isinstance(value[0], ast.stmt):
            setattr(new, name, change(value))
        elif isinstance(value[0], ast.ExceptHandler | ast.match_case):
            setattr(new, name, [_with_rows(each, change) for each in value])
    return new
