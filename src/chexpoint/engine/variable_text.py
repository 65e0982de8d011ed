"""What the text of a cell tells at a glance: magics, seeds, ways to every variable."""

from __future__ import annotations

import ast
import collections
import dis
import functools
import itertools
import re
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

ANY = "*"
"""Stands for every variable among the names that a function uses."""

FILES = ":files"
"""Stands, among the names that a cell reads, for all files that cells have written."""

MEMORY = ":memory"
"""Stands, among the names that a function uses, for tables that it may write without pandas."""

# Questions about files that no input shows.
ASKING = frozenset(
    {"access", "disk_usage", "getatime", "getctime", "getmtime", "getsize", "lstat", "stat"}
)

# Whoever calls one of these by its name can reach every variable.
_OPAQUE_NAMES = frozenset(
    {"__builtins__", "__import__", "__main__", "eval", "exec", "get_ipython", "globals"}
    | {"locals", "vars"}
)
_OPAQUE_ATTRIBUTES = frozenset(
    {
        "__builtins__",
        "__globals__",
        "_current_frames",
        "_getframe",
        "currentframe",
        "f_back",
        "f_globals",
        "f_locals",
        "get_objects",
        "get_referrers",
        "getouterframes",
        "getinnerframes",
        "tb_frame",
        "user_ns",
        "user_global_ns",
    }
)
# What a function has of its own under these names is no way to the notebook's variables.
_OPAQUE_IN_FUNCTIONS = _OPAQUE_NAMES - {"locals", "vars", "__import__"}
LOADS = frozenset(
    dis.opmap[name]
    for name in (
        "LOAD_NAME",
        "STORE_NAME",
        "DELETE_NAME",
        "STORE_GLOBAL",
        "DELETE_GLOBAL",
        "LOAD_FROM_DICT_OR_GLOBALS",
    )
    if name in dis.opmap
)
LOAD_GLOBAL = dis.opmap["LOAD_GLOBAL"]


# They look up names in the text that they are given.
TEXT_CALLS = frozenset(
    {"eval", "evaluate", "execute", "from_formula", "query", "re_evaluate", "run", "runctx", "sql"}
    | {"gee", "glm", "gls", "logit", "mixedlm", "ols", "poisson", "probit", "quantreg", "wls"}
    | {"dmatrices", "dmatrix", "repeat", "timeit"}
)
# Among them those that are often given a text that was made elsewhere.
ANY_TEXT_CALLS = frozenset({"eval", "evaluate", "query", "sql"})
WORD = re.compile(r"[^\W\d]\w*")


# Pandas copies memory before it is written to if somebody else shows it, and gives it away as what
# must not be written.  These are ways around that; those of `_OPEN_VALUES` only if they are not
# called, as ``values`` of a dictionary or ``array`` of NumPy.
_OPEN_VALUES = frozenset({"array", "values"})
_WAYS_IN = frozenset(
    {"_codes", "_data", "_mask", "_mgr", "_ndarray", "_pa_array", "_values"}
    | {"__array_interface__", "__array_struct__", "__dlpack__", "as_strided", "as_tensor"}
    | {"attrgetter", "ctypes", "flags", "from_buffer", "from_dlpack", "from_numpy", "frombuffer"}
    | {"getattr", "memoryview", "setflags", "writeable"}
)


# ---------------------------------------------------------------- trees


_SIGNS = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
# Fields that hold signs, or words.
_NO_NODES = frozenset({"arg", "attr", "ctx", "id", "kind", "level", "module", "op", "ops"})


_CHILDREN = "_chex_children"
_fields: dict[type, tuple[str, ...]] = {}


def _fields_of(kind: type[ast.AST]) -> tuple[str, ...]:
    known = _fields.get(kind)
    if known is None:
        known = _fields[kind] = tuple(each for each in kind._fields if each not in _NO_NODES)
    return known


