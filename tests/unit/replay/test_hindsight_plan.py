"""What is to be replayed after log statements were added."""

from __future__ import annotations

from pathlib import Path

import pytest

from chexpoint.errors import InvalidValue
from chexpoint.replay import HindsightPlan, NewCell, OldCell, plan_hindsight
from tests.unit.project.hindsight_runs import INNER, PROBED, SET_UP, TRAINING, events, write_run


def old(tmp_path: Path, *cells: str, run: int = 1, is_own: tuple[int, ...] = ()) -> list[OldCell]:
    """Return recorded cells, of which one has a run."""
    write_run(tmp_path, "run", source=cells[run])
    return [
        OldCell(
            source=source,
            run=tmp_path / "run" if at == run else None,
            seconds=1.0,
            is_own=at in is_own,
        )
        for at, source in enumerate(cells)
    ]


def planned(cells: list[OldCell], *new: str, **options: object) -> HindsightPlan:
    now = [NewCell(source=source) for source in new]
    return plan_hindsight("v", cells, now, **options)  # type: ignore[arg-type]


def test_a_statement_in_the_outer_loop_needs_no_block(tmp_path: Path) -> None:
    plan = planned(old(tmp_path, SET_UP, TRAINING), SET_UP, PROBED)
    assert plan.problems == ()
    (probe,) = plan.probes
    assert (probe.cell, probe.loop) == (1, 0)
    assert (probe.segment.start, probe.segment.stop) == (0, 4)
    assert plan.cells[1].added == ((5, 5),)
    assert not plan.cells[1].step_into
    assert plan.recorded_seconds == pytest.approx(4.0)
    assert plan.iterations == 4


def test_a_statement_in_the_inner_loop_makes_it_run(tmp_path: Path) -> None:
    plan = planned(old(tmp_path, SET_UP, TRAINING), SET_UP, INNER, workers=2)
    assert 1 in plan.cells[1].step_into
    covered = [(each.segment.start, each.segment.stop) for each in plan.probes]
    assert covered[0][0] == 0
    assert covered[-1][1] == 4
    assert len(covered) == 2


def test_what_added_statements_gather_themselves_is_gathered_from_the_first_iteration_on(
    tmp_path: Path,
) -> None:
    seen = f"seen = []\n{INNER}".replace("print(", "seen.append(1)\n        print(len(seen), ", 1)
    plan = planned(old(tmp_path, SET_UP, TRAINING), SET_UP, seen, workers=2, epochs=(2, 4))
    assert plan.problems == ()
    (probe,) = plan.probes
    assert (probe.segment.first, probe.segment.start, probe.segment.stop) == (0, 0, 4)
    assert any("keep seen from iteration to iteration" in note for note in plan.notes)


def test_epochs_that_are_not_there_are_refused(tmp_path: Path) -> None:
    cells = old(tmp_path, SET_UP, TRAINING)
    (probe,) = planned(cells, SET_UP, PROBED, epochs=(2, 10**9)).probes
    assert (probe.segment.start, probe.segment.stop) == (2, 4)
    with pytest.raises(InvalidValue, match="4 iterations were recorded"):
        planned(cells, SET_UP, PROBED, epochs=(7, 9))


def test_what_else_was_changed_is_told_with_its_cell(tmp_path: Path) -> None:
    plan = planned(old(tmp_path, SET_UP, TRAINING), "import random\nw = 1", PROBED)
    assert plan.probes == ()
    assert plan.problems[0].startswith("Cell 1, line 2")
    assert any("w = 1" in problem for problem in plan.problems)


def test_lines_of_a_script_are_those_of_the_file(tmp_path: Path) -> None:
    changed = [NewCell(source=SET_UP, line=1), NewCell(source=PROBED.replace("+=", "-="), line=4)]
    plan = plan_hindsight("v", old(tmp_path, SET_UP, TRAINING), changed)
    assert plan.problems[0].startswith("Line 6")


def test_without_a_log_statement_there_is_nothing_to_do(tmp_path: Path) -> None:
    plan = planned(old(tmp_path, SET_UP, TRAINING), SET_UP, TRAINING)
    assert plan.problems
    assert plan.problems[0].startswith("Nothing that was added logs a value")


def test_cells_that_chex_added_run_where_they_ran(tmp_path: Path) -> None:
    cells = old(tmp_path, "set_up()", SET_UP, TRAINING, "end()", run=2, is_own=(0, 3))
    plan = planned(cells, SET_UP, PROBED)
    assert [cell.source for cell in plan.cells] == ["set_up()", SET_UP, PROBED]
    assert plan.probes[0].cell == 2


def test_a_statement_in_a_function_probes_the_loop_that_calls_it(tmp_path: Path) -> None:
    helper = "def norm(w):\n    return w * 2"
    probed = "def norm(w):\n    print(w)\n    return w * 2"
    outer = TRAINING.replace("    print(w)", "    print(norm(w))")
    plan = planned(old(tmp_path, helper, outer), probed, outer)
    assert [(probe.cell, probe.loop) for probe in plan.probes] == [(1, 0)]
    assert 1 not in plan.cells[1].step_into  # only the outer loop calls it
    inner = TRAINING.replace("w += x", "w += norm(x)")
    plan = planned(old(tmp_path / "b", helper, inner), probed, inner)
    assert 1 in plan.cells[1].step_into


def test_a_method_may_be_called_from_anywhere(tmp_path: Path) -> None:
    net = "class Net:\n    def forward(self, x):\n        return x\nw = Net()"
    probed = net.replace("        return x", "        print(x)\n        return x")
    plan = planned(old(tmp_path, net, TRAINING), probed, TRAINING)
    assert {0, 1} <= plan.cells[1].step_into


def test_a_statement_in_no_loop_is_told(tmp_path: Path) -> None:
    plan = planned(old(tmp_path, SET_UP, TRAINING), f"{SET_UP}\nprint(w)", TRAINING)
    assert plan.probes == ()
    assert plan.problems == (
        "line 3 is in no loop: what it logs is not replayed; run it as a cell instead",
    )
    plan = planned(old(tmp_path / "b", SET_UP, TRAINING), f"{SET_UP}\nprint(w)", PROBED)
    assert len(plan.probes) == 1
    assert plan.notes[0].startswith("line 3 is in no loop")


def test_a_loop_of_which_nothing_is_known_is_told(tmp_path: Path) -> None:
    cells = [OldCell(source=SET_UP), OldCell(source=TRAINING)]
    plan = planned(cells, SET_UP, PROBED)
    assert plan.problems[0].startswith("the loop in line 1 was not recorded: ")
    refused = [{"e": "refused", "site": 0, "why": "sock: a socket cannot be kept"}]
    write_run(tmp_path, "run", story=refused)
    cells[1] = OldCell(source=TRAINING, run=tmp_path / "run")
    plan = planned(cells, SET_UP, PROBED)
    assert plan.problems == ("the loop in line 1 was not recorded: sock: a socket cannot be kept",)


def test_a_run_that_was_cut_is_replayed_as_far_as_it_got(tmp_path: Path) -> None:
    write_run(tmp_path, "run", story=events(2, is_complete=False))
    cells = [OldCell(source=SET_UP), OldCell(source=TRAINING, run=tmp_path / "run")]
    (probe,) = planned(cells, SET_UP, PROBED).probes
    assert probe.segment.stop == 2
