"""A replay of any training program gives what the program itself would have logged."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from chexpoint.model import LoopRun, Segment
from tests.support.hindsight_programs import PROBE, Workshop, expected, plain_lines, with_line


@dataclass(frozen=True)
class Feature:
    """Something that programs do with their state."""

    setup: str = ""
    outer: tuple[str, ...] = ()
    """Statements of iterations."""
    inner: tuple[str, ...] = ()
    """Statements of the steps in them."""
    shows: str = "0"
    """What can be looked at anywhere."""


FEATURES = (
    Feature("w = np.zeros(4)", ("w *= 0.5",), ("w += k + n", "w[k % 4] -= 1"), "w.tolist()"),
    Feature(
        "whole = np.arange(6.0)\npart = whole[2:5]",
        ("whole[0] += part.sum()",),
        ("part += k", "part = whole[k % 3 :]"),
        "(whole.tolist(), part.tolist())",
    ),
    Feature(
        "rng = np.random.default_rng(5)",
        ("drawn = float(rng.normal())",),
        ("w2 = rng.permutation(3)", "noise.append(random.random() + np.random.rand())"),
        "(noise, rng.bit_generator.state['state'])",
    ),
    Feature(
        "xs = [1]\nother = xs",
        ("other.append(-n)", "other = xs if n % 2 else list(xs)"),
        ("xs.append(k)", "xs = xs if k else [*xs, n]"),
        "(xs, other, xs is other)",
    ),
    Feature(
        "nest = {'a': [{1}], 'b': {}}",
        ("nest['b'][n] = nest['a']", "nest['a'] = [set(nest['a'][0])]"),
        ("nest['a'][0].add(k)", "nest['b'].pop(k, None)", "nest['a'].append((k, n))"),
        "(nest['a'], sorted(nest['b']))",
    ),
    Feature(
        """
class Model:
    made = 0
    def __init__(self):
        self.w, self.seen, self.child = 0.5, [], None
        Model.made += 1
    def step(self, k):
        self.w = self.w * 0.9 + k
        self.seen.append(self.w)
        if self.child is None or k == 2:
            self.child = Model()
        self.child.w += k
        return self
model = Model()
""",
        ("model.child = model.child or Model()", "keep = Model().step(n)"),
        ("model.step(k)", "last = model.step(k).child"),
        "(model.w, model.seen, Model.made, model.child and model.child.w)",
    ),
    Feature(
        """
def counter():
    count = 0
    def bump(by):
        nonlocal count
        count += by
        return count
    return bump
one, two = counter(), counter()
""",
        ("counted = one(n)",),
        ("counted = two(k)", "xs2.append(one(1))"),
        "(xs2, one.__closure__[0].cell_contents, two.__closure__[0].cell_contents)",
    ),
    Feature(
        """
calls = 0
def called(n, held=[]):
    global calls
    calls += 1
    total = 0
    for j in range(3):
        total += j * n
        held.append(total)
        if j == n:
            return -total
    return total + len(held)
""",
        ("got.append(called(n))",),
        ("got.append(called(k))",),
        "(calls, got)",
    ),
    Feature(
        """
def deep(level, out):
    total = 0
    for j in range(2):
        out.append((level, j))
        if level:
            total += deep(level - 1, out)
    return total + 1
""",
        ("got2.append(deep(2, trail))",),
        ("got2.append(deep(k % 2, trail))",),
        "(got2, trail)",
    ),
    Feature(
        "",
        ("gone = n\nif n % 2:\n    del gone",),
        ("tmp = [k]\ndel tmp",),
        "n",
    ),
    Feature(
        "errors = []",
        ("try:\n    errors.append(1 // (n % 2))\nexcept ZeroDivisionError:\n    errors.append(n)",),
        ("if k == n:\n    continue", "if k == 3:\n    break", "errors.append((n, k))"),
        "errors",
    ),
    Feature(
        "source = iter(range(1000))\nmode = Mode.A",
        ("a, *b = next(source), n, n", "mode = Mode.B if mode is Mode.A else Mode.A"),
        (
            "took.append(next(source))",
            "mode = Mode(1 + (k + n) % 2)",
            "pick = up if k % 2 else down",
        ),
        "(took, mode, pick(7))",
    ),
)

HEADERS = (
    "for n in range(5):",
    "for n in [0, 1, 2, 3, 4]:",
    "for n, name in enumerate('abcde'):",
    "n = -1\nwhile n < 4:\n    n += 1",
    "for n in (each for each in range(5)):",
    "for n in growing:\n    if n < 4:\n        growing.append(n + 1)",
)
INNER = ("for k in range(4):", "k = -1\nwhile k < 3:\n    k += 1")
ALWAYS = """
import enum
import random
import numpy as np
random.seed(1)
np.random.seed(2)
class Mode(enum.Enum):
    A = 1
    B = 2
def up(x):
    return x + 1
def down(x):
    return x - 1
