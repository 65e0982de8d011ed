"""``chex record``: run notebooks and scripts from top to bottom, and record them as versions."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chexpoint.cli.bars import bars
from chexpoint.cli.cluster_options import add_cluster_options, chosen_cluster
from chexpoint.cli.command import add_json_option
from chexpoint.cli.record_report import Report, list_versions
from chexpoint.errors import CatalogError, EngineError, InvalidValue

if TYPE_CHECKING:
    from chexpoint.project import Batch, ClusterBatch, SourceFile, VersionTask

EXIT_INTERRUPTED = 130

Watch = Callable[["VersionTask", int, int], None]
"""Called before each cell and after the last one of a version: cells that have run, and all."""


class RecordCommand:
    """Run files in a headless engine."""

    name = "record"
    summary = "run notebooks and scripts from top to bottom, and record them as versions"
    example = (
        "  chex record analysis.ipynb\n"
        "  chex record train.py --name baseline\n"
        "  chex record train.py -p lr=0.1,0.01 -p depth=2:6      10 versions\n"
        "  chex record train.py -p width=16:64:16 --dry-run      which versions these would be\n"
        "  chex record train.py -- --epochs 3                    arguments for the script\n"
        "  chex record features.ipynb --reuse                    run only what is new\n"
        "  chex record train.py -p lr=0.1,0.01 --scheduler tcp://10.0.0.1:8786\n\n"
        "Cells run in the project folder, those of a notebook in its own. A value is a number,\n"
        "True, False, None, a list or dictionary in JSON, or else a text. Put quotes around a\n"
        "text that has a comma in it, or looks like a range: -p 'when=\"12:30\"'."
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the files, the parameters, and where to record."""
        parser.add_argument(
            "files", metavar="FILE", nargs="+", help="notebooks (.ipynb) and scripts (.py)"
        )
        parser.add_argument(
            "--name", metavar="NAME", help="what to call the version; by default, as the file"
        )
        parser.add_argument(
            "-p",
            dest="parameters",
            metavar="NAME=VALUE",
            action="append",
            default=[],
            help="set a parameter, as papermill does; with several values, VALUE,VALUE or the "
            "whole numbers FIRST:LAST or FIRST:LAST:STEP, there is a version for each; may be "
            "given again",
        )
        parser.add_argument(
            "--fresh",
            action="store_true",
            help="run every cell of each version, also those that they begin with together",
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="list the versions, and run nothing"
        )
        parser.add_argument(
            "--project",
            metavar="DIR",
            help="where to record and to run; by default, the folder of each file",
        )
        parser.add_argument(
            "--timeout", metavar="SECONDS", type=_seconds, help="how long a cell may take"
        )
        parser.add_argument(
            "--reuse",
            action="store_true",
            help="do not run cells whose results are known, from this project or from the "
            "experiment graph, and load what others need of them",
        )
        add_cluster_options(parser)
        parser.add_argument("--quiet", action="store_true", help="print nothing but errors")
        add_json_option(parser)
        _leave_arguments(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Record all versions; return 0 only if each of them has succeeded."""
        from chexpoint.project import combinations, plan_versions

        choices = combinations(args.parameters)
        if args.project is not None and not Path(args.project).is_dir():
            raise InvalidValue(f"no folder {args.project}")
        if args.name is not None and len(args.files) > 1:
            raise InvalidValue(
                f"--name {args.name} is for one file, and there are {len(args.files)}: record them "
                "one by one, or leave it out, and they are called after their files"
            )
        report = Report(is_quiet=args.quiet or args.json)
        files = list(_readable(args.files, report))
        for file in files:
            if args.arguments and file.kind != "script":
                raise InvalidValue(f"{file.path} is no script: it takes no arguments after --")
        tasks = plan_versions(
            files,
            choices,
            name=args.name,
            folder=args.project,
            arguments=tuple(args.arguments),
        )
        if args.fresh and args.reuse:
            raise InvalidValue("--fresh runs every cell, and --reuse only what is new: choose one")
        cluster = chosen_cluster(args)
        if cluster is not None and args.reuse:
            raise InvalidValue("--reuse is for this machine: leave it out, or the cluster")
        if args.dry_run:
            list_versions(tasks, is_json=args.json, is_fresh=args.fresh)
            return report.exit_code
        try:
            _record(args, tasks, report, cluster)
        except EngineError as error:
            report.fail(str(error))
        if args.json:
            print(json.dumps(report.to_json()))
        else:
            report.summarize()
        return report.exit_code


def _record(
    args: argparse.Namespace,
    tasks: Sequence[VersionTask],
    report: Report,
    cluster: str | int | None,
) -> None:
    """Record versions, here or on a cluster."""
    with recording_progress(tasks, is_shown=not args.quiet) as watch:
        if cluster is not None:
            record_elsewhere(
                *(tasks, report, watch, cluster, args.store),
                timeout_s=args.timeout,
                is_sharing=not args.fresh,
            )
        else:
            record_all(
                *(tasks, report, watch),
                timeout_s=args.timeout,
                is_reusing=args.reuse,
                is_sharing=not args.fresh,
            )


def record_all(
    tasks: Sequence[VersionTask],
    report: Report,
    watch: Watch,
    *,
    timeout_s: float | None = None,
    is_reusing: bool = False,
    is_sharing: bool = True,
) -> None:
    """Record versions until all are done, or the user interrupts it.

    What a project folder has no room for is told once, and its other versions are left out.

    Parameters
    ----------
    is_sharing
        Whether the cells that versions begin with together are run once.
    """
    from chexpoint.project import Batch, Turn, in_turns

    warned: set[Path] = set()
    alone: set[Path] = set()
    unusable: set[Path] = set()
    with Batch(timeout_s=timeout_s, is_reusing=is_reusing) as batch, _interrupting(batch):
        for turn in in_turns(tasks) if is_sharing else (Turn(task) for task in tasks):
            task = turn.task
            if batch.is_interrupted:
                break
            if task.folder in unusable:
                continue
            if task.file.path not in warned and (names := task.overridden()):
                warned.add(task.file.path)
                report.warn(_about_overridden(task, names))
            try:
                run = batch.record(
                    task,
                    lambda done, all_: watch(task, done, all_),  # noqa: B023
                    keep=turn.keep,
                )
            except CatalogError as error:
                report.fail(str(error))
                unusable.add(task.folder)
                continue
            report.recorded(run)
            if turn.keep and batch.why_not_shared and task.file.path not in alone:
                alone.add(task.file.path)
                report.warn(_about_sharing(task, batch.why_not_shared))
    if batch.is_interrupted:
        report.fail("interrupted", EXIT_INTERRUPTED)


def record_elsewhere(
    tasks: Sequence[VersionTask],
    report: Report,
    watch: Watch,
    cluster: str | int,
    store: str | None,
    *,
    timeout_s: float | None = None,
    is_sharing: bool = True,
) -> None:
    """Record versions on a cluster until all are done, or the user interrupts it."""
    from chexpoint.project import ClusterBatch

    for task in {task.file.path: task for task in tasks}.values():
        if names := task.overridden():
            report.warn(_about_overridden(task, names))
    batch = ClusterBatch(
        cluster,
        store=store,
        timeout_s=timeout_s,
        is_sharing=is_sharing,
        recorded=report.recorded,
        progress=watch,
        note=report.warn,
    )
    with _interrupting(batch):
        batch.record(tasks)
    if batch.is_interrupted:
        report.fail("interrupted", EXIT_INTERRUPTED)


@contextlib.contextmanager
def _interrupting(batch: Batch | ClusterBatch) -> Iterator[None]:
    """Let Ctrl-C interrupt the running cell, and a second one everything."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        if batch.is_interrupted:
            raise KeyboardInterrupt
        batch.interrupt()

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        if hasattr(batch, "kill"):
            batch.kill()
        raise
    finally:
        signal.signal(signal.SIGINT, before)


def _readable(names: Sequence[str], report: Report) -> Iterator[SourceFile]:
    from chexpoint.project import read_source

    for name in names:
        try:
            yield read_source(name)
        except InvalidValue as error:
            report.file_failed(name, error)


def _about_overridden(task: VersionTask, names: Sequence[str]) -> str:
    how = '"# parameters" above it' if task.file.kind == "script" else "the tag parameters"
    return (
        f"{task.file.path}: {', '.join(names)} is set to something else after -p has set it; "
        f"mark the cell with the default, with {how}, and -p comes after it"
    )


def _about_sharing(task: VersionTask, why: str) -> str:
    return f"{task.file.path}: what its versions begin with is run for each of them: {why}"


# ---------------------------------------------------------------- options


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"'{text}' is no time in seconds")
    return seconds


