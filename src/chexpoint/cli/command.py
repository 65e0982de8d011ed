"""What every verb of the command line looks like."""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn, Protocol


class Command(Protocol):
    """One verb.

    An instance is made at each start of ``chex`` for every verb, so modules of verbs must import
    cheaply; what a verb needs to run, `run` imports.
    """

    name: str
    """The verb itself."""
    summary: str
    """One line for the list of verbs."""
    example: str
    """Commands to copy, shown under ``--help``."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the options of the verb; called once, before parsing."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it and return the exit code; called at most once, after parsing.

        Raises
        ------
        ChexError
            `main` prints it in one line and exits with its ``exit_code``.
        """


class OneLineParser(argparse.ArgumentParser):
    """An argument parser that reports a wrong command line in one line."""

    def error(self, message: str) -> NoReturn:
        """Print what is wrong and where help is, and exit with 2."""
        print(f"chex: {message}. Try '{self.prog} --help'.", file=sys.stderr)
        raise SystemExit(2)


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--json``, which means the same for every verb that prints data."""
    parser.add_argument("--json", action="store_true", help="print one JSON document")
