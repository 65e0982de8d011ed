"""Pictures of trees are valid, complete and say what they leave out."""

from __future__ import annotations

import re
from collections import Counter
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chexpoint.model import ExecutionTree, NodeId, TreeNode, Version
from chexpoint.view import TREE_START, tree_html, tree_svg
from tests.unit.view.worlds import ident, node, random_tree, tree_of

SVG = "{http://www.w3.org/2000/svg}"


def parsed(svg: str) -> ElementTree.Element:
    svg.encode("utf-8")
    return ElementTree.fromstring(svg)  # noqa: S314 - our own text


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in parsed(svg).iter(f"{SVG}text")]


def titles(svg: str) -> list[str]:
    return [element.text or "" for element in parsed(svg).iter(f"{SVG}title")]


def group(svg: str, title: str) -> ElementTree.Element:
    """Return the one thing whose tooltip has a line."""
    (found,) = (
        element
        for element in parsed(svg).iter(f"{SVG}g")
        if title in (element.findtext(f"{SVG}title") or "").split("\n")
    )
    return found


def styles(element: ElementTree.Element) -> Counter[str]:
    """Return the classes of all shapes below one."""
    return Counter(word for e in element.iter() for word in e.attrib.get("class", "").split())


SMALL = tree_of(
    [
        node(1, cell="import numpy\nimport pandas", cost=0.01, size=10**6),
        node(2, 1, cell="x = 1", cost=1.0, size=10**8),
        node(3, 2, cell="x.fit()", cost=100.0, size=10**9, status="error"),
        node(4, 1, cell="y = 2", cost=2.0, delta=10),
    ],
    3,
    4,
    names=["first", "second"],
)


def test_every_version_is_named_once_and_every_cell_is_a_disc() -> None:
    svg = tree_svg(SMALL)
    assert Counter(texts(svg))["first"] == Counter(texts(svg))["second"] == 1
    assert styles(parsed(svg))["node"] == 4
    assert "import numpy" in texts(svg)
    assert svg.startswith(TREE_START)


@pytest.mark.slow
@settings(deadline=None, max_examples=15)
@given(st.integers(0, 10**6))
def test_fifty_versions_are_named_once_each_or_counted(seed: int) -> None:
    tree = random_tree(seed, 50, 20)
    found = Counter(texts(tree_svg(tree)))
    names = [tree.labels[version] for version in tree.versions]
    counted = sum(
        int(text[1:].split()[0])
        for text in found.elements()
        if text.startswith("+") and "version" in text
    )
    assert all(found[name] <= 1 for name in names)
    assert sum(found[name] for name in names) + counted == 50


def test_dearer_cells_are_brighter() -> None:
    svg = tree_svg(SMALL)
    fills = [
        group(svg, f"[{n}] {ident(n)[:12]}").find(f"{SVG}circle").attrib["fill"]  # type: ignore[union-attr]
        for n in (1, 2, 4, 3)
    ]
    green = [int(fill[3:5], 16) for fill in fills]
    assert green == sorted(set(green))


def test_marks_of_checkpoints_position_and_failure_are_shapes() -> None:
    svg = tree_svg(SMALL, checkpoints={ident(2): "k7"}, here=ident(4))
    held, here, failed = (group(svg, line) for line in ("checkpoint k7", "you are here", "failed"))
    assert styles(held)["ring"] == styles(here)["here"] == styles(failed)["cross"] == 1
    assert {"checkpoint", "you are here", "failed"} <= set(texts(svg))
    plain = tree_svg(tree_of([node(1)], 1))
    assert not {"ring", "here", "cross"} & set(styles(parsed(plain)))
    assert not {"checkpoint", "you are here", "failed"} & set(texts(plain))


def test_marks_inside_a_chain_are_on_the_chain() -> None:
    nodes = [node(1), *(node(n, n - 1) for n in range(2, 3000))]
    nodes[100] = node(101, 100, status="error")
    svg = tree_svg(tree_of(nodes, 2999), checkpoints={n.id: "k" for n in nodes[:2000]})
    found = styles(parsed(svg))
    assert found["chain"] > 1
    assert found["ring"] > 1
    assert found["cross"] > 1
    assert "2,998 cells" in "".join(titles(svg))


def test_tooltips_tell_source_cost_size_and_versions() -> None:
    (title,) = (t for t in titles(tree_svg(SMALL)) if t.startswith("[1]"))
    assert title.split("\n") == [
        f"[1] {ident(1)[:12]}",
        "10 ms, 977 KB",
        "versions: first, second",
        "",
        "import numpy",
        "import pandas",
    ]
    assert any("10 B of it changed" in title for title in titles(tree_svg(SMALL)))


def test_a_version_has_the_same_colour_all_along() -> None:
    svg = tree_svg(SMALL)
    lines = [e.attrib["class"] for e in parsed(svg).iter(f"{SVG}path")]
    assert lines.count("line v0") == 3
    assert lines.count("line v1") == 2
    assert sorted(line for line in lines if line.startswith("lead")) == ["lead v0", "lead v1"]


