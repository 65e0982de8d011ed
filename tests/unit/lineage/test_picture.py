"""The picture is valid, shows what was read and written, and stays readable with many files."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest

from chexpoint.lineage.picture import MANY, lineage_svg, shortened
from chexpoint.lineage.table import columns
from chexpoint.model import CellAudit, CellLineage, Effect, Hint, Input, InputKind, NodeId

SVG = "{http://www.w3.org/2000/svg}"
DIGEST = "0123456789abcdef"


def cell(
    number: int,
    *,
    reads: tuple[Input, ...] = (),
    writes: tuple[str, ...] = (),
    audit: CellAudit | None = None,
    **fields: object,
) -> CellLineage:
    effects = tuple(Effect(path=path, kind="written", digest=DIGEST) for path in writes)
    values = {
        "node": NodeId(f"{number:032x}"),
        "parent": NodeId(f"{number - 1:032x}"),
        "code": "c0de",
        "strict": "57",
        "number": number,
        "execution_count": number,
        "source": f"cell_{number}()",
        "audit": audit or CellAudit(inputs=reads, effects=effects),
        "seconds": 1.5,
        "size_bytes": 2**20,
    }
    return CellLineage(**{**values, **fields})  # type: ignore[arg-type]


def reading(name: str, *digests: str, kind: InputKind = "file") -> Input:
    return Input(kind=kind, name=name, digests=digests or (DIGEST,))


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)  # noqa: S314 - our own text


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in parsed(svg).iter(f"{SVG}text")]


def titles(svg: str) -> list[str]:
    return [element.text or "" for element in parsed(svg).iter(f"{SVG}title")]


def boxes(svg: str, style: str) -> Iterator[tuple[str, ElementTree.Element]]:
    """Yield the first line and the rectangle of each box of a style."""
    for group in parsed(svg).iter(f"{SVG}g"):
        rect = group.find(f"{SVG}rect")
        label = group.find(f"{SVG}text")
        assert rect is not None
        assert label is not None
        if style in rect.attrib["class"].split():
            yield label.text or "", rect


def arrows(svg: str, style: str) -> list[str]:
    return [e.attrib["d"] for e in parsed(svg).iter(f"{SVG}path") if e.attrib["class"] == style]


def test_cells_stand_in_order_with_their_count_and_first_line() -> None:
    svg = lineage_svg([cell(1), cell(2, source="\n\n  second()\nmore()", execution_count=5)])
    assert texts(svg)[3:] == [
        "[1] · 1.5 s · 1.0 MB",
        "cell_1()",
        "[5] · 1.5 s · 1.0 MB",
        "second()",
    ]
    tops = [float(rect.attrib["y"]) for _, rect in boxes(svg, "cell")]
    assert tops == sorted(tops)
    assert len(arrows(svg, "chain")) == 1


def test_each_read_and_each_write_is_an_arrow() -> None:
    svg = lineage_svg(
        [
            cell(1, reads=(reading("./a"), reading("./b")), writes=("./out",)),
            cell(2, reads=(reading("./a"),)),
        ]
    )
    assert [label for label, _ in boxes(svg, "read")] == ["./a", "./b"]
    assert [label for label, _ in boxes(svg, "wrote")] == ["./out"]
    assert len(arrows(svg, "read")) == 3
    assert len(arrows(svg, "wrote")) == 1


def test_a_file_that_changed_between_two_reads_is_two_boxes() -> None:
    path = [cell(1, reads=(reading("./a", "11"),)), cell(2, reads=(reading("./a", "22"),))]
    assert [label for label, _ in boxes(lineage_svg(path), "read")] == ["./a", "./a"]


def test_a_file_from_an_earlier_cell_is_connected_to_its_writer() -> None:
    svg = lineage_svg([cell(1, writes=("./a",)), cell(2, reads=(reading("./a", "cell:1"),))])
    assert list(boxes(svg, "read")) == []
    ((_, product),) = boxes(svg, "wrote")
    (arrow,) = arrows(svg, "read")
    assert arrow.startswith(f"M{product.attrib['x']} ")


def test_a_file_from_a_cell_outside_the_picture_is_an_input() -> None:
    svg = lineage_svg([cell(2, reads=(reading("./a", "cell:1"),))])
    assert [label for label, _ in boxes(svg, "read")] == ["./a"]
    assert "cells (earlier ones are not recorded)" in texts(svg)


def test_absent_and_deleted_files_are_dashed_and_say_so() -> None:
    audit = CellAudit(
        inputs=(reading("./a", "absent"), reading("./there")),
        effects=(
            Effect(path="./b", kind="deleted"),
            Effect(path="./c", kind="folder"),
            Effect(path="./d", kind="held", digest=DIGEST),
            Effect(path="./e", kind="transient"),
        ),
    )
    svg = lineage_svg([cell(1, audit=audit)])
    assert [label for label, _ in boxes(svg, "missing")] == ["./a (absent)", "./b (deleted)"]
    assert {"./c (folder)", "./d (still open)", "./there"} <= set(texts(svg))
    assert "./e" not in svg


def test_other_inputs_are_named_by_their_kind() -> None:
    reads = (
        reading("./data", kind="folder"),
        reading("HOME", kind="variable"),
        reading("example.org", "volatile", kind="network"),
        reading("", kind="packages"),
    )
    shown = texts(lineage_svg([cell(1, reads=reads)]))
    assert {"./data (listed)", "HOME (variable)", "example.org (network)", "packages"} <= set(shown)


def test_doubtful_cells_are_marked_with_shape_and_text() -> None:
    audit = CellAudit(
        hints=(
            Hint(kind="time", what="a"),
            Hint(kind="time", what="b"),
            Hint(kind="net", what="c"),
        ),
        gaps=("unseen",),
    )
    plain, doubtful = lineage_svg([cell(1)]), lineage_svg([cell(1, audit=audit, status="error")])
    assert {"inputs may be missing", "may differ: time, net"} <= set(texts(doubtful))
    assert "failed" in texts(doubtful)[3]
    assert (len(arrows(plain, "mark")), len(arrows(doubtful, "mark"))) == (0, 2)
    assert len(list(boxes(doubtful, "incomplete"))) == 1


def test_the_cell_in_focus_has_its_own_border() -> None:
    path = [cell(1), cell(2)]
    ((label, _),) = boxes(lineage_svg(path, path[1].node), "focus")
    assert label.startswith("[2]")
    assert list(boxes(lineage_svg(path), "focus")) == []


def test_many_files_of_a_folder_are_one_box() -> None:
    reads = (reading("./one.csv"), *(reading(f"./data/{i:03}.csv") for i in range(240)))
    path = [
        cell(1, reads=reads, writes=tuple(f"./out/{i}/x" for i in range(20))),
        cell(2, reads=(reading("./data/007.csv"), reading("./out/3/x", "cell:1"))),
    ]
    svg = lineage_svg(path)
    assert [label for label, _ in boxes(svg, "read")] == ["./one.csv", "./data/ 240 files"]
    assert [label for label, _ in boxes(svg, "wrote")] == ["./out/ 20 files"]
    assert len(arrows(svg, "read")) == 4
    (title,) = [title for title in titles(svg) if title.startswith("./data/ 240 files\n")]
    assert "./data/019.csv" in title
    assert title.endswith("and 220 more")


def test_the_picture_stays_small_whatever_is_read() -> None:
    names = [f"{root}/{a}/{b}/x" for root in ("", ".", "~") for a in range(9) for b in range(9)]
    reads = [reading(name) for name in names] + [reading(name, "absent") for name in names]
    reads += [reading(f"V{i}", kind="variable") for i in range(50)]
    svg = lineage_svg([cell(1, reads=tuple(reads))])
    labels = [label for label, _ in boxes(svg, "read")]
    assert len(labels) <= 3 * MANY
    assert {"/ 81 files", "./ 81 absent files", "~/ 81 files", "50 variables"} <= set(labels)


def test_long_names_are_cut_in_the_middle_and_kept_in_the_title() -> None:
    name = "~/a/very/long/way/down/to/a/file/with/a/long/name/measurements-2024.parquet"
    svg = lineage_svg([cell(1, reads=(reading(name),), source="y" * 5000)])
    ((label, _),) = boxes(svg, "read")
    assert label.startswith("~/a/very")
    assert label.endswith("2024.parquet")
    assert "…" in label
    assert f"{name}\n{DIGEST[:12]}" in titles(svg)


@pytest.mark.parametrize("text", ["abcdefghij", "日本語日本語日本語", "a日b本c語d日e本f語", "ab"])
@pytest.mark.parametrize("room", [3, 4, 5, 8, 9, 30])
def test_shortened_texts_fit_and_keep_both_ends(text: str, room: int) -> None:
    short = shortened(text, room)
    assert columns(short) <= room
    if short != text:
        head, tail = short.split("…")
        assert text.startswith(head)
        assert text.endswith(tail)
        assert columns(short) >= room - 2


def test_hostile_names_leave_the_picture_valid() -> None:
    name = "<b>&'\"\x00\n\udcff\ufffe]]>"
    audit = CellAudit(
        inputs=(reading(name), reading(name, kind="variable")),
        effects=(Effect(path=name, kind="written", digest="<&>"),),
        hints=(Hint(kind="<k>\x01", what="<w>\x02"),),
        gaps=("<g>\udc80",),
    )
    svg = lineage_svg([cell(1, audit=audit, source="'<&>\x00\udc80'\r\n")])
    svg.encode("utf-8")
    assert "<b>&'\"\\x00\\n\\udcff\\ufffe]]>" in texts(svg)
    assert "'<&>\\x00\\udc80'" in texts(svg)


def test_no_boxes_overlap_and_all_lie_inside() -> None:
    reads = tuple(reading(f"./in{i}") for i in range(MANY))
    path = [
        cell(1, reads=reads, writes=("./a", "./b")),
        cell(2, reads=(reading("./x"),), writes=tuple(f"./out{i}" for i in range(MANY))),
        cell(3),
    ]
    svg = lineage_svg(path)
    root = parsed(svg)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    areas = []
    for rect in root.iter(f"{SVG}rect"):
        x, y, w, h = (float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
        assert x >= 0
        assert y >= 0
        assert x + w <= width
        assert y + h <= height
        areas.append((x, y, x + w, y + h))
    assert len(areas) == MANY + 2 + 1 + MANY + 3
    for (left, top, right, bottom), (x1, y1, x2, y2) in itertools.combinations(areas, 2):
        assert right <= x1 or x2 <= left or bottom <= y1 or y2 <= top


def test_the_same_path_gives_the_same_picture() -> None:
    path = [cell(1, reads=(reading("./b"), reading("./a")), writes=("./c",)), cell(2)]
    assert lineage_svg(path) == lineage_svg(list(path))


def test_styles_are_those_of_the_picture_alone() -> None:
    style = parsed(lineage_svg([cell(1)])).find(f"{SVG}style")
    assert style is not None
    rules = [line for line in (style.text or "").splitlines() if "{" in line]
    assert [
        rule for rule in rules if not rule.startswith((".chex-", ":root.chex-", "@media"))
    ] == []
    assert "prefers-color-scheme: dark" in (style.text or "")


def test_an_empty_path_is_a_picture_too() -> None:
    assert "no cells" in texts(lineage_svg([]))
