"""What was added to a recorded program, and whether it does nothing but look at values."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from chexpoint.hindsight.program.edit_align import Sameness, align, last_line, rows
from chexpoint.hindsight.program.edit_calls import sites_that_call
from chexpoint.hindsight.program.edit_difference import Addition, Difference
from chexpoint.hindsight.program.edit_rules import (
    imports_of,
    logs,
    names_of,
    objections,
    reads_gradients,
    shares_line,
)
from chexpoint.hindsight.program.edit_text import statement_text
from chexpoint.hindsight.program.instrumenting import instrument
from chexpoint.hindsight.program.names import FunctionNode, bindings, own_nodes, reads
from chexpoint.model import LoopSite

_NOTHING = "Nothing that was added logs a value: add `print(...)` or `chexpoint.log(...)`."
_TOO_DEEP = "The program is nested too deep to be compared."


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedStatement:
    """A statement that was added to a recorded program."""

    line: int
    """In the new program; of a decorated function that of its ``def``."""
    end_line: int
    sites: tuple[int, ...] = ()
    """Recorded loops around it, in its function, from the outermost on."""
    function: str = ""
    """Qualified name of the function it is in."""
    text: str = ""
    is_log: bool = False
    reads: frozenset[str] = frozenset()
    """Names that it reads, through added functions as well."""
    reads_grad: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEdit:
    """How a program differs from the one that was recorded."""

    added: tuple[AddedStatement, ...] = ()
    removed: tuple[int, ...] = ()
    """Lines of the recorded program with log statements that are gone."""
    problems: tuple[str, ...] = ()
    """What else changed, one sentence each."""
    callers: tuple[int, ...] = ()
    """Recorded loops, here, from which a function may be called that something was added to."""
    cell: int | None = None
    """Which recorded cell it was; None if there was none."""

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """First and last lines of what was added, for `instrument`."""
        return tuple((each.line, each.end_line) for each in self.added)


def compare_programs(old: str, new: str) -> LogEdit:
    """Return how ``new`` differs from ``old``, which was recorded.

    If it has no problems, only statements that log were added, and what they need:
    imports, functions and variables of new names.  Comments and layout do not count.
    """
    (edit,) = _compare([(old, new)], [old])
    return edit


def compare_cells(old: Sequence[str], new: Sequence[str]) -> tuple[LogEdit, ...]:
    """Return how each of the new cells differs from the recorded one that it was.

    A new cell may have in it what may be added to one.  Recorded cells may be missing
    after the last one that was changed.
    """
    pairs = _pair_cells(old, new)
    edits = _compare([(_at(old, pairs.get(j)), text) for j, text in enumerate(new)], old)
    edits = [replace(edit, cell=pairs.get(j)) for j, edit in enumerate(edits)]
    changed = [j for j, edit in enumerate(edits) if edit.added or edit.problems or edit.removed]
    if changed:
        last = changed[-1]
        reached = max((i for j, i in pairs.items() if j <= last), default=-1)
        missing = [i for i in range(reached) if i not in pairs.values()]
        problems = tuple(f"Cell {i + 1} of the recorded version is missing." for i in missing)
        edits[last] = replace(edits[last], problems=edits[last].problems + problems)
    return tuple(edits)


def blocks_to_step_into(edit: LogEdit, sites: Sequence[LoopSite]) -> frozenset[int]:
    """Return the loops that a replay has to execute, because an added statement needs it.

    These are loops with an added statement in them, or with a call of a function that
    has one; loops whose own variables an added statement reads after them; and, for one
    that reads gradients, which no checkpoint has, the loops next to it.
    """
    return frozenset(
        site.site
        for site in sites
        if (site.site in edit.callers or any(_needs(added, site) for added in edit.added))
        and not _is_always_main(site)
    )


def _needs(added: AddedStatement, site: LoopSite) -> bool:
    if site.site in added.sites:
        return True
    is_near = site.function == added.function and (not added.sites or site.within in added.sites)
    if added.reads_grad:
        return is_near or bool(site.function)
    return is_near and not added.reads.isdisjoint(site.own)


def _is_always_main(site: LoopSite) -> bool:
    return not site.function and site.within is None


# ------------------------------------------------------------ comparing


def _at(cells: Sequence[str], place: int | None) -> str:
    return "" if place is None else cells[place]


def _compare(pairs: Sequence[tuple[str, str]], recorded: Sequence[str]) -> list[LogEdit]:
    """Compare pairs of texts, which are parts of the same program."""
    try:
        return _with_log(_compare_all(pairs, recorded))
    except RecursionError:
        return [LogEdit(problems=(_TOO_DEEP,)) for _ in pairs]


def _compare_all(pairs: Sequence[tuple[str, str]], recorded: Sequence[str]) -> list[LogEdit]:
    edits: list[LogEdit | None] = []
    parts: list[tuple[ast.Module, str, Difference]] = []
    trees = [tree for tree in map(_parse, recorded) if isinstance(tree, ast.Module)]
    for old, new in pairs:
        before, after = _parse(old), _parse(new)
        if isinstance(before, ast.Module) and isinstance(after, ast.Module):
            parts.append((after, new, _difference(before, after)))
            edits.append(None)
            continue
        problem = after if isinstance(after, str) else before
        same = old.strip() == new.strip()
        edits.append(LogEdit(problems=() if same else (str(problem),)))
    found = iter(_judged(parts, trees))
    return [edit or next(found) for edit in edits]


def _parse(source: str) -> ast.Module | str:
    try:
        return ast.parse(source)
    except SyntaxError as error:
        return f"Line {error.lineno} cannot be read: {error.msg}."
    except (ValueError, RecursionError) as error:
        return f"The program cannot be read: {error}."


def _difference(old: ast.Module, new: ast.Module) -> Difference:
    sites = {site.line: site.site for site in instrument(old).sites}
    difference = Difference(old, sites)
    difference.compare(new)
    return difference


def _judged(
    parts: list[tuple[ast.Module, str, Difference]], recorded: list[ast.Module]
) -> list[LogEdit]:
    program = ast.Module([statement for tree in recorded for statement in tree.body], [])
    used, imported = names_of(program), imports_of(program)
    nodes = [addition.node for _, _, difference in parts for addition in difference.added]
    new = frozenset(name for node in nodes for name in _bound(node))
    functions = {node.name: node for node in nodes if isinstance(node, FunctionNode)}
    helpers = frozenset(name for name, node in functions.items() if logs(node))
    probed = {each.spot.function for _, _, part in parts for each in part.added} - {""}
    edits = []
    for tree, text, part in parts:
        problems = list(part.problems)
        for node in (addition.node for addition in part.added):
            problems += objections(node, used, imported, new)
            if shares_line(node, tree):
                problems.append(f"Line {node.lineno} has other statements: give each its own line.")
        edits.append(
            LogEdit(
                added=tuple(_statement(each, text, helpers, functions) for each in part.added),
                removed=tuple(node.lineno for node in part.removed),
                problems=tuple(dict.fromkeys(problems)),
                callers=sites_that_call(part.old, part.sites, probed, definitions=program),
            )
        )
    return edits


def _bound(node: ast.stmt) -> set[str]:
    is_definition = isinstance(node, FunctionNode | ast.ClassDef)
    return bindings([node] if is_definition else [node, *own_nodes(node)])


def _statement(
    addition: Addition,
    source: str,
    helpers: frozenset[str],
    functions: Mapping[str, FunctionNode],
) -> AddedStatement:
    node, spot = addition.node, addition.spot
    read = reads(node)
    looked_at = [node]
    called = [name for name in functions if name in read]
    for name in called:  # it grows
        looked_at.append(functions[name])
        more = reads(functions[name])
        called += [each for each in functions if each in more and each not in called]
        read |= more
    return AddedStatement(
        line=node.lineno,
        end_line=last_line(node),
        sites=spot.sites,
        function=spot.function,
        text=statement_text(source, node),
        is_log=logs(node, helpers),
        reads=frozenset(read),
        reads_grad=any(reads_gradients(each) for each in looked_at),
    )


def _with_log(edits: list[LogEdit]) -> list[LogEdit]:
    """Add a problem if there is none so far, and nothing that was added logs."""
    if any(edit.problems or any(each.is_log for each in edit.added) for edit in edits) or not edits:
        return edits
    last = max((place for place, edit in enumerate(edits) if edit.added), default=-1)
    edits[last] = replace(edits[last], problems=(_NOTHING,))
    return edits


def _pair_cells(old: Sequence[str], new: Sequence[str]) -> dict[int, int]:
    """Return which old cell each of the new ones was, in order."""
    sameness = Sameness()
    trees = [[_parse(text) for text in texts] for texts in (old, new)]
    # As functions without a name, so that cells are aligned as statements are.
    before, after = (
        [_as_statement(tree, text) for tree, text in zip(row, texts, strict=True)]
        for row, texts in zip(trees, (old, new), strict=True)
    )
    pairs = align(before, after, sameness)
    return {j: i for i, j in pairs if _is_like(before[i], after[j], sameness)}


def _as_statement(tree: ast.Module | str, text: str) -> ast.stmt:
    if isinstance(tree, str):
        return ast.Expr(ast.Constant(text.strip()))
    return ast.If(ast.Constant(value=True), tree.body, [])


def _is_like(old: ast.stmt, new: ast.stmt, sameness: Sameness) -> bool:
    """Tell whether cells have anything in common; two empty ones do."""
    are_empty = not rows(old).get("body") and not rows(new).get("body")
    return sameness(old, new) > 1 or are_empty
