"""Which states are held, and which go first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chexpoint.engine.policy import HoldingRule, eviction_order, recompute_cost
from chexpoint.model import Checkpoint, CheckpointId

MIB = 2**20
GIB = 2**30


def checkpoint(ident: str, **fields: object) -> Checkpoint:
    values = {
        "id": CheckpointId(ident),
        "name": None,
        "parent": None,
        "pid": 1,
        "execution_count": 1,
        "cost_s": 1.0,
        "size_bytes": MIB,
        "uses": 0,
    }
    return Checkpoint(**{**values, **fields})  # type: ignore[arg-type]


def test_an_expensive_cell_is_worth_holding_and_a_cheap_one_is_not() -> None:
    rule = HoldingRule()

    def is_worth(cost_s: float, size: int) -> bool:
        return rule.worth_holding(
            cost_s=cost_s, fork_s=0.01, marginal_bytes=size, budget_bytes=8 * GIB
        )

    assert is_worth(1.0, 8 * MIB)
    assert not is_worth(0.005, 8 * MIB)
    # A quarter of the budget for a cell that takes five seconds is too much.
    assert not is_worth(5.0, 2 * GIB)
    assert is_worth(30.0, 2 * GIB)


@given(
    cost=st.floats(0, 1e4),
    more=st.floats(0, 1e4),
    size=st.integers(0, 2**40),
    less=st.integers(0, 2**40),
    budget=st.integers(1, 2**45),
)
def test_the_rule_is_monotone(cost: float, more: float, size: int, less: int, budget: int) -> None:
    rule = HoldingRule()

    def is_worth(cost_s: float, marginal: int, room: int) -> bool:
        return rule.worth_holding(
            cost_s=cost_s, fork_s=0.01, marginal_bytes=marginal, budget_bytes=room
        )

    if is_worth(cost, size, budget):
        assert is_worth(cost + more, size, budget)
        assert is_worth(cost, min(size, less), budget)
        assert is_worth(cost, size, budget * 2)


def test_recomputing_counts_evicted_ancestors_up_to_the_first_held_one() -> None:
    a, b, c, d = (CheckpointId(x) for x in "abcd")
    parents = {a: None, b: a, c: b, d: c}
    costs = {a: 100.0, b: 10.0, c: 5.0, d: 1.0}
    held = {a: checkpoint("a"), d: checkpoint("d")}
    assert recompute_cost(d, held, parents, costs) == 16.0
    assert recompute_cost(d, {d: held[d]}, parents, costs) == 116.0


def test_least_useful_goes_first() -> None:
    cheap = checkpoint("cheap", cost_s=0.1)
    dear = checkpoint("dear", cost_s=10.0)
    used = checkpoint("used", cost_s=0.1, uses=5)
    large = checkpoint("large", cost_s=10.0, size_bytes=1000 * MIB)
    named = checkpoint("named", name="mine", cost_s=0.0)
    bad = checkpoint("bad", cost_s=1e6, bad=True)
    everything = [named, dear, used, cheap, large, bad]
    held = {c.id: c for c in everything}
    parents = dict.fromkeys(held, None)
    costs = {c.id: c.cost_s for c in everything}
    order = [c.id for c in eviction_order(everything, held, parents, costs)]
    assert order == ["bad", "large", "cheap", "used", "dear", "named"]
