"""What the user types: thin wrappers that ask the engine and show its answer."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

from chexpoint.engine import PERSIST_WORDS, persist_mode, strip_header
from chexpoint.errors import ChexError, InvalidValue
from chexpoint.magics.engine_access import EngineAccess
from chexpoint.magics.graph_magics import GraphMagics
from chexpoint.magics.hindsight_magics import HindsightMagics
from chexpoint.magics.lineage_view import LineageView
from chexpoint.magics.looking_magics import LookingMagics
from chexpoint.magics.replay_magics import ReplayMagics
from chexpoint.magics.status_view import StatusView
from chexpoint.magics.version_magics import VersionMagics
from chexpoint.model import (
    ROOT,
    CellLineage,
    format_size,
    lineage_from_json,
    parse_size,
    to_json,
)
from chexpoint.project import Project

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_CHECKPOINTS = r"^%?chex_(restore|evict)\b"
_VERSIONS = r"^%%?chex_(checkout|log|diff|record|replay|package|hindsight)\b"


@magics_class
class ChexMagics(Magics):
    """Checkpoint the state of this kernel, and go back to it."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self._engine = EngineAccess(shell)

    @magic_arguments()
    @argument("name", nargs="*", help="how to call it; CHEX numbers checkpoints anyway")
    @argument(
        "--auto",
        choices=("rule", "always", "never"),
        help="take checkpoints by themselves: after cells that are worth it (rule, the default),"
        " after every cell (always), or not at all (never)",
    )
    @line_magic
    def chex_checkpoint(self, line: str) -> None:
        """Take a checkpoint of the state after this cell.

        The state is everything in this process: variables, imported modules,
        random generators, open files.  Example::

            %chex_checkpoint clean data
            ...
            %chex_restore clean data
        """
        args = parse_argstring(self.chex_checkpoint, line)
        if args.auto:
            self._engine.ask("auto", mode=args.auto)
            print(f"CHEX: automatic checkpoints: {args.auto}")
        if args.name or not args.auto:
            self._engine.ask("checkpoint", name=" ".join(args.name) or None)

    @magic_arguments()
    @argument("ref", nargs="+", help="name or number (c3) of a checkpoint, or root")
    @argument("--take", action="store_true", help="use the checkpoint up: faster for huge states")
    @line_magic
    def chex_restore(self, line: str) -> None:
        """Go back to the state of a checkpoint.

        Must be the last line of its cell: what comes after it would run in the
        state that is being left.  ``root`` is the fresh interpreter.  Example::

            %chex_restore clean data
        """
        args = parse_argstring(self.chex_restore, line)
        self._engine.must_be_last("chex_restore")
        self._engine.ask("take" if args.take else "restore", ref=" ".join(args.ref))

    @magic_arguments()
    @argument("ref", nargs="*", help="name or number (c3) of a checkpoint")
    @argument("--all", action="store_true", help="let all go, except for the fresh interpreter")
    @line_magic
    def chex_evict(self, line: str) -> None:
        """Let a checkpoint go and free its memory.  Examples::

        %chex_evict clean data
        %chex_evict --all
        """
        args = parse_argstring(self.chex_evict, line)
        if args.all == bool(args.ref):
            raise UsageError("name a checkpoint, or let all go with --all; %chex_status shows them")
        if args.all:
            self._evict_all()
        else:
            freed = self._engine.ask("evict", ref=" ".join(args.ref))
            print(f"CHEX: checkpoint {freed['id']} evicted")

    def _evict_all(self) -> None:
        held = [each.id for each in self._engine.status().checkpoints if each.name != ROOT]
        for checkpoint in held:
            with suppress(UsageError):  # it has gone meanwhile
                self._engine.ask("evict", ref=checkpoint)
        print(f"CHEX: {len(held)} checkpoints evicted")

    @magic_arguments()
    @argument("size", nargs="*", help="such as 512M or 4G; without it, show the budget")
    @line_magic
    def chex_budget(self, line: str) -> None:
        """Set how much memory all checkpoints may hold together.

        When they need more, the least useful ones go: those that are quick to
        compute again, seldom used, and large.  Example::

            %chex_budget 4G
        """
        size = " ".join(parse_argstring(self.chex_budget, line).size)
        if size:
            try:
                self._engine.ask("budget", bytes=parse_size(size))
            except ChexError as error:
                budget = format_size(self._engine.status().budget_bytes)
                raise UsageError(f"{error} The budget stays {budget}.") from None
        status = self._engine.status()
        used, budget = format_size(status.held_bytes), format_size(status.budget_bytes)
        print(f"CHEX: budget {budget}, {used} held by {len(status.checkpoints)} checkpoints")

    @magic_arguments()
    @argument(
        "mode",
        nargs="?",
        choices=sorted(PERSIST_WORDS),
        help="on: states that took more than a second; always: after every cell; off",
    )
    @argument("--wait", action="store_true", help="wait until everything is written")
    @line_magic
    def chex_persist(self, line: str) -> None:
        """Keep states on disk, so that they outlive the kernel.

        A state is written by a copy of the process while you go on working, and only what is new
        in it takes space.  After a restart, ``%chex_checkout`` and cells of a recorded version find
        it there.  ``chex store`` shows what is kept.  Examples::

            %chex_persist on
            %chex_persist --wait
        """
        args = parse_argstring(self.chex_persist, line)
        mode = None if args.mode is None else persist_mode(args.mode)
        self._engine.ask("persist", mode=mode, wait=args.wait)
        status = self._engine.status()
        word = next(word for word, mode in PERSIST_WORDS.items() if mode == status.persist)
        count = f"{status.images} state{'s' if status.images != 1 else ''} on disk"
        why = f"; the last one is not: {status.unkept}" if status.unkept else ""
        print(f"CHEX: keeping states on disk is {word}, {count}{why}")

    @magic_arguments()
    @argument("--json", action="store_true", help="print it for a program")
    @line_magic
    def chex_status(self, line: str) -> None:
        """Show the live state, the checkpoints, and the memory they hold.  Example::

        %chex_status
        """
        args = parse_argstring(self.chex_status, line)
        if (reason := self._engine.why_plain()) is not None:
            print(json.dumps({"missing": [reason]}) if args.json else f"CHEX: {reason}")
            return
        status, hazards = self._engine.status(), self._engine.worker.hazards()
        if args.json:
            print(json.dumps({**to_json(status), "hazards": to_json(hazards)}))
        else:
            display(StatusView(status, hazards))

    @magic_arguments()
    @argument(
        "node",
        nargs="?",
        help="the number of a cell, 3 or [3], or at least four digits of its node; without it, the"
        " cell before this one",
    )
    @argument("--json", action="store_true", help="print it for a program")
    @line_magic
    def chex_lineage(self, line: str) -> None:
        """Show what a cell read and wrote, and the path that led to it.  Example::

        %chex_lineage
        %chex_lineage 3
        """
        args = parse_argstring(self.chex_lineage, line)
        path = tuple(lineage_from_json(data) for data in self._engine.ask("lineage"))
        try:
            path, node = _find(path, args.node)
        except ChexError as error:
            raise UsageError(str(error)) from None
        if args.json:
            print(json.dumps(to_json(node)))
        else:
            display(LineageView(path, node))

    def complete_checkpoint(self, _shell: Any, event: Any) -> list[str]:
        """Return the names that can follow on the line."""
        try:
            checkpoints = self._engine.status().checkpoints
        except UsageError:
            return []
        return [c.name or c.id for c in checkpoints if not c.bad]