def _leave_arguments(parser: argparse.ArgumentParser) -> None:
    """Have the words after ``--`` left for the script: argparse would take them for files."""
    parse = parser.parse_known_args

    def parse_known_args(
        args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        words = list(sys.argv[1:] if args is None else args)
        at = words.index("--") if "--" in words else len(words)
        found, rest = parse(words[:at], namespace)
        found.arguments = words[at + 1 :]
        # It stops taking files at the first option.
        found.files += [word for word in rest if not word.startswith("-")]
        return found, [word for word in rest if word.startswith("-")]

    parser.parse_known_args = parse_known_args  # type: ignore[method-assign, assignment]


# ---------------------------------------------------------------- progress


@contextlib.contextmanager
def recording_progress(tasks: Sequence[VersionTask], *, is_shown: bool) -> Iterator[Watch]:
    """Show a bar for all cells and one for those of a version, if there is a terminal."""
    if not is_shown or not tasks or not sys.stderr.isatty():
        yield lambda task, done, total: None
        return
    from rich.progress import MofNCompleteColumn, TextColumn, TimeElapsedColumn

    with bars(MofNCompleteColumn(), TextColumn("cells"), TimeElapsedColumn()) as shown:
        whole = shown.add_task("all", total=sum(len(task.cells()) for task in tasks))
        part = shown.add_task("starting")
        before = {
            id(task): sum(len(t.cells()) for t in tasks[:at]) for at, task in enumerate(tasks)
        }

        def watch(task: VersionTask, done: int, total: int) -> None:
            if done == 0:
                shown.reset(part, description=task.name, total=total)
            shown.update(part, completed=done)
            shown.update(whole, completed=before[id(task)] + done)

        yield watch