def children_of(node: ast.AST) -> list[ast.AST]:
    """Return what a node is made of, without signs: `ast.iter_child_nodes`, but quick.

    Signs, such as that of a sum, are the same objects in all trees, and who shows a traceback gives
    them attributes that lead to nodes of another cell.

    The tree of a cell is gone through several times, so each node keeps the answer: no tree may be
    changed below a node that was asked.
    """
    known: list[ast.AST] | None = node.__dict__.get(_CHILDREN)
    if known is not None:
        return known
    found: list[ast.AST] = []
    for name in _fields_of(type(node)):
        value = getattr(node, name, None)
        if isinstance(value, ast.AST):
            if not isinstance(value, _SIGNS):
                found.append(value)
        elif type(value) is list:
            found += [each for each in value if isinstance(each, ast.AST)]
    node.__dict__[_CHILDREN] = found
    return found


def nodes_of(tree: ast.AST) -> list[ast.AST]:
    """Return a node and all below it: `ast.walk`, but quick."""
    found = [tree]
    for node in found:
        found += children_of(node)
    return found


def by_kind(nodes: Iterable[ast.AST]) -> dict[type, list[Any]]:
    """Return nodes by their types; a type that there is none of has an empty list."""
    found: dict[type, list[Any]] = collections.defaultdict(list)
    for node in nodes:
        found[type(node)].append(node)
    return found


# ---------------------------------------------------------------- magics

MEASURING = frozenset({"time", "timeit", "capture"})
_OPTIONS = re.compile(r"^(\s*-[a-zA-Z]\s*\d*)+\s")


def without_magics(
    body: list[ast.stmt], found: list[str], *, may_hide: bool = True
) -> Iterator[ast.stmt]:
    """Yield the statements of a cell, with what its magics run in their place.

    Parameters
    ----------
    may_hide
        Whether magics may be called inside of statements.
    """
    for statement in body:
        call = statement.value if isinstance(statement, ast.Expr) else None
        name, texts = _magic(call)
        if not name:
            if may_hide:
                found.extend(_hidden_magics(statement))
            yield statement
            continue
        found.append(name)
        if name not in MEASURING and not name.startswith("chex_"):
            yield statement
            continue
        if name == "chex_warmstart" and texts:
            # The model and the data.
            words = [word for word in texts[0].split() if word.isidentifier()]
            yield from ast.parse(", ".join(words)).body
        if name == "capture" and texts:
            words = [word for word in texts[0].split() if word.isidentifier()]
            yield from ast.parse(" = ".join([*words, "None"])).body if words else []
        code = texts[-1] if len(texts) > 1 else texts[0] if name in MEASURING else ""
        yield from ast.parse(_OPTIONS.sub("", f"{code} ").strip()).body


def _magic(call: ast.expr | None) -> tuple[str, list[str]]:
    """Return the name of a magic that is called, and what it is given."""
    match call:
        case ast.Call(
            func=ast.Attribute(
                value=ast.Call(func=ast.Name(id="get_ipython")),
                attr="run_line_magic" | "run_cell_magic",
            ),
            args=[ast.Constant(value=str(name)), *rest],
        ):
            texts = [each.value for each in rest if isinstance(each, ast.Constant)]
            return name, [str(text) for text in texts]
    return "", []


def _hidden_magics(statement: ast.stmt) -> Iterator[str]:
    for node in nodes_of(statement):
        if isinstance(node, ast.Call):
            name, _ = _magic(node)
            if name:
                yield name
            elif isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call):
                owner = node.func.value.func
                if isinstance(owner, ast.Name) and owner.id == "get_ipython":
                    is_shell = node.func.attr in {"system", "getoutput", "system_piped"}
                    yield "!" if is_shell else "get_ipython"


# ---------------------------------------------------------------- what may reach everything


_TELLING = frozenset(
    {ast.Attribute, ast.Call, ast.Constant, ast.Import, ast.ImportFrom, ast.Name, ast.Subscript}
)


