"""Outputs of all kinds are compared with those that were recorded."""

from __future__ import annotations

import base64
import json
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pytest

from chexpoint.compare.outputs import Comparison, compare_outputs
from chexpoint.compare.tolerance import Tolerance
from chexpoint.engine import marks
from chexpoint.model import Output


def out(text: Any, name: str = "stdout") -> Output:
    return {"output_type": "stream", "name": name, "text": text}


def show(data: Any, kind: str = "display_data") -> Output:
    return {"output_type": kind, "data": data, "metadata": {}}


def failed(ename: str, evalue: str, *traceback: str) -> Output:
    return {"output_type": "error", "ename": ename, "evalue": evalue, "traceback": [*traceback]}


def compare(recorded: list[Any], replayed: list[Any]) -> Comparison:
    return compare_outputs(recorded, replayed, Tolerance())


def whats(comparison: Comparison) -> list[str]:
    return [difference.what for difference in comparison.differences]


def places(comparison: Comparison) -> list[tuple[int | None, int | None]]:
    return [(difference.recorded, difference.replayed) for difference in comparison.differences]


# ------------------------------------------------------------ streams


def test_no_outputs_are_the_same() -> None:
    assert compare([], []) == Comparison(status="same")


@pytest.mark.parametrize(
    "replayed",
    [
        [out("a\nb\n"), out("x\n", "stderr")],
        [out("a\n"), out("b\n"), out("x\n", "stderr")],
        [out("x\n", "stderr"), out("a\nb\n")],
        [out("a\n"), out("x\n", "stderr"), out("b\n")],
        [out(["a\n", "b\n"]), out(["x\n"], "stderr"), out("")],
    ],
)
def test_pieces_and_interleaving_of_streams_do_not_count(replayed: list[Output]) -> None:
    recorded = [out("a\nb\n"), out("x\n", "stderr")]
    assert compare(recorded, replayed) == Comparison(status="same")


def test_the_order_within_a_stream_counts() -> None:
    found = compare([out("a\n"), out("b\n")], [out("b\n"), out("a\n")])
    assert found.status == "different"
    assert whats(found) == ["stdout differs in line 1: 'a' -> 'b'"]
    assert places(found) == [(0, 0)]


def test_a_stream_that_is_missing_or_new_is_named() -> None:
    found = compare([out("a"), out("hm", "stderr")], [out("a")])
    assert whats(found) == ["stderr is missing: 'hm'"]
    assert places(found) == [(1, None)]
    found = compare([], [out("hm", "stderr")])
    assert whats(found) == ["stderr is new: 'hm'"]
    assert places(found) == [(None, 0)]


def test_text_before_and_after_something_shown_is_not_one_text() -> None:
    shown = show({"text/plain": "x"})
    recorded, replayed = [out("a"), shown, out("b")], [out("a"), out("b"), shown]
    assert compare(recorded, replayed).status == "different"


# ------------------------------------------------------------ errors

TRACEBACK = (
    "\x1b[31m---------------------------------------------------------------------------\x1b[39m",
    "\x1b[31mZeroDivisionError\x1b[39m                         Traceback (most recent call last)",
    "\x1b[36mCell\x1b[39m\x1b[36m \x1b[39m\x1b[32mIn[1]\x1b[39m\x1b[32m, line 1\x1b[39m",
    "\x1b[31mZeroDivisionError\x1b[39m: division by zero",
)


def test_the_traceback_of_an_error_does_not_count() -> None:
    recorded = failed("ZeroDivisionError", "division by zero", *TRACEBACK)
    replayed = failed("ZeroDivisionError", "division by zero")
    assert compare([recorded], [replayed]).status == "same"


@pytest.mark.parametrize(
    ("replayed", "status"),
    [
        (failed("KeyError", "<A at 0x7fd555fa4c31>"), "close"),
        (failed("KeyError", "<B at 0x7fd555fa4c30>"), "different"),
        (failed("ValueError", "<A at 0x7fd555fa4c30>"), "different"),
    ],
)
def test_the_name_and_the_message_of_an_error_count(replayed: Output, status: str) -> None:
    assert compare([failed("KeyError", "<A at 0x7fd555fa4c30>")], [replayed]).status == status


