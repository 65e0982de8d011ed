"""The picture of a replay: every node with what became of it, the bad ones first."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from chexpoint.model import Replay, ReplayStatus
from chexpoint.palette import LOOKS
from chexpoint.view.replay_tree import REPLAY_TREE_START, replay_tree_svg
from tests.support.replays import (
    HOSTILE,
    Sample,
    build,
    hostile_replay,
    interrupted_replay,
    many_replay,
    node_of,
    sample_replay,
)

SVG = "{http://www.w3.org/2000/svg}"


def drawn(replay: Replay, **links: str) -> ElementTree.Element:
    svg, _ = replay_tree_svg(replay, links={node_of(name): link for name, link in links.items()})
    assert svg.startswith(REPLAY_TREE_START)
    return ElementTree.fromstring(svg)  # noqa: S314 - our own text


def discs(picture: ElementTree.Element) -> list[tuple[str, str]]:
    """Return the class of each disc, and the sign in it."""
    return [
        (circle.attrib["class"], group.findtext(f"{SVG}text") or "")
        for group in picture.iter()
        for circle in group.findall(f"{SVG}circle")
    ]


def test_every_node_has_the_colour_and_the_sign_of_its_status() -> None:
    replay = sample_replay()
    found = sorted(discs(drawn(replay)))
    assert found == sorted(
        (
            LOOKS[cell.status].style + (" excused" if cell.is_excused else ""),
            LOOKS[cell.status].sign,
        )
        for cell in replay.cells.values()
    )


def test_what_is_not_done_is_drawn_as_such() -> None:
    found = discs(drawn(interrupted_replay()))
    assert found.count(("todo", "…")) == 3


def test_nodes_lead_to_their_cells_and_say_why() -> None:
    (link,) = drawn(sample_replay(), scale="c1").iter(f"{SVG}a")
    assert link.attrib["href"] == "#c1"
    assert (link.findtext(f"{SVG}title") or "").split("\n") == [
        "cell 3: failed, 450 ms",
        "KeyError: 'flipper_length'",
        "scaled = frame.copy()",
        "scaled",
    ]


def test_versions_are_named_with_their_signs() -> None:
    texts = [text.text for text in drawn(sample_replay()).iter(f"{SVG}text")]
    for label, sign in (("base", "✓"), ("deeper", "≠"), ("scaled", "✗"), ("timed", "≈")):
        assert texts[texts.index(label) + 1] == sign


def test_of_very_many_versions_the_bad_ones_are_drawn() -> None:
    replay = many_replay(200, 3, bad=20)
    svg, note = replay_tree_svg(replay)
    assert note.startswith("40 of 200 versions are drawn, those first that are not reproduced")
    texts = {text.text for text in ElementTree.fromstring(svg).iter(f"{SVG}text")}  # noqa: S314
    bad = {
        label
        for label, version in replay.recording.labels.items()
        if replay.version_status(version) != "same"
    }
    assert len(bad) == 10
    assert bad <= texts
    assert len(svg) < 100_000


@pytest.mark.parametrize("status", ["close", "failed"])
def test_cells_of_a_long_row_are_counted_but_not_the_one_that_is_not_the_same(
    status: ReplayStatus,
) -> None:
    samples = {
        f"{at}": Sample(source=f"x{at}", after=f"{at - 1}" if at else "") for at in range(200)
    }
    samples["90"] = replace(samples["90"], status=status)
    picture = drawn(build(samples, {"v": "199"}))
    counted = sum(int(t.text or 0) for t in picture.iter(f"{SVG}text") if (t.text or "").isdigit())
    assert counted + len(discs(picture)) == 200
    assert (LOOKS[status].style, LOOKS[status].sign) in discs(picture)


def test_hostile_text_stays_text() -> None:
    titles = [title.text or "" for title in drawn(hostile_replay()).iter(f"{SVG}title")]
    assert any("</script><img src=x" in title for title in titles)
    assert not any("\x1b" in title for title in titles)
    assert "<img" not in replay_tree_svg(hostile_replay())[0]
    assert "\x1b" in HOSTILE
