"""Calls of libraries that change what no variable holds, told from the text of a cell.

A call whose result nobody takes is there for what it does.  If it has changed no variable that it
was given, and no state that is known, it may have changed something in the library: a setting,
a registry, a default.  Cells after it may depend on that.
"""

from __future__ import annotations

import ast
import dis
import types
from collections.abc import Collection, Iterator, Mapping

from chexpoint.engine.variable_facts import is_users
from chexpoint.engine.variable_looking import NAMED
from chexpoint.engine.variable_text import children_of, nodes_of
from chexpoint.image import is_importable

BEYOND = ":beyond"
"""Stands, among the variables that cells write and read, for what libraries hold."""

# What these do is seen by other means, or nobody depends on it.
_HOME_NAMES = """
IPython altair asyncio bokeh builtins contextlib csv gc joblib json matplotlib ntpath os pathlib
pickle plotly posix posixpath pprint random seaborn shutil subprocess tempfile time tqdm traceback
unittest warnings
"""
_HOMES = frozenset(_HOME_NAMES.split())
_VERB_NAMES = """
assert close critical debug display dump error exception flush info log manual_seed plot print save
seed show sleep to_ warn write
"""
_VERBS = tuple(_VERB_NAMES.split())
_SETTING_NAMES = """
add attach basicconfig config disable enable install patch push register set subscribe use
"""
_SETTING = tuple(_SETTING_NAMES.split())
"""What begins the names of functions that change what a library holds, even if they are given
something that is new."""
_CLEAR_NAMES = """
disable enable field_size install push register seterrcall set_ setdefaulttimeout subscribe tzset
umask
"""
_CLEAR = tuple(_CLEAR_NAMES.split())
"""And of those that do so even if their result is taken."""
_STATED = frozenset({"IPython", "builtins", "matplotlib", "random", "seaborn", "warnings"})
"""Libraries whose settings are seen by other means."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def hidden_call(
    tree: ast.Module | None,
    names: Mapping[str, object],
    *,
    mutated: Collection[str],
    made: Collection[str],
    states: Collection[str],
    is_shown: bool,
) -> str:
    """Return a call that may have changed what a library holds; or nothing.

    Parameters
    ----------
    names
        The variables after the cell.
    mutated
        Those that were there before, and that it has changed in place.
    made
        Those that it has made.
    states
        The states of the process that it has changed.
    is_shown
        Whether its last expression has given something.
    """
    if tree is None:
        return ""
    seen = {name.split(":")[1] for name in states}
    last = tree.body[-1] if tree.body else None
    for call, statement in _calls(tree):
        root, verb = _root(call.func)
        value = names.get(root)
        if isinstance(value, types.FunctionType) and is_users(value.__module__):
            if setting := _setting_in(value):
                return setting
            continue
        is_taken = not isinstance(statement, ast.Expr) or (is_shown and statement is last)
        is_clear = verb.startswith(_CLEAR)
        if is_taken and not is_clear:
            continue
        top = _library(value).partition(".")[0]
        homes = _STATED if is_clear else _HOMES
        if not top or top in homes or top in seen or verb.lower().startswith(_VERBS):
            continue
        given = {each.id for each in nodes_of(call) if isinstance(each, ast.Name)} - {root}
        is_setting = verb.lower().startswith(_SETTING)
        if given.isdisjoint(mutated) and (is_setting or given.isdisjoint(made)):
            return ast.unparse(call.func)
    return ""


def set_in_library(
    tree: ast.Module | None, names: Mapping[str, object], states: Collection[str]
) -> str:
    """Return an item or an attribute of a library's object that a cell sets; or nothing."""
    known = _STATED | {"os", "sys"} | {name.split(":")[1] for name in states}
    for node in _nodes_now(tree) if tree is not None else ():
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            top = _library(names.get(_root(node)[0])).partition(".")[0]
            if top and top not in known and ".options." not in ast.unparse(node):
                return ast.unparse(node)
    return ""


def _nodes_now(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield what a cell runs itself, not what stands in functions."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _FUNCTIONS):
            waiting += children_of(node)


def _calls(tree: ast.Module) -> Iterator[tuple[ast.Call, ast.AST]]:
    """Yield the calls that a cell makes itself, with what stands around each."""
    waiting: list[tuple[ast.AST, ast.AST]] = [(tree, tree)]
    while waiting:
        node, parent = waiting.pop()
        inner = children_of(node)
        if isinstance(node, ast.Call):
            yield node, parent
        elif isinstance(node, _FUNCTIONS):
            # Its body does not run now.
            inner = [] if isinstance(node, ast.Lambda) else list(node.decorator_list)
        around = parent if isinstance(node, ast.Await) else node
        waiting += [(each, around) for each in inner]


def _setting_in(function: types.FunctionType) -> str:
    """Return a call in a function of the user's that sets something in a library; or nothing."""
    if not any(name.lower().startswith(_SETTING) for name in function.__code__.co_names):
        return ""
    value: object = None
    words: list[str] = []
    for step in dis.get_instructions(function.__code__):
        if step.opname == "LOAD_GLOBAL":
            value, words = function.__globals__.get(str(step.argval)), [str(step.argval)]
        elif step.opname in {"LOAD_ATTR", "LOAD_METHOD"} and words:
            words.append(str(step.argval))
        else:
            words = []
        if words and words[-1].lower().startswith(_SETTING):
            home = _library(value)
            if home and home.partition(".")[0] not in _HOMES:
                return ".".join(words)
    return ""


def _root(node: ast.expr) -> tuple[str, str]:
    """Return the name that a function is found by, and what it is called itself."""
    verb = ""
    while True:
        match node:
            case ast.Attribute(value=inner, attr=name):
                verb = verb or name
            case ast.Call(func=ast.Name(id="vars"), args=[inner]):
                pass
            case ast.Call(func=inner) | ast.Subscript(value=inner):
                pass
            case ast.Name(id=name):
                return name, verb or name
            case _:
                return "", verb
        node = inner


def _library(value: object) -> str:
    """Return the module that a variable is, or comes from, if it is a library's."""
    if isinstance(value, types.ModuleType):
        home = value.__name__
    elif isinstance(value, NAMED) and is_importable(value):
        home = str(value.__module__)
    else:
        return ""
    # Those of the user's own are read themselves.
    return "" if is_users(home) else home
