"""What was added to a program, what else changed, and which loops a replay has to execute."""

from __future__ import annotations

import ast

import pytest

from chexpoint.hindsight.program.added import (
    LogEdit,
    blocks_to_step_into,
    compare_cells,
    compare_programs,
)
from chexpoint.hindsight.program.instrumenting import instrument

PROGRAM = """\
import torch
net = make()  # the model
for epoch in range(3):
    total = 0
    for x, y in loader:
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    scheduler.step()
    print(epoch, total)
"""


def with_line(after: str, *lines: str) -> str:
    """Return the program with lines after the first one that begins so."""
    rows = PROGRAM.splitlines()
    place = next(i for i, row in enumerate(rows) if row.strip().startswith(after)) + 1
    return "\n".join([*rows[:place], *lines, *rows[place:]]) + "\n"


def steps(edit: LogEdit, source: str = PROGRAM) -> set[int]:
    assert not edit.problems
    return set(blocks_to_step_into(edit, instrument(ast.parse(source)).sites))


def test_a_statement_in_the_outer_loop() -> None:
    edit = compare_programs(PROGRAM, with_line("scheduler", "    print(total)"))
    (added,) = edit.added
    assert not edit.problems
    assert not edit.removed
    assert edit.ranges == ((11, 11),)
    assert (added.sites, added.function, added.text) == ((0,), "", "print(total)")
    assert added.is_log
    assert "total" in added.reads
    assert steps(edit) == set()


def test_a_statement_in_the_inner_loop() -> None:
    edit = compare_programs(
        PROGRAM, with_line("loss.b", "        if epoch:", "            print(x)")
    )
    (added,) = edit.added
    assert (added.line, added.end_line, added.sites) == (8, 9, (0, 1))
    assert added.text == "if epoch:\n    print(x)"
    assert steps(edit) == {1}


def test_sites_are_those_of_the_recorded_program() -> None:
    lines = ["    for p in net.parameters():", "        print(p)"]
    edit = compare_programs(PROGRAM, with_line("total = 0", *lines))
    new = with_line("total = 0", *lines)
    numbers = [site.site for site in instrument(ast.parse(new), added=edit.ranges).sites]
    assert (edit.added[0].sites, numbers) == ((0,), [0, 1])
    assert steps(edit) == set()


def test_variables_of_a_block_are_not_kept() -> None:
    edit = compare_programs(PROGRAM, with_line("scheduler", "    print(loss)"))
    assert steps(edit) == {1}
    helper = ["def show():", "    print(loss)"]
    rows = with_line("import", *helper).replace("    scheduler", "    show()\n    scheduler")
    assert steps(compare_programs(PROGRAM, rows)) == {1}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("print(net.weight.grad)", {1}),
        ("print(getattr(net.weight, 'grad'))", {1}),
        ("with torch.no_grad(): print(net.weight)", set()),
        ("print(net.weight.requires_grad)", set()),
    ],
)
def test_gradients_are_not_kept(line: str, expected: set[int]) -> None:
    assert steps(compare_programs(PROGRAM, with_line("scheduler", f"    {line}"))) == expected


def test_functions_that_are_called_from_loops() -> None:
    source = """\
def loss_of(x):
    y = net(x)
    return y
def train(data):
    for x in data:
        loss_of(x)
def other(data):
    for x in data:
        pass
for epoch in range(3):
    train(data)
    other(data)
    for x in data:
        model.step(x)
"""
    new = source.replace("    return y", "    print(y)\n    return y")
    edit = compare_programs(source, new)
    assert edit.added[0].function == "loss_of"
    assert steps(edit, source) == {0}
    method = "class Model:\n    def step(self, x):\n        pass\n" + source
    new = method.replace("        pass\n", "        pass\n        print(x)\n", 1)
    edit = compare_programs(method, new)
    assert edit.added[0].function == "Model.step"
    assert steps(edit, method) == {3}
    forward = new.replace("step", "forward")
    edit = compare_programs(method.replace("step", "forward"), forward)
    assert steps(edit, method) == {0, 1, 3}


