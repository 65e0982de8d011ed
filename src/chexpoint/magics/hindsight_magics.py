"""Magics that log in hindsight, and say what recording of loops may cost."""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from IPython.core.error import UsageError
from IPython.core.magic import cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

from chexpoint.errors import InvalidValue
from chexpoint.lineage import UNSEEN
from chexpoint.magics.replay_magics import ReplayMagics
from chexpoint.model import parse_overhead


@magics_class
class HindsightMagics(ReplayMagics):
    """Log what was not logged when it ran."""

    @magic_arguments()
    @argument("version", nargs="?", metavar="VERSION", help="by default, the newest that fits")
    @argument("--epochs", metavar="A:B", help="which iterations of the main loop, such as 40:60")
    @argument("--workers", metavar="N", help="how many engines share the iterations")
    @argument("--scheduler", metavar="ADDRESS", help="compute on the Dask cluster of a scheduler")
    @argument("--local-cluster", metavar="N", help="start a Dask cluster of N workers here")
    @argument("--store", metavar="URL", help="what all hosts of the cluster see, for large states")
    @argument("--all-versions", action="store_true", help="in all other versions as well")
    @argument("--names", metavar="A,B", help="only values of these names")
    @argument("--plot", action="store_true", help="draw the values that are numbers")
    @argument("--into", metavar="NAME", help="a variable for the table")
    @cell_magic
    def chex_hindsight(self, line: str, cell: str) -> None:
        """See what log statements would have logged that you add to a cell after it has run.

        Copy the cell of the training, add ``print(...)`` or ``chexpoint.log(...)`` where you want
        to know more, and put this line above it.  Only the loops that log are run again, in engines
        beside this kernel, from states that were kept.  Examples::

            %%chex_hindsight
            for epoch in range(10):
                for batch in batches:
                    train(batch)
                print(norm(weights))

            %%chex_hindsight baseline --epochs 5:10 --workers 2 --into norms
        """
        from chexpoint.magics.hindsight_show import follow, show_end, table_of
        from chexpoint.magics.replay_program import owner

        args = parse_argstring(self.chex_hindsight, line)
        if args.into is not None and not args.into.isidentifier():
            raise UsageError(f"--into {args.into}: that cannot be the name of a variable")
        words = ["--project", self._recorded_folder(), "--events", "-", "--quiet"]
        words += ["--pid", str(owner(self._engine))]
        cluster = ("scheduler", "local-cluster", "store")
        for name in ("version", "epochs", "workers", "names", *cluster):
            if (value := getattr(args, name.replace("-", "_"))) is not None:
                words.append(f"--{name}={value}")
        words += ["--all-versions"] if args.all_versions else []
        with _written(cell) as path:
            program = self._start("hindsight", [f"--cell={path}", *words])
            if program is None:
                return
            with program:
                end = follow(program, self.shell)
                if not end.result:
                    end.clear()
                    raise UsageError(_why(program.errors()))
        table = table_of(end.rows())
        show_end(end, table, has_plot=args.plot)
        if args.into is not None and self.shell is not None:
            self.shell.user_ns[args.into] = table

    @magic_arguments()
    @argument(
        "share",
        nargs="?",
        metavar="SHARE",
        help="such as 3%% or 0.03, or off; without it, show the share",
    )
    @line_magic
    def chex_overhead(self, line: str) -> None:
        """Set how much longer loops may take because their states are kept.

        States are kept as often as this share of the computing time allows; with ``always`` after
        every iteration, whatever that costs; with ``off`` loops are not recorded, and cannot be
        replayed in hindsight.  Examples::

            %chex_overhead
            %chex_overhead 3%
            %chex_overhead always
            %chex_overhead off
        """
        word = parse_argstring(self.chex_overhead, line).share
        try:
            share = self._share() if word is None else self._set_share(parse_overhead(word))
        except InvalidValue as error:
            raise UsageError(str(error)) from None
        if share is None:
            print("CHEX: loops are not recorded")
        elif math.isinf(share):
            print("CHEX: all states of loops are kept")
        else:
            print(f"CHEX: keeping the states of loops may take {100 * share:.3g}% of their time")

    def _share(self) -> float | None:
        if self._plain is not None:
            return self._plain.loops.share
        share: float | None = self._engine.ask("overhead")
        return share

    def _set_share(self, share: float | None) -> float | None:
        """Set the share, and return it."""
        if self._plain is not None:
            self._plain.loops.share = share
        else:
            self._engine.ask("overhead", share=share)
        return share


def _why(errors: list[str]) -> str:
    """Return what a program has said: every reason why it could not do what it was to."""
    return "\n".join(errors) or "chex has ended without a word"


@contextmanager
def _written(cell: str) -> Iterator[str]:
    """Put a cell into a file that only this user can read, as long as it is needed."""
    name = f"chex-cell-{os.getpid()}-{time.monotonic_ns()}.py"
    path = os.path.join(tempfile.gettempdir(), name)
    # What CHEX itself writes is no effect of the user's.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | UNSEEN
    descriptor = os.open(path, flags, 0o600)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(cell)
        yield path
    finally:
        with suppress(OSError):
            os.unlink(path)
