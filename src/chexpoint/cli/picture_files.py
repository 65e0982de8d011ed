"""Where pictures, pages and texts go: into a file that may be replaced, or to standard output."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from chexpoint.errors import InvalidValue

if TYPE_CHECKING:
    import argparse

    from chexpoint.project import Project

STANDARD_OUTPUT = "-"

_PLAIN_SIGNS = str.maketrans("○●◉◈✗│├─…", "o*@>x|+-~")


def add_project_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--project``, which means the same for every verb that reads what was recorded."""
    parser.add_argument(
        "--project",
        metavar="DIR",
        default=".",
        help="where the notebook is; by default, this folder",
    )


def add_file_option(parser: argparse.ArgumentParser, flag: str, what: str) -> None:
    """Add an option that takes the name of a file, or means standard output."""
    parser.add_argument(
        flag,
        metavar="FILE",
        nargs="?",
        const=STANDARD_OUTPUT,
        help=f"{what} into FILE, or to standard output without FILE or with -",
    )


def project_in(folder: str) -> Project:
    """Return the project that a folder given by the user lies in.

    Raises
    ------
    InvalidValue
        If there is no such folder, or no project in it.
    """
    from chexpoint.project import Project

    if not Path(folder).is_dir():
        raise InvalidValue(f"no folder {folder}")
    return Project.find(folder)


def nothing_recorded(project: Project) -> InvalidValue:
    """Return what to raise if there is nothing to show."""
    return InvalidValue(
        f"nothing is recorded in {project.folder} yet: run a cell with the CHEX kernel first"
    )


def replaceable_file(name: str, *, suffix: str, start: str, verb: str) -> Path:
    """Return the file to draw into.

    Parameters
    ----------
    suffix
        How its name must end.
    start
        How what the verb draws begins; a file that begins otherwise is not replaced.
    verb
        As the user types it.

    Raises
    ------
    InvalidValue
        If something that the verb did not draw would be lost.
    """
    path = Path(name)
    if path.suffix != suffix:
        raise InvalidValue(
            f"'{name}' does not end in {suffix}: write {verb} --{suffix[1:]} FILE{suffix}"
        )
    if path.exists():
        wanted = start.encode()
        with path.open("rb") as file:
            found = file.read(len(wanted))
        if found and found != wanted:
            what = "picture" if suffix == ".svg" else "page"
            raise InvalidValue(f"{name} exists and is not a {what} of {verb}: choose another")
    return path


def drawing_to_file(value: str | None, *, suffix: str, start: str, verb: str) -> Path | None:
    """Return the file that an option names; None if it was not given or means standard output."""
    if value is None or value == STANDARD_OUTPUT:
        return None
    return replaceable_file(value, suffix=suffix, start=start, verb=verb)


@dataclass(frozen=True, slots=True)
class PictureFiles:
    """Where a picture and a page go; found out before anything is read."""

    svg: Path | None
    html: Path | None

    @classmethod
    def of(cls, args: argparse.Namespace, *, start: str, verb: str) -> PictureFiles:
        """Return the files that the user named; ``start`` is how a picture of the verb begins.

        Raises
        ------
        InvalidValue
            If one of them may not be replaced, or two things would go to standard output.
        """
        from chexpoint.view import PAGE_START

        refuse_mixture(svg=args.svg, html=args.html, json=args.json)
        return cls(
            drawing_to_file(args.svg, suffix=".svg", start=start, verb=verb),
            drawing_to_file(args.html, suffix=".html", start=PAGE_START, verb=verb),
        )


def write_drawn(drawn: Sequence[tuple[Path | None, str]]) -> None:
    """Write what was drawn into its files."""
    for file, text in drawn:
        if file is not None:
            file.write_text(text, encoding="utf-8")


def print_drawn(drawn: Sequence[tuple[Path | None, str]]) -> None:
    """Print what was drawn for standard output; else tell which files were written."""
    is_printed = any(file is None for file, _ in drawn)
    for file, text in drawn:
        if file is None:
            print_text(text, "xmlcharrefreplace")
        elif not is_printed:
            print_text(f"drew {file}")


def refuse_mixture(*, json: bool, **drawings: str | None) -> None:
    """Refuse to print two things at once.

    Parameters
    ----------
    drawings
        What the user gave with each option that draws.

    Raises
    ------
    InvalidValue
        If more than one thing would go to standard output.
    """
    printed = [name for name, value in drawings.items() if value == STANDARD_OUTPUT]
    both = [*printed, "json"] if json else printed
    if len(both) > 1:
        raise InvalidValue(
            f"--{both[0]} and --{both[1]} cannot both go to standard output: name a FILE.{both[0]}"
        )


def print_text(text: str, missing: str = "backslashreplace") -> None:
    """Print a text also where standard output lacks some of its letters."""
    encoding = sys.stdout.encoding or "utf-8"
    if missing == "backslashreplace":
        text = _with_plain_signs(text, encoding)
    print(text.encode(encoding, missing).decode(encoding))


def _with_plain_signs(text: str, encoding: str) -> str:
    """Return a text with other lines and marks if the letters for ours are missing."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_PLAIN_SIGNS)
    return text


def window_width() -> int:
    """Return how many columns a line may take."""
    return max(40, shutil.get_terminal_size((100, 24)).columns)
