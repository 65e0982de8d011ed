"""``%%chex_record NAME`` as the first line of a cell: it names a version, and the rest just runs.

As an ordinary cell magic it would get its body as text, and what the body shows, raises or awaits
would go through `run_cell` within `run_cell`.  So the line is taken away before IPython looks for
magics.
"""

from __future__ import annotations

import re
import textwrap

# Not "%%chex_record?", which asks for help.
_HEADER = re.compile(r"%%chex_record(?=\s|$)(.*)")


def header_of(source: str) -> list[str] | None:
    """Return the words after ``%%chex_record`` if a cell begins with it, or None.

    A cell without a body has no header: IPython then says that there is nothing to run.
    """
    # IPython dedents a cell before its first line counts.
    at, words = _find(textwrap.dedent(source).splitlines())
    return None if at is None else words


def strip_header(lines: list[str]) -> list[str]:
    """Return the lines of a cell without its header; for ``input_transformers_cleanup``.

    An empty line stays in its place, so that tracebacks count as the user does; before another cell
    magic there must be none.
    """
    at, _ = _find(lines)
    if at is None:
        return lines
    body = lines[at + 1 :]
    start = next(n for n, line in enumerate(body) if line.strip())
    return body[start:] if body[start].startswith("%%") else [*lines[:at], "\n", *body]


# A terminal asks for more lines, until an empty one, as long as it sees a cell magic.
strip_header.has_side_effects = True  # type: ignore[attr-defined]


def _find(lines: list[str]) -> tuple[int | None, list[str]]:
    """Return where the header is, and its words."""
    for at, line in enumerate(lines):
        if line.strip():
            header = _HEADER.match(line)
            has_body = any(other.strip() for other in lines[at + 1 :])
            return (at, header[1].split()) if header and has_body else (None, [])
    return None, []
