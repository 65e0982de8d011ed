"""``chex store``: what a project keeps on disk, what it takes, and what de-duplication saved."""

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
    window_width,
)
from chexpoint.cli.store_files import opened_store, store_budget

if TYPE_CHECKING:
    import argparse


class StoreCommand:
    """Show the store of a project."""

    name = "store"
    summary = "show what is kept on disk, and what de-duplication saved"
    example = (
        "  chex store\n"
        "  chex store --svg store.svg\n"
        "  chex store --html store.html\n"
        "  chex store --json\n\n"
        "An existing file is replaced only if it is empty or was drawn by chex."
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add where to look, and what to make of it."""
        add_project_option(parser)
        add_file_option(parser, "--svg", "draw how the store grew")
        add_file_option(parser, "--html", "write a page with the picture and all images")
        add_json_option(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Print or draw what is in the store, and return 0."""
        from chexpoint.view import (
            PAGE_START,
            STORE_START,
            image_names,
            store_html,
            store_json,
            store_svg,
            store_text,
        )

        refuse_mixture(svg=args.svg, html=args.html, json=args.json)
        svg_file = drawing_to_file(args.svg, suffix=".svg", start=STORE_START, verb="chex store")
        html_file = drawing_to_file(args.html, suffix=".html", start=PAGE_START, verb="chex store")
        project = project_in(args.project)
        with opened_store(project, budget_bytes=store_budget(project)) as store:
            usage = store.usage()
        nodes = project.image_nodes()
        names = image_names(nodes, project.tree()) if nodes else {}
        wanted = ((args.svg, svg_file, store_svg), (args.html, html_file, store_html))
        drawn = [(file, draw(usage, names=names)) for value, file, draw in wanted if value]
        for file, text in drawn:
            if file is not None:
                file.write_text(text, encoding="utf-8")
        if args.json:
            print(json.dumps(store_json(usage, nodes)))
            return 0
        for file, text in drawn:
            if file is None:
                print_text(text, "xmlcharrefreplace")
            elif STANDARD_OUTPUT not in {args.svg, args.html}:
                print_text(f"drew {file}")
        if not drawn:
            print_text(store_text(usage, names=names, width=window_width()))
        return 0
