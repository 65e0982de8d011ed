"""Every case of the state battery, against a real engine.

A case is judged after one restore, after a second restore of the same
checkpoint, and after the checkpoint itself has become the live worker.  Where
taking the checkpoint could disturb the live state, that is judged too; where
there is nothing but memory, one restore and the live worker tell enough.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from chexpoint.engine import Engine
from chexpoint.errors import ChexError, ForkRefused
from chexpoint.model import RestoreReport
from tests.support import battery
from tests.support.battery import CASES, RIGHT, WARM, WRONG, Case

pytestmark = pytest.mark.slow

FRESH = "fresh"
CELL_TIMEOUT_S = 40.0
CASE_TIMEOUT_S = 200.0
ONLY_MEMORY = ("namespace", "aliasing", "unpicklable")
"""Groups whose state a fork copies without touching it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one case, judged in one way."""

    kind: Literal["right", "refused", "reported", "wrong"]
    said: str


class Judge:
    """Judges the cases of one group, all in one engine, each starting from a fresh state."""

    def __init__(self, group: str, folder: Path) -> None:
        self._group = group
        self._folder = folder
        self._folders = 0
        self._engine: Engine | None = None

    def verdicts(self, case: Case) -> dict[str, Verdict]:
        """Return the verdict on each way of going back; an engine that fails is a wrong."""
        engine = self._started()
        watchdog = threading.Timer(CASE_TIMEOUT_S, os.kill, (engine.pid, signal.SIGKILL))
        watchdog.start()
        found: dict[str, Verdict] = {}
        try:
            found.update(self._judge(engine, case))
        except (ChexError, OSError) as error:
            said = f"after {list(found)}: {type(error).__name__}: {error}"
            found["engine"] = Verdict("wrong", said)
            self.close()
        finally:
            watchdog.cancel()
        return found

    def close(self) -> None:
        if self._engine is not None:
            self._engine.kill()
            self._engine = None

    def _started(self) -> Engine:
        if self._engine is None:
            self._engine = Engine(auto="never", cwd=self._folder)
            self._engine.run(WARM[self._group], timeout_s=60)
            self._engine.checkpoint(FRESH)
        return self._engine

    def _judge(self, engine: Engine, case: Case) -> Iterator[tuple[str, Verdict]]:
        try:
            self._prepare(engine, case)
            engine.checkpoint(case.id)
        except ForkRefused as refusal:
            yield "refused", _judge_refusal(engine, case, refusal)
            _run(engine, case.cleanup)
            return
        _run(engine, case.disturb)
        yield "restored", _judge_return(engine, case, engine.restore(case.id))
        if self._group not in ONLY_MEMORY:
            engine.restore(case.id)
            _run(engine, case.disturb)  # at once: what is left behind must not see it
            yield "restored twice", _judge_return(engine, case, engine.restore(case.id))
        _run(engine, case.disturb)
        yield "taken", _judge_return(engine, case, engine.take(case.id))
        _run(engine, case.cleanup)
        if self._group not in ONLY_MEMORY:
            self._prepare(engine, case)
            engine.checkpoint(case.id)
            live = _ask(engine, case)
            yield "live", Verdict("right" if live == RIGHT else "wrong", live)
            _run(engine, case.cleanup)
            engine.evict(case.id)

    def _prepare(self, engine: Engine, case: Case) -> None:
        engine.restore(FRESH)
        self._folders += 1
        folder = self._folder / str(self._folders)
        folder.mkdir()
        _run(engine, (f"import os; os.chdir({str(folder)!r})", *case.setup))


def _run(engine: Engine, cells: tuple[str, ...]) -> None:
    for cell in cells:
        engine.run(cell, timeout_s=CELL_TIMEOUT_S)


def _ask(engine: Engine, case: Case) -> str:
    result = engine.run(battery.checking_cell(case.check), timeout_s=CELL_TIMEOUT_S)
    return battery.verdict_in(result.text) or f"no verdict: {result.error or result.outputs}"


def _judge_refusal(engine: Engine, case: Case, refusal: ForkRefused) -> Verdict:
    reasons = "; ".join(f"[{r.kind}] {r.what} ({r.advice})" for r in refusal.reasons)
    if not case.refuse:
        return Verdict("wrong", f"refused without need: {reasons}")
    if not re.search(case.refuse, reasons):
        return Verdict("wrong", f"refused without naming /{case.refuse}/: {reasons}")
    live = _ask(engine, case)
    if live != RIGHT:
        return Verdict("wrong", f"the refused checkpoint disturbed the live state: {live}")
    return Verdict("refused", reasons)


def _judge_return(engine: Engine, case: Case, report: RestoreReport) -> Verdict:
    said = _ask(engine, case)
    warnings = "; ".join(report.warnings)
    needless = [w for w in report.warnings if not any(re.search(p, w) for p in case.report)]
    missing = [p for p in case.report if not re.search(p, warnings)]
    if needless:
        return Verdict("wrong", f"{said}; reported without need: {needless}")
    if said == RIGHT:
        return Verdict("right", said)
    if not case.report or missing:
        return Verdict("wrong", f"{said}; the restore reported only: {warnings or 'nothing'}")
    return Verdict("reported", warnings)


class Battery:
    """Judges each case once, however many tests ask for it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._judges: dict[str, Judge] = {}
        self._found: dict[str, dict[str, Verdict]] = {}

    def verdicts(self, case: Case) -> dict[str, Verdict]:
        if case.id not in self._found:
            if case.group not in self._judges:
                folder = self._folder / case.group.replace(" ", "-")
                folder.mkdir()
                self._judges[case.group] = Judge(case.group, folder)
            self._found[case.id] = self._judges[case.group].verdicts(case)
        return self._found[case.id]

    def close(self) -> None:
        for judge in self._judges.values():
            judge.close()


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Battery]:
    """The verdicts of this module's run."""
    with contextlib.closing(Battery(tmp_path_factory.mktemp("battery"))) as cases:
        yield cases


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_state_is_right_or_said_not_to_be(case: Case, judged: Battery) -> None:
    wrong = {way: v.said for way, v in judged.verdicts(case).items() if v.kind == "wrong"}
    assert not wrong, "\n".join(f"{way}: {said}" for way, said in wrong.items())


