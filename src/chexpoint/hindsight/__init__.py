"""Hindsight logging: loops are recorded so that they can be logged after they have run.

`CellTransformer` follows the cells of a shell; `loop`, `log`, `save` and `SkipBlock` are for
programs.
Above that: `compare_cells` finds what a user has added, `split` divides the work of a replay, and
`judge` says what came of it.

Names are loaded when they are first used: most cells have nothing to do with any of this.
"""

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from chexpoint.hindsight.explicit import SkipBlock, loop
    from chexpoint.hindsight.loggers import log
    from chexpoint.hindsight.program.added import (
        AddedStatement,
        LogEdit,
        blocks_to_step_into,
        compare_cells,
        compare_programs,
    )
    from chexpoint.hindsight.program.carrying import Carried, carry
    from chexpoint.hindsight.program.instrumenting import Instrumented, instrument
    from chexpoint.hindsight.run_log import (
        RunHead,
        images_of_run,
        list_runs,
        read_run,
    )
    from chexpoint.hindsight.run_place import RunPlace
    from chexpoint.hindsight.runtime import SegmentDone
    from chexpoint.hindsight.segments import expected_seconds, split
    from chexpoint.hindsight.transforming import JOB_VARIABLE, CellTransformer
    from chexpoint.hindsight.verdict import judge, merge_results
    from chexpoint.hindsight.writing.materialiser import Materialiser, open_materialiser
    from chexpoint.hindsight.writing.pace import Pace
    from chexpoint.hindsight.writing.saving import Saving, finish_saves, load, save
    from chexpoint.hindsight.writing.writer_lock import wait_written
    from chexpoint.hindsight.writing.writer_start import start_detached, use_starter

_HOME = {
    "program.added": (
        "AddedStatement",
        "LogEdit",
        "blocks_to_step_into",
        "compare_cells",
        "compare_programs",
    ),
    "program.carrying": ("Carried", "carry"),
    "explicit": ("SkipBlock", "loop"),
    "program.instrumenting": ("Instrumented", "instrument"),
    "loggers": ("log",),
    "writing.materialiser": ("Materialiser", "open_materialiser"),
    "writing.pace": ("Pace",),
    "run_log": ("RunHead", "images_of_run", "list_runs", "read_run"),
    "run_place": ("RunPlace",),
    "runtime": ("SegmentDone",),
    "writing.saving": ("Saving", "finish_saves", "load", "save"),
    "segments": ("expected_seconds", "split"),
    "transforming": ("JOB_VARIABLE", "CellTransformer"),
    "verdict": ("judge", "merge_results"),
    "writing.writer_lock": ("wait_written",),
    "writing.writer_start": ("start_detached", "use_starter"),
}


def __getattr__(name: str) -> "Any":
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(f"chexpoint.hindsight.{module}"), name)
    raise AttributeError(f"module 'chexpoint.hindsight' has no attribute '{name}'")


__all__ = [
    "JOB_VARIABLE",
    "AddedStatement",
    "Carried",
    "CellTransformer",
    "Instrumented",
    "LogEdit",
    "Materialiser",
    "Pace",
    "RunHead",
    "RunPlace",
    "Saving",
    "SegmentDone",
    "SkipBlock",
    "blocks_to_step_into",
    "carry",
    "compare_cells",
    "compare_programs",
    "expected_seconds",
    "finish_saves",
    "images_of_run",
    "instrument",
    "judge",
    "list_runs",
    "load",
    "log",
    "loop",
    "merge_results",
    "open_materialiser",
    "read_run",
    "save",
    "split",
    "start_detached",
    "use_starter",
    "wait_written",
]
