"""A page with what is known of a store: facts, how it grew, and its images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import tzinfo

from chexpoint.model import StoreUsage
from chexpoint.view.store_picture import store_svg
from chexpoint.view.store_rows import (
    HEAD,
    NUMBERS,
    lost_text,
    lost_variables,
    row_texts,
    store_facts,
    store_rows,
)
from chexpoint.view.style import html_page, html_view
from chexpoint.view.text import xml


def store_html(
    usage: StoreUsage,
    *,
    names: Mapping[str, str] | None = None,
    width: int = 1200,
    title: str = "Store",
    zone: tzinfo | None = None,
) -> str:
    """Return a page that needs nothing else.

    Parameters
    ----------
    names, zone
        As for `store_svg`.
    width
        How wide the picture should be at most, in pixels.
    """
    picture = store_svg(usage, names=names, width=width, zone=zone)
    facts = "".join(
        f"<tr><th>{name}</th><td>{xml(text)}</td></tr>\n" for name, text in store_facts(usage)
    )
    rows = [row_texts(row, zone) for row in reversed(store_rows(usage, names))]
    lost = "".join(f"<li>{xml(lost_text(each))}</li>\n" for each in lost_variables(usage))
    body = [
        html_view(f"<table>{facts}</table>"),
        f'<div style="overflow-x:auto">{picture}</div>',
        "<h2>Images</h2>",
        html_view(f'<div class="scroll"><table>{"".join(_table(rows))}</table></div>'),
    ]
    if lost:
        body += ["<h2>Not stored, and made again by their cells</h2>", f"<ul>{lost}</ul>"]
    return html_page(xml(title), "\n".join(body))


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the rows of the table, below its head."""
    style = [' class="number"' if i in NUMBERS else "" for i in range(len(HEAD))]
    for tag, texts in [("th", HEAD), *(("td", row) for row in rows)]:
        cells = (f"<{tag}{s}>{xml(t)}</{tag}>" for s, t in zip(style, texts, strict=True))
        yield f"<tr>{''.join(cells)}</tr>\n"
