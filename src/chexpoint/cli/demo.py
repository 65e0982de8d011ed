"""``chex demo``: record the versions of the bundled studies, replay them all, show the saving."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chexpoint.cli.command import add_json_option
from chexpoint.cli.picture_files import print_text, window_width
from chexpoint.cli.resources import bundled
from chexpoint.errors import InvalidValue, suggestion
from chexpoint.model import format_seconds

if TYPE_CHECKING:
    import argparse

    from chexpoint.model import Replay, Seconds
    from chexpoint.project import Project

STUDIES = ("digits", "epidemic", "relief")
"""Folders of bundled notebooks, ``v1_*.ipynb`` and so on, with the data that they read."""
QUICK_STUDY = "epidemic"
QUICK_VERSIONS = 3
REPORT = "report.html"
EXTRA = "pip install 'chexpoint[demo]'"

EXIT_INTERRUPTED = 130

_IMPORT = re.compile(r"^(?:from|import) (\w+)", re.MULTILINE)
_HEADINGS = ("study", "versions", "one by one", "replayed", "saved", "cells computed", "verdict")


class DemoCommand:
    """Record and replay bundled notebooks."""

    name = "demo"
    summary = "record the bundled versions, replay them all, and show the saving"
    example = (
        "  chex demo                       all studies: about a minute\n"
        "  chex demo relief --keep out     one, with its folder and the report in out/relief\n"
        "  chex demo --quick --json\n\n"
        "Everything happens in a temporary folder, if there is no --keep. The exit code is 0 only\n"
        "if every version is reproduced."
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add which studies, and what to leave behind."""
        parser.add_argument(
            "studies",
            metavar="STUDY",
            nargs="*",
            help=f"{', '.join(STUDIES)}; by default, all that can run",
        )
        parser.add_argument(
            "--quick",
            action="store_true",
            help=f"only {QUICK_VERSIONS} versions of each study; without STUDY, of {QUICK_STUDY}",
        )
        parser.add_argument(
            "--keep", metavar="DIR", help="keep the folder of each study, with a report, in DIR"
        )
        add_json_option(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Record and replay; return 0 only if everything is reproduced."""
        studies, lacking = _chosen(args.studies, is_quick=args.quick)
        if lacking:
            print(f"chex: {lacking_line(lacking)}", file=sys.stderr)
        outcomes: list[Outcome] = []
        with _workshop(args.keep, studies) as folder:
            for study in studies:
                study.copy_to(folder / study.name)
                outcome = _demonstrated(study, folder / study.name, is_quiet=args.json)
                if outcome is None:
                    return EXIT_INTERRUPTED
                outcomes.append(outcome)
                if args.keep is not None:
                    _keep_report(outcome.replay, folder / study.name, is_quiet=args.json)
        if args.json:
            print(json.dumps(demo_json(outcomes, lacking)))
        else:
            print_text("\n".join(["", *summary_lines(outcomes)]))
        return 0 if all(outcome.is_good for outcome in outcomes) else 1


# ---------------------------------------------------------------- studies


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """Versions of one notebook."""

    name: str
    folder: Path
    """Where they are, with their data."""
    versions: tuple[str, ...]
    """The notebooks, in the order in which they were saved."""

    @classmethod
    def bundled(cls, name: str, *, most: int | None = None) -> Study:
        """Return a study that comes with CHEX, or the first versions of it."""
        folder = bundled("notebooks") / name
        versions = sorted(path.name for path in folder.glob("v*.ipynb"))
        return cls(name=name, folder=folder, versions=tuple(versions[:most]))

    def lacks(self) -> tuple[str, ...]:
        """Return the modules that the notebooks import and that are not installed."""
        from chexpoint.project import read_source

        cells = [cell for name in self.versions for cell in read_source(self.folder / name).cells]
        modules = {module for cell in cells for module in _IMPORT.findall(cell.source)}
        return tuple(sorted(name for name in modules if importlib.util.find_spec(name) is None))

    def copy_to(self, folder: Path) -> None:
        """Make a folder with the notebooks and their data, and nothing that runs have left."""
        folder.mkdir()
        for path in self.folder.iterdir():
            if path.is_file() and not path.name.startswith((".", "results_")):
                # Without permissions: those of an installation may forbid to write.
                shutil.copyfile(path, folder / path.name)


Lacking = dict[str, tuple[str, ...]]
"""The modules that studies lack, by the names of the studies."""


def _chosen(names: Sequence[str], *, is_quick: bool) -> tuple[list[Study], Lacking]:
    """Return the studies to run, and those that cannot.

    Raises
    ------
    InvalidValue
        If there is no such study, or one that the user wants cannot run, or none at all can.
    """
    for name in names:
        if name not in STUDIES:
            raise InvalidValue(f"no study '{name}'. {suggestion(name, STUDIES)}")
    wanted = dict.fromkeys(names or ([QUICK_STUDY] if is_quick else STUDIES))
    most = QUICK_VERSIONS if is_quick else None
    studies = [Study.bundled(name, most=most) for name in wanted]
    lacking = {study.name: lacks for study in studies if (lacks := study.lacks())}
    found = [study for study in studies if study.name not in lacking]
    if not found or (names and lacking):
        raise InvalidValue(lacking_line(lacking))
    return found, lacking


def lacking_line(lacking: Lacking) -> str:
    """Return what is said of studies that cannot run."""
    modules = sorted({module for modules in lacking.values() for module in modules})
    return f"{' and '.join(lacking)} cannot run without {' and '.join(modules)}: {EXTRA}"


@contextlib.contextmanager
def _workshop(keep: str | None, studies: Sequence[Study]) -> Iterator[Path]:
    """Yield the folder for the copies of studies, which is temporary unless it is named.

    Raises
    ------
    InvalidValue
        If it cannot be made, or something in it would be lost.
    """
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="chex-demo-", ignore_cleanup_errors=True) as folder:
            yield Path(folder)
        return
    for study in studies:
        if (Path(keep) / study.name).exists():
            raise InvalidValue(f"{Path(keep) / study.name} exists: name another folder")
    try:
        Path(keep).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidValue(f"cannot make the folder {keep}: {error.strerror or error}") from error
    yield Path(keep)


# ---------------------------------------------------------------- recording and replaying


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a study has shown."""

    study: str
    recorded_seconds: Seconds
    """What it took to run one version after the other."""
    is_recorded: bool
    """Whether all cells of all versions succeeded."""
    replay: Replay

    @property
    def is_good(self) -> bool:
        """Whether every version was recorded, and is reproduced."""
        return self.is_recorded and self.replay.is_good

    @property
    def saved(self) -> float:
        """The part of the time that was saved."""
        return 1 - self.replay.seconds / max(self.recorded_seconds, 1e-9)


def _demonstrated(study: Study, folder: Path, *, is_quiet: bool) -> Outcome | None:
    """Record a study and replay it; None if the user has interrupted it."""
    from chexpoint.project import Project
    from chexpoint.view import replay_text, tree_text

    say = (lambda text: None) if is_quiet else print_text
    say(f"\n{study.name}: run {len(study.versions)} versions one by one, and record them\n")
    recorded = _recorded(study, folder, is_quiet=is_quiet)
    if recorded is None:
        return None
    seconds, is_recorded = recorded
    project = Project.at(folder)
    say(f"\n{tree_text(project.tree(), width=window_width())}")
    say(f"\n{study.name}: replay all versions, and compare\n")
    replay = _replayed(project, is_quiet=is_quiet)
    if replay.is_interrupted:
        print("chex: interrupted", file=sys.stderr)
        return None
    say(replay_text(replay, width=window_width()))
    return Outcome(
        study=study.name, recorded_seconds=seconds, is_recorded=is_recorded, replay=replay
    )


def _recorded(study: Study, folder: Path, *, is_quiet: bool) -> tuple[Seconds, bool] | None:
    """Record the versions; return how long they took, and whether all cells succeeded.

    None if the user has interrupted it.
    """
    from chexpoint.cli.record import record_all, recording_progress
    from chexpoint.cli.record_report import Report
    from chexpoint.project import combinations, plan_versions, read_source

    report = Report(is_quiet=is_quiet)
    files = [read_source(folder / name) for name in study.versions]
    tasks = plan_versions(files, combinations([]))
    with recording_progress(tasks, is_shown=not is_quiet) as watch:
        record_all(tasks, report, watch)
    if report.exit_code == EXIT_INTERRUPTED:
        return None
    return sum(run.seconds for run in report.versions), report.exit_code == 0


def _replayed(project: Project, *, is_quiet: bool) -> Replay:
    from chexpoint.cli.replay_progress import shown_progress
    from chexpoint.cli.replay_signals import run_interruptibly
    from chexpoint.project import ProjectFiles, recording_of
    from chexpoint.replay import Replayer

    # What came of each version is told in the end: without a terminal, that is enough.
    with shown_progress(is_quiet=is_quiet or not sys.stderr.isatty()) as watch:
        replayer = Replayer(recording_of(project), ProjectFiles(project), watch=watch)
        return run_interruptibly(replayer, replayer.run, is_quiet=is_quiet)


def _keep_report(replay: Replay, folder: Path, *, is_quiet: bool) -> None:
    from chexpoint.view import replay_page

    (folder / REPORT).write_text(replay_page(replay), encoding="utf-8")
    if not is_quiet:
        print_text(f"\nkept {folder}, with {REPORT}")


# ---------------------------------------------------------------- what came of it


def demo_json(outcomes: Sequence[Outcome], lacking: Lacking) -> dict[str, Any]:
    """Return plain JSON types."""
    from chexpoint.view import replay_json

    return {
        "reproduced": all(outcome.is_good for outcome in outcomes),
        "studies": [
            {
                "study": outcome.study,
                "reproduced": outcome.is_good,
                "one_by_one_seconds": outcome.recorded_seconds,
                "saved": outcome.saved,
                "replay": replay_json(outcome.replay),
            }
            for outcome in outcomes
        ],
        "lacking": {study: list(modules) for study, modules in lacking.items()},
    }


def summary_lines(outcomes: Sequence[Outcome]) -> list[str]:
    """Return a table with a line for each study."""
    rows = [_HEADINGS, *(_row(outcome) for outcome in outcomes)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            # Words to the left, numbers to the right.
            cell.ljust(width) if at in {0, len(row) - 1} else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _row(outcome: Outcome) -> tuple[str, ...]:
    replay = outcome.replay
    return (
        outcome.study,
        str(len(replay.recording.tree.versions)),
        format_seconds(outcome.recorded_seconds),
        format_seconds(replay.seconds),
        f"{outcome.saved * 100:.0f} %",
        f"{replay.computed_cells} of {replay.cells_in_versions}",
        _verdict(outcome),
    )


def _verdict(outcome: Outcome) -> str:
    if not outcome.is_recorded:
        return "a cell failed"
    return "reproduced" if outcome.replay.is_good else "not reproduced"