pick = up
noise, xs2, got, got2, trail, took, growing = [], [], [], [], [], [], [0]
"""


def _indented(text: str, by: int) -> list[str]:
    return [" " * by + line for line in text.splitlines() if line.strip()]


@dataclass(frozen=True)
class Drawn:
    """A program, and where something can be added to it."""

    source: str
    shows: tuple[str, ...]


@st.composite
def programs(draw: st.DrawFn) -> Drawn:
    """Draw a program with a main loop, and loops in it."""
    features = draw(st.lists(st.sampled_from(FEATURES), min_size=1, max_size=4, unique=True))
    outer = [each for feature in features for each in feature.outer]
    inner = [each for feature in features for each in feature.inner]
    rows: list[list[str]] = [[each] for each in draw(st.permutations(outer))]
    for _ in range(draw(st.integers(0, 2))):
        steps = draw(st.lists(st.sampled_from(inner), min_size=1, max_size=4))
        block = _indented(draw(st.sampled_from(INNER)), 0)
        block += [line for step in steps for line in _indented(step, 4)]
        rows.insert(draw(st.integers(0, len(rows))), block)
    header = draw(st.sampled_from(HEADERS))
    body = [*_indented(header, 0), "    print('iteration', n)"]
    body += [line for row in rows for part in row for line in _indented(part, 4)]
    setup = [line for feature in features for line in feature.setup.splitlines()]
    if draw(st.booleans()) and not any("nonlocal" in line or "global" in line for line in setup):
        names = "growing, pick"
        body = ["def main():", *(" " * 4 + line for line in [f"global {names}", *setup, *body])]
        lines = [*ALWAYS.splitlines(), *body, "main()"]
    else:
        lines = [*ALWAYS.splitlines(), *setup, *body]
    source = "\n".join(line for line in [*lines, "print('over')"] if line.strip()) + "\n"
    return Drawn(source, tuple(feature.shows for feature in features))


def _places(source: str) -> list[int]:
    """Return the lines of the main loop after which a statement can be added."""
    lines = source.splitlines()
    begin = next(at for at, line in enumerate(lines) if "print('iteration'" in line)
    ends = ("break", "continue", ":")
    return [
        at
        for at in range(begin, len(lines) - 1)
        if lines[at].startswith(" ") and not lines[at].rstrip().endswith(ends)
    ]


def _segments(run: LoopRun) -> list[Segment]:
    """Return all the ways to replay a loop."""
    record = run.loops[0]
    count = len(record.iterations)
    firsts = [0]
    if record.can_jump:
        firsts += [at for at, each in enumerate(record.iterations) if at and each.start]
    return [
        Segment(start=start, stop=stop, first=first, is_jump=first > 0)
        for first in firsts
        for start in range(first, count)
        for stop in range(start + 1, count + 1)
    ]


# Programs are short, and to make a smaller one of one that fails takes minutes.
PATTERNS = st.sampled_from([(True,), (True, False), (False, True, True), (False, False, True)])


@settings(max_examples=30, deadline=None, derandomize=True, phases=[Phase.generate])
@given(programs(), PATTERNS, st.data())
def test_values_are_those_of_the_program(
    program: Drawn, wanted: tuple[bool, ...], data: st.DataObject
) -> None:
    lines = program.source.splitlines()
    at = data.draw(st.sampled_from(_places(program.source)))
    new = with_line(lines, at, f"print('P', {data.draw(st.sampled_from(program.shows))})")
    with tempfile.TemporaryDirectory() as folder:
        workshop = Workshop(Path(folder))
        run = workshop.record(program.source, wanted=wanted)
        assert workshop.problem == ""
        assert run.refused == {} or "nobody knows" in str(run.refused) or "anew" in str(run.refused)
        for segment in data.draw(st.lists(st.sampled_from(_segments(run)), min_size=2, max_size=2)):
            replayed = workshop.replay(run, new, segment)
            assert replayed.added == expected(new, segment)
            assert replayed.judgement.findings == ()
            assert replayed.standings <= {"exact", "unverified"}
            assert replayed.count("done") == 1


# Statements that change something, and others that look at the same and do not.
CHANGES = (
    ("print('P', str(xs), xs.append(7))", "print('P', str(xs), None)"),
    ("print('P', str(w), w.fill(3.0))", "print('P', str(w), None)"),
    ("print('P', xs.pop() if xs else 0)", "print('P', xs[-1] if xs else 0)"),
    ("print('P', random.random())", "print('P', drawn_next(random.getstate()))"),
)
BEFORE = """
def drawn_next(state):
    other = random.Random()
    other.setstate(state)
    return other.random()
w, xs = np.zeros(4), [1]
"""


@settings(max_examples=12, deadline=None, derandomize=True, phases=[Phase.generate])
@given(programs(), PATTERNS, st.sampled_from(CHANGES), st.data())
def test_a_wrong_value_is_never_exact(
    program: Drawn, wanted: tuple[bool, ...], change: tuple[str, str], data: st.DataObject
) -> None:
    """Also if an added statement changes what the program computes."""
    source = program.source.replace("pick = up\n", f"pick = up{BEFORE}", 1)
    assume("def main" not in source)
    lines, at = source.splitlines(), data.draw(st.sampled_from(_places(source)))
    new, look = (with_line(lines, at, each) for each in change)
    with tempfile.TemporaryDirectory() as folder:
        workshop = Workshop(Path(folder))
        run = workshop.record(source, wanted=wanted)
        replayed = workshop.replay(run, new, data.draw(st.sampled_from(_segments(run))))
    right = [_probes(look), _probes(new)]
    seen: Counter[int] = Counter()
    for row in replayed.judgement.rows:
        number = row.value.at[0]
        if row.is_added and row.standing == "exact":
            place = number, seen[number]
            assert row.value.value in [each.get(place) for each in right]
        seen[number] += row.is_added


def _probes(source: str) -> dict[tuple[int, int], str]:
    """Return what added statements print, by iteration and number in it."""
    return {
        (number, place): line
        for number, lines in enumerate(plain_lines(source))
        for place, line in enumerate(each for each in lines if each.startswith(PROBE))
    }
