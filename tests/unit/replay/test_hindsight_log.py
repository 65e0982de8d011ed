"""What a replay in hindsight has found out is there again, unless it is about something else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from chexpoint.model import Segment
from chexpoint.replay.hindsight_lane import Outcome
from chexpoint.replay.hindsight_log import HindsightLog
from chexpoint.replay.hindsight_values import HindsightPlan, Probe


def probe(start: int, stop: int) -> Probe:
    segment = Segment(start=start, stop=stop, first=start, is_jump=start > 0)
    return Probe(cell=1, loop=0, segment=segment)


PLAN = HindsightPlan(version="v1", probes=(probe(0, 3), probe(3, 6)))
DONE = Outcome(probe=PLAN.probes[1], events=({"e": "iter", "i": 3, "n": 0},), notes=("there",))


def test_what_was_found_out_is_known_whatever_the_division_is(tmp_path: Path) -> None:
    log = HindsightLog(tmp_path / "replays", PLAN)
    log.begin(())
    log.add(DONE)
    log.add(Outcome(probe=PLAN.probes[0], failed="it was lost"))  # is tried again
    again = HindsightLog(tmp_path / "replays", PLAN)
    assert again.read(PLAN.probes) == {1: DONE}
    assert again.read((probe(3, 6), probe(0, 2))) == {0: DONE}
    assert again.read((probe(2, 6),)) == {}


def test_a_state_that_had_to_be_walked_to_stays_one(tmp_path: Path) -> None:
    log = HindsightLog(tmp_path, PLAN)
    log.begin(())
    segment = replace(PLAN.probes[1].segment, first=0, is_jump=False)
    walked = replace(DONE, probe=replace(PLAN.probes[1], segment=segment), events=({"walk": True},))
    log.add(walked)
    assert HindsightLog(tmp_path, PLAN).read(PLAN.probes) == {1: walked}


def test_half_a_line_and_other_plans_are_not_read_and_the_end_forgets(tmp_path: Path) -> None:
    log = HindsightLog(tmp_path, PLAN)
    log.begin([DONE])
    (path,) = tmp_path.iterdir()
    with path.open("a") as file:
        file.write('{"cell": 1, "loop"')
    assert log.read(PLAN.probes) == {1: DONE}
    assert HindsightLog(tmp_path, replace(PLAN, version="v2")).read(PLAN.probes) == {}
    assert HindsightLog(None, PLAN).read(PLAN.probes) == {}
    log.end(is_complete=False)
    assert path.exists()
    log.end(is_complete=True)
    assert not path.exists()


def test_a_folder_that_cannot_be_written_costs_only_the_log(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    log = HindsightLog(tmp_path / "file", PLAN)
    log.begin(())
    log.add(DONE)
    assert log.read(PLAN.probes) == {}
    log.end(is_complete=True)
