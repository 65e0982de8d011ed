"""The small lines that CHEX puts under a cell, as text and as HTML."""

from __future__ import annotations

from html import escape

from chexpoint.model import Seconds, format_seconds

_STYLE = (
    "color:var(--jp-ui-font-color2,#767676);font-size:85%;"
    "font-family:var(--jp-ui-font-family,sans-serif)"
)
Mark = dict[str, str]
"""A MIME bundle."""


def reused(seconds: Seconds) -> Mark:
    """Return the mark of a cell that was not run."""
    return _mark("↩", f"reused, saved {format_seconds(seconds)}")


def run_again(why: str) -> Mark:
    """Return the mark of a cell that is run although it ran before."""
    return _mark("↻", f"run again: {why}")


def following(done: int, total: int, left: Seconds) -> Mark:
    """Return the mark of a cell that waits for its state."""
    text = f"bringing back the state: cell {done + 1} of {total}"
    text += f", about {format_seconds(left)} left" if left >= 1 else ""
    bar = f"<progress value='{done}' max='{total}' style='vertical-align:middle'></progress> "
    return _mark("…", text, bar)


def followed(total: int, seconds: Seconds) -> Mark:
    """Return the mark of a cell whose state had to be computed."""
    cells = "1 earlier cell was" if total == 1 else f"{total} earlier cells were"
    return _mark("↻", f"{cells} run again to bring back the state, {format_seconds(seconds)}")


def _mark(sign: str, text: str, html: str = "") -> Mark:
    return {
        "text/plain": f"CHEX: {text}",
        "text/html": f"<div style='{_STYLE}'>{html}{sign} CHEX: {escape(text)}</div>",
    }
