"""What running a cell gave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from chexpoint.model.ids import Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class CellError:
    """The exception that ended a cell."""

    ename: str
    evalue: str
    traceback: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellResult:
    """One executed cell: how it ended, what it showed, how long it took."""

    status: Literal["ok", "error", "aborted"]
    execution_count: int | None
    outputs: tuple[dict[str, Any], ...]
    """Outputs as a notebook file holds them (nbformat 4)."""
    seconds: Seconds
    error: CellError | None = None

    @property
    def text(self) -> str:
        """Everything the cell printed to standard output."""
        return "".join(
            out["text"]
            for out in self.outputs
            if out["output_type"] == "stream" and out["name"] == "stdout"
        )
