"""Which names may be read after a loop, and which its next iteration reads.

The usual backward analysis, on the tree itself.  Anything may raise.  Where the
flow is not known, a name counts as read.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from chexpoint.hindsight.program.names import (
    FunctionNode,
    LoopNode,
    bindings,
    declared_names,
    free_names,
    own_nodes,
    reads,
)

_Names = frozenset[str]
_NONE: _Names = frozenset()


@dataclass(frozen=True, slots=True)
class Flow:
    """What is read, of one function or of the top level of a program."""

    after: dict[int, _Names]
    """Names that may be read after a loop, by the `id` of its node."""
    carried: dict[int, _Names]
    """Names that an iteration of a loop may read as the one before left them."""
    always: _Names
    """Names that others can read at any time."""

    def read_beyond(self, loop: LoopNode) -> _Names:
        """Return the names that are read after a loop or an iteration of it."""
        key = id(loop)
        return self.always | self.after.get(key, _NONE) | self.carried.get(key, _NONE)


def flow_of(scope: ast.Module | FunctionNode) -> Flow:
    """Return the flow of names in a function, or at the top level of a program.

    At the top level, what comes after the end is not known: nothing is said to be
    read there, but for names that are bound outside of loops as well.
    """
    own = list(own_nodes(scope))
    always = declared_names(own) | _captured(own)
    if isinstance(scope, ast.Module):
        in_loops = {
            id(inner) for node in own if isinstance(node, LoopNode) for inner in ast.walk(node)
        }
        always |= bindings(node for node in own if id(node) not in in_loops)
    walk = _Walk()
    walk.before(scope.body, _NONE, _Exits())
    return Flow(walk.after, walk.carried, frozenset(always))


def _captured(own: Iterable[ast.AST]) -> set[str]:
    """Return the names that functions and generators read, which may run at any time."""
    found: set[str] = set()
    for node in own:
        if isinstance(node, FunctionNode | ast.Lambda | ast.ClassDef):
            found |= free_names(node)
        elif isinstance(node, ast.GeneratorExp):
            found |= reads(node)
    return found


@dataclass(frozen=True, slots=True)
class _Exits:
    """What is read after leaving by other ways than the end of a row of statements."""

    broken: _Names = _NONE
    continued: _Names = _NONE
    returned: _Names = _NONE
    raised: _Names = _NONE


@dataclass(slots=True)
class _Walk:
    after: dict[int, _Names] = field(default_factory=dict)
    carried: dict[int, _Names] = field(default_factory=dict)
    known: dict[int, tuple[_Names, _Names]] = field(default_factory=dict)

    def before(self, row: Iterable[ast.stmt], after: _Names, exits: _Exits) -> _Names:
        """Return the names that may be read from the beginning of a row of statements on."""
        for statement in reversed(list(row)):
            after = self._statement(statement, after, exits)
        return after

    def _statement(self, node: ast.stmt, after: _Names, exits: _Exits) -> _Names:  # noqa: PLR0911 - one way for each kind
        match node:
            case ast.If(test=test, body=body, orelse=orelse):
                inside = self.before(body, after, exits) | self.before(orelse, after, exits)
                return self._reads(test) | inside | exits.raised
            case ast.For() | ast.AsyncFor() | ast.While():
                return self._loop(node, after, exits)
            case ast.With() | ast.AsyncWith():
                return self._with(node, after, exits)
            case ast.Try() | ast.TryStar():
                return self._try(node, after, exits)
            case ast.Match(subject=subject, cases=cases):
                inside = self._cases(cases, after, exits)
                return self._reads(subject) | inside | after | exits.raised
            case ast.Break():
                return exits.broken
            case ast.Continue():
                return exits.continued
            case ast.Return():
                return self._reads(node) | exits.returned | exits.raised
            case ast.Raise():
                return self._reads(node) | exits.raised
        return (after - self._binds(node)) | self._reads(node) | exits.raised

    def _loop(self, node: LoopNode, after: _Names, exits: _Exits) -> _Names:
        key = id(node)
        self.after[key] = self.after.get(key, _NONE) | after
        # Alone, without the way back: what an iteration reads that it did not bind itself.
        carried = self._iteration(node, _NONE, _Exits())
        self.carried[key] = carried
        ended = self.before(node.orelse, after, exits)
        head = ended | carried
        while True:
            inner = replace(exits, broken=after, continued=head)
            wider = head | self._iteration(node, head, inner)
            if wider == head:
                break
            head = wider
        first = self._reads(node.iter) if not isinstance(node, ast.While) else _NONE
        return head | first | exits.raised

    def _iteration(self, node: LoopNode, after: _Names, exits: _Exits) -> _Names:
        inside = self.before(node.body, after, exits)
        if isinstance(node, ast.While):
            return self._reads(node.test) | inside
        return (inside - self._binds(node.target)) | self._reads(node.target) | exits.raised

    def _with(self, node: ast.With | ast.AsyncWith, after: _Names, exits: _Exits) -> _Names:
        # It may keep an exception from going on.
        inside = self.before(node.body, after, replace(exits, raised=exits.raised | after))
        for item in reversed(node.items):
            if item.optional_vars is not None:
                inside -= self._binds(item.optional_vars)
                inside |= self._reads(item.optional_vars)
            inside |= self._reads(item.context_expr)
        return inside | exits.raised

    def _try(self, node: ast.Try | ast.TryStar, after: _Names, exits: _Exits) -> _Names:
        if node.finalbody:
            after, exits = (
                self.before(node.finalbody, after, exits),
                _Exits(
                    *(
                        self.before(node.finalbody, way, exits)
                        for way in (exits.broken, exits.continued, exits.returned, exits.raised)
                    )
                ),
            )
        caught = exits.raised
        for handler in node.handlers:
            caught |= self.before(handler.body, after, exits)
            caught |= _NONE if handler.type is None else self._reads(handler.type)
        ended = self.before(node.orelse, after, exits)
        return self.before(node.body, ended, replace(exits, raised=caught)) | exits.raised

    def _cases(self, cases: list[ast.match_case], after: _Names, exits: _Exits) -> _Names:
        found = _NONE
        for case in cases:
            found |= self.before(case.body, after, exits) | self._reads(case.pattern)
            found |= _NONE if case.guard is None else self._reads(case.guard)
        return found

    def _reads(self, node: ast.AST) -> _Names:
        return self._known(node)[0]

    def _binds(self, node: ast.AST) -> _Names:
        return self._known(node)[1]

    def _known(self, node: ast.AST) -> tuple[_Names, _Names]:
        found = self.known.get(id(node))
        if found is None:
            nodes = [node, *own_nodes(node)] if not _is_scope(node) else [node]
            found = frozenset(reads(node)), frozenset(bindings(nodes))
            self.known[id(node)] = found
        return found


def _is_scope(node: ast.AST) -> bool:
    return isinstance(node, FunctionNode | ast.ClassDef | ast.Lambda)
