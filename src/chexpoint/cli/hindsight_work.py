"""What ``chex hindsight`` is asked for: which versions, and what was added to them."""

from __future__ import annotations

import argparse
import itertools
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from chexpoint.cli.cluster_options import chosen_cluster
from chexpoint.cli.hindsight_files import HindsightFiles
from chexpoint.cli.picture_files import STANDARD_OUTPUT, project_in
from chexpoint.cli.replay import parse_workers
from chexpoint.errors import ChexError, InvalidValue

if TYPE_CHECKING:
    from chexpoint.project import Project, RecordedLoops, RecordedProgram, SourceFile
    from chexpoint.replay import Epochs, HindsightPlan, NewCell

_EPOCHS = re.compile(r"\s*([0-9]{1,9})?\s*(:)?\s*([0-9]{1,9})?\s*")
_LAST = 10**9


def parse_epochs(text: str) -> Epochs:
    """Return the iterations that a text means: ``"40:60"``, ``":10"``, ``"90:"``, ``"7"``.

    Raises
    ------
    InvalidValue
        If it is no range, or an empty one.
    """
    found = _EPOCHS.fullmatch(text)
    if found is not None and (found[1] or found[3]):
        first = int(found[1] or 0)
        last = int(found[3] or _LAST) if found[2] else first + 1
        if first < last:
            return first, last
    raise InvalidValue(f"--epochs {text}: write A:B with A < B, such as 40:60, :10 or 90:")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A version, and how it is to be replayed."""

    program: RecordedProgram
    plan: HindsightPlan


@dataclass(slots=True, kw_only=True)
class HindsightWork:
    """Everything that a command line asks for."""

    args: argparse.Namespace
    loops: RecordedLoops
    workers: int
    cluster: str | int | None
    """Where to compute; None is here."""
    epochs: Epochs | None
    names: tuple[str, ...]
    files: HindsightFiles
    problems: list[str] = field(default_factory=list)
    """Why nothing can be replayed."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Versions that are not replayed, and why."""

    @classmethod
    def asked(cls, args: argparse.Namespace) -> HindsightWork:
        """Return what a command line asks for.

        Raises
        ------
        InvalidValue
            If it cannot be.
        """
        from chexpoint.config import Config
        from chexpoint.project import RecordedLoops

        _refuse_contradictions(args)
        project = _project(args)
        Config.at(project.folder).export()  # engines run in a folder of their own
        names = [name.strip() for name in (args.names or "").split(",")]
        return cls(
            args=args,
            loops=RecordedLoops(project),
            workers=_workers(args),
            cluster=chosen_cluster(args),
            epochs=None if args.epochs is None else parse_epochs(args.epochs),
            names=tuple(name for name in names if name),
            files=HindsightFiles.wanted(args),
        )

    def tasks(self) -> list[Task]:
        """Return the versions to replay; `problems` and `left_out` say what is not."""
        program, new = self._changed()
        if not program.has_loops:
            raise InvalidValue(
                f"no loop of version {program.label} was recorded: run it again with the CHEX "
                "kernel or chex record"
            )
        plan = self._plan(program, new)
        if plan.problems:
            self.problems += plan.problems
            return []
        tasks = [Task(program=program, plan=plan)]
        if self.args.all_versions:
            tasks += self._others(program, new)
        return tasks

    def _plan(self, program: RecordedProgram, new: Sequence[NewCell]) -> HindsightPlan:
        from chexpoint.replay import plan_hindsight

        return plan_hindsight(
            program.label, program.cells, new, workers=self.workers, epochs=self.epochs
        )

    def _changed(self) -> tuple[RecordedProgram, tuple[NewCell, ...]]:
        """Return the version that was changed, and what it is now."""
        from chexpoint.project import best_match, changed_by_cell, changed_by_file, read_source
        from chexpoint.replay import runnable

        args = self.args
        if args.cell is not None:
            text = _cell_text(args.cell)
            plain = runnable(text)
            program = self._named() or best_match(self.loops.versions(), plain, is_cell=True)
            return program, changed_by_cell(program, text)
        file = read_source(args.file)
        known_one = self._named() or self._own_script(file)
        if known_one is None:
            known = itertools.chain(self.loops.versions(), self.loops.scripts())
            whole = "\n".join(
                runnable(cell.source, is_script=file.kind == "script") for cell in file.cells
            )
            known_one = best_match(known, whole, is_cell=False)
        return known_one, changed_by_file(known_one, file)

    def _named(self) -> RecordedProgram | None:
        return None if self.args.version is None else self.loops.version(self.args.version)

    def _own_script(self, file: SourceFile) -> RecordedProgram | None:
        """Return a script as Python itself ran it, unless a version of it is recorded."""
        if file.kind != "script":
            return None
        home = os.path.realpath(self.loops.project.folder)
        place = os.path.relpath(os.path.realpath(file.path), home)
        if any(version.origin == place for version in self.loops.project.versions()):
            return None
        return next((each for each in self.loops.scripts() if each.origin == place), None)

    def _others(self, base: RecordedProgram, new: Sequence[NewCell]) -> Iterator[Task]:
        from chexpoint.project import carried_to

        for other in self.loops.versions():
            if other.label == base.label:
                continue
            if not other.has_loops:
                self.left_out[other.label] = "no loop of it was recorded"
                continue
            cells, problem = carried_to(other, base.sources, [cell.source for cell in new])
            try:
                plan = None if problem else self._plan(other, cells)
            except ChexError as error:
                problem, plan = str(error), None
            if plan is not None and not plan.problems:
                yield Task(program=other, plan=plan)
            else:
                self.left_out[other.label] = problem or "; ".join(plan.problems if plan else ())


def _refuse_contradictions(args: argparse.Namespace) -> None:
    """Refuse a command line that says two things, or nothing."""
    if (args.file is None) == (args.cell is None):
        raise InvalidValue(
            "name the FILE with the added statements, or the cell with --cell FILE"
            if args.file is None
            else f"{args.file}, or --cell {args.cell}: leave one of them out"
        )
    if args.version is not None and args.all_versions:
        raise InvalidValue(f"--all-versions, or --version {args.version}: leave one of them out")
    if args.json and args.events == STANDARD_OUTPUT:
        raise InvalidValue(
            "--events - and --json cannot both go to standard output: the last event is the result"
        )


def _workers(args: argparse.Namespace) -> int:
    """Return into how many parts iterations are divided: as many as engines can run."""
    cluster = chosen_cluster(args)
    if args.workers is not None:
        return parse_workers(args.workers)
    if cluster is None or isinstance(cluster, int):
        return cluster or 1
    from chexpoint.replay import slots_in

    return slots_in(cluster)


def _project(args: argparse.Namespace) -> Project:
    folder = args.project or (os.path.dirname(args.file) if args.file else "") or "."
    if args.project is None and not os.path.isdir(folder):
        folder = "."  # that there is no such file is told later
    return project_in(folder)


def _cell_text(name: str) -> str:
    try:
        return sys.stdin.read() if name == STANDARD_OUTPUT else Path(name).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise InvalidValue(f"cannot read the cell {name}: {why}") from error
