"""Threads: a fork keeps only the one that forks.

Three kinds are told apart.  Idle pools that can start their threads again are
*repaired* after the fork (`repairs`).  Pools whose library does that by itself
are *known good*.  Everything else is a hazard, named after its library: the
library of a native thread is found by scanning the thread's stack for return
addresses.
"""

from __future__ import annotations

import bisect
import collections
import concurrent.futures.thread as pool
import contextlib
import os
import platform
import struct
import threading
import time
from collections.abc import Iterable
from typing import Any

from chexpoint.engine.pools import is_loky_manager
from chexpoint.engine.proc import list_unseen, mappings, open_unseen, read_maps
from chexpoint.model import Hazard

# Shared objects on every stack, which say nothing about whose thread it is.
_SYSTEM = ("libc.so", "libc-", "libpthread")
_LANGUAGE = ("ld-linux", "libstdc++", "libm.", "libm-", "libgcc", "[vdso]", "libpython", "python")
# Parts of libc that have no code of their own any more, but are still mapped.
_STUBS = ("libdl.", "librt.", "libutil.")
_RUNTIME = (*_SYSTEM, *_LANGUAGE, *_STUBS)
# Libraries that start their threads again in a forked process; each has a test
# that uses it before and after a restore.
_KNOWN_GOOD = ("libarrow", "workqueue.", "interpreter.cpython", "pypocketfft.")
# Pools that are stopped just before a fork, by themselves or by `repairs`.
_STOPPED_BY_FORK = ("openblas", "libgomp", "libomp", "libiomp5")
_STACK_BYTES = 64 * 1024
FLUSHER = "chex-flusher"
# Threads found to belong to a known good library, so that it is looked up once.
_seen_good: set[tuple[int, str]] = set()
# How long threads may take to end that were joined just now; those of Python itself are nearly
# always such, and on a busy machine they take their time.
_EXIT_S, _PYTHON_EXIT_S = 0.1, 1.0
_PYTHON = ("python", "libpython")


def idle_executor(thread: threading.Thread) -> Any | None:
    """Return the ThreadPoolExecutor a thread belongs to, if all of that is idle."""
    if thread not in pool._threads_queues:
        return None
    args = getattr(thread, "_args", ())
    executor = args[0]() if args and callable(args[0]) else None
    if executor is None:
        return None
    # A thread that has just delivered its result is about to declare itself idle.
    deadline = time.monotonic() + 0.05
    while time.monotonic() < deadline:
        if executor._work_queue.empty() and executor._idle_semaphore._value >= len(
            executor._threads
        ):
            return executor
        time.sleep(0.0005)
    return None


def repairable(thread: threading.Thread) -> bool:
    """Return whether the thread is missed by nobody, or can be started again."""
    return (
        thread.name == FLUSHER  # ours, which is ended before a fork
        or type(thread).__name__ == "TMonitor"  # tqdm's, which only refreshes slow bars
        or idle_executor(thread) is not None
        or is_loky_manager(thread)
    )


def python_thread_hazards() -> list[Hazard]:
    """Return one hazard for each Python thread that a restored state would lack."""
    return [
        Hazard(
            kind="threads",
            what=f"thread '{thread.name}' is running",
            advice="it would not run in the restored state; join it first",
        )
        for thread in threading.enumerate()
        if thread is not threading.main_thread() and not repairable(thread)
    ]


def native_thread_hazards() -> list[Hazard]:
    """Return hazards for threads of native libraries.

    To be called in the parent right after the fork: pools that stop their
    threads before a fork and start them again later (OpenBLAS) are gone by then.
    """
    started = time.monotonic()
    while found := _count_native_threads():
        is_python = all(owner.startswith(_PYTHON) for owner in found)
        if time.monotonic() > started + (_PYTHON_EXIT_S if is_python else _EXIT_S):
            break
        time.sleep(0.001)
    return [
        Hazard(
            kind="native-threads",
            what=f"{_library(name)} runs {count} thread{'s' if count > 1 else ''} of its own",
            advice="it would wait for them for ever in the restored state",
        )
        for name, count in found.items()
    ]


def suspect_threads() -> list[Hazard]:
    """Return hazards for native threads as seen before a fork, for whoever refuses anyway."""
    found = native_thread_hazards()
    return [h for h in found if not any(word in h.what for word in _STOPPED_BY_FORK)]


