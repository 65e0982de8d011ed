"""The small lines that CHEX puts under a cell, as text and as HTML."""

from __future__ import annotations

from html import escape

from chexpoint.model import Seconds, format_seconds
from chexpoint.palette import FAINT, RECOMPUTED, REUSED, Look, progress_html

_STYLE = f"color:{FAINT};font-size:85%;font-family:var(--jp-ui-font-family,sans-serif)"
Mark = dict[str, str]
"""A MIME bundle."""


def reused(seconds: Seconds) -> Mark:
    """Return the mark of a cell that was not run."""
    return _mark(REUSED, f"reused, saved {format_seconds(seconds)}")


def run_again(why: str) -> Mark:
    """Return the mark of a cell that is run although it ran before."""
    return _mark(RECOMPUTED, f"run again: {why}")


def following(done: int, total: int, left: Seconds) -> Mark:
    """Return the mark of a cell that waits for its state."""
    text = f"bringing back the state: cell {done + 1} of {total}"
    text += f", about {format_seconds(left)} left" if left >= 1 else ""
    return _mark(RECOMPUTED, text, progress_html(text, done, total) + " ")


def followed(total: int, seconds: Seconds) -> Mark:
    """Return the mark of a cell whose state had to be computed."""
    cells = "1 earlier cell was" if total == 1 else f"{total} earlier cells were"
    return _mark(
        RECOMPUTED, f"{cells} run again to bring back the state, {format_seconds(seconds)}"
    )


def _mark(look: Look, text: str, html: str = "") -> Mark:
    return {
        "text/plain": f"CHEX: {text}",
        "text/html": f"<div style='{_STYLE}'>{html}{look.html()} CHEX: {escape(text)}</div>",
    }
