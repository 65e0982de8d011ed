"""Which loops are left as they are, because the calls around them could change the program."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from chexpoint.hindsight.program.names import FunctionNode, LoopNode, last_part, own_nodes

# A variable more would show, or a frame more be in the way.
_NAMESPACE_CALLS = frozenset({"locals", "vars", "exec", "eval", "dir"})
_FRAME_CALLS = frozenset({"_getframe", "currentframe", "_current_frames", "f_locals"})
_OUR_NAMES = frozenset({"__chex__", "__import__"})
# These read bytecode, and know nothing of what stands behind our calls.
_COMPILERS = frozenset(
    {"jit", "njit", "vectorize", "guvectorize", "stencil", "cfunc", "generated_jit", "compile"}
)
_COMPILED_METHODS = frozenset({"forward"})


@dataclass(frozen=True, slots=True)
class Reason:
    """Why loops are left alone; false if they are not."""

    text: str = ""
    can_have_local: bool = True
    """Whether the function may have one more variable all the same."""

    def __bool__(self) -> bool:
        return bool(self.text)


def loop_reason(loop: LoopNode) -> str:
    """Return why one loop is left alone, whatever it is in; empty if it is not."""
    if isinstance(loop, ast.AsyncFor):
        return "it is an `async for`"
    if loop.orelse:
        return "it has an `else` clause"
    if any(_waits(node) for node in own_nodes(loop)):
        return "it has a `yield` or `await` in it"
    return ""


def _waits(node: ast.AST) -> bool:
    if isinstance(node, ast.comprehension):
        return bool(node.is_async)
    return isinstance(node, ast.Await | ast.Yield | ast.YieldFrom | ast.AsyncFor | ast.AsyncWith)


def name_reason(scope: ast.AST) -> Reason:
    """Return why no loop is recorded where our names have another meaning."""
    for node in ast.walk(scope):
        for _, value in ast.iter_fields(node) if not isinstance(node, ast.Constant) else ():
            found = value if isinstance(value, list) else [value]
            for name in _OUR_NAMES.intersection(each for each in found if isinstance(each, str)):
                # Calling `__import__` is no harm, binding it would be.
                if name != "__import__" or not _is_read(node):
                    return Reason(f"the name `{name}` is used", can_have_local=False)
    return Reason()


def class_reason() -> Reason:
    """Return why no loop in the body of a class is recorded."""
    return Reason("it is in the body of a class", can_have_local=False)


def function_reason(function: FunctionNode, compiled: frozenset[str], *, is_method: bool) -> Reason:
    """Return why no loop of a function is recorded; ``compiled`` are names of functions."""
    own = list(own_nodes(function))
    found = _namespace_reason(own)
    if found:
        return found
    if isinstance(function, ast.AsyncFunctionDef):
        return Reason("it is in an `async` function")
    if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in own):
        return Reason("it is in a generator")
    is_compiled = function.name in compiled or any(
        last_part(decorator) in _COMPILERS for decorator in function.decorator_list
    )
    if is_compiled or (is_method and function.name in _COMPILED_METHODS):
        return Reason(f"`{function.name}` may be compiled")
    return Reason()


def sent_to_compilers(tree: ast.Module) -> frozenset[str]:
    """Return the names of what a program gives to compilers: ``f`` of ``fast = njit(f)``."""
    return frozenset(
        last_part(argument)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and last_part(node.func) in _COMPILERS
        for argument in node.args
        if isinstance(argument, ast.Name | ast.Attribute)
    )


def _namespace_reason(own: list[ast.AST]) -> Reason:
    for node in own:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name = node.func.id
            if name in _NAMESPACE_CALLS:
                return Reason(f"it is in a function that calls `{name}`", can_have_local=False)
        if isinstance(node, ast.Attribute | ast.Name) and last_part(node) in _FRAME_CALLS:
            text = f"it is in a function that uses `{last_part(node)}`"
            return Reason(text, can_have_local=False)
    return Reason()


def _is_read(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) or (
        isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    )
