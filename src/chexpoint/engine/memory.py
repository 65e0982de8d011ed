"""How much memory is available, control groups of containers included.

Containers often show the memory of the whole machine in /proc/meminfo; what they may use is in
the control groups, version 1 or 2, of this process and of all groups above.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chexpoint.model import Bytes

    ReadText = Callable[[str], str]

Controller = Literal["memory", "pids"]

CGROUP_ROOT = "/sys/fs/cgroup"
NO_LIMIT = 2**60


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLimits:
    """What can still be allocated."""

    available_bytes: Bytes | None
    """``None`` where nothing could be read."""
    is_capped: bool
    """Whether a control group allows less than the machine has."""


def available_bytes() -> Bytes:
    """Return the memory available to this process, or a huge number where nobody knows."""
    available = memory_limits(_read_text).available_bytes
    return 2**62 if available is None else max(available, 0)


def _read_text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def memory_limits(read_text: ReadText) -> MemoryLimits:
    """Return the memory available to this process.

    Parameters
    ----------
    read_text
        Returns the contents of a file, or raises ``OSError``.
    """
    machine = _machine_available(read_text)
    group = min(_group_available(read_text), default=None)
    if machine is None or group is None:
        return MemoryLimits(
            available_bytes=machine if group is None else group, is_capped=group is not None
        )
    return MemoryLimits(available_bytes=min(machine, group), is_capped=group < machine)


def cgroup_folders(read_text: ReadText, *, controller: Controller) -> Iterator[str]:
    """Yield the control group folders that bind this process, innermost first.

    Inside a container the path in /proc/self/cgroup may be that of the host, which does not exist
    here; the walk up to the root passes the folder that does.
    """
    try:
        lines = read_text("/proc/self/cgroup").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            roots = [CGROUP_ROOT, f"{CGROUP_ROOT}/unified"]
        elif controller in controllers.split(","):
            roots = [f"{CGROUP_ROOT}/{controller}"]
        else:
            continue
        for root in roots:
            parts = [part for part in path.split("/") if part]
            for depth in range(len(parts), -1, -1):
                yield "/".join([root, *parts[:depth]])


def _machine_available(read_text: ReadText) -> Bytes | None:
    try:
        text = read_text("/proc/meminfo")
    except OSError:
        return None
    match = re.search(r"^MemAvailable:\s*(\d+) kB", text, re.MULTILINE)
    return int(match[1]) * 1024 if match else None


def _group_available(read_text: ReadText) -> Iterator[Bytes]:
    for folder in cgroup_folders(read_text, controller="memory"):
        for limit_file, usage_file in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            try:
                limit = read_text(f"{folder}/{limit_file}").strip()
                usage = int(read_text(f"{folder}/{usage_file}"))
                stat = read_text(f"{folder}/memory.stat")
            except (OSError, ValueError):
                continue
            # Version 1 writes "no limit" as a number of pages beyond any machine.
            if limit.isdigit() and int(limit) < NO_LIMIT:
                yield max(int(limit) - usage + _reclaimable(stat), 0)


def _reclaimable(stat: str) -> Bytes:
    """Return the page cache that a group is charged for but gives up when memory is needed."""
    match = re.search(r"^(?:total_)?inactive_file (\d+)$", stat, re.MULTILINE)
    return int(match[1]) if match else 0
