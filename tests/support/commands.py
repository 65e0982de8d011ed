"""Runs verbs of ``chex`` in this process."""

from __future__ import annotations

from chexpoint.cli.command import Command, OneLineParser


def run_command(command: Command, *words: str) -> int:
    """Run a verb with some words and return its exit code."""
    parser = OneLineParser()
    command.prepare_parser(parser)
    return command.run(parser.parse_args(words))