def test_tally(judged: Battery, capsys: pytest.CaptureFixture[str]) -> None:
    """Print how many cases of each group are right, refused, reported or wrong."""
    worst_last = ["right", "reported", "refused", "wrong"]
    tally: dict[str, Counter[str]] = {}
    for case in CASES:
        kinds = {verdict.kind for verdict in judged.verdicts(case).values()}
        tally.setdefault(case.group, Counter())[max(kinds, key=worst_last.index)] += 1
    tally["total"] = sum(tally.values(), Counter())
    with capsys.disabled():
        sys.stdout.write(f"\n{'group':<24}{'cases':>7}" + "".join(f"{k:>10}" for k in worst_last))
        for group, counts in tally.items():
            numbers = "".join(f"{counts[kind]:>10}" for kind in worst_last)
            sys.stdout.write(f"\n{group:<24}{counts.total():>7}{numbers}")
        sys.stdout.write("\n")
    assert tally["total"].total() == len(CASES)


def test_case_names_are_unique_and_many() -> None:
    assert len({case.id for case in CASES}) == len(CASES) >= 75
    assert {case.group for case in CASES} == set(WARM)


@pytest.fixture(scope="module")
def proof(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """What each case says without any restore, untouched and disturbed."""
    folder = tmp_path_factory.mktemp("proof")
    halves = [[case.id for case in CASES[start::2]] for start in (0, 1)]
    programs = [
        subprocess.Popen(
            [sys.executable, str(Path(battery.__file__)), *half],
            cwd=folder,
            env={**os.environ, "IPYTHONDIR": str(folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for half in halves
    ]
    printed = "".join(program.communicate(timeout=200)[0] for program in programs)
    return {said["id"]: said for said in map(json.loads, printed.splitlines())}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_every_case_can_fail(case: Case, proof: dict[str, dict[str, str]]) -> None:
    said = proof[case.id]
    assert said["untouched"] == RIGHT
    assert said["disturbed"].startswith(WRONG)
