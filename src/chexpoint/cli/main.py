"""Parse the command line, run one verb, turn errors into one line and an exit code."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

import chexpoint
from chexpoint.cli.bench import BenchCommand
from chexpoint.cli.command import Command, OneLineParser
from chexpoint.cli.completion import CompletionCommand
from chexpoint.cli.config import ConfigCommand
from chexpoint.cli.demo import DemoCommand
from chexpoint.cli.diff import DiffCommand
from chexpoint.cli.doctor import DoctorCommand
from chexpoint.cli.fsck import FsckCommand
from chexpoint.cli.gc import GcCommand
from chexpoint.cli.graph import GraphCommand
from chexpoint.cli.hindsight import HindsightCommand
from chexpoint.cli.install import InstallCommand
from chexpoint.cli.log import LogCommand
from chexpoint.cli.package import PackageCommand
from chexpoint.cli.plan import PlanCommand
from chexpoint.cli.record import RecordCommand
from chexpoint.cli.replay import ReplayCommand
from chexpoint.cli.show import ShowCommand
from chexpoint.cli.store import StoreCommand
from chexpoint.cli.tree import TreeCommand
from chexpoint.cli.unpack import UnpackCommand
from chexpoint.cli.versions import VersionsCommand
from chexpoint.errors import ChexError, InvalidValue, suggestion

if TYPE_CHECKING:
    from collections.abc import Sequence

DEBUG_VARIABLE = "CHEX_DEBUG"
"""Environment variable that, when set, lets errors through with their traceback."""

EXIT_BUG = 70
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141


def all_commands() -> list[Command]:
    """Return one instance of every verb, in alphabetical order."""
    return [
        BenchCommand(),
        CompletionCommand(build_parser),
        ConfigCommand(),
        DemoCommand(),
        DiffCommand(),
        DoctorCommand(),
        FsckCommand(),
        GcCommand(),
        GraphCommand(),
        HindsightCommand(),
        InstallCommand(),
        LogCommand(),
        PackageCommand(),
        PlanCommand(),
        RecordCommand(),
        ReplayCommand(),
        ShowCommand(),
        StoreCommand(),
        TreeCommand(),
        UnpackCommand(),
        VersionsCommand(),
    ]


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = OneLineParser(
        prog="chex",
        description=chexpoint.__doc__,
        epilog="example:\n  chex doctor\n\nEach verb has a --help of its own.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"chex {chexpoint.__version__}")
    verbs = parser.add_subparsers(metavar="VERB", title="verbs")
    for command in all_commands():
        verb = verbs.add_parser(
            command.name,
            help=command.summary,
            description=f"{command.summary[0].upper()}{command.summary[1:]}.",
            epilog=f"example:\n{command.example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.prepare_parser(verb)
        verb.set_defaults(command=command)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``chex`` with ``argv`` and return its exit code.

    Parameters
    ----------
    argv
        The words after ``chex``; those of this process by default.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(words)
    except ChexError as error:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        return _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        return _fail("interrupted", EXIT_INTERRUPTED)
    except BrokenPipeError:
        # The reader went away, as `head` does.  Python would complain once more while flushing
        # at exit, so standard output is pointed elsewhere first.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except OSError as error:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        return _fail(str(error), 1)
    except Exception as error:
        # A user must never see a traceback, not even that of our own mistakes.
        if os.environ.get(DEBUG_VARIABLE):
            raise
        return _fail(
            f"unexpected {type(error).__name__}: {error}. This is a bug in CHEX; "
            f"set {DEBUG_VARIABLE}=1 to see where",
            EXIT_BUG,
        )


def _run(words: list[str]) -> int:
    if words and not words[0].startswith("-"):
        names = [command.name for command in all_commands()]
        if words[0] not in names:
            raise InvalidValue(f"no verb '{words[0]}'. {suggestion(words[0], names)}")
    parser = build_parser()
    args = parser.parse_args(words)
    if "command" not in args:
        parser.print_help(sys.stderr)
        return 2
    command: Command = args.command
    return command.run(args)


def _fail(message: str, exit_code: int) -> int:
    print(f"chex: {' '.join(message.split())}", file=sys.stderr)
    return exit_code
