"""``chex unpack``: the files and notebooks of a package, to look at and to work with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from chexpoint.cli.bars import shown_bar
from chexpoint.cli.command import add_json_option
from chexpoint.cli.package import counted
from chexpoint.cli.picture_files import print_text
from chexpoint.errors import InvalidValue

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from chexpoint.package import Unpacked


class UnpackCommand:
    """Put what is in a package into a folder."""

    name = "unpack"
    summary = "put the input files and notebooks of a package into a folder"
    example = (
        "  chex unpack paper.chex paper\n\n"
        "The package is checked before anything is written, and nothing in it is executed."
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the package, the folder, and how large it may be."""
        parser.add_argument("package", metavar="OUT.chex", help="the package")
        parser.add_argument("folder", metavar="DIR", help="a folder that is new, or empty")
        parser.add_argument(
            "--limit",
            metavar="SIZE",
            help="how much it may unpack to, such as 10G; by default, a hundred times its own "
            "size, and always 256M",
        )
        add_json_option(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Check the package, write what is in it, say what is next, and return 0."""
        from chexpoint.model import parse_size
        from chexpoint.package import open_package, unpack

        limit = None if args.limit is None else parse_size(args.limit)
        folder = Path(args.folder)
        if folder.exists() and not folder.is_dir():
            raise InvalidValue(f"{args.folder} is a file: name a new folder")
        with shown_bar("checking", in_bytes=True) as watch:
            package = open_package(Path(args.package), limit_bytes=limit, watch=watch)
        with package, shown_bar("unpacking", in_bytes=True) as watch:
            found = unpack(package, folder, watch=watch)
        if args.json:
            print(json.dumps(_document(args.package, folder, found)))
        else:
            print_text("\n".join(_lines(args.package, folder, found)))
        return 0


def _document(package: str, folder: Path, found: Unpacked) -> dict[str, object]:
    return {
        "package": package,
        "folder": str(folder),
        "files": [str(path.relative_to(folder)) for path in found.files],
        "notebooks": {
            label: str(path.relative_to(folder)) for label, path in found.notebooks.items()
        },
        "lock": str(found.lock.relative_to(folder)),
        "notes": list(found.notes),
    }


def _lines(package: str, folder: Path, found: Unpacked) -> Iterator[str]:
    files = counted(len(found.files), "input file")
    yield f"{folder}: {files} and {counted(len(found.notebooks), 'notebook')}"
    for label, path in found.notebooks.items():
        yield f"  {path.relative_to(folder)}: version {label}, with its recorded outputs"
    yield from (f"  note: {sentence}" for sentence in found.notes)
    yield f"next: chex replay {package} computes all versions again and compares them"
    yield f"      pip install -r {found.lock} installs what they need"
