"""Magics that replay what was recorded, and pack it for others."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

from chexpoint.errors import ChexError
from chexpoint.magics.engine_access import EngineAccess
from chexpoint.magics.recorded import project_here
from chexpoint.model import lineage_from_json, recording_from_json

if TYPE_CHECKING:
    from chexpoint.magics.plain_recording import PlainRecording
    from chexpoint.magics.replay_program import Program
    from chexpoint.project import Project

_REPORT = os.path.join(".chex", "replays", "report.html")
_VALUES = (
    *("budget", "planner", "workers", "within", "timeout", "rtol", "atol"),
    *("scheduler", "local-cluster", "store"),
)
# How long the catalog may take to get the cell that ran last.
_WRITTEN_S = 5.0
_LOOK_S = 0.02


@magics_class
class ReplayMagics(Magics):
    """Replay versions, and share them."""

    def __init__(self, shell: Any, plain: PlainRecording | None) -> None:
        super().__init__(shell)
        self._engine = EngineAccess(shell)
        self._plain = plain

    @magic_arguments()
    @argument("names", nargs="*", metavar="NAME", help="which versions; by default, all")
    @argument("--all-versions", action="store_true", help="say that all versions are meant")
    @argument("--budget", metavar="SIZE", help="memory for checkpoints, such as 2G")
    @argument("--planner", metavar="PLANNER", help="how to plan; see chex plan --compare")
    @argument("--workers", metavar="N", help="how many engines share the work")
    @argument("--scheduler", metavar="ADDRESS", help="compute on the Dask cluster of a scheduler")
    @argument("--local-cluster", metavar="N", help="start a Dask cluster of N workers here")
    @argument("--store", metavar="URL", help="what all hosts of the cluster see, for large files")
    @argument("--within", metavar="TIME", help="replay as many versions as fit into 90s, 10m, ...")
    @argument("--resume", action="store_true", help="go on with a replay that was interrupted")
    @argument("--timeout", metavar="TIME", help="how long a cell may take")
    @argument("--rtol", metavar="X", help="how far numbers may be apart, relative to their size")
    @argument("--atol", metavar="X", help="how far numbers may be apart, in absolute terms")
    @argument("--report", metavar="FILE.html", help=f"where the page goes; by default, {_REPORT}")
    @argument("--junit", metavar="FILE.xml", help="write a JUnit file as well")
    @argument("--notebooks", metavar="DIR", help="write each version as a notebook as well")
    @argument("--json", action="store_true", help="print the result for a program")
    @line_magic
    def chex_replay(self, line: str) -> None:
        """Compute versions again, and compare them with what was recorded.

        Each version is replayed from a fresh interpreter, in engines beside this kernel and in a
        copy of the files it read; what versions share is computed once.  The state of this kernel
        stays as it is.  Interrupt the cell to stop, and go on with ``--resume``.  Examples::

            %chex_replay --all-versions
            %chex_replay baseline deeper --workers 2
            %chex_replay --all-versions --scheduler tcp://10.0.0.1:8786
        """
        from chexpoint.magics.replay_program import owner
        from chexpoint.magics.replay_show import follow, show_end

        args = parse_argstring(self.chex_replay, line)
        if any(name.endswith(".chex") for name in args.names):
            raise UsageError("a package is replayed from a terminal: chex replay PACKAGE.chex")
        folder = self._recorded_folder()
        report = os.path.abspath(args.report or os.path.join(folder, _REPORT))
        words = [*args.names, "--project", folder, "--quiet", "--report", report]
        words += [*_given(args, _VALUES), *_given(args, ("junit", "notebooks"), are_paths=True)]
        words += [f"--{name}" for name in ("all-versions", "resume") if _is_on(args, name)]
        words += ["--events", "-", "--pid", str(owner(self._engine))]
        program = self._start("replay", words)
        if program is None:
            return
        with program:
            end = follow(program, self.shell, is_shown=not args.json)
            if not end.result:
                raise UsageError(_why(program))
        if args.json:
            print(json.dumps(end.result))
        else:
            show_end(end, report, start=folder)
        if end.result["interrupted"]:
            raise UsageError("the replay was interrupted: %chex_replay --resume goes on with it")

    @magic_arguments()
    @argument("out", metavar="OUT.chex", help="the file to write")
    @argument("names", nargs="*", metavar="NAME", help="which versions; by default, all")
    @argument("--force", action="store_true", help="write over a file that is there")
    @line_magic
    def chex_package(self, line: str) -> None:
        """Pack versions with everything that is needed to replay them elsewhere.  Example::

        %chex_package paper.chex
        """
        from chexpoint.magics.replay_show import follow_packing

        args = parse_argstring(self.chex_package, line)
        words = [os.path.abspath(args.out), *args.names, "--project", self._recorded_folder()]
        words += ["--events", "-", *(["--force"] if args.force else [])]
        program = self._start("package", words)
        if program is None:
            return
        with program:
            if not follow_packing(program, self.shell):
                raise UsageError(_why(program))

    def _start(self, verb: str, words: list[str]) -> Program | None:
        from chexpoint.magics.replay_program import start

        try:
            return start(self._engine, verb, words)
        except OSError as error:
            raise UsageError(f"chex could not be started: {error.strerror or error}") from None

    # ------------------------------------------------------------ what is recorded

    def _recorded_folder(self) -> str:
        """Return the folder of the project, once everything that has run is recorded there."""
        try:
            project = project_here(self._engine)
            deadline = time.monotonic() + _WRITTEN_S
            while not self._is_written(project) and time.monotonic() < deadline:
                time.sleep(_LOOK_S)
            if not project.versions():
                raise UsageError("no version is recorded yet: %chex_record NAME begins one")
        except ChexError as error:
            raise UsageError(str(error)) from None
        return str(project.folder)

    def _is_written(self, project: Project) -> bool:
        """Return whether the catalog has the cell that ran last, if it is to have it."""
        if self._plain is not None:
            status = self._plain.status()
            known = [len(v.path) for v in project.versions() if v.name == status.version]
            return not status.is_on or max([0, *known[-1:]]) >= status.cells
        # A cell on the way to a state has nobody who would ever know the lineage before it.
        is_on = recording_from_json(self._engine.ask("recording")).is_on
        if not is_on or self._engine.status().is_ahead:
            return True
        last = self._engine.ask("lineage", last=1)
        return not last or lineage_from_json(last[-1]).node in project.tree().nodes


def _given(args: argparse.Namespace, names: Iterable[str], *, are_paths: bool = False) -> list[str]:
    """Return options as they are on a command line; paths are those of this process."""
    values = {name: getattr(args, name.replace("-", "_")) for name in names}
    return [
        f"--{name}={os.path.abspath(value) if are_paths else value}"
        for name, value in values.items()
        if value is not None
    ]


def _is_on(args: argparse.Namespace, name: str) -> bool:
    return bool(getattr(args, name.replace("-", "_")))


def _why(program: Program) -> str:
    """Return what a program has said last, which is why it has ended."""
    return (program.errors() or ["chex has ended without a word"])[-1]
