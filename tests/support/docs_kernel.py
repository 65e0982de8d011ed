"""Running a notebook's cells in a kernel of its own."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from chexpoint.cli.install import KERNEL_NAME, write_spec
from chexpoint.errors import ChexError

if TYPE_CHECKING:
    from jupyter_client.blocking.client import BlockingKernelClient
    from jupyter_client.manager import KernelManager

    from chexpoint.model import Seconds

START_TIMEOUT_S = 60.0
CELL_TIMEOUT_S = 120.0
POLL_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class NotebookCell:
    """A code cell as the notebook file has it."""

    id: str
    source: str
    tags: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRun:
    """What a cell did in the kernel."""

    cell: NotebookCell
    status: Literal["ok", "error"]
    text: str
    """All plain text it showed; the error, if it failed."""
    seconds: Seconds
    """From sending the cell to its last message, as a user waits for it."""


def code_cells(path: Path) -> tuple[NotebookCell, ...]:
    """Return the code cells of a notebook file, in order."""
    import nbformat

    return tuple(
        NotebookCell(id=cell.id, source=cell.source, tags=frozenset(cell.metadata.get("tags", ())))
        for cell in nbformat.read(path, as_version=4).cells
        if cell.cell_type == "code"
    )


class KernelRunner:
    """A CHEX kernel that runs cells, one at a time."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        """Drive a kernel that has been started; `open_kernel` does both."""
        self._manager = manager
        self._client = client

    def run(self, cell: NotebookCell, *, timeout_s: Seconds = CELL_TIMEOUT_S) -> CellRun:
        """Run one cell and wait for all it has to say.

        Raises
        ------
        ChexError
            If the kernel dies, or does not answer in time.
        """
        start = time.perf_counter()
        request = self._client.execute(cell.source, allow_stdin=False)
        published = self._published(request, deadline=start + timeout_s, cell=cell)
        shown = [_plain_text(message) for message in published]
        reply = self._client.get_shell_msg(timeout=timeout_s)
        while reply["parent_header"].get("msg_id") != request:
            reply = self._client.get_shell_msg(timeout=timeout_s)
        return CellRun(
            cell=cell,
            status="ok" if reply["content"]["status"] == "ok" else "error",
            text="".join(shown),
            seconds=time.perf_counter() - start,
        )

    def _published(
        self, request: str, *, deadline: Seconds, cell: NotebookCell
    ) -> Iterator[dict[str, Any]]:
        """Yield what is published for a request, until the kernel is idle again."""
        while True:
            try:
                message = self._client.get_iopub_msg(timeout=POLL_S)
            except queue.Empty:
                if not self._manager.is_alive():
                    raise ChexError(f"the kernel died in cell '{cell.id}'") from None
                if time.perf_counter() > deadline:
                    raise ChexError(f"cell '{cell.id}' did not end in time") from None
                continue
            if message["parent_header"].get("msg_id") != request:
                continue
            if message["content"].get("execution_state") == "idle":
                return
            yield message


@contextlib.contextmanager
def open_kernel(folder: Path, work: Path | None = None) -> Iterator[KernelRunner]:
    """Start a CHEX kernel and end it afterwards.

    Parameters
    ----------
    folder
        An empty folder for its kernel spec and its IPython profile, so that nothing of the user's
        is touched.
    work
        Where it runs; by default, in a new folder ``work`` below.

    Raises
    ------
    ChexError
        If the kernel does not start.
    """
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import KernelManager

    write_spec(folder / "kernels" / KERNEL_NAME)
    if work is None:
        work = folder / "work"
        work.mkdir()
    specs = KernelSpecManager(kernel_dirs=[str(folder / "kernels")], ensure_native_kernel=False)
    manager = KernelManager(kernel_name=KERNEL_NAME, kernel_spec_manager=specs)
    log = folder / "kernel.log"
    with log.open("wb") as stream:
        manager.start_kernel(
            cwd=str(work),
            env={**os.environ, "IPYTHONDIR": str(folder / "ipython")},
            stdout=subprocess.DEVNULL,
            stderr=stream,
        )
    client = manager.client()
    client.start_channels()
    try:
        try:
            client.wait_for_ready(timeout=START_TIMEOUT_S)
        except RuntimeError as error:
            raise ChexError(f"the CHEX kernel did not start: {_last_line(log)}") from error
        yield KernelRunner(manager, client)
    finally:
        client.stop_channels()
        # As front ends do: what the last cell did is still recorded.
        manager.shutdown_kernel()


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return lines[-1] if lines else "it said nothing"


def _plain_text(message: dict[str, Any]) -> str:
    content = message["content"]
    match message["msg_type"]:
        case "stream":
            return str(content["text"])
        case "execute_result" | "display_data":
            return str(content["data"].get("text/plain", ""))
        case "error":
            return f"{content['ename']}: {content['evalue']}"
        case _:
            return ""
