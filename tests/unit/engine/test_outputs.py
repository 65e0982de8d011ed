"""Outputs are gathered as a notebook shows them."""

from __future__ import annotations

from typing import Any

from chexpoint.engine.outputs import OutputCollector
from chexpoint.model import Output


def text(name: str, value: str) -> tuple[str, dict[str, Any]]:
    return "stream", {"name": name, "text": value}


def shown(value: str, display: str | None = None) -> dict[str, Any]:
    transient = {} if display is None else {"display_id": display}
    return {"data": {"text/plain": value}, "metadata": {}, "transient": transient}


def gathered(*messages: tuple[str, dict[str, Any]]) -> tuple[Output, ...]:
    collector = OutputCollector()
    for kind, content in messages:
        collector.add(kind, content)
    return collector.outputs


def test_text_of_one_stream_is_joined_until_something_else_is_shown() -> None:
    found = gathered(
        text("stdout", "a"),
        text("stdout", "b\n"),
        text("stderr", "e"),
        text("stdout", "c"),
        ("display_data", shown("d")),
        text("stdout", "f"),
    )
    assert [(o["output_type"], o.get("text")) for o in found] == [
        ("stream", "ab\n"),
        ("stream", "e"),
        ("stream", "c"),
        ("display_data", None),
        ("stream", "f"),
    ]
    assert "transient" not in found[3]


def test_a_display_is_updated_wherever_it_is_shown() -> None:
    found = gathered(
        ("display_data", shown("old", "d1")),
        ("display_data", shown("other", "d2")),
        ("display_data", shown("old", "d1")),
        ("update_display_data", shown("new", "d1")),
        ("update_display_data", shown("nobody's", "d3")),
    )
    assert [o["data"]["text/plain"] for o in found] == ["new", "other", "new"]


def test_clearing_waits_for_the_next_output_if_it_is_told_to() -> None:
    assert gathered(text("stdout", "a"), ("clear_output", {"wait": False})) == ()
    waiting = (text("stdout", "a"), ("clear_output", {"wait": True}))
    assert gathered(*waiting) != ()
    (left,) = gathered(*waiting, text("stdout", "b"))
    assert left["text"] == "b"


def test_what_was_handed_out_does_not_change() -> None:
    collector = OutputCollector()
    collector.add(*text("stdout", "a"))
    before = collector.outputs
    collector.add(*text("stdout", "b"))
    assert before[0]["text"] == "a"
    assert collector.outputs[0]["text"] == "ab"


def test_other_messages_are_no_outputs() -> None:
    assert gathered(("status", {"execution_state": "busy"}), ("comm_msg", {"data": {}})) == ()
