"""A package to be replayed: nothing of it runs before the user has seen what, and agrees.

It may need other packages than there are: then it says which, or makes an environment with them.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from chexpoint.cli.bars import shown_bar
from chexpoint.cli.replay_progress import one_line
from chexpoint.cli.replay_source import LOGS, Source, chosen
from chexpoint.errors import ChexError, InvalidValue
from chexpoint.model import parse_size

if TYPE_CHECKING:
    from chexpoint.model import EnvironmentInfo, Recording
    from chexpoint.package import Package

_VENVS = "venvs"
_COMPLETE = "chex-complete"
"""A file in an environment that was made to its end."""
_SHOWN = 10


@contextlib.contextmanager
def opened_package(args: argparse.Namespace, scratch: Path) -> Iterator[Source]:
    """Yield what is to be replayed of a package, once the user has agreed to run it.

    Parameters
    ----------
    scratch
        The folder that its cells will run below.

    Raises
    ------
    ChexError
        If it is not to be trusted, or the user does not agree; or there is no such version.
    """
    from chexpoint.lineage import default_cache_folder
    from chexpoint.package import open_package

    name, *versions = args.words
    limit = None if args.limit is None else parse_size(args.limit)
    with shown_bar("checking", in_bytes=True) as watch:
        package = open_package(Path(name), limit_bytes=limit, watch=watch)
    with package:
        recording = chosen(package.recording, versions)
        _agree(name, recording, package, args, scratch)
        with shown_bar("unpacking", in_bytes=True) as watch:
            package.extract_files(scratch / "files", watch=watch)
        yield Source(
            recording=recording,
            files=package,
            logs=Path(default_cache_folder()) / LOGS,
            scratch=scratch,
        )


def _agree(
    name: str, recording: Recording, package: Package, args: argparse.Namespace, scratch: Path
) -> None:
    """Show what will be run, and return if the user wants it; never return if it runs elsewhere."""
    differences = _differences(package)
    if not (args.quiet or args.json) or not args.yes:
        for line in [*about(name, recording, scratch), *_told(name, differences, recording, args)]:
            print(line, file=sys.stderr)
    if not args.yes:
        _ask()
    if args.venv is not None:
        folder = _venv_folder(args.venv, package.lock)
        if Path(sys.prefix).resolve() != folder.resolve():
            _go_on_in(_built(folder, package.lock, recording.environment), args.given, scratch)


def about(name: str, recording: Recording, scratch: Path) -> Iterator[str]:
    """Yield what a user has to know before code of a stranger is run."""
    versions, cells = list(recording.labels), len(recording.tree.nodes)
    title = one_line(recording.title) or "no title"
    yield f"{name}: {title}, {_count(len(versions), 'version')}, {_count(cells, 'cell')} to compute"
    yield f"  versions: {_listed(versions)}"
    yield f"  This runs the code of its author, with your rights, in {scratch}"


def _differences(package: Package) -> tuple[str, ...]:
    from chexpoint.package import environment_differences, environment_info

    recorded = package.recording.environment
    return environment_differences(recorded, environment_info(), package.needed)


def _told(
    name: str, differences: Sequence[str], recording: Recording, args: argparse.Namespace
) -> Iterator[str]:
    from chexpoint.package import how_to_create

    if not differences:
        yield "  The environment is the recorded one."
        return
    yield "  The environment differs from the recorded one:"
    yield from (f"    {one_line(each)}" for each in differences[:_SHOWN])
    if len(differences) > _SHOWN:
        yield f"    and {len(differences) - _SHOWN} more"
    if args.venv is None:
        yield "  Add --venv to have the recorded one made, or make it yourself:"
        yield from (f"    {each}" for each in how_to_create(name, recording.environment))


def _ask() -> None:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InvalidValue("nobody is there to ask: add --yes to run the code of its author")
    print("Run it? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise ChexError("nothing was run")


# ---------------------------------------------------------------- its own environment


def _venv_folder(given: str, lock: str) -> Path:
    """Return the folder for the environment of a lock file: as given, or one that is kept."""
    import hashlib

    import chexpoint
    from chexpoint.lineage import default_cache_folder

    if given:
        return Path(given)
    digest = hashlib.sha256(f"{chexpoint.__version__}\n{sys.version}\n{lock}".encode()).hexdigest()
    return Path(default_cache_folder()) / _VENVS / digest[:16]


def _built(folder: Path, lock: str, environment: EnvironmentInfo) -> Path:
    """Return the Python of an environment, which is made unless it is there."""
    from chexpoint.package import build_venv

    mark = folder / _COMPLETE
    if mark.is_file() and mark.read_text(encoding="utf-8") == lock:
        return folder / "bin" / "python"
    if folder.parent.name == _VENVS and folder.exists():
        shutil.rmtree(folder)  # half of one
    folder.parent.mkdir(parents=True, exist_ok=True)
    python = build_venv(
        folder, lock, lambda text: print(text, file=sys.stderr), python=environment.python
    )
    mark.write_text(lock, encoding="utf-8")
    return python


def _go_on_in(python: Path, given: Sequence[str], scratch: Path) -> None:
    """Become the same command in another environment; the user has agreed already."""
    sys.stdout.flush()
    sys.stderr.flush()
    shutil.rmtree(scratch, ignore_errors=True)
    words = ["-P", "-m", "chexpoint", "replay", *given, "--yes"]
    os.execv(python, [os.fspath(python), *words])  # noqa: S606 - this process is done


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(one_line(name) for name in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
