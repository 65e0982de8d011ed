"""Which variables the text of a cell uses, sets and deletes, before it runs.

Names are told apart from attributes, and those that a cell binds before it uses them from those
that it expects to be there.  What is said here errs on one side: a name too many.
"""

from __future__ import annotations

import ast
import builtins
import re
import types
from collections.abc import Iterable
from dataclasses import dataclass, field

from chexpoint.engine.variable_text import (
    ANY,
    ANY_TEXT_CALLS,
    MEASURING,
    TEXT_CALLS,
    WORD,
    annotations_of,
    by_kind,
    children_of,
    compiled,
    global_names,
    globals_of,
    is_opaque,
    loaded_first,
    nodes_of,
    parameters,
    seeds_in,
    without_magics,
    words_in,
)
from chexpoint.image import imports_in, targets_in, without_warnings

_SWALLOW = ("suppress", "ignor", "raises", "catch")
_HISTORY = re.compile(r"_{1,3}|_i{1,3}|_i?\d+|In|Out|_ih|_oh|_dh")


@dataclass(slots=True, kw_only=True)
class CellUses:
    """What the text of a cell tells about variables."""

    is_opaque: bool = False
    """Whether it may use any of them."""
    reads: set[str] = field(default_factory=set)
    """Names that what runs uses before the cell has surely bound them."""
    touched: set[str] = field(default_factory=set)
    """All names that it mentions, in functions too."""
    bound: set[str] = field(default_factory=set)
    """Names that it has surely bound at its end, if nothing is raised."""
    deferred: set[str] = field(default_factory=set)
    """Names that functions use which it defines."""
    imports: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    words: frozenset[str] = frozenset()
    """All names and attributes in it."""
    magics: tuple[str, ...] = ()
    """Magics that it calls, those that only measure apart; ``!`` for the system's shell."""
    seeds: frozenset[str] = frozenset()
    """Calls, by dotted names, that seed random numbers before anything else is called."""
    only_imports: bool = False
    """Whether it imports something, and calls nothing itself."""
    tree: ast.Module | None = None
    uses_history: bool = False
    """Whether it uses what earlier cells have shown."""


