"""What the verbs that look into a store share: where it is, its budget, and a bar."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from chexpoint.errors import InvalidValue
from chexpoint.model import Bytes, parse_size

if TYPE_CHECKING:
    from chexpoint.project import Project
    from chexpoint.store import Store

Watch = Callable[[int, int], None]
"""Called with how much is done, and how much there is to do."""


def opened_store(project: Project, *, budget_bytes: Bytes | None = None) -> Store:
    """Return the store of a project.

    Raises
    ------
    InvalidValue
        If there is none yet.
    StoreError
        If it cannot be read, or was written by a newer CHEX.
    """
    from chexpoint.store import Store

    if not project.store_folder.is_dir():
        raise InvalidValue(
            f"nothing is kept on disk in {project.folder} yet: run %chex_persist on in a notebook "
            "there first"
        )
    return Store.open(project.store_folder, budget_bytes=budget_bytes, create=False)


def store_budget(project: Project, given: str | None = None) -> Bytes | None:
    """Return the most that the store of a project may take: as given, or as set.

    Raises
    ------
    InvalidValue
        If that is no size.
    """
    if given is not None:
        return parse_size(given)
    from chexpoint.config import Config

    return Config.at(project.folder).size("store_budget")


@contextlib.contextmanager
def shown_bar(what: str) -> Iterator[Watch]:
    """Show how far something has got, if there is a terminal."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    bars = Progress(
        *(TextColumn(what, markup=False), BarColumn(), TaskProgressColumn(), TimeLeft()),
        console=Console(stderr=True),
        transient=True,
    )
    with bars:
        task = bars.add_task(what, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)
