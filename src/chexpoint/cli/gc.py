"""``chex gc``: free the disk space that nothing needs any more."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from chexpoint.cli.bars import shown_bar
from chexpoint.cli.command import add_json_option
from chexpoint.cli.picture_files import add_project_option, print_text, project_in
from chexpoint.cli.store_files import opened_store, store_budget
from chexpoint.errors import UnknownImage

if TYPE_CHECKING:
    import argparse

    from chexpoint.model import Bytes, GcReport, ImageName
    from chexpoint.project import Project
    from chexpoint.store import Store

UNFINISHED = ("files/*/.unfinished-*", "outputs/*/.unfinished-*", "replays/*.new")
"""Files in the folder of a project that were being written when their process was killed."""

_OLD_S = 24 * 3600.0
"""Whoever writes something is done with it by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """Unfinished files that nobody writes any more."""

    files: int
    bytes: Bytes


class GcCommand:
    """Free disk space."""

    name = "gc"
    summary = "free the disk space that nothing needs any more"
    example = (
        "  chex gc\n"
        "  chex gc --dry-run\n"
        "  chex gc --budget 10G          images go until no more than that is left\n\n"
        "Kernels may run meanwhile.  SIZE is written like 512M or 20G."
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add where to look, and how much may stay."""
        add_project_option(parser)
        parser.add_argument(
            "--budget", metavar="SIZE", help="the most that the store may take after it"
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="say what would be freed, and free nothing"
        )
        add_json_option(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Free what can be freed, say how much that was, and return 0."""
        from chexpoint.model import to_json
        from chexpoint.view import gc_text

        project, before = project_in(args.project), time.time() - _OLD_S
        budget = store_budget(project, args.budget)
        with opened_store(project, budget_bytes=budget) as store:
            useless = unknown_images(project, store, before=before)
            report = _foretold(store, useless) if args.dry_run else _swept(store, useless)
        left = leftovers(project.path.parent, before=before, remove=not args.dry_run)
        if args.json:
            data = {**to_json(report), "dry_run": args.dry_run, "unfinished": to_json(left)}
            print(json.dumps(data))
            return 0
        lines = [gc_text(report, is_dry=args.dry_run), *_leftover_lines(left, is_dry=args.dry_run)]
        print_text("\n".join(lines))
        return 0


def unknown_images(project: Project, store: Store, *, before: float) -> tuple[ImageName, ...]:
    """Return images that the catalog does not know, so that nobody will ever ask for them.

    Parameters
    ----------
    before
        Images that were written later may become known yet, in seconds since the epoch.
    """
    if not project.path.exists():
        return ()  # the user may be about to put it back
    known = project.image_nodes()
    return tuple(
        image.name
        for image in store.images()
        if image.time < before
        and image.name not in known
        and not _is_of_program(project, image.name)
    )


def _is_of_program(project: Project, name: str) -> bool:
    """Return whether an image was kept by a program: the catalog does not know those.

    ``save.NAME.N`` is what a program has saved itself; ``loop.RUN.N`` is of use as long as the
    folder of the run is there; what artifacts there are is for ``chex graph gc``.
    """
    from chexpoint.project import ARTIFACT_IMAGE

    if name.startswith(ARTIFACT_IMAGE):
        return True
    kind, _, rest = name.partition(".")
    if kind == "save":
        return bool(rest)
    run = rest.rpartition(".")[0]
    return kind == "loop" and bool(run) and (project.path.parent / "loops" / run).is_dir()


def leftovers(folder: Path, *, before: float, remove: bool) -> Leftovers:
    """Return, and remove, the unfinished files in the folder of a project that are old enough.

    Parameters
    ----------
    before
        Files that were written later stay, in seconds since the epoch.

    Raises
    ------
    OSError
        If one cannot be removed.
    """
    files = size = 0
    for pattern in UNFINISHED:
        for path in folder.glob(pattern):
            info = path.lstat()
            if path.is_symlink() or not path.is_file() or info.st_mtime >= before:
                continue
            if remove:
                path.unlink()
            files, size = files + 1, size + info.st_size
    return Leftovers(files=files, bytes=size)


def _swept(store: Store, useless: Sequence[ImageName]) -> GcReport:
    for name in useless:
        with contextlib.suppress(UnknownImage):  # another sweep was faster
            store.forget(name)
    with shown_bar("freeing") as watch:
        report = store.gc(progress=watch)
    return replace(report, images=report.images + len(useless))


def _foretold(store: Store, useless: Sequence[ImageName]) -> GcReport:
    """Return what a sweep would free, as far as that is known before."""
    from chexpoint.model import GcReport

    return GcReport(freed_bytes=store.usage().waste_bytes, packs=0, images=len(useless))


def _leftover_lines(left: Leftovers, *, is_dry: bool) -> Iterator[str]:
    from chexpoint.model import format_size

    if left.files:
        what = "1 unfinished file" if left.files == 1 else f"{left.files:,} unfinished files"
        verb = "would remove" if is_dry else "removed"
        yield f"{verb} {what} of more than a day ago ({format_size(left.bytes)})"
