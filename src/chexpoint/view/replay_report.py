"""The report of a replay: one page that needs nothing else, and that nothing in it can misuse."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from chexpoint.model import EnvironmentInfo, Replay, ReplayStatus, format_seconds, format_size
from chexpoint.palette import LOOKS
from chexpoint.view.plan_lines import budget_text, percent
from chexpoint.view.replay_cells import cells_html, entries_of
from chexpoint.view.replay_charts import bar_html, memory_svg, overhead_line, time_bars
from chexpoint.view.replay_facts import (
    VersionResult,
    hosts_line,
    reached_cells,
    saved_cells,
    tally,
    verdict,
    version_results,
)
from chexpoint.view.replay_style import PAGE_POLICY, PAGE_STYLE, SCRIPT
from chexpoint.view.replay_tree import replay_tree_svg, worst
from chexpoint.view.replay_versions import legend, status_filter, versions_list
from chexpoint.view.style import PAGE_START
from chexpoint.view.text import clipped, count, listed, xml
from chexpoint.view.version_table import shown_time

_WIDE, _NARROW = 1120, 340  # pixels of the chart
_MOST_NOTES = 200
_NAMES = 2000  # columns of labels


def replay_page(replay: Replay) -> str:
    """Return a page that shows all that came of a replay.

    It loads nothing, runs nothing but a small script of its own, and says everything without that
    script as well.
    """
    results = version_results(replay)
    title = xml(clipped(f"{verdict(results)} - {replay.recording.title or 'replay'}", 200))
    sections = [section for section in _sections(replay, results) if section[2]]
    links = "".join(f'<li><a href="#{name}">{head}</a></li>' for name, head, _ in sections)
    body = "\n".join(
        f'<section aria-labelledby="{name}"><h2 id="{name}">{head}</h2>\n{html}</section>'
        for name, head, html in sections
    )
    return f"""{PAGE_START} lang="en">
