"""How good and how fast the reuse planners are, as JSON.

python tests/bench/graph_planning.py            everything (about ten minutes on two cores)
python tests/bench/graph_planning.py --quick    a fiftieth of the workloads
python tests/bench/graph_planning.py --only brute_force,thousand_cells

Times are CPU times of whole calls of `plan_reuse`, with its checks.  Each problem is made, planned
by each algorithm, and forgotten.  Costs are those of `cost_of`, which knows no planner.
"""

from __future__ import annotations

import gc
import math
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from chexpoint.graph.checking import cost_of
from chexpoint.graph.planning import ReuseAlgorithm, plan_reuse
from chexpoint.graph.problem import NEVER, ArtifactCost, CellCost, ReusePlan, ReuseProblem

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.sections import Row, run_sections

Generator = Callable[[Random], ReuseProblem]

ALGORITHMS: tuple[ReuseAlgorithm, ...] = ("cut", "linear", "helix")

HELIX_LIMIT_S = 120.0
"""CPU time that Helix's planner may take for all workloads; then it gets a sample of each kind."""


# ---------------------------------------------------------------- problems


def log_normal(rng: Random, median: float, sigma: float = 1.5) -> float:
    return median * math.exp(rng.gauss(0.0, sigma))


def load_s(rng: Random, median: float, stored: float) -> float:
    return log_normal(rng, median) if rng.random() < stored else NEVER


def published(rng: Random, nodes: int, stored: float, *, has_all: bool) -> ReuseProblem:
    """Return a workload with the degrees of the one graph that the authors have published.

    139 vertices, 149 edges: nearly a tree of long rows, with joins here and there.  Each operation
    gives one artifact.  Wanted is a leaf at random, as in the authors' benchmark, or all of them,
    as in a workload.
    """
    cells, artifacts = [], []
    leaves = set(range(nodes))
    for index in range(nodes):
        reads = set()
        if index:
            reads.add(index - 1 if rng.random() < 0.9 else rng.randrange(index))
            if rng.random() < 0.07:
                reads.add(rng.randrange(index))
        leaves -= reads
        cells.append(CellCost(log_normal(rng, 0.2), tuple(sorted(reads))))
        artifacts.append(ArtifactCost(index, load_s(rng, 0.3, stored)))
    targets = leaves if has_all else {rng.choice(sorted(leaves))}
    return ReuseProblem(tuple(cells), tuple(artifacts), frozenset(targets))


def notebook(rng: Random, artifacts: int, stored: float, cells: int = 0) -> ReuseProblem:
    """Return a notebook: cells read variables of late, write some anew and some over.

    It ends with as many cells as asked for, or else as many artifacts.  Wanted is what the last
    cell writes.
    """
    found: list[CellCost] = []
    made: list[ArtifactCost] = []
    live: list[int] = []
    while len(found) < cells if cells else len(made) < artifacts:
        reads = set()
        for _ in range(rng.choice((1, 1, 2, 2, 3)) if live else 0):
            back = min(int(rng.expovariate(1 / 6)), len(live) - 1)
            reads.add(live[-1 - back] if rng.random() < 0.9 else rng.choice(live))
        for _ in range(rng.choice((1, 1, 2, 3))):
            old = [each for each in sorted(reads) if each in live]
            if old and rng.random() < 0.5:
                live.remove(rng.choice(old))
            elif len(live) > 60:
                live.pop(rng.randrange(30))
            live.append(len(made))
            made.append(ArtifactCost(len(found), load_s(rng, 1.0, stored)))
        found.append(CellCost(log_normal(rng, 0.5), tuple(sorted(reads))))
    last = len(found) - 1
    targets = frozenset(index for index, each in enumerate(made) if each.cell == last)
    return ReuseProblem(tuple(found), tuple(made), targets)


def chain(rng: Random, cells: int, stored: float) -> ReuseProblem:
    """Return a row of cells, each of which reads all that the one before writes."""
    found, made = [], []
    for index in range(cells):
        reads = (2 * index - 2, 2 * index - 1) if index else ()
        found.append(CellCost(log_normal(rng, 0.5), reads))
        made += [ArtifactCost(index, load_s(rng, 1.0, stored)) for _ in range(2)]
    return ReuseProblem(tuple(found), tuple(made), frozenset({2 * cells - 1}))


