"""``chex plan``: how to replay all versions at the least cost within a memory budget."""

from __future__ import annotations

import json
import math
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from chexpoint.cli.command import add_json_option
from chexpoint.cli.picture_files import (
    add_file_option,
    add_project_option,
    drawing_to_file,
    nothing_recorded,
    print_text,
    project_in,
    refuse_mixture,
    window_width,
)
from chexpoint.cli.plan_simulation import (
    Question,
    add_simulation_options,
    cluster_of,
    refuse_mixture_with_simulation,
    show,
)
from chexpoint.cli.tree_files import only_to, read_tree_file, to_versions
from chexpoint.errors import InvalidValue
from chexpoint.model import Explanation, Plan, Schedule, StepCosts, parse_size

if TYPE_CHECKING:
    import argparse

    from chexpoint.model import ExecutionTree, NodeId, Seconds
    from chexpoint.view import PlanRow

UNLIMITED = "unlimited"

_SAMPLE_BUDGET = 2**30
"""That of the paper's own measurements; samples have nothing to do with this machine."""

_TIME = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(s|m|min|h|d)?\s*")
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_PATIENCE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """What is to be planned."""

    tree: ExecutionTree
    names: Mapping[NodeId, Any] | None
    """What to call nodes in JSON instead, if that is not their id."""
    budget: float
    costs: StepCosts
    options: Mapping[str, Any]
    """What the user asked of the planner."""


