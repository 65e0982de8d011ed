"""``chex replay``: compute versions again, and compare them with what was recorded."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chexpoint.cli.cluster_options import add_cluster_options, chosen_cluster
from chexpoint.cli.command import add_json_option
from chexpoint.cli.picture_files import STANDARD_OUTPUT, print_text, window_width
from chexpoint.cli.plan import parse_budget, parse_time
from chexpoint.cli.replay_files import ReplayFiles, Written
from chexpoint.cli.replay_package import opened_package
from chexpoint.cli.replay_progress import Events, opened_events, shown_progress
from chexpoint.cli.replay_signals import end_with, run_interruptibly
from chexpoint.cli.replay_source import Source, is_package, project_source, replay_log
from chexpoint.errors import InvalidValue, suggestion

if TYPE_CHECKING:
    from chexpoint.compare import Tolerance
    from chexpoint.model import Replay, ReplayProgress, Seconds

EXIT_INTERRUPTED = 130

_AUTO = "auto"
_PARTS = re.compile(r"(?<=[a-z])\s*(?=[0-9.])")


class ReplayCommand:
    """Replay versions of a project or a package."""

    name = "replay"
    summary = "compute versions again, and compare them with what was recorded"
    example = (
        "  chex replay                                    all versions of this project\n"
        "  chex replay baseline tuned --budget 2G         two of them\n"
        "  chex replay --workers 2 --within 10m           as many as can be done in that time\n"
        "  chex replay --scheduler tcp://10.0.0.1:8786    on a Dask cluster\n"
        "  chex replay --resume                           go on after an interrupt\n"
        "  chex replay paper.chex --venv                  a package, in its own environment\n"
        "  chex replay --yes --junit replay.xml           in CI\n\n"
        "Cells run in a copy of the files that they read; the project is left as it is.  The exit\n"
        "code is 0 only if every version is reproduced.  TIME is written like 90, 90s, 10m or\n"
        "1h30m, SIZE like 512M or 4G, or is 0 or unlimited."
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add what to replay, how, and what to make of it."""
        parser.add_argument(
            "words",
            metavar="PACKAGE|VERSION",
            nargs="*",
            help="a package (.chex), and which versions; by default, all of this project",
        )
        parser.add_argument(
            "--all-versions", action="store_true", help="say that all versions are meant"
        )
        parser.add_argument(
            "--project",
            metavar="DIR",
            help="where the notebook is; by default, this folder",
        )
        parser.add_argument("--budget", metavar="SIZE", help="memory for checkpoints")
        parser.add_argument("--planner", metavar="NAME", help="how to plan; see chex plan")
        parser.add_argument(
            "--workers",
            metavar="N",
            help=f"how many engines share the work; {_AUTO} is one for each core",
        )
        add_cluster_options(parser)
        parser.add_argument(
            "--within", metavar="TIME", help="replay as many versions as can be done in TIME"
        )
        parser.add_argument(
            "--resume", action="store_true", help="go on with a replay that was interrupted"
        )
        parser.add_argument("--timeout", metavar="TIME", help="how long a cell may take")
        for flag, what in (("--rtol", "relative to their size"), ("--atol", "in absolute terms")):
            parser.add_argument(
                flag, metavar="X", type=float, help=f"how far numbers may be apart {what}"
            )
        parser.add_argument("--report", metavar="FILE.html", help="write a page about it")
        parser.add_argument(
            "--junit", metavar="FILE.xml", help="write a JUnit file, for CI systems"
        )
        parser.add_argument(
            "--notebooks", metavar="DIR", help="write each version as a notebook, with its outputs"
        )
        add_json_option(parser)
        parser.add_argument(
            "--events", metavar="FILE", help="write what happens as lines of JSON; - for stdout"
        )
        parser.add_argument("--quiet", action="store_true", help="print nothing but errors")
        parser.add_argument(
            "--yes", action="store_true", help="run the code of a package without asking"
        )
        parser.add_argument(
            "--venv",
            metavar="DIR",
            nargs="?",
            const="",
            help="replay a package in an environment made from its lock file, kept in DIR",
        )
        parser.add_argument(
            "--limit", metavar="SIZE", help="how much a package may unpack to; see chex unpack"
        )
        parser.add_argument(
            "--pid", metavar="PID", type=int, help="interrupt the replay when this process ends"
        )
        _allow_words_anywhere(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Replay; return 0 only if everything that was asked for is reproduced."""
        settings = _settings(args)
        _refuse_contradictions(args)
        files = ReplayFiles.wanted(args)
        if args.pid is not None:
            end_with(args.pid)
        try:
            with opened_events(args.events) as events:
                with _opened(args) as source:
                    files.refuse_other_notebooks(source.recording)
                    replay = _replayed(source, settings, args, events)
                written = files.write(replay)
                problems = [*written.problems, *_ended(events, replay, args.events)]
            _tell(replay, written, problems, args)
        except KeyboardInterrupt:
            # The second one: threads that wait for a cell must not keep the user waiting.
            print("chex: ended at once", file=sys.stderr, flush=True)
            os._exit(EXIT_INTERRUPTED)
        if replay.is_interrupted:
            return EXIT_INTERRUPTED
        return 0 if replay.is_good and not problems else 1


# ---------------------------------------------------------------- what is asked


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settings:
    """How to replay."""

    budget_bytes: float | None
    planner: str
    workers: int | None
    cluster: str | int | None
    """Where to compute; None is here."""
    within_s: Seconds | None
    timeout_s: Seconds | None
    tolerance: Tolerance


def _settings(args: argparse.Namespace) -> _Settings:
    from chexpoint.compare import Tolerance
    from chexpoint.config import Config
    from chexpoint.engine import default_budget
    from chexpoint.plan import DEFAULT_PLANNER, PLANNERS

    config = Config.at(args.project or ".")
    config.export()  # engines run in a folder of their own
    cluster = chosen_cluster(args)
    if args.budget is not None:
        budget: float | None = parse_budget(args.budget)
    else:  # hosts of a cluster know best what they have
        budget = config.size("budget") or (default_budget() if cluster is None else None)
    planner = args.planner or DEFAULT_PLANNER
    if planner not in PLANNERS:
        raise InvalidValue(f"no planner '{planner}'. {suggestion(planner, PLANNERS)}")
    given = {"rtol": args.rtol, "atol": args.atol}
    tolerance = replace(Tolerance(), **{name: x for name, x in given.items() if x is not None})
    return _Settings(
        budget_bytes=budget,
        planner=planner,
        workers=None if args.workers is None else parse_workers(args.workers),
        cluster=cluster,
        within_s=None if args.within is None else parse_duration(args.within),
        timeout_s=None if args.timeout is None else parse_duration(args.timeout),
        tolerance=tolerance,
    )


def parse_duration(text: str) -> Seconds:
    """Return the seconds that a text means: ``"90"``, ``"10m"``, ``"1h30m"``; more than none.

    Raises
    ------
    InvalidValue
        If it is no time.
    """
    parts = _PARTS.split(text.strip().lower())
    is_clear = len(parts) == 1 or all(part[-1].isalpha() for part in parts)
    with contextlib.suppress(InvalidValue):
        if is_clear and (seconds := math.fsum(parse_time(part) for part in parts)) > 0:
            return seconds
    raise InvalidValue(f"'{text}' is not a time. Write for example 90, 90s, 10m or 1h30m.")


def parse_workers(text: str) -> int:
    """Return how many engines a text means.

    Raises
    ------
    InvalidValue
        If it is neither a number from 1 on nor ``auto``.
    """
    if text.strip().lower() == _AUTO:
        return len(os.sched_getaffinity(0))
    if not text.strip().isdecimal() or int(text) < 1:
        raise InvalidValue(f"--workers {text}: give 1 or more, or {_AUTO} for one on each core")
    return int(text)


def _refuse_contradictions(args: argparse.Namespace) -> None:
    """Refuse a command line that says two things, and put the package before the versions."""
    if args.venv and is_package(args.venv) and not os.path.isdir(args.venv):
        args.words.insert(0, args.venv)  # it stood behind --venv, which may have no DIR
        args.venv = ""
    has_package = bool(args.words) and is_package(args.words[0])
    names = args.words[1:] if has_package else args.words
    if names and args.all_versions:
        raise InvalidValue(f"--all-versions, or {' '.join(names)}: leave one of them out")
    if has_package and args.project is not None:
        raise InvalidValue("a package has its files in it: leave out --project")
    if not has_package and args.venv is not None:
        raise InvalidValue("--venv makes the environment of a package: name a .chex file first")
    if args.json and args.events == STANDARD_OUTPUT:
        raise InvalidValue(
            "--events - and --json cannot both go to standard output: the last event is the result"
        )


def _allow_words_anywhere(parser: argparse.ArgumentParser) -> None:
    """Let versions stand also behind options, and keep the command line as it was given."""
    parse = parser.parse_known_args

    def parse_known_args(
        args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        words = list(sys.argv[1:] if args is None else args)
        found, rest = parse(words, namespace)
        found.given = words
        found.words += [word for word in rest if not word.startswith("-")]
        return found, [word for word in rest if word.startswith("-")]

    parser.parse_known_args = parse_known_args  # type: ignore[method-assign, assignment]


# ---------------------------------------------------------------- what is done


@contextlib.contextmanager
def _opened(args: argparse.Namespace) -> Iterator[Source]:
    """Yield what is to be replayed, and a folder for it."""
    import tempfile

    words = args.words
    with tempfile.TemporaryDirectory(prefix="chex-replay-", ignore_cleanup_errors=True) as scratch:
        if words and is_package(words[0]):
            with opened_package(args, Path(scratch)) as source:
                yield source
        else:
            yield project_source(args.project or ".", words, Path(scratch))


def _replayed(
    source: Source, settings: _Settings, args: argparse.Namespace, events: Events | None
) -> Replay:
    from chexpoint.replay import ClusterReplayer, Replayer

    is_quiet = args.quiet or args.json
    with replay_log(source) as log, shown_progress(is_quiet=is_quiet) as show:

        def watch(progress: ReplayProgress) -> None:
            if events is not None:
                events.watch(progress)
            show(progress)

        if args.resume and (log is None or not log.exists()):
            print("chex: nothing to resume: this begins with the first cell", file=sys.stderr)
        how: dict[str, Any] = {
            "budget_bytes": settings.budget_bytes,
            "planner": settings.planner,
            "within_s": settings.within_s,
            "timeout_s": settings.timeout_s,
            "tolerance": settings.tolerance,
            "log": log,
            "scratch": source.scratch,
            "watch": watch,
        }
        if settings.cluster is None:
            replayer = Replayer(
                source.recording, source.files, workers=settings.workers or 1, **how
            )
        else:
            replayer = ClusterReplayer(
                source.recording,
                source.files,
                cluster=settings.cluster,
                store=args.store,
                engines=settings.workers,
                **how,
            )
        return run_interruptibly(
            replayer, lambda: replayer.run(resume=args.resume), is_quiet=is_quiet
        )


def _ended(events: Events | None, replay: Replay, name: str) -> list[str]:
    """Tell those who follow what came of it; return why they cannot be told, if so."""
    from chexpoint.view import replay_html, replay_json, replay_text

    if events is None:
        return []
    events.end(
        {"kind": "summary", "text": replay_text(replay), "html": replay_html(replay)},
        {"kind": "result", **replay_json(replay)},
    )
    return [f"cannot write {name}: {events.problem}"] if events.problem else []


def _tell(
    replay: Replay, written: Written, problems: Sequence[str], args: argparse.Namespace
) -> None:
    """Print what came of it."""
    from chexpoint.view import replay_json, replay_text

    if args.json:
        print(json.dumps(replay_json(replay)))
    elif not args.quiet and args.events != STANDARD_OUTPUT:
        print_text(replay_text(replay, width=window_width()))
        for line in written.lines():
            print_text(line)
    for problem in problems:
        print(f"chex: {problem}", file=sys.stderr)
    if replay.is_interrupted:
        again = [word for word in args.given if word != "--resume"]
        command = shlex.join(["chex", "replay", *again, "--resume"])
        print(f"chex: interrupted; go on with: {command}", file=sys.stderr)
