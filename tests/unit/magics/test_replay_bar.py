"""The bar of ``%chex_replay``."""

from __future__ import annotations

from html.parser import HTMLParser

from chexpoint.magics.replay_bar import ReplayBar
from chexpoint.model import ReplayProgress


class Tags(HTMLParser):
    """What stands in a page: the attributes of its bars, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.bars: list[dict[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "progress":
            self.bars.append({name: value for name, value in attrs if name != "style"})

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def cell(worker: int, version: str, at: int) -> ReplayProgress:
    return ReplayProgress(
        kind="cell",
        worker=worker,
        version=version,
        cell=at,
        cells=4,
        computed=3,
        to_compute=9,
        versions=3,
        versions_done=1,
        saved=2,
        seconds_left=5.0,
        held_bytes=2048,
    )


def test_before_anything_has_happened_something_is_going_on() -> None:
    bar = ReplayBar()
    assert repr(bar) == "CHEX: replaying: starting"
    assert Tags(bar._repr_html_()).bars == [{"aria-label": "replay"}]


def test_there_is_a_bar_for_all_and_one_for_each_worker() -> None:
    bar = ReplayBar()
    bar.take(cell(1, "deep", 2))
    bar.take(cell(0, "a<b", 1))
    told = "3 of 9 cells, 1 of 3 versions, 5.0 s left, 2 cells saved, 2.0 KB held"
    assert repr(bar) == f"CHEX: replaying: {told}; deep 2/4; a<b 1/4"
    found = Tags(bar._repr_html_())
    assert found.bars == [
        {"aria-label": "replay", "value": "3", "max": "9"},
        {"aria-label": "a<b", "value": "1", "max": "4"},
        {"aria-label": "deep", "value": "2", "max": "4"},
    ]
    assert found.texts == ["replay", told, "a<b", "1 of 4 cells", "deep", "2 of 4 cells"]


def test_versions_that_are_done_go_and_notes_stay() -> None:
    bar = ReplayBar()
    bar.take(cell(1, "deep", 4))
    bar.take(ReplayProgress(kind="version", version="deep", status="same"))
    bar.take(ReplayProgress(kind="note", text="planned <again>"))
    assert repr(bar).splitlines()[1:] == ["planned <again>"]
    assert len(Tags(bar._repr_html_()).bars) == 1
    assert Tags(bar._repr_html_()).texts[-1] == "planned <again>"
