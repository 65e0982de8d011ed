"""Calls that change what a library holds, told from the text of a cell."""

from __future__ import annotations

import ast
import heapq
import logging
import os
import socket

import pytest

from chexpoint.engine.variable_hidden import hidden_call

NAMES = {
    "heapq": heapq,
    "logging": logging,
    "os": os,
    "socket": socket,
    "limit": socket.setdefaulttimeout,
    "old": [],
    "new": [],
    "print": print,
}


def told(text: str, *, is_shown: bool = False, states: tuple[str, ...] = ()) -> str:
    return hidden_call(
        ast.parse(text),
        NAMES,
        mutated={"old"},
        made={"new"},
        states=states,
        is_shown=is_shown,
    )


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("socket.setdefaulttimeout(3)", "socket.setdefaulttimeout"),
        ("limit(3)", "limit"),
        ("for n in range(3): limit(n)", "limit"),
        ("if new:\n    limit(3)\nnew", "limit"),
        ("logging.getLogger('a').addHandler(new)", "logging.getLogger('a').addHandler"),
        ("@socket.register('a')\ndef f(): pass", "socket.register"),
        ("heapq.heapify(old)", ""),
        ("heapq.heapify(new)", ""),
        ("print(3)", ""),
        ("os.makedirs('a')", ""),
        ("logging.info('a')", ""),
        ("new = socket.gethostname()", ""),
        ("old.append(3)", ""),
        ("def f(): limit(3)", ""),
        ("new = lambda: limit(3)", ""),
    ],
)
def test_what_is_taken_for_a_change(text: str, call: str) -> None:
    assert told(text) == call


def test_a_value_that_is_shown_was_what_a_call_was_for() -> None:
    assert told("heapq.merge([1], [2])") == "heapq.merge"
    assert told("heapq.merge([1], [2])", is_shown=True) == ""


def test_a_state_that_is_known_explains_calls_of_its_library() -> None:
    assert told("logging.captureWarnings(True)") == "logging.captureWarnings"
    assert told("logging.captureWarnings(True)", states=(":logging",)) == ""
