"""Names in the text of a program: who reads them, who binds them, and what calls are called."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
LoopNode = ast.For | ast.While | ast.AsyncFor
ComprehensionNode = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp

LOG_FUNCTIONS = frozenset(
    {"print", "pprint", "display", "log", "log_metric", "log_metrics", "log_param", "log_params"}
)
"""Functions that log, whatever module they were imported from."""
LOG_METHODS = frozenset(
    {
        *("log", "log_metric", "log_metrics", "log_param", "log_params", "log_dict", "log_text"),
        *("log_artifact", "log_image", "log_figure", "log_table", "track", "set_postfix"),
        *("debug", "info", "warning", "error", "critical", "exception"),
        *("add_scalar", "add_scalars", "add_histogram", "add_image", "add_images", "add_figure"),
        *("add_text", "add_embedding", "add_pr_curve", "add_hparams", "add_tensor"),
        *("print", "pprint", "display", "write", "writelines", "writerow"),
    }
)
"""Methods and functions of modules that log: of loggers, of TensorBoard, MLflow and W&B."""
# Methods of these names are those of a logger only if their object is called like one.
_AMBIGUOUS = frozenset({"log", "print", "display", "error", "info", "debug", "exception", "track"})
_NUMERIC = frozenset({"np", "numpy", "math", "torch", "cmath", "jnp", "tf", "cupy", "cp"})


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that run in the scope of ``scope``: not what is inside functions in it.

    Comprehensions count as part of it: they run at once.
    """
    waiting = list(_inside(scope))
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, FunctionNode | ast.ClassDef | ast.Lambda):
            waiting.extend(_around(node))
        else:
            waiting.extend(ast.iter_child_nodes(node))


def _inside(scope: ast.AST) -> Iterable[ast.AST]:
    if isinstance(scope, ast.Lambda):
        return [scope.body]
    if isinstance(scope, FunctionNode | ast.ClassDef):
        return scope.body
    return ast.iter_child_nodes(scope)


def _around(scope: ast.Lambda | FunctionNode | ast.ClassDef) -> Iterator[ast.AST]:
    """Yield what a definition evaluates where it stands: decorators, defaults, base classes."""
    if not isinstance(scope, ast.Lambda):
        yield from scope.decorator_list
    if isinstance(scope, ast.ClassDef):
        yield from scope.bases
        yield from (keyword.value for keyword in scope.keywords)
    else:
        yield from scope.args.defaults
        yield from (default for default in scope.args.kw_defaults if default is not None)


def bound_by(node: ast.AST) -> Iterator[str]:
    """Yield the names that a single node binds or deletes, in the scope it is in."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.alias(name=name, asname=asname):
            yield asname or name.partition(".")[0]
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            yield name
        case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            yield name


def bindings(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that nodes bind or delete, comprehension targets left out."""
    nodes = list(nodes)
    return {name for node in nodes for name in bound_by(node)} - _only_in_comprehensions(nodes)


def _only_in_comprehensions(nodes: list[ast.AST]) -> set[str]:
    inside = [
        target
        for node in nodes
        if isinstance(node, ast.comprehension)
        for target in ast.walk(node.target)
    ]
    hidden = {id(node) for node in inside}
    outside = {name for node in nodes if id(node) not in hidden for name in bound_by(node)}
    return {name for node in inside for name in bound_by(node)} - outside


def reads(node: ast.AST) -> set[str]:
    """Return the names that ``node`` reads from around it, functions in it included."""
    found: set[str] = set()
    waiting = [node]
    while waiting:
        child = waiting.pop()
        if isinstance(child, ComprehensionNode):
            found |= _comprehension_reads(child)
            continue
        if isinstance(child, FunctionNode | ast.Lambda | ast.ClassDef):
            found |= free_names(child)
            waiting.extend(_around(child))
            continue
        if isinstance(child, ast.Name) and not isinstance(child.ctx, ast.Store):
            found.add(child.id)
        elif isinstance(child, ast.AugAssign) and isinstance(child.target, ast.Name):
            found.add(child.target.id)
        waiting.extend(ast.iter_child_nodes(child))
    return found


def _comprehension_reads(node: ComprehensionNode) -> set[str]:
    found = {name for child in ast.iter_child_nodes(node) for name in reads(child)}
    targets = {
        each.id
        for generator in node.generators
        for each in ast.walk(generator.target)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }
    return (found - targets) | reads(node.generators[0].iter)


def free_names(scope: FunctionNode | ast.Lambda | ast.ClassDef) -> set[str]:
    """Return the names that a function, lambda or class uses from around it."""
    own = list(own_nodes(scope))
    declared = declared_names(own)
    found = {name for child in _inside(scope) for name in reads(child)} | declared
    if isinstance(scope, ast.ClassDef):
        return found  # what it binds may be read from around it before
    return found - ((bindings(own) | parameters(scope)) - declared)


def declared_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that ``global`` and ``nonlocal`` statements among nodes declare."""
    return {
        name for node in nodes if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names
    }


def parameters(function: FunctionNode | ast.Lambda) -> set[str]:
    """Return the names of a function's parameters."""
    return {node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)}


def mentioned(node: ast.AST) -> tuple[str, ...]:
    """Return all names in the text of ``node``, sorted."""
    found: set[str] = set()
    for child in ast.walk(node):
        found.update({child.id} if isinstance(child, ast.Name) else bound_by(child))
    return tuple(sorted(found))


def last_part(expression: ast.expr) -> str:
    """Return the last name of a dotted name or of what a call calls: ``c`` of ``a.b.c(x)``."""
    match expression:
        case ast.Call(func=function):
            return last_part(function)
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def bases(expression: ast.expr) -> set[str]:  # noqa: PLR0911 - one for each form
    """Return the names whose objects ``expression`` stands for, or is a part of.

    ``net`` for ``net.layers[0].weight``.  For what a chain of methods returns it is
    the object that the chain begins with; for what a function returns, nothing is
    known, and it is empty.
    """
    match expression:
        case ast.Name(id=name):
            return {name}
        case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Starred(value=inner):
            return bases(inner)
        case ast.Call(func=ast.Attribute(value=inner)):
            return bases(inner)
        case ast.Call(func=ast.Name(id="super"), args=[]):
            return {"self"}
        case ast.IfExp(body=one, orelse=other):
            return bases(one) | bases(other)
        case ast.BoolOp(values=values) | ast.Tuple(elts=values) | ast.List(elts=values):
            return {name for value in values for name in bases(value)}
        case ast.NamedExpr(target=target, value=value):
            return {target.id} | bases(value)
    return set()


def is_log_call(call: ast.Call) -> bool:
    """Tell whether a call logs values, as its name says."""
    match call.func:
        case ast.Name(id=name):
            return name in LOG_FUNCTIONS
        case ast.Attribute(value=receiver, attr=name):
            if name not in LOG_METHODS:
                return False
            is_maths = isinstance(receiver, ast.Name) and receiver.id in _NUMERIC
            return not (name in _AMBIGUOUS and is_maths)
    return False
