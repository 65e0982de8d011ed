"""Time and memory of a replay, as pictures for a page."""

from __future__ import annotations

import math

from chexpoint.model import Replay, format_seconds
from chexpoint.view.plan_chart import Chart, draw_chart
from chexpoint.view.plan_lines import percent
from chexpoint.view.plan_picture import PLAN_RULES
from chexpoint.view.svg import px
from chexpoint.view.text import xml


def time_bars(replay: Replay) -> str:
    """Return what the versions took as bars: recorded, without checkpoints, and replayed."""
    rows = (
        ("recorded", "each version by itself", replay.recorded_seconds, ""),
        ("without checkpoints", "at the speed of this replay", replay.no_cache_seconds, ""),
        ("replayed", "with start-up and planning", replay.seconds, " now"),
    )
    longest = max((seconds for _, _, seconds, _ in rows if math.isfinite(seconds)), default=0.0)
    made = "".join(
        f'<div class="bar{style}"><dt>{name} <small>{what}</small></dt>'
        f"<dd>{bar_html(seconds, longest)}<b>{format_seconds(seconds)}</b></dd></div>"
        for name, what, seconds, style in rows
    )
    return f'<dl class="bars">{made}</dl>'


def bar_html(part: float, whole: float) -> str:
    """Return a bar that is filled as far as a part is of a whole."""
    share = 100 * min(max(part / whole, 0.0), 1.0) if 0 < whole < math.inf else 0.0
    return f'<span class="track"><i style="width:{share:.1f}%"></i></span>'


def overhead_line(replay: Replay) -> str:
    """Return what checkpoints cost."""
    spent = format_seconds(replay.overhead_seconds)
    share = percent(replay.overhead_seconds, replay.seconds)
    return f"{spent} ({share}) went into planning, checkpoints and restores"


def memory_svg(replay: Replay, width: int) -> str:
    """Return what checkpoints held over time, with the budget."""
    held = [(moment.time, moment.held_bytes) for moment in replay.memory]
    chart = draw_chart(
        Chart(end=replay.seconds, held=held, budget=replay.budget_bytes, lanes=()),
        top=8,
        width=width,
    )
    title = f"Memory of checkpoints over {format_seconds(replay.seconds)}"
    return (
        f'<svg class="chex-tree chart" xmlns="http://www.w3.org/2000/svg" role="img"'
        f' aria-label="{xml(title)}" width="{width}" height="{px(chart.height)}"'
        f' viewBox="0 0 {width} {px(chart.height)}">'
        f"<style>{PLAN_RULES}</style>\n{chart.svg}</svg>"
    )
