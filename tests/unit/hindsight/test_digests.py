"""Tests of digests of values."""

from __future__ import annotations

import datetime
import decimal
import enum
import math
import os
import subprocess
import sys
from collections import OrderedDict, deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
import torch

from chexpoint.hindsight.state.digests import canonical_digest


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass
class Point:
    x: float
    y: float


class Slotted:
    __slots__ = ("a",)

    def __init__(self, a: int) -> None:
        self.a = a


# Each value in a row is different from all others of all rows; within a row, they are equal.
ROWS: list[list[Any]] = [
    [None],
    [True],
    [1],
    [1.0],
    [0.0],
    [-0.0],
    [math.nan, float("nan")],
    [1 + 0j],
    ["1"],
    [b"1"],
    [bytearray(b"1")],
    [[]],
    [()],
    [{}],
    [set()],
    [frozenset()],
    [[[]]],
    [[1, 2], [1, 2]],
    [[2, 1]],
    [["a", "bc"]],
    [["ab", "c"]],
    [{"a": 1, "b": 2}, {"b": 2, "a": 1}],
    [{1, 2, 3}, {3, 2, 1}],
    [deque([1])],
    [deque([1, 2])],
    [OrderedDict(a=1)],
    [Color.RED],
    [Color.BLUE],
    [Point(1, 2), Point(1, 2)],
    [Point(2, 1)],
    [Slotted(1), Slotted(1)],
    [Slotted(2)],
    [decimal.Decimal("1.1")],
    [datetime.date(2026, 1, 1)],
    [Path("a/b"), Path("a") / "b"],
    [np.float64(1)],
    [np.arange(3), np.arange(6)[:3]],
    [np.arange(3.0)],
    [np.zeros((2, 3)), np.zeros((3, 2)).T],
    [np.zeros((3, 2))],
    [torch.zeros(3)],
    [torch.zeros(4)],
    [torch.zeros(3, dtype=torch.bfloat16)],
    [pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": [1, 2]})],
    [pd.DataFrame({"a": [1, 3]})],
    [range(3)],
]


def test_equal_exactly_for_equal_values() -> None:
    seen: dict[str, int] = {}
    for number, row in enumerate(ROWS):
        found = {canonical_digest(value) for value in row}
        assert len(found) == 1, row
        digest = found.pop()
        assert digest is not None, row
        assert seen.setdefault(digest, number) == number, (row, ROWS[seen[digest]])


def test_cycles_have_digests() -> None:
    def ring(value: int) -> list[Any]:
        made: list[Any] = [value]
        made.append({"up": made, "beside": [made]})
        return made

    assert canonical_digest(ring(1)) == canonical_digest(ring(1))
    assert canonical_digest(ring(1)) != canonical_digest(ring(2))


def test_sharing_is_not_part_of_the_value_and_costs_nothing() -> None:
    shared: list[Any] = [1]
    for _ in range(60):
        shared = [shared, shared]
    assert canonical_digest(shared) is not None
    assert canonical_digest([[1], [1]]) == canonical_digest([(inner := [1]), inner])


@pytest.mark.parametrize(
    "value",
    [(each for each in [1]), object, math, memoryview(b"a")],
    ids=lambda each: str(type(each)),
)
def test_what_cannot_be_compared(value: Any) -> None:
    if isinstance(value, type):
        assert canonical_digest(value) is not None
    else:
        assert canonical_digest([value]) is None


PROGRAM = """
from chexpoint.hindsight.state.digests import canonical_digest
from tests.unit.hindsight.test_digests import ROWS
print([canonical_digest(row[0]) for row in ROWS])
print(canonical_digest({"x", "y", "z", ("a", 1)}))
"""


def test_the_same_in_every_process() -> None:
    found = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[3],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
    assert found.pop().count("\n") == 2
