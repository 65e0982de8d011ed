"""``chex fsck``: check every byte of a store, and repair what can be repaired."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from chexpoint.cli.bars import shown_bar
from chexpoint.cli.command import add_json_option
from chexpoint.cli.picture_files import add_project_option, print_text, project_in
from chexpoint.cli.store_files import opened_store

if TYPE_CHECKING:
    import argparse


class FsckCommand:
    """Check a store."""

    name = "fsck"
    summary = "check every byte that is kept on disk"
    example = (
        "  chex fsck\n"
        "  chex fsck --repair\n\n"
        "The exit code is 0 only if nothing is damaged, or everything was repaired."
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add where to look, and whether to repair."""
        add_project_option(parser)
        parser.add_argument(
            "--repair",
            action="store_true",
            help="move damaged files, and the images that need them, out of the way",
        )
        add_json_option(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Print what was found; return 1 if some damage is still there."""
        from chexpoint.model import to_json
        from chexpoint.view import fsck_text

        project = project_in(args.project)
        with opened_store(project) as store, shown_bar("checking") as watch:
            report = store.fsck(repair=args.repair, progress=watch)
        is_fine = all(damage.repaired for damage in report.damages)
        if args.json:
            print(json.dumps({**to_json(report), "fine": is_fine}))
        else:
            print_text(fsck_text(report))
        return 0 if is_fine else 1
