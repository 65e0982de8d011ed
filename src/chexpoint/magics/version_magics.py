"""Magics that record versions, reuse what was computed, and go back to any of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

from chexpoint.engine import version_begun
from chexpoint.errors import ChexError
from chexpoint.magics.engine_access import EngineAccess
from chexpoint.magics.recorded import check_name, project_here
from chexpoint.model import (
    NodeId,
    PathCell,
    RecordingStatus,
    Taint,
    format_seconds,
    recording_from_json,
    to_json,
)

if TYPE_CHECKING:
    from chexpoint.magics.plain_recording import PlainRecording

_DIGITS = 12
_LEAST_DIGITS = 4
_HINTS = ("time", "random", "entropy", "network", "background", "own-input", "input", "history")


@magics_class
class VersionMagics(Magics):
    """Record versions, and go back to them."""

    def __init__(self, shell: Any, plain: PlainRecording | None) -> None:
        super().__init__(shell)
        self._engine = EngineAccess(shell)
        self._plain = plain

    @magic_arguments()
    @argument("name", nargs="?", help="how to call the version")
    @argument("--here", action="store_true", help="begin at the present state, not at a fresh one")
    @argument("--off", action="store_true", help="record no more")
    @argument("--on", action="store_true", help="go on recording")
    @argument("--json", action="store_true", help="print the status for a program")
    @line_cell_magic
    def chex_record(self, line: str, cell: str | None = None) -> None:
        """Record the cells that follow as a version; without a name, show what is recorded.

        A version begins at a fresh interpreter, so this is best the first cell of a notebook.
        Run all cells again after an edit, and only what the edit changes is computed.  Examples::

            %chex_record baseline
            %chex_record deeper --here
            %chex_record --off

        As the first line of a cell, with two percent signs, it adds that cell to a version::

            %%chex_record baseline
            model.fit(data)
        """
        if cell is not None:
            raise UsageError("write %%chex_record NAME on the first line, and code below it")
        args = parse_argstring(self.chex_record, line)
        if args.off or args.on:
            self._pause(off=args.off)
        elif args.name is None and args.here:
            raise UsageError("name the version that begins here: %chex_record NAME --here")
        elif args.name is None:
            self._show(args.json)
        else:
            self._begin(args.name, here=args.here)

    def _begin(self, name: str, *, here: bool) -> None:
        check_name(name)
        if self._plain is not None:
            self._say(lambda plain: plain.begin(name, here=here))
            return
        if not here and version_begun(self._engine.cell()) == name:
            print(f"CHEX: recording version {name}")  # begun before this cell
            return
        if not here:
            self._engine.must_be_last("chex_record")
        self._engine.ask("record", do="begin", name=name, here=here)

    def _pause(self, *, off: bool) -> None:
        if self._plain is None:
            self._engine.ask("record", do="pause" if off else "resume")
        elif off:
            self._plain.pause()
            print("CHEX: recording is off")
        else:
            self._say(lambda plain: plain.resume())

    def _say(self, act: Callable[[PlainRecording], list[str]]) -> None:
        """Have the recording of a plain kernel do something, and print what it says."""
        if self._plain is not None:
            try:
                lines = act(self._plain)
            except ChexError as error:
                raise UsageError(str(error)) from None
            print("\n".join(f"CHEX: {line}" for line in lines))

    def _status(self) -> RecordingStatus:
        if self._plain is not None:
            return self._plain.status()
        return recording_from_json(self._engine.ask("recording"))

    def _show(self, as_json: bool) -> None:
        status = self._status()
        if as_json:
            print(json.dumps(to_json(status)))
            return
        cells = f"{status.cells} cell{'s' if status.cells != 1 else ''}"
        state = f"recording is {'on' if status.is_on else 'off'}"
        version = f", version {status.version} ({cells})" if status.version else ", no version yet"
        print(f"CHEX: {state}{version}, in {status.folder}")
        if status.problem:
            print(f"CHEX: {status.problem}")

    @magic_arguments()
    @argument(
        "mode",
        nargs="?",
        choices=("on", "off", "graph"),
        help="without it, show whether it is on; graph: what others have computed is used, too",
    )
    @argument(
        "--allow",
        metavar="KIND",
        choices=_HINTS,
        nargs="+",
        default=[],
        help=f"reuse cells in spite of hints of these kinds: {', '.join(_HINTS)}",
    )
    @line_magic
    def chex_reuse(self, line: str) -> None:
        """Reuse the results of cells that ran before in the same state, or run every cell.

        A cell of a recorded version is not run if its code, its inputs and the state before it are
        the same as in an earlier run.  Cells that read the clock, draw random numbers without a
        seed, use the network, or read something CHEX could not see are run; ``--allow`` says which
        of these do not matter to you.  Examples::

            %chex_reuse off
            %chex_reuse on --allow time
            %chex_reuse graph

        With ``graph``, cells are also looked for among those that you or your colleagues ran in
        other notebooks.  Variables that nothing needs are not computed; those that are needed are
        loaded where that is faster.  ``%chex_why NAME`` tells what was done for a variable.
        """
        args = parse_argstring(self.chex_reuse, line)
        if args.mode is not None or args.allow:
            graph = args.mode == "graph"
            self._engine.ask("reuse", on=args.mode != "off", allow=args.allow, graph=graph)
        status = self._engine.status()
        allowed = f", in spite of: {', '.join(status.allowed)}" if status.allowed else ""
        graph = ", with the experiment graph" if status.graph else ""
        print(f"CHEX: reuse is {'on' if status.reuse else 'off'}{graph}{allowed}")

    @magic_arguments()
    @argument("ref", nargs="+", help="a version, a node, a cell number, or a checkpoint")
    @argument("--take", action="store_true", help="use a checkpoint up: faster for huge states")
    @argument("--files", action="store_true", help="put back files as that state saw them")
    @line_magic
    def chex_checkout(self, line: str) -> None:
        """Go to any recorded state: a version, a node, a cell, or a checkpoint.

        A checkpoint on the way is restored in milliseconds, and the cells after it are run again.
        Must be the last line of its cell.  Examples::

            %chex_checkout baseline
            %chex_checkout 5f3a9c --files
        """
        args = parse_argstring(self.chex_checkout, line)
        self._engine.must_be_last("chex_checkout")
        ref = " ".join(args.ref)
        held = self._engine.status().checkpoints
        is_checkpoint = any(ref in {c.id, c.name} for c in held)
        if is_checkpoint and not args.files:
            self._engine.ask("take" if args.take else "restore", ref=ref)
            return
        try:
            project = project_here(self._engine)
            path, images = project.way_to(ref), project.images()
        except ChexError as error:
            raise UsageError(str(error)) from None
        states = {(c.node, c.taint) for c in held if not c.bad}
        self._estimate(path, states | {(image.node, image.taint) for image in images})
        node = path[-1].node[:_DIGITS] if path else "root"
        # A short number is the count of a cell, even if the node's digits begin with it.
        is_node = len(ref) >= _LEAST_DIGITS and node.startswith(ref.lower())
        title = node if is_node else f"{ref} ({node})"
        self._engine.ask("go", path=to_json(path), files=args.files, title=title)

    def _estimate(
        self, path: tuple[PathCell, ...], states: set[tuple[NodeId | None, Taint]]
    ) -> None:
        """Say what it will take, if it takes long."""
        left: list[PathCell] = []
        for cell in reversed(path):
            if (cell.node, cell.taint) in states:
                break
            left.append(cell)
        seconds = sum(cell.seconds for cell in left)
        if seconds >= 1:
            print(f"CHEX: {len(left)} cells will be run, about {format_seconds(seconds)}")
