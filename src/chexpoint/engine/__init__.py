"""Runs cells in a worker process whose state can be checkpointed and restored.

The interactive kernel and batch replay are two drivers of the same engine: a
`Supervisor` with a front of their own, or `Engine`, which is a supervisor in
a process of its own.

Names are loaded when they are first used: a worker needs almost none of them,
and a kernel's start-up time is spent importing.
"""

from importlib import import_module

# Not from typing, which takes longer to import than the rest of what starts a worker.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from chexpoint.engine.asks import Ask, CellText, Request
    from chexpoint.engine.cell_files import cell_folder, use_cell_folder
    from chexpoint.engine.cells import body_of, cell_of, version_begun, version_named
    from chexpoint.engine.events import (
        Asked,
        Bound,
        Chosen,
        Drained,
        Event,
        FilesChecked,
        Found,
        Looked,
        ShutdownAsked,
        Submitted,
    )
    from chexpoint.engine.front import Front, FrontEvent, InputReply, InterruptAsked
    from chexpoint.engine.guest import Guest
    from chexpoint.engine.header import header_of, strip_header
    from chexpoint.engine.headless import Engine, ImagesWritten
    from chexpoint.engine.journal import Journal, Result, Told
    from chexpoint.engine.memory import (
        MemoryLimits,
        available_bytes,
        cgroup_folders,
        memory_limits,
    )
    from chexpoint.engine.message import Codec, Message, execute_request
    from chexpoint.engine.outputs import OutputCollector
    from chexpoint.engine.proc import wait_for_end
    from chexpoint.engine.serving import serve
    from chexpoint.engine.settings import (
        PERSIST_WORDS,
        Settings,
        default_budget,
        persist_mode,
        settings_from,
    )
    from chexpoint.engine.spawn import PLAIN, Spawner
    from chexpoint.engine.state import EngineState
    from chexpoint.engine.supervisor import Supervisor
    from chexpoint.engine.timeline import Item, Pass, Way
    from chexpoint.engine.variable_contents import load_contents, load_from_image
    from chexpoint.engine.variable_reads import CellUses, read_uses
    from chexpoint.engine.wire import Channel

_HOME = {
    "variable_contents": (
        "load_contents",
        "load_from_image",
    ),
    "asks": ("Ask", "CellText", "Request"),
    "cell_files": ("cell_folder", "use_cell_folder"),
    "cells": ("body_of", "cell_of", "version_begun", "version_named"),
    "events": (
        "Asked",
        "Bound",
        "Chosen",
        "Drained",
        "Event",
        "FilesChecked",
        "Found",
        "Looked",
        "ShutdownAsked",
        "Submitted",
    ),
    "front": ("Front", "FrontEvent", "InputReply", "InterruptAsked"),
    "guest": ("Guest",),
    "header": ("header_of", "strip_header"),
    "headless": ("Engine", "ImagesWritten"),
    "journal": ("Journal", "Result", "Told"),
    "memory": ("MemoryLimits", "available_bytes", "cgroup_folders", "memory_limits"),
    "message": ("Codec", "Message", "execute_request"),
    "outputs": ("OutputCollector",),
    "proc": ("wait_for_end",),
    "serving": ("serve",),
    "settings": (
        "PERSIST_WORDS",
        "Settings",
        "default_budget",
        "persist_mode",
        "settings_from",
    ),
    "spawn": ("PLAIN", "Spawner"),
    "state": ("EngineState",),
    "supervisor": ("Supervisor",),
    "timeline": ("Item", "Pass", "Way"),
    "variable_reads": ("CellUses", "read_uses"),
    "wire": ("Channel",),
}


def __getattr__(name: str) -> "Any":
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(f"chexpoint.engine.{module}"), name)
    raise AttributeError(f"module 'chexpoint.engine' has no attribute '{name}'")


__all__ = [
    "PERSIST_WORDS",
    "PLAIN",
    "Ask",
    "Asked",
    "Bound",
    "CellText",
    "CellUses",
    "Channel",
    "Chosen",
    "Codec",
    "Drained",
    "Engine",
    "EngineState",
    "Event",
    "FilesChecked",
    "Found",
    "Front",
    "FrontEvent",
    "Guest",
    "ImagesWritten",
    "InputReply",
    "InterruptAsked",
    "Item",
    "Journal",
    "Looked",
    "MemoryLimits",
    "Message",
    "OutputCollector",
    "Pass",
    "Request",
    "Result",
    "Settings",
    "ShutdownAsked",
    "Spawner",
    "Submitted",
    "Supervisor",
    "Told",
    "Way",
    "available_bytes",
    "body_of",
    "cell_folder",
    "cell_of",
    "cgroup_folders",
    "default_budget",
    "execute_request",
    "header_of",
    "load_contents",
    "load_from_image",
    "memory_limits",
    "persist_mode",
    "read_uses",
    "serve",
    "settings_from",
    "strip_header",
    "use_cell_folder",
    "version_begun",
    "version_named",
    "wait_for_end",
]
