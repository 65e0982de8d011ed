"""``chex log``: the cells on the way to a version or a node."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from chexpoint.cli.command import add_json_option
from chexpoint.cli.picture_files import (
    add_project_option,
    nothing_recorded,
    print_text,
    project_in,
    window_width,
)
from chexpoint.errors import InvalidValue

if TYPE_CHECKING:
    import argparse

    from chexpoint.model import PathCell
    from chexpoint.project import Project

_NODE = re.compile(r"\[?[0-9]+\]?|[0-9a-f]{4,}", re.IGNORECASE)


class LogCommand:
    """Show the cells of a version, in the order in which they ran."""

    name = "log"
    summary = "show the cells of a version, from the first to the last"
    example = (
        "  chex log\n"
        "  chex log baseline\n"
        "  chex log baseline@2 --full\n"
        "  chex log 5f3a\n\n"
        "Without VERSION it is the version that was begun last."
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add what to show, where to look, and how much of it."""
        parser.add_argument(
            "ref",
            metavar="VERSION",
            nargs="?",
            help="a version, the number of a cell of the newest session, or at least four digits "
            "of a node",
        )
        add_project_option(parser)
        parser.add_argument("--full", action="store_true", help="show all lines of each cell")
        add_json_option(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Print the cells, and return 0."""
        from chexpoint.model import to_json
        from chexpoint.view import LOG_LINES, log_text

        project = project_in(args.project)
        label, cells = label_and_cells(project, args.ref)
        if args.json:
            print(json.dumps({"label": label, "cells": to_json(cells)}))
        else:
            print_text(f"{label}\n")
            lines = None if args.full else LOG_LINES
            print_text(log_text(cells, width=window_width(), lines=lines))
        return 0


def label_and_cells(project: Project, ref: str | None) -> tuple[str, tuple[PathCell, ...]]:
    """Return what a version or node is called, and the cells on the way to it.

    Parameters
    ----------
    ref
        None is the version that was begun last.

    Raises
    ------
    InvalidValue
        If nothing, or several things, may be meant.
    """
    from chexpoint.model import ExecutionTree

    versions = project.versions()
    labels = ExecutionTree((), versions).labels
    if ref is None:
        if not versions:
            raise nothing_recorded(project)
        return labels[versions[-1]], project.cells(versions[-1])
    refuse_unknown(project, ref)
    try:
        version = project.version(ref)
    except InvalidValue:
        return ref.strip(), project.way_to(ref)
    return labels[version], project.cells(version)


def refuse_unknown(project: Project, ref: str) -> None:
    """Refuse what can be neither a node nor a cell if no version is called so.

    Raises
    ------
    InvalidValue
        With the versions that may be meant.
    """
    if not _NODE.fullmatch(ref.strip()):
        project.version(ref)