def wide(rng: Random, cells: int, fan_in: int = 3) -> ReuseProblem:
    """Return the hardest shape: stored results, each of which shares bases with others."""
    bases = cells // 2
    found = [CellCost(log_normal(rng, 0.5, 1.0)) for _ in range(bases)]
    made = [ArtifactCost(index) for index in range(bases)]
    for index in range(bases, cells - 1):
        reads = tuple(sorted(rng.sample(range(bases), fan_in)))
        found.append(CellCost(log_normal(rng, 0.5, 1.0), reads))
        made.append(ArtifactCost(index, log_normal(rng, 1.0, 1.0)))
    found.append(CellCost(0.1, tuple(range(bases, cells - 1))))
    made.append(ArtifactCost(cells - 1))
    return ReuseProblem(tuple(found), tuple(made), frozenset({cells - 1}))


def small(rng: Random) -> ReuseProblem:
    """Return a problem for which everything can be tried."""
    cells: list[CellCost] = []
    artifacts: list[ArtifactCost] = []
    for index in range(rng.randint(3, 10)):
        reads = rng.choices(range(len(artifacts)), k=rng.randint(0, 3)) if artifacts else []
        seconds = (
            NEVER if rng.random() < 0.05 else rng.choice((rng.random() * 5, rng.randint(0, 5)))
        )
        cells.append(CellCost(seconds, tuple(reads), rng.random() < 0.05))
        for _ in range(rng.randint(1, 3)):
            cost = rng.choice((rng.random() * 8, float(rng.randint(0, 8)), NEVER))
            artifacts.append(ArtifactCost(index, cost))
    targets = rng.sample(range(len(artifacts)), min(len(artifacts), rng.randint(1, 3)))
    return ReuseProblem(tuple(cells), tuple(artifacts), frozenset(targets))


# ---------------------------------------------------------------- sections


def least_cost(problem: ReuseProblem) -> float:
    """Return the cost of the cheapest plan, by trying all sets of cells."""
    best = NEVER
    for choice in range(2 ** len(problem.cells)):
        run = frozenset(cell for cell in range(len(problem.cells)) if choice >> cell & 1)
        needed = problem.targets.union(*(problem.cells[cell].reads for cell in run))
        load = frozenset(each for each in needed if problem.artifacts[each].cell not in run)
        best = min(best, cost_of(problem, ReusePlan(run, load)))
    return best


def brute_force(quick: bool) -> Row:
    """The planners against everything that can be done."""
    count = 100 if quick else 400
    equal: dict[str, int] = dict.fromkeys(ALGORITHMS, 0)
    no_way = 0
    for seed in range(count):
        problem = small(Random(seed))
        best = least_cost(problem)
        no_way += best == NEVER
        for algorithm in ALGORITHMS:
            equal[algorithm] += timed(problem, algorithm)[0] == best
    return {
        "graphs": count,
        "without_a_plan": no_way,
        "equal": equal,
        "is_met": equal["cut"] == equal["helix"] == count,
    }


def timed(problem: ReuseProblem, algorithm: ReuseAlgorithm) -> tuple[float, float]:
    """Return the cost of a plan that has been checked, and the CPU time it took to find."""
    started = time.process_time()
    found = plan_reuse(problem, algorithm=algorithm)
    taken = time.process_time() - started
    cost = cost_of(problem, found) if found.seconds < NEVER else NEVER
    if cost != found.seconds:
        raise AssertionError(f"{algorithm} says {found.seconds}, but it is {cost}")
    return cost, taken


def best_ms(problem: ReuseProblem, algorithm: ReuseAlgorithm) -> float:
    """Return the least of three times: the others say more about the machine."""
    return min(timed(problem, algorithm)[1] for _ in range(3)) * 1e3


