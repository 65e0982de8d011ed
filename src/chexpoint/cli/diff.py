"""``chex diff``: what two versions or nodes do differently."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from chexpoint.cli.command import add_json_option
from chexpoint.cli.log import refuse_unknown
from chexpoint.cli.picture_files import (
    STANDARD_OUTPUT,
    add_file_option,
    add_project_option,
    drawing_to_file,
    print_text,
    project_in,
    refuse_mixture,
    window_width,
)

if TYPE_CHECKING:
    import argparse


class DiffCommand:
    """Compare the cells of two versions: code, inputs and outputs."""

    name = "diff"
    summary = "show how two versions differ: code, inputs and outputs of each cell"
    example = (
        "  chex diff baseline@1 baseline\n"
        "  chex diff baseline tuned --html diff.html\n"
        "  chex diff 5f3a 77c0 --json\n\n"
        "Lines with - are those of A, lines with + those of B. An existing file is replaced only\n"
        "if it is empty or was drawn by chex."
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the two sides, where to look, and what to make of it."""
        what = "a version, the number of a cell of the newest session, or digits of a node"
        parser.add_argument("a", metavar="A", help=what)
        parser.add_argument("b", metavar="B", help="what to compare it with")
        add_project_option(parser)
        add_file_option(parser, "--html", "write a page with both sides beside each other")
        add_json_option(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Print or draw the difference, and return 0."""
        from chexpoint.project import side_of
        from chexpoint.view import (
            PAGE_START,
            diff,
            diff_html,
            diff_json,
            diff_text,
            html_page,
        )

        refuse_mixture(html=args.html, json=args.json)
        target = drawing_to_file(args.html, suffix=".html", start=PAGE_START, verb="chex diff A B")
        project = project_in(args.project)
        for ref in (args.a, args.b):
            refuse_unknown(project, ref)
        found = diff(side_of(project, args.a), side_of(project, args.b))
        page = html_page("Difference of versions", diff_html(found)) if args.html else ""
        if target is not None:
            target.write_text(page, encoding="utf-8")
        if args.json:
            print(json.dumps(diff_json(found)))
        elif args.html == STANDARD_OUTPUT:
            print_text(page, "xmlcharrefreplace")
        elif target is not None:
            print_text(f"drew {target}")
        else:
            print_text(diff_text(found, window_width()))
        return 0