def test_an_error_instead_of_a_result_is_named() -> None:
    found = compare([show({"text/plain": "1"})], [failed("KeyError", "'x'")])
    assert whats(found) == ["the text is missing", "the error is new: 'KeyError: 'x''"]


# ------------------------------------------------------------ what is shown


def test_the_number_and_the_way_of_showing_do_not_count() -> None:
    recorded = {**show({"text/plain": "1"}, "execute_result"), "execution_count": 3}
    assert compare([recorded], [show({"text/plain": ["1"]})]).status == "same"


FRAME = pd.DataFrame({"a": [1, 2], "b": [0.5, 0.25], "c": ["x", "<y>"]})


def frame(html: str, plain: str = "whatever") -> list[Output]:
    return [show({"text/html": html, "text/plain": plain})]


def test_tables_are_compared_by_what_their_cells_say() -> None:
    close = FRAME.assign(b=[0.5, 0.25000000001])
    with pd.option_context("display.precision", 12):
        recorded, replayed = FRAME.to_html(), close.to_html(classes="wide", border=0)
    found = compare(frame(recorded), frame(replayed, "other"))
    assert found.status == "close"
    assert "has a table that has close numbers, first in row 2, column 3: '0.50" in whats(found)[0]
    other = FRAME.assign(b=[0.5, 0.26]).to_html()
    found = compare(frame(FRAME.to_html()), frame(other))
    assert found.status == "different"
    assert whats(found) == [
        "the HTML has a table that differs in row 3, column 3: '0.25' -> '0.26'"
    ]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"a": [1, 3]}, "differs in row 3, column 2: '2' -> '3'"),
        ({"c": ["x", "y"]}, "differs in row 3, column 4: '<y>' -> 'y'"),
        ({"d": [1, 1]}, "has 5 columns instead of 4 in row 1"),
    ],
)
def test_a_table_that_differs_says_where(change: dict[str, Any], what: str) -> None:
    found = compare(frame(FRAME.to_html()), frame(FRAME.assign(**change).to_html()))
    assert whats(found) == [f"the HTML has a table that {what}"]


def test_the_rows_of_a_table_count() -> None:
    longer = pd.concat([FRAME, FRAME]).to_html()
    found = compare(frame(FRAME.to_html()), frame(longer))
    assert whats(found) == ["the HTML has a table that goes on with row 4"]
    assert whats(compare(frame(longer), frame(FRAME.to_html())))[0].endswith("ends before row 4")


def test_what_is_around_a_table_counts() -> None:
    table = FRAME.to_html()
    recorded, replayed = f"<b>train</b>{table}", f"<b>test</b>{table}"
    assert compare(frame(recorded), frame(replayed)).status == "different"
    assert compare(frame(table), frame(table + table)).status == "different"


def test_what_is_in_a_table_but_in_no_cell_counts() -> None:
    page = "<table><caption>{}</caption><tr><td>1</td></tr></table>"
    assert compare(frame(page.format("a")), frame(page.format("b"))).status == "different"


def test_the_random_ids_of_a_styled_table_do_not_count() -> None:
    recorded, replayed = (FRAME.style.highlight_max("b").to_html(uuid=x) for x in ("a1", "b2"))
    assert recorded != replayed
    assert whats(compare(frame(recorded), frame(replayed))) == [
        "the HTML differs only in ids or styles"
    ]
    other = FRAME.assign(b=[0.5, 0.75]).style.highlight_max("b").to_html(uuid="b2")
    assert compare(frame(recorded), frame(other)).status == "different"


def test_tables_of_polars_are_compared() -> None:
    recorded, replayed = (pl.DataFrame({"a": [1, 2], "b": [0.5, x]}) for x in (0.25, 0.26))
    found = compare(frame(recorded._repr_html_()), frame(replayed._repr_html_()))
    assert whats(found) == [
        "the HTML has a table that differs in row 4, column 2: '0.25' -> '0.26'"
    ]


PLOTLY = (
    '<div id="{id}" class="plotly-graph-div"></div><script>if (document.getElementById("{id}"))'
    ' {{ Plotly.newPlot("{id}", [{{"y":[1,2,{y}]}}]) }}</script>'
)
FOLIUM = "<div id='map_{id}'></div><script>var tile_layer_{id} = L.tileLayer({y});</script>"


