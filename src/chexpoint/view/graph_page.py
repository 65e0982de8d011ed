"""A page with what is known of an experiment graph: facts, picture, models and artifacts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chexpoint.view.graph_rows import (
    ARTIFACT_HEAD,
    ARTIFACT_NUMBERS,
    ArtifactRow,
    GraphSummary,
    artifact_facts,
    artifact_texts,
    graph_facts,
)
from chexpoint.view.style import html_page, html_view
from chexpoint.view.text import source_lines, xml, xml_lines

MOST_ROWS = 300
"""More rows would make the page slow."""


def graph_html(
    summary: GraphSummary,
    picture: str,
    *,
    models: Sequence[ArtifactRow] = (),
    artifacts: Sequence[ArtifactRow] = (),
    title: str = "Experiment graph",
) -> str:
    """Return a page that needs nothing else.

    Parameters
    ----------
    picture
        As `graph_svg` draws it.
    models
        The models, best first.
    artifacts
        Artifacts by the time that they save.
    """
    facts = "".join(
        f"<tr><th>{name}</th><td>{xml(text)}</td></tr>\n" for name, text in graph_facts(summary)
    )
    body = [
        html_view(f"<table>{facts}</table>"),
        f'<div style="overflow-x:auto">{picture}</div>',
    ]
    for heading, rows in (("Models, the best first", models), ("By time saved", artifacts)):
        if rows:
            body += [f"<h2>{heading}</h2>", html_view(_table(rows))]
            if len(rows) > MOST_ROWS:
                body.append(f"<p>and {len(rows) - MOST_ROWS:,} more; --json lists all</p>")
    return html_page(xml(title), "\n".join(body))


def _table(rows: Sequence[ArtifactRow]) -> str:
    return f'<div class="scroll"><table>{"".join(_rows(rows[:MOST_ROWS]))}</table></div>'


def _rows(rows: Sequence[ArtifactRow]) -> Iterator[str]:
    """Yield the rows of the table, below its head; each opens to all that is known."""
    style = [' class="number"' if i in ARTIFACT_NUMBERS else "" for i in range(len(ARTIFACT_HEAD))]
    head = (f"<th{s}>{xml(t)}</th>" for s, t in zip(style, ARTIFACT_HEAD, strict=True))
    yield f"<tr>{''.join(head)}</tr>\n"
    for row in rows:
        first, *texts = artifact_texts(row)
        cells = (f"<td{s}>{xml(t)}</td>" for s, t in zip(style[1:], texts, strict=True))
        details = f"<details><summary><code>{xml(first)}</code></summary>{_details(row)}</details>"
        yield f"<tr><td>{details}</td>{''.join(cells)}</tr>\n"


def _details(row: ArtifactRow) -> str:
    facts = "".join(
        f"<tr><th>{xml(name)}</th><td>{xml(text)}</td></tr>" for name, text in artifact_facts(row)
    )
    source = "" if row.operation is None else xml_lines(source_lines(row.operation.source)[:40])
    return f"<table>{facts}</table><pre>{source}</pre>"
