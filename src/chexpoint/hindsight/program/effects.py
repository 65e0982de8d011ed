"""What a loop changes, by the rules of the paper on hindsight logging (Table 2).

====  =================================  ===================================
rule  statement                          what it adds to the changed names
====  =================================  ===================================
0     ``v = u``, the object of ``v``     nothing is said of the loop
      has been changed before
1     ``v = obj.method(...)``            ``obj`` and ``v``
2     ``v = func(...)``                  ``v``
3     ``v = u``                          ``v``
4     ``obj.method(...)``                ``obj``
5     ``func(...)``                      nothing is said of the loop
====  =================================  ===================================

The first that fits counts.  Other statements that bind names count as well:
``+=``, ``del``, ``with ... as``, ``:=``, targets of loops, imports, definitions.  A
store to an attribute or an item changes the object.  Names that only the loop
itself uses are then left out.  Rule 2 misses what a function does to its arguments;
that shows only when the program runs.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable
from dataclasses import dataclass, field

from chexpoint.hindsight.program.loops_liveness import Flow, flow_of
from chexpoint.hindsight.program.names import (
    LOG_FUNCTIONS,
    FunctionNode,
    LoopNode,
    bases,
    bindings,
    bound_by,
    last_part,
    own_nodes,
)

__all__ = ["Effects", "Flow", "effects_of", "flow_of"]

_WITH_EFFECTS = frozenset(
    {"__import__", "compile", "delattr", "eval", "exec", "input", "next", "open", "setattr"}
    | {"anext", "breakpoint", "globals", "locals", "vars"}
)
_NO_EFFECT = (
    frozenset(name for name in vars(builtins) if name not in _WITH_EFFECTS)
    | LOG_FUNCTIONS
    | {"tqdm", "trange", "sleep"}
)
# What they return is, or has in it, what they are given.
_PASSING_ON = frozenset(
    {"enumerate", "filter", "iter", "list", "map", "reversed", "sorted", "tqdm", "tuple", "zip"}
    | {"loop", "islice", "chain"}
)
# Well known: they change their first argument, and nothing else.
_CHANGES_FIRST = frozenset(
    {"next", "setattr", "delattr", "shuffle", "heapify", "heappush", "heappop"}
    | {"clip_grad_norm_", "clip_grad_value_"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """What the rules say of one loop."""

    estimate: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    no_estimate: str = ""


def effects_of(loop: LoopNode, flow: Flow) -> Effects:
    """Return what a loop changes; ``flow`` is that of the function or program it is in."""
    changes = _Changes()
    changes.loop(loop)
    changes.walk(loop.body)
    own = changes.bound - flow.read_beyond(loop)
    estimate = (changes.bound | changes.changed | changes.behind(own)) - own
    return Effects(
        estimate=tuple(sorted(estimate)),
        own=tuple(sorted(own)),
        no_estimate=changes.refusal,
    )


@dataclass(slots=True)
class _Changes:
    bound: set[str] = field(default_factory=set)
    """Names that stand for something else afterwards."""
    changed: set[str] = field(default_factory=set)
    """Names whose objects may be changed."""
    effective: set[str] = field(default_factory=set)
    """Those of them that are changed by a statement that is there for nothing else."""
    sources: dict[str, set[str]] = field(default_factory=dict)
    """Names of objects that a name is a part of."""
    refusal: str = ""

    def behind(self, own: set[str]) -> set[str]:
        """Return the names by which changed objects are known outside of the loop."""
        found: set[str] = set()
        waiting = list(self.effective & own)
        while waiting:
            for name in self.sources.get(waiting.pop(), set()) - found:
                found.add(name)
                waiting.extend({name} & own)
        return found

    def walk(self, row: Iterable[ast.stmt]) -> None:
        for statement in row:
            self._statement(statement)
            if isinstance(statement, FunctionNode | ast.ClassDef):
                continue
            for child in ast.iter_child_nodes(statement):
                match child:
                    case ast.stmt():
                        self.walk([child])
                    case ast.ExceptHandler(body=body) | ast.match_case(body=body):
                        self.bound |= bindings(own_nodes(child))
                        self.bound.update(bound_by(child))
                        self.walk(body)

    def loop(self, node: LoopNode) -> None:
        """Take in the head of a loop."""
        if isinstance(node, ast.While):
            self._head(node.test)
            return
        self._head(node.iter)
        self._bind(node.target, node.iter)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign():
                self._assign(node.targets, node.value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign([target], value)
            case ast.AugAssign(target=target, value=value):
                self._head(value)
                self._bind(target)
            case ast.Expr(value=value):
                self._effect(value)
            case ast.Delete(targets=targets):
                self._bind(ast.Tuple(targets))
            case ast.For() | ast.AsyncFor() | ast.While():
                self.loop(node)
            case ast.With() | ast.AsyncWith():
                self._with(node)
            case ast.If(test=head) | ast.Match(subject=head) | ast.Return(value=ast.expr() as head):
                self._head(head)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                self.bound.update(name for alias in names for name in bound_by(alias))
            case _:
                self.bound.update(bound_by(node))
        self._walrus(node)

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self._head(item.context_expr, is_used=True)
            if item.optional_vars is not None:
                self._bind(item.optional_vars, item.context_expr)

    def _walrus(self, node: ast.stmt) -> None:
        rows = ("body", "orelse", "finalbody", "handlers", "cases", "decorator_list")
        for name, value in ast.iter_fields(node):
            if name in rows:
                continue
            for part in value if isinstance(value, list) else [value]:
                if not isinstance(part, ast.AST):
                    continue
                for inner in (part, *own_nodes(part)):
                    if isinstance(inner, ast.NamedExpr):
                        self._bind(inner.target, inner.value)
                        self._head(inner.value)

    def _assign(self, targets: list[ast.expr], value: ast.expr) -> None:
        again = {name for target in targets for name in _names(target)} & self.changed
        if again and not isinstance(value, ast.Call):  # rule 0
            name = min(again)
            self._refuse(value, f"binds `{name}` anew after its object was changed")
        self._head(value)  # rule 1, else 2 and 3
        for target in targets:
            self._bind(target, value)

    def _effect(self, value: ast.expr) -> None:
        """Take in an expression that is there for its effect alone."""
        match value:
            case ast.Call(func=ast.Attribute(value=receiver)):  # rule 4
                found = bases(receiver)
                self.changed |= found
                self.effective |= found
                root = None if found else _root_call(receiver)
                if root is not None and last_part(root) not in _NO_EFFECT:
                    self._refuse(value, f"changes what `{_short(root)}` gives")
            case ast.Call(func=ast.Name(id=name), args=[first, *_]) if name in _CHANGES_FIRST:
                self.changed |= bases(first)
                self.effective |= bases(first)
            case ast.Call(func=ast.Name(id=name)) if name in _NO_EFFECT:
                pass
            case ast.Call():  # rule 5
                self._refuse(value, f"calls `{_short(value)}`, and nobody knows what that changes")
            case ast.ListComp(elt=inner) | ast.SetComp(elt=inner) | ast.Await(value=inner):
                self._effect(inner)
            case ast.IfExp(body=one, orelse=other):
                self._effect(one)
                self._effect(other)
            case ast.BoolOp(values=values):
                for each in values:
                    self._effect(each)

    def _head(self, value: ast.expr, *, is_used: bool = False) -> None:
        """Take in what a statement computes: the object of a method counts as changed."""
        match value:
            case ast.Call(func=ast.Attribute(value=receiver)):
                self.changed |= bases(receiver)
            case ast.Call(func=ast.Name(id="next"), args=[first, *_]):
                self.changed |= bases(first)
                self.effective |= bases(first)
            case ast.UnaryOp(operand=inner) | ast.Await(value=inner):
                self._head(inner)
            case ast.Name(id=name) if is_used:
                self.changed.add(name)

    def _bind(self, target: ast.expr, value: ast.expr | None = None) -> None:
        names = _names(target)
        self.bound |= names
        for part in _parts(target):
            if isinstance(part, ast.Attribute | ast.Subscript):
                self.changed |= bases(part)
                self.effective |= bases(part)
        for name in names if value is not None else ():
            self.sources.setdefault(name, set()).update(_origins(value) - {name})

    def _refuse(self, node: ast.expr, what: str) -> None:
        self.refusal = self.refusal or f"line {node.lineno} {what}"


def _parts(target: ast.expr) -> Iterable[ast.expr]:
    if isinstance(target, ast.Tuple | ast.List):
        for element in target.elts:
            yield from _parts(element)
    elif isinstance(target, ast.Starred):
        yield from _parts(target.value)
    else:
        yield target


def _names(target: ast.expr) -> set[str]:
    return {part.id for part in _parts(target) if isinstance(part, ast.Name)}


def _origins(value: ast.expr | None) -> set[str]:
    match value:
        case None:
            return set()
        case ast.Call(func=function, args=arguments) if last_part(function) in _PASSING_ON:
            return {name for argument in arguments for name in _origins(argument)}
    return bases(value)


def _root_call(expression: ast.expr) -> ast.Call | None:
    """Return the call of a function that a chain of methods begins with, if it does."""
    match expression:
        case ast.Attribute(value=inner) | ast.Subscript(value=inner):
            return _root_call(inner)
        case ast.Call(func=ast.Attribute(value=inner)):
            return _root_call(inner)
        case ast.Call():
            return expression
    return None


def _short(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 60 else f"{text[:57]}..."
