"""The supervisor's side of the audit: which system calls belong to which cell and state."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from chexpoint.engine import instructions as do
from chexpoint.engine.asks import Ask, Request
from chexpoint.engine.effects import Note, signature, signature_of
from chexpoint.lineage import Audited, Auditor, Cell, Step, default_cache_folder
from chexpoint.model import variables_from_json

_CARETAKER = Path(__file__).with_name("caretaker.py")
# How long an ending engine waits for the digests of the last cells.
_LAST_WAIT_S = 3.0


class Auditing:
    """Follows the worker from cell to cell and from checkpoint to checkpoint.

    Called by the supervisor's loop alone; nothing here waits, except `close`.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._auditor = Auditor(os.getcwd(), wake=wake, cache_folder=default_cache_folder())
        self._steps: dict[int, Step] = {}
        self._requests: dict[Step, Request | None] = {}
        self._asks: list[do.TellLineage] = []

    def started(self, event: dict[str, Any], fds: Sequence[int], step: Step) -> None:
        """A fresh worker is ready; it has passed the listener of its filter, if it has one."""
        self._abandon()
        self._auditor.start(
            event["pid"],
            step,
            listener=fds[0] if fds else None,
            gave_up_privileges=event["gave_up_privileges"],
            mechanism=event["audit"],
            ignored=event["ignored"],
            startup=event["startup"],
            import_folders=event["import_folders"],
        )

    def dispatched(self, request: Request, step: Step | None) -> None:
        """A request is about to be sent to the worker."""
        if step is not None:
            self._steps[request.seq] = step
            self._requests[step] = request if request.kind == "execute" else None
            self._auditor.begin(step)
        elif request.kind in {"state", "other"}:
            self.aside(True)

    def aside(self, on: bool) -> None:
        """The worker does something of CHEX's own, or for a front end; or no longer."""
        self._auditor.aside(on)

    def done(self, event: dict[str, Any]) -> list[Note]:
        """The worker has finished a request; return the files it changed, as they were before."""
        step = self._steps.pop(event["seq"], None)
        cell = event["cell"]
        if step is None:
            self.aside(False)
        elif cell is None:
            self._requests.pop(step, None)
            self._auditor.discard()
        else:
            variables = cell.get("variables")
            self._auditor.end(
                Cell(
                    source=cell["source"],
                    code=cell["code"],
                    execution_count=event["execution_count"],
                    seconds=event["seconds"],
                    size_bytes=event["resident"],
                    status=cell["status"],
                    report=cell["report"],
                    variables=None if variables is None else variables_from_json(variables),
                )
            )
        return [
            (path, None if before is None else signature_of(before))
            for path, before in self._auditor.take_written()
        ]

    def forked(self) -> list[Note]:
        """A checkpoint was taken; return the files that were used so far, as they are now."""
        self.aside(False)
        return [(path, signature(path)) for path in self._auditor.used()]

    def adopted(self, step: Step, pid: int) -> None:
        """A process restored from a checkpoint is the worker now, and at a step."""
        self._abandon()
        self._auditor.switch(pid, step)

    def _abandon(self) -> None:
        """What was running will not come to an end."""
        for step in self._steps.values():
            self._requests.pop(step, None)
        self._steps.clear()

    def ask(self, ask: do.TellLineage) -> None:
        """Note who wants to know the lineage of a state."""
        self._asks.append(ask)

    def answers(self) -> list[do.Answer]:
        """Return the answers that can be given by now."""
        waiting, found = [], []
        for tell in self._asks:
            path = tell.place.lineages()
            if path is None:
                waiting.append(tell)
            else:
                found.append(do.Answer(tell.ask, path[_start(len(path), tell.ask) :]))
        self._asks = waiting
        return found

    def concluded(self) -> list[tuple[Audited, Request | None]]:
        """Return the cells whose lineage is complete by now, and the requests they came with."""
        return [
            (audited, self._requests.pop(audited.step, None))
            for audited in self._auditor.take_audited()
        ]

    def close(self) -> None:
        """See the last cells through, and leave behind what outliving processes need."""
        deadline = time.monotonic() + _LAST_WAIT_S
        while self._auditor.is_busy and time.monotonic() < deadline:
            time.sleep(0.005)

    def leave_caretaker(self) -> None:
        """Keep the system calls of processes going that outlive this engine."""
        fds = self._auditor.listeners()
        if fds:
            with contextlib.suppress(OSError):
                subprocess.Popen(
                    [sys.executable, "-I", "-S", str(_CARETAKER), *map(str, fds)],
                    pass_fds=fds,
                    start_new_session=True,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )


def _start(cells: int, ask: Ask) -> int:
    last = ask.args.get("last")
    return 0 if last is None else max(0, cells - last)


def about_privileges(programs: Sequence[str]) -> str:
    names = " and ".join(programs)
    return (
        f"{names} ran without the extra rights it needs, because system calls are audited. If it"
        " failed for that: set CHEX_AUDIT=hook in the environment and restart the kernel."
    )
