"""Decides whether a cell that ran before in the same state must be run again.

It need not be run if its code is the same, every input is known and unchanged now, nothing hints
that another run may give something else, and what it left on disk is there or can be put back.
Whenever that is not sure, it is run.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from chexpoint.engine import Found, body_of
from chexpoint.errors import CatalogError, ChexError
from chexpoint.lineage import Lost, Present, Step, code_hash, put_back, root_node
from chexpoint.model import CellLineage, Digest, Output, PathCell
from chexpoint.project.project import Project

_WIDGET = "application/vnd.jupyter.widget-view+json"
# A state with more children of the same code than this has inputs that change all the time.
_MOST_TRIED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a cell must be run."""

    found: Found | None = None
    why: str = ""
    """Why it must be run although it ran here before."""
    is_novel: bool = False


class Reuse:
    """Judges the cells of one project; used by one thread."""

    def __init__(self, project: Project, present: Present) -> None:
        self._project = project
        self._present = present
        self.allowed: Collection[str] = ()
        """Kinds of hints that do not matter to the user."""

    def judge(self, source: str, place: Step) -> Verdict:
        """Return whether a cell must be run at a place."""
        try:
            path = self.lineages(place)
        except CatalogError as error:  # of single cells that are damaged
            return Verdict(why=str(error))
        if place.node is None:  # the fresh interpreter, before any cell
            place.packages = self._present.packages()
            place.strict = root_node(place.packages)
            place.node = root_node(place.packages)
        runs = self._project.runs_after(place.node, place.taint)
        same = self._same_code(source, runs)
        if not same:
            # Text that differs may still be the same code, and then lead to a state that is known.
            return Verdict(is_novel=not runs)
        reasons = []
        for cell, code in same[:_MOST_TRIED]:
            try:
                lineage = self._project.lineage(cell.execution)
                outputs = self._project.outputs(cell.execution)
            except CatalogError as error:
                reasons.append(str(error))
                continue
            if code is not None and code != lineage.code:
                continue  # something of the user's turned its text into other code
            why = self.objection(path, lineage, outputs)
            if not why:
                return Verdict(found=Found(cell, lineage, outputs))
            reasons.append(why)
        return Verdict(why=reasons[0] if reasons else "")

    def lineages(self, place: Step) -> tuple[CellLineage, ...]:
        """Return the lineage of each cell that led to a place."""
        found = []
        for step in place.path()[1:]:
            if step.record is None:
                step.record = self._project.lineage(step.execution)
            found.append(step.record)
        return tuple(found)

    def _same_code(
        self, source: str, runs: Sequence[PathCell]
    ) -> list[tuple[PathCell, Digest | None]]:
        """Return the runs of the same text, and of the same code, with the hash it must have."""
        body = body_of(source).strip()
        plain = plain_code(body)
        found: list[tuple[PathCell, Digest | None]] = []
        for cell in runs:
            other = body_of(cell.source).strip()
            if other == body:
                found.append((cell, None))
            elif plain is not None and plain_code(other) == plain and _shows(other) == _shows(body):
                found.append((cell, plain))
        return found

    def objection(
        self, path: Sequence[CellLineage], lineage: CellLineage, outputs: Sequence[Output]
    ) -> str:
        """Return why the results of a run cannot stand for the cell now."""
        if doubt := lineage.doubt(self.allowed):
            return doubt
        if any(_WIDGET in output.get("data", {}) for output in outputs):
            return "it shows a widget, which needs the live state"
        if undone := _cannot_be_done_twice(lineage):
            return undone
        if changed := self._present.changed_inputs((*path, lineage)):
            return _first(changed)
        return self._restore_effects(lineage)

    def _restore_effects(self, lineage: CellLineage) -> str:
        """Put back what a cell had left on disk; return why that cannot be done."""
        lost = self._present.changed_effects(lineage)
        kept = [self._kept(each) for each in lost]
        for each, contents in zip(lost, kept, strict=True):
            if contents is None and each.effect.kind != "folder":
                return each.why
        try:
            for each, contents in zip(lost, kept, strict=True):
                put_back(each, contents)
        except ChexError as error:
            return str(error)
        return ""

    def _kept(self, lost: Lost) -> Path | None:
        effect = lost.effect
        return self._project.kept_file(effect.digest) if effect.kind == "written" else None


def _cannot_be_done_twice(lineage: CellLineage) -> str:
    """Return why a cell finds another world once it has run, even if nobody else changes it."""
    audit = lineage.audit
    missed = {each.name for each in audit.events if each.op == "read" and each.digest == "absent"}
    for effect in audit.effects:
        if effect.kind == "deleted":
            return f"it deleted {effect.path}, which would not be there now"
        if effect.kind in {"written", "held"} and effect.path in missed:
            return f"it made {effect.path}, which it had not found"
    return ""


def plain_code(body: str) -> Digest | None:
    """Return the code hash of a cell that is plain Python whatever the state is; else None.

    IPython may read a single expression otherwise: ``ls -l`` lists files if there is no ``ls``.
    Such a cell is compared as text.
    """
    try:
        statements = ast.parse(body).body
    except Exception:  # deep nesting, null bytes
        return None
    lines = [line for line in body.splitlines() if line.split("#")[0].strip()]
    if not statements or (len(lines) == 1 and isinstance(statements[0], ast.Expr)):
        return None
    return code_hash(body, str)


def _shows(body: str) -> bool | None:
    """Return whether a cell shows its last value: a semicolon hides it; None if that is not known.

    It is no part of the code hash, because the state is the same.
    """
    skipped = {tokenize.ENDMARKER, tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT}
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(body).readline))
    except (tokenize.TokenError, SyntaxError):
        return None
    words = [token.string for token in tokens if token.type not in skipped]
    return not words or words[-1] != ";"


def _first(sentences: Sequence[str]) -> str:
    more = f" ({len(sentences) - 1} more)" if len(sentences) > 1 else ""
    return f"{sentences[0].rstrip('.')}{more}"
