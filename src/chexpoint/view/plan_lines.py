"""Plans, schedules and comparisons of planners as text."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chexpoint.model import (
    Bytes,
    ExecutionTree,
    Explanation,
    Plan,
    Schedule,
    Seconds,
    format_seconds,
    format_size,
)
from chexpoint.view.plan_story import End, Names, stretches, told
from chexpoint.view.text import aligned, clipped, columns, count, listed, padded, wrapped

_VERSIONS, _CHECKPOINTS = 60, 20
"""So many are listed; the others are counted."""

_LONGEST_LABEL = 28  # columns
_LEAST_WIDTH = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """What a planner has made of a tree."""

    plan: Plan
    peak_bytes: Bytes
    checkpoints: int
    """How many are made."""
    seconds: Seconds
    """What planning took."""


def plan_text(
    tree: ExecutionTree, explanation: Explanation, *, width: int = 100, steps: bool = False
) -> str:
    """Return what a plan does and what that is good for.

    Parameters
    ----------
    width
        How many columns a line may take.
    steps
        Show every step, and not only what they do for each version.
    """
    names, room = Names(tree), max(width, _LEAST_WIDTH)
    parts = [
        [*_wrapped(plan_head(explanation, names), room), *_facts(explanation)],
        _steps(explanation, names) if steps else _story(explanation, names, room),
        _uses(explanation, names),
        list(_remarks([explanation], names, room)),
    ]
    return "\n\n".join(_cut(lines, room) for lines in parts if lines)


def schedule_text(
    tree: ExecutionTree,
    schedule: Schedule,
    explanations: Sequence[Explanation],
    *,
    width: int = 100,
    steps: bool = False,
) -> str:
    """Return what engines do side by side.

    Parameters
    ----------
    explanations
        One for each lane.
    width, steps
        As for `plan_text`.
    """
    names, room = Names(tree), max(width, _LEAST_WIDTH)
    head = list(_wrapped(schedule_head(schedule, explanations, names), room))
    head += _table(
        [
            ("one engine alone", format_seconds(schedule.single), ""),
            ("all together", format_seconds(schedule.work), "are computed"),
            ("budget", budget_text(schedule.budget), "for all of them"),
        ]
    )
    parts = [head]
    for number, explanation in enumerate(explanations, start=1):
        lane = explanation.plan
        share = f"{format_size(explanation.peak_bytes)} at most are held"
        if math.isfinite(lane.budget):
            share = f"{share}, of {format_size(lane.budget)}"
        first = f"engine {number}: {_replayed([explanation], names)} in "
        first += f"{format_seconds(lane.cost)}; {share}"
        story = _steps(explanation, names) if steps else _story(explanation, names, room - 2)
        parts.append([*_wrapped(first, room), *(f"  {line}" for line in story)])
    parts.append(list(_remarks(explanations, names, room)))
    return "\n\n".join(_cut(lines, room) for lines in parts if lines)


def comparison_text(rows: Sequence[PlanRow], *, width: int = 100) -> str:
    """Return what planners have made of the same tree, beside each other."""
    room = max(width, _LEAST_WIDTH)
    bound = max((row.plan.lower_bound for row in rows), default=0.0)
    table = [
        ("planner", "cost", "of no cache", "above bound", "peak", "checkpoints", "planned in"),
        *(
            (
                row.plan.planner,
                format_seconds(row.plan.cost),
                percent(row.plan.cost, row.plan.no_cache_cost),
                percent(row.plan.cost - bound, bound),
                format_size(row.peak_bytes),
                f"{row.checkpoints:,}",
                format_seconds(row.seconds),
            )
            for row in rows
        ),
    ]
    foot = []
    if rows:
        plan = rows[0].plan
        said = f"budget {budget_text(plan.budget)}: {format_seconds(plan.no_cache_cost)} without "
        foot.append(f"{said}checkpoints, and never less than {format_seconds(bound)}, the bound")
    foot += [f"{row.plan.planner}: {note}" for row in rows for note in row.plan.notes]
    below = [line for text in foot for line in _wrapped(text, room)]
    return "\n\n".join((_cut(aligned(table, range(1, 7)), room), _cut(below, room)))


def plan_head(explanation: Explanation, names: Names) -> str:
    """Return how long a plan takes, and how good that is."""
    plan = explanation.plan
    replayed = f"{_replayed([explanation], names)} in {format_seconds(plan.cost)}"
    return f"{plan.planner}: {replayed}, {_quality(plan)}"


def schedule_head(schedule: Schedule, explanations: Sequence[Explanation], names: Names) -> str:
    """Return how long engines take together."""
    engines = count(len(schedule.lanes), "engine")
    head = f"{engines}: {_replayed(explanations, names)} in {format_seconds(schedule.makespan)}"
    if schedule.makespan <= 0:
        return head
    return f"{head}, {schedule.single / schedule.makespan:.3g} times as fast as one alone"


def budget_text(budget: float) -> str:
    """Return a budget, which may be none."""
    return format_size(budget) if math.isfinite(budget) else "unlimited"


def percent(part: float, whole: float) -> str:
    """Return a share, with more digits if it is small."""
    share = 100 * part / whole if whole > 0 else 0.0 if part <= 0 else math.inf
    if not math.isfinite(share):
        return "-"
    return f"{share:.1f} %" if 0.05 <= share < 10 else f"{max(share, 0):.0f} %"


# ---------------------------------------------------------------- head


def _replayed(explanations: Sequence[Explanation], names: Names) -> str:
    done, left_out = _done_and_left_out(explanations, names)
    if not left_out:
        return count(len(done), "version")
    return f"{len(done):,} of {count(len(done) + len(left_out), 'version')}"


def _done_and_left_out(
    explanations: Sequence[Explanation], names: Names
) -> tuple[list[End], list[End]]:
    """Return the versions that are replayed and those that are not, each once."""
    found = [stretch for explanation in explanations for stretch in stretches(explanation)]
    nodes = {node for stretch in found for node in stretch.nodes}
    done = [end for stretch in found for end in names.ends(stretch.nodes, stretch.leaf)]
    leaves = [leaf for explanation in explanations for leaf in explanation.plan.left_out]
    left_out = [end for leaf in leaves for end in names.left_out(leaf, nodes)]
    return list(dict.fromkeys(done)), list(dict.fromkeys(left_out))


def _quality(plan: Plan) -> str:
    if plan.is_optimal:
        return "the least there can be"
    above = percent(plan.cost - plan.lower_bound, plan.lower_bound)
    return f"at most {above} above the least" if above != "-" else "perhaps not the least"


def _facts(explanation: Explanation) -> list[str]:
    plan, once = explanation.plan, explanation.each_once_cost
    saved = percent(plan.no_cache_cost - plan.cost, plan.no_cache_cost)
    more = percent(plan.cost - once, once)
    rows = [
        ("no checkpoints", format_seconds(plan.no_cache_cost), f"{saved} are saved"),
        ("each cell once", format_seconds(once), f"{more} more are needed" if more != "-" else ""),
        (
            "budget",
            budget_text(plan.budget),
            f"{format_size(explanation.peak_bytes)} at most are held",
        ),
        ("cells", f"{explanation.cells_in_versions:,}", _computed(explanation)),
    ]
    return _table(rows)


def _computed(explanation: Explanation) -> str:
    again = len(explanation.recomputed)
    said = f"{explanation.computed:,} are computed"
    return f"{said}, {again:,} of them more than once" if again else f"{said}, none twice"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"  {line}" for line in aligned(rows, (1,))]


# ---------------------------------------------------------------- steps


def _story(explanation: Explanation, names: Names, width: int) -> list[str]:
    """Return what is done for each version, and when that is finished."""
    found = stretches(explanation)
    shown = found[:_VERSIONS]
    times = [format_seconds(stretch.end) for stretch in shown]
    labels = [
        listed([names.label(end) for end in names.ends(s.nodes, s.leaf)], _LONGEST_LABEL)
        for s in shown
    ]
    late = max((columns(time) for time in times), default=0)
    wide = max((columns(label) for label in labels), default=0)
    lines = []
    for stretch, time, label in zip(shown, times, labels, strict=True):
        start = f"{time:>{late}}  {padded(label, wide)}  "
        for text in _wrapped(told(stretch.steps, names), width - columns(start)):
            lines.append(start + text)
            start = " " * columns(start)
    if len(found) > len(shown):
        rest = count(len(found) - len(shown), "more version")
        lines.append(f"... and {rest} by {format_seconds(found[-1].end)}; --steps shows all")
    return lines


def _steps(explanation: Explanation, names: Names) -> list[str]:
    rows = [("step", "done at", "held", "action", "")]
    rows += [
        (
            str(number),
            format_seconds(moment.time),
            format_size(moment.held_bytes),
            moment.step.action,
            names.node(moment.step.node),
        )
        for number, moment in enumerate(explanation.moments, start=1)
    ]
    return aligned(rows, (0, 1, 2))


def _uses(explanation: Explanation, names: Names) -> list[str]:
    """Return what each checkpoint saves, the most useful first."""
    uses = sorted(explanation.uses, key=lambda use: -use.saved)
    if not uses:
        return []
    rows = [("checkpoint", "made at", "takes", "restored", "saves")]
    for use in uses[:_CHECKPOINTS]:
        is_new = use.step >= 0
        made = format_seconds(explanation.moments[use.step].time) if is_new else "before"
        saves = format_seconds(use.saved) if use.saved >= 0 else f"-{format_seconds(-use.saved)}"
        rows.append(
            (
                names.node(use.node),
                made,
                format_size(use.bytes),
                count(use.restores, "time"),
                saves,
            )
        )
    lines = aligned(rows, (1, 2, 3, 4))
    if rest := uses[_CHECKPOINTS:]:
        together = format_seconds(max(math.fsum(use.saved for use in rest), 0.0))
        lines.append(
            f"... and {count(len(rest), 'more checkpoint')}, which save {together} together"
        )
    return lines


def _remarks(explanations: Sequence[Explanation], names: Names, room: int) -> Iterator[str]:
    _, left_out = _done_and_left_out(explanations, names)
    if left_out:
        labels = ", ".join(names.label(end) for end in left_out[:_VERSIONS])
        more = len(left_out) - _VERSIONS
        rest = f", and {count(more, 'more version')}" if more > 0 else ""
        yield from _wrapped(f"no time for: {labels}{rest}", room)
    for note in dict.fromkeys(note for one in explanations for note in one.plan.notes):
        yield from _wrapped(f"note: {note}", room)


# ---------------------------------------------------------------- lines


def _wrapped(text: str, room: int) -> Iterator[str]:
    """Yield a text in lines that fit, broken between words where that can be."""
    for line in textwrap.wrap(text, max(room, 8), break_long_words=False) or [""]:
        yield from wrapped(line, max(room, 8))


def _cut(lines: Sequence[str], room: int) -> str:
    return "\n".join(clipped(line, room).rstrip() for line in lines)
