"""``chex package``: versions with everything that others need to replay them, in one file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from chexpoint.cli.bars import shown_bar
from chexpoint.cli.command import add_json_option
from chexpoint.cli.picture_files import (
    STANDARD_OUTPUT,
    add_project_option,
    print_text,
    project_in,
)
from chexpoint.cli.replay_progress import opened_events
from chexpoint.errors import InvalidValue

if TYPE_CHECKING:
    import argparse

    from chexpoint.model import Bytes
    from chexpoint.package import PackageSummary

SUFFIX = ".chex"


class PackageCommand:
    """Pack versions into one file."""

    name = "package"
    summary = "pack versions into one file that others can replay"
    example = (
        "  chex package paper.chex\n"
        "  chex package paper.chex baseline tuned\n\n"
        "The package holds code, lineage, outputs, input files and the list of packages, and no\n"
        "states. Look at what is in it before you give it away: all that the cells have read and\n"
        "shown is."
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the file, the versions, and where to look for them."""
        parser.add_argument("package", metavar="OUT.chex", help="the file to write")
        parser.add_argument(
            "versions",
            metavar="VERSION",
            nargs="*",
            help="what to pack; by default, all versions that chex versions lists",
        )
        add_project_option(parser)
        parser.add_argument("--force", action="store_true", help="replace OUT.chex if it is there")
        parser.add_argument(
            "--events", metavar="OUT", help="write what happens as lines of JSON; - for stdout"
        )
        add_json_option(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Write the package, print what is in it, and return 0."""
        from chexpoint.model import to_json
        from chexpoint.project import pack

        out = _new_package(args.package, is_forced=args.force)
        project = project_in(args.project)
        with opened_events(args.events) as events, shown_bar("packing", in_bytes=True) as show:

            def watch(done: Bytes, total: Bytes) -> None:
                if events is not None:
                    events.end({"kind": "progress", "done": done, "total": total})
                show(done, total)

            summary = pack(project, args.versions or None, out, watch)
            text = "\n".join(summary_lines(args.package, summary))
            if events is not None:
                events.end({"kind": "summary", "text": text})
        if args.json:
            print(json.dumps({"package": args.package, **to_json(summary)}))
        elif args.events != STANDARD_OUTPUT:
            print_text(text)
        return 0


def summary_lines(name: str, summary: PackageSummary) -> Iterator[str]:
    """Yield what is in a package, what is not, and why."""
    from chexpoint.model import format_size

    yield (
        f"{name}: {format_size(summary.size_bytes)}, with "
        f"{counted(len(summary.versions), 'version')} of {counted(summary.cells, 'cell')} and "
        f"{counted(summary.files, 'input file')} ({format_size(summary.files_bytes)})"
    )
    yield f"  versions: {', '.join(summary.versions)}"
    if summary.left_out:
        yield "  not in it:"
        yield from (f"    {sentence}" for sentence in summary.left_out)
    yield from (f"  note: {sentence}" for sentence in summary.notes)


def counted(number: int, noun: str) -> str:
    """Return how many there are, in words that fit."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _new_package(name: str, *, is_forced: bool) -> Path:
    """Return the file to write.

    Raises
    ------
    InvalidValue
        If it has another suffix, or something would be lost.
    """
    path = Path(name)
    if path.suffix != SUFFIX:
        raise InvalidValue(f"'{name}' does not end in {SUFFIX}: write chex package OUT{SUFFIX}")
    if not path.parent.is_dir():
        raise InvalidValue(f"no folder {path.parent}")
    if path.is_dir():
        raise InvalidValue(f"{name} is a folder: choose another name")
    if path.exists() and not is_forced:
        raise InvalidValue(f"{name} exists: choose another name, or replace it with --force")
    return path
