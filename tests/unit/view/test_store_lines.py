"""A store as text, and what is said of checks and sweeps."""

from __future__ import annotations

from datetime import UTC

from hypothesis import given, settings
from hypothesis import strategies as st

from chexpoint.model import Damage, FsckReport, GcReport, NodeId
from chexpoint.view import fsck_text, gc_text, image_names, store_json, store_text
from chexpoint.view.store_rows import store_rows
from chexpoint.view.text import columns
from tests.unit.view.stores import CONNECTION, MB, image, usage_of
from tests.unit.view.worlds import ident, node, tree_of

GROWN = usage_of(*(image(number) for number in range(4)))


def test_the_facts_come_first() -> None:
    usage = usage_of(
        *GROWN.images, index_bytes=50 * MB, waste_bytes=12 * MB, budget_bytes=1000 * MB
    )
    assert store_text(usage, zone=UTC).split("\n")[:6] == [
        "store:    /study/.chex/store",
        "images:   4 with states of 800 MB",
        "on disk:  200 MB in 4 packs, 4.0 times smaller",
        "caches:   50.0 MB that can be made again",
        "budget:   1000 MB, 20% taken",
        "to free:  12.0 MB with chex gc",
    ]


def test_images_are_listed_with_the_newest_last() -> None:
    usage = usage_of(image(0), image(1, lost=(CONNECTION,)))
    text = store_text(usage, names={"i1": "5f3a91c2 x[3] = 0"}, zone=UTC)
    _, images, lost, _ = text.split("\n\n")
    assert images.split("\n") == [
        "when              node                state    added    took  not stored",
        "2026-11-17 12:00  i0                 200 MB   200 MB  250 ms",
        "2026-11-17 12:01  5f3a91c2 x[3] = 0  200 MB  40.0 KB  250 ms  db",
    ]
    assert lost.split("\n") == [
        "not stored, and made again by their cells:",
        "  db (sqlite3.Connection): a connection ends with its process",
    ]


def test_growth_is_drawn_with_letters() -> None:
    chart = store_text(GROWN, width=40).split("\n\n")[-1]
    assert chart.split("\n") == [
        "800 MB │                        ::::::::",
        "       │                        ::::::::",
        "       │                ::::::::::::::::",
        "       │        ::::::::::::::::::::::::",
        "       │################################",
        "       │################################",
        "       ├────────────────────────────────",
        "        : 800 MB of states   # 200 MB s…",
    ]


def test_a_store_without_growth_has_no_chart() -> None:
    assert "#" not in store_text(usage_of(image(0)))
    assert store_text(usage_of()).split("\n") == [
        "store:    /study/.chex/store",
        "images:   0 with states of 0 B",
        "on disk:  0 B in 0 packs",
        "budget:   none",
    ]


def test_of_many_images_the_newest_are_listed() -> None:
    usage = usage_of(*(image(number) for number in range(50)))
    lines = store_text(usage).split("\n\n")[1].split("\n")
    assert lines[0] == "20 older images; --json lists all"
    assert len(lines) == 32
    assert "i49" in lines[-1]


@settings(deadline=None, max_examples=30)
@given(
    st.lists(
        st.builds(
            image,
            st.integers(0, 99),
            state_bytes=st.integers(0, 2**50),
            stored_bytes=st.integers(0, 2**50),
            time=st.floats(0, 1e12),
            seconds=st.floats(0, 1e6),
        ),
        max_size=40,
    ),
    st.integers(40, 120),
    st.none() | st.integers(1, 2**50),
)
def test_no_line_is_wider_than_the_window(
    images: list[object], width: int, budget: int | None
) -> None:
    usage = usage_of(*images, budget_bytes=budget)  # type: ignore[arg-type]
    text = store_text(usage, names={"i3": "a\nname" * 20}, width=width, zone=UTC)
    assert all(columns(line) <= width for line in text.split("\n"))


def test_rows_end_with_what_the_whole_store_takes() -> None:
    usage = usage_of(*GROWN.images, pack_bytes=GROWN.pack_bytes + 7 * MB)
    rows = store_rows(usage)
    assert rows[-1].states == usage.state_bytes
    assert rows[-1].stored == usage.pack_bytes
    assert rows[0].stored == 207 * MB


def test_images_are_called_by_node_version_and_cell() -> None:
    tree = tree_of([node(1), node(2, 1)], 2, names=["base"])
    nodes = {"a": ident(1), "b": ident(2), "c": NodeId("ff" * 16)}
    assert image_names(nodes, tree) == {
        "a": "00000001 cell_1()",
        "b": "00000002 (base) cell_2()",
        "c": "ffffffff",
    }


def test_json_names_the_nodes() -> None:
    data = store_json(GROWN, {"i2": ident(2)})
    assert [each["node"] for each in data["images"]] == [None, None, ident(2), None]
    assert data["images"][2]["stored_bytes"] == 40 * 1024
    assert data["pack_bytes"] == GROWN.pack_bytes
    assert data["ratio"] == GROWN.ratio


def test_a_check_says_what_to_do() -> None:
    fine = FsckReport(packs=1, images=2, checked_bytes=5 * MB)
    assert fsck_text(fine) == "5.0 MB checked: 2 images in 1 pack, nothing is damaged"
    bad = Damage(what="pack 12ab", why="a wrong checksum", images=("i1", "i2"))
    mended = Damage(what="pack 34cd", why="cut short", repaired="put aside")
    report = FsckReport(packs=2, images=3, checked_bytes=MB, damages=(bad, mended))
    assert fsck_text(report).split("\n") == [
        "1.0 MB checked: 3 images in 2 packs, 2 damages",
        "  pack 12ab: a wrong checksum",
        "    lost with it: i1, i2",
        "  pack 34cd: cut short",
        "    repaired: put aside",
        "1 not repaired: chex fsck --repair does what can be done",
    ]


def test_a_damaged_image_is_not_said_to_be_lost_with_itself() -> None:
    bad = Damage(what="image i1", why="cut short", images=("i1",), repaired="given up")
    report = FsckReport(packs=2, images=3, checked_bytes=MB, damages=(bad,))
    assert fsck_text(report).split("\n")[1:] == [
        "  image i1: cut short",
        "    repaired: given up",
        "all is repaired: states that were lost are computed again when needed",
    ]


def test_what_a_store_says_cannot_command_the_terminal() -> None:
    bad = Damage(what="\x1b[2J", why="x\ny", images=("\x07",), repaired="\r")
    text = fsck_text(FsckReport(packs=1, images=1, checked_bytes=1, damages=(bad,)))
    assert text.replace("\n", "").isprintable()
    assert len(text.split("\n")) == 5


def test_a_sweep_says_what_it_freed() -> None:
    assert gc_text(GcReport(freed_bytes=0, packs=0, images=0)) == "freed 0 B"
    report = GcReport(freed_bytes=5 * MB, packs=3, images=1, kept_busy=2)
    assert gc_text(report).split("\n") == [
        "freed 5.0 MB: 1 image and 3 packs",
        "2 more packs in use now: run chex gc again when the kernels have ended",
    ]
    assert gc_text(report, is_dry=True).startswith("would free at least 5.0 MB: 1 image")
    sure = GcReport(freed_bytes=5 * MB, packs=0, images=0)
    assert gc_text(sure, is_dry=True) == "would free 5.0 MB"
