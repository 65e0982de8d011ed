"""The versions of a replay as rows of HTML, with a square for each cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from chexpoint.model import NodeId, Replay, ReplayStatus, format_seconds
from chexpoint.palette import LOOKS
from chexpoint.view.replay_facts import BAD_FIRST, VersionResult, look_of, tally, word_of
from chexpoint.view.replay_lines import MOST_VERSIONS
from chexpoint.view.text import clipped, count, xml

MOST_ROWS, MOST_SQUARES = 2000, 40_000

_LONGEST_WHY = 300
_LONGEST_PARAMETERS = 120


def versions_list(
    replay: Replay, results: Sequence[VersionResult], links: Mapping[NodeId, str]
) -> str:
    """Return a row for each version; of very many, those that are reproduced are folded.

    Parameters
    ----------
    links
        Where a cell is shown in the page.
    """
    shown = _listed(results)
    most = MOST_SQUARES // max(len(shown), 1)
    folded = [result for result in shown if result.is_good and len(results) > MOST_VERSIONS]
    rows, good = (
        "\n".join(_row(replay, result, links, most) for result in some)
        for some in ([result for result in shown if result not in folded], folded)
    )
    made = f'<ol class="versions">\n{rows}\n</ol>'
    if folded:
        title = f"{count(len(folded), 'version')} reproduced"
        made += (
            f'\n<details class="group"><summary><h3>{title}</h3></summary>'
            f'<ol class="versions">\n{good}\n</ol></details>'
        )
    if more := len(results) - len(shown):
        made += f'<p class="faint">and {count(more, "more version")}</p>'
    return made


def status_filter(results: Sequence[VersionResult]) -> str:
    """Return what signs mean, and boxes to choose which versions are seen."""
    found = Counter(result.status for result in results)
    boxes = "".join(
        f'<label class="{look.style}"><input type="checkbox" checked id="only-{look.style}">'
        f' <span class="sign" aria-hidden="true">{look.sign}</span> {look.word} {found[status]:,}'
        "</label>"
        for status, look in LOOKS.items()
        if found[status]
    )
    find = '<label class="tools" hidden>Find <input id="find" type="search"></label>'
    return f'<fieldset class="legend" aria-label="Show versions that are">{boxes}{find}</fieldset>'


def legend(statuses: set[ReplayStatus | None], has_excused: bool) -> str:
    """Return what signs and colours mean."""
    signs = [
        f'<span class="{look.style}"><span class="sign" aria-hidden="true">{look.sign}</span>'
        f" {look.word}</span>"
        for status, look in LOOKS.items()
        if status in statuses
    ]
    if has_excused:
        signs.append("<span>hollow: excused by a tag</span>")
    return f'<div class="legend">{"".join(signs)}</div>'


def _listed(results: Sequence[VersionResult]) -> list[VersionResult]:
    """Return those that there is room for: good ones give way to the others."""
    ranked = sorted(results, key=lambda result: BAD_FIRST.index(result.status))[:MOST_ROWS]
    kept = {result.label for result in ranked}
    return [result for result in results if result.label in kept]


def _row(
    replay: Replay, result: VersionResult, links: Mapping[NodeId, str], most_squares: int
) -> str:
    look, version = LOOKS[result.status], result.version
    parameters = ", ".join(f"{name}={value}" for name, value in version.parameters)
    more = f"<small>{xml(clipped(parameters, _LONGEST_PARAMETERS))}</small>" if parameters else ""
    if len(version.path) <= most_squares:
        strip = "".join(
            _square(replay, place, node, links.get(node))
            for place, node in enumerate(version.path, start=1)
        )
    else:
        words = (look_of(replay.cells.get(node)).word for node in version.path)
        strip = f"{count(len(version.path), 'cell')}: {tally(words)}"
    why = f'<div class="why">{xml(clipped(result.why, _LONGEST_WHY))}</div>' if result.why else ""
    return (
        f'<li class="version {look.style}"><div class="status"><span class="sign"'
        f' aria-hidden="true">{look.sign}</span> {result.word}</div>'
        f'<div class="label">{xml(result.label)}{more}</div>'
        f'<div class="strip">{strip}</div>'
        f'<div class="time">{format_seconds(result.seconds)}'
        f" <small>recorded {format_seconds(result.recorded_seconds)}</small></div>{why}</li>"
    )


def _square(replay: Replay, place: int, node: NodeId, link: str | None) -> str:
    cell = replay.cells.get(node)
    style = f"square {look_of(cell).style}{' excused' if cell and cell.is_excused else ''}"
    took = f", {format_seconds(cell.seconds)}" if cell and cell.computed else ""
    title = f"cell {place}: {word_of(cell)}{took}"
    if link:
        return f'<a class="{style}" href="#{link}" title="{title}"></a>'
    return f'<span class="{style}" role="img" title="{title}"></span>'
