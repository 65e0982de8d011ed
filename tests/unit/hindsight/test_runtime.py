"""Which loop of a running program is the main loop, and which are blocks."""

from __future__ import annotations

import ast
import builtins
import textwrap
import threading
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any

import pytest

from chexpoint.hindsight.programs import instrumented
from chexpoint.hindsight.runtime import NAME, Loops, OpenLoop


class Notes:
    """A course that lets everything run, and writes down what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.skipped: set[int] = set()
        self.passed = 0
        self.error: Exception | None = None

    def begin_main(self, loop: OpenLoop, frame: FrameType) -> bool:
        self.lines.append(f"main {loop.site.line}")
        return loop.site.line not in self.skipped

    def take_iterable(self, loop: OpenLoop, iterable: Iterable[Any]) -> int:
        return self.passed

    def begin_iteration(self, loop: OpenLoop, frame: FrameType) -> bool:
        self.lines.append(f"iteration {loop.index}")
        return True

    def end_main(self, loop: OpenLoop, frame: FrameType | None) -> None:
        how = "lost" if frame is None else "end" if loop.is_exhausted else "break"
        self.lines.append(f"end {loop.site.line} {how}")

    def begin_block(self, loop: OpenLoop, frame: FrameType) -> bool:
        self.lines.append(f"block {loop.site.line}")
        return loop.site.line not in self.skipped

    def end_block(self, loop: OpenLoop, frame: FrameType | None) -> None:
        self.lines.append(f"block {loop.site.line} {'lost' if frame is None else 'end'}")

    def before_added(self, loop: OpenLoop, group: int, frame: FrameType) -> None:
        self.lines.append(f"added {group}")

    def after_added(self, loop: OpenLoop, group: int, frame: FrameType) -> None:
        self.lines.append(f"added {group} end")

    def failed(self, error: Exception) -> None:
        self.error = error


@pytest.fixture
def loops() -> Iterator[Loops]:
    before = vars(builtins).get(NAME)
    made = Loops()
    setattr(builtins, NAME, made)
    yield made
    if before is None:
        delattr(builtins, NAME)
    else:
        setattr(builtins, NAME, before)


def run(loops: Loops, source: str, course: Notes | None = None) -> tuple[list[str], dict[str, Any]]:
    course = course or Notes()
    text = textwrap.dedent(source).strip() + "\n"
    _, tree = instrumented(loops, ast.parse(text), text)
    loops.follow(course)
    names: dict[str, Any] = {}
    try:
        exec(compile(tree, "<program>", "exec"), names)  # noqa: S102 - what it is for
    finally:
        loops.follow(None)
    assert course.error is None
    return course.lines, names


def test_a_loop_in_a_loop_is_a_block(loops: Loops) -> None:
    lines, names = run(
        loops,
        """
        total = 0
        for epoch in range(2):
            for step in range(3):
                total += step
        """,
    )
    assert names["total"] == 6
    one = ["block 3", "block 3 end"]
    assert lines == ["main 2", "iteration 0", *one, "iteration 1", *one, "end 2 end"]


def test_a_loop_in_a_called_function_is_a_block(loops: Loops) -> None:
    lines, _ = run(
        loops,
        """
        def train():
            for step in range(3):
                for inner in range(2):
                    pass

        for epoch in range(2):
            train()
        """,
    )
    one = ["block 2", "block 2 end"]
    assert lines == ["main 6", "iteration 0", *one, "iteration 1", *one, "end 6 end"]


def test_a_function_is_its_own_main_loop_when_nobody_loops_around_it(loops: Loops) -> None:
    lines, _ = run(
        loops,
        """
        def train():
            for step in range(1):
                pass

        train()
        train()
        """,
    )
    assert lines == ["main 2", "iteration 0", "end 2 end"] * 2


def test_a_block_that_is_left_by_return_is_lost(loops: Loops) -> None:
    lines, names = run(
        loops,
        """
        def find(items):
            for item in items:
                if item:
                    return item

        found = []
        for epoch in range(2):
            found.append(find([0, 5]))
            for step in range(1):
                pass
        """,
    )
    assert names["found"] == [5, 5]
    one = ["block 2", "block 2 lost", "block 9", "block 9 end"]
    assert lines == ["main 7", "iteration 0", *one, "iteration 1", *one, "end 7 end"]


def test_a_main_loop_that_is_left_by_an_exception_is_lost(loops: Loops) -> None:
    lines, _ = run(
        loops,
        """
        try:
            for epoch in range(3):
                for step in range(2):
                    raise ValueError
        except ValueError:
            pass
        for epoch in range(1):
            pass
        """,
    )
    first = ["main 2", "iteration 0", "block 3", "block 3 lost", "end 2 lost"]
    assert lines == [*first, "main 7", "iteration 0", "end 7 end"]


def test_break_and_while(loops: Loops) -> None:
    lines, names = run(
        loops,
        """
        n = 0
        while n < 3:
            n += 1
            for step in range(9):
                break
            if n == 2:
                break
        """,
    )
    assert names["n"] == 2
    one = ["block 4", "block 4 end"]
    assert lines == ["main 2", "iteration 0", *one, "iteration 1", *one, "end 2 break"]


def test_blocks_and_main_loops_are_skipped(loops: Loops) -> None:
    course = Notes()
    course.skipped = {3, 6}
    _, names = run(
        loops,
        """
        seen = []
        for epoch in range(2):
            for step in range(3):
                seen.append((epoch, step))
            seen.append(epoch)
        for other in range(5):
            seen.append(other)
        """,
        course,
    )
    assert names["seen"] == [0, 1]


def test_iterations_are_passed_over(loops: Loops) -> None:
    course = Notes()
    course.passed = 3
    lines, names = run(loops, "seen = []\nfor epoch in range(5):\n    seen.append(epoch)", course)
    assert names["seen"] == [3, 4]
    assert lines == ["main 2", "iteration 3", "iteration 4", "end 2 end"]


def test_loops_of_other_threads_are_not_followed(loops: Loops) -> None:
    course = Notes()
    seen: list[int] = []

    def elsewhere() -> None:
        number = 0
        assert loops.enter(number)
        seen.extend(loops.iterate(number, range(3)))
        loops.end(number)

    text = "for a in range(1):\n    pass\n"
    instrumented(loops, ast.parse(text), text)
    loops.follow(course)
    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    loops.follow(None)
    assert seen == [0, 1, 2]
    assert course.lines == []


def test_a_course_that_fails_leaves_the_program_alone(loops: Loops) -> None:
    class Broken(Notes):
        def begin_iteration(self, loop: OpenLoop, frame: FrameType) -> bool:
            raise RuntimeError("ours")

    course = Broken()
    text = "seen = []\nfor epoch in range(3):\n    for k in range(2):\n        seen.append(k)\n"
    _, tree = instrumented(loops, ast.parse(text), text)
    loops.follow(course)
    names: dict[str, Any] = {}
    exec(compile(tree, "<program>", "exec"), names)  # noqa: S102 - what it is for
    assert names["seen"] == [0, 1] * 3
    assert str(course.error) == "ours"
    assert loops.course is None


def test_errors_of_iterables_are_the_programs_own(loops: Loops) -> None:
    with pytest.raises(TypeError, match="'int' object is not iterable"):
        run(loops, "for epoch in 5:\n    pass")
