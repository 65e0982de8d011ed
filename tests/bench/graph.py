"""Bars of the experiment graph, as JSON.

python tests/bench/graph.py                       everything; leave the machine alone for an hour
python tests/bench/graph.py --quick               a tenth of the flights: no figures, a try
python tests/bench/graph.py --only repeated --of w1,w4 --repeats 1 --keep DIR
python tests/bench/graph.py --only repeated,sequence --every 2 --repeats 1      half the size
python tests/bench/graph.py --only sequence --sides none,reuse                  half of its sides

The first sections are benchmarks of their own: plans of reuse, the choice of what is stored, the
database with several writers, the tracking of variables.  The workloads are scripts in the shape
of Table 1 of the paper.  Each is run by plain Python, and then by ``chex record``:

- *repeated*: with an empty graph, once more in the same project, and once more in another one.
  Judged by the seconds of the cells; those of the whole command are beside it.
- *sequence*: all eight one after the other, each in a project of its own, with a graph that they
  share; without reuse, with it, with everything stored, and with a fifth of the room that takes.
  The four take turns at each workload, since the machine is not equally fast at all times.
  The paper's budgets are parts of the size of all artifacts together: that of the second is met if
  it takes no more than a fifth of that on the disk, and is as fast as storing everything.  The last
  one is harder: a fifth of what everything takes on the disk, where each array is once, compressed.
  Judged by the seconds from the first cell of each to its last, so that loading counts; least of
  the rounds, workload by workload.  Beside that of all, the ratio of the three workloads that are
  new and that of the five that are modified.

Whatever is printed must be what plain Python prints, to the last digit.  Cells have one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.graph_run import Graph, Row, no_graph, plain, record, total
from tests.bench.graph_workloads import (
    EIGHT,
    EVERY,
    NEW,
    QUICK_EVERY,
    Workload,
    prepare_data,
    workloads,
)
from tests.bench.hindsight_run import Failed, run
from tests.bench.store_measure import bar, say

AGAIN_BAR = 10.0
SEQUENCE_BAR = 0.5
BUDGET_BAR = 1.05
BUDGET_PART = 0.2
SIDES = ("none", "reuse", "all", "budget")
PARTS = {
    "plan": "graph_planning.py",
    "choose": "graph_choosing.py",
    "ledger": "graph_ledger.py",
    "tracking": "graph_tracking.py",
}
SECONDS = ("cells_s", "version_s", "wall_s")
LEAST_S = 0.001
"""Less is not measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to measure, and how often."""

    works: Mapping[str, Workload]
    repeats: int
    is_quick: bool
    every: int
    """Of so many flights one is left."""
    home: Path
    sides: tuple[str, ...]
    """How the sequence is recorded."""

    def folder(self, *names: object) -> Path:
        """Return a new folder, beside that of the data."""
        made = self.home.joinpath("-".join(map(str, names)))
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
        return made


# ---------------------------------------------------------------- the workloads


def prepared(options: Options) -> Row:
    """Bring the data, and run all workloads with plain Python; return what they print."""
    say("data")
    prepare_data(options.home / "data", every=options.every)
    found = {}
    for name, work in options.works.items():
        say(f"{name}: plain Python")
        found[name] = plain(work, options.folder(name, "plain"))
    return found


def run_repeated(options: Options, reference: Row) -> Row:
    """Measure what reuse saves when workloads are repeated."""
    found: Row = {"every": options.every}
    found["about"] = {name: work.about for name, work in options.works.items()}
    found["plain"] = {name: round(row["wall_s"], 3) for name, row in reference.items()}
    found["of"] = {
        name: _tried(partial(repeated, options, name, reference[name]["printed"]))
        for name in options.works
    }
    return found | {"bars": list(_bars_in(found))}


def run_sequence(options: Options, reference: Row) -> Row:
    """Measure what reuse saves when workloads are modified, one after the other."""
    wanted = {name: row["printed"] for name, row in reference.items()}
    return {"every": options.every} | _tried(partial(sequence, options, wanted))


def _tried(action: Callable[[], Row]) -> Row:
    try:
        return action()
    except Failed as error:
        return {"failed": str(error), "bars": [{"what": "runs", "met": False}]}


def repeated(options: Options, name: str, wanted: str) -> Row:
    """Record a workload without reuse, then three times with a graph of its own."""
    work, place = options.works[name], f"{name}-repeated"
    graph = Graph(folder=options.folder(place, "graph"))
    mine, elsewhere = options.folder(place, "mine"), options.folder(place, "elsewhere")
    say(f"{name}: without reuse, first, again, elsewhere")
    rows = {
        "none": record(work, options.folder(place, "none"), no_graph(options.folder(place, "no"))),
        "first": record(work, mine, graph),
        "again": record(work, mine, graph),
        "elsewhere": record(work, elsewhere, graph),
    }
    equal = _equal([row.pop("printed") for row in rows.values()], [wanted] * len(rows))
    ratios = {
        side: {key: rows["none"][key] / max(rows[side][key], LEAST_S) for key in SECONDS}
        for side in ("again", "elsewhere")
    }
    bars = [
        bar(f"{name}: {side}", times["cells_s"], AGAIN_BAR, "least", **_rounded(times))
        for side, times in ratios.items()
    ]
    bars.append(bar(f"{name}: values", equal, 1.0, "least"))
    first = rows["first"]["version_s"] / rows["none"]["version_s"]
    sizes = {"stored_bytes": graph.stored_bytes()}
    return rows | sizes | {"first_over_none": round(first, 3), "bars": bars}


def sequence(options: Options, wanted: Mapping[str, str]) -> Row:
    """Record the eight in their order with all settings, which take turns at each of them."""
    names = [name for name in EIGHT if name in options.works]
    budget = _fifth_of_all(options, names) if "budget" in options.sides else None
    rounds: list[Row] = []
    for number in range(options.repeats):
        graphs = {
            side: _graph(side, options.folder("sequence", side) / "graph", budget)
            for side in options.sides
        }
        rows: dict[str, Row] = {side: {} for side in options.sides}
        for at, name in enumerate(names, number):
            say(f"sequence, round {number + 1} of {options.repeats}: {name}")
            turn = at % len(options.sides)
            for side in options.sides[turn:] + options.sides[:turn]:
                rows[side][name] = _recorded(options, name, side, graphs[side])
        rounds.append({side: _summed(rows[side], graphs[side]) for side in options.sides})
    equal = min(
        _equal(row[side].pop("printed"), [wanted[name] for name in names])
        for row in rounds
        for side in row
    )
    every_of = {side: [row[side]["of"] for row in rounds] for side in options.sides}
    least = {side: _least(of, names) for side, of in every_of.items()}
    bars = [bar("sequence: values", equal, 1.0, "least")]
    parts: Row = {}
    if {"none", "reuse"} <= least.keys():
        bars.append(_compared("sequence: reuse", least["reuse"], least["none"], SEQUENCE_BAR))
        for part, some in (("new", NEW), ("modified", set(names) - set(NEW))):
            of_part = [name for name in names if name in some]
            ours, theirs = (_least(every_of[side], of_part) for side in ("reuse", "none"))
            parts[part] = _rounded(_ratios(ours, theirs)) if of_part else {}
    if {"reuse", "all"} <= least.keys():
        row = _compared("sequence: reuse against all", least["reuse"], least["all"], BUDGET_BAR)
        last = rounds[-1]
        row["share"] = round(last["reuse"]["stored_bytes"] / last["all"]["artifact_bytes"], 4)
        bars.append(row | {"met": row["met"] and row["share"] <= BUDGET_PART})
    if {"all", "budget"} <= least.keys():
        what = "sequence: a fifth against all"
        bars.append(_compared(what, least["budget"], least["all"], BUDGET_BAR))
    return {
        "budget_bytes": budget,
        "least": least,
        "parts": parts,
        "rounds": rounds,
        "bars": bars,
    }


def _fifth_of_all(options: Options, names: list[str]) -> int:
    """Return what a fifth of the room is, by a sequence of its own with everything stored."""
    graph = _graph("all", options.folder("sequence", "room") / "graph", None)
    for name in names:
        say(f"sequence, what all of it takes: {name}")
        _recorded(options, name, "room", graph)
    stored = graph.stored_bytes()
    shutil.rmtree(graph.folder)
    return int(stored * BUDGET_PART)


def _recorded(options: Options, name: str, side: str, graph: Graph) -> Row:
    return record(options.works[name], options.folder("project", side, name), graph)


def _summed(rows: Mapping[str, Row], graph: Graph) -> Row:
    printed = [row.pop("printed") for row in rows.values()]
    sums = {key: total(list(rows.values()), key) for key in SECONDS}
    sizes = {"stored_bytes": graph.stored_bytes(), "artifact_bytes": graph.artifact_bytes()}
    return sums | sizes | {"of": rows, "printed": printed}


def _least(rounds: list[Mapping[str, Row]], names: list[str]) -> Row:
    """Return the sums over some workloads, of the least that each took in a round."""
    return {key: sum(min(of[name][key] for of in rounds) for name in names) for key in SECONDS}


def _graph(side: str, folder: Path, budget: int | None) -> Graph:
    match side:
        case "none":
            return no_graph(folder)
        case "all":
            return Graph(folder=folder, keep="all")
        case "budget":
            return Graph(folder=folder, keep="storage-aware", budget_bytes=budget)
    return Graph(folder=folder)


def _compared(what: str, ours: Row, theirs: Row, limit: float) -> Row:
    ratios = _ratios(ours, theirs)
    return bar(what, ratios["version_s"], limit, "most", **_rounded(ratios))


def _ratios(ours: Row, theirs: Row) -> dict[str, float]:
    return {key: ours[key] / max(theirs[key], LEAST_S) for key in SECONDS}


def _rounded(values: Mapping[str, float]) -> Row:
    return {key: round(value, 4) for key, value in values.items()}


def _equal(found: list[str], wanted: list[str]) -> float:
    """Return which share of the texts is as it should be."""
    same = sum(mine == right for mine, right in zip(found, wanted, strict=True))
    return same / max(1, len(wanted))


# ---------------------------------------------------------------- benchmarks of their own


def run_part(name: str, options: Options) -> Row:
    """Run another benchmark, and return what it prints."""
    say(name)
    script = Path(__file__).with_name(PARTS[name])
    quick = ["--quick"] if options.is_quick else []
    try:
        # 1: a bar is missed, which the bars will show.
        done = run([sys.executable, str(script), *quick], script.parents[2], good=(0, 1))
        found: Row = json.loads(done.printed)
    except (Failed, ValueError) as error:
        return {"failed": str(error), "bars": [{"what": "runs", "met": False}]}
    return found | {"bars": list(_bars_in(found))}


def _bars_in(found: Any, name: str = "") -> Iterator[Row]:
    """Yield all rows that say whether a bar is met, wherever they are."""
    if isinstance(found, list):
        for value in found:
            yield from _bars_in(value, name)
    if not isinstance(found, dict):
        return
    is_met = found.get("met", found.get("is_met"))
    if "what" in found and is_met is not None:
        yield found
        return
    if is_met is not None:
        yield {"what": name or "all", "met": is_met}
    for key, value in found.items():
        yield from _bars_in(value, name if key == "bars" else f"{name} {key}".strip())


# ---------------------------------------------------------------- all


def first_touch_s() -> float:
    """Return what it takes to use a gigabyte of memory that was idle; it is in all figures.

    A twentieth of a second where memory is at hand, and more than two where a virtual machine has
    given it back to its host meanwhile: then whatever makes large tables takes some times as long.
    """
    import numpy as np

    begun = time.perf_counter()
    np.empty(2**30 // 8).fill(1.0)
    return round(time.perf_counter() - begun, 3)


def main() -> int:
    workload_sections = {"repeated": run_repeated, "sequence": run_sequence}
    sections = (*PARTS, *workload_sections)
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the flights")
    parser.add_argument("--only", default=",".join(sections), help="sections, with commas between")
    parser.add_argument("--of", default="", help="workloads, with commas between; all without it")
    parser.add_argument("--repeats", type=int, help="rounds of the sequence; 1 by default")
    parser.add_argument("--every", type=int, metavar="N", help="one flight of N; all by default")
    parser.add_argument("--sides", default=",".join(SIDES), help="sides of the sequence")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="work in DIR, and leave it there")
    args = parser.parse_args()
    asked = set(args.sides.split(","))
    if not asked <= set(SIDES) or ("budget" in asked and "all" not in asked):
        parser.error(f"--sides takes some of {', '.join(SIDES)}; budget is a part of all")
    found: Row = {"load": os.getloadavg()[0], "quick": args.quick, "first_touch_s": first_touch_s()}
    with tempfile.TemporaryDirectory(prefix="chex-graph-") as name:
        chosen = args.of.split(",") if args.of else list(workloads())
        options = Options(
            works={name: work for name, work in workloads().items() if name in chosen},
            repeats=args.repeats or 1,
            is_quick=args.quick,
            every=args.every or (QUICK_EVERY if args.quick else EVERY),
            home=(args.keep or Path(name)).resolve(),
            sides=tuple(side for side in SIDES if side in asked),
        )
        reference: Row = {}
        for section in args.only.split(","):
            begun = time.perf_counter()
            if section in PARTS:
                found[section] = run_part(section, options)
            else:
                reference = reference or prepared(options)
                found[section] = workload_sections[section](options, reference)
            found[section]["section_s"] = round(time.perf_counter() - begun, 1)
    found["missed"] = [
        f"{section}: {row['what']}"
        for section in sections
        for row in found.get(section, {}).get("bars", [])
        if not row["met"]
    ]
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    return int(bool(found["missed"]))


if __name__ == "__main__":
    raise SystemExit(main())
