"""``chex show``: what a cell read and wrote, and the path that led to it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from chexpoint.cli.command import add_json_option
from chexpoint.cli.picture_files import (
    STANDARD_OUTPUT,
    add_file_option,
    add_project_option,
    drawing_to_file,
    print_text,
    project_in,
    refuse_mixture,
)

if TYPE_CHECKING:
    import argparse

PICTURE_START = '<svg class="chex-lineage"'


class ShowCommand:
    """Find a recorded cell and show it as text, JSON or a picture."""

    name = "show"
    summary = "show what a cell read and wrote, and the path that led to it"
    example = (
        "  chex show\n"
        "  chex show 3\n"
        "  chex show 5f3a --lineage\n"
        "  chex show --lineage --svg lineage.svg\n\n"
        "Only cells that ran in the CHEX kernel are recorded. A picture goes to a name that ends\n"
        "in .svg; an existing file is replaced only if it is empty or a picture of chex show."
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the node, where to look, and what to show."""
        parser.add_argument(
            "node",
            metavar="NODE",
            nargs="?",
            help="the number of a cell of the newest session, 3 or [3], or at least four digits of "
            "its node; by default, the cell that ran last",
        )
        add_project_option(parser)
        parser.add_argument(
            "--lineage", action="store_true", help="show all cells from the root to NODE"
        )
        add_file_option(parser, "--svg", "draw cells and files")
        add_json_option(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Find the node, print or draw it, and return 0."""
        from chexpoint.lineage import lineage_svg, lineage_text
        from chexpoint.model import to_json

        refuse_mixture(json=args.json, svg=args.svg)
        target = drawing_to_file(args.svg, suffix=".svg", start=PICTURE_START, verb="chex show")
        project = project_in(args.project)
        node = project.node(args.node)
        path = project.path_to(node)
        shown = path if args.lineage else (node,)
        if target is not None:
            target.write_text(lineage_svg(shown, node.node), encoding="utf-8")
        if args.json:
            print(json.dumps({"path": to_json(shown)} if args.lineage else to_json(node)))
        elif args.svg == STANDARD_OUTPUT:
            print_text(lineage_svg(shown, node.node), "xmlcharrefreplace")
        elif target is not None:
            print_text(f"drew {target}")
        else:
            print_text("\n\n".join(lineage_text(cell, path) for cell in shown))
        return 0
