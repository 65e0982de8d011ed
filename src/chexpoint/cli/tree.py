"""``chex tree``: all versions merged, as text, picture, page or tree file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from chexpoint.cli.command import add_json_option
from chexpoint.cli.picture_files import (
    PictureFiles,
    add_file_option,
    add_project_option,
    nothing_recorded,
    print_drawn,
    print_text,
    project_in,
    window_width,
    write_drawn,
)

if TYPE_CHECKING:
    import argparse


class TreeCommand:
    """Show the execution tree of a project."""

    name = "tree"
    summary = "show all versions merged into one tree"
    example = (
        "  chex tree\n"
        "  chex tree --svg tree.svg\n"
        "  chex tree --html tree.html\n"
        "  chex tree --json > tree.json\n\n"
        "An existing file is replaced only if it is empty or was drawn by chex."
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add where to look, and what to make of it."""
        add_project_option(parser)
        add_file_option(parser, "--svg", "draw the tree")
        add_file_option(parser, "--html", "write a page with the tree and its versions")
        add_json_option(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Print or draw the tree, and return 0."""
        from chexpoint.view import TREE_START, tree_html, tree_svg, tree_text

        files = PictureFiles.of(args, start=TREE_START, verb="chex tree")
        project = project_in(args.project)
        tree, held = project.tree().current(), project.checkpoints()
        if not tree.nodes:
            raise nothing_recorded(project)
        wanted = ((args.svg, files.svg, tree_svg), (args.html, files.html, tree_html))
        drawn = [(file, draw(tree, checkpoints=held)) for value, file, draw in wanted if value]
        write_drawn(drawn)
        if args.json:
            print(json.dumps(tree.to_json(held)))
        elif drawn:
            print_drawn(drawn)
        else:
            print_text(tree_text(tree, checkpoints=held, width=window_width()))
        return 0
