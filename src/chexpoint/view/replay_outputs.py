"""Outputs of cells as HTML that does nothing but show them, alone or side by side.

Outputs may come from a stranger.  Text is escaped; images are addresses that hold them, in which
nothing runs; HTML is shown in a frame that may neither run scripts nor load anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html import escape

from chexpoint.model import Output, format_size
from chexpoint.palette import LIGHT
from chexpoint.view.line_pairs import LinePair, changed_spans, line_pairs, near_changes
from chexpoint.view.outputs import OutputChange, Shown, data_uri, output_changes, shown
from chexpoint.view.replay_ansi import ansi_html
from chexpoint.view.text import count, printable, xml

FRAME_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"

_HTML = "text/html"
_SCRIPTS = "application/javascript"
_CONTEXT = 3
_MOST_ROWS = 120
_MOST_OUTPUTS = 40
_MOST_LINES = 200  # of a text that is shown alone
_MOST_LETTERS = 1_000_000  # of a text that is compared
_LONGEST_LINE = 390  # in longer ones it is not looked what differs
_BEFORE = 60  # letters of a long line before what differs
_MOST_IMAGE, _MOST_HTML = 4_000_000, 300_000  # letters; larger ones would make the page unusable

_SCRIPT = re.compile(r"(</?script\b[^<>]*>?)", re.IGNORECASE)
_LOADING = re.compile(r"<(?:link|meta|base)\b[^>]*>?", re.IGNORECASE)
_UNFIT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_ROW = re.compile(r"<(?:tr|p|br|li|h[1-6]|div)\b", re.IGNORECASE)
_FRAME_STYLE = (
    f"body{{margin:8px;font:13px/1.4 system-ui,sans-serif;color:{LIGHT[0]};background:{LIGHT[1]}}}"
    "table{border-collapse:collapse;border:none;font-size:12px}"
    "td,th{padding:3px 8px;border:none;text-align:right}"
    "thead{border-bottom:1px solid #888}tbody tr:nth-child(odd){background:#f3f4f6}"
)


def output_html(output: Output) -> str:
    """Return one output alone."""
    if output.get("output_type") == "error":
        return traceback_html(output)
    if output.get("output_type") == "stream":
        text = output.get("text", "")
        return _text("".join(map(str, text)) if isinstance(text, list) else str(text))
    found = shown((output,))
    # What looks best stands for the others.
    for kind in ("image", "data", "text"):
        for item in found:
            if item.kind == kind and (kind != "data" or item.name == _HTML):
                return _value(item)
    return _value(found[0]) if found else '<p class="faint">This cannot be shown here.</p>'


def traceback_html(output: Output) -> str:
    """Return the traceback of an exception, in colours."""
    lines = output.get("traceback")
    if not isinstance(lines, list) or not lines:
        lines = [f"{output.get('ename', '')}: {output.get('evalue', '')}"]
    return _text("\n".join(map(str, lines)), "traceback")


def outputs_html(outputs: Sequence[Output]) -> str:
    """Return outputs below each other; no more of them than anybody would look at."""
    more = len(outputs) - _MOST_OUTPUTS
    note = f'<p class="faint">and {count(more, "more output")}</p>' if more > 0 else ""
    return "".join(output_html(output) for output in outputs[:_MOST_OUTPUTS]) + note


def pair_html(left: Sequence[Output], right: Sequence[Output]) -> str:
    """Return outputs side by side; only what differs, if anything that can be seen does."""
    if changes := output_changes(left, right):
        return changes_html(changes)
    return sides_html(outputs_html(left), outputs_html(right))


def changes_html(changes: Sequence[OutputChange]) -> str:
    """Return what two runs of a cell show differently."""
    has_text = any(change.kind == "text" for change in changes)
    parts = []
    for change in changes[:_MOST_OUTPUTS]:
        made = _change(change)
        if change.name == _HTML and has_text:
            made = f"<details><summary>how it looks</summary>{made}</details>"
        parts.append(made)
    return "\n".join(parts)


def sides_html(left: str, right: str, style: str = "") -> str:
    """Return HTML of what was recorded and what was replayed beside each other."""
    nothing = '<p class="faint">nothing</p>'
    return (
        f'<div class="sides{style}"><div><h5>recorded</h5>{left or nothing}</div>'
        f"<div><h5>replayed</h5>{right or nothing}</div></div>"
    )


def _change(change: OutputChange) -> str:
    if change.kind == "image":
        return _images(change)
    if change.name == _HTML:
        return sides_html(
            *(_frame(v) if v is not None else "" for v in (change.left, change.right))
        )
    return _lines(*(_readable(change, value) for value in (change.left, change.right)))


def _readable(change: OutputChange, value: str | None) -> str | None:
    """Return data as text in which lines can be compared."""
    if value is None or change.kind == "text" or not change.name.endswith("json"):
        return value
    try:
        return json.dumps(json.loads(value[:_MOST_LETTERS]), indent=1, ensure_ascii=False)
    except ValueError:
        return value


# ---------------------------------------------------------------- alone


def _value(item: Shown) -> str:
    if item.kind == "image":
        return _image(item.name, item.value, "")
    if item.name == _HTML:
        return _frame(item.value)
    if item.name == _SCRIPTS:
        return '<p class="faint">A script, which is not run here.</p>'
    return _text(item.value)


def _text(text: str, style: str = "") -> str:
    lines = text[: _MOST_LINES * _LONGEST_LINE].split("\n")
    cut = "\n".join(line[:_LONGEST_LINE] for line in lines[:_MOST_LINES])
    more = len(text) - len(cut)
    note = f'<p class="faint">and {count(more, "more letter")}</p>' if more > 0 else ""
    return f'<pre class="{style or "output"}">{ansi_html(cut.rstrip())}</pre>{note}'


def _image(name: str, value: str, what: str) -> str:
    uri = data_uri(name, value) if len(value) <= _MOST_IMAGE else None
    if uri is None:
        size = format_size(len(value) * 0.75)
        return f'<p class="faint">{xml(name)} of {size} cannot be shown here.</p>'
    return f'<img src="{escape(uri)}" alt="{xml(f"{what} picture".lstrip())}">'


def _frame(html: str) -> str:
    """Return HTML of a stranger in a frame in which no script runs and nothing is loaded."""
    bare = _without_scripts(html)
    note = '<p class="faint">Its scripts do not run here.</p>' if len(bare) < len(html) else ""
    if len(bare) > _MOST_HTML:
        return f'<p class="faint">HTML of {format_size(len(html))} is not shown here.</p>'
    if not bare.strip():
        return note
    # The frame obeys the policy; no tag may ask for what no policy covers, such as a connection.
    body = _UNFIT.sub("\N{REPLACEMENT CHARACTER}", _LOADING.sub("", bare))
    page = (
        f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>output</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{FRAME_POLICY}">'
        f"<style>{_FRAME_STYLE}</style>{body}"
    )
    high = min(max(28 * len(_ROW.findall(body)) + 24, 64), 360)
    return (
        f'<iframe sandbox="" loading="lazy" title="output as HTML" style="height:{high}px"'
        f' srcdoc="{escape(page)}"></iframe>{note}'
    )


def _without_scripts(html: str) -> str:
    """Return HTML without scripts: no frame runs them, and they can be very long."""
    kept, is_script = [], False
    for at, part in enumerate(_SCRIPT.split(html)):
        if at % 2:
            is_script = not part.startswith("</")
        elif not is_script:
            kept.append(part)
    return "".join(kept)


# ---------------------------------------------------------------- side by side


def _images(change: OutputChange) -> str:
    left, right = (
        _image(change.name, value, what) if value is not None else ""
        for value, what in ((change.left, "recorded"), (change.right, "replayed"))
    )
    sides = sides_html(left, right, " pictures")
    if not left.startswith("<img") or not right.startswith("<img"):
        return sides
    return (
        '<label class="over"><input type="checkbox"> lay one over the other: what is not white'
        f" differs</label>{sides}"
    )


def _lines(left: str | None, right: str | None) -> str:
    """Return two texts line by line; of lines that are the same, those near others."""
    pairs = line_pairs(_split(left), _split(right))
    rows: list[str] = []
    for entry in near_changes(pairs, _CONTEXT):
        if len(rows) >= _MOST_ROWS:
            rows.append('<tr class="gap"><td colspan="2">and more</td></tr>')
            break
        if isinstance(entry, int):
            rows.append(
                f'<tr class="gap"><td colspan="2">{count(entry, "line")} the same</td></tr>'
            )
        else:
            rows.append(_row(entry))
    head = '<thead><tr><th scope="col">recorded</th><th scope="col">replayed</th></tr></thead>'
    return f'<table class="lines">{head}<tbody>{"".join(rows)}</tbody></table>'


def _split(text: str | None) -> list[str]:
    if text is None:
        return []
    return [printable(line) for line in text[:_MOST_LETTERS].expandtabs(8).split("\n")]


def _row(pair: LinePair) -> str:
    if pair.is_same:
        line = xml((pair.left or "")[:_LONGEST_LINE])
        return f'<tr class="alike"><td>{line}</td><td>{line}</td></tr>'
    left, right = _window(pair)
    old, new = ([], []) if left is None or right is None else changed_spans(left, right)
    return f"<tr>{_side('old', left, old)}{_side('new', right, new)}</tr>"


def _window(pair: LinePair) -> LinePair:
    """Return two lines as far as they can be shown: long ones around where they begin to differ."""
    longest = max(len(pair.left or ""), len(pair.right or ""))
    if longest <= _LONGEST_LINE:
        return pair
    start = max(_alike(pair.left or "", pair.right or "") - _BEFORE, 0)
    lead = "…" if start else ""

    def cut(line: str | None) -> str | None:
        if line is None:
            return None
        more = "…" if len(line) > start + _LONGEST_LINE else ""
        return f"{lead}{line[start : start + _LONGEST_LINE]}{more}"

    return LinePair(cut(pair.left), cut(pair.right))


def _alike(left: str, right: str) -> int:
    """Return how many letters two lines have in common before they differ."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if left[:middle] == right[:middle] else (low, middle - 1)
    return low


def _side(style: str, line: str | None, spans: Sequence[tuple[int, int]]) -> str:
    if line is None:
        return '<td class="none"></td>'
    pieces, at = [], 0
    for start, end in spans:
        pieces.append(f"{xml(line[at:start])}<b>{xml(line[start:end])}</b>")
        at = end
    pieces.append(xml(line[at:]))
    return f'<td class="{style}">{"".join(pieces)}</td>'
