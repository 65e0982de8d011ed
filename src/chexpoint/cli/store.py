"""``chex store``: what a project keeps on disk, what it takes, and what de-duplication saved."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from chexpoint.cli.command import add_json_option
from chexpoint.cli.picture_files import (
    PictureFiles,
    add_file_option,
    add_project_option,
    print_drawn,
    print_text,
    project_in,
    window_width,
    write_drawn,
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
            STORE_START,
            image_names,
            store_html,
            store_json,
            store_svg,
            store_text,
        )

        files = PictureFiles.of(args, start=STORE_START, verb="chex store")
        project = project_in(args.project)
        with opened_store(project, budget_bytes=store_budget(project)) as store:
            usage = store.usage()
        nodes = project.image_nodes()
        names = image_names(nodes, project.tree()) if nodes else {}
        wanted = ((args.svg, files.svg, store_svg), (args.html, files.html, store_html))
        drawn = [(file, draw(usage, names=names)) for value, file, draw in wanted if value]
        write_drawn(drawn)
        if args.json:
            print(json.dumps(store_json(usage, nodes)))
        elif drawn:
            print_drawn(drawn)
        else:
            print_text(store_text(usage, names=names, width=window_width()))
        return 0
