"""``chex graph``: what was computed from what, what of it is stored, and what that saves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from chexpoint.cli.command import add_json_option
from chexpoint.cli.picture_files import (
    PictureFiles,
    add_file_option,
    add_project_option,
    project_in,
)
from chexpoint.errors import InvalidValue

if TYPE_CHECKING:
    import argparse

    from chexpoint.project import OpenGraph

QUESTIONS = ("best", "forget", "gc", "show", "top", "warm")

_FITTING = {
    "on": ("best", "warm"),
    "column": ("best",),
    "kind": ("best", "warm"),
    "fetch": ("warm",),
    "older_than": ("gc",),
    "budget": ("gc",),
    "dry_run": ("gc",),
    "svg": ("", "show"),
    "html": ("", "show"),
    "target": ("",),
}
"""The questions that each option has a meaning for; empty is without a question."""


class GraphCommand:
    """Show the experiment graph, ask it, and let go of what it stores."""

    name = "graph"
    summary = "show what was computed from what, and what is stored of it"
    example = (
        "  chex graph\n"
        "  chex graph top\n"
        "  chex graph show features\n"
        "  chex graph best --on train --kind RandomForestClassifier\n"
        "  chex graph --for model --svg graph.svg\n"
        "  chex graph gc --older-than 30d --dry-run\n"
        "  chex graph forget 5f3a91c2\n\n"
        "An existing file is replaced only if it is empty or was drawn by chex."
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add what to ask, where to look, and what to make of it."""
        parser.add_argument(
            "question",
            metavar="QUESTION",
            nargs="?",
            choices=QUESTIONS,
            help="top: by time saved; show: one artifact; best: models; warm: models to begin "
            "with; gc: let go of what nobody uses; forget: of some; without it, the whole",
        )
        parser.add_argument(
            "names",
            metavar="ARTIFACT",
            nargs="*",
            help="a variable, of which the newest is meant, or digits of an artifact",
        )
        add_project_option(parser)
        parser.add_argument(
            "--for",
            dest="target",
            metavar="VARIABLE",
            help="show what would be loaded and what computed to have a variable",
        )
        parser.add_argument(
            "--on",
            metavar="ARTIFACT",
            action="append",
            help="best, warm: only models that were computed from this; may be given again",
        )
        parser.add_argument(
            "--column", metavar="NAME", help="best: only models from data with this column"
        )
        parser.add_argument("--kind", metavar="CLASS", help="best, warm: only models of this class")
        parser.add_argument(
            "--fetch",
            metavar="DIR",
            help="warm: bring the contents of the first one into DIR, a new folder",
        )
        parser.add_argument(
            "--older-than",
            metavar="TIME",
            help="gc: only what nobody has used for so long, such as 30d or 12h; 30d by default, "
            "1d with --budget",
        )
        parser.add_argument(
            "--budget", metavar="SIZE", help="gc: only as much as is over this, such as 2G"
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="gc: say what would go, and let nothing go"
        )
        add_file_option(parser, "--svg", "draw the graph")
        add_file_option(parser, "--html", "write a page with the picture, models and artifacts")
        add_json_option(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Answer the question, and return 0."""
        from chexpoint.cli import graph_answers as answers
        from chexpoint.view import GRAPH_START

        question = args.question or ""
        _refuse_misfits(args, question)
        if question == "" or (args.svg or args.html):
            files = PictureFiles.of(args, start=GRAPH_START, verb="chex graph")
            with opened_graph(args.project) as opened:
                answers.whole(opened, args, files)
            return 0
        with opened_graph(args.project) as opened:
            {
                "best": answers.best,
                "forget": answers.forget,
                "gc": answers.collect,
                "show": answers.show,
                "top": answers.top_saved,
                "warm": answers.warm,
            }[question](opened, args)
        return 0


def opened_graph(folder: str) -> OpenGraph:
    """Return the graph of the project that a folder given by the user lies in.

    A graph that the user has set needs no project.

    Raises
    ------
    InvalidValue
        If there is none.
    GraphError
        If it cannot be read.
    """
    from chexpoint.config import Config
    from chexpoint.project import open_graph

    config = Config.at(folder)
    if config.word("graph"):
        if not Path(folder).is_dir():
            raise InvalidValue(f"no folder {folder}")
        return open_graph(Path(folder).absolute(), config)
    return open_graph(project_in(folder).folder, config)


def _refuse_misfits(args: argparse.Namespace, question: str) -> None:
    """Refuse options and names that would be passed over."""
    for name, fitting in _FITTING.items():
        if getattr(args, name) and question not in fitting:
            flag = "--for" if name == "target" else f"--{name.replace('_', '-')}"
            verbs = " or ".join(f"chex graph {each}".strip() for each in fitting)
            raise InvalidValue(f"{flag} is for {verbs}: leave it out")
    if question in {"show", "forget"} and not args.names:
        raise InvalidValue(f"which one? Write for example: chex graph {question} VARIABLE")
    if args.names and question not in {"show", "forget"}:
        verb = f"chex graph {question}".strip()
        raise InvalidValue(f"{verb} takes no '{args.names[0]}'. Try 'chex graph --help'.")
    if question == "show" and len(args.names) > 1:
        raise InvalidValue("chex graph show shows one artifact: give one name")
