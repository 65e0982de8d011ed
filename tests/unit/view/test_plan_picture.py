"""Pictures of plans are valid and complete, and nothing in them overlaps."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import combinations, pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chexpoint.model import ExecutionTree, NodeId, StepCosts, TreeNode, Version
from chexpoint.plan import KINDS, sample_tree
from chexpoint.view import PLAN_START, plan_svg, schedule_svg
from chexpoint.view.plan_chart import size_ticks, time_ticks
from chexpoint.view.plan_picture import held_together
from chexpoint.view.text import columns
from tests.unit.view.planned import GB, SMALL, by_hand, by_planner, side_by_side
from tests.unit.view.worlds import node, random_tree, tree_of

SVG = "{http://www.w3.org/2000/svg}"

Box = tuple[float, float, float, float]

LANES = ("compute 1, compute 2, compute 3, compute 4", "compute 1, compute 2, compute 5, compute 6")


def parsed(svg: str) -> ElementTree.Element:
    svg.encode("utf-8")
    return ElementTree.fromstring(svg)  # noqa: S314 - our own text


def of_class(svg: str, name: str) -> list[ElementTree.Element]:
    return [e for e in parsed(svg).iter() if name in e.attrib.get("class", "").split()]


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in parsed(svg).iter(f"{SVG}text")]


def title_with(svg: str, words: str) -> str:
    (found,) = (e.text for e in parsed(svg).iter(f"{SVG}title") if e.text and words in e.text)
    return found


def moved(element: ElementTree.Element, x: float, y: float) -> tuple[float, float]:
    found = re.fullmatch(r"translate\(([-\d.]+) ([-\d.]+)\)", element.attrib.get("transform", ""))
    return (x + float(found[1]), y + float(found[2])) if found else (x, y)


def text_boxes(
    element: ElementTree.Element, x: float = 0.0, y: float = 0.0
) -> Iterator[tuple[str, Box]]:
    """Yield each text and the box it takes: fonts differ, and this is the widest of ours."""
    x, y = moved(element, x, y)
    if element.tag == f"{SVG}text" and element.text:
        is_small = "small" in element.attrib.get("class", "").split()
        wide = columns(element.text) * (5.6 if is_small else 6.7)
        anchor = {"middle": 0.5, "end": 1.0}.get(element.attrib.get("text-anchor", ""), 0.0)
        left = x + float(element.attrib["x"]) - anchor * wide
        base = y + float(element.attrib["y"])
        yield element.text, (left, base - (6.5 if is_small else 8), left + wide, base + 2)
    for child in element:
        yield from text_boxes(child, x, y)


def disc_boxes(element: ElementTree.Element, x: float = 0.0, y: float = 0.0) -> Iterator[Box]:
    x, y = moved(element, x, y)
    if element.tag == f"{SVG}circle":
        cx, cy, r = (float(element.attrib[name]) for name in ("cx", "cy", "r"))
        yield x + cx - r, y + cy - r, x + cx + r, y + cy + r
    for child in element:
        yield from disc_boxes(child, x, y)


def is_apart(one: Box, other: Box) -> bool:
    return one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


def assert_tidy(svg: str) -> None:
    """Nothing is written over something else, or out of the picture."""
    root = parsed(svg)
    wide, high = float(root.attrib["width"]), float(root.attrib["height"])
    boxes = list(text_boxes(root))
    for (one, a), (other, b) in combinations(boxes, 2):
        assert is_apart(a, b), (one, other)
    discs = list(disc_boxes(root))
    for text, place in boxes:
        assert all(is_apart(place, disc) for disc in discs), text
        assert 0 <= place[0] <= place[2] <= wide, text
        assert 0 <= place[1] <= place[3] <= high, text


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(
    st.sampled_from(KINDS),
    st.integers(0, 10**6),
    st.sampled_from([1, 2, 5, 16, 40, 120]),
    st.sampled_from([0.0, GB / 2, GB, 20.0 * GB, math.inf]),
    st.sampled_from([400, 960]),
)
def test_nothing_overlaps_in_pictures_of_samples(
    kind: str, seed: int, nodes: int, budget: float, width: int
) -> None:
    tree = sample_tree(kind, seed=seed, nodes=nodes)
    assert_tidy(plan_svg(tree, by_planner(tree, budget), width=width))


@pytest.mark.slow
@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from([1, 3, 12, 50]), st.integers(1, 20))
def test_nothing_overlaps_in_pictures_of_recorded_versions(
    seed: int, versions: int, cells: int
) -> None:
    tree = random_tree(seed, versions, cells)
    assert_tidy(plan_svg(tree, by_planner(tree, 10**9)))


def test_nothing_overlaps_beside_numbers_of_times_and_sources() -> None:
    nodes = [node(1, cell="import everything_there_is"), *(node(n, n - 1) for n in range(2, 6))]
    nodes += [node(n, 5, cell="fit(everything_there_is)") for n in range(6, 20)]
    tree = tree_of(nodes, *range(6, 20), names=[f"a long name {n}" for n in range(6, 20)])
    svg = plan_svg(tree, by_planner(tree, 0.0))
    assert "\N{MULTIPLICATION SIGN}14" in texts(svg)
    assert_tidy(svg)


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [40, 70, 120])
def test_nothing_overlaps_where_columns_are_narrow(nodes: int) -> None:
    tree = sample_tree("caterpillar", nodes=nodes)
    for budget in (0.0, GB):
        assert_tidy(plan_svg(tree, by_planner(tree, budget), width=400))


def test_checkpoints_are_rings_and_versions_are_named_over_time_and_in_the_tree() -> None:
    svg = plan_svg(SMALL, by_hand(SMALL))
    assert svg.startswith(PLAN_START)
    found = texts(svg)
    assert found[0] == "by-hand: 2 versions in 13 min, the least there can be"
    assert found.count("base") == found.count("deeper") == 2
    assert "checkpoint" in found
    assert len(of_class(svg, "ring")) == 2  # one of them in the legend
    assert "checkpoint of 512 MB, restored 1 time, saves 10 min" in title_with(svg, "\nx = load()")
    assert [bar.attrib["class"] for bar in of_class(svg, "bar")] == ["bar f0", "bar f1"]


def test_cells_that_are_computed_again_have_a_number() -> None:
    again = "compute 1, compute 2, compute 3, compute 4, restore -, compute 1, compute 2, compute 5"
    svg = plan_svg(SMALL, by_hand(SMALL, f"{again}, compute 6"))
    twice = "\N{MULTIPLICATION SIGN}2"
    assert texts(svg).count(twice) == 2
    assert any(f"A number such as {twice} says" in text for text in texts(svg))
    assert "computed 2 times" in title_with(svg, "\nx = load()")
    assert "checkpoint" not in texts(svg)
    assert not any(twice in text for text in texts(plan_svg(SMALL, by_hand(SMALL))))


def test_the_area_shows_what_is_held_when() -> None:
    """A state of half the budget is held from the second cell to the end of the first version."""
    svg = plan_svg(SMALL, by_hand(SMALL), width=960)
    (area,), (line,) = of_class(svg, "area"), of_class(svg, "budget")
    corners = re.findall(r"([MHV])([\d.]+)(?: ([\d.]+))?", area.attrib["d"])
    left, floor = float(corners[0][1]), float(corners[0][2])
    budget = float(line.attrib["d"].split()[1].partition("H")[0])
    right = float(line.attrib["d"].partition("H")[2])
    heights = [float(y) for letter, y, _ in corners if letter == "V"]
    assert floor - min(heights) == pytest.approx((floor - budget) / 2, abs=0.2)
    changes = [float(x) for letter, x, _ in corners if letter == "H"]
    for time in (600.0, 661.0):
        assert any(abs(left + (right - left) * time / 782 - x) <= 0.5 for x in changes)


def test_the_budget_is_drawn_unless_it_is_out_of_sight() -> None:
    def said(budget: float) -> str:
        svg = plan_svg(SMALL, by_hand(SMALL, budget=budget))
        (text,) = (text for text in texts(svg) if "budget" in text)
        assert bool(of_class(svg, "budget")) == ("far" not in text and "no " not in text)
        return text

    assert said(GB) == "budget 1.0 GB"
    assert said(100 * GB) == "budget 100 GB, far above"
    assert said(math.inf) == "no budget"


def test_bars_of_a_lane_follow_one_another() -> None:
    tree = random_tree(4, 30, 10)
    bars = of_class(plan_svg(tree, by_planner(tree)), "bar")
    ends = [(float(b.attrib["x"]), float(b.attrib["x"]) + float(b.attrib["width"])) for b in bars]
    assert ends[0][0] == 76
    for (_, end), (start, _) in pairwise(ends):
        assert start == pytest.approx(end, abs=0.6)


def test_engines_have_a_lane_each_and_hold_together_what_each_holds() -> None:
    schedule, explanations = side_by_side(SMALL, *LANES)
    svg = schedule_svg(SMALL, schedule, explanations)
    assert {"engine 1", "engine 2"} <= set(texts(svg))
    first, second = of_class(svg, "bar")
    assert first.attrib["x"] == second.attrib["x"]
    assert float(first.attrib["y"]) < float(second.attrib["y"])
    assert texts(svg).count("\N{MULTIPLICATION SIGN}2") == 2  # each engine computes the beginning
    assert_tidy(svg)
    held = by_hand(SMALL)
    alone, both = held_together([held]), held_together([held, held])
    assert [size for _, size in alone] == [moment.held_bytes for moment in held.moments]
    assert max(size for _, size in both) == 2 * held.peak_bytes
    assert both[-1] == (782.0, 0)


@pytest.mark.slow
def test_a_large_plan_is_a_small_picture() -> None:
    tree = sample_tree("an", nodes=5500, length=33)
    svg = plan_svg(tree, by_planner(tree))
    assert len(svg) < 500_000
    assert len(of_class(svg, "bar")) <= 1200
    assert any("did not fit below the bars" in text for text in texts(svg))
    assert "Not all of the tree is drawn." in "".join(texts(svg))


@pytest.mark.parametrize(
    "tree",
    [
        ExecutionTree([TreeNode(id=NodeId("a"), parent=None)]),
        ExecutionTree([TreeNode(id=NodeId("a"), parent=None, cost=1e-9, size=1)]),
        ExecutionTree([TreeNode(id=NodeId("a"), parent=None, cost=9e18, size=2**62)]),
    ],
    ids=["nothing", "tiny", "huge"],
)
def test_extreme_numbers_are_drawn(tree: ExecutionTree) -> None:
    assert_tidy(plan_svg(tree, by_planner(tree)))


def test_a_plan_that_reaches_nothing_is_drawn() -> None:
    svg = plan_svg(SMALL, by_hand(SMALL, "", left_out=[4, 6]))
    assert texts(svg)[0].startswith("by-hand: 0 of 2 versions")
    assert title_with(svg, "\nimport numpy").split("\n")[2] == "not computed"
    assert_tidy(svg)


def test_what_checkpoints_cost_is_part_of_the_time() -> None:
    costs = StepCosts(checkpoint=100.0)
    explanation = by_planner(SMALL, costs=costs)
    (title,) = (
        line
        for element in parsed(plan_svg(SMALL, explanation)).iter(f"{SVG}title")
        for line in (element.text or "").split("\n")
        if line.startswith("0 ms to")
    )
    assert title == "0 ms to 13 min"


HOSTILE = [
    "</svg><script>alert(1)</script>",
    "]]>&amp;<!-- -->\"'",
    "\x00\x01\x1b[31m\x7f\x9f",
    "\ud800 lone \udfff",
    "x" * 10_000,
    "日本語" * 3000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_leave_the_picture_valid(text: str) -> None:
    root = TreeNode(id=NodeId(text), parent=None, cell=text, cost=1.0, size=1)
    leaves = [TreeNode(id=NodeId(f"{n}{text}"), parent=root.id, cost=1.0) for n in (1, 2)]
    version = Version(name=text, path=(root.id, leaves[0].id))
    tree = ExecutionTree([root, *leaves], [version])
    svg = plan_svg(tree, by_planner(tree))
    assert len(svg) < 100_000
    assert not list(parsed(svg).iter(f"{SVG}script"))


def test_themes_are_chosen_or_taken_from_the_page() -> None:
    plain, dark, light = (
        plan_svg(SMALL, by_hand(SMALL), dark=dark) for dark in (None, True, False)
    )
    assert parsed(plain).attrib["class"] == "chex-plan chex-tree"
    assert parsed(dark).attrib["class"] == "chex-plan chex-tree chex-dark"
    assert parsed(light).attrib["class"] == "chex-plan chex-tree chex-light"
    assert "prefers-color-scheme: dark" in (parsed(plain).findtext(f"{SVG}style") or "")


def test_pictures_on_one_page_do_not_interfere() -> None:
    svg = plan_svg(SMALL, by_hand(SMALL))
    assert not re.search(r'\b(id|href)="|url\(|@import|http(?!://www\.w3\.org/2000/svg)', svg)
    style = parsed(svg).findtext(f"{SVG}style") or ""
    selectors = re.findall(r"(?:^|[}\n])\s*([^{}@]+?)\s*\{", style)
    assert selectors
    for selector in (part for rule in selectors for part in rule.split(",")):
        assert selector.strip().startswith((".chex-tree", "svg:root.chex-tree"))


@given(st.floats(0, 1e12), st.integers(1, 12))
def test_times_at_the_axis_are_few_and_in_order(end: float, most: int) -> None:
    ticks = time_ticks(end, most)
    times = [time for time, _ in ticks]
    assert times[0] == 0
    assert times == sorted(set(times))
    assert times[-1] <= end * (1 + 1e-6)
    assert len(times) <= most + 1
    assert len({text for _, text in ticks}) == len(ticks)


def test_times_at_the_axis_are_round() -> None:
    assert [text for _, text in time_ticks(100.0, 5)] == [
        "0",
        *(f"{n} s" for n in range(20, 101, 20)),
    ]
    assert [text for _, text in time_ticks(3600.0, 4)][-1] == "60 min"
    assert [text for _, text in time_ticks(20_000.0, 6)] == ["0", *(f"{n} h" for n in range(1, 6))]
    assert [text for _, text in time_ticks(0.01, 5)][1] == "2 ms"


@given(st.floats(1, 2**62), st.integers(1, 6))
def test_sizes_at_the_axis_are_few_and_in_order(top: float, most: int) -> None:
    ticks = size_ticks(top, most)
    sizes = [size for size, _ in ticks]
    assert sizes[0] == 0
    assert sizes == sorted(set(sizes))
    assert sizes[-1] <= top * (1 + 1e-6)
    assert len(sizes) <= most + 1
    assert len({text for _, text in ticks}) == len(ticks)
