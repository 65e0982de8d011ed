"""``chex hindsight``: what log statements would have logged that were added after the training."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from chexpoint.cli.cluster_options import add_cluster_options
from chexpoint.cli.command import add_json_option
from chexpoint.cli.hindsight_dry_run import plan_lines, plans_json
from chexpoint.cli.hindsight_progress import Watch, shown_iterations
from chexpoint.cli.hindsight_work import HindsightWork, Task
from chexpoint.cli.picture_files import STANDARD_OUTPUT, print_text, window_width
from chexpoint.cli.replay_progress import Events, opened_events
from chexpoint.cli.replay_signals import end_with, run_interruptibly
from chexpoint.errors import ChexError

if TYPE_CHECKING:
    from chexpoint.model import HindsightResult
    from chexpoint.replay import HindsightProgress

EXIT_INTERRUPTED = 130


class HindsightCommand:
    """Replay loops with log statements that were added."""

    name = "hindsight"
    summary = "add log statements to a training that has ended, and see what they would have logged"
    example = (
        "  chex hindsight train.py                        the newest version of it\n"
        "  chex hindsight train.py --version baseline     another one\n"
        "  chex hindsight train.ipynb --epochs 40:60      these iterations of the main loop\n"
        "  chex hindsight train.py --workers 2            an inner loop, by two engines\n"
        "  chex hindsight train.py --scheduler tcp://10.0.0.1:8786    on a Dask cluster\n"
        "  chex hindsight train.py --all-versions --plot norms.svg\n"
        "  chex hindsight train.py --dry-run              what would be replayed, and how long\n\n"
        "First add print(...), chexpoint.log(...) or calls of your logger to FILE, where you\n"
        "want to know more.  Only the loops that these are in are run again, from states that\n"
        "were kept during the training, in a copy of the files that were read.  A value is\n"
        "exact if the state it was computed from is shown to be that of the training,\n"
        "unverified if that cannot be shown, or diverged.  The exit code is 1 if a value\n"
        "diverged or a replay failed.  Iterations count from 0; A:B is without B."
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add what was changed, which versions, and what to make of it."""
        parser.add_argument(
            "file",
            metavar="FILE",
            nargs="?",
            help="the script (.py) or notebook (.ipynb) with the added statements",
        )
        parser.add_argument(
            "--cell",
            metavar="FILE",
            help="a file with one changed cell, in place of the whole program; - for stdin",
        )
        parser.add_argument(
            "--version", metavar="V", help="the version to replay; by default, the most alike"
        )
        parser.add_argument(
            "--all-versions",
            action="store_true",
            help="carry the statements to all other versions, too",
        )
        parser.add_argument("--epochs", metavar="A:B", help="which iterations of the main loop")
        parser.add_argument(
            "--workers",
            metavar="N",
            help="how many engines share the iterations; auto is one for each core",
        )
        parser.add_argument(
            "--resume",
            action="store_true",
            help="go on where an interrupted replay of the same has ended",
        )
        add_cluster_options(parser)
        parser.add_argument(
            "--names", metavar="A,B", help="only values of these names, also those of the training"
        )
        parser.add_argument("--csv", metavar="OUT.csv", help="write the values as a table")
        parser.add_argument("--plot", metavar="OUT.svg", help="draw the values that are numbers")
        parser.add_argument(
            "--dry-run", action="store_true", help="say what would be replayed, and replay nothing"
        )
        parser.add_argument(
            "--project", metavar="DIR", help="where it was recorded; by default, the folder of FILE"
        )
        add_json_option(parser)
        parser.add_argument(
            "--events", metavar="OUT", help="write what happens as lines of JSON; - for stdout"
        )
        parser.add_argument("--quiet", action="store_true", help="print nothing but errors")
        parser.add_argument(
            "--pid", metavar="PID", type=int, help="interrupt the replay when this process ends"
        )

    def run(self, args: argparse.Namespace) -> int:
        """Replay; return 0 only if nothing diverged or failed."""
        from chexpoint.replay import INTERRUPTED

        work = HindsightWork.asked(args)
        if args.pid is not None:
            end_with(args.pid)
        try:
            with opened_events(args.events) as events:
                tasks = work.tasks()
                if work.problems:
                    return _refused(work.problems)
                if args.dry_run:
                    _tell_plans(tasks, work.left_out, args)
                    return 0
                results = _replayed(work, tasks, args, events)
                written = work.files.write(results, work.names)
                _tell(results, work, written, args, events)
        except KeyboardInterrupt:
            # The second one: threads that wait for a cell must not keep the user waiting.
            print("chex: ended at once", file=sys.stderr, flush=True)
            os._exit(EXIT_INTERRUPTED)
        if any(result.failed == INTERRUPTED for result in results):
            print("chex: interrupted", file=sys.stderr)
            return EXIT_INTERRUPTED
        return 0 if _is_good(results) else 1


