"""Log statements are carried to the matching place of an older version."""

from __future__ import annotations

import pytest

from chexpoint.hindsight.program.added import compare_programs
from chexpoint.hindsight.program.carrying import carry

OLD = """\
import torch
lr = 0.1
def train(net, optimizer):
    for epoch in range(3):
        total = 0
        for x, y in loader:
            loss = criterion(net(x), y)
            loss.backward()
            optimizer.step()
        scheduler.step()
"""


def added(after: str, *lines: str) -> str:
    """Return the program with lines after the one that begins so."""
    rows = OLD.splitlines()
    place = next(i for i, row in enumerate(rows) if row.strip().startswith(after)) + 1
    return "\n".join([*rows[:place], *lines, *rows[place:]]) + "\n"


INNER = added("loss.b", "            print(loss)  # look")


def test_an_equal_version() -> None:
    assert carry(OLD, INNER, OLD).source == INNER


def test_other_numbers_and_the_text_as_it_was() -> None:
    other = OLD.replace("0.1", "0.3").replace("range(3):", "range( 50 ):  # long")
    carried = carry(OLD, INNER, other)
    assert carried.problem == ""
    assert carried.source == other.replace(
        "backward()\n", "backward()\n            print(loss)  # look\n"
    )


def test_another_indentation_and_no_function() -> None:
    other = """\
# first try
for epoch in range(10):
\tfor x, y in loader:
\t\tloss = criterion(net(x), y, 1)
\t\tloss.backward()
\t\toptimizer.step()
"""
    carried = carry(OLD, INNER, other)
    assert carried.source == other.replace("backward()\n", "backward()\n\t\tprint(loss)  # look\n")


def test_several_statements_and_their_order() -> None:
    new = added("lr", "import math", "seen = []").replace(
        "        scheduler.step()",
        "        print(total)\n        print(seen)\n        scheduler.step()",
    )
    carried = carry(OLD, new, OLD.replace("lr = 0.1", "lr = 0.2"))
    assert carried.source == new.replace("lr = 0.1", "lr = 0.2")


def test_lines_of_texts_keep_their_indentation() -> None:
    new = added("loss.b", '            print(f"""loss', '  is {loss}""",', "                1)")
    other = "for x, y in loader:\n    loss = criterion(net(x), y)\n    loss.backward()\n"
    carried = carry(OLD, new, other)
    assert carried.source == other + '    print(f"""loss\n  is {loss}""",\n        1)\n'


def test_the_place_is_after_what_it_reads() -> None:
    old = "for x in data:\n    a = f(x)\n    b = g(a)\n"
    new = old + "    print(b)\n"
    other = "for x in data:\n    a = f(x)\n    c = 1\n    b = completely(different, 1)[0].call()\n"
    assert carry(old, new, other).source == other + "    print(b)\n"


def test_before_the_first_statement() -> None:
    new = added("for x, y", "            print(x)")
    other = OLD.replace("            loss =", "            # a comment\n            loss =")
    carried = carry(OLD, new, other)
    assert not carried.problem
    assert "            # a comment\n            print(x)\n            loss =" in carried.source


def test_a_loop_that_is_most_alike_is_taken() -> None:
    other = "for epoch in range(2):\n    pass\n" + OLD.replace("train", "fit")
    source = carry(OLD, INNER, other).source
    assert source == other.replace("backward()\n", "backward()\n            print(loss)  # look\n")


def test_a_version_without_a_newline_at_the_end() -> None:
    carried = carry("f(1)", "f(1)\nprint(2)", "f(1)")
    assert carried.source == "f(1)\nprint(2)\n"


@pytest.mark.parametrize(
    ("new", "other", "problem"),
    [
        (
            INNER,
            OLD.replace("loss", "cost"),
            "`print(loss)` reads `loss`, which the version does not have.",
        ),
        (
            added("loss.b", "            print(1)"),
            "import torch\nlr = 0.1\n",
            "There is no place for `print(1)`: the version has no `for x, y in loader:`.",
        ),
        (
            INNER,
            "for x, y in loader: loss = criterion(net(x), y)\n",
            "There is no place for `print(loss)`",
        ),
        (INNER, "for x in (", "Line 1 of the version cannot be read"),
        (OLD.replace("0.1", "0.2"), OLD, "Line 2, `lr = 0.1`, was changed to `lr = 0.2` (line 2)."),
        (
            added("lr", "seen = 1", "print(seen)"),
            OLD + "seen = 2\n",
            "Line 3, `seen = 1`, binds `seen`",
        ),
    ],
)
def test_what_cannot_be_carried(new: str, other: str, problem: str) -> None:
    carried = carry(OLD, new, other)
    assert carried.problem.startswith(problem)
    assert carried.source == ""


def test_what_is_carried_can_be_replayed() -> None:
    other = OLD.replace("criterion(net(x), y)", "criterion(net(x.cuda()), y)")
    edit = compare_programs(other, carry(OLD, INNER, other).source)
    assert (edit.problems, edit.added[0].sites, edit.added[0].function) == ((), (0, 1), "train")
