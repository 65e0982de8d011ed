"""Engines that replay parts of a loop side by side.

The cell itself tells what the runtime would tell.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from chexpoint.model import LoopRun, NodeId, Segment
from chexpoint.replay import (
    INTERRUPTED,
    FolderWorld,
    HindsightPlan,
    HindsightProgress,
    HindsightReplayer,
)
from chexpoint.replay.hindsight_values import Probe, ProbedCell
from chexpoint.replay.scratch import Scratch
from tests.unit.project.hindsight_runs import write_run

pytestmark = pytest.mark.slow

SET_UP = """\
import json, os, time
with open(os.environ["CHEX_HINDSIGHT_JOB"]) as file:
    job = json.load(file)
part = job["cells"][1]["segment"]
class SegmentDone(BaseException):
    pass
def tell(**fields):
    with open(job["out"], "a") as file:
        print(json.dumps(fields), file=file)"""

LOOP = """\
i = part["start"]
while i < part["stop"]:
    tell(e="iter", n=0, i=i, t=0.0)
    tell(e="block", n=0, i=i, b=0, site=1, skipped=i % 2 == 0, s=0.0)
    tell(e="log", n=0, at=[i], line=4, via="print", name="print", value=3 * (i + 1), added=False)
    tell(e="log", n=0, at=[i], line=5, via="print", name="twice", value=6 * (i + 1), added=True)
    i += 1
{then}
tell(e="done")
raise SegmentDone"""


def plan(tmp_path: Path, *parts: tuple[int, int], then: str = "") -> HindsightPlan:
    """Return a plan of which each part is some iterations."""
    from chexpoint.hindsight import read_run

    path = write_run(tmp_path / "loops", "run")
    run: LoopRun = read_run(path)
    cells = (
        ProbedCell(source=SET_UP),
        ProbedCell(source=LOOP.format(then=then), run=run, folder=path, added=((5, 5),)),
    )
    probes = tuple(
        Probe(cell=1, loop=0, segment=Segment(start=a, stop=b, first=a, is_jump=a > 0))
        for a, b in parts
    )
    return HindsightPlan(
        version="base", cells=cells, probes=probes, notes=("planned",), recorded_seconds=4.0
    )


def replayer(tmp_path: Path, made: HindsightPlan, **options: object) -> HindsightReplayer:
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    return HindsightReplayer(
        made,
        FolderWorld(home),
        store=str(tmp_path / "store"),
        **options,  # type: ignore[arg-type]
    )


def test_parts_are_replayed_side_by_side_and_come_back_in_order(tmp_path: Path) -> None:
    told: list[HindsightProgress] = []
    made = plan(tmp_path, (0, 2), (2, 4))
    found = replayer(tmp_path, made, workers=8, watch=told.append).run()
    assert found.failed == ""
    assert [row.value.value for row in found.rows if row.is_added] == [6, 12, 18, 24]
    assert [row.value.at for row in found.rows if row.is_added] == [(0,), (1,), (2,), (3,)]
    assert (found.iterations, found.workers, found.recorded_seconds) == (4, 2, 4.0)
    assert (found.computed_blocks, found.skipped_blocks) == (2, 2)
    assert "planned" in found.notes
    assert (told[0].done, told[-1].done, told[-1].total) == (0, 4, 4)


def test_more_parts_than_workers_are_all_replayed(tmp_path: Path) -> None:
    found = replayer(tmp_path, plan(tmp_path, (0, 1), (1, 2), (2, 4)), workers=1).run()
    assert found.workers == 1
    assert [row.value.at[0] for row in found.rows if row.is_added] == [0, 1, 2, 3]


def test_values_that_came_before_a_failure_are_kept(tmp_path: Path) -> None:
    made = plan(tmp_path, (0, 2), then="print(None.norm)")
    found = replayer(tmp_path, made).run()
    assert "raised AttributeError: 'NoneType' object has no attribute 'norm'" in found.failed
    assert len([row for row in found.rows if row.is_added]) == 2


@pytest.mark.parametrize(
    ("then", "why"),
    [
        ("os._exit(3)", "cell 2 has ended the process that replays it"),
        ("raise SystemExit", "SystemExit"),
    ],
)
def test_a_program_that_ends_its_process_is_told(tmp_path: Path, then: str, why: str) -> None:
    assert why in replayer(tmp_path, plan(tmp_path, (0, 1), then=then)).run().failed


def test_a_loop_that_is_never_reached_is_told(tmp_path: Path) -> None:
    made = plan(tmp_path, (0, 1))
    quiet = ProbedCell(source="pass", run=made.cells[1].run, folder=made.cells[1].folder)
    made = HindsightPlan(version="v", cells=(made.cells[0], quiet), probes=made.probes)
    found = replayer(tmp_path, made).run()
    assert found.failed == "the replay did not come to the loop that was recorded"


def test_a_loop_that_is_left_without_a_word_is_complete_if_all_iterations_were_run(
    tmp_path: Path,
) -> None:
    made = plan(tmp_path, (0, 2), then="raise ValueError('as in the training')")
    assert "line 8 raised ValueError" in replayer(tmp_path, made).run().failed
    failing = replace(made.cells[1], is_failing=True)
    made = replace(made, cells=(made.cells[0], failing))
    assert replayer(tmp_path, made).run().failed == ""


def test_an_interrupt_ends_it_soon_with_what_there_is(tmp_path: Path) -> None:
    begun = threading.Event()

    def watch(progress: HindsightProgress) -> None:
        if progress.done:
            begun.set()

    made = plan(tmp_path, (0, 2), then="time.sleep(600)")
    running = replayer(tmp_path, made, watch=watch)

    def interrupt() -> None:
        begun.wait(60)
        running.interrupt()

    threading.Thread(target=interrupt).start()
    found = running.run()
    assert found.failed == INTERRUPTED
    assert len([row for row in found.rows if row.is_added]) == 2


class _NoFiles:
    """A world in which nothing can be found."""

    def lay_out(self, scratch: Scratch) -> list[str]:
        del scratch
        return ["a note"]

    def make_ready(self, node: NodeId | None, scratch: Scratch, before: object) -> str:
        del node, scratch, before
        return "./data.csv, which it reads, is gone"


def test_a_file_that_is_gone_is_told(tmp_path: Path) -> None:
    made = plan(tmp_path, (0, 1))
    found = HindsightReplayer(made, _NoFiles(), store="").run()
    assert found.failed == "cell 1: ./data.csv, which it reads, is gone"
    assert "a note" in found.notes


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    replayer(tmp_path, plan(tmp_path, (0, 1)), scratch=scratch).run()
    assert list(scratch.iterdir()) == []
