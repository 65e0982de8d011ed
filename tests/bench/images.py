"""What it costs to keep each state of a notebook on disk, and to go back; as JSON.

python tests/bench/images.py                      against Kishu, which is installed for this
python tests/bench/images.py --kishu PYTHON       the Python of an environment that has Kishu
python tests/bench/images.py --quick              a tenth of the data
python tests/bench/images.py --only in_place,frame --sides kishu

The same cells run in turns in a plain kernel, with Kishu, and in CHEX, with a pause between them.
What the user waits for a state to be kept is the time of a cell until the kernel is idle, without
what the cell takes in a plain kernel of the same environment.  Going back is timed in a new kernel:
until the state is there, and a cell that reads it is done.  Each state that comes back is compared
with what it was.
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
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.images_kernels import Chex, Kishu, Session, Side, Stock
from tests.bench.images_notebooks import Notebook, notebooks
from tests.bench.replay_peers import Peers

Row = dict[str, Any]

BYTES_BARS = {"in_place": 0.02, "frame": 0.15}
WAIT_BAR = 0.1
BACK_BAR = 0.5
PAUSE_S = 1.0
"""Between cells, on all sides: a user looks at what came out."""


def run_cells(side: Side, notebook: Notebook, folder: Path) -> Row:
    """Run a notebook; return how long each cell took, what each state takes, and its proof."""
    cells: list[Row] = []
    with side.start(folder, is_new=True) as session:
        setup_s, _, _ = session.run(notebook.setup)
        places = [side.place(session, 1)]
        before = setup_bytes = side.stored_bytes(folder)
        caches = side.cache_bytes(folder)
        for number, code in enumerate(notebook.cells):
            time.sleep(PAUSE_S)
            seconds, _, _ = session.run(code)
            idle = time.perf_counter()
            places.append(side.place(session, number + 2))
            kept_s = time.perf_counter() - idle
            now = side.stored_bytes(folder)
            cached = side.cache_bytes(folder)
            cells.append(
                {
                    "seconds": seconds,
                    "kept_after_s": kept_s,
                    "bytes": now - before,
                    "cache_bytes": cached - caches,
                }
            )
            before, caches = now, cached
    return {
        "setup_s": setup_s,
        "setup_bytes": setup_bytes,
        "cells": cells,
        "places": places,
    }


def run_back_to_back(side: Side, notebook: Notebook, folder: Path) -> list[float]:
    """Return how long each cell takes if none waits until the state before it is on disk."""
    with side.start(folder, is_new=True) as session:
        session.run(notebook.setup)
        side.place(session, 1)
        return [session.run(code)[0] for code in notebook.cells]


def proofs(notebook: Notebook, folder: Path) -> list[str]:
    """Return what each state must look like, by a plain kernel that keeps nothing."""
    with Stock().start(folder, is_new=True) as session:
        session.run(notebook.setup)
        return [_proof(session, notebook, code) for code in notebook.cells]


def _proof(session: Session, notebook: Notebook, code: str) -> str:
    session.run(code)
    return session.run(notebook.proof)[1]


def go_back(side: Side, notebook: Notebook, folder: Path, places: list[str]) -> list[Row]:
    """Go to each state after a cell, last first, each in a kernel that was just started."""
    rows = []
    for number in reversed(range(len(notebook.cells))):
        with side.start(folder, is_new=False) as session:
            back_s, told = side.go_back(session, places[number + 1])
            read_s, _, _ = session.run(notebook.read)
            rows.append(
                {
                    "state": number,
                    "back_s": back_s,
                    "read_s": read_s,
                    "seconds": back_s + read_s,
                    "is_from_disk": side.is_from_disk(told),
                    "proof": session.run(notebook.proof)[1],
                }
            )
    return rows


def measure(side: Side, notebook: Notebook, home: Path, wanted: list[str]) -> Row:
    """Return all that is measured of one side on one notebook; a failure is told, not hidden."""
    folder = home / f"{notebook.name}-{side.name}"
    try:
        row = run_cells(side, notebook, folder)
        row["back_to_back_s"] = run_back_to_back(side, notebook, folder.with_suffix(".again"))
        if not isinstance(side, Stock):
            row["back"] = go_back(side, notebook, folder, row["places"])
            for each in row["back"]:
                each["is_right"] = each.pop("proof") == wanted[each["state"]]
    except RuntimeError as error:
        return {"failed": str(error)}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(folder.with_suffix(".again"), ignore_errors=True)
    return row


def summary(rows: list[Row], stock: list[Row]) -> Row:
    """Return the medians over all repeats: waiting, bytes on disk, and going back."""
    failed = [row["failed"] for row in (*rows, *stock) if "failed" in row]
    if failed:
        return {"failed": failed[0]}
    cells = [each for row in rows for each in row["cells"]]
    backs = [each for row in rows for each in row["back"]]
    tight = [seconds for row in rows for seconds in row["back_to_back_s"]]
    plain_s = statistics.median(each["seconds"] for row in stock for each in row["cells"])
    tight_plain_s = statistics.median(s for row in stock for s in row["back_to_back_s"])
    cell_s, tight_s = _median(cells, "seconds"), statistics.median(tight)
    return {
        "cell_s": round(cell_s, 4),
        "plain_s": round(plain_s, 4),
        "wait_s": round(max(cell_s - plain_s, 0.0), 4),
        "back_to_back_s": round(tight_s, 4),
        "back_to_back_plain_s": round(tight_plain_s, 4),
        "back_to_back_wait_s": round(max(tight_s - tight_plain_s, 0.0), 4),
        "bytes_per_cell": int(_median(cells, "bytes")),
        "of_it_caches": int(_median(cells, "cache_bytes")),
        "setup_bytes": rows[0]["setup_bytes"],
        "on_disk_after_s": round(_median(cells, "kept_after_s"), 3),
        "back_s": round(_median(backs, "seconds"), 4),
        "checkout_s": round(_median(backs, "back_s"), 4),
        "states": len(backs),
        "right": sum(each["is_right"] for each in backs),
        "from_disk": sum(each["is_from_disk"] for each in backs),
    }


def _median(rows: list[Row], key: str) -> float:
    return float(statistics.median(row[key] for row in rows))


def judge(name: str, ours: Row, theirs: Row) -> list[Row]:
    """Return the bars of one notebook: what we take, as a part of what Kishu takes."""
    bars = [
        ("wait", "wait_s", WAIT_BAR),
        ("wait, back to back", "back_to_back_wait_s", WAIT_BAR),
        ("going back", "back_s", BACK_BAR),
    ]
    if name in BYTES_BARS:
        bars.append(("bytes", "bytes_per_cell", BYTES_BARS[name]))
    rows = [
        {"what": f"{name}: {what}", "value": round(ours[key] / theirs[key], 4), "bar": limit}
        for what, key, limit in bars
        if theirs[key] > 0
    ]
    for row in rows:
        row["met"] = row["value"] <= row["bar"]
    # A state may also come back by its cells, where that is quicker: ``from_disk`` has no bar.
    for key in ("right",):
        share = ours[key] / ours["states"]
        rows.append({"what": f"{name}: {key}", "value": share, "bar": 1.0, "met": share >= 1.0})
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the data")
    parser.add_argument("--only", help="notebooks, with commas between")
    parser.add_argument("--sides", default="kishu,chex_off,chex", help="with commas between")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--kishu", metavar="PYTHON", help="of an environment that has Kishu")
    parser.add_argument("--peers", type=Path, help="where environments are built and kept")
    args = parser.parse_args()
    found: Row = {"load": os.getloadavg()[0], "notebooks": {}, "bars": []}
    with tempfile.TemporaryDirectory(prefix="chex-images-") as name:
        home = Path(name)
        python = args.kishu
        if python is None and "kishu" in args.sides:
            python = Peers(args.peers or home / "peers").python("kishu")
        sides = _sides(args.sides.split(","), python)
        for notebook in notebooks(args.quick):
            if args.only is None or notebook.name in args.only.split(","):
                found["notebooks"][notebook.name] = _compare(notebook, sides, home, args.repeats)
    for name, rows in found["notebooks"].items():
        ours, theirs = rows.get("chex", {}), rows.get("kishu", {})
        if "wait_s" in ours and "wait_s" in theirs:
            found["bars"] += judge(name, ours, theirs)
    missed = [row["what"] for row in found["bars"] if not row["met"]]
    failed = [
        f"{name}: {side}"
        for name, rows in found["notebooks"].items()
        for side, row in rows.items()
        if "failed" in row
    ]
    found["missed"] = missed + failed
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    return int(bool(found["missed"]))


def _sides(names: list[str], kishu: str | None) -> list[tuple[Side, Side]]:
    """Return each side with the plain kernel that it is measured against."""
    stock = Stock()
    known: dict[str, tuple[Side, Side]] = {
        "chex": (Chex(persist=True), stock),
        "chex_off": (Chex(persist=False), stock),
    }
    if kishu is not None:
        known["kishu"] = (Kishu(kishu), Stock(kishu, "kishu_stock"))
    return [known[name] for name in names]


def _compare(
    notebook: Notebook, sides: list[tuple[Side, Side]], home: Path, repeats: int
) -> dict[str, Row]:
    wanted = proofs(notebook, home / f"{notebook.name}-proof")
    rows: dict[str, list[Row]] = {side.name: [] for side, _ in sides}
    plain: dict[str, list[Row]] = {side.name: [] for side, _ in sides}
    for number in range(repeats):
        for side, stock in sides:
            sys.stderr.write(f"{notebook.name}: {side.name}, {number + 1} of {repeats}\n")
            plain[side.name].append(measure(stock, notebook, home, wanted))
            rows[side.name].append(measure(side, notebook, home, wanted))
    return {
        name: summary(rows[name], plain[name]) | {"raw": rows[name], "raw_plain": plain[name]}
        for name in rows
    }


if __name__ == "__main__":
    raise SystemExit(main())
