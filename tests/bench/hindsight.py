"""What recording a training costs, and what asking it something in hindsight; as JSON.

python tests/bench/hindsight.py                       everything; about three quarters of an hour
python tests/bench/hindsight.py --quick               trainings of a few seconds: no figures, a try
python tests/bench/hindsight.py --only training --of cnn --repeats 5
python tests/bench/hindsight.py --only training --of cnn --size 0.2 --repeats 1     a minute each
python tests/bench/hindsight.py --only flor --keep DIR

Each training is run in turns by plain Python, by ``chex record`` without recording of loops, and by
``chex record``; then a log statement is added in the outer loop, and one in the inner loop, and
``chex hindsight`` is asked for its values.  Recording is judged by the seconds of the training
loop, as the script itself measures them; hindsight by the wall time of the whole command, start-up
included, as a part of the wall time of training again.  Every value must be that of a run that
logged it from the start, bit by bit.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.hindsight_flor import VERSIONS, Flor
from tests.bench.hindsight_run import Failed, Row, plain, probe, record, run
from tests.bench.hindsight_workloads import NAMES, Probe, Workload, workloads
from tests.bench.store_measure import bar, say

RECORD_BAR = 1.02
EPSILON = 1 / 15
"""The default of ``%chex_overhead``."""
OUTER_BAR = 0.05
INNER_BAR = 0.60
NOISE = 0.02
"""By which two measurements of the same thing may differ on a machine that others use."""
WORKERS = 2
THREAD = Path(__file__).with_name("hindsight_thread.py")
PROBES: tuple[Probe, ...] = ("outer", "inner")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to measure, and how often."""

    works: Mapping[str, Workload]
    repeats: int
    is_quick: bool
    home: Path

    def folder(self, *names: object) -> Path:
        """Return a new folder."""
        made = self.home.joinpath("-".join(map(str, names)))
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
        return made


# ---------------------------------------------------------------- recording and probing


def training(options: Options) -> Row:
    """Overhead of recording, and probes of what was recorded."""
    found: Row = {"bars": []}
    for name, work in options.works.items():
        rounds: list[Row] = []
        try:
            say(f"{name}: with the log statements from the start")
            wanted = plain(work, options.folder(name, "reference"), *PROBES)["values"]
            rounds.extend(_round(options, work, number) for number in range(options.repeats))
        except Failed as error:
            found[name] = {"about": work.about, "failed": str(error), "rounds": rounds}
            found["bars"].append({"what": f"{name}: runs", "met": False})
            continue
        found[name] = {"about": work.about, "epochs": work.epochs} | _summary(rounds, wanted)
        found["bars"] += _bars(name, found[name])
        for each in rounds:
            for which in PROBES:
                del each[which]["values"]
        found[name]["rounds"] = rounds
    return found


def _round(options: Options, work: Workload, number: int) -> Row:
    """Run all sides once, beginning with another one each time."""
    sides: list[tuple[str, Callable[[Path], Row]]] = [
        ("plain", lambda folder: plain(work, folder)),
        ("off", lambda folder: record(work, folder, is_off=True)),
        ("on", lambda folder: record(work, folder)),
    ]
    turn = number % len(sides)
    row: Row = {}
    for name, side in sides[turn:] + sides[:turn]:
        say(f"{work.name}, round {number + 1} of {options.repeats}: {name}")
        row[name] = side(options.folder(work.name, name))
        row[name].pop("values", None)
    recorded = options.home / f"{work.name}-on"
    for which in PROBES:
        say(f"{work.name}, round {number + 1} of {options.repeats}: {which} probe")
        workers = WORKERS if which == "inner" else 1
        row[which] = probe(work, recorded, which, workers=workers)
    return row


def _summary(rounds: list[Row], wanted: Mapping[str, list[str]]) -> Row:
    walls = [each["plain"]["wall_s"] for each in rounds]
    return {
        "train_s": round(_least(rounds, "plain", "seconds"), 3),
        "retrain_wall_s": round(statistics.median(walls), 3),
        "record": {
            f"over_{base}": {
                # The least of each side is what was disturbed least.
                "least": _least(rounds, "on", "seconds") / _least(rounds, base, "seconds"),
                "paired": statistics.median(
                    each["on"]["seconds"] / each[base]["seconds"] for each in rounds
                ),
                "cpu": _least(rounds, "on", "cpu_seconds") / _least(rounds, base, "cpu_seconds"),
                "wall": _least(rounds, "on", "wall_s") / _least(rounds, base, "wall_s"),
            }
            for base in ("off", "plain")
        },
        **{which: _probed(which, rounds, wanted[NAMES[which]]) for which in PROBES},
    }


def _least(rounds: list[Row], side: str, key: str) -> float:
    return float(min(each[side][key] for each in rounds))


def _probed(which: Probe, rounds: list[Row], wanted: list[str]) -> Row:
    runs = [each[which] for each in rounds]
    parts = [each[which]["wall_s"] / each["plain"]["wall_s"] for each in rounds]
    return {
        "wall_s": round(statistics.median(run["wall_s"] for run in runs), 3),
        "of_retraining": statistics.median(parts),
        "equal": min(share_equal(run["values"][NAMES[which]], wanted) for run in runs),
        "standings": runs[-1]["standings"],
    }


def share_equal(found: list[str], wanted: list[str]) -> float:
    """Return which share of the wanted values was found, bit by bit; too many are wrong too."""
    right = sum(mine == theirs for mine, theirs in zip(found, wanted, strict=False))
    return right / max(len(found), len(wanted), 1)