def _count_native_threads() -> dict[str, int]:
    """Return how many threads each library has that is not known to be safe."""
    python = {os.getpid(), *(t.native_id for t in threading.enumerate())}
    try:
        native = [t for t in map(int, list_unseen("/proc/self/task")) if t not in python]
    except OSError:
        return {}
    births = {thread: _birth(thread) for thread in native}
    unknown = [t for t in native if (t, births[t]) not in _seen_good]
    found: collections.Counter[str] = collections.Counter()
    for thread, owner in _thread_owners(unknown).items() if unknown else ():
        if owner.startswith(_KNOWN_GOOD):
            _seen_good.add((thread, births[thread]))
        else:
            found[owner] += 1
    return dict(found)


def _birth(thread: int) -> str:
    """Return when a thread was started: thread ids are used again."""
    try:
        with open(open_unseen(f"/proc/self/task/{thread}/stat")) as file:
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _library(shared_object: str) -> str:
    for part, name in (
        ("polars", "polars"),
        ("torch", "torch"),
        ("c10", "torch"),
        ("duckdb", "duckdb"),
        ("libgomp", "OpenMP (libgomp)"),
        ("libomp", "OpenMP (libomp)"),
        ("iomp", "OpenMP (libiomp5)"),
        ("mkl", "MKL"),
        ("tbb", "TBB"),
        ("libzmq", "zmq"),
        ("xgboost", "xgboost"),
        ("lightgbm", "lightgbm"),
        ("tensorflow", "tensorflow"),
        ("xla_extension", "jax"),
        ("libcuda", "CUDA"),
        ("grpc", "grpc"),
    ):
        if part in shared_object.lower():
            return name
    return shared_object


def _thread_owners(threads: Iterable[int]) -> dict[int, str]:
    code = sorted(
        (m.start, m.end, m.path) for m in mappings(read_maps()) if m.is_executable and m.path
    )
    starts = [start for start, _, _ in code]
    owners = {}
    try:
        memory = open_unseen("/proc/self/mem")
    except OSError:
        return dict.fromkeys(threads, "a native library")
    try:
        for thread in threads:
            try:
                with open(open_unseen(f"/proc/self/task/{thread}/comm")) as file:
                    comm = file.read().strip()
            except OSError:
                continue  # it has ended
            owner = _thread_owner(thread, memory, code, starts)
            owners[thread] = owner or f"a native library ('{comm}')"
    finally:
        os.close(memory)
    return owners


def _thread_owner(
    thread: int, memory: int, code: list[tuple[int, int, str]], starts: list[int]
) -> str:
    """Return the library whose function a thread was started with, or an empty string.

    Stacks are used again, so there are traces of earlier threads on them.  But the outermost
    frames are always the system's, and the one above them is the thread's own function.  Addresses
    of functions, which thread-local storage is full of, are no frames: nothing was called there.
    """
    names = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open(open_unseen(f"/proc/self/task/{thread}/syscall")) as file:
            stack_pointer = int(file.read().split()[-2], 16)  # fails for one that is running
        stack = os.pread(memory, _STACK_BYTES, stack_pointer)
        for (value,) in struct.iter_unpack("<Q", stack[: len(stack) // 8 * 8]):
            at = bisect.bisect_right(starts, value) - 1
            if at >= 0 and value < code[at][1] and _follows_call(memory, value):
                names.append(os.path.basename(code[at][2]))
    while names and not names[-1].startswith(_SYSTEM):
        names.pop()  # beyond the frames lies thread-local storage
    return next((name for name in reversed(names) if not name.startswith(_RUNTIME)), "")


def _follows_call(memory: int, address: int) -> bool:
    """Return whether the instruction before an address is a call, so that one may return there."""
    before = os.pread(memory, 7, address - 7)
    match platform.machine():
        case "x86_64":
            # Direct; or through a register or memory, whose address takes up to five more bytes.
            is_indirect = (
                before[-n] == 0xFF and before[1 - n] >> 3 & 7 == 2 for n in (2, 3, 4, 6, 7)
            )
            return before[-5] == 0xE8 or any(is_indirect)
        case "aarch64":
            (word,) = struct.unpack("<I", before[-4:])
            return bool(word >> 26 == 0x25 or word & 0xFFFFFC1F == 0xD63F0000)
        case _:
            return True
