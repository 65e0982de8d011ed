"""What a cell uses of the variables that there are, as the experiment graph asks it."""

from __future__ import annotations

import ast
import contextlib

from chexpoint.engine import CellUses, read_uses
from chexpoint.graph import Bindings
from chexpoint.project.reuse import plain_code


def uses_of(body: str) -> CellUses:
    """Return what a cell uses; what its magics run is looked at as well."""
    if plain_code(body) is not None:
        return read_uses(body)
    try:
        return read_uses(transformed(body))
    except Exception:  # IPython refuses it in one of several ways
        return CellUses(is_opaque=True, uses_history=True)


def used(uses: CellUses, bindings: Bindings) -> frozenset[str]:
    """Return the variables that a cell may depend on, with the states of the process."""
    if uses.is_opaque:
        return frozenset(bindings.variables)
    states = [name for name in bindings.variables if name.startswith(":")]
    return bindings.closure([*uses.reads, *states])


def needed(uses: CellUses, bindings: Bindings) -> frozenset[str]:
    """Return the variables that must be there when a cell runs; its functions may run later."""
    return used(uses, bindings) | bindings.closure(uses.deferred)


def is_random_state(name: str) -> bool:
    """Return whether a name is that of a generator's state: a cell that uses one changes it."""
    return name.startswith(":") and name.endswith("random")


def transformed(body: str) -> str:
    """Return a cell as IPython reads it."""
    # What is Python already is left as it is, and to load IPython takes a while.
    with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        ast.parse(body)
        return body
    from IPython.core.inputtransformer2 import TransformerManager

    return TransformerManager().transform_cell(body)
