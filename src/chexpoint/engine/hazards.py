"""What speaks against forking the live process now.

A checkpoint that might be wrong is not taken.  Each check returns hazards: what
it found, by name, and what the user can do about it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable

from chexpoint.engine import proc
from chexpoint.engine.descriptors import Descriptor
from chexpoint.engine.pools import loky_executor, resource_trackers
from chexpoint.engine.shared_memory import is_private_to_us
from chexpoint.engine.threads import python_thread_hazards
from chexpoint.model import Hazard

_HARMLESS_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_TERMINALS = ("/dev/tty", "/dev/pts/", "/dev/ptmx", "/dev/console")
# Kernel objects whose state both timelines would share and that cannot be copied.
_SHARED_OBJECTS = {
    "eventfd": "an eventfd",
    "timerfd": "a timerfd",
    "inotify": "an inotify watch",
    "fanotify": "a fanotify watch",
    "signalfd": "a signalfd",
    "io_uring": "an io_uring",
    "userfaultfd": "a userfaultfd",
    "perf_event": "a perf event",
}


def find_hazards(shared: list[proc.Mapping], descriptors: Iterable[Descriptor]) -> list[Hazard]:
    """Return everything that can be seen before the fork; ``shared`` are shared mappings."""
    return [
        *python_thread_hazards(),
        *child_hazards(),
        *shared_memory_hazards(shared),
        *descriptor_hazards(descriptors),
        *library_hazards(),
    ]


def helper_processes() -> set[int]:
    """Return children that libraries keep for themselves and start again when they are missing."""
    pids = {tracker._pid for tracker in resource_trackers()}
    executor = loky_executor()
    if executor is not None and not executor._pending_work_items:
        pids.update(executor._processes or {})
    return pids


def child_hazards() -> list[Hazard]:
    found = []
    helpers = helper_processes()
    for pid in proc.children(os.getpid()):
        if pid in helpers:
            continue
        if proc.state_letter(pid) == "Z":
            what, advice = f"child process {pid} has ended", "collect it: call its wait()"
        else:
            what = f"child process {pid} ({proc.command_line(pid)}) is running"
            advice = "it belongs to one timeline only; end it or wait for it first"
        found.append(Hazard(kind="children", what=what, advice=advice))
    return found


def shared_memory_hazards(shared: list[proc.Mapping]) -> list[Hazard]:
    paths = {m.path for m in shared if not is_private_to_us(m)}
    found = []
    for path in sorted(paths):
        kind = "shared-memory"
        if path.startswith("/dev/") and not path.startswith("/dev/shm/"):
            kind = "device"
            what, advice = f"device memory {path} is mapped", "devices cannot be forked"
        elif path.endswith("-shm"):
            what = f"the SQLite database {path.removesuffix('-shm')} is open in WAL mode"
            advice = "close the connection first"
        else:
            what = f"{path} is mapped for writing"
            advice = "shared memory or a memory-mapped file; close it or map it read-only"
        found.append(Hazard(kind=kind, what=what, advice=advice))
    return found


def descriptor_hazards(descriptors: Iterable[Descriptor]) -> list[Hazard]:
    found = []
    for descriptor in descriptors:
        target = descriptor.target.removesuffix(" (deleted)")
        if target.endswith(("-journal", "-wal")):
            database = target.rpartition("-")[0]
            what = f"the SQLite database {database} has an open transaction"
            found.append(Hazard(kind="sqlite", what=what, advice="commit or close it first"))
        elif _is_device(target):
            what = f"device {target} is open"
            found.append(Hazard(kind="device", what=what, advice="devices cannot be forked"))
        elif target.startswith("anon_inode:"):
            kind = target.removeprefix("anon_inode:").strip("[]")
            if kind in _SHARED_OBJECTS:
                what = f"{_SHARED_OBJECTS[kind]} is open (descriptor {descriptor.fd})"
                advice = "both timelines would share it; close it first"
                found.append(Hazard(kind="descriptor", what=what, advice=advice))
    return found


def _is_device(target: str) -> bool:
    if not target.startswith("/dev/") or target.startswith("/dev/shm/"):
        return False
    return target not in _HARMLESS_DEVICES and not target.startswith(_TERMINALS)


def library_hazards() -> list[Hazard]:
    found = []
    numba = sys.modules.get("numba")
    if numba is not None:
        layer = ""
        with contextlib.suppress(Exception):  # no layer chosen yet, or a numba still importing
            layer = numba.threading_layer()
        if layer == "omp":
            found.append(
                Hazard(
                    kind="library",
                    what="numba uses its OpenMP threading layer",
                    advice="it ends a forked process on purpose;"
                    " set NUMBA_THREADING_LAYER=workqueue before numba is imported",
                )
            )
    return found