# What a cell has in it, as a name or as a text, that may reach everything.
_SUSPICIOUS = _OPAQUE_NAMES | _OPAQUE_ATTRIBUTES | {"*", "dir", "modules"}


def is_opaque(nodes: list[ast.AST], words: frozenset[str]) -> bool:
    """Tell whether a cell may reach variables that it does not name.

    Parameters
    ----------
    words
        All names and attributes in it, and the modules that it imports.
    """
    texts = {n.value for n in nodes if type(n) is ast.Constant and type(n.value) is str}
    if _SUSPICIOUS.isdisjoint(words) and _SUSPICIOUS.isdisjoint(texts):
        return False
    compared = {
        id(side)
        for node in nodes
        if isinstance(node, ast.Compare)
        and isinstance(node.left, ast.Name)
        and node.left.id == "__name__"
        for side in node.comparators
    }
    looked_at = [node for node in nodes if type(node) in _TELLING]
    return any(_is_opaque_node(node) for node in looked_at if id(node) not in compared)


def _is_opaque_node(node: ast.AST) -> bool:
    found = False
    match node:
        case ast.Name(id="vars" | "locals" | "dir"):
            pass
        case ast.Call(func=ast.Name(id="vars" | "locals" | "dir"), args=args):
            found = not args
        case ast.Name(id=name):
            found = name in _OPAQUE_NAMES
        case ast.Attribute(value=ast.Name(id="builtins" | "__builtins__"), attr="eval" | "exec"):
            found = True
        case ast.Attribute(attr=name):
            found = name in _OPAQUE_ATTRIBUTES
        case ast.Constant(value=str(text)):
            found = text == "__main__" or text in _OPAQUE_ATTRIBUTES
        case ast.Import(names=names):
            found = any(each.name == "__main__" for each in names)
        case ast.ImportFrom(module=module, names=names):
            found = module == "__main__" or any(each.name == "*" for each in names)
        case ast.Subscript(value=ast.Attribute(attr="modules"), slice=ast.Name(id="__name__")):
            found = True
    return found


@functools.lru_cache(maxsize=2048)
def global_names(code: types.CodeType) -> frozenset[str]:
    """Return the names of globals that a function uses, and the functions in it.

    What holds functions is read after each cell that may change it; most of them are the same.
    """
    found: set[str] = set()
    waiting = [code]
    while waiting:
        each = waiting.pop()
        found |= globals_of(each)
        if not _OPAQUE_ATTRIBUTES.isdisjoint(each.co_names):
            found.add(ANY)
        if not ASKING.isdisjoint(each.co_names):
            found.add(FILES)
        if not TEXT_CALLS.isdisjoint(each.co_names):
            found |= _names_in_texts(each)
        if not _WAYS_IN.isdisjoint(each.co_names) or _opens_values(each):
            found.add(MEMORY)
        waiting += [const for const in each.co_consts if isinstance(const, types.CodeType)]
    if not _OPAQUE_IN_FUNCTIONS.isdisjoint(found):
        found.add(ANY)
    return frozenset(found)


def _names_in_texts(code: types.CodeType) -> set[str]:
    """Return the names that a function may look up in a text: all, if that is made elsewhere."""
    texts = [const for const in code.co_consts if isinstance(const, str)]
    found = {word for text in texts for word in WORD.findall(text)}
    steps = list(dis.get_instructions(code))
    for step, after in itertools.pairwise(steps):
        is_call = step.opname in {"LOAD_ATTR", "LOAD_METHOD"} and step.argval in ANY_TEXT_CALLS
        # Without an argument it is another method of that name, such as that of a torch module.
        if not is_call or after.opname in {"PRECALL", "CALL"}:
            continue
        text = after.argval if after.opname == "LOAD_CONST" else None
        if not isinstance(text, str) or text.endswith("@"):
            found.add(ANY)
    return found