@pytest.mark.parametrize(
    ("page", "ids"),
    [
        (PLOTLY, ("9e63b13d-b332-42a9-a2c1-4812f27cec32", "0e63b13d-b332-42a9-a2c1-4812f27cec30")),
        (PLOTLY, ("altair-viz-4e2b91", "altair-viz-77aa01")),
        (FOLIUM, ("d41d8cd98f00b204e9800998ecf8427e", "e41d8cd98f00b204e9800998ecf8427e")),
    ],
)
def test_random_ids_of_elements_do_not_count(page: str, ids: tuple[str, str]) -> None:
    recorded = page.format(id=ids[0], y=3)
    assert compare(frame(recorded), frame(page.format(id=ids[1], y=3))).status == "close"
    assert compare(frame(recorded), frame(page.format(id=ids[1], y=4))).status == "different"


def test_ids_that_name_other_things_count() -> None:
    page = "<p id='{}'></p><p id='{}'></p><a href='#a1'></a>"
    recorded, replayed = page.format("a1", "b2"), page.format("b2", "a1")
    assert compare(frame(recorded), frame(replayed)).status == "different"


VEGA = "application/vnd.vegalite.v5+json"
SPEC = {"mark": "bar", "data": {"values": [{"x": 1, "y": 0.5}, {"x": 2, "y": None}]}, "wide": True}


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (
            '"y": 0.5',
            '"y": 0.50000000001',
            "has close numbers, first at data.values.0.y: '0.5' -> ",
        ),
        ('"y": 0.5', '"y": 0.6', "differs at data.values.0.y: '0.5' -> '0.6'"),
        ('"x": 2', '"x": 2.0', "has close numbers, first at data.values.1.x: '2' -> '2.0'"),
        ('"x": 2', '"x": 3', "differs at data.values.1.x: '2' -> '3'"),
        ('"x": 1', '"x": true', "differs at data.values.0.x: '1' -> 'True'"),
        ('"y": null', '"y": NaN', "differs at data.values.1.y: 'None' -> 'nan'"),
        ('"wide"', '"narrow"', "has other keys"),
        (', {"x": 2, "y": null}', "", "has 1 elements instead of 2 at data.values"),
        ('"bar"', '"line"', "differs at mark: 'bar' -> 'line'"),
        ('"bar"', '{"type": "bar"}', "differs at mark: 'bar' -> '{…}'"),
        ('"bar"', '"bar at 2026-11-17"', "differs at mark"),
    ],
)
def test_structured_data_is_compared_by_structure(old: str, new: str, what: str) -> None:
    text = json.dumps(SPEC)
    assert old in text
    replayed = json.loads(text.replace(old, new))
    found = compare([show({VEGA: SPEC, "text/plain": "x"})], [show({VEGA: replayed})])
    assert whats(found)[0].startswith(f"the {VEGA} {what}")
    assert found.status == ("close" if "close" in what else "different")


def test_text_inside_of_structured_data_may_be_close() -> None:
    recorded, replayed = {"made": "2026-11-17 10:00:00"}, {"made": "2026-11-18 11:00:00"}
    found = compare([show({VEGA: recorded})], [show({VEGA: replayed})])
    assert found.status == "close"


def packed(*values: float) -> dict[str, str]:
    data = base64.b64encode(pd.Series(values).to_numpy("<f8").tobytes()).decode()
    return {"dtype": "f8", "bdata": data}


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ((1.0, 2.0), "same"),
        ((1.0, 2.00000001), "close"),
        ((1.0, 2.1), "different"),
        ((1.0,), "different"),
    ],
)
def test_arrays_that_plotly_has_packed_are_compared_by_value(
    values: tuple[float, ...], status: str
) -> None:
    plotly = "application/vnd.plotly.v1+json"
    recorded = show({plotly: {"data": [{"y": packed(1.0, 2.0)}]}})
    found = compare([recorded], [show({plotly: {"data": [{"y": packed(*values)}]}})])
    assert found.status == status


