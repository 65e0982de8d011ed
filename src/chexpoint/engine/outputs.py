"""The outputs of one cell, gathered from its messages as a notebook file would hold them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chexpoint.model import Output

OUTPUT_TYPES = frozenset({"stream", "display_data", "execute_result", "error"})
_KINDS = OUTPUT_TYPES | {"clear_output", "update_display_data"}


class OutputCollector:
    """Takes published messages in their order.

    Parameters
    ----------
    on_output
        Called with each output as it comes.
    """

    def __init__(self, on_output: Callable[[Output], None] | None = None) -> None:
        self._on_output = on_output
        self._outputs: list[Output] = []
        self._texts: list[str] = []
        """The pieces of the last output, if it is text of a stream."""
        self._displays: dict[str, list[int]] = {}
        self._clear_next = False

    @property
    def outputs(self) -> tuple[Output, ...]:
        self._join()
        return tuple(self._outputs)

    def _join(self) -> None:
        """Put the pieces of text together: once, because there may be very many."""
        if len(self._texts) > 1:
            self._outputs[-1] = {**self._outputs[-1], "text": "".join(self._texts)}
            self._texts = [self._outputs[-1]["text"]]

    def add(self, kind: str, content: dict[str, Any]) -> None:
        """Take one message; those of other types than outputs are ignored."""
        if kind not in _KINDS:
            return
        if kind == "clear_output":
            if content.get("wait"):
                self._clear_next = True
            else:
                self._clear()
        elif kind == "update_display_data":
            self._update(content)
        else:
            self._add(kind, content)

    def _clear(self) -> None:
        self._outputs.clear()
        self._texts.clear()
        self._displays.clear()
        self._clear_next = False

    def _add(self, kind: str, content: dict[str, Any]) -> None:
        if self._clear_next:
            self._clear()
        fields = {name: value for name, value in content.items() if name != "transient"}
        display = content.get("transient", {}).get("display_id")
        output = {"output_type": kind, **fields}
        if self._on_output is not None:
            self._on_output(output)
        last = self._outputs[-1] if self._outputs else {}
        if kind == "stream" and last.get("name") == output["name"]:
            self._texts.append(output["text"])
            return
        self._join()
        self._texts = [output["text"]] if kind == "stream" else []
        if display is not None:
            self._displays.setdefault(display, []).append(len(self._outputs))
        self._outputs.append(output)

    def _update(self, content: dict[str, Any]) -> None:
        display = content.get("transient", {}).get("display_id")
        for at in self._displays.get(display, ()):
            changed = {"data": content["data"], "metadata": content["metadata"]}
            self._outputs[at] = {**self._outputs[at], **changed}
