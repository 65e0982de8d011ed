"""The one visual language: what a colour and a sign mean, wherever CHEX shows something.

The colours are those of Okabe and Ito, who chose them for colour-blind eyes, some of them darker:
each stands out on light and on dark paper, and below a white sign (at least 3 to 1).  So one colour
serves both themes, and only ink and paper are taken from the page.  A colour never stands alone: a
sign, a shape or a word is beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # an engine needs colours to start, but no values of replays
    from chexpoint.model import ReplayStatus

BLUE = "#0072b2"
SKY = "#3a93c9"
GREEN = "#00926a"
ORANGE = "#b87a00"
VERMILION = "#d55e00"
CRIMSON = "#d81b60"
PURPLE = "#c0639a"
GREY = "#7f7f7f"

LIGHT, DARK = ("#1f2328", "#ffffff"), ("#e6edf3", "#0d1117")
"""Ink and paper where a theme is ours to choose."""

FAINT = f"var(--jp-ui-font-color2, {GREY})"
"""The ink of what is said aside, in a page of JupyterLab or of others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How something is shown: never by its colour alone."""

    word: str
    sign: str
    colour: str
    style: str
    """The class that rules of style know it by."""

    def html(self) -> str:
        """Return the sign in its colour; a word must stand beside it."""
        return f'<b style="color:{self.colour}" aria-hidden="true">{self.sign}</b>'


# What is done for a cell, and what is held of it.
RECOMPUTED = Look(word="run again", sign="↻", colour=ORANGE, style="recomputed")
REUSED = Look(word="reused", sign="↩", colour=GREEN, style="reused")
CHECKPOINT = Look(word="checkpoint", sign="◉", colour=BLUE, style="checkpoint")
HERE = Look(word="here", sign="◈", colour=PURPLE, style="here")

# How it compares with what was recorded.
SAME = Look(word="same", sign="✓", colour=GREEN, style="same")
CLOSE = Look(word="close", sign="≈", colour=SKY, style="close")
DIFFERENT = Look(word="different", sign="≠", colour=VERMILION, style="different")
FAILED = Look(word="failed", sign="✗", colour=CRIMSON, style="failed")
SKIPPED = Look(word="skipped", sign="–", colour=GREY, style="skipped")  # noqa: RUF001
NOT_DONE = Look(word="not done", sign="…", colour=GREY, style="todo")

LOOKS: Mapping[ReplayStatus | None, Look] = {
    "same": SAME,
    "close": CLOSE,
    "different": DIFFERENT,
    "failed": FAILED,
    "skipped": SKIPPED,
    None: NOT_DONE,
}
"""The looks of a replay; None is what was not reached."""

VERSION_COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
"""The n-th version takes one in turn: its line can be followed, the colour means nothing else."""


def progress_html(label: str, done: float, total: float) -> str:
    """Return a bar; without a total it only shows that something is going on."""
    value = f" value='{min(done, total):g}' max='{total:g}'" if total else ""
    style = f"width:14em;vertical-align:middle;accent-color:{GREEN}"
    return f"<progress aria-label='{escape(label)}'{value} style='{style}'></progress>"
