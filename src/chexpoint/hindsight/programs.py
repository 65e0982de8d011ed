"""Makes programs known to the loops of a process."""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import replace

from chexpoint.hindsight.program.instrumenting import instrument
from chexpoint.hindsight.runtime import Loops, Program


def instrumented(
    loops: Loops,
    tree: ast.Module,
    source: str,
    *,
    offset: int = 0,
    added: Collection[tuple[int, int]] = (),
    step_into: frozenset[int] = frozenset(),
) -> tuple[Program, ast.Module]:
    """Return a program, whose loops are known from now on, and its instrumented tree.

    Parameters
    ----------
    offset
        How many lines of its file come before the source.
    added
        First and last lines of statements that were not in the recorded program.
    step_into
        Sites that a replay has to execute.
    """
    first = loops.next_number
    moved = [(start + offset, end + offset) for start, end in added]
    made = instrument(tree, added=moved, first=first)
    sites = tuple(replace(site, line=site.line - offset) for site in made.sites)
    left = tuple((line - offset, why) for line, why in made.left)
    program = Program(
        source=source, sites=sites, first=first, offset=offset, left=left, step_into=step_into
    )
    loops.add_program(program)
    return program, made.tree
