"""What the supervisor itself answers in the place of the worker."""

from __future__ import annotations

from typing import Any

from chexpoint.engine.asks import Request
from chexpoint.engine.front import Front
from chexpoint.engine.outputs import OUTPUT_TYPES
from chexpoint.model import Output


def show(front: Front, name: str, text: str, request: Request | None) -> None:
    """Show text as output (``name`` is stdout or stderr) of the cell of a request."""
    front.publish("stream", {"name": name, "text": text}, request)


def abort(front: Front, request: Request) -> None:
    """Answer a request that will not run."""
    status(front, "busy", request)
    front.reply(request, {"status": "aborted"})
    status(front, "idle", request)


def fail(front: Front, request: Request, ename: str, evalue: str) -> None:
    """Answer a request that the engine could not finish."""
    error = {"ename": ename, "evalue": evalue, "traceback": [f"{ename}: {evalue}"]}
    if request.kind == "execute":
        front.publish("error", error, request)
    if request.kind != "comm":
        extra = {"execution_count": 0, "user_expressions": {}, "payload": []}
        front.reply(request, {"status": "error", **extra, **error})
    status(front, "idle", request)


def recall(
    front: Front, request: Request, outputs: tuple[Output, ...], count: int, mark: dict[str, str]
) -> None:
    """Answer a cell that was begun with the outputs of an earlier run, and say so."""
    for output in outputs:
        kind = output["output_type"]
        if kind in OUTPUT_TYPES:
            content = {name: value for name, value in output.items() if name != "output_type"}
            if kind == "execute_result":
                content["execution_count"] = count
            elif kind == "display_data":
                content["transient"] = {}
            front.publish(kind, content, request)
    front.publish("display_data", display(mark), request)
    reply = {"status": "ok", "execution_count": count, "user_expressions": {}, "payload": []}
    front.reply(request, reply)
    status(front, "idle", request)


def begin(front: Front, request: Request, count: int) -> None:
    """Say that a cell is being worked on, as the worker does when it begins."""
    status(front, "busy", request)
    if request.cell is not None:
        content = {"code": request.cell.source, "execution_count": count}
        front.publish("execute_input", content, request)


def display(data: dict[str, str], display_id: str | None = None) -> dict[str, Any]:
    """Return the contents of a message that displays something."""
    transient = {} if display_id is None else {"display_id": display_id}
    return {"data": data, "metadata": {}, "transient": transient}


def status(front: Front, state: str, request: Request) -> None:
    """Tell that a request is being worked on (``busy``), or no longer (``idle``)."""
    front.publish("status", {"execution_state": state}, request)
