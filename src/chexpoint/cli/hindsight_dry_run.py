"""What ``chex hindsight --dry-run`` says: what would be replayed, and how long it would take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from chexpoint.model import format_seconds

if TYPE_CHECKING:
    from chexpoint.replay import HindsightPlan


def plan_lines(plans: Sequence[HindsightPlan], left_out: Mapping[str, str]) -> Iterator[str]:
    """Yield what would be replayed of each version, in lines."""
    for plan in plans:
        took = f"training took {format_seconds(plan.recorded_seconds)}"
        what = _counted(plan.iterations, "iteration")
        yield f"{plan.version}: {what}, about {format_seconds(plan.seconds)} ({took})"
        for probe in plan.probes:
            part = probe.segment
            if not part.first:
                way = "from the beginning"
            elif part.is_jump:
                way = f"from the state before {part.first}"
            else:
                way = "with the iterations before it skipped"
            takes = format_seconds(probe.seconds)
            yield (
                f"  loop {probe.loop + 1} of cell {probe.cell + 1}: "
                f"{part.start}:{part.stop} {way}, {takes}"
            )
        yield from (f"  note: {note}" for note in plan.notes)
    for version, reason in left_out.items():
        yield f"{version}: left out: {reason}"


def plans_json(plans: Sequence[HindsightPlan], left_out: Mapping[str, str]) -> dict[str, Any]:
    """Return the same for programs."""
    return {
        "dry_run": True,
        "versions": [
            {
                "version": plan.version,
                "iterations": plan.iterations,
                "seconds": plan.seconds,
                "recorded_seconds": plan.recorded_seconds,
                "parts": [
                    {
                        "cell": probe.cell,
                        "loop": probe.loop,
                        "start": probe.segment.start,
                        "stop": probe.segment.stop,
                        "first": probe.segment.first,
                        "is_jump": probe.segment.is_jump,
                        "seconds": probe.seconds,
                    }
                    for probe in plan.probes
                ],
                "notes": list(plan.notes),
            }
            for plan in plans
        ],
        "left_out": [
            {"version": version, "reason": reason} for version, reason in left_out.items()
        ],
    }


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