<head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{PAGE_POLICY}">
<meta http-equiv="x-dns-prefetch-control" content="off">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{PAGE_STYLE}</style></head>
<body>
<a class="skip" href="#versions">Skip to the versions</a>
<header>{_head(replay, results)}
<nav aria-label="Parts of the report"><ul>{links}</ul></nav></header>
<main>
{_cards(replay)}
{body}
</main>
<footer>{_foot(replay)}</footer>
<script>{SCRIPT}</script>
</body>
</html>
"""


# ---------------------------------------------------------------- above


def _head(replay: Replay, results: Sequence[VersionResult]) -> str:
    look = LOOKS["same" if replay.is_good else worst(result.status for result in results)]
    what = tally(result.word for result in results) or "no versions"
    title = xml(replay.recording.title or "versions")
    when = f" · {shown_time(replay.started)}" if replay.started else ""
    banner = ""
    if replay.is_interrupted:
        banner = (
            '<p class="banner" role="status"><b>This replay was interrupted.</b> Here is what it'
            " got to; <code>--resume</code> goes on where it ended.</p>"
        )
    return (
        f'<p class="over-line">CHEX replay of {title}{when}</p>\n'
        f'<div class="verdict {look.style}"><div class="big" aria-hidden="true">{look.sign}</div>'
        f'<div><h1>{verdict(results)}</h1><p class="under-line">{what}</p></div></div>\n{banner}'
    )


def _cards(replay: Replay) -> str:
    reached, saved = reached_cells(replay), saved_cells(replay)
    total = replay.cells_in_versions
    instead = f" instead of {reached:,}" if saved else ""
    gain = f"{count(saved, 'cell')} saved ({percent(saved, reached)})" if saved else "none saved"
    rest = f"; {total - reached:,} of {count(total, 'cell')} not run" if total > reached else ""
    cells = (
        f'<p class="number">{replay.computed_cells:,} <small>computed{instead}</small></p>'
        f"{bar_html(replay.computed_cells, reached)}<p>{gain}{rest}</p>"
    )
    peak, budget = format_size(replay.peak_checkpoint_bytes), budget_text(replay.budget_bytes)
    has_budget = math.isfinite(replay.budget_bytes)
    memory = (
        f'<p class="number">{peak} <small>held by checkpoints at most</small></p>'
        f"{bar_html(replay.peak_checkpoint_bytes, replay.budget_bytes) if has_budget else ''}"
        f"<p>{f'the budget is {budget}' if has_budget else 'there was no budget'}</p>"
    )
    where = f"<p>{xml(hosts_line(replay))}</p>" if replay.hosts else ""
    return (
        '<div class="cards">'
        f'<section class="card" aria-labelledby="cells-card"><h2 id="cells-card">Cells</h2>{cells}'
        '</section><section class="card" aria-labelledby="time-card"><h2 id="time-card">Time</h2>'
        f"{time_bars(replay)}<p>{overhead_line(replay)}</p>{where}</section>"
        '<section class="card" aria-labelledby="memory-card"><h2 id="memory-card">Memory</h2>'
        f"{memory}</section></div>"
    )


# ---------------------------------------------------------------- sections


def _sections(replay: Replay, results: Sequence[VersionResult]) -> Iterator[tuple[str, str, str]]:
    """Yield the anchor, the heading and the HTML of each section; empty if there is nothing."""
    entries = entries_of(replay)
    links = {entry.node: entry.link for group in entries.values() for entry in group}
    tree, note = replay_tree_svg(replay, links=links)
    statuses: set[ReplayStatus | None] = {cell.status for cell in replay.cells.values()}
    if len(replay.cells) < len(replay.recording.tree):
        statuses.add(None)
    signs = legend(statuses, any(cell.is_excused for cell in replay.cells.values()))
    picture = (
        '<figure><div class="scroll tree" tabindex="0" role="region" aria-label="Execution tree">'
        f"{tree}</div><figcaption>{signs}{xml(note)}</figcaption></figure>"
    )
    yield "tree", "Execution tree", picture
    yield (
        "versions",
        "Versions",
        f"{status_filter(results)}{versions_list(replay, results, links)}",
    )
    tools = (
        '<div class="tools" hidden><button type="button" data-fold="open">Open all</button>'
        '<button type="button" data-fold="close">Close all</button></div>'
    )
    cells = cells_html(replay, entries)
    yield "cells", "Cells", f"{tools}{cells}" if cells else ""
    yield "memory", "Memory over time", _memory(replay)
    yield "notes", "Notes", _notes(replay)
    yield "environment", "Recorded with", _environment(replay.recording.environment)


def _memory(replay: Replay) -> str:
    if not replay.memory:
        return ""
    wide, narrow = memory_svg(replay, _WIDE), memory_svg(replay, _NARROW)
    return (
        f'<figure><div class="wide">{wide}</div><div class="narrow">{narrow}</div>'
        "<figcaption>What checkpoints held, from the start of the replay on.</figcaption></figure>"
    )


def _notes(replay: Replay) -> str:
    notes = [*replay.notes, *replay.recording.notes]
    if replay.left_out:
        notes.append(f"There was no time for {listed(replay.left_out, _NAMES)}.")
    lines = "".join(f"<li>{xml(note)}</li>" for note in notes[:_MOST_NOTES])
    return f'<ul class="notes">{lines}</ul>' if lines else ""


def _environment(environment: EnvironmentInfo) -> str:
    found = {
        "Python": f"{environment.implementation} {environment.python}".strip(),
        "System": f"{environment.system} {environment.machine}".strip(),
    }
    facts = "".join(f"<dt>{name}</dt><dd>{xml(fact)}</dd>" for name, fact in found.items() if fact)
    if not facts and not environment.packages:
        return ""
    packages = "".join(f"<li>{xml(name)} {xml(v)}</li>" for name, v in environment.packages)
    if packages:
        title = count(len(environment.packages), "package")
        packages = (
            f'<details><summary>{title}</summary><ul class="packages">{packages}</ul></details>'
        )
    return f'<dl class="facts-table">{facts}</dl>{packages}'


def _foot(replay: Replay) -> str:
    facts = [
        f"planner {replay.planner}" if replay.planner else "",
        count(replay.workers, "worker"),
        f"budget {budget_text(replay.budget_bytes)}",
        f"planned {format_seconds(replay.planned_seconds)}" if replay.planned_seconds else "",
    ]
    return xml(" · ".join(fact for fact in facts if fact))