class PlanCommand:
    """Plan a replay of all versions."""

    name = "plan"
    summary = "plan how to replay all versions within a memory budget"
    example = (
        "  chex plan                                  all versions of this project\n"
        "  chex plan baseline tuned --budget 2G       two of them\n"
        "  chex plan --within 10m                     as many as can be done in that time\n"
        "  chex plan --workers 2 --svg plan.svg       two engines side by side, as a picture\n"
        "  chex plan --tree tree.json --json          a tree file, from `chex tree --json`\n"
        "  chex plan --sample an --compare            no project: planners on a sample tree\n"
        "  chex plan --simulate --workers 64 --memory-per-host 16G --bandwidth 1GB/s\n"
        "                                             what a cluster would make of it\n\n"
        "Nothing is run.  SIZE is written like 512M or 4G, or is 0 or unlimited; by default it is\n"
        "what a kernel would take, and 1G for samples.  TIME is written like 90, 90s, 10m or 2h,\n"
        "RATE like 100MB/s or 1GB/s."
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add what to plan, with what, and how to show it."""
        parser.add_argument(
            "versions",
            metavar="VERSION",
            nargs="*",
            help="plan for these versions, or nodes, only",
        )
        add_project_option(parser)
        source = parser.add_mutually_exclusive_group()
        source.add_argument(
            "--tree", metavar="FILE", help="plan for a tree file instead; - is standard input"
        )
        source.add_argument(
            "--sample",
            metavar="KIND",
            help="plan for a sample tree instead: ci, di, an (those of the CHEX paper), chain, "
            "star, caterpillar, equal, zero or binary",
        )
        parser.add_argument("--seed", metavar="N", type=int, help="draw another sample tree")
        parser.add_argument("--budget", metavar="SIZE", help="memory for checkpoints")
        parser.add_argument("--planner", metavar="NAME", help="how to plan; --compare lists them")
        parser.add_argument(
            "--workers", metavar="N", type=int, help="plan for N engines that share the budget"
        )
        parser.add_argument(
            "--within", metavar="TIME", help="plan for as many versions as can be done in TIME"
        )
        for name, what in (("checkpoint", "taking"), ("restore", "restoring")):
            parser.add_argument(
                f"--{name}-cost",
                metavar="TIME",
                help=f"what {what} a checkpoint costs; nothing by default, and with --simulate "
                "what it costs in a replay",
            )
        add_simulation_options(parser)
        parser.add_argument("--time-limit", metavar="TIME", help="about how long planning may take")
        parser.add_argument("--compare", action="store_true", help="show what every planner makes")
        parser.add_argument("--steps", action="store_true", help="show every step")
        add_file_option(parser, "--svg", "draw the plan")
        add_json_option(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Print or draw the plan, and return 0."""
        from chexpoint.view import PLAN_START

        refuse_mixture(svg=args.svg, json=args.json)
        file = drawing_to_file(args.svg, suffix=".svg", start=PLAN_START, verb="chex plan")
        refuse_mixture_with_simulation(args)
        if args.compare:
            _refuse_beside_compare(args)
        task = _task(args)
        if args.simulate:
            question = _question(task, args)
            with patience():
                answer = question.answer()
            show(
                *(question, answer),
                names=task.names,
                is_json=args.json,
                is_drawn=bool(args.svg),
                file=file,
            )
            return 0
        if args.compare:
            _compare(task, is_json=args.json)
            return 0
        with patience():
            found = _planned(task)
            drawn = _drawn(task, found) if args.svg else ""
        if file is not None:
            file.write_text(drawn, encoding="utf-8")
        if args.json:
            print(json.dumps(_judged(task, found)))
        elif file is not None:
            print_text(f"drew {file}")
        elif drawn:
            print_text(drawn, "xmlcharrefreplace")
        else:
            print_text(_told(task, found, steps=args.steps))
        return 0


# ---------------------------------------------------------------- what is asked


def _refuse_beside_compare(args: argparse.Namespace) -> None:
    given = {
        "--planner": args.planner,
        "--workers": args.workers,
        "--within": args.within,
        "--svg": args.svg,
        "--steps": args.steps or None,
    }
    for flag, value in given.items():
        if value is not None:
            raise InvalidValue(f"--compare shows all planners beside each other: leave out {flag}")


def _task(args: argparse.Namespace) -> _Task:
    budget = None if args.budget is None else parse_budget(args.budget)
    options: dict[str, Any] = {}
    if args.planner is not None:
        options["planner"] = args.planner
    if args.within is not None:
        options["within"] = parse_time(args.within)
    if args.workers is not None:
        if args.workers < 1:
            raise InvalidValue(f"{args.workers} engines can do nothing: give --workers 1 or more")
        options["workers"] = args.workers
    if args.time_limit is not None:
        options["seconds"] = parse_time(args.time_limit)
    tree, names = _tree(args)
    if budget is None:
        budget = _SAMPLE_BUDGET if args.sample is not None else _budget_here(args)
    return _Task(tree=tree, names=names, budget=budget, costs=_costs(args), options=options)


def _costs(args: argparse.Namespace) -> StepCosts:
    """Return what steps cost: nothing unless told, but what they do cost for a simulation."""
    costs = StepCosts()
    if args.simulate:
        from chexpoint.replay import STEP_COSTS

        costs = STEP_COSTS
    if args.checkpoint_cost is not None:
        seconds = parse_time(args.checkpoint_cost)
        costs = replace(costs, checkpoint=seconds, checkpoint_per_byte=0.0)
    if args.restore_cost is not None:
        seconds = parse_time(args.restore_cost)
        costs = replace(costs, restore=seconds, restore_per_byte=0.0)
    return costs


def _question(task: _Task, args: argparse.Namespace) -> Question:
    cluster = cluster_of(args, task.budget, parse_budget=parse_budget, parse_time=parse_time)
    options = {name: value for name, value in task.options.items() if name != "workers"}
    return Question(tree=task.tree, cluster=cluster, costs=task.costs, options=options)


def _tree(args: argparse.Namespace) -> tuple[ExecutionTree, Mapping[NodeId, Any] | None]:
    """Return the tree to plan for, and what its nodes are called if not by their ids."""
    from chexpoint.plan import sample_tree

    names: Mapping[NodeId, Any] | None = None
    if args.seed is not None and args.sample is None:
        raise InvalidValue("--seed draws another sample: give --sample KIND as well")
    if args.sample is not None:
        tree = sample_tree(args.sample, seed=args.seed or 0)
    elif args.tree is not None:
        tree, names = read_tree_file(args.tree)
    else:
        project = project_in(args.project)
        tree = project.tree().current()
        if not tree.nodes:
            raise nothing_recorded(project)
        tree = to_versions(tree)
    return (only_to(tree, args.versions) if args.versions else tree), names


def parse_budget(text: str) -> float:
    """Return the bytes that a text means; infinity if there is no limit.

    Raises
    ------
    InvalidValue
        If it is no size.
    """
    word = text.strip().lower()
    if word in {"0", UNLIMITED}:
        return 0 if word == "0" else math.inf
    try:
        return parse_size(text)
    except InvalidValue:
        raise InvalidValue(
            f"'{text}' is not a budget. Write for example 512M, 4G, 0 or {UNLIMITED}."
        ) from None


def parse_time(text: str) -> Seconds:
    """Return the seconds that a text means: ``"90"``, ``"90s"``, ``"10m"``, ``"2h"``.

    Raises
    ------
    InvalidValue
        If it is no time.
    """
    match = _TIME.fullmatch(text.lower())
    seconds = float(match[1]) * _SECONDS[match[2] or "s"] if match else math.inf
    if not math.isfinite(seconds):
        raise InvalidValue(f"'{text}' is not a time. Write for example 90, 90s, 10m or 2h.")
    return seconds


def _budget_here(args: argparse.Namespace) -> float:
    """Return the budget that a kernel would have on this machine."""
    from chexpoint.config import Config
    from chexpoint.engine import default_budget

    return Config.at(args.project).size("budget") or default_budget()


# ---------------------------------------------------------------- what comes of it


def _planned(task: _Task) -> Plan | Schedule:
    from chexpoint.plan import plan

    found: Plan | Schedule = plan(task.tree, task.budget, costs=task.costs, **task.options)
    return found


def _judged(task: _Task, found: Plan | Schedule) -> dict[str, Any]:
    """Return a plan as JSON; whoever reads it may rely on it."""
    from chexpoint.plan import judge_plan

    for one in _lanes(found):
        judge_plan(task.tree, one, costs=task.costs, leaves=(*one.versions, *one.left_out))
    return found.to_json(task.names)


def _lanes(found: Plan | Schedule) -> tuple[Plan, ...]:
    return (found,) if isinstance(found, Plan) else found.lanes


def _explained(task: _Task, found: Plan | Schedule) -> list[Explanation]:
    from chexpoint.plan import explain

    return [explain(task.tree, one, costs=task.costs) for one in _lanes(found)]


def _told(task: _Task, found: Plan | Schedule, *, steps: bool) -> str:
    from chexpoint.view import plan_text, schedule_text

    explained, width = _explained(task, found), window_width()
    if isinstance(found, Plan):
        return plan_text(task.tree, explained[0], width=width, steps=steps)
    return schedule_text(task.tree, found, explained, width=width, steps=steps)


def _drawn(task: _Task, found: Plan | Schedule) -> str:
    from chexpoint.view import plan_svg, schedule_svg

    explained = _explained(task, found)
    if isinstance(found, Plan):
        return plan_svg(task.tree, explained[0])
    return schedule_svg(task.tree, found, explained)


def _compare(task: _Task, *, is_json: bool) -> None:
    from chexpoint.plan import PLANNERS, explain, plan
    from chexpoint.view import PlanRow, comparison_text

    rows = []
    for name in PLANNERS:
        with patience(name):
            started = time.perf_counter()
            found: Plan = plan(
                task.tree, task.budget, planner=name, costs=task.costs, **task.options
            )
            seconds = time.perf_counter() - started
            explanation = explain(task.tree, found, costs=task.costs)
        rows.append(
            PlanRow(
                plan=found,
                peak_bytes=explanation.peak_bytes,
                checkpoints=sum(step.action == "checkpoint" for step in found.steps),
                seconds=seconds,
            )
        )
    if is_json:
        print(json.dumps(_comparison_json(rows, task.names)))
    else:
        print_text(comparison_text(rows, width=window_width()))


def _comparison_json(
    rows: Sequence[PlanRow], names: Mapping[NodeId, Any] | None
) -> list[dict[str, Any]]:
    return [
        {
            **row.plan.to_json(names),
            "peak_bytes": row.peak_bytes,
            "checkpoints": row.checkpoints,
            "seconds": row.seconds,
        }
        for row in rows
    ]


@contextmanager
def patience(planner: str = "", *, after: Seconds = _PATIENCE_S) -> Iterator[None]:
    """Tell a user at a terminal that planning takes a while, if it does."""
    if not sys.stderr.isatty():
        yield
        return
    from threading import Timer

    from rich.console import Console

    status = Console(stderr=True).status(f"planning {planner}".rstrip())
    timer = Timer(after, status.start)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        status.stop()
