"""The table of ``chex bench``: from what benchmarks printed to lines, Markdown and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from chexpoint.cli.bench_claims import CLAIMS, NEEDS, Bar, Benchmark, Claim, Figure, Found, Unit

State = Literal["done", "not run", "failed"]

HEADINGS = ("from", "claim", "published", "ours", "ratio", "bar")
SAME_RUN = "*"
LEGEND = f"ratio: ours over published.  {SAME_RUN} measured in the same run, on this machine."

_ABSENT = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a benchmark."""

    state: State
    found: Found = None
    why: str = ""
    """Why there is nothing, in a few words."""
    advice: str = ""
    """What would help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A claim, judged."""

    claim: Claim
    state: State
    why: str = ""
    published: float | None = None
    ours: float | None = None

    @property
    def ratio(self) -> float | None:
        """Ours over the published figure; 0 if ours is below 0, which is noise."""
        if self.ours is None or not self.published:
            return None
        return max(self.ours, 0.0) / self.published

    @property
    def is_met(self) -> bool | None:
        """Whether the bar is reached; None if there is none, or nothing to judge."""
        bar = self.claim.bar
        value = self.ours if bar is None or bar.of == "ours" else self.ratio
        return None if bar is None or value is None else bar.is_met(value)


# ---------------------------------------------------------------- judging


def judged(outcomes: Mapping[str, Outcome]) -> list[Row]:
    """Return the lines of the table for benchmarks by their names."""
    return [
        judge(claim, outcomes[claim.benchmark]) for claim in CLAIMS if claim.benchmark in outcomes
    ]


def judge(claim: Claim, outcome: Outcome) -> Row:
    """Return the line of a claim."""
    fixed = claim.published if isinstance(claim.published, int | float) else None
    if outcome.state != "done":
        return Row(claim=claim, state=outcome.state, why=outcome.why, published=fixed)
    try:
        ours = claim.ours(outcome.found)
        published = fixed if fixed is not None else _published(claim.published, outcome.found)
    except LookupError:
        return Row(claim=claim, state="failed", why=complaint_in(outcome.found), published=fixed)
    return Row(claim=claim, state="done", published=published, ours=ours)


def _published(figure: float | Figure | None, found: Found) -> float | None:
    return figure(found) if callable(figure) else None


def complaint_in(found: Found) -> str:
    """Return why a figure is missing, as far as the benchmark says it."""
    return next(_complaints(found), "the benchmark printed no such figure")


def _complaints(found: Found) -> Iterator[str]:
    if isinstance(found, dict):
        if found.get("failed"):
            yield " ".join(str(found["failed"]).split())
        found = list(found.values())
    if isinstance(found, list):
        for each in found:
            yield from _complaints(each)


def exit_code(rows: Sequence[Row]) -> int:
    """Return 1 if something failed, or a bar is not met."""
    return int(any(row.state == "failed" or row.is_met is False for row in rows))


# ---------------------------------------------------------------- showing


def shown_number(value: float | None, unit: Unit) -> str:
    """Return a figure as people write it."""
    if value is None:
        return _ABSENT
    match unit:
        case "share":
            return f"{value * 100:.3g} %"
        case "times":
            return f"{_short(value)} times"
        case "":
            return _short(value)
    return f"{_short(value)} {unit}"


