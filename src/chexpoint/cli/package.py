"""``chex package``: versions with everything that others need to replay them, in one file."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from chexpoint.cli.command import add_json_option
from chexpoint.cli.picture_files import add_project_option, print_text, project_in
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
        add_json_option(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Write the package, print what is in it, and return 0."""
        from chexpoint.model import to_json
        from chexpoint.project import pack

        out = _new_package(args.package, is_forced=args.force)
        project = project_in(args.project)
        with _progress() as watch:
            summary = pack(project, args.versions or None, out, watch)
        if args.json:
            print(json.dumps({"package": args.package, **to_json(summary)}))
        else:
            print_text("\n".join(summary_lines(args.package, summary)))
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


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[Bytes, Bytes], None]]:
    """Show a bar for the input files, if there is a terminal."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    bars = Progress(
        *(TextColumn("packing"), BarColumn(), DownloadColumn(), TimeRemainingColumn()),
        console=Console(stderr=True),
        transient=True,
    )
    with bars:
        task = bars.add_task("packing", total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)
