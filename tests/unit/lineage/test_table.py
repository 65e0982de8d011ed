"""What a cell read and wrote is told completely, and harms no terminal and no page."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from chexpoint.lineage.table import lineage_html, lineage_rows, lineage_text, printable
from chexpoint.model import CellAudit, CellLineage, Effect, Event, Hint, Input, InputKind, NodeId

DIGEST = "0123456789abcdef0123456789abcdef"


def cell(**fields: object) -> CellLineage:
    values = {
        "node": NodeId("a" * 32),
        "parent": NodeId("b" * 32),
        "code": "c0de",
        "strict": "57",
        "number": 3,
        "execution_count": 7,
        "source": "x = 1",
        "audit": CellAudit(),
        "seconds": 1.5,
        "size_bytes": 2**20,
    }
    return CellLineage(**{**values, **fields})  # type: ignore[arg-type]


def reading(name: str, *digests: str, kind: InputKind = "file") -> Input:
    return Input(kind=kind, name=name, digests=digests or (DIGEST,))


@pytest.mark.parametrize(
    ("found", "row"),
    [
        (reading("./a.csv"), ("reads", "./a.csv", "0123456789ab", "")),
        (reading("./a.csv", "absent"), ("reads", "./a.csv", "absent", "")),
        (reading("./a.csv", "cell:2"), ("reads", "./a.csv", "as cell 2 left it", "")),
        (
            reading("./a.csv", "absent", "cell:2", DIGEST),
            ("reads", "./a.csv", "absent, then as cell 2 left it, then 0123456789ab", ""),
        ),
        (reading("/a", "volatile"), ("reads", "/a", "changed while it was read", "")),
        (reading("/a", "unreadable"), ("reads", "/a", "could not be read", "")),
        (reading("/a", "fifo"), ("reads", "/a", "a pipe", "")),
        (reading("/a", "size:5:17"), ("reads", "/a", "known by size and time", "")),
        (reading("./data", kind="folder"), ("lists", "./data", "0123456789ab", "")),
        (reading("HOME", "absent", kind="variable"), ("variable", "HOME", "absent", "")),
        (
            reading("", "volatile", kind="network"),
            ("network", "any peer", "may answer differently", ""),
        ),
        (reading("", kind="packages"), ("packages", "installed packages", "0123456789ab", "")),
    ],
)
def test_each_input_is_a_row(found: Input, row: tuple[str, ...]) -> None:
    assert lineage_rows(cell(audit=CellAudit(inputs=(found,)))) == [row]


def test_each_effect_is_a_row_but_temporary_files_only_on_request() -> None:
    effects = (
        Effect(path="./out", kind="written", digest=DIGEST, size_bytes=2048),
        Effect(path="./log", kind="held", digest=DIGEST, size_bytes=10),
        Effect(path="./old", kind="deleted"),
        Effect(path="./new", kind="folder"),
        Effect(path="$TMP/x", kind="transient"),
    )
    lineage = cell(audit=CellAudit(effects=effects))
    rows = lineage_rows(lineage)
    assert rows == [
        ("wrote", "./out", "0123456789ab", "2.0 KB"),
        ("wrote", "./log", "0123456789ab", "10 B, still open"),
        ("deleted", "./old", "", ""),
        ("created folder", "./new", "", ""),
    ]
    assert lineage_rows(lineage, transient=True) == [*rows, ("temporary", "$TMP/x", "", "")]


def test_earlier_cells_are_named_by_their_execution_count() -> None:
    lineage = cell(audit=CellAudit(inputs=(reading("./a", "cell:2"),)))
    path = (cell(number=2, execution_count=5), lineage)
    assert lineage_rows(lineage, path)[0].contents == "as cell [5] left it"


def test_text_has_head_source_aligned_columns_and_notes() -> None:
    audit = CellAudit(
        inputs=(reading("./a.csv"), reading("./日本.csv", "absent")),
        effects=(Effect(path="./out.csv", kind="written", digest=DIGEST, size_bytes=3),),
        hints=(
            Hint(kind="time", what="the clock is read", line=2),
            Hint(kind="network", what="the network is used"),
        ),
        events=(
            Event(process="0", op="read", name="./a.csv"),
            Event(process="0.1", op="read", name="./a.csv"),
        ),
        gaps=("a process could not be seen",),
        environment_reads=12,
    )
    assert lineage_text(cell(source="import time\n\tprint(1)\n", audit=audit)).split("\n") == [
        "cell [7]  node aaaaaaaaaaaa  parent bbbbbbbbbbbb  1.5 s  1.0 MB",
        "    import time",
        "        print(1)",
        "reads  ./a.csv     0123456789ab",
        "reads  ./日本.csv  absent",
        "wrote  ./out.csv   0123456789ab  3 B",
        "hint, line 2: the clock is read",
        "hint: the network is used",
        "inputs may be missing: a process could not be seen",
        "files of Python and of the system: 12, not listed",
        "processes: 2",
    ]


def test_text_says_that_there_is_nothing() -> None:
    assert lineage_text(cell()).endswith("no inputs, no files written")
    assert "no inputs, no files written" in lineage_html(cell())


def test_a_failed_or_unaudited_cell_says_so() -> None:
    text = lineage_text(cell(status="error", audit=CellAudit(mechanism="off")))
    assert "the cell ended with an error" in text
    assert "inputs may be missing: the cell was not audited" in text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, 日本, café", "plain, 日本, café"),
        ("caf\udce9", "caf\\udce9"),
        ("a\nb\tc", "a\\nb\\tc"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\u202eb\x00\ufffe", "a\\u202eb\\x00\\ufffe"),
    ],
)
def test_what_cannot_be_shown_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


HOSTILE = cell(
    source="print('<b>')\r\n\x1b[2J \udc80",
    audit=CellAudit(
        inputs=(reading("./<script>\x1b[2J\n\udcff"), reading("HOME", "<i>", kind="variable")),
        effects=(Effect(path="./a&b'\"", kind="written", digest="<u>"),),
        hints=(Hint(kind="x", what="<s>\n\x1b"),),
        gaps=("<q>\udc80",),
    ),
)


def test_text_keeps_lines_and_terminal_whole() -> None:
    text = lineage_text(HOSTILE)
    assert re.findall(r"[^\n -~]", text) == []
    assert len(text.split("\n")) == 8


def test_html_is_well_formed_and_escaped() -> None:
    html = lineage_html(HOSTILE)
    html.encode("utf-8")
    tree = ElementTree.fromstring(html)  # noqa: S314 - our own text
    assert {element.tag for element in tree.iter()} == {"div", "strong", "pre", "table", "tr", "td"}
    cells = [element.text for element in tree.iter("td")]
    assert "./<script>\\x1b[2J\\n\\udcff" in cells
    assert "./a&b'\"" in cells


def test_html_takes_its_colours_from_the_page() -> None:
    values = re.findall(r"(?:color|background|border[\w-]*):([^;']+)", lineage_html(HOSTILE))
    assert set(values) <= {"inherit", "none", "2px solid currentColor"}
