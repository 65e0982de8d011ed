"""How magics talk to the engine they run in, if they do."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, cast

from IPython.core.error import UsageError

from chexpoint.engine import PLAIN
from chexpoint.errors import ChexError
from chexpoint.model import Status, status_from_json

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


class EngineAccess:
    """The supervisor, as seen from the cell that is running."""

    def __init__(self, shell: InteractiveShell | None) -> None:
        self._shell = shell

    @property
    def worker(self) -> Any:
        """The worker this cell runs in; a `UsageError` if there is none."""
        if (reason := self.why_plain()) is not None:
            raise UsageError(reason)
        return cast("Any", self._shell).kernel.chex_worker

    @property
    def is_here(self) -> bool:
        return hasattr(getattr(self._shell, "kernel", None), "chex_worker")

    def why_plain(self) -> str | None:
        """Return why there are no checkpoints in this kernel, or None if there are."""
        if self.is_here:
            return None
        if reason := os.environ.get(PLAIN):
            return f"no checkpoints: {reason}"
        return "this kernel has no checkpoints: choose the kernel CHEX"

    def ask(self, op: str, **args: Any) -> Any:
        """Ask the supervisor; what it says no to becomes a one-line error."""
        try:
            return self.worker.ask(op, **args)
        except ChexError as error:
            raise UsageError(str(error)) from None

    def status(self) -> Status:
        return status_from_json(self.ask("status"))

    def cell(self) -> str:
        """Return the source of the running cell."""
        kernel: Any = getattr(self._shell, "kernel", None)
        parent = kernel.get_parent("shell") if kernel is not None else {}
        return str(parent.get("content", {}).get("code", ""))

    def must_be_last(self, magic: str) -> None:
        """Refuse a move to another state that is followed by more lines."""
        lines = [text for text in self.cell().splitlines() if text.split("#")[0].strip()]
        if lines and magic not in lines[-1]:
            raise UsageError(
                f"put {magic} on the last line of its cell:"
                " the lines after it would run in the state that is being left"
            )
