"""What an execute request says of the cell it runs, told from its text alone.

The supervisor decides by it whether a cell may be answered from an earlier run,
and whether it needs the state at all; when in doubt, the cell is run.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from chexpoint.engine.header import header_of, strip_header

if TYPE_CHECKING:
    from chexpoint.engine.asks import CellText
    from chexpoint.engine.message import Message

_BEGIN = re.compile(
    r"(?:[ \t]*(?:#[^\n]*)?\n)*%chex_record[ \t]+(?P<name>[^\s-]\S*)[ \t]*(?:#[^\n]*)?(?:\n|\Z)"
)
_NAMED = re.compile(r"^[ \t]*%chex_record[ \t]+(?P<name>[^\s-]\S*)", re.MULTILINE)
_OWN_LINE = re.compile(r"\s*%chex_(?!checkpoint\b)\w+(\s[^\n{$\\]*)?")
# Runs its body in another process; with --into it binds the result.
_LOOKS = re.compile(r"\s*%%chex_hindsight\b(?![^\n]*--into\b)")
_COMMENT = re.compile(r"\s*(#[^\n]*)?")
_OWN_MAGIC = re.compile(r"chex_\w+")


def cell_of(message: Message) -> tuple[CellText | None, bool]:
    """Return the cell of an execute request, if it is one of a notebook, and whether it is silent.

    The worker will complain about a message that cannot be read.
    """
    try:
        content, metadata = message.content, message.metadata
        return cell_text(content, metadata), bool(content.get("silent"))
    except (ValueError, AttributeError, TypeError):
        return None, False


def cell_text(content: Mapping[str, Any], metadata: Mapping[str, Any]) -> CellText | None:
    """Return the cell of an execute request; None if it is not one of a notebook."""
    from chexpoint.engine.asks import CellText  # not for workers, which start faster without

    silent = bool(content.get("silent"))
    if silent or not content.get("store_history", True):
        return None
    source = str(content.get("code", ""))
    words = header_of(source)
    body = body_of(source)
    lines = source.split("\n")
    is_empty = all(_COMMENT.fullmatch(line) for line in body.split("\n"))
    is_own = _LOOKS.match(source) is not None or all(
        _COMMENT.fullmatch(line) or _OWN_LINE.fullmatch(line) for line in lines
    )
    return CellText(
        source,
        cell_id=str(metadata.get("cellId") or metadata.get("cell_id") or ""),
        version=None if words is None else " ".join(words),
        begins=version_begun(source),
        needs_state=not is_own,
        is_reusable=not (is_empty or _OWN_MAGIC.search(body) or content.get("user_expressions")),
    )


def body_of(source: str) -> str:
    """Return a cell without the line that says which version it belongs to, or begins."""
    if header_of(source) is not None:
        return "".join(strip_header(textwrap.dedent(source).splitlines(keepends=True)))
    begin = _BEGIN.match(source)
    return source[begin.end() :] if begin and version_begun(source) else source


def version_begun(source: str) -> str | None:
    """Return the version that a cell begins before its own code runs, if it does both."""
    begin = _BEGIN.match(source)
    if begin is None or all(_COMMENT.fullmatch(line) for line in source[begin.end() :].split("\n")):
        return None
    return begin["name"]


def version_named(source: str) -> str | None:
    """Return the version that a cell begins with ``%chex_record NAME``, whatever else it does."""
    found = _NAMED.search(source)
    return found["name"] if found else None
