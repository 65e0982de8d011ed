"""The bars of all verbs: on standard error, if that is a terminal, and gone when all is done."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from chexpoint.palette import GREEN

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn

Watch = Callable[[int, int], None]
"""Called with how much is done, and how much there is to do."""


def bars(*columns: ProgressColumn, console: Console | None = None) -> Progress:
    """Return bars with a name on their left and some columns on their right."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(complete_style=GREEN, finished_style=GREEN),
        *columns,
        console=console or Console(stderr=True, highlight=False),
        transient=True,
        redirect_stdout=sys.stdout.isatty(),
    )


@contextlib.contextmanager
def shown_bar(what: str, *, in_bytes: bool = False) -> Iterator[Watch]:
    """Show how far something has got, if there is a terminal."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.progress import DownloadColumn, TaskProgressColumn, TimeRemainingColumn

    with bars(DownloadColumn() if in_bytes else TaskProgressColumn(), TimeRemainingColumn()) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