# ---------------------------------------------------------------- what is done


def _replayed(
    work: HindsightWork, tasks: Sequence[Task], args: argparse.Namespace, events: Events | None
) -> list[HindsightResult]:
    """Replay one version after the other, until one is interrupted."""
    from chexpoint.replay import INTERRUPTED

    is_quiet = args.quiet or args.json or events is not None
    results: list[HindsightResult] = []
    with shown_iterations(is_quiet=is_quiet) as show:

        def watch(progress: HindsightProgress) -> None:
            if events is not None:
                events.end({"kind": "progress", **_progress_json(progress)})
            show(progress)

        for task in tasks:
            result = _replay(work, task, watch, is_quiet=is_quiet)
            results.append(result)
            if result.failed == INTERRUPTED:
                break
    return results


def _replay(work: HindsightWork, task: Task, watch: Watch, *, is_quiet: bool) -> HindsightResult:
    from chexpoint.model import HindsightResult
    from chexpoint.replay import ClusterHindsightReplayer, HindsightReplayer

    try:
        world, store = work.loops.world(task.program), str(work.loops.project.store_folder)
        log = work.loops.project.path.parent / "replays"
        if work.cluster is None:
            replayer = HindsightReplayer(
                task.plan, world, store=store, workers=work.workers, watch=watch, log=log
            )
        else:
            replayer = ClusterHindsightReplayer(
                task.plan,
                world,
                cluster=work.cluster,
                store=store,
                shared=work.args.store,
                watch=watch,
                log=log,
            )
        run = partial(replayer.run, resume=work.args.resume)
        return run_interruptibly(replayer, run, is_quiet=is_quiet)
    except ChexError as error:
        if not work.args.all_versions:
            raise
        return HindsightResult(version=task.program.label, failed=str(error))


def _progress_json(progress: HindsightProgress) -> dict[str, object]:
    return {
        "version": progress.version,
        "done": progress.done,
        "total": progress.total,
        "seconds": progress.seconds,
        "seconds_left": progress.seconds_left,
    }


def _is_good(results: Sequence[HindsightResult]) -> bool:
    is_same = all(row.standing != "diverged" for result in results for row in result.rows)
    return is_same and not any(result.failed or result.findings for result in results)


# ---------------------------------------------------------------- what is told


def _refused(problems: Sequence[str]) -> int:
    for problem in problems:
        print(f"chex: {' '.join(problem.split())}", file=sys.stderr)
    return 1


def _tell_plans(
    tasks: Sequence[Task], left_out: Mapping[str, str], args: argparse.Namespace
) -> None:
    """Print what would be replayed."""
    plans = [task.plan for task in tasks]
    if args.json:
        print(json.dumps(plans_json(plans, left_out)))
        return
    for line in plan_lines(plans, left_out):
        print_text(line)


def _tell(
    results: Sequence[HindsightResult],
    work: HindsightWork,
    written: Sequence[str],
    args: argparse.Namespace,
    events: Events | None,
) -> None:
    """Print what came of it, and tell those who follow."""
    from chexpoint.view import hindsight_html, hindsight_json, hindsight_svg, hindsight_text

    names, left_out = work.names, work.left_out
    if events is not None:
        summary = {
            "kind": "summary",
            "text": hindsight_text(results, left_out=left_out, names=names),
            "html": hindsight_html(results, left_out=left_out, names=names),
            "svg": hindsight_svg(results, names=names),
        }
        events.end(summary, {"kind": "result", **hindsight_json(results, left_out, names)})
    if args.json:
        print(json.dumps(hindsight_json(results, left_out, names)))
    elif not args.quiet and args.events != STANDARD_OUTPUT:
        print_text(hindsight_text(results, left_out=left_out, names=names, width=window_width()))
        for line in written:
            print_text(line)
