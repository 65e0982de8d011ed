"""How far a replay in hindsight has got: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Self

from chexpoint.cli.bars import bars
from chexpoint.cli.replay_progress import one_line
from chexpoint.model import format_seconds

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import TaskID

    from chexpoint.replay import HindsightProgress

Watch = Callable[["HindsightProgress"], None]


@contextlib.contextmanager
def shown_iterations(*, is_quiet: bool) -> Iterator[Watch]:
    """Show progress on standard error: bars on a terminal, else a line for each version."""
    if is_quiet:
        yield lambda progress: None
    elif sys.stderr.isatty():
        from rich.console import Console

        with IterationBars(Console(stderr=True, highlight=False)) as shown:
            yield shown.watch
    else:
        yield _print_line


def _print_line(progress: HindsightProgress) -> None:
    if progress.done == progress.total > 0:
        what = f"{progress.version}: {progress.done} iterations replayed"
        print(one_line(what), file=sys.stderr, flush=True)


class IterationBars:
    """A bar for the iterations of each version that is being replayed."""

    def __init__(self, console: Console) -> None:
        from rich.progress import MofNCompleteColumn, TextColumn

        left = TextColumn("iterations {task.fields[left]}", markup=False)
        self._progress = bars(MofNCompleteColumn(), left, console=console)
        self._bars: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def watch(self, progress: HindsightProgress) -> None:
        """Show how far a version has got."""
        if progress.version not in self._bars:
            title = one_line(progress.version)
            self._bars[progress.version] = self._progress.add_task(title, total=None, left="")
        left = progress.seconds_left
        self._progress.update(
            self._bars[progress.version],
            completed=progress.done,
            total=progress.total or None,
            left="" if left is None else f"{format_seconds(left)} left",
        )

    def picture(self) -> RenderableType:
        """Return the bars as they are now."""
        return self._progress.get_renderable()
