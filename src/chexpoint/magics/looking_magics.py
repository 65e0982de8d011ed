"""Magics that show what was recorded: the tree, the versions, and how they differ."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

from chexpoint.errors import ChexError, InvalidValue
from chexpoint.magics.engine_access import EngineAccess
from chexpoint.magics.recorded import known_names, project_here
from chexpoint.model import NodeId, PathCell, lineage_from_json, to_json

if TYPE_CHECKING:
    from chexpoint.project import Project

_T = TypeVar("_T")

# How long the record of a cell that has ended may be on its way.
_WRITTEN_S = 5.0


class Shown:
    """Something that a notebook shows as HTML and a terminal as text."""

    def __init__(self, text: Callable[[], str], html: Callable[[], str]) -> None:
        self._text = text
        self._html = html

    def __repr__(self) -> str:
        return self._text()

    def _repr_html_(self) -> str:
        return self._html()


@magics_class
class LookingMagics(Magics):
    """Look at versions."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self._engine = EngineAccess(shell)

    @magic_arguments()
    @argument("--json", action="store_true", help="print it for a program")
    @line_magic
    def chex_tree(self, line: str) -> None:
        """Draw the tree of all versions.

        Each node is the state after a cell: the larger, the more memory; its colour tells how long
        the cell took.  Checkpoints and the present position are marked.  Example::

            %chex_tree
        """
        from chexpoint.view import tree_svg, tree_text

        args = parse_argstring(self.chex_tree, line)
        tree = self._recorded(lambda project: project.tree().current())
        held, here = self._live()
        if args.json:
            print(json.dumps(tree.to_json(held)))
            return
        display(
            Shown(
                lambda: tree_text(tree, checkpoints=held, here=here),
                lambda: tree_svg(tree, checkpoints=held, here=here),
            )
        )

    @magic_arguments()
    @argument("--all", action="store_true", help="list also those that a newer one has run again")
    @argument("--json", action="store_true", help="print it for a program")
    @line_magic
    def chex_versions(self, line: str) -> None:
        """List the versions that were recorded.  Example::

        %chex_versions
        """
        from chexpoint.view import versions_html, versions_text

        args = parse_argstring(self.chex_versions, line)
        tree = self._recorded(lambda project: project.tree())
        tree = tree if args.all else tree.current()
        if args.json:
            print(json.dumps(tree.to_json()["versions"]))
        else:
            display(Shown(lambda: versions_text(tree), lambda: versions_html(tree)))

    @magic_arguments()
    @argument("ref", nargs="?", help="a version, a node or a cell number; by default, this state")
    @argument("--json", action="store_true", help="print it for a program")
    @line_magic
    def chex_log(self, line: str) -> None:
        """Show the cells that led to a state.  Examples::

        %chex_log
        %chex_log baseline
        """
        from chexpoint.view import log_html, log_text

        args = parse_argstring(self.chex_log, line)
        if args.ref:
            cells = self._recorded(lambda project: project.way_to(args.ref))
        else:
            cells = self._recorded(self._way_here)
        if args.json:
            print(json.dumps(to_json(cells)))
        elif cells:
            display(Shown(lambda: log_text(cells), lambda: log_html(cells)))
        else:
            print("CHEX: no cell has led to this state yet")

    @magic_arguments()
    @argument("a", help="a version, a node or a cell number")
    @argument("b", help="another one")
    @argument("--json", action="store_true", help="print it for a program")
    @line_magic
    def chex_diff(self, line: str) -> None:
        """Show what differs between two versions: code, inputs and outputs.  Example::

        %chex_diff baseline deeper
        """
        from chexpoint.project import side_of
        from chexpoint.view import diff, diff_html, diff_json, diff_text

        args = parse_argstring(self.chex_diff, line)
        found = self._recorded(
            lambda project: diff(side_of(project, args.a), side_of(project, args.b))
        )
        if args.json:
            print(json.dumps(diff_json(found)))
        else:
            display(Shown(lambda: diff_text(found), lambda: diff_html(found)))

    @magic_arguments()
    @line_magic
    def chex_help(self, line: str) -> None:
        """List the magics of CHEX, each with a line on what it does.  Example::

        %chex_help
        """
        parse_argstring(self.chex_help, line)
        magics = self.shell.magics_manager.magics["line"] if self.shell is not None else {}
        names = sorted(name for name in magics if name.startswith("chex_"))
        width = max((len(name) for name in names), default=0) + 1
        for name in names:
            print(f"%{name:<{width}} {_summary(magics[name].__doc__ or '')}")
        print("\nAdd ? for an example: %chex_record?")

    # ------------------------------------------------------------ what is recorded

    def _recorded(self, read: Callable[[Project], _T]) -> _T:
        try:
            return read(project_here(self._engine))
        except ChexError as error:
            raise UsageError(str(error)) from None

    def _live(self) -> tuple[dict[NodeId, str], NodeId | None]:
        """Return the nodes that are checkpointed, and where this kernel is."""
        held = self._recorded(lambda project: project.checkpoints())
        if not self._engine.is_here:
            return held, None
        status = self._engine.status()
        mine = {c.node: c.name or c.id for c in status.checkpoints if c.node is not None}
        return {**held, **mine}, status.node

    def _place(self) -> str | None:
        """Return the node this kernel is at, once it is known; the newest version elsewhere."""
        if not self._engine.is_here:
            tree = self._recorded(lambda project: project.tree())
            return tree.labels[tree.versions[-1]] if tree.versions else None
        path = self._engine.ask("lineage", last=1)
        return lineage_from_json(path[-1]).node if path else None

    def _way_here(self, project: Project) -> tuple[PathCell, ...]:
        """Return the cells that led here; on a busy machine the last one is not written yet."""
        place = self._place()
        until = time.monotonic() + _WRITTEN_S
        while place is not None:
            try:
                return project.way_to(place)
            except InvalidValue:
                if time.monotonic() > until:
                    raise
                time.sleep(0.02)
        return ()

    def complete_version(self, _shell: Any, _event: Any) -> list[str]:
        """Return the names that can follow on the line."""
        return known_names(self._engine)


def _summary(text: str) -> str:
    """Return the first sentence of a docstring; those of magics begin with their usage."""
    paragraphs = [part.strip() for part in text.split("\n\n")]
    lines = [part for part in paragraphs if part and not part.startswith("::")]
    first = " ".join((lines[1] if len(lines) > 1 else lines[0]).split()) if lines else ""
    return first.partition("  Example")[0].partition(". ")[0].rstrip(".:")
