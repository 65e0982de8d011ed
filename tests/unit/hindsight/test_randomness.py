"""Tests of random number generators, of the process and of the program."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from chexpoint.hindsight.state.putting_back import put_back
from tests.unit.hindsight.state_kit import Kept, surveyed


def draw() -> list[Any]:
    return [
        random.random(),
        random.gauss(0, 1),
        np.random.rand(),
        np.random.standard_normal(),
        torch.rand(1).item(),
        torch.randn(3).tolist(),
    ]


def test_the_generators_of_the_process_go_back() -> None:
    draw()
    before = Kept({})
    assert {"@random", "@numpy", "@torch"} <= set(before.survey.leaves)
    expected = draw()
    assert {"@random", "@numpy", "@torch"} <= surveyed({}).changed_since(before.survey)
    before.put_back({})
    assert draw() == expected


@pytest.mark.parametrize(
    ("make", "use"),
    [
        (lambda: random.Random(3), lambda rng: rng.gauss(0, 1)),
        (lambda: np.random.default_rng(3), lambda rng: rng.normal()),
        (lambda: np.random.Generator(np.random.MT19937(3)), lambda rng: rng.random()),
        (lambda: np.random.Generator(np.random.Philox(3)), lambda rng: rng.random()),
        (lambda: np.random.Generator(np.random.SFC64(3)), lambda rng: rng.integers(9**9)),
        (lambda: np.random.PCG64(3), lambda rng: rng.random_raw()),
        (lambda: np.random.RandomState(3), lambda rng: rng.randn()),
        (
            lambda: torch.Generator().manual_seed(3),
            lambda rng: torch.rand(1, generator=rng).item(),
        ),
    ],
    ids=["random", "default", "mt", "philox", "sfc", "bits", "legacy", "torch"],
)
def test_generators_of_the_program(make: Callable[[], Any], use: Callable[[Any], float]) -> None:
    rng = make()
    roots: dict[str, Any] = {"rng": rng, "holder": {"inner": rng}}
    use(rng)
    before = Kept(roots)
    expected = [use(rng) for _ in range(5)]
    assert before.changed(roots) == {"rng"}
    assert before.put_back(roots) == {}
    assert [use(rng) for _ in range(5)] == expected
    fresh: dict[str, Any] = {"rng": make(), "holder": {"inner": None}}
    before.put_back(fresh)
    assert fresh["holder"]["inner"] is fresh["rng"]
    assert [use(fresh["rng"]) for _ in range(5)] == expected


def test_a_generator_that_is_not_there_yet_is_made_like_another() -> None:
    before = Kept({"one": np.random.default_rng(1), "two": np.random.default_rng(2)})
    bound = put_back({"one": np.random.default_rng(5), "two": None}, before.leaves)
    assert bound["two"].random() == np.random.default_rng(2).random()  # type: ignore[attr-defined]
