"""A replay as a small piece of HTML, for the output of a notebook cell."""

from __future__ import annotations

from chexpoint.model import Replay, format_seconds
from chexpoint.palette import LOOKS
from chexpoint.view.replay_facts import VersionResult, tally, verdict, version_results, work
from chexpoint.view.replay_lines import listed_results, rest_line
from chexpoint.view.style import html_view
from chexpoint.view.text import clipped, listed, xml

_LONGEST_WHY = 160
_MOST_NOTES = 10
_HEAD = '<tr><th>version</th><th>status</th><th class="number">cells</th>'
_HEAD += '<th class="number">time</th><th>why</th></tr>'


def replay_html(replay: Replay) -> str:
    """Return the verdict, a row for each version and the totals, in the colours of the page.

    Statuses are words with signs; the colours of the signs can be seen in light and dark themes.
    """
    results = version_results(replay)
    shown = listed_results(results)
    rest = rest_line(results, shown)
    rows = "".join(map(_row, shown))
    notes = list(replay.notes[:_MOST_NOTES])
    if replay.left_out:
        notes.append(f"no time for {listed(replay.left_out, _LONGEST_WHY)}")
    if replay.is_interrupted:
        notes.append("the replay was interrupted")
    parts = [
        f"<p><strong>{verdict(results)}</strong>: {tally(r.word for r in results)}</p>",
        f'<div class="scroll"><table>{_HEAD}\n{rows}</table></div>' if rows else "",
        f'<p class="faint">{xml(rest)}</p>' if rest else "",
        f"<p>{xml(work(replay))}</p>",
        *(f'<p class="faint">{xml(note)}</p>' for note in notes),
    ]
    return html_view("\n".join(part for part in parts if part))


def _row(result: VersionResult) -> str:
    look = LOOKS[result.status]
    return (
        f"<tr><td>{xml(result.label)}</td><td>{look.html()} {result.word}</td>"
        f'<td class="number">{len(result.version.path)}</td>'
        f'<td class="number">{format_seconds(result.seconds)}</td>'
        f"<td>{xml(clipped(result.why, _LONGEST_WHY))}</td></tr>\n"
    )
