"""The visual debugger of front ends."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from tests.support.features import feature

if TYPE_CHECKING:
    from tests.support.kernels import Kernel
    from tests.support.messages import Content, Message

SEQUENCE = count(1)
CLIENT = {
    "clientID": "checks",
    "clientName": "checks",
    "adapterID": "",
    "pathFormat": "path",
    "linesStartAt1": True,
    "columnsStartAt1": True,
    "supportsVariableType": True,
    "supportsVariablePaging": True,
    "supportsRunInTerminalRequest": True,
    "locale": "en",
}
CODE = """def add(a, b):
    total = a + b
    return total

add(2, 3)"""


def debug(kernel: Kernel, command: str, **arguments: Any) -> Content:
    """The body of the reply to a debug request that must succeed."""
    content = {
        "type": "request",
        "seq": next(SEQUENCE),
        "command": command,
        "arguments": arguments,
    }
    reply = kernel.request("debug_request", content, channel="control").content
    assert reply["success"], reply
    body: Content = reply.get("body", {})
    return body


def stopped(message: Message) -> bool:
    return message.type == "debug_event" and message.content.get("event") == "stopped"


def stop_and_go_on(kernel: Kernel) -> None:
    source = debug(kernel, "dumpCell", code=CODE)["sourcePath"]
    placed = debug(
        kernel,
        "setBreakpoints",
        breakpoints=[{"line": 2}],
        source={"path": source},
        sourceModified=False,
    )
    assert placed["breakpoints"][0]["verified"]
    assert debug(kernel, "debugInfo")["breakpoints"][0]["source"] == source
    debug(kernel, "configurationDone")
    request = kernel.submit(CODE)
    event = kernel.wait_for(stopped, "the breakpoint")
    assert event.content["body"]["reason"] == "breakpoint"
    thread = event.content["body"]["threadId"]
    frame = debug(kernel, "stackTrace", threadId=thread)["stackFrames"][0]
    assert (frame["name"], frame["line"], frame["source"]["path"]) == ("add", 2, source)
    (scope,) = [
        scope
        for scope in debug(kernel, "scopes", frameId=frame["id"])["scopes"]
        if scope["name"] == "Locals"
    ]
    found = debug(kernel, "variables", variablesReference=scope["variablesReference"])
    assert {v["name"]: v["value"] for v in found["variables"]} == {"a": "2", "b": "3"}
    rich = debug(kernel, "richInspectVariables", variableName="b", frameId=frame["id"])
    assert rich["data"] == {"text/plain": "3"}
    debug(kernel, "next", threadId=thread)
    debug(kernel, "continue", threadId=thread)
    assert kernel.finish(request).ok().result == {"text/plain": "5"}


@feature(own_kernel=True)
def check_debugger(kernel: Kernel) -> None:
    kernel.run("known = [1, 2]")
    assert debug(kernel, "debugInfo")["isStarted"] is False
    debug(kernel, "initialize", **CLIENT)
    debug(kernel, "attach")
    assert debug(kernel, "debugInfo")["isStarted"] is True
    names = [v["name"] for v in debug(kernel, "inspectVariables")["variables"]]
    assert "known" in names
    shown = debug(kernel, "richInspectVariables", variableName="known")
    assert shown["data"]["text/plain"] == "[1, 2]"
    stop_and_go_on(kernel)
    debug(kernel, "disconnect", restart=False, terminateDebuggee=False)
    assert debug(kernel, "debugInfo")["isStarted"] is False
    assert kernel.run("print(known)") == "[1, 2]\n"


@feature(own_kernel=True)
def check_debugger_attaches_again(kernel: Kernel) -> None:
    for _ in range(2):
        debug(kernel, "initialize", **CLIENT)
        debug(kernel, "attach")
        kernel.forget()
        stop_and_go_on(kernel)
        debug(kernel, "disconnect", restart=False, terminateDebuggee=False)
    assert kernel.run("print(add(1, 1))") == "2\n"