def _find(
    path: tuple[CellLineage, ...], ref: str | None
) -> tuple[tuple[CellLineage, ...], CellLineage]:
    """Return the cell that is meant, and the path to it: of the live state, else as recorded."""
    if ref is None:
        if not path:
            raise InvalidValue("no cell has led to this state yet: run one first")
        return path, path[-1]
    word = ref.strip("[]")
    for at in range(len(path), 0, -1):
        cell = path[at - 1]
        is_digits = len(word) >= 4 and cell.node.startswith(word.lower())
        if word == str(cell.execution_count) or is_digits:
            return path[:at], cell
    project = Project.find(os.getcwd())
    found = project.node(ref)
    return project.path_to(found), found


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Add the magics to a shell."""
    plain = None
    if not EngineAccess(shell).is_here:
        from chexpoint.magics.plain_recording import plain_recording

        plain = plain_recording(shell)
    elif strip_header not in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.append(strip_header)
    checkpoints, versions = ChexMagics(shell), VersionMagics(shell, plain)
    looking, replays = LookingMagics(shell), ReplayMagics(shell, plain)
    hindsight, graph = HindsightMagics(shell, plain), GraphMagics(shell)
    for magics in (checkpoints, versions, looking, replays, hindsight, graph):
        shell.register_magics(magics)
    shell.set_hook("complete_command", checkpoints.complete_checkpoint, re_key=_CHECKPOINTS)
    shell.set_hook("complete_command", looking.complete_version, re_key=_VERSIONS)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Stop recording in a kernel that is not CHEX's; the magics stay."""
    if not EngineAccess(shell).is_here:
        from chexpoint.magics.plain_recording import plain_recording

        plain_recording(shell).close()
