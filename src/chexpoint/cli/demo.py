"""``chex demo``: a bundled notebook in a real CHEX kernel."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from chexpoint.cli.command import add_json_option
from chexpoint.cli.resources import bundled
from chexpoint.errors import ChexError
from chexpoint.model import format_seconds

if TYPE_CHECKING:
    import argparse

    from rich.text import Text

    from chexpoint.cli.notebook import CellRun, NotebookCell
    from chexpoint.model import Seconds

NOTEBOOK = "01_first_steps.ipynb"

SAME_TAG = "same"
"""Cells with this tag follow the same checkpoint, so they all have to show the same."""

SOURCE_WIDTH = 56

CellKind = Literal["compute", "checkpoint", "restore", "status"]

_MAGICS: dict[str, CellKind] = {
    "%chex_checkpoint": "checkpoint",
    "%chex_restore": "restore",
    "%chex_status": "status",
}


class DemoCommand:
    """Run the bundled notebook and show what going back costs."""

    name = "demo"
    summary = "run a bundled notebook in a CHEX kernel, and go back in it"
    example = (
        "  chex demo\n"
        "  chex demo --json\n\n"
        "Nothing is installed or left behind. The exit code is 0 only if each restored state\n"
        "was the one that was checkpointed."
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add ``--json``."""
        add_json_option(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Run all cells, check the restored states, and print what everything cost."""
        from chexpoint.cli.notebook import code_cells

        cells = code_cells(bundled("notebooks") / NOTEBOOK)
        if args.json:
            print(json.dumps(summarize(list(run_cells(cells))).to_json()))
        else:
            _run_visibly(cells)
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """What the demonstration has shown."""

    runs: tuple[CellRun, ...]

    def seconds(self, kind: CellKind) -> tuple[Seconds, ...]:
        """Return how long each cell of a kind took, in order."""
        return tuple(run.seconds for run in self.runs if kind_of(run.cell) == kind)

    def to_json(self) -> dict[str, object]:
        """Return plain JSON types."""
        return {
            "notebook": NOTEBOOK,
            "cells": [
                {"id": run.cell.id, "kind": kind_of(run.cell), "seconds": run.seconds}
                for run in self.runs
            ],
            "compute_seconds": sum(self.seconds("compute")),
            "checkpoint_seconds": list(self.seconds("checkpoint")),
            "restore_seconds": list(self.seconds("restore")),
            "restored": True,
        }


def kind_of(cell: NotebookCell) -> CellKind:
    """Return what a cell is in the demonstration."""
    return _MAGICS.get(cell.source.split(maxsplit=1)[0], "compute")


def run_cells(cells: Sequence[NotebookCell]) -> Generator[CellRun, None, None]:
    """Yield each cell as soon as a kernel of its own has run it.

    Raises
    ------
    ChexError
        If a cell fails.
    """
    from chexpoint.cli.notebook import open_kernel

    with (
        tempfile.TemporaryDirectory(prefix="chex-demo-") as folder,
        open_kernel(Path(folder)) as kernel,
    ):
        for cell in cells:
            run = kernel.run(cell)
            if run.status != "ok":
                raise ChexError(f"cell '{cell.id}' of {NOTEBOOK} failed: {run.text}")
            yield run


def summarize(runs: Sequence[CellRun]) -> DemoResult:
    """Check that every restore gave back the state of its checkpoint.

    Raises
    ------
    ChexError
        If a cell shows something else after a restore than before, or nothing was restored.
    """
    shown = [run for run in runs if SAME_TAG in run.cell.tags]
    for run in shown[1:]:
        if run.text != shown[0].text:
            raise ChexError(
                f"the restored state is wrong: cell '{run.cell.id}' shows {run.text!r}, "
                f"and before the restore it was {shown[0].text!r}"
            )
    result = DemoResult(runs=tuple(runs))
    if len(shown) != len(result.seconds("restore")) + 1 or not shown[0].text:
        raise ChexError(f"{NOTEBOOK} did not show a state after each restore")
    return result


def _run_visibly(cells: Sequence[NotebookCell]) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(highlight=False)
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    runs: list[CellRun] = []
    console.print(f"running {NOTEBOOK} in a CHEX kernel")
    # Closed at once when something fails, so that the kernel ends before the error is shown.
    running = contextlib.closing(run_cells(cells))
    with running as finished, Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("starting the kernel", total=len(cells))
        for run in finished:
            runs.append(run)
            progress.console.print(render_run(run), soft_wrap=True)
            following = cells[len(runs)].id if len(runs) < len(cells) else "done"
            progress.update(task, advance=1, description=following)
    for line in render_result(summarize(runs)):
        console.print(line, soft_wrap=True)


def render_run(run: CellRun) -> Text:
    """Return what is shown of a cell: its kind, its code and its time in one line.

    Below it, if the cell tells one state from another, what it printed.
    """
    from rich.text import Text

    kind = kind_of(run.cell)
    source = "; ".join(line.strip() for line in run.cell.source.splitlines() if line.strip())
    line = Text(f"{kind:10}  ", style="dim" if kind == "compute" else "bold cyan")
    line.append(f"{_shorten(source, SOURCE_WIDTH):{SOURCE_WIDTH}}  ", style="default")
    line.append(f"{format_seconds(run.seconds):>6}", style="bold")
    if SAME_TAG in run.cell.tags:
        line.append(f"\n{'':10}  -> {run.text.strip()}", style="green")
    return line


def render_result(result: DemoResult) -> list[str]:
    """Return the summary as lines."""
    compute = sum(result.seconds("compute"))
    restores = result.seconds("restore")
    return [
        f"computing the cells took   {format_seconds(compute)}",
        f"taking a checkpoint took   {_several(result.seconds('checkpoint'))}",
        f"going back to it took      {_several(restores)}",
        f"after each of {len(restores)} restores the state was the same, to the next random number",
    ]


def _several(durations: Sequence[Seconds]) -> str:
    return ", ".join(format_seconds(seconds) for seconds in durations)


def _shorten(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."
