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

    from chexpoint.engine.cell_files import cell_folder, use_cell_folder
    from chexpoint.engine.cells import body_of, cell_of, version_begun, version_named
    from chexpoint.engine.events import (
        Ask,
        Asked,
        CellText,
        Event,
        FilesChecked,
        Found,
        Looked,
        Request,
        ShutdownAsked,
        Submitted,
    )
    from chexpoint.engine.front import Front, FrontEvent, InputReply, InterruptAsked
    from chexpoint.engine.header import header_of, strip_header
    from chexpoint.engine.headless import Engine
    from chexpoint.engine.journal import Journal, Result, Told
    from chexpoint.engine.memory import MemoryLimits, cgroup_folders, memory_limits
    from chexpoint.engine.message import Codec, Message, execute_request
    from chexpoint.engine.outputs import OutputCollector
    from chexpoint.engine.settings import Settings, auto_mode, default_budget, settings_from
    from chexpoint.engine.spawn import PLAIN, Spawner
    from chexpoint.engine.state import EngineState
    from chexpoint.engine.supervisor import Supervisor
    from chexpoint.engine.wire import Channel

_HOME = {
    "cell_files": ("cell_folder", "use_cell_folder"),
    "cells": ("body_of", "cell_of", "version_begun", "version_named"),
    "events": (
        "Ask",
        "Asked",
        "CellText",
        "Event",
        "FilesChecked",
        "Found",
        "Looked",
        "Request",
        "ShutdownAsked",
        "Submitted",
    ),
    "front": ("Front", "FrontEvent", "InputReply", "InterruptAsked"),
    "header": ("header_of", "strip_header"),
    "headless": ("Engine",),
    "journal": ("Journal", "Result", "Told"),
    "memory": ("MemoryLimits", "cgroup_folders", "memory_limits"),
    "message": ("Codec", "Message", "execute_request"),
    "outputs": ("OutputCollector",),
    "settings": ("Settings", "auto_mode", "default_budget", "settings_from"),
    "spawn": ("PLAIN", "Spawner"),
    "state": ("EngineState",),
    "supervisor": ("Supervisor",),
    "wire": ("Channel",),
}


def __getattr__(name: str) -> "Any":
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(f"chexpoint.engine.{module}"), name)
    raise AttributeError(f"module 'chexpoint.engine' has no attribute '{name}'")


__all__ = [
    "PLAIN",
    "Ask",
    "Asked",
    "CellText",
    "Channel",
    "Codec",
    "Engine",
    "EngineState",
    "Event",
    "FilesChecked",
    "Found",
    "Front",
    "FrontEvent",
    "InputReply",
    "InterruptAsked",
    "Journal",
    "Looked",
    "MemoryLimits",
    "Message",
    "OutputCollector",
    "Request",
    "Result",
    "Settings",
    "ShutdownAsked",
    "Spawner",
    "Submitted",
    "Supervisor",
    "Told",
    "auto_mode",
    "body_of",
    "cell_folder",
    "cell_of",
    "cgroup_folders",
    "default_budget",
    "execute_request",
    "header_of",
    "memory_limits",
    "settings_from",
    "strip_header",
    "use_cell_folder",
    "version_begun",
    "version_named",
]
