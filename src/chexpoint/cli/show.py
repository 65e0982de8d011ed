"""``chex show``: what a cell read and wrote, and the path that led to it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from chexpoint.cli.command import add_json_option
from chexpoint.errors import InvalidValue

if TYPE_CHECKING:
    import argparse

STANDARD_OUTPUT = "-"


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
        parser.add_argument(
            "--project",
            metavar="DIR",
            default=".",
            help="where the notebook is; by default, this folder",
        )
        parser.add_argument(
            "--lineage", action="store_true", help="show all cells from the root to NODE"
        )
        parser.add_argument(
            "--svg",
            metavar="FILE",
            nargs="?",
            const=STANDARD_OUTPUT,
            help="draw cells and files into FILE, or to standard output without FILE or with -",
        )
        add_json_option(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Find the node, print or draw it, and return 0."""
        from chexpoint.lineage import lineage_svg, lineage_text
        from chexpoint.model import to_json
        from chexpoint.project import Project

        if args.svg == STANDARD_OUTPUT and args.json:
            raise InvalidValue(
                "--svg and --json cannot both go to standard output: name a FILE.svg"
            )
        target = None if args.svg in {None, STANDARD_OUTPUT} else picture_file(args.svg)
        if not Path(args.project).is_dir():
            raise InvalidValue(f"no folder {args.project}")
        project = Project.find(args.project)
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


def picture_file(name: str) -> Path:
    """Return the file to draw into.

    Raises
    ------
    InvalidValue
        If something that is not such a picture would be lost.
    """
    path = Path(name)
    if path.suffix != ".svg":
        raise InvalidValue(f"'{name}' does not end in .svg: write chex show NODE --svg FILE.svg")
    if path.exists():
        with path.open("rb") as file:
            start = file.read(100)
        if start and not start.startswith(b'<svg class="chex-lineage"'):
            raise InvalidValue(f"{name} exists and is not a picture of chex show: choose another")
    return path


def print_text(text: str, missing: str = "backslashreplace") -> None:
    """Print a text also where standard output lacks some of its letters."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, missing).decode(encoding))
