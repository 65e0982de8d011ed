"""Outputs are compared by what they show."""

from __future__ import annotations

import base64

import pytest

from chexpoint.model import Output
from chexpoint.view.outputs import data_uri, output_changes, plain_text, shown
from tests.unit.view.worlds import printed

PNG = base64.b64encode(b"\x89PNG one").decode()
OTHER = base64.b64encode(b"\x89PNG two").decode()


def data(**fields: object) -> Output:
    """Return an output with data; _ stands for the slash in the names of types."""
    return {
        "output_type": "display_data",
        "data": {name.replace("_", "/"): value for name, value in fields.items()},
        "metadata": {},
    }


def test_pieces_of_a_stream_are_one_text() -> None:
    (one,) = shown((printed("a"), printed("b\nc"), printed("\n")))
    assert (one.kind, one.name, one.value) == ("text", "stdout", "ab\nc")
    error: Output = {"output_type": "stream", "name": "stderr", "text": ["x", "y"]}
    assert [s.value for s in shown((printed("a"), error, printed("b")))] == ["a", "xy", "b"]


def test_the_best_form_of_data_is_taken() -> None:
    figure = data(text_plain="<Figure>", image_png=PNG)
    table = data(text_plain="1 2", text_html="<b>")
    assert [(s.kind, s.name) for s in shown((figure, table))] == [
        ("image", "image/png"),
        ("text", "text/plain"),
        ("data", "text/html"),
    ]


def test_errors_are_what_was_raised_and_not_where() -> None:
    def failed(trace: str) -> Output:
        return {
            "output_type": "error",
            "ename": "ValueError",
            "evalue": "no",
            "traceback": [trace],
        }

    assert shown((failed("a"),))[0].value == "ValueError: no"
    assert output_changes((failed("a"),), (failed("b"),)) == ()


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (printed("same\n"), printed("same")),
        (printed("\x1b[31mred\x1b[0m"), printed("red")),
        (printed("10%\r100%\n"), printed("100%\n")),
        (data(text_plain="<Axes at 0x7f0012345678>"), data(text_plain="<Axes at 0x7fffabcdef01>")),
        (
            data(text_html="id='0b1f3c2e-aaaa-bbbb-cccc-123456789abc'"),
            data(text_html="id='11111111-aaaa-bbbb-cccc-123456789abc'"),
        ),
        (data(text_plain=["a\n", "b"]), data(text_plain="a\nb")),
        (data(**{"application/vnd.jupyter.widget-view+json": {"model_id": "1"}}), data()),
        (
            {"output_type": "execute_result", "data": {"text/plain": "1"}, "execution_count": 3},
            None,
        ),
    ],
)
def test_what_shows_the_same_is_no_change(left: Output, right: Output | None) -> None:
    if right is None:
        right = {**left, "execution_count": 99, "metadata": {"x": 1}}
    assert output_changes((left,), (right,)) == ()


def test_texts_numbers_images_and_data_that_differ_are_told() -> None:
    left = (printed("score 0.91\n"), data(image_png=PNG), data(text_plain="a", text_html="<b>"))
    right = (printed("score 0.93\n"), data(image_png=OTHER), data(text_plain="a", text_html="<i>"))
    assert [change.summary for change in output_changes(left, right)] == [
        "stdout: numbers differ",
        "image/png differs",
        "text/html differs",
    ]
    (change,) = output_changes((printed("good 1"),), (printed("bad 1"),))
    assert change.summary == "stdout differs"
    assert not change.has_other_numbers


def test_outputs_of_one_side_are_told() -> None:
    changes = output_changes((printed("a"), data(image_png=PNG)), (printed("a"),))
    assert [change.summary for change in changes] == ["image/png only on the left"]
    changes = output_changes((), (printed("a"),))
    assert [(change.summary, change.right) for change in changes] == [
        ("stdout only on the right", "a")
    ]


def test_strange_outputs_are_no_obstacle() -> None:
    strange: tuple[Output, ...] = (
        {},
        {"output_type": "update_display_data"},
        {"output_type": "display_data", "data": {"application/json": {"a": [1, {"b": None}]}}},
        {"output_type": "display_data", "data": None},
    )
    assert [item.value for item in shown(strange)] == ['{"a": [1, {"b": null}]}']


def test_only_images_become_addresses() -> None:
    assert data_uri("image/png", PNG[:4] + "\n" + PNG[4:]) == f"data:image/png;base64,{PNG}"
    assert data_uri("image/png", '"><script>') is None
    assert data_uri("text/html", PNG) is None
    address = data_uri("image/svg+xml", '<svg onload="x"/>\ud800')
    assert address is not None
    assert not set(address) & set("<>\"'& ")


def test_lines_look_as_they_do_in_the_end() -> None:
    assert plain_text("a\r\nb\n\n") == "a\nb"