def test_packed_arrays_that_are_none_are_text() -> None:
    datas: list[Any] = ["AA==", "é", "!", 3]
    types: list[Any] = ["O", "f9", 3, []]
    odd = [{"dtype": "f8", "bdata": data} for data in datas]
    for value in [*odd, *({"dtype": kind, "bdata": ""} for kind in types)]:
        shown = show({VEGA: value})
        assert compare([shown], [shown]).status == "same"
        assert compare([shown], [show({VEGA: packed(1.0)})]).status == "different"


def test_the_richest_representation_in_common_is_compared() -> None:
    html = FRAME.to_html()
    recorded = [show({"text/html": html, "text/latex": "a", "text/plain": "b"})]
    assert compare(recorded, [show({"text/html": html, "text/plain": "c"})]).status == "same"
    assert compare(recorded, [show({"text/latex": "x", "text/plain": "b"})]).status == "different"


def test_plain_text_does_not_stand_for_a_picture() -> None:
    plain = "<Figure size 640x480 with 1 Axes>"
    recorded = [show({"image/png": "AAAA", "text/plain": plain})]
    found = compare(recorded, [show({"text/plain": plain})])
    assert found.status == "different"
    assert whats(found) == ["the image is missing", "the text is new"]
    found = compare(recorded, [show({"image/svg+xml": "<svg/>", "text/plain": plain})])
    assert found.status == "different"


def test_the_model_of_a_widget_does_not_count() -> None:
    view = "application/vnd.jupyter.widget-view+json"
    recorded, replayed = (
        show({view: {"model_id": x, "version_major": 2}, "text/plain": "IntSlider(value=1)"})
        for x in "ab"
    )
    assert compare([recorded], [replayed]).status == "same"
    other = show({view: {"model_id": "b"}, "text/plain": "IntSlider(value=2)"})
    assert compare([recorded], [other]).status == "different"


def test_empty_representations_do_not_hide_others() -> None:
    bokeh = "application/vnd.bokehjs_exec.v0+json"
    recorded, replayed = (show({bokeh: "", "text/html": f"<p>{x}</p>"}) for x in "ab")
    assert compare([recorded], [replayed]).status == "different"


@pytest.mark.parametrize("kind", ["text/latex", "text/markdown", "text/x-made-up", "text/plain"])
def test_other_text_is_compared_as_text(kind: str) -> None:
    recorded = [show({kind: "$0.5$ in 1 s"})]
    assert compare(recorded, [show({kind: "$0.50000000001$ in 2 s"})]).status == "close"
    assert compare(recorded, [show({kind: "$0.6$ in 1 s"})]).status == "different"


# ------------------------------------------------------------ CHEX itself


@pytest.mark.parametrize(
    "own",
    [
        show(marks.reused(3.0)),
        show(marks.followed(2, 1.0)),
        show({"application/vnd.chex.exit+json": {"status": 0}, "text/plain": "exit status 0"}),
        out("CHEX: recording version a\n"),
        out("CHEX: reuse is on\nCHEX: another\n", "stderr"),
    ],
)
def test_what_chex_itself_shows_does_not_count(own: Output) -> None:
    recorded = [out("a\n"), show({"text/plain": "1"}), out("b\n")]
    assert compare(recorded, [*recorded, own]) == Comparison(status="same")
    assert compare([own, *recorded], recorded) == Comparison(status="same")
    assert compare([out("a\n"), own, out("b\n")], [out("a\nb\n")]) == Comparison(status="same")


def test_a_text_that_names_chex_counts() -> None:
    assert compare([out("a CHEX: b\n")], [out("a CHEX: c\n")]).status == "different"
    recorded = [show({"text/plain": "CHEX: b"})]
    assert compare(recorded, [show({"text/plain": "CHEX: c"})]).status == "different"


# ------------------------------------------------------------ alignment


def table(number: float) -> Output:
    return frame(f"<table><tr><td>{number}</td></tr></table>")[0]


TABLES = [table(number + 0.5) for number in range(6)]


def test_one_missing_output_is_named_and_no_other() -> None:
    found = compare(TABLES, TABLES[:2] + TABLES[3:])
    assert whats(found) == ["the HTML is missing"]
    assert places(found) == [(2, None)]


def test_one_new_output_is_named_and_no_other() -> None:
    found = compare(TABLES, [table(9.5), *TABLES])
    assert whats(found) == ["the HTML is new"]
    assert places(found) == [(None, 0)]