def thousand_cells(quick: bool) -> Row:
    """CPU time for 1,000 cells, whose targets need most of them."""
    shapes: dict[str, Generator] = {
        "chain, 5 % stored": lambda rng: chain(rng, 1000, 0.05),
        "notebook, 5 % stored": lambda rng: notebook(rng, 0, 0.05, cells=1000),
        "notebook, 30 % stored": lambda rng: notebook(rng, 0, 0.3, cells=1000),
        "wide": lambda rng: wide(rng, 1000),
    }
    rows: Row = {}
    for name, shape in shapes.items():
        problems = [shape(Random(seed)) for seed in range(5 if quick else 30)]
        gc.collect()
        taken = [best_ms(problem, "cut") for problem in problems]
        linear = [best_ms(problem, "linear") for problem in problems]
        rows[name] = {
            "artifacts": round(statistics.fmean(len(each.artifacts) for each in problems)),
            "cut_ms": {"median": round(statistics.median(taken), 2), "worst": round(max(taken), 2)},
            "linear_ms": round(statistics.median(linear), 2),
        }
    is_met = all(row["cut_ms"]["median"] <= 10 for row in rows.values())
    return {"shapes": rows, "bar_ms": 10, "is_met": is_met}


KINDS: dict[str, Callable[[Random, int], ReuseProblem]] = {
    "published degrees, one leaf, 30 % stored": lambda rng, n: published(
        rng, n, 0.3, has_all=False
    ),
    "published degrees, all leaves, 30 % stored": lambda rng, n: published(
        rng, n, 0.3, has_all=True
    ),
    "notebook, 30 % stored": lambda rng, n: notebook(rng, n, 0.3),
    "notebook, 5 % stored": lambda rng, n: notebook(rng, n, 0.05),
}


def one_kind(generate: Callable[[Random, int], ReuseProblem], count: int, limit_s: float) -> Row:
    """Plan workloads of a kind; Helix plans the first ones, until its time is over."""
    taken: dict[str, list[float]] = {algorithm: [] for algorithm in ALGORITHMS}
    excess = []
    differs = 0
    for seed in range(count):
        rng = Random(seed)
        problem = generate(rng, rng.randint(500, 2000))
        cost: dict[str, float] = {}
        for algorithm in ALGORITHMS:
            if algorithm != "helix" or sum(taken["helix"]) < limit_s:
                cost[algorithm], seconds = timed(problem, algorithm)
                taken[algorithm].append(seconds)
        excess.append(cost["linear"] / cost["cut"] - 1 if cost["cut"] else 0.0)
        differs += cost.get("helix", cost["cut"]) != cost["cut"]
    with_helix = len(taken["helix"])
    helix = sum(taken["helix"])
    return {
        "workloads": count,
        "cut_s": round(sum(taken["cut"]), 3),
        "linear_s": round(sum(taken["linear"]), 3),
        "helix_workloads": with_helix,
        "helix_s": round(helix, 3),
        "helix_s_for_all": round(helix / with_helix * count, 1),
        "helix_over_cut": round(helix / sum(taken["cut"][:with_helix]), 1),
        "helix_costs_differ": differs,
        "linear_costlier": sum(each > 0 for each in excess),
        "linear_cheaper": sum(each < 0 for each in excess),
        "linear_excess": {
            "mean": round(statistics.fmean(excess), 4),
            "worst": round(max(excess), 4),
        },
    }


def workloads(quick: bool) -> Row:
    """10,000 workloads of 500 to 2,000 artifacts."""
    count = (200 if quick else 10_000) // len(KINDS)
    limit_s = (20.0 if quick else HELIX_LIMIT_S) / len(KINDS)
    rows = {name: one_kind(generate, count, limit_s) for name, generate in KINDS.items()}
    cut = sum(row["cut_s"] for row in rows.values())
    helix = sum(row["helix_s_for_all"] for row in rows.values())
    is_sample = any(row["helix_workloads"] < count for row in rows.values())
    is_right = not any(row["helix_costs_differ"] or row["linear_cheaper"] for row in rows.values())
    return {
        "kinds": rows,
        "workloads": count * len(KINDS),
        "cut_s": round(cut, 2),
        "linear_s": round(sum(row["linear_s"] for row in rows.values()), 2),
        "helix_s": round(helix, 1),
        "helix_is": "extrapolated from the workloads it planned" if is_sample else "measured",
        "helix_over_cut": round(helix / cut, 1),
        "bar": 40,
        "is_met": helix / cut >= 40 and is_right,
    }


SECTIONS: dict[str, Callable[[bool], Row]] = {
    "brute_force": brute_force,
    "thousand_cells": thousand_cells,
    "workloads": workloads,
}


if __name__ == "__main__":
    raise SystemExit(run_sections(SECTIONS, about=__doc__, quick_help="fewer workloads"))
