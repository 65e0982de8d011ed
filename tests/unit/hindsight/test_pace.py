"""Recording never costs more than its share, and what is affordable is recorded."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chexpoint.errors import InvalidValue
from chexpoint.hindsight.writing.pace import EPSILON, Pace

seconds = st.floats(min_value=1e-4, max_value=100.0)
shares = st.floats(min_value=0.005, max_value=1.0)


def test_checkpoint_that_costs_little_is_taken_each_time() -> None:
    pace = Pace()
    for _ in range(50):
        pace.ran(0, 10.0)
        assert pace.allows([0], 0.1)
        pace.paid(0, 0.1)
    assert pace.share == pytest.approx(0.01)


def test_costly_checkpoint_is_taken_once_in_a_while() -> None:
    # The paper: periodic checkpoints of blocks that are short and large.
    pace = Pace()
    taken = []
    for number in range(90):
        pace.ran(0, 1.0)
        if pace.allows([0], 1.0):
            taken.append(number)
            pace.paid(0, 1.0)
    assert 4 <= len(taken) <= 6
    gaps = [after - before for before, after in itertools.pairwise(taken)]
    assert all(14 <= gap <= 17 for gap in gaps)
    assert pace.share <= EPSILON


@given(
    work=st.lists(st.tuples(seconds, seconds), min_size=1, max_size=60),
    epsilon=shares,
    c=st.floats(min_value=0, max_value=10),
)
def test_total_never_exceeds_its_share_if_costs_are_foreseen(
    work: list[tuple[float, float]], epsilon: float, c: float
) -> None:
    pace = Pace(epsilon, c)
    for site, (run_s, cost_s) in enumerate(work):
        # A site of its own for each: nothing was measured, and the expected cost is used.
        pace.ran(site, run_s)
        if pace.allows([site], cost_s):
            pace.paid(site, cost_s)
        assert pace.share <= epsilon * (1 + 1e-9)


@given(
    runs=st.lists(seconds, min_size=1, max_size=80),
    costs=st.lists(st.floats(min_value=1.0, max_value=2.0), min_size=80, max_size=80),
    unit=seconds,
    epsilon=shares,
)
def test_total_exceeds_its_share_by_no_more_than_one_wrong_estimate(
    runs: list[float], costs: list[float], unit: float, epsilon: float
) -> None:
    pace = Pace(epsilon)
    for run_s, factor in zip(runs, costs, strict=False):
        pace.ran(3, run_s)
        if pace.allows([3], unit):
            pace.paid(3, unit * factor)
        # Costs are between one and two units, so an estimate is at most one unit too low.
        assert pace.paid_s <= epsilon * pace.computed_s + unit * (1 + 1e-9)


@given(run_s=seconds, cost_s=seconds, epsilon=shares, c=st.floats(min_value=0, max_value=20))
def test_affordable_checkpoints_happen(
    run_s: float, cost_s: float, epsilon: float, c: float
) -> None:
    pace = Pace(epsilon, c)
    limit = min(epsilon, 1 / (1 + c))
    runs = 400
    taken = 0
    for _ in range(runs):
        pace.ran(0, run_s)
        if pace.allows([0], cost_s):
            taken += 1
            pace.paid(0, cost_s)
    affordable = min(runs, int(runs * run_s * limit / cost_s))
    assert affordable - 2 <= taken <= affordable + 1


@given(run_s=seconds, cost_s=seconds, c=st.floats(min_value=0, max_value=20))
def test_replay_that_loads_is_not_slower_than_one_that_computes(
    run_s: float, cost_s: float, c: float
) -> None:
    pace = Pace(1.0, c)
    taken = 0
    for number in range(1, 200):
        pace.ran(0, run_s)
        if pace.allows([0], cost_s):
            taken += 1
            pace.paid(0, cost_s)
            # M + R < n / k C
            assert cost_s + c * cost_s < number / taken * run_s * (1 + 1e-9)


def test_blocks_of_an_iteration_are_decided_together() -> None:
    # Evaluation is short, and its own checkpoint would cost too much of it alone.
    pace = Pace()
    for _ in range(3):
        pace.ran(0, 10.0)
        pace.ran(1, 0.1)
        assert pace.allows([0, 1], 0.1)
        pace.paid(0, 0.08)
        pace.paid(1, 0.02)
    alone = Pace()
    alone.ran(1, 0.1)
    assert not alone.allows([1], 0.02)


def test_other_costs_count() -> None:
    pace = Pace()
    pace.ran(0, 10.0)
    pace.spent(0.66)
    assert not pace.allows([0], 0.1)
    pace.ran(0, 10.0)
    assert pace.allows([0], 0.1)


def test_growing_cost_is_followed() -> None:
    pace = Pace()
    for number in range(300):
        pace.ran(0, 1.0)
        if pace.allows([0], 0.01):
            pace.paid(0, 0.01 * (1 + number / 10))
    assert pace.share <= EPSILON


def test_restores_refine_c() -> None:
    pace = Pace(1.0, c=1.0)
    for _ in range(40):
        pace.restored(1.0, 9.0)
    assert pace.c == pytest.approx(9.0, rel=0.01)
    pace.ran(0, 1.0)
    assert not pace.allows([0], 0.11)
    assert pace.allows([0], 0.09)
    pace.restored(0.0, 1.0)
    assert pace.c == pytest.approx(9.0, rel=0.01)


def test_first_checkpoint_is_taken_to_learn_its_cost() -> None:
    pace = Pace()
    assert not pace.allows([0])
    pace.ran(0, 1.0)
    assert pace.allows([0])
    pace.paid(0, 5.0)
    pace.ran(0, 1.0)
    assert not pace.allows([0])


def test_no_overhead_means_no_checkpoint() -> None:
    pace = Pace(0.0)
    pace.ran(0, 1e6)
    assert not pace.allows([0], 1e-9)


@pytest.mark.parametrize("epsilon", [-0.1, 1.5, float("nan")])
def test_impossible_overhead_is_refused(epsilon: float) -> None:
    with pytest.raises(InvalidValue, match="overhead"):
        Pace(epsilon)


def test_impossible_restore_is_refused() -> None:
    with pytest.raises(InvalidValue, match="restore"):
        Pace(c=-1.0)


def test_first_checkpoint_is_worth_it_while_the_first_iteration_goes_on() -> None:
    pace = Pace()
    assert not pace.allows([0], 0.1)
    assert not pace.allows([0], 0.1, running_s=1.0)
    assert pace.allows([0], 0.1, running_s=3.0)


def test_with_no_limit_every_state_is_kept() -> None:
    pace = Pace(math.inf)
    pace.paid(0, 100.0)
    assert pace.allows([0], expected=100.0)