def test_a_changed_output_beside_a_missing_one_is_named() -> None:
    replayed = [TABLES[0], table(9.5), *TABLES[2:4], TABLES[5]]
    found = compare(TABLES, replayed)
    assert places(found) == [(1, 1), (4, None)]


def test_outputs_that_have_traded_places_are_different() -> None:
    found = compare(TABLES[:2], TABLES[1::-1])
    assert found.status == "different"
    assert sorted(whats(found)) == ["the HTML is missing", "the HTML is new"]


def test_outputs_of_other_kinds_are_not_taken_for_each_other() -> None:
    latex = show({"text/latex": "$a$"})
    found = compare([latex, table(1.5), latex], [table(2.5), show({"text/latex": "$b$"})])
    assert places(found) == [(0, None), (1, 0), (2, 1)]


def test_close_outputs_are_named_with_their_places() -> None:
    found = compare([TABLES[0], out("1 s")], [TABLES[0], out("2 s")])
    assert found.status == "close"
    assert places(found) == [(1, 1)]


@pytest.mark.slow
@pytest.mark.timeout(60)  # is reached if time is quadratic
@pytest.mark.parametrize("texts", [["same"], ["a", "b"], [str(n) for n in range(10_000)]])
def test_thousands_of_outputs_are_aligned(texts: list[str]) -> None:
    outputs = [show({"text/plain": texts[n % len(texts)]}) for n in range(10_000)]
    found = compare(outputs, outputs[:5000] + outputs[5001:])
    assert found.status == "different"
    assert any(replayed is None for _, replayed in places(found))


# ------------------------------------------------------------ hostile outputs


def deep(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


ODD: list[Any] = [
    None,
    3,
    "text",
    [],
    {},
    {"output_type": []},
    {"output_type": "stream"},
    out(None),
    out({"a": 1}),
    out([1, 2]),
    {"output_type": "stream", "name": ["stdout"], "text": "x"},
    {"output_type": "error"},
    {"output_type": "error", "ename": [], "evalue": {}, "traceback": 3},
    show(None),
    show([]),
    show({}),
    show({"text/plain": None}),
    show({"text/plain": {"a": [1]}}),
    show({"text/html": 3}),
    show({3: "x"}),
    show({"image/png": ["AAAA", 3]}),
    show({"image/png": "no base64 é"}),
    show({"image/gif": "AAAA"}),
    show({"application/json": float("nan")}),
    show({"application/json": 10**5000}),
    show({"application/json": deep(5000)}),
    show({"text/plain": deep(5000), "text/html": deep(5000)}),
    {"output_type": "error", "ename": "E", "evalue": deep(5000)},
    {"output_type": "error", "ename": "E", "evalue": 10**5000},
    {"output_type": deep(5000)},
    deep(5000),
    out("a\x1b[1;2A\x1b[?1;AAb\x1b[2;K\r"),
    show({"text/html": "<table>" * 3000 + "<td>&#" + "1" * 5000 + ";"}),
    show({"text/html": "</table><td><tr></style><table><td>x<style>"}),
    show({"image/svg+xml": "<svg id='a1' id='\ud800'"}),
    {"output_type": "made_up", "execution_count": 3},
]


@pytest.mark.parametrize("number", range(len(ODD)))
def test_odd_outputs_are_compared_like_any(number: int) -> None:
    odd = ODD[number]
    assert compare([odd], [odd]).status == "same"
    for other in [*ODD[number:], out("x"), show({"image/png": "AAAA"})]:
        status = compare([odd], [other]).status
        assert compare([other], [odd]).status == status
    sentences = whats(compare([odd, *ODD], [*ODD, odd]))
    assert all(what.isprintable() and len(what) < 300 for what in sentences)


@pytest.mark.timeout(60)  # is reached if time is quadratic
@pytest.mark.parametrize(
    "piece", ["<", "<a", "<table>", "<!--", "<style>", "<td>", "id='a1' ", "a1_"]
)
def test_no_markup_takes_quadratic_time(piece: str) -> None:
    text = piece * (400_000 // len(piece))
    assert compare(frame(text + "x"), frame(text + "y")).status != "same"
