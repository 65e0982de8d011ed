"""Magics that look at the experiment graph, tell why, and begin a training with a stored model."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

from chexpoint.errors import ChexError
from chexpoint.magics.engine_access import EngineAccess
from chexpoint.magics.looking_magics import Shown
from chexpoint.model import ArtifactId, CellLineage, lineage_from_json

_OFF = (
    "it is not known what the cells did to variables: put %chex_reuse graph into the first cell, "
    "or set CHEX_GRAPH"
)


@magics_class
class GraphMagics(Magics):
    """Look at the experiment graph, and use it."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self._engine = EngineAccess(shell)

    @magic_arguments()
    @argument("--for", dest="target", metavar="VARIABLE", help="draw only what leads to it")
    @argument("--table", action="store_true", help="show text: the whole, and what saves most")
    @argument("--best", action="store_true", help="list models, the best one first")
    @argument("--on", action="append", metavar="VARIABLE", help="with --best, only those from it")
    @argument("--json", action="store_true", help="print it for a program")
    @line_magic
    def chex_graph(self, line: str) -> None:
        """Draw the experiment graph: cells, what they computed, and what of it is stored.

        With ``--for``, what would be loaded and what computed to have a variable in a fresh
        kernel.  Examples::

            %chex_graph
            %chex_graph --for model
            %chex_graph --table
            %chex_graph --best --on X_train
        """
        args = parse_argstring(self.chex_graph, line)
        self._settle()
        if args.on and not args.best:
            raise UsageError("--on goes with --best: %chex_graph --best --on VARIABLE")
        if args.best:
            as_json = ["--json"] if args.json else []
            self._print(["best", *as_json, *(f"--on={name}" for name in args.on or ())])
            return
        aim = [f"--for={args.target}"] if args.target else []
        is_text = args.table or not hasattr(self.shell, "kernel")
        if args.json:
            self._print(["--json", *aim])
        elif is_text:
            self._print(aim)
            if not aim:
                self._print(["top"], before="")
        elif (picture := self._ask([*aim, "--svg"])) is not None:
            display(Shown(lambda: "a picture: %chex_graph --table shows text", lambda: picture))

    @magic_arguments()
    @argument("names", nargs="*", metavar="VARIABLE", help="which variables; by default, all")
    @line_magic
    def chex_why(self, line: str) -> None:
        """Tell of variables what they are, whether they were loaded or computed, and why.

        Also whether they are stored for others, and why not.  Examples::

            %chex_why features
            %chex_why
        """
        from chexpoint.magics.graph_show import made_on, why_lines

        args = parse_argstring(self.chex_why, line)
        made = made_on(self._path())
        if made is None:
            raise UsageError(_OFF)
        lines = why_lines(args.names, made, self._engine.ask("why") or {})
        print("\n".join(lines) or "CHEX: no cell has made a variable yet")

    @magic_arguments()
    @argument("model", metavar="MODEL", help="a variable with a model that is not fitted yet")
    @argument("--data", nargs="+", required=True, metavar="X", help="what it will be trained on")
    @line_magic
    def chex_warmstart(self, line: str) -> None:
        """Let the training of a model begin with the best stored model like it.

        That is one of the same class which was trained on the same data, by you or a colleague.
        Models of scikit-learn that have ``warm_start``, and modules of torch.  What comes of it is
        never taken for a model that was trained from the beginning.  Example::

            model = RandomForestClassifier(n_estimators=200)
            %chex_warmstart model --data X y
            model.fit(X, y)
        """
        from chexpoint.magics import graph_warm

        args = parse_argstring(self.chex_warmstart, line)
        model = self._variable(args.model)
        if why := graph_warm.why_unfit(model):
            raise UsageError(f"no warm start of '{args.model}': {why}")
        changed = graph_warm.changed_before(self._engine.cell(), "chex_warmstart", args.data)
        if changed:
            raise UsageError(f"'{changed}' may change in this cell: make it in a cell before")
        found = self._found(model, args.data)
        if found["model"] is None:
            why = found["why"] or "none of this class that was trained on this data is stored"
            print(f"CHEX: no warm start of '{args.model}': {why}")
            return
        self._begin(args.model, model, args.data, found)

    # ------------------------------------------------------------ warm starts

    def _variable(self, name: str) -> Any:
        names = self.shell.user_ns if self.shell is not None else {}
        if name not in names:
            raise UsageError(f"there is no variable '{name}'")
        return names[name]

    def _found(self, model: object, data: Sequence[str]) -> dict[str, Any]:
        """Return the best stored model like one, with its contents."""
        from chexpoint.magics import graph_warm

        worker = self._engine.worker
        bindings = graph_warm.bindings_of(self._path())
        if bindings is None:
            raise UsageError(_OFF)
        try:
            words = [f"--on={each}" for each in graph_warm.identities(bindings, data)]
        except ChexError as error:
            raise UsageError(str(error)) from None
        # In our own folder: what is read elsewhere would count as an input of the cell.
        name = f"fetched-{os.getpid()}-{time.monotonic_ns()}"
        into = os.path.join(worker.folder, ".chex", name)
        printed = self._ask(["warm", *words, f"--kind={type(model).__name__}", f"--fetch={into}"])
        if printed is None:
            raise UsageError("a warm start cannot be repeated to bring back a state: run the cell")
        found: dict[str, Any] = json.loads(printed)
        return found

    def _begin(self, name: str, model: object, data: Sequence[str], found: dict[str, Any]) -> None:
        from chexpoint.magics import graph_warm

        row = found["model"]
        values = self._values(name, found["fetched"])
        if values is None:
            return
        other = graph_warm.chosen_from(values, model, name)
        if other is None:
            print(f"CHEX: no warm start of '{name}': the model found is of another class")
            return
        ident = ArtifactId(row["id"])
        if not graph_warm.note_beginning(self._engine.worker, ident, name, data):
            raise UsageError("no warm start: the variables of this kernel are not followed")
        if why := graph_warm.begin_with(model, other):
            print(f"CHEX: no warm start of '{name}': {why}")
            return
        score = "" if row["score"] is None else f", score {row['score']:.4g}"
        by = (row["made_by"] or {}).get("user", "")
        who = f", by {by}" if by else ""
        names = ", ".join(row["group"]["names"])
        print(f"CHEX: '{name}' begins with '{names}' ({row['id'][:8]}{score}{who})")

    def _values(self, name: str, fetched: dict[str, Any]) -> dict[str, object] | None:
        """Return the variables that were fetched; None, after telling why, if they are no use."""
        from chexpoint.magics import graph_warm

        main: dict[str, object] = self.shell.user_ns if self.shell is not None else {}
        try:
            return graph_warm.fetched_values(fetched, main)
        except ChexError as error:
            print(f"CHEX: no warm start of '{name}': {error}")
        except Exception as error:  # loading runs code of any library
            print(f"CHEX: no warm start of '{name}': {type(error).__name__}: {error}")
        return None

    # ------------------------------------------------------------ asking

    def _path(self) -> tuple[CellLineage, ...]:
        """Return the cells that led to the state before this one."""
        return tuple(lineage_from_json(data) for data in self._engine.ask("lineage"))

    def _settle(self) -> None:
        """Wait until what the cell before this one did is known."""
        if self._engine.is_here:
            self._engine.ask("lineage", last=1)

    def _ask(self, words: Sequence[str]) -> str | None:
        from chexpoint.magics.graph_show import asked

        folder = self._engine.worker.folder if self._engine.is_here else os.getcwd()
        try:
            return asked(self._engine, folder, words)
        except OSError as error:
            raise UsageError(f"chex could not be started: {error.strerror or error}") from None

    def _print(self, words: Sequence[str], before: str | None = None) -> None:
        text = self._ask(words)
        if text is not None:
            print(text if before is None else f"{before}\n{text}")
