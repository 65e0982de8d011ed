"""Runs cells in a worker process whose state can be checkpointed and restored.

The interactive kernel and batch replay are two drivers of the same engine:
`Supervisor` with a front of their own, or `Engine`, which is a supervisor in
a process of its own.
"""

from chexpoint.engine.headless import Engine

__all__ = ["Engine"]
