"""Whether what a replay found can be trusted, from its logs and the states it went through."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from chexpoint.hindsight.log_match import is_same_value
from chexpoint.hindsight.verdict import Judgement, judge, merge_results
from chexpoint.model import (
    BlockRecord,
    HindsightFinding,
    IterationRecord,
    LoggedValue,
    LoopCheckpoint,
    LoopRecord,
    LoopRun,
    LoopSite,
    Segment,
)

LEAVES = ("@torch", "history", "model:fc.weight")
COUNT = 4


def checkpoint(*at: int) -> LoopCheckpoint:
    image = ".".join(map(str, at))
    return LoopCheckpoint(leaves=dict.fromkeys(LEAVES, image), at=at)


def digests(*at: int, **changed: str | None) -> dict[str, str | None]:
    """Return the digests at a point, as recorded; some leaves may be given another one."""
    found: dict[str, str | None] = {leaf: f"{leaf}@{at}" for leaf in LEAVES}
    names = {"torch": "@torch", "weight": "model:fc.weight", "history": "history"}
    return found | {names[name]: digest for name, digest in changed.items()}


POINTS = [*((i,) for i in range(COUNT + 1)), *((i, 0) for i in range(COUNT))]
RUN = LoopRun(
    run="r",
    source="",
    sites=(
        LoopSite(site=0, line=1, kind="for", label="epoch", estimate=("model",)),
        LoopSite(site=1, line=2, kind="for", label="batch", within=0, estimate=("model",)),
    ),
    loops=(
        LoopRecord(
            site=0,
            iterations=tuple(
                IterationRecord(
                    seconds=1.0,
                    start=checkpoint(i),
                    blocks=(BlockRecord(site=1, seconds=0.9, checkpoint=checkpoint(i, 0)),),
                )
                for i in range(COUNT)
            ),
            end=checkpoint(COUNT),
            can_jump=True,
        ),
    ),
    values=tuple(
        value
        for i in range(COUNT)
        for value in (
            LoggedValue(loop=0, at=(i, 0), line=3, via="log", name="step", value=0),
            LoggedValue(loop=0, at=(i,), line=4, via="log", name="loss", value=0.31 + i),
        )
    ),
    digests={".".join(map(str, at)): {k: v for k, v in digests(*at).items() if v} for at in POINTS},
)
Event = dict[str, Any]


def log(i: int, value: object, *, name: str = "loss", line: int = 5, **more: Any) -> Event:
    fields = {"e": "log", "n": 0, "at": [i], "labels": [["epoch", i]], "line": line}
    return {**fields, "via": "log", "name": name, "value": value, "added": False, **more}


def check(*at: int, **changed: str | None) -> Event:
    return {"e": "check", "n": 0, "at": list(at), "leaves": digests(*at, **changed)}


def epoch(i: int, *, loss: object = None, skips: bool = True, probe: object = 1.5) -> list[Event]:
    """Return what a replay writes in one iteration; an added statement is in line 3."""
    step = [] if skips else [log(i, 0, name="step", line=4, at=[i, 0])]
    return [
        {"e": "iter", "n": 0, "i": i, "t": float(i)},
        *step,
        {"e": "block", "n": 0, "i": i, "b": 0, "site": 1, "skipped": skips, "s": 0.0},
        log(i, 0.31 + i if loss is None else loss),
        log(i, probe, name="norm", line=3, added=True),
    ]


DONE: Event = {"e": "done"}


def verdict(
    results: Sequence[Event], segment: Segment | None = None, removed: Sequence[int] = ()
) -> Judgement:
    return judge(
        RUN,
        0,
        results,
        version="v1",
        added=[(3, 3)],
        removed=removed,
        line_map=lambda line: line + (line >= 3),
        segment=segment,
    )


def standings(judgement: Judgement, name: str = "norm") -> list[str]:
    return [row.standing for row in judgement.rows if row.value.name == name]


def sentences(judgement: Judgement) -> list[str]:
    return [finding.what for finding in judgement.findings]


def test_all_is_exact() -> None:
    for skips in (True, False):
        events = [event for i in range(COUNT) for event in (check(i), *epoch(i, skips=skips))]
        found = verdict([*events[1:], check(COUNT), DONE])
        assert set(standings(found) + standings(found, "loss")) == {"exact"}
        assert (found.findings, found.notes) == ((), ())
        assert [row.value.value for row in found.rows if row.is_added] == [1.5] * COUNT
        assert {row.version for row in found.rows} == {"v1"}


def test_check_of_the_end_may_have_the_number_of_the_last_iteration() -> None:
    events = [event for i in range(COUNT) for event in epoch(i)]
    end = {**check(COUNT), "at": [COUNT - 1]}
    assert standings(verdict([*events, end, DONE])) == ["exact"] * COUNT
    end = {**check(COUNT, weight="other"), "at": [COUNT - 1]}
    found = verdict([*events, end, DONE])
    assert sentences(found) == ["after the last epoch, model:fc.weight differs from the record"]


def test_values_after_the_last_check_are_unverified() -> None:
    events = [*epoch(0), check(1), *epoch(1), *epoch(2), DONE]
    assert standings(verdict(events)) == ["exact", "unverified", "unverified"]


def test_check_inside_the_iteration_is_enough() -> None:
    first, rest = epoch(0)[:2], epoch(0)[2:]
    assert standings(verdict([*first, check(0, 0), *rest, DONE])) == ["exact"]


def test_nothing_comparable_verifies_nothing() -> None:
    nothing = check(1, torch=None, history=None, weight=None)
    assert standings(verdict([*epoch(0), nothing, DONE])) == ["unverified"]


def test_log_that_differs() -> None:
    events = [*epoch(0), check(1), *epoch(1, loss=0.35), check(2), *epoch(2), check(3), DONE]
    found = verdict(events)
    assert standings(found) == ["exact", "diverged", "exact"]
    assert sentences(found) == ["epoch 1: the record logged loss=1.31, the replay 0.35"]
    assert found.findings[0].at == (1,)


def test_state_that_differs_spoils_what_comes_after() -> None:
    events = [
        *epoch(0),
        check(1),
        *epoch(1),
        check(2, weight="other", history="other"),
        *epoch(2),
        check(3, weight="other"),
        DONE,
    ]
    found = verdict(events)
    assert standings(found) == ["exact", "diverged", "diverged"]
    (finding,) = found.findings
    assert finding.what == "before epoch 2, history and model:fc.weight differ from the record"
    assert finding.leaves == ("history", "model:fc.weight")
    # The rules knew that the loop changes the model.
    assert finding.missed == ("history",)


def test_state_that_differs_after_a_block() -> None:
    found = verdict([*epoch(1, skips=False), check(1, 0, weight="other"), DONE])
    assert sentences(found) == [
        "after the loop in line 2 in epoch 1, model:fc.weight differs from the record"
    ]
    assert standings(found) == ["diverged"]


def test_leaf_that_is_missing_differs() -> None:
    found = verdict([*epoch(0), check(1, history="missing"), DONE])
    assert standings(found) == ["diverged"]
    assert found.findings[0].leaves == ("history",)


def test_statement_that_draws_random_numbers() -> None:
    changed = {"e": "changed", "n": 0, "at": [0], "line": 3, "leaves": ["@torch"]}
    again = {**changed, "at": [1]}
    events = [*epoch(0), changed, check(1, torch="other"), *epoch(1), again, DONE]
    found = verdict(events)
    assert standings(found) == ["diverged", "diverged"]
    why = "it draws random numbers; training went on with other numbers"
    assert sentences(found) == [
        f"the statement added in line 3 changed @torch: {why}",
        "before epoch 1, @torch differs from the record",
    ]
    assert found.findings[1].missed == ()


def test_change_that_no_check_can_see_leaves_doubt() -> None:
    changed = {"e": "changed", "n": 0, "at": [0], "line": 3, "leaves": ["cache"]}
    found = verdict([*epoch(0), changed, check(1), *epoch(1), check(2), DONE])
    assert standings(found) == ["exact", "unverified"]
    assert sentences(found) == [
        "the statement added in line 3 changed cache; training went on with other values"
    ]


def test_log_that_is_missing_or_new() -> None:
    missing = [event for event in epoch(0) if event.get("name") != "loss"]
    assert sentences(verdict([*missing, DONE])) == [
        "epoch 0: the record logged loss=0.31, the replay did not"
    ]
    extra = log(0, "x" * 100, name="print", via="print")
    (what,) = sentences(verdict([*epoch(0), extra, DONE]))
    assert what.startswith("epoch 0: the replay printed 'xxx")
    assert what.endswith("..., the record did not")


def test_log_of_a_skipped_block_is_not_expected_and_of_a_computed_one_is() -> None:
    computed = [e for e in epoch(0, skips=False) if e.get("name") != "step"]
    (what,) = sentences(verdict([*computed, DONE]))
    assert what == "epoch 0: the record logged step=0, the replay logged loss=0.31"
    both = [
        *epoch(0, skips=False),
        {"e": "block", "n": 0, "i": 0, "b": 1, "site": 1, "skipped": True, "s": 0.0},
    ]
    assert sentences(verdict([*both, DONE])) == []
    other = log(0, 7, name="step", line=4, at=[0, 0])
    assert sentences(verdict([*both, other, DONE])) == [
        "epoch 0: the replay logged step=7, the record did not"
    ]


def test_log_of_a_removed_statement_is_not_expected() -> None:
    without = [event for event in epoch(0) if event.get("name") != "loss"]
    assert sentences(verdict([*without, DONE], removed=[4])) == []


def test_lines_tell_statements_apart() -> None:
    moved = [{**event, "line": 9} if event.get("name") == "loss" else event for event in epoch(0)]
    assert len(sentences(verdict([*moved, DONE]))) == 1


def test_replay_that_was_killed() -> None:
    found = verdict([*epoch(0), check(1), *epoch(1)[:2]])
    assert found.findings == ()
    assert found.notes == ("the replay ended early, in epoch 1: later values are missing",)


def test_iterations_on_the_way_are_not_judged() -> None:
    way = [event for event in epoch(0) if event["e"] != "log"]
    segment = Segment(start=1, stop=2, first=0, is_jump=False)
    found = verdict([*way, *epoch(1), check(2), DONE], segment)
    assert found.findings == ()
    assert standings(found) == ["exact"]
    assert len(verdict([*way, *epoch(1), check(2), DONE]).findings) == 1


def test_loop_that_ended_before_it_should() -> None:
    segment = Segment(start=0, stop=3, first=0, is_jump=False)
    found = verdict([*epoch(0), check(1), *epoch(1), DONE], segment)
    assert sentences(found) == ["the record has epoch 2, the replay ended before it"]


@pytest.mark.parametrize(
    "event", [{}, {"e": "iter"}, {"e": "check", "at": [99, 9], "leaves": {}}, {"e": "log"},
              {"e": "check", "at": [], "leaves": {}}, {"e": "changed"}, {"e": "new", "n": 0},
              {"e": "log", "n": 1, "at": [0]}, {"e": "block", "i": 77, "skipped": True}],
)  # fmt: skip
def test_events_that_make_no_sense_are_left_out(event: Event) -> None:
    plain = verdict([*epoch(0), check(1), DONE])
    assert verdict([*epoch(0), event, check(1), DONE]) == plain


def test_segments_are_merged_in_order_and_findings_limited() -> None:
    note: Event = {"e": "note", "text": "another number of threads"}
    parts = [verdict([note, *epoch(2), check(3), DONE]), verdict([note, *epoch(0), DONE])]
    found = merge_results(parts)
    assert [row.value.at[0] for row in found.rows] == [0, 0, 2, 2]
    assert found.notes == ("another number of threads",)
    many = [HindsightFinding(loop=0, at=(i,), what=f"epoch {i}") for i in range(25)]
    found = merge_results([Judgement(findings=tuple(many[12:])), Judgement(findings=tuple(many))])
    assert [each.at[0] for each in found.findings] == list(range(20))
    assert found.notes == ("5 more differences from the record not shown",)
    assert merge_results([]) == Judgement()


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (math.nan, math.nan, True),
        (0.1 + 0.2, 0.3, False),
        (0.0, -0.0, False),
        (1, 1.0, False),
        (1, True, False),
        ([1.0, {"a": math.nan}], [1.0, {"a": math.nan}], True),
        ([1.0], [1.0, 2.0], False),
        ("loss 0.31", "loss 0.31", True),
        ("loss 0.3100001", "loss 0.3100002", False),
        ("loss 0.31, took 12.5 s", "loss 0.31, took 0.02 s", True),
        ("<object at 0x7f3b2c1d4e50>", "<object at 0x7f0011223344>", True),
        ("1.5", 1.5, False),
    ],
)
def test_same_value(old: object, new: object, expected: bool) -> None:
    assert is_same_value(old, new) == expected