def test_a_loop_of_a_function_may_be_a_block() -> None:
    source = (
        "def train(data):\n    for x in data:\n        f(x)\nfor e in range(3):\n    train(e)\n"
    )
    new = source.replace("        f(x)\n", "        f(x)\n        print(x)\n")
    assert steps(compare_programs(source, new), source) == {0}


def test_log_statements_may_change_and_go() -> None:
    new = PROGRAM.replace("print(epoch, total)", "print('now', epoch, total / 2)")
    edit = compare_programs(PROGRAM, new)
    assert (edit.removed, edit.ranges, edit.problems) == ((11,), ((11, 11),), ())
    new = with_line("scheduler", "    log(x=1)").replace("    print(epoch, total)\n", "")
    assert compare_programs(PROGRAM, new).removed == (11,)


def test_comments_and_layout_do_not_count() -> None:
    new = with_line("total = 0", "", "    # look", "    print((1 +", "        2))  # here")
    new = new.replace("criterion(net(x), y)", "criterion(\n            net(x),\n            y)")
    edit = compare_programs(PROGRAM, new)
    assert not edit.problems
    assert [added.text for added in edit.added] == ["print((1 +\n    2))  # here"]


@pytest.mark.parametrize(
    "lines",
    [
        ["import numpy as np", "norms = []", "print(norms)"],
        ["import torch", "print(1)"],
        ["def show(v):", "    if v: return", "    print(v)", "show(net)"],
        ["with torch.no_grad():", "    out = net(1)", "    chexpoint.log(out=out)"],
        [
            "for p in net.parameters():",
            "    if p is None: continue",
            "    writer.add_scalar('p', p)",
        ],
        ["seen = {}", "seen['x'] = 1", "wandb.log(seen)"],
        ["logging.info('%s', net)"],
        ["mlflow.log_metric('a', 1)"],
        ["tqdm.write('x')"],
    ],
)
def test_what_may_be_added(lines: list[str]) -> None:
    edit = compare_programs(PROGRAM, with_line("net =", *lines))
    assert edit.problems == ()
    assert any(added.is_log for added in edit.added)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("total = 1", "binds `total`, which the recorded program uses"),
        ("total += 1", "binds `total`"),
        ("for x in []: print(x)", "binds `x`"),
        ("with a as net: print(1)", "binds `net`"),
        ("print((loss := 1))", "binds `loss`"),
        ("def criterion(): print(1)", "binds `criterion`"),
        ("net.lr = 1", "changes `net.lr`, which is part of the recorded program"),
        ("net['lr'] = 1", "changes `net['lr']`"),
        ("del net", "binds `net`"),
        ("global net", "has a `global`"),
        ("raise ValueError", "has a `raise`"),
        ("if net: raise ValueError", "has a `raise`"),
        ("from os import *", "binds names that nobody knows"),
        ("from __future__ import annotations", "changes how the program is read"),
        ("__chex__ = 1", "binds `__chex__`"),
    ],
)
def test_what_may_not_be_added(line: str, text: str) -> None:
    (problem,) = compare_programs(PROGRAM, with_line("import", line, "print(0)")).problems
    assert text in problem
    assert problem.startswith(f"Line 2, `{line.partition(':')[0]}"[:12])
    assert problem.endswith(".")


@pytest.mark.parametrize("word", ["break", "continue"])
def test_jumps_of_recorded_loops(word: str) -> None:
    new = with_line("loss.b", f"        if epoch: {word}", "        print(x)")
    (problem,) = compare_programs(PROGRAM, new).problems
    assert problem == f"Line 8, `if epoch:`, has a `{word}` of a recorded loop."


def test_a_return_in_a_recorded_function() -> None:
    old = "def f(a):\n    return a"
    (problem,) = compare_programs(
        old, "def f(a):\n    if a: return 1\n    print(a)\n    return a"
    ).problems
    assert "has a `return`" in problem


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (
            "range(3)",
            "range(4)",
            "Line 3, `for epoch in range(3):`, was changed to `for epoch in range(4):`",
        ),
        ("optimizer.step()", "optimizer.step(2)", "Line 8, `optimizer.step()`, was changed to"),
        ("    scheduler.step()\n", "", "Line 10, `scheduler.step()`, is missing."),
        (
            "    scheduler.step()\n",
            "    with timer:\n        scheduler.step()\n",
            "Line 10, `scheduler.step()`, was moved into `with timer:` (line 10).",
        ),
        (
            "    print(epoch, total)\n",
            "    print(epoch, total)\nelse:\n    print(1)\n",
            "Line 3, `for epoch in range(3):`, got an `else` clause.",
        ),
    ],
)
def test_what_else_changed(old: str, new: str, text: str) -> None:
    (problem,) = compare_programs(PROGRAM, PROGRAM.replace(old, new, 1)).problems
    assert problem.startswith(text)


