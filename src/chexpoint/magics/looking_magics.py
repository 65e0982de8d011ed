"""Magics that show what was recorded: the tree, the versions, and how they differ."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

from chexpoint.errors import ChexError
from chexpoint.magics.engine_access import EngineAccess
from chexpoint.magics.version_magics import project_here
from chexpoint.model import NodeId
from chexpoint.project import Project, compared, sides
from chexpoint.view import (
    diff_html,
    diff_json,
    diff_text,
    log_html,
    log_text,
    tree_svg,
    tree_text,
    versions_html,
    versions_text,
)


class Shown:
    """Something that a notebook shows as HTML and a terminal as text; made when it is asked for."""

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

        Each node is the state after a cell: the larger, the more memory; the brighter, the longer
        the cell took.  A ring is a checkpoint.  Example::

            %chex_tree
        """
        args = parse_argstring(self.chex_tree, line)
        tree = self._project().tree()
        held, here = self._held()
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
    @argument("--json", action="store_true", help="print it for a program")
    @line_magic
    def chex_versions(self, line: str) -> None:
        """List the versions that were recorded.  Example::

        %chex_versions
        """
        args = parse_argstring(self.chex_versions, line)
        tree = self._project().tree()
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
        args = parse_argstring(self.chex_log, line)
        cells = self._recorded(lambda project: sides(project, args.ref or self._position()).cells)
        if args.json:
            print(json.dumps([_cell_json(cell) for cell in cells]))
        else:
            display(Shown(lambda: log_text(cells), lambda: log_html(cells)))

    @magic_arguments()
    @argument("a", help="a version, a node or a cell number")
    @argument("b", help="another one")
    @argument("--json", action="store_true", help="print it for a program")
    @line_magic
    def chex_diff(self, line: str) -> None:
        """Show what differs between two versions: code, inputs and outputs.  Example::

        %chex_diff baseline deeper
        """
        args = parse_argstring(self.chex_diff, line)
        diff = self._recorded(lambda project: compared(project, args.a, args.b))
        if args.json:
            print(json.dumps(diff_json(diff)))
        else:
            display(Shown(lambda: diff_text(diff), lambda: diff_html(diff)))