def _bars(name: str, found: Row) -> list[Row]:
    bars = []
    for base, ratios in found["record"].items():
        value = ratios["least"]
        bars.append(bar(f"{name}: recording {base}", value, RECORD_BAR, "most", **ratios))
    value = found["record"]["over_off"]["least"]
    bars.append(bar(f"{name}: recording, epsilon", value, 1 + EPSILON, "most"))
    limits: dict[Probe, float] = {"outer": OUTER_BAR, "inner": INNER_BAR}
    for which, limit in limits.items():
        if name == "cnn":
            part = found[which]["of_retraining"]
            bars.append(bar(f"{name}: {which} probe", part, limit, "most"))
        bars.append(bar(f"{name}: {which} values", found[which]["equal"], 1.0, "least"))
    return bars


# ---------------------------------------------------------------- others


def thread(options: Options) -> Row:
    """What a checkpoint takes from the training thread, by its own benchmark."""
    if not THREAD.exists():
        return {"failed": f"there is no {THREAD.name}", "bars": []}
    say("thread")
    quick = ["--rounds", "1", "--threads", "1"] if options.is_quick else []
    try:
        command = [sys.executable, str(THREAD), *quick]
        done = run(command, THREAD.parents[2], env={"OMP_NUM_THREADS": "2"})
        found: Row = json.loads(done.printed)
    except (Failed, ValueError) as error:
        return {"failed": str(error), "bars": [{"what": "runs", "met": False}]}
    bars = [
        bar(f"{name}, of {peer}", row["ratio"][peer], limit, "most")
        for name, row in found.items()
        for peer, limit in row["bar"].items()
    ]
    return found | {"bars": bars}


def flor(options: Options) -> Row:
    """FlorDB and we on the same training, one after the other."""
    (work, *_) = options.works.values()
    ours = training(replace(options, works={work.name: work}))
    say(f"flor: {work.name}, plain")
    wanted = plain(work, options.folder("flor", "reference"), *PROBES)["values"]
    base = plain(work, options.folder("flor", "plain"))
    del base["values"]
    found: Row = {"training": work.name, "ours": ours[work.name], "plain": base}
    for version in VERSIONS:
        say(f"flor: {version}")
        try:
            found[version] = _flor(options, work, version, base, wanted)
        except Failed as error:
            found[version] = {"failed": str(error)}
    return found | {"bars": against_flor(found)}


def _flor(
    options: Options, work: Workload, version: str, base: Row, wanted: Mapping[str, list[str]]
) -> Row:
    tool = Flor(version, options.home / "environments")
    tool.install()
    folder = options.folder(f"flor-{version}") / "train"
    (folder.parent / "home").mkdir()
    row: Row = {"record": tool.record(work, folder)}
    row["record"]["over_plain"] = row["record"]["seconds"] / base["seconds"]
    row["record"]["cpu_over_plain"] = row["record"]["cpu_seconds"] / base["cpu_seconds"]
    for which in PROBES:
        say(f"flor: {version}, {which} probe")
        run_ = tool.probe(work, folder, which)
        values, right = run_.pop("values")[NAMES[which]], wanted[NAMES[which]]
        row[which] = run_ | {
            "of_retraining": run_["wall_s"] / base["wall_s"],
            "cpu_of_retraining": run_["cpu_s"] / base["cpu_s"],
            "values": len(values),
            "wanted": len(right),
            "equal": share_equal(values, right),
        }
    return row


def against_flor(found: Row) -> list[Row]:
    """Return the bars of us against FlorDB; what it does wrongly sets none."""
    mine = found["ours"]
    bars = []
    for version in VERSIONS:
        other = found[version]
        if "failed" in other or "record" not in mine:
            continue
        value = mine["record"]["over_plain"]["least"] / other["record"]["over_plain"]
        bars.append(bar(f"recording against flordb {version}", value, 1 + NOISE, "most"))
        for which in PROBES:
            if other[which]["equal"] == 1.0:
                value = mine[which]["of_retraining"] / other[which]["of_retraining"]
                bars.append(bar(f"{which} probe against flordb {version}", value, 1.0, "most"))
    return bars


SECTIONS: dict[str, Callable[[Options], Row]] = {
    "training": training,
    "thread": thread,
    "flor": flor,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="trainings of a few seconds")
    parser.add_argument("--size", type=float, default=1.0, help="a part of the steps of an epoch")
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, with commas between")
    parser.add_argument("--of", default="", help="trainings, with commas between; all without it")
    parser.add_argument("--repeats", type=int, help="rounds; 3, or 1 with --quick")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="work in DIR, and leave it there")
    args = parser.parse_args()
    works = workloads(is_quick=args.quick, size=args.size)
    found: Row = {"load": os.getloadavg()[0], "quick": args.quick, "size": args.size}
    with tempfile.TemporaryDirectory(prefix="chex-hindsight-") as name:
        options = Options(
            works={n: work for n, work in works.items() if not args.of or n in args.of.split(",")},
            repeats=args.repeats or (1 if args.quick else 3),
            is_quick=args.quick,
            home=(args.keep or Path(name)).resolve(),
        )
        for section in args.only.split(","):
            begun = time.perf_counter()
            found[section] = SECTIONS[section](options)
            found[section]["section_s"] = round(time.perf_counter() - begun, 1)
    found["missed"] = [
        f"{section}: {row['what']}"
        for section in SECTIONS
        for row in found.get(section, {}).get("bars", [])
        if not row.get("met", True)
    ]
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    return int(bool(found["missed"]))


if __name__ == "__main__":
    raise SystemExit(main())
