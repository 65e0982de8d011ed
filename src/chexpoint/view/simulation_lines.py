"""Simulations of clusters as text."""

from __future__ import annotations

import math
from collections.abc import Sequence

from chexpoint.model import ExecutionTree, HostRun, Simulation, format_seconds, format_size
from chexpoint.view.plan_lines import percent
from chexpoint.view.text import aligned, clipped, count

_HOSTS = 20
"""So many are listed; the others are counted."""

_LEAST_WIDTH = 40


def simulation_text(tree: ExecutionTree, simulation: Simulation, *, width: int = 100) -> str:
    """Return what a cluster would do.

    Parameters
    ----------
    width
        How many columns a line may take.
    """
    room = max(width, _LEAST_WIDTH)
    facts = [f"  {line}" for line in aligned(_facts(simulation), (1,))]
    parts = [[simulation_head(tree, simulation), *facts], _hosts(simulation)]
    return "\n\n".join("\n".join(clipped(line, room).rstrip() for line in part) for part in parts)


def simulation_head(tree: ExecutionTree, simulation: Simulation) -> str:
    """Return how long a cluster would take."""
    leaves = sum(not tree.children(node) for node in tree.nodes)
    versions = count(len(tree.versions) or leaves, "version")
    hosts = count(simulation.cluster.hosts, "host")
    head = f"{hosts}: {versions} in {format_seconds(simulation.makespan)}"
    if simulation.cluster.hosts == 1 or simulation.makespan <= 0:
        return head
    faster = simulation.single / simulation.makespan
    return f"{head}, {faster:.3g} times as fast as one alone"


def _facts(simulation: Simulation) -> list[tuple[str, str, str]]:
    cluster, bound = simulation.cluster, simulation.lower_bound
    above = percent(simulation.makespan - bound, bound)
    again = f"{simulation.again:,} of them again" if simulation.again else "none of them twice"
    rows = [
        ("one host alone", format_seconds(simulation.single), ""),
        ("never less than", format_seconds(bound), f"{above} more are needed"),
        ("computing", percent(simulation.utilisation, 1), "of the time of all hosts"),
        ("cells", f"{simulation.computed:,}", f"are computed, {again}"),
        (
            "memory",
            format_size(simulation.peak_bytes),
            f"at most on a host{_of_memory(simulation)}",
        ),
        ("moved", format_size(simulation.bytes_moved), _about_images(simulation)),
    ]
    lost = [host.lost for host in simulation.hosts if host.lost is not None]
    if cluster.losses:
        times = ", ".join(format_seconds(time) for time in sorted(lost))
        rows.append(("lost", f"{len(lost)}", f"after {times}" if lost else "all were done before"))
    return rows


def _of_memory(simulation: Simulation) -> str:
    memory = simulation.cluster.memory
    if math.isinf(memory):
        return ""
    whose = " for all of them" if simulation.cluster.is_shared else ""
    return f", of {format_size(memory)}{whose}"


def _about_images(simulation: Simulation) -> str:
    if not simulation.cluster.bandwidth:
        return "no states are shipped: give --bandwidth"
    if not simulation.images:
        return "no state is worth shipping"
    loads = sum(simulation.loads.values())
    return f"{count(len(simulation.images), 'image')} stored, {count(loads, 'time')} loaded"


def _hosts(simulation: Simulation) -> list[str]:
    runs = simulation.hosts[:_HOSTS]
    rows: list[Sequence[str]] = [("host", "done at", "computing", "cells", "loaded", "memory", "")]
    rows += [_row(number, run, simulation) for number, run in enumerate(runs, start=1)]
    lines = aligned(rows, range(6))
    if rest := simulation.hosts[_HOSTS:]:
        last = format_seconds(max(run.end for run in rest))
        lines.append(f"... and {count(len(rest), 'more host')}, done by {last}")
    return lines


def _row(number: int, run: HostRun, simulation: Simulation) -> Sequence[str]:
    if not run.steps:
        return (str(number), "-", "", "0", "0", "", "has nothing to do")
    loads = sum(step.action == "load" for step in run.steps)
    return (
        str(number),
        format_seconds(run.end),
        percent(run.computing, simulation.makespan),
        f"{len(run.computed):,}",
        f"{loads:,}",
        format_size(run.peak_bytes),
        "" if run.lost is None else "lost then",
    )
