"""How far a replay has got: bars on a terminal, lines elsewhere, JSON lines for programs."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TextIO

from chexpoint.cli.bars import bars
from chexpoint.cli.picture_files import STANDARD_OUTPUT
from chexpoint.errors import InvalidValue
from chexpoint.model import ReplayProgress, format_seconds, format_size, to_json
from chexpoint.palette import LOOKS

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import TaskID

Watch = Callable[[ReplayProgress], None]
"""Called with everything that happens, by one thread at a time."""


def _where(progress: ReplayProgress) -> str:
    """Return the host that a version is at, if it is not this one."""
    return f"{progress.host}: " if progress.host else ""


def standing(progress: ReplayProgress) -> str:
    """Return how things stand: the time left, the cells saved so far, the memory held."""
    left = progress.seconds_left
    parts = [] if left is None else [f"{format_seconds(left)} left"]
    if progress.saved:
        parts.append(f"{progress.saved} cell{'' if progress.saved == 1 else 's'} saved")
    if 0 < progress.budget_bytes < 2**60:
        held, budget = format_size(progress.held_bytes), format_size(progress.budget_bytes)
        parts.append(f"{held} of {budget} held")
    elif progress.held_bytes:
        parts.append(f"{format_size(progress.held_bytes)} held")
    return ", ".join(parts)


def line_of(progress: ReplayProgress) -> str | None:
    """Return what is told of a version that is done, or of a note; None of anything else."""
    match progress.kind:
        case "version":
            what = f"{progress.version}: {progress.status or 'not replayed'}"
            return one_line(f"{what}, {progress.text}" if progress.text else what)
        case "note":
            return one_line(progress.text)
    return None


def one_line(text: str) -> str:
    """Return a text without what a terminal would obey: it may come with a package."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


@contextlib.contextmanager
def shown_progress(*, is_quiet: bool) -> Iterator[Watch]:
    """Show progress on standard error: as bars if it is a terminal, else as lines."""
    if is_quiet:
        yield lambda progress: None
    elif sys.stderr.isatty():
        from rich.console import Console

        with Bars(Console(stderr=True, highlight=False)) as shown:
            yield shown.watch
    else:
        yield _print_line


def _print_line(progress: ReplayProgress) -> None:
    if (line := line_of(progress)) is not None:
        print(line, file=sys.stderr, flush=True)


class Bars:
    """A bar for all cells, and one below it for each worker's version."""

    def __init__(self, console: Console) -> None:
        from rich.progress import MofNCompleteColumn, TextColumn

        cells = TextColumn("cells {task.fields[standing]}", markup=False)
        self._progress = bars(MofNCompleteColumn(), cells, console=console)
        self._whole = self._progress.add_task("all", total=None, standing="")
        self._parts: dict[int, TaskID] = {}
        self._versions: dict[int, str] = {}
        """What each worker is at."""

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def watch(self, progress: ReplayProgress) -> None:
        """Show one thing that has happened."""
        self._progress.update(
            self._whole,
            completed=progress.computed,
            total=progress.to_compute or None,
            standing=standing(progress),
        )
        if progress.kind == "cell":
            self._versions[progress.worker] = progress.version
            self._progress.update(
                self._part(progress.worker),
                description=one_line(_where(progress) + progress.version),
                completed=progress.cell,
                total=progress.cells,
                visible=True,
            )
        elif progress.kind == "version":
            for worker, version in self._versions.items():
                if version == progress.version:
                    self._progress.update(self._part(worker), visible=False)
        if (line := line_of(progress)) is not None:
            style = LOOKS[progress.status].colour if progress.kind == "version" else "default"
            self._progress.console.print(line, style=style, markup=False, soft_wrap=True)

    def picture(self) -> RenderableType:
        """Return the bars as they are now."""
        return self._progress.get_renderable()

    def _part(self, worker: int) -> TaskID:
        """Return the bar of a worker."""
        if worker not in self._parts:
            self._parts[worker] = self._progress.add_task("", standing="", visible=False)
        return self._parts[worker]


class Events:
    """Writes what happens as lines of JSON, for other programs."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.problem = ""
        """Why nothing is written any more."""

    def watch(self, progress: ReplayProgress) -> None:
        """Write one thing that has happened."""
        self._write(to_json(progress))

    def end(self, *lines: Mapping[str, Any]) -> None:
        """Write what came of the replay, as the last lines."""
        for line in lines:
            self._write(line)

    def _write(self, data: Mapping[str, Any]) -> None:
        if self.problem:
            return
        try:
            print(json.dumps(data), file=self._file, flush=True)
        except (OSError, ValueError) as error:
            # The replay is worth more than whoever follows it.
            self.problem = getattr(error, "strerror", None) or str(error)


@contextlib.contextmanager
def opened_events(name: str | None) -> Iterator[Events | None]:
    """Yield what writes events into the file that the user named, if one was.

    Raises
    ------
    InvalidValue
        If it cannot be written.
    """
    if name is None:
        yield None
    elif name == STANDARD_OUTPUT:
        yield Events(sys.stdout)
    else:
        with _writable(Path(name)) as file:
            yield Events(file)


def _writable(path: Path) -> TextIO:
    try:
        return path.open("w", encoding="utf-8")
    except OSError as error:
        raise InvalidValue(f"cannot write {path}: {error.strerror or error}") from error