def read_uses(source: str) -> CellUses:
    """Return what a cell uses; one that cannot be parsed may use anything."""
    try:
        with without_warnings():
            tree = ast.parse(source)
            magics: list[str] = []
            may_hide = "get_ipython" in source
            tree.body = list(without_magics(tree.body, magics, may_hide=may_hide))
            nodes = nodes_of(tree)
            walk = _Walk()
            walk.statements(tree.body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return CellUses(is_opaque=True)
    uses = walk.uses
    kinds = by_kind(nodes)
    calls, attributes = kinds[ast.Call], kinds[ast.Attribute]
    uses.imports = tuple(imports_in([*kinds[ast.Import], *kinds[ast.ImportFrom]]))
    uses.targets = tuple(targets_in([*attributes, *calls]))
    uses.words = frozenset(words_in([*kinds[ast.Name], *attributes, *kinds[ast.alias]]))
    uses.is_opaque = uses.is_opaque or is_opaque(nodes, uses.words.union(uses.imports))
    uses.only_imports = bool(uses.imports) and not calls
    uses.magics = tuple(name for name in magics if name not in MEASURING)
    uses.seeds = frozenset(seeds_in(tree.body))
    uses.touched |= uses.reads | uses.bound | uses.deferred
    uses.bound = walk.bound
    uses.tree = tree
    # What IPython has kept of earlier cells may be any variable.
    if any(map(_HISTORY.fullmatch, uses.reads | uses.deferred)):
        uses.is_opaque = uses.uses_history = True
    return uses


def _may_swallow(item: ast.withitem) -> bool:
    """Tell whether a context may be one of the notebook's own, which can end an exception."""
    made = item.context_expr
    named = made.func if isinstance(made, ast.Call) else made
    return isinstance(named, ast.Name) and named.id != "open"


def _is_text(node: ast.expr) -> bool:
    """Tell whether an expression shows which names are in the text that it gives.

    What is put into a text stands for a value, unless it comes first or makes a name.
    """
    match node:
        case ast.Constant():
            return True
        case ast.JoinedStr(values=[ast.Constant(), *_] as parts):
            texts = [str(part.value) for part in parts[:-1] if isinstance(part, ast.Constant)]
            return not any(text.endswith("@") for text in texts)
    return False


class _Walk:
    """Goes through a cell in the order in which it runs."""

    def __init__(self) -> None:
        self.uses = CellUses()
        self.bound: set[str] = set()
        self._functions: dict[str, set[str]] = {}
        """What functions use that the cell has defined."""

    def statements(self, body: Iterable[ast.stmt]) -> None:
        for statement in body:
            visit = getattr(self, f"_{type(statement).__name__.lower()}", None)
            if visit is None:
                self._simple(statement)
            else:
                visit(statement)

    def _branch(self, body: Iterable[ast.stmt], first: Iterable[str] = ()) -> set[str]:
        """Go through what may run; return what is bound after it."""
        before = self.bound
        self.bound = {*before, *first}
        self.statements(body)
        after, self.bound = self.bound, before
        return after

    def _load(self, name: str) -> None:
        waiting = [name]
        seen: set[str] = set()
        while waiting:
            each = waiting.pop()
            if each in seen:
                continue
            seen.add(each)
            if each not in self.bound:
                self.uses.reads.add(each)
            waiting += self._functions.get(each, ())

    def _store(self, target: ast.AST) -> set[str]:
        """Go through the target of an assignment; return the names that it binds."""
        names = set()
        for node in nodes_of(target):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                names.add(node.id)
            elif isinstance(node, ast.MatchAs | ast.MatchStar) and node.name:
                names.add(node.name)
            elif isinstance(node, ast.MatchMapping) and node.rest:
                names.add(node.rest)
        self._use(target)
        self.uses.touched |= names
        return names

    def _bind(self, names: Iterable[str]) -> None:
        for name in names:
            self._functions.pop(name, None)
            self.bound.add(name)
            self.uses.touched.add(name)

    # ------------------------------------------------------------ expressions

    def _use(self, node: ast.AST | None, local: frozenset[str] = frozenset()) -> None:
        """Go through what is evaluated."""
        if node is None:
            return
        match node:
            case ast.Name(id=name, ctx=context):
                self.uses.touched.add(name)
                if name not in local and isinstance(context, ast.Load):
                    self._load(name)
            case ast.NamedExpr(target=target, value=value):
                self._use(value, local)
                self.uses.touched.add(target.id)
            case ast.Lambda(args=args, body=body):
                for default in (*args.defaults, *args.kw_defaults):
                    self._use(default, local)
                self._use(body, local | parameters(args))
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                self._comprehension(node, local)
            case ast.Call():
                self._text_of(node)
                self._children(node, local)
            case _:
                self._children(node, local)

    def _children(self, node: ast.AST, local: frozenset[str]) -> None:
        for child in children_of(node):
            if type(child) is not ast.Constant:
                self._use(child, local)

    def _comprehension(self, node: ast.AST, local: frozenset[str]) -> None:
        inner = local
        for each in node.generators:  # type: ignore[attr-defined]
            self._use(each.iter, inner)
            names = {n.id for n in nodes_of(each.target) if isinstance(n, ast.Name)}
            inner = inner | frozenset(names)
            self._use(each.target, inner)
            for test in each.ifs:
                self._use(test, inner)
        for part in ("key", "value", "elt"):
            self._use(getattr(node, part, None), inner)

    def _text_of(self, call: ast.Call) -> None:
        """Take the words in a text for names, where the text is run."""
        function = call.func
        name = function.attr if isinstance(function, ast.Attribute) else ""
        if isinstance(function, ast.Name):
            name = function.id
        if name not in TEXT_CALLS:
            return
        given = [*call.args, *(each.value for each in call.keywords)]
        for argument in given:
            for node in nodes_of(argument):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    for word in WORD.findall(node.value):
                        self._load(word)
        if name in ANY_TEXT_CALLS and given and not _is_text(given[0]):
            self.uses.is_opaque = True

    # ------------------------------------------------------------ statements

    def _simple(self, statement: ast.stmt) -> None:
        self._use(statement)

    def _assign(self, node: ast.Assign) -> None:
        self._use(node.value)
        for target in node.targets:
            self._bind(self._store(target))

    def _annassign(self, node: ast.AnnAssign) -> None:
        self._use(node.annotation)
        self._use(node.value)
        names = self._store(node.target)
        if node.value is not None:
            self._bind(names)

    def _augassign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self._load(node.target.id)
        self._use(node.value)
        self._bind(self._store(node.target))

    def _delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            names = self._store(target)
            # What is not there cannot be deleted.
            for name in names:
                self._load(name)
            self.bound -= names

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for each in node.names:
            name = each.asname or each.name
            self._bind([name.partition(".")[0] if isinstance(node, ast.Import) else name])

    _importfrom = _import

    def _if(self, node: ast.If) -> None:
        self._use(node.test)
        one, other = self._branch(node.body), self._branch(node.orelse)
        self.bound |= one & other

    def _while(self, node: ast.While) -> None:
        self._use(node.test)
        self._branch(node.body)
        self._branch(node.orelse)

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        self._use(node.iter)
        names = self._store(node.target)
        self._branch(node.body, names)
        self._branch(node.orelse)

    _asyncfor = _for

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        swallows = False
        for item in node.items:
            text = ast.unparse(item.context_expr)
            swallows = swallows or any(word in text for word in _SWALLOW) or _may_swallow(item)
            self._use(item.context_expr)
            if item.optional_vars is not None:
                self._bind(self._store(item.optional_vars))
        after = self._branch(node.body)
        if not swallows:
            self.bound |= after

    _asyncwith = _with

    def _try(self, node: ast.Try) -> None:
        after = self._branch([*node.body, *node.orelse])
        for handler in node.handlers:
            self._use(handler.type)
            name = [handler.name] if handler.name else []
            self.uses.touched.update(name)
            ended = self._branch(handler.body, name) - {handler.name}
            is_left = bool(handler.body) and isinstance(handler.body[-1], ast.Raise)
            after = after if is_left else after & ended
        self.bound |= after
        self.statements(node.finalbody)

    _trystar = _try

    def _match(self, node: ast.Match) -> None:
        self._use(node.subject)
        for case in node.cases:
            names = self._store(case.pattern)
            self._use(case.guard, frozenset(names))
            self._branch(case.body, names)

    def _functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for decorator in node.decorator_list:
            self._use(decorator)
        defaults = [*node.args.defaults, *node.args.kw_defaults]
        for expression in (*defaults, *annotations_of(node.args), node.returns):
            self._use(expression)
        inner = compiled(node)
        names = set().union(*map(global_names, inner)) - {node.name}
        self._define(node.name, names, is_used=bool(node.decorator_list))

    _asyncfunctiondef = _functiondef

    def _classdef(self, node: ast.ClassDef) -> None:
        for expression in (*node.decorator_list, *node.bases, *node.keywords):
            self._use(expression)
        names: set[str] = set()
        for code in compiled(node):
            own = {*code.co_names} - {*globals_of(code)}
            for name in loaded_first(code) - own:
                self._load(name)
            for const in code.co_consts:
                if isinstance(const, types.CodeType):
                    names |= global_names(const)
        # A base of the notebook's own may use its subclasses at once.
        bases = [base for base in node.bases if isinstance(base, ast.Name)]
        is_special = any(not hasattr(builtins, base.id) for base in bases)
        is_used = bool(node.decorator_list or node.keywords or is_special)
        self._define(node.name, names - {node.name}, is_used=is_used)

    def _define(self, name: str, names: set[str], *, is_used: bool) -> None:
        if ANY in names:
            self.uses.is_opaque = True
        self.uses.deferred |= names
        self._bind([name])
        self._functions[name] = names
        if is_used:
            self._load(name)
