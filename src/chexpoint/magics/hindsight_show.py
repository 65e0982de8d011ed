"""A replay in hindsight under a cell: how far it has got, then the values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from IPython.display import display

from chexpoint.magics.looking_magics import Shown
from chexpoint.magics.replay_program import Program, batches
from chexpoint.model import HindsightRow, format_seconds
from chexpoint.palette import progress_html


class HindsightBar:
    """A bar for the iterations of each version."""

    def __init__(self) -> None:
        self._at: dict[str, dict[str, Any]] = {}

    def take(self, event: dict[str, Any]) -> None:
        """Take how far a version has got."""
        self._at[event["version"]] = event

    def _lines(self) -> list[str]:
        lines = []
        for version, at in self._at.items():
            left = at["seconds_left"]
            more = "" if left is None or at["done"] >= at["total"] else f", {format_seconds(left)}"
            more = f"{more} left" if more else ""
            lines.append(f"{version}: {at['done']} of {at['total']} iterations{more}")
        return lines

    def __repr__(self) -> str:
        return f"CHEX: replaying: {'; '.join(self._lines()) or 'starting'}"

    def _repr_html_(self) -> str:
        if not self._at:
            return f"<div>{progress_html('replay', 0, 0)}</div>"
        rows = "".join(
            f"<div>{progress_html(version, at['done'], at['total'])} {escape(line)}</div>"
            for (version, at), line in zip(self._at.items(), self._lines(), strict=True)
        )
        return f"<div>{rows}</div>"


@dataclass(slots=True)
class HindsightEnd:
    """What a replay has said at its end."""

    result: dict[str, Any] = field(default_factory=dict)
    """As ``chex hindsight --json`` prints it; empty if there is none."""
    text: str = ""
    html: str = ""
    svg: str = ""
    picture: Any = None
    """Where the bar is shown, if it can be replaced."""

    def take(self, lines: Iterable[str]) -> list[dict[str, Any]]:
        """Take events, and return those that tell how far it has got."""
        happened = []
        for line in lines:
            event = json.loads(line)
            match event["kind"]:
                case "summary":
                    self.text, self.html, self.svg = event["text"], event["html"], event["svg"]
                case "result":
                    self.result = {name: value for name, value in event.items() if name != "kind"}
                case _:
                    happened.append(event)
        return happened

    def rows(self) -> list[HindsightRow]:
        """Return what the added statements have logged."""
        from chexpoint.view import row_from_json

        return [
            row_from_json(row)
            for version in self.result["versions"]
            for row in version["rows"]
            if row["added"]
        ]

    def clear(self) -> None:
        """Take the bar away: nothing came of it."""
        if self.picture is not None:
            self.picture.update(Shown(lambda: "", lambda: ""))

    def told(self) -> str:
        """Return what there is to know besides the values."""
        return self.text.rpartition("\n\n")[2]


def follow(program: Program, shell: Any) -> HindsightEnd:
    """Show how far a replay gets, and return how it ends."""
    end, bar = HindsightEnd(), HindsightBar()
    if hasattr(shell, "kernel"):  # a terminal would show each one below the other
        end.picture = display(bar, display_id=True)
    for lines in batches(program):
        happened = end.take(lines)
        for event in happened:
            bar.take(event)
            if end.picture is None and event["done"] == event["total"] > 0:
                print(f"CHEX: {event['version']}: {event['done']} iterations replayed")
        if happened and end.picture is not None:
            end.picture.update(bar)
    return end


def table_of(rows: Sequence[HindsightRow]) -> Any:
    """Return the values as a DataFrame of pandas if that is installed, else as dictionaries."""
    from chexpoint.view import hindsight_records

    records = hindsight_records(rows)
    try:
        import pandas as pd  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        return records
    columns = list(records[0]) if records else ["version", "name", "value", "standing"]
    return pd.DataFrame(records, columns=columns)


def show_end(end: HindsightEnd, table: Any, *, has_plot: bool) -> None:
    """Show what came of a replay: the values, what to know of them, and a picture on request."""
    if isinstance(table, list):
        shown: Any = Shown(lambda: end.text, lambda: end.html)
    else:
        shown = table
    if end.picture is not None:
        end.picture.update(shown)
    else:
        display(shown)
    if not isinstance(table, list):
        print(end.told())
    if has_plot:
        display(Shown(lambda: "a picture: use --plot in a notebook", lambda: end.svg))