def _short(value: float) -> str:
    """Return three digits, or all before the point; more of what is just above 1."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if 1 <= value < 1.01 and value != int(value):
        return f"{value:.4f}"
    return f"{value:.3g}"


def shown_bar(bar: Bar | None, unit: Unit) -> str:
    """Return what must be reached."""
    if bar is None:
        return _ABSENT
    sign = "at least" if bar.sense == "least" else "at most"
    if bar.of == "ratio":
        return f"ratio {sign} {_short(bar.limit)}"
    return f"{sign} {shown_number(bar.limit, unit)}"


def cells_of(row: Row) -> tuple[str, ...]:
    """Return a line of the table, as texts."""
    claim = row.claim
    mark = SAME_RUN if callable(claim.published) and row.published is not None else ""
    ours = shown_number(row.ours, claim.unit)
    verdict = {True: ", met", False: ", NOT MET", None: ""}[row.is_met]
    return (
        claim.system,
        claim.what,
        claim.published_as or shown_number(row.published, claim.unit) + mark,
        ours if row.state == "done" else f"{row.state}: {row.why}",
        _ABSENT if row.ratio is None else f"{row.ratio:.2g}",
        shown_bar(claim.bar, claim.unit) + verdict,
    )


def text_lines(rows: Sequence[Row]) -> list[str]:
    """Return the table for a terminal; why something was not run stands below it."""
    lines = [HEADINGS, *(_in_terminal(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            # Words to the left, numbers to the right.
            cell.rjust(width) if at in {2, 3, 4} else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def _in_terminal(row: Row) -> tuple[str, ...]:
    cells = list(cells_of(row))
    cells[3] = cells[3] if row.state == "done" else row.state
    return tuple(cells)


def notes(outcomes: Mapping[str, Outcome]) -> list[str]:
    """Return what there is to say about benchmarks without figures."""
    found = []
    for name, outcome in outcomes.items():
        why, state = outcome.why, outcome.state
        if state == "done":
            missing = [row for row in judged({name: outcome}) if row.state == "failed"]
            if not missing:
                continue
            why, state = missing[0].why, "failed"
        advice = f"; {outcome.advice}" if outcome.advice else ""
        found.append(f"{name}: {state}: {why}{advice}")
    return found


def markdown_lines(rows: Sequence[Row]) -> list[str]:
    """Return the table as Markdown; what is not met is bold."""
    lines = [HEADINGS, ("---",) * len(HEADINGS), *(cells_of(row) for row in rows)]
    return [
        "| "
        + " | ".join(_in_markdown(cell) for cell in line).replace("NOT MET", "**not met**")
        + " |"
        for line in lines
    ]


def _in_markdown(cell: str) -> str:
    return cell.replace("|", "\\|").replace(SAME_RUN, "\\*")


def rows_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return plain JSON types."""
    return [
        {
            "benchmark": row.claim.benchmark,
            "from": row.claim.system,
            "claim": row.claim.what,
            "unit": row.claim.unit,
            "state": row.state,
            "why": row.why,
            "published": row.published,
            "same_run": callable(row.claim.published),
            "ours": row.ours,
            "ratio": row.ratio,
            "bar": _bar_json(row.claim.bar),
            "met": row.is_met,
        }
        for row in rows
    ]


def _bar_json(bar: Bar | None) -> dict[str, Any] | None:
    return None if bar is None else {"limit": bar.limit, "sense": bar.sense, "of": bar.of}


# ---------------------------------------------------------------- what there is


def list_lines(
    benchmarks: Sequence[Benchmark], lacking: Mapping[str, str | None], *, is_full: bool
) -> list[str]:
    """Return a line for each benchmark: what it takes, what it measures, what it lacks.

    Parameters
    ----------
    lacking
        The first thing that each benchmark lacks here, by their names.
    """
    width = max(len(benchmark.name) for benchmark in benchmarks)
    lines = []
    for benchmark in benchmarks:
        takes = minutes(benchmark.seconds(is_full=is_full))
        lack = lacking[benchmark.name]
        missing = f" (not here: no {lack}; {NEEDS[lack]})" if lack else ""
        about = "; ".join(_measured_by(benchmark))
        lines.append(f"{benchmark.name:{width}}  {takes:>7}  {about}{missing}")
    return lines


def list_json(
    benchmarks: Sequence[Benchmark], lacking: Mapping[str, str | None]
) -> list[dict[str, Any]]:
    """Return the same as plain JSON types."""
    return [
        {
            "name": benchmark.name,
            "claims": _measured_by(benchmark),
            "quick_seconds": benchmark.quick_seconds,
            "full_seconds": benchmark.full_seconds,
            "lacks": lacking[benchmark.name],
        }
        for benchmark in benchmarks
    ]


def _measured_by(benchmark: Benchmark) -> list[str]:
    return [claim.what for claim in CLAIMS if claim.benchmark == benchmark.name]


def minutes(seconds: float) -> str:
    """Return a rough time in whole minutes."""
    return f"{round(seconds / 60)} min" if seconds >= 60 else "< 1 min"


def seconds_left(expected: Sequence[float], taken: Sequence[float], current: float) -> float:
    """Return about how long all will take from now on.

    Parameters
    ----------
    expected
        What each benchmark should take.
    taken
        What those took that are done: they tell how fast this machine is.
    current
        How long the next one is already running.
    """
    done = len(taken)
    scale = sum(taken) / sum(expected[:done]) if done else 1.0
    running = max(0.0, expected[done] * scale - current) if done < len(expected) else 0.0
    return running + scale * sum(expected[done + 1 :])
