"""``chex bench``: measure on this machine what was published, and what CHEX promises."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from chexpoint.cli.bench_claims import BENCHMARKS, Benchmark
from chexpoint.cli.command import add_json_option
from chexpoint.cli.picture_files import print_text
from chexpoint.errors import InvalidValue
from chexpoint.model import format_seconds

if TYPE_CHECKING:
    import argparse

    from chexpoint.cli.bench_table import Outcome

EXIT_INTERRUPTED = 130

Show = Callable[[str, bool], None]
"""Shows how far all is; the second argument says whether another benchmark has begun."""


class BenchCommand:
    """Run benchmarks, and compare with what was published."""

    name = "bench"
    summary = "measure what CHEX promises on this machine, beside published figures"
    example = (
        "  chex bench                        a try with small sizes: some ten minutes\n"
        "  chex bench --full --only replay   one in full; leave the machine alone meanwhile\n"
        "  chex bench --list\n"
        "  chex bench --markdown > table.md\n\n"
        "Needs a clone of CHEX: the benchmarks are in tests/bench. The exit code is 1 if one\n"
        "fails or a bar is not met. What a machine cannot run is told, and does not count."
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add what to run, and how to show it."""
        parser.add_argument(
            "--only",
            metavar="NAME",
            action="append",
            choices=[benchmark.name for benchmark in BENCHMARKS],
            help="run this one; may be given again",
        )
        parser.add_argument(
            "--full", action="store_true", help="all sizes and rounds, for figures to rely on"
        )
        parser.add_argument("--list", action="store_true", help="list the benchmarks, run nothing")
        parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
        add_json_option(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Run them, print the table; return 1 if something fails or misses its bar."""
        from chexpoint.cli.bench_run import source_tree
        from chexpoint.cli.bench_table import exit_code, judged

        if args.markdown and (args.json or args.list):
            raise InvalidValue("--markdown is for the table: leave out --json and --list")
        chosen = [each for each in BENCHMARKS if not args.only or each.name in args.only]
        if args.list:
            _print_list(chosen, is_full=args.full, is_json=args.json)
            return 0
        tree, load = source_tree(), os.getloadavg()[0]
        outcomes = {} if args.only or args.full else _left_out(chosen)
        chosen = [each for each in chosen if each.name not in outcomes]
        interrupted = False
        try:
            with _shown() as show:
                Running(chosen, tree, is_full=args.full, show=show).into(outcomes)
        except KeyboardInterrupt:
            interrupted = True
        _print(args, outcomes, load)
        return EXIT_INTERRUPTED if interrupted else exit_code(judged(outcomes))


# ---------------------------------------------------------------- running


def _left_out(benchmarks: Sequence[Benchmark]) -> dict[str, Outcome]:
    """Return what is told of those that are not run unless somebody asks for them."""
    from chexpoint.cli.bench_table import Outcome, minutes

    return {
        each.name: Outcome(
            state="not run",
            why=f"takes about {minutes(each.quick_seconds)}",
            advice=f"chex bench --only {each.name}",
        )
        for each in benchmarks
        if each.is_long
    }


@dataclass(slots=True)
class Running:
    """Benchmarks that run one after the other, and how far they are."""

    benchmarks: Sequence[Benchmark]
    tree: Path
    is_full: bool = field(kw_only=True)
    show: Show = field(kw_only=True)
    _taken: list[float] = field(default_factory=list, init=False)

    def into(self, outcomes: dict[str, Outcome]) -> None:
        """Run all; note what comes of each as soon as it is known."""
        from chexpoint.cli.bench_run import run

        for benchmark in self.benchmarks:
            started = time.monotonic()
            self._tell(0.0, "", is_new=True)
            outcomes[benchmark.name] = run(
                benchmark, self.tree, is_full=self.is_full, tick=self._tell
            )
            self._taken.append(time.monotonic() - started)

    def _tell(self, seconds: float, said: str, *, is_new: bool = False) -> None:
        from chexpoint.cli.bench_table import seconds_left

        expected = [each.seconds(is_full=self.is_full) for each in self.benchmarks]
        left = format_seconds(seconds_left(expected, self._taken, seconds))
        at = len(self._taken)
        place = f"{self.benchmarks[at].name} ({at + 1} of {len(self.benchmarks)})"
        self.show(f"{place}, about {left} left{said and f': {said}'}", is_new)


@contextlib.contextmanager
def _shown() -> Iterator[Show]:
    """Show progress on standard error: in one line of a terminal, else a line for each."""
    if not sys.stderr.isatty():
        yield lambda text, is_new: print(text, file=sys.stderr, flush=True) if is_new else None
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status("") as status:
        yield lambda text, _: status.update(Text(text, overflow="ellipsis", no_wrap=True))


# ---------------------------------------------------------------- what came of it


def _print(args: argparse.Namespace, outcomes: Mapping[str, Outcome], load: float) -> None:
    from chexpoint.cli.bench_run import machine
    from chexpoint.cli.bench_table import (
        LEGEND,
        judged,
        markdown_lines,
        notes,
        rows_json,
        text_lines,
    )

    rows = judged(outcomes)
    date = time.strftime("%Y-%m-%d")
    if args.json:
        about = {"date": date, "machine": machine(), "load": load, "full": args.full}
        print(json.dumps({**about, "rows": rows_json(rows), "notes": notes(outcomes)}))
        return
    size = "in full" if args.full else "a try with small sizes, no figures to rely on: see --full"
    head = f"{date}, {machine()}, load {load:.1f} before; {size}"
    table = markdown_lines(rows) if args.markdown else text_lines(rows)
    print_text("\n".join([head, "", *table, "", LEGEND, *notes(outcomes)]))


def _print_list(benchmarks: Sequence[Benchmark], *, is_full: bool, is_json: bool) -> None:
    from chexpoint.cli.bench_run import lacks
    from chexpoint.cli.bench_table import list_json, list_lines

    lacking = {each.name: lacks(each) for each in benchmarks}
    if is_json:
        print(json.dumps(list_json(benchmarks, lacking)))
    else:
        print_text("\n".join(list_lines(benchmarks, lacking, is_full=is_full)))
