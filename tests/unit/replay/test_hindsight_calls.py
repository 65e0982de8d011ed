"""Which code may come to run a function."""

from __future__ import annotations

import pytest

from chexpoint.replay.hindsight_calls import callers_of

STEP = "def step(x):\n    return x + 1"


def test_functions_that_call_it_are_found_across_cells() -> None:
    cells = [
        STEP,
        "def epoch(data):\n    for x in data:\n        step(x)",
        "def other():\n    pass",
        "for e in range(3):\n    epoch(data)\n    other()",
    ]
    assert callers_of({"step"}, cells) == frozenset({"step", "epoch"})


def test_calls_in_comprehensions_and_arguments_count() -> None:
    cells = [STEP, "def mean(data):\n    return sum(step(x) for x in data)", "print(mean([1]))"]
    assert callers_of({"step"}, cells) == frozenset({"step", "mean"})


@pytest.mark.parametrize(
    "cell",
    [
        "fit(step)",
        "trainer = Trainer(on_step=step)",
        "other = step",
        "run = lambda x: step(x)",
        "class Trainer:\n    def fit(self):\n        step(1)",
        "def outer():\n    def inner():\n        step(1)\n    register(inner)",
        "@jit\ndef step(x):\n    pass",
        "[step][0](1)",
    ],
)
def test_a_function_that_is_handed_on_may_be_called_from_anywhere(cell: str) -> None:
    assert callers_of({"step"}, [STEP, cell]) is None


def test_methods_are_called_through_their_object() -> None:
    assert callers_of({"Net.forward"}, ["class Net:\n    def forward(self): pass"]) is None


def test_functions_that_call_each_other_do_not_go_on_for_ever() -> None:
    cells = ["def a(n):\n    b(n)\ndef b(n):\n    a(n - 1)"]
    assert callers_of({"a"}, cells) == frozenset({"a", "b"})


def test_cells_that_are_no_python_are_passed_over() -> None:
    assert callers_of({"step"}, [STEP, "this is not python ("]) == frozenset({"step"})