def test_nothing_that_logs() -> None:
    for new in (PROGRAM, with_line("import", "import os")):
        (problem,) = compare_programs(PROGRAM, new).problems
        assert problem.startswith("Nothing that was added logs a value")


def test_statements_that_share_a_line() -> None:
    new = PROGRAM.replace("    total = 0", "    total = 0; print(total)")
    (problem,) = compare_programs(PROGRAM, new).problems
    assert problem == "Line 4 has other statements: give each its own line."
    new = "for x in y: print(x); f(x)"
    assert compare_programs("for x in y: f(x)", new).problems


def test_a_program_that_cannot_be_read() -> None:
    (problem,) = compare_programs(PROGRAM, PROGRAM + "\nprint(").problems
    assert problem.startswith("Line 13 cannot be read: ")


def test_a_program_that_is_nested_too_deep() -> None:
    deep = PROGRAM + "if net: pass\n" + "elif total: pass\n" * 400
    (problem,) = compare_programs(deep, deep + "print(1)").problems
    assert problem == "The program is nested too deep to be compared."


def test_the_alignment_keeps_most_statements() -> None:
    old = "a = f(1)\nb = f(2)\na = f(1)\nb = f(2)\n"
    edit = compare_programs(old, "a = f(1)\nb = f(2)\nprint(a)\na = f(1)\nprint(b)\nb = f(2)\n")
    assert (edit.ranges, edit.problems) == (((3, 3), (5, 5)), ())


def test_deep_inside() -> None:
    old = """\
class K:
    def f(self):
        try:
            g()
        except E:
            match x:
                case 1:
                    h()
"""
    edit = compare_programs(old, old + "                    print(x)\n")
    assert not edit.problems
    assert (edit.added[0].function, edit.added[0].text) == ("K.f", "print(x)")


CELLS = [
    "import torch",
    "def f(x):\n    y = x\n    return y",
    "for i in r:\n    for j in q:\n        f(j)",
]


def test_cells() -> None:
    new = [CELLS[0], CELLS[1].replace("    return", "    print(y)\n    return"), CELLS[2]]
    first, second, third = compare_cells(CELLS, new)
    assert [edit.cell for edit in (first, second, third)] == [0, 1, 2]
    assert (first.added, third.added) == ((), ())
    assert second.ranges == ((3, 3),)
    # The loop is in another cell than what was added.
    assert set(blocks_to_step_into(third, instrument(ast.parse(CELLS[2])).sites)) == {1}


def test_a_new_cell() -> None:
    edits = compare_cells(CELLS, [*CELLS[:2], "import os\nprint(os)", CELLS[2]])
    assert [edit.cell for edit in edits] == [0, 1, None, 2]
    assert not any(edit.problems for edit in edits)
    edits = compare_cells(CELLS, [*CELLS[:2], "f = 1\nprint(f)", CELLS[2]])
    assert "binds `f`" in edits[2].problems[0]


def test_missing_cells() -> None:
    changed = CELLS[2] + "\n        print(j)"
    edits = compare_cells([*CELLS, "g()"], [CELLS[0], changed])
    assert edits[1].problems == ("Cell 2 of the recorded version is missing.",)
    edits = compare_cells([*CELLS, "g()"], [*CELLS[:2], changed])
    assert not any(edit.problems for edit in edits)


def test_cells_that_are_no_python() -> None:
    edits = compare_cells(["!ls", "f(1)"], ["!ls ", "f(1)\nprint(1)"])
    assert [edit.cell for edit in edits] == [0, 1]
    assert not any(edit.problems for edit in edits)
    edits = compare_cells(["!ls", "f(1)"], ["!ls -l", "f(1)\nprint(1)"])
    assert edits[0].problems
