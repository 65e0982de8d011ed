"""``chex versions``: the versions of a project, and what they share."""

from __future__ import annotations

import json
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


class VersionsCommand:
    """List the versions of a project."""

    name = "versions"
    summary = "list the versions, oldest first"
    example = "  chex versions\n  chex versions --json"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add where to look."""
        add_project_option(parser)
        parser.add_argument(
            "--all", action="store_true", help="list also those that a newer one has run again"
        )
        add_json_option(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Print the versions, and return 0."""
        from chexpoint.model import to_json
        from chexpoint.view import version_rows, versions_text

        project = project_in(args.project)
        tree = project.tree() if args.all else project.tree().current()
        if not tree.nodes:
            raise nothing_recorded(project)
        if not tree.versions:
            raise InvalidValue(
                f"no version is recorded in {project.folder} yet: %chex_record NAME begins one"
            )
        if args.json:
            rows = [
                {**to_json(row), "parameters": dict(row.parameters)} for row in version_rows(tree)
            ]
            print(json.dumps({"versions": rows}))
        else:
            print_text(versions_text(tree, width=window_width()))
        return 0
