"""How two pieces of HTML or SVG compare.

What names elements is often drawn by lot: matplotlib, plotly, altair and pandas do so.  Names are
the same if they name the same things, whatever they are.

Tags are found by an expression rather than by `html.parser`: that takes quadratic time for some
malformed input in the Pythons that CHEX runs with, and comparing needs no tree.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from chexpoint.compare.finding import SAME, Finding, worst
from chexpoint.compare.tables import compare_tables
from chexpoint.compare.texts import LARGEST_TEXT, compare_texts
from chexpoint.compare.tolerance import Tolerance

_TAG = re.compile(r"<(/?)([a-zA-Z][\w:-]*+)[^<>]*+>", re.ASCII)
# An id without a digit was given by a person.
_ID = re.compile(r"""\bid\s?=\s?\\?["']([\w-]*+)\\?["']""", re.ASCII)
_RANDOM = re.compile(r"(?<![a-zA-Z0-9])(?:[a-z_]{0,40}_)?[0-9a-f]{32}(?![\w-])", re.ASCII)
_WORD = re.compile(r"[\w-]{2,}+", re.ASCII)
_LARGEST_PAGE = 4 * 2**20  # characters; tables of larger ones are compared as text


class _Page(NamedTuple):
    """HTML, taken apart."""

    rest: str
    """All but the tables and the styles."""
    tables: list[list[list[str]]]
    """The text of each cell in each row of each table."""


def compare_html(recorded: str, replayed: str, tolerance: Tolerance) -> Finding:
    """Return how two pieces of HTML compare; tables by what their cells say."""
    if recorded == replayed:
        return SAME
    if max(len(recorded), len(replayed)) > _LARGEST_PAGE:
        return compare_markup(recorded, replayed, tolerance)
    old, new = _take_apart(recorded), _take_apart(replayed)
    if len(old.tables) != len(new.tables):
        what = f"has {len(new.tables)} tables instead of {len(old.tables)}"
        return Finding("different", what)
    found = worst(
        compare_tables(left, right, tolerance)
        for left, right in zip(old.tables, new.tables, strict=True)
    )
    if found.status != "same":
        found = found._replace(what=f"has a table that {found.what}")
    rest = compare_markup(old.rest, new.rest, tolerance)
    return worst([found, rest, Finding("close", "differs only in ids or styles")])


def compare_markup(recorded: str, replayed: str, tolerance: Tolerance) -> Finding:
    """Return how two pieces of markup compare as text, whatever the ids in it are."""
    if recorded == replayed:
        return SAME
    if max(len(recorded), len(replayed)) > LARGEST_TEXT:
        return compare_texts(recorded, replayed, tolerance)
    found = compare_texts(_with_plain_ids(recorded), _with_plain_ids(replayed), tolerance)
    return worst([found, Finding("close", "differs only in ids or styles")])


def _with_plain_ids(markup: str) -> str:
    """Return markup in which ids are numbers, in the order in which they are given."""
    found = chain(_ID.finditer(markup), _RANDOM.finditer(markup))
    names = dict.fromkeys(match[match.lastindex or 0] for match in found)
    plain = {
        name: f"id-{number}"
        for number, name in enumerate(name for name in names if re.search(r"\d", name))
    }
    return _WORD.sub(lambda word: plain.get(word[0], word[0]), markup) if plain else markup


def _take_apart(markup: str) -> _Page:
    rest: list[str] = []
    tables: list[list[list[list[str]]]] = []
    depth = 0
    is_style = False
    for text, is_end, name, tag in _tags(markup):
        if depth and not is_style and tables[-1] and tables[-1][-1]:
            tables[-1][-1][-1].append(text)
        elif not is_style and (not depth or text.strip()):
            rest.append(text)
        if name == "style":
            is_style = not is_end
        elif name == "table":
            tables += [] if is_end or depth else [[]]
            depth = max(0, depth + (-1 if is_end else 1))
        elif not depth:
            rest.append(tag)
        elif depth == 1 and not is_end and name == "tr":
            tables[-1].append([])
        elif depth == 1 and not is_end and name in {"td", "th"}:
            tables[-1] = tables[-1] or [[]]
            tables[-1][-1].append([])
    cells = [[[_cell_text(parts) for parts in row] for row in table] for table in tables]
    return _Page("".join(rest), cells)


def _tags(markup: str) -> Iterator[tuple[str, bool, str, str]]:
    """Yield each tag, after the text before it: text, whether it ends, name, all of it."""
    at = 0
    for tag in _TAG.finditer(markup):
        yield markup[at : tag.start()], bool(tag[1]), tag[2].lower(), tag[0]
        at = tag.end()
    yield markup[at:], False, "", ""


def _cell_text(parts: list[str]) -> str:
    text = " ".join("".join(parts).split())
    try:
        return html.unescape(text)
    except ValueError:  # the number of a character has thousands of digits
        return text
