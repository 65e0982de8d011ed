"""Differences of code, inputs and outputs are found and shown, and nothing else."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

from chexpoint.model import Input, Output
from chexpoint.view import Side, SideCell, diff, diff_html, diff_json, diff_text, html_page
from chexpoint.view.text import columns
from tests.unit.view.worlds import printed, reading, side, side_cell

PNG = base64.b64encode(b"\x89PNG one").decode()
OTHER = base64.b64encode(b"\x89PNG two").decode()


def figure(content: str) -> Output:
    return {"output_type": "display_data", "data": {"image/png": content}}


LOAD = "df = load('a.csv')"
FIT = "model = fit(df, alpha=0.1)\nprint(model.score)"
LEFT = side(
    "base@1",
    side_cell("import numpy as np", 1),
    side_cell(LOAD, 2, inputs=(reading("./a.csv", "0123456789abcdef"), reading("./b.csv", "b"))),
    side_cell(FIT, 3, outputs=(printed("score 0.91\n"), figure(PNG))),
    side_cell("# one\nfinish()", 4),
    side_cell("gone()", 5),
    side_cell("last()", 6),
)
RIGHT = side(
    "tuned",
    side_cell("import numpy as np", 1),
    side_cell(LOAD, 12, inputs=(reading("./a.csv", "fedcba9876543210"), reading("./c.csv", "c"))),
    side_cell(FIT.replace("0.1", "0.2"), 13, outputs=(printed("score 0.93\n"), figure(OTHER))),
    side_cell("# two\nfinish()", 14),
    side_cell("last()", 15),
    side_cell("added()", 16),
)
FOUND = diff(LEFT, RIGHT)


def test_each_cell_has_its_state_and_what_changed() -> None:
    assert [(p.state, p.code, p.parts) for p in FOUND.pairs] == [
        ("same", "same", ()),
        ("changed", "same", ("inputs",)),
        ("changed", "changed", ("code", "outputs")),
        ("changed", "layout", ("comments or white space",)),
        ("removed", None, ()),
        ("same", "same", ()),
        ("added", None, ()),
    ]
    assert [pair.is_shared for pair in FOUND.pairs][:2] == [True, False]
    assert FOUND.summary == "2 same, 3 changed, 1 added, 1 removed"
    assert not FOUND.is_same


def test_inputs_that_differ_or_are_read_by_one_side_are_named() -> None:
    changes = FOUND.pairs[1].inputs
    assert [(c.name, c.left, c.right) for c in changes] == [
        ("./a.csv", ("0123456789abcdef",), ("fedcba9876543210",)),
        ("./b.csv", ("b",), None),
        ("./c.csv", None, ("c",)),
    ]


def test_the_text_shows_all_of_it() -> None:
    assert diff_text(FOUND).split("\n") == [
        "--- base@1 (6 cells)",
        "+++ tuned (6 cells)",
        "",
        "= cell 1: the same state",
        "~ cell 2: inputs",
        "    reads ./a.csv: 0123456789ab -> fedcba987654",
        "    reads ./b.csv: only on the left",
        "    reads ./c.csv: only on the right",
        "",
        "~ cell 3: code, outputs",
        "    - model = fit(df, alpha=0.1)",
        "    + model = fit(df, alpha=0.2)",
        "      print(model.score)",
        "    output stdout: numbers differ",
        "    - score 0.91",
        "    + score 0.93",
        "    output image/png differs",
        "",
        "~ cell 4: comments or white space",
        "    - # one",
        "    + # two",
        "      finish()",
        "",
        "- cell 5: only in base@1",
        "    - gone()",
        "",
        "= cell 6 -> 5: the same code, inputs and outputs, after another state",
        "+ cell 6: only in tuned",
        "    + added()",
        "",
        "2 same, 3 changed, 1 added, 1 removed",
    ]


def test_html_shows_both_sides_and_both_images() -> None:
    html = diff_html(FOUND)
    assert f'<img src="data:image/png;base64,{PNG}"' in html
    assert html.index(PNG) < html.index(OTHER)
    assert "model = fit(df, alpha=0.<b>1</b>)" in html
    assert "model = fit(df, alpha=0.<b>2</b>)" in html
    assert "./c.csv: only on the right" in html
    assert "<strong>base@1 (6 cells)</strong>" in html
    assert html.count("<table") == html.count("</table>")
    assert html_page("Difference", html).startswith('<!DOCTYPE html>\n<html class="chex-page"')


def test_json_holds_texts_and_digests_of_images() -> None:
    data = diff_json(FOUND)
    assert json.loads(json.dumps(data)) == data
    assert [cell["state"] for cell in data["cells"]][:3] == ["same", "changed", "changed"]
    text, image = data["cells"][2]["outputs"]
    assert (text["left"], text["right"], text["numbers"]) == ("score 0.91", "score 0.93", True)
    assert image["left"].startswith("sha256:")
    assert image["left"] != image["right"]
    assert data["cells"][4]["right"] is None
    assert data["cells"][4]["left"]["source"] == "gone()"
    assert data["cells"][1]["inputs"][1] == {
        "kind": "file",
        "name": "./b.csv",
        "left": ["b"],
        "right": None,
    }


def test_a_side_does_not_differ_from_itself() -> None:
    for one in (LEFT, RIGHT, Side(label="nothing", cells=())):
        found = diff(one, one)
        assert found.is_same
        assert found.summary == "no differences"
        assert diff_text(found).endswith("\nno differences")
        assert diff_json(found)["same"] is True
    assert "cells 1-6: the same states" in diff_text(diff(LEFT, LEFT))


def test_the_same_node_with_other_outputs_is_a_change() -> None:
    one = side("a", side_cell("random()", 1, outputs=(printed("0.1"),)))
    other = side("b", side_cell("random()", 1, outputs=(printed("0.7"),)))
    assert "cell 1: outputs" in diff_text(diff(one, other))


def test_the_same_run_is_not_compared_again() -> None:
    one = side("a", side_cell("x", 1, outputs=(printed("0.1"),), execution=5))
    other = side("b", side_cell("x", 1, outputs=(printed("0.7"),), execution=5))
    assert diff(one, other).is_same


def test_another_run_of_a_cell_in_doubt_is_not_called_the_same_state() -> None:
    one, other = side("a", side_cell("x", 1, taint="1")), side("b", side_cell("x", 1, taint="2"))
    assert "the same code, inputs and outputs, in another run" in diff_text(diff(one, other))


def test_a_cell_that_failed_on_one_side_is_a_change() -> None:
    one, other = side("a", side_cell("x", 1)), side("b", side_cell("x", 2, status="error"))
    assert "cell 1: failed on one side" in diff_text(diff(one, other))


def test_unknown_inputs_are_not_called_the_same() -> None:
    one, other = side("a", side_cell("x", 1, inputs=None)), side("b", side_cell("x", 2))
    assert "not all inputs are known" in diff_text(diff(one, other))
    hole = side_cell("x", 2)
    assert hole.lineage is not None
    gap = replace(
        hole,
        lineage=replace(hole.lineage, audit=replace(hole.lineage.audit, gaps=("unseen",))),
    )
    assert "not all inputs are known" in diff_text(
        diff(side("a", side_cell("x", 1)), side("b", gap))
    )


def test_a_file_of_the_same_cell_is_the_same_input_wherever_that_cell_is_now() -> None:
    def wrote(number: int) -> tuple[Input, ...]:
        return (reading("./out.csv", f"cell:{number}"),)

    one = side("a", side_cell("write()", 1), side_cell("read()", 2, inputs=wrote(1)))
    other = side(
        "b",
        side_cell("new()", 9),
        side_cell("write()", 10),
        side_cell("read()", 11, inputs=wrote(2)),
    )
    assert [pair.state for pair in diff(one, other).pairs] == ["added", "same", "same"]
    elsewhere = replace(other, cells=(*other.cells[:2], side_cell("read()", 11, inputs=wrote(1))))
    (change,) = diff(one, elsewhere).pairs[2].inputs
    assert change.right == ("cell:1",)
    assert "as cell 1 left it -> as cell 1 left it" in diff_text(diff(one, elsewhere))


def test_a_moved_cell_says_so_and_what_it_is() -> None:
    one = side("a", *(side_cell(f"step_{n}()", n) for n in (1, 2, 3, 4)))
    other = side("b", *(side_cell(f"step_{n}()", 10 + n) for n in (1, 3, 4, 2)))
    found = diff(one, other)
    assert "> cell 2 -> 4: moved, step_2()" in diff_text(found).split("\n")
    assert found.summary == "4 same, 1 moved"
    assert "moved, step_2()" in diff_html(found)


def wild(text: str, number: int) -> SideCell:
    return side_cell(
        text,
        number,
        inputs=(Input(kind="variable", name=text, digests=(text,)),),
        outputs=(printed(text), figure(text), {"output_type": "display_data", "data": {text: 1}}),
    )


def test_hostile_texts_fit_and_are_escaped() -> None:
    texts = ("</pre><script>x</script>\x00\ud800", "日本" * 5000, "a\n" * 5000, "\x1b[2J" * 500)
    for number, text in enumerate(texts, start=1):
        found = diff(side(text, wild(text, number)), side("b", wild(f"{text}!", number + 10)))
        for width in (40, 100):
            lines = diff_text(found, width).split("\n")
            assert all(columns(line) <= width and line.isprintable() for line in lines)
            assert len(lines) < 1000
        html = html_page("t", diff_html(found))
        html.encode("utf-8")
        assert "<script" not in html
        json.dumps(diff_json(found))


def test_many_inputs_are_counted() -> None:
    def many(digest: str) -> tuple[Input, ...]:
        return tuple(reading(f"./{i}.csv", digest) for i in range(100))

    found = diff(
        side("a", side_cell("x", 1, inputs=many("1"))),
        side("b", side_cell("x", 2, inputs=many("2"))),
    )
    assert "and 80 more inputs" in diff_text(found)
    assert "and 80 more inputs" in diff_html(found)
