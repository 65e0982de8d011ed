"""Cells as they are compared and replayed in hindsight."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chexpoint.replay import is_own_cell, most_similar, runnable, similarity
from chexpoint.replay.hindsight_source import line_map, moved_lines

TRAINING = """\
history = []
for epoch in range(3):
    for x in data:
        w += x
    history.append(
        w,
    )
    print(w)
done = True"""


@pytest.mark.parametrize(
    ("cell", "run"),
    [
        ("x = 1", "x = 1"),
        ("%%chex_record base\nx = 1", "x = 1"),
        ("x = 1\n%chex_checkpoint here", "x = 1\npass"),
        ("%%time\nx = 1", "#\nx = 1"),
        ("%%capture out\nx = 1", "#\nx = 1"),
        ("\n\nx = 1", "x = 1"),
        ("no python at all (", "no python at all ("),
    ],
)
def test_only_python_is_left_of_a_cell(cell: str, run: str) -> None:
    assert runnable(cell) == run


def test_magics_of_others_become_calls_on_the_same_lines() -> None:
    found = runnable("import os\n%matplotlib inline\nx = 1")
    assert [type(each).__name__ for each in ast.parse(found).body] == ["Import", "Expr", "Assign"]
    assert found.split("\n")[2] == "x = 1"


def test_scripts_are_left_as_they_are() -> None:
    assert runnable("\n\nx = 1  # %chex_record", is_script=True) == "\n\nx = 1  # %chex_record"


def test_questions_to_chex_are_no_part_of_a_program() -> None:
    assert is_own_cell("%%chex_hindsight base\nfor x in y: pass")
    assert is_own_cell("\n  %%chex_hindsight")
    assert not is_own_cell("%%chex_record base\nx = 1")
    assert not is_own_cell("x = 1")


def test_the_cell_that_was_changed_is_the_most_similar_one() -> None:
    cells = ["import os", TRAINING, "print(1)", TRAINING.replace("done = True", "")]
    changed = TRAINING.replace("    print(w)", "    print(w)\n    print(w * 2)")
    assert most_similar(changed, cells)[0] == 1
    assert most_similar("something(else_)", ["import os"]) == (0, 0.0)
    assert most_similar("x", []) == (-1, 0.0)


def test_of_equal_cells_the_last_one_is_meant() -> None:
    assert most_similar("x = 1", ["x = 1", "y = 2", "x = 1"])[0] == 2


@given(st.text("ab\n ", max_size=30), st.text("ab\n ", max_size=30))
def test_similarity_is_a_share_that_is_one_for_equal_lines_only(a: str, b: str) -> None:
    found = similarity(a, b)
    assert 0 <= found <= 1
    assert found == similarity(b, a)
    lines = [sorted(line.strip() for line in text.splitlines() if line.strip()) for text in (a, b)]
    assert (found == 1) == (lines[0] == lines[1] != [])


# ---------------------------------------------------------------- lines


def test_numbers_of_lines_in_a_sentence_can_be_those_of_a_file() -> None:
    text = "Line 4, `line 4 = x`, was changed to `y` (line 14)."
    assert moved_lines(text, 10) == "Line 14, `line 4 = x`, was changed to `y` (line 24)."


def test_lines_move_with_what_was_added_above() -> None:
    new = TRAINING.replace("        w += x", "        w += x\n        log(\n            w)")
    mapped = line_map(TRAINING, new, added=[(5, 6)], removed=[])
    assert [mapped(line) for line in (1, 2, 4, 5, 6, 8, 9)] == [1, 2, 4, 7, 8, 10, 11]


def test_a_changed_log_statement_moves_nothing() -> None:
    new = TRAINING.replace("print(w)", 'print("w", w)')
    mapped = line_map(TRAINING, new, added=[(8, 8)], removed=[8])
    assert mapped(9) == 9
    assert mapped(5) == 5


def test_other_formatting_does_not_confuse_lines() -> None:
    new = TRAINING.replace("    history.append(\n        w,\n    )", "    history.append(w)  # one")
    mapped = line_map(TRAINING, new, added=[], removed=[])
    assert mapped(8) == 6
    assert mapped(9) == 7


def test_lines_of_programs_that_cannot_be_aligned_stay() -> None:
    mapped = line_map("x = 1\ny = 2", "x = 1", added=[], removed=[])
    assert mapped(2) == 2