def test_a_line_of_many_versions_is_one_thick_line() -> None:
    numbers = range(2, 12)
    svg = tree_svg(tree_of([node(1), *(node(n, 1) for n in numbers)], *numbers))
    (shared,) = (e for e in parsed(svg).iter(f"{SVG}path") if e.attrib["class"] == "shared")
    assert float(shared.attrib["stroke-width"]) > 3


HOSTILE = [
    "</svg><script>alert(1)</script>",
    "]]>&amp;<!-- -->\"'",
    "\x00\x01\x1b[31m\x7f\x9f",
    "\ud800 lone \udfff",
    "\ufffe\uffff",
    "x" * 10_000,
    "\n".join("y" * 300 for _ in range(500)),
    "日本語" * 3000,
    "\u202e reversed \u2028 line",
    "",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_leave_the_picture_valid(text: str) -> None:
    hostile = TreeNode(
        id=NodeId(text or "x"), parent=None, cell=text, cost=1, size=1, doubt=text, last_run=1
    )
    version = Version(
        name=text, path=(hostile.id,), origin=text, parameters=((text, text), ("a", text))
    )
    tree = ExecutionTree([hostile, node(2)], [version])
    for svg in (tree_svg(tree, checkpoints={hostile.id: text}, here=hostile.id), tree_svg(tree)):
        assert len(svg) < 100_000
        assert not list(parsed(svg).iter(f"{SVG}script"))
    page = tree_html(tree, title=text)
    page.encode("utf-8")
    assert "<script" not in page


@pytest.mark.slow
def test_a_thousand_versions_stay_small_and_say_what_is_not_drawn() -> None:
    tree = random_tree(7, 1000, 33)
    svg = tree_svg(tree, here=next(iter(tree.nodes)))
    assert len(svg) < 400_000
    root = parsed(svg)
    assert float(root.attrib["height"]) < 4000
    found = texts(svg)
    counted = sum(
        int(text[1:].split()[0].replace(",", ""))
        for text in found
        if text.endswith("versions") and text.startswith("+")
    ) + found.count("+1 version")
    named = sum(text.startswith("version-") for text in found)
    assert named + counted == 1000
    note = next(text for text in found if "of 1,000 versions are drawn" in text)
    assert note.startswith(f"{named} of")
    assert "not drawn one by one" in found


def test_the_picture_of_a_whole_tree_has_no_such_note() -> None:
    assert not any("are drawn" in text for text in texts(tree_svg(SMALL)))


@pytest.mark.parametrize("width", [200, 600, 960, 2000])
def test_texts_lie_inside_whatever_the_width(width: int) -> None:
    root = parsed(tree_svg(random_tree(3, 30, 12), width=width))
    wide, high = float(root.attrib["width"]), float(root.attrib["height"])
    for element in root.findall(f"./{SVG}g/{SVG}text"):
        x, room = float(element.attrib["x"]), len(element.text or "") * 7
        if "text-anchor" not in element.attrib and "transform" not in element.attrib:
            assert x + room <= wide or element.attrib.get("class") == "faint"
        assert float(element.attrib["y"]) <= high


def test_themes_are_chosen_or_taken_from_the_page() -> None:
    plain, dark, light = (tree_svg(SMALL, dark=dark) for dark in (None, True, False))
    assert parsed(plain).attrib["class"] == "chex-tree"
    assert parsed(dark).attrib["class"] == "chex-tree chex-dark"
    assert parsed(light).attrib["class"] == "chex-tree chex-light"
    rules = parsed(plain).findtext(f"{SVG}style") or ""
    assert rules == parsed(dark).findtext(f"{SVG}style")
    assert "prefers-color-scheme: dark" in rules
    assert "var(--jp-content-font-color1, inherit)" in rules


def test_pictures_on_one_page_do_not_interfere() -> None:
    svg = tree_svg(SMALL)
    assert not re.search(r'\b(id|href)="|url\(|@import|http(?!://www\.w3\.org/2000/svg)', svg)
    style = parsed(svg).findtext(f"{SVG}style") or ""
    selectors = re.findall(r"(?:^|[}\n])\s*([^{}@]+?)\s*\{", style)
    assert selectors
    for selector in (part for rule in selectors for part in rule.split(",")):
        assert selector.strip().startswith((".chex-tree", "svg:root.chex-tree"))


def test_the_same_tree_gives_the_same_picture() -> None:
    tree = random_tree(5, 20, 10)
    again = ExecutionTree(reversed(list(tree.nodes.values())), reversed(tree.versions))
    assert tree_svg(tree) == tree_svg(again)


def test_an_empty_tree_is_a_picture_too() -> None:
    assert "no cells are recorded yet" in texts(tree_svg(ExecutionTree()))


def test_the_page_has_the_picture_above_the_versions() -> None:
    page = tree_html(SMALL, checkpoints={ident(1): "k1"}, here=ident(2), title="A & B")
    assert page.startswith("<!DOCTYPE html>")
    assert "<h1>A &amp; B</h1>" in page
    assert page.index("<svg ") < page.index("</svg>") < page.index("<table>")
    assert "<td >first</td>" in page
    assert not re.search(r"<script|<link|src=|@import|url\(", page)
