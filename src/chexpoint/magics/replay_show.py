"""A replay under a cell: how far it has got while it runs, then what came of it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html import escape
from typing import Any
from urllib.parse import quote

from IPython.display import display

from chexpoint.magics.looking_magics import Shown
from chexpoint.magics.replay_bar import PackingBar, ReplayBar
from chexpoint.magics.replay_program import Program, batches
from chexpoint.model import ReplayProgress, progress_from_json


@dataclass(slots=True)
class ReplayEnd:
    """What a replay has said at its end."""

    result: dict[str, Any] = field(default_factory=dict)
    """As ``chex replay --json`` prints it; empty if there is none."""
    text: str = ""
    html: str = ""
    picture: Any = None
    """Where the bar is shown, if it can be replaced."""

    def take(self, lines: Iterable[str]) -> Iterator[ReplayProgress]:
        """Take events, and yield those that tell how far it has got."""
        for line in lines:
            event = json.loads(line)
            match event["kind"]:
                case "summary":
                    self.text, self.html = event["text"], event["html"]
                case "result":
                    self.result = {name: value for name, value in event.items() if name != "kind"}
                case _:
                    yield progress_from_json(event)


def follow(program: Program, shell: Any, *, is_shown: bool) -> ReplayEnd:
    """Show how far a replay gets, and return how it ends."""
    end, bar = ReplayEnd(), ReplayBar()
    has_pictures = hasattr(shell, "kernel")  # a terminal would show each one below the other
    if is_shown and has_pictures:
        end.picture = display(bar, display_id=True)
    for lines in batches(program):
        happened = list(end.take(lines))
        for progress in happened:
            bar.take(progress)
            if is_shown and not has_pictures:
                _print_line(progress)
        if happened and end.picture is not None:
            end.picture.update(bar)
    return end


def follow_packing(program: Program, shell: Any) -> bool:
    """Show how far a package gets, and what is in it; return whether it was written."""
    picture: Any = None
    if hasattr(shell, "kernel"):
        picture = display(PackingBar(), display_id=True)
    text = ""
    for lines in batches(program):
        events = [json.loads(line) for line in lines]
        text = next((event["text"] for event in events if event["kind"] == "summary"), text)
        if picture is not None and events and not text:
            picture.update(PackingBar(events[-1]["done"], events[-1]["total"]))
    if picture is not None:
        picture.update(Shown(lambda: text, lambda: f"<pre>{escape(text)}</pre>" if text else ""))
    elif text:
        print(text)
    return bool(text)


def _print_line(progress: ReplayProgress) -> None:
    if progress.kind == "version":
        print(f"CHEX: {progress.version}: {progress.status}")
    elif progress.kind == "note":
        print(f"CHEX: {progress.text}")


def show_end(end: ReplayEnd, report: str, *, start: str) -> None:
    """Show what came of a replay, and where the page about it is.

    Parameters
    ----------
    start
        The folder of the notebook: links are relative to it.
    """
    link = os.path.relpath(report, start)
    shown = Shown(
        lambda: f"{end.text}\n\nreport: {link}",
        lambda: f"{end.html}<p>report: <a href='{quote(link)}'>{escape(link)}</a></p>",
    )
    if end.picture is not None:
        end.picture.update(shown)
    else:
        display(shown)