def _opens_values(code: types.CodeType) -> bool:
    if _OPEN_VALUES.isdisjoint(code.co_names):
        return False
    return any(
        step.argval in _OPEN_VALUES and step.opname == "LOAD_ATTR" and not _is_method(step)
        for step in dis.get_instructions(code)
    )


def _is_method(step: dis.Instruction) -> bool:
    """Tell whether an attribute is called at once; before 3.12 that is another instruction."""
    return sys.version_info >= (3, 12) and bool((step.arg or 0) & 1)


def writes_around(nodes: Iterable[ast.AST]) -> bool:
    """Tell whether a cell may write memory of a table behind its back."""
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    return any(
        word in _WAYS_IN or (word in _OPEN_VALUES and id(node) not in called)
        for node in nodes
        for word in words_in([node])
    )


def globals_of(code: types.CodeType) -> set[str]:
    text, names = code.co_code, code.co_names
    found = set()
    extended = 0
    for place in range(0, len(text), 2):
        operation, argument = text[place], text[place + 1] | extended << 8
        extended = argument if operation == dis.EXTENDED_ARG else 0
        if operation == LOAD_GLOBAL:
            # The lowest bit tells whether it is called at once.
            found.add(names[argument >> 1])
        elif operation in LOADS:
            found.add(names[argument])
    return found


# ---------------------------------------------------------------- seeds

SEEDS = frozenset({"seed", "manual_seed", "set_seed", "set_random_seed", "seed_everything"})


def seeds_in(body: list[ast.stmt]) -> Iterator[str]:
    """Yield the calls that seed random numbers while nothing else was called yet."""
    for statement in body:
        if isinstance(statement, ast.Import | ast.ImportFrom | ast.FunctionDef):
            continue
        calls = [node for node in nodes_of(statement) if isinstance(node, ast.Call)]
        for call in calls:
            dotted = ast.unparse(call.func)
            is_given = bool(call.args or call.keywords) and not _is_none(call.args)
            if dotted.rpartition(".")[2] not in SEEDS or not is_given:
                return
            yield dotted
        if not isinstance(statement, ast.Expr | ast.Assign | ast.AnnAssign):
            return


def _is_none(args: list[ast.expr]) -> bool:
    return bool(args) and isinstance(args[0], ast.Constant) and args[0].value is None


def parameters(args: ast.arguments) -> frozenset[str]:
    """Return the names of a function's parameters."""
    every = (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg)
    return frozenset(each.arg for each in every if each is not None)


def annotations_of(args: ast.arguments) -> list[ast.expr | None]:
    """Return the annotations of a function's parameters."""
    every = (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg)
    return [each.annotation for each in every if each is not None]


def compiled(node: ast.stmt) -> list[types.CodeType]:
    """Return the code of a function or class."""
    bare = ast.Module([node], [])
    code = compile(bare, "<cell>", "exec", dont_inherit=True)
    name = node.name  # type: ignore[attr-defined]
    return [
        const
        for const in code.co_consts
        if isinstance(const, types.CodeType) and const.co_name in {name, "<generic parameters>"}
    ]


def loaded_first(code: types.CodeType) -> set[str]:
    """Return the names that the body of a class uses before it has defined them."""
    text, names = code.co_code, code.co_names
    loaded: set[str] = set()
    stored: set[str] = {"__name__"}
    extended = 0
    for place in range(0, len(text), 2):
        operation, argument = text[place], text[place + 1] | extended << 8
        extended = argument if operation == dis.EXTENDED_ARG else 0
        if operation == dis.opmap["STORE_NAME"]:
            stored.add(names[argument])
        elif operation in LOADS and names[argument] not in stored:
            loaded.add(names[argument])
        elif operation == LOAD_GLOBAL:
            loaded.add(names[argument >> 1])
    return loaded


def words_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield all names and attributes in a cell."""
    for node in nodes:
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield from node.name.split(".")
