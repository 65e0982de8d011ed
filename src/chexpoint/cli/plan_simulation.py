"""``chex plan --simulate``: what a replay on a cluster would be like."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from chexpoint.cli.picture_files import print_text, window_width
from chexpoint.errors import InvalidValue
from chexpoint.model import Cluster, StepCosts, parse_size

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from chexpoint.model import ExecutionTree, NodeId, Seconds, Simulation

_PER_SECOND = re.compile(r"\s*(?:/\s*s|ps)\s*$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is to be simulated."""

    tree: ExecutionTree
    cluster: Cluster
    costs: StepCosts
    options: Mapping[str, Any]

    def answer(self) -> Simulation:
        """Return what comes of it; whoever reads it may rely on it."""
        from chexpoint.plan import check_simulation, simulate

        found = simulate(self.tree, self.cluster, costs=self.costs, **self.options)
        check_simulation(self.tree, found, costs=self.costs)
        return found


def add_simulation_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what a cluster is like."""
    parser.add_argument(
        "--simulate",
        action="store_true",
        help="show what a replay would be like on --workers N hosts, which need not be there",
    )
    parser.add_argument(
        "--bandwidth",
        metavar="RATE",
        help="with --simulate: states may be shipped, at RATE between each host and the store",
    )
    parser.add_argument(
        "--memory-per-host",
        metavar="SIZE",
        help="with --simulate: memory for the checkpoints of each host, instead of a budget that "
        "all of them share",
    )
    parser.add_argument(
        "--lose", metavar="N", type=int, help="with --simulate: lose N of the hosts on the way"
    )
    for name, what in (("start", "starting an engine"), ("cell", "what surrounds a cell")):
        parser.add_argument(
            f"--{name}-cost", metavar="TIME", help=f"with --simulate: what {what} costs"
        )


def refuse_mixture_with_simulation(args: argparse.Namespace) -> None:
    """Refuse options that do not go together.

    Raises
    ------
    InvalidValue
        If there are any.
    """
    own = {
        "--bandwidth": args.bandwidth,
        "--memory-per-host": args.memory_per_host,
        "--lose": args.lose,
        "--start-cost": args.start_cost,
        "--cell-cost": args.cell_cost,
    }
    others = {
        "--within": args.within,
        "--compare": args.compare or None,
        "--steps": args.steps or None,
        "--budget": args.budget if args.memory_per_host is not None else None,
    }
    for flag, value in own.items():
        if value is not None and not args.simulate:
            raise InvalidValue(f"{flag} says what a cluster is like: give --simulate as well")
    for flag, value in others.items():
        if value is not None and args.simulate:
            beside = "--memory-per-host" if flag == "--budget" else "--simulate"
            raise InvalidValue(f"{flag} does not go together with {beside}: leave one of them out")


def cluster_of(
    args: argparse.Namespace,
    budget: float,
    *,
    parse_budget: Callable[[str], float],
    parse_time: Callable[[str], Seconds],
) -> Cluster:
    """Return the cluster that a user describes.

    Raises
    ------
    InvalidValue
        If there can be no such cluster.
    """
    has_own = args.memory_per_host is not None
    cluster = Cluster(
        hosts=args.workers or 1,
        memory=parse_budget(args.memory_per_host) if has_own else budget,
        is_shared=not has_own,
        bandwidth=0.0 if args.bandwidth is None else parse_rate(args.bandwidth),
        losses=args.lose or 0,
    )
    if args.start_cost is not None:
        cluster = replace(cluster, start=parse_time(args.start_cost))
    if args.cell_cost is not None:
        cluster = replace(cluster, cell=parse_time(args.cell_cost))
    return cluster


def parse_rate(text: str) -> float:
    """Return the bytes a second that a text means: ``"1GB/s"``, ``"100M"``.

    Raises
    ------
    InvalidValue
        If it is no rate.
    """
    try:
        return parse_size(_PER_SECOND.sub("", text))
    except InvalidValue:
        raise InvalidValue(
            f"'{text}' is not a bandwidth. Write for example 100MB/s or 1GB/s, in bytes: "
            "a network of 10 Gbit/s has about 1.1GB/s."
        ) from None


def show(
    question: Question,
    found: Simulation,
    *,
    names: Mapping[NodeId, Any] | None,
    is_json: bool,
    is_drawn: bool,
    file: Path | None,
) -> None:
    """Print or draw a simulation."""
    from chexpoint.view import simulation_svg, simulation_text

    if file is not None:
        file.write_text(simulation_svg(question.tree, found), encoding="utf-8")
    if is_json:
        print(json.dumps(found.to_json(names)))
    elif file is not None:
        print_text(f"drew {file}")
    elif is_drawn:
        print_text(simulation_svg(question.tree, found), "xmlcharrefreplace")
    else:
        print_text(simulation_text(question.tree, found, width=window_width()))
