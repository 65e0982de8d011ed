"""What this machine lets CHEX do: one probe per capability.

A probe is a pure function of a `Machine`.  What the system hides or forbids is itself a finding,
so no machine is too restricted to be examined.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from chexpoint.engine import MemoryLimits, cgroup_folders, memory_limits
from chexpoint.model import format_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from chexpoint.cli.machine import Machine

State = Literal["ok", "limited", "off"]

FEW_PROCESSES = 256
"""Below this many allowed processes, checkpoints soon compete with the user's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """One thing a machine can or cannot do for CHEX."""

    name: str
    state: State
    detail: str
    """What was found, and what it means."""
    advice: str = ""
    """How to turn it on, where there is anything to turn on."""
    essential: bool = False
    """Whether no checkpoint can be taken without it."""


def probe_fork(machine: Machine) -> Capability:
    """Fork and reap a child, which is what a checkpoint is."""
    start = time.perf_counter()
    try:
        exit_code = machine.fork_child()
    except OSError as error:
        return Capability(
            name="fork",
            state="off",
            detail=f"no child process could be started ({_reason(error)}): the kernel runs, "
            "without checkpoints",
            advice="raise the limits on processes and memory (ulimit -u, the container's pids "
            "limit)",
            essential=True,
        )
    if exit_code != 0:
        return Capability(
            name="fork",
            state="off",
            detail=f"a forked child ended with code {exit_code}: the kernel runs, without "
            "checkpoints",
            advice="ask what kills processes on this machine",
            essential=True,
        )
    elapsed_ms = (time.perf_counter() - start) * 1000
    return Capability(
        name="fork",
        state="ok",
        detail=f"a child was forked and reaped in {elapsed_ms:.1f} ms",
        essential=True,
    )


def probe_process_limit(machine: Machine) -> Capability:
    """Find how many processes are allowed; each held checkpoint is one."""
    allowed = [
        limit for limit in (machine.process_limit(), _pids_max(machine)) if limit is not None
    ]
    if not allowed:
        return Capability(name="process limit", state="ok", detail="none")
    lowest = min(allowed)
    detail = f"at most {lowest} processes; each held checkpoint is one"
    if lowest >= FEW_PROCESSES:
        return Capability(name="process limit", state="ok", detail=detail)
    return Capability(
        name="process limit",
        state="limited",
        detail=detail,
        advice="raise it with ulimit -u, or the pids limit of the container",
    )


def probe_memory_accounting(machine: Machine) -> Capability:
    """Check that the memory of a checkpoint can be measured."""
    try:
        machine.read_text("/proc/self/smaps_rollup")
    except OSError as error:
        return Capability(
            name="memory accounting",
            state="limited",
            detail=f"/proc/self/smaps_rollup cannot be read ({_reason(error)}): sizes of "
            "checkpoints are estimates",
            advice="mount /proc in the container; Linux 4.14 or newer is needed",
        )
    return Capability(
        name="memory accounting",
        state="ok",
        detail="the memory each checkpoint holds is measured",
    )


def probe_available_memory(machine: Machine) -> Capability:
    """Find how much memory is available, and so the default budget."""
    limits = memory_limits(machine.read_text)
    if limits.available_bytes is None:
        return Capability(
            name="available memory",
            state="limited",
            detail="it cannot be read, so the default budget is a cautious guess",
            advice="set one in the notebook, for example %chex_budget 4G",
        )
    return Capability(
        name="available memory",
        state="ok",
        detail=f"{format_size(limits.available_bytes)}{_limited_by(limits)}; half of it, "
        f"{format_size(limits.available_bytes // 2)}, is the default budget for checkpoints",
    )


def probe_overcommit(machine: Machine) -> Capability:
    """Check that fork does not have to reserve the memory of the whole process again."""
    name = "overcommit"
    try:
        mode = machine.read_text("/proc/sys/vm/overcommit_memory").strip()
    except OSError as error:
        return Capability(
            name=name,
            state="limited",
            detail=f"vm.overcommit_memory cannot be read ({_reason(error)})",
        )
    if mode == "2":
        return Capability(
            name=name,
            state="limited",
            detail="vm.overcommit_memory is 2: each checkpoint reserves its whole size, so few fit",
            advice="sysctl vm.overcommit_memory=0",
        )
    return Capability(
        name=name, state="ok", detail=f"vm.overcommit_memory is {mode}: forks share memory"
    )


def probe_huge_pages(machine: Machine) -> Capability:
    """Check for transparent huge pages, which make forks of large arrays fast."""
    name = "huge pages"
    path = "/sys/kernel/mm/transparent_hugepage/enabled"
    try:
        text = machine.read_text(path)
    except OSError as error:
        return Capability(
            name=name,
            state="limited",
            detail=f"{path} cannot be read ({_reason(error)}): whether checkpoints of large "
            "arrays are fast is unknown",
        )
    chosen = re.search(r"\[(\w+)\]", text)
    mode = chosen[1] if chosen else text.strip()
    if mode in {"always", "madvise"}:
        return Capability(
            name=name, state="ok", detail=f"{mode}: checkpoints of large NumPy arrays are fast"
        )
    return Capability(
        name=name,
        state="limited",
        detail=f"{mode}: a checkpoint takes longer, some 15 ms more for each GB",
        advice=f"echo madvise > {path} (as root)",
    )


def probe_openmp(machine: Machine) -> Capability:
    """Check that OpenMP thread pools can be put away before a fork."""
    name = "OpenMP repair"
    libraries = machine.openmp_libraries()
    if not libraries:
        return Capability(name=name, state="ok", detail="not needed yet: no libgomp is installed")
    too_old = sorted(path for path, can_pause in libraries.items() if not can_pause)
    if too_old:
        return Capability(
            name=name,
            state="limited",
            detail=f"{too_old[0]} has no omp_pause_resource_all: checkpoints are refused once it "
            "has started threads",
            advice="install a libgomp of GCC 9 or newer, or set OMP_NUM_THREADS=1",
        )
    count = len(libraries)
    found = "1 libgomp" if count == 1 else f"{count} copies of libgomp"
    return Capability(
        name=name, state="ok", detail=f"{found} found, whose threads can be paused around a fork"
    )


def probe_hazards(machine: Machine) -> Capability:
    """Check that what would make a checkpoint wrong can be seen."""
    name = "hazard detection"
    try:
        machine.read_text("/proc/self/maps")
    except OSError as error:
        return Capability(
            name=name,
            state="off",
            detail=f"/proc/self cannot be read ({_reason(error)}): what would make a checkpoint "
            "wrong cannot be seen, so none is taken",
            advice="mount /proc in the container",
            essential=True,
        )
    return Capability(
        name=name,
        state="ok",
        detail="threads, shared memory and open devices are seen before a checkpoint",
        essential=True,
    )


def probe_children(machine: Machine) -> Capability:
    """Check that child processes of a cell can be seen."""
    name = "child processes"
    try:
        machine.read_text("/proc/thread-self/children")
    except OSError as error:
        return Capability(
            name=name,
            state="limited",
            detail=f"/proc/PID/task/TID/children cannot be read ({_reason(error)}): running "
            "children of a cell are not seen before a checkpoint",
            advice="a system built with CONFIG_PROC_CHILDREN is needed",
        )
    return Capability(
        name=name, state="ok", detail="running children of a cell are seen before a checkpoint"
    )


def probe_memfd(machine: Machine) -> Capability:
    """Check for files in memory, which carry large messages between the processes."""
    name = "memfd"
    try:
        machine.make_memfd()
    except OSError as error:
        return Capability(
            name=name,
            state="off",
            detail=f"memfd_create failed ({_reason(error)}): outputs too large for one packet "
            "cannot be passed on",
            advice="allow memfd_create in the seccomp profile of the container",
        )
    return Capability(name=name, state="ok", detail="large outputs are passed on in memory")


def probe_subreaper(machine: Machine) -> Capability:
    """Check that the supervisor can adopt checkpoints and the processes of a dead worker."""
    name = "subreaper"
    try:
        machine.become_subreaper()
    except OSError as error:
        return Capability(
            name=name,
            state="off",
            detail=f"prctl was refused ({_reason(error)}): no checkpoint is taken, because nobody "
            "could adopt it",
            advice="allow prctl in the seccomp profile of the container",
            essential=True,
        )
    return Capability(
        name=name,
        state="ok",
        detail="checkpoints, and processes of a dead worker, are adopted and ended",
        essential=True,
    )


def probe_audit(machine: Machine) -> Capability:
    """Try whether system calls can be audited, which is how inputs of cells are seen."""
    name = "system-call audit"
    try:
        gave_up = machine.try_filter()
    except OSError as error:
        return Capability(
            name=name,
            state="limited",
            detail=f"system calls cannot be audited here ({_reason(error)}): what child processes "
            "and C libraries read is not seen, and such cells are marked incomplete",
            advice="Linux 5.9 or newer is needed, not nested in another audited kernel; in a "
            "container, allow the seccomp system call",
        )
    if gave_up:
        return Capability(
            name=name,
            state="ok",
            detail="every file that a cell reads is seen; programs that need extra rights (sudo, "
            "ping, rootless containers) do not get them in cells",
            advice="set CHEX_AUDIT=hook, if your cells need such programs",
        )
    return Capability(
        name=name, state="ok", detail="every file that a cell reads is seen, whoever reads it"
    )


def probe_debugger(machine: Machine) -> Capability:
    """Check for the debugger that front ends attach to."""
    if machine.has_module("debugpy"):
        return Capability(name="debugger", state="ok", detail="debugpy is installed")
    return Capability(
        name="debugger",
        state="off",
        detail="debugpy is not installed: front ends cannot debug cells",
        advice="pip install debugpy",
    )


def probe_gpu(machine: Machine) -> Capability:
    """Check for a CUDA driver and CuPy."""
    note = "a process that has opened the GPU is never forked"
    if not machine.has_library("libcuda.so.1"):
        return Capability(
            name="GPU",
            state="off",
            detail=f"no CUDA driver (libcuda.so.1); {note}",
            advice="install the NVIDIA driver, if this machine has such a GPU",
        )
    if not machine.has_module("cupy"):
        return Capability(
            name="GPU",
            state="limited",
            detail=f"a CUDA driver, but no CuPy; {note}",
            advice="pip install 'chexpoint[gpu]'",
        )
    return Capability(
        name="GPU",
        state="ok",
        detail=f"CUDA driver and CuPy found; {note}, but its arrays are kept in images",
    )


def probe_hashing(machine: Machine) -> Capability:
    """Check for what makes de-duplication as fast as memory."""
    if machine.has_module("numba"):
        return Capability(
            name="de-duplication",
            state="ok",
            detail="numba found: large arrays are looked at by compiled code",
        )
    return Capability(
        name="de-duplication",
        state="limited",
        detail="no numba: arrays that have changed all over are looked at more slowly",
        advice="pip install 'chexpoint[jit]'",
    )


def probe_kernel_spec(machine: Machine) -> Capability:
    """Check that Jupyter knows the CHEX kernel."""
    name = "kernel spec"
    try:
        path = machine.kernel_spec()
    except OSError as error:
        path, found = None, f"Jupyter's folders cannot be read ({_reason(error)})"
    else:
        found = "Jupyter does not know the CHEX kernel"
    if path is None:
        return Capability(name=name, state="off", detail=found, advice="chex install")
    return Capability(name=name, state="ok", detail=f"Jupyter finds the CHEX kernel in {path}")


PROBES: dict[str, Callable[[Machine], Capability]] = {
    "fork": probe_fork,
    "process limit": probe_process_limit,
    "memory accounting": probe_memory_accounting,
    "available memory": probe_available_memory,
    "overcommit": probe_overcommit,
    "huge pages": probe_huge_pages,
    "OpenMP repair": probe_openmp,
    "hazard detection": probe_hazards,
    "child processes": probe_children,
    "memfd": probe_memfd,
    "subreaper": probe_subreaper,
    "system-call audit": probe_audit,
    "debugger": probe_debugger,
    "de-duplication": probe_hashing,
    "GPU": probe_gpu,
    "kernel spec": probe_kernel_spec,
}
"""All probes, by the name of what they find."""


def examine(machine: Machine) -> tuple[Capability, ...]:
    """Return what every probe finds on ``machine``."""
    return tuple(_examine(name, probe, machine) for name, probe in PROBES.items())


def _examine(name: str, probe: Callable[[Machine], Capability], machine: Machine) -> Capability:
    try:
        return probe(machine)
    except OSError as error:
        return Capability(
            name=name, state="limited", detail=f"it could not be examined ({_reason(error)})"
        )


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


def _limited_by(limits: MemoryLimits) -> str:
    return " (limited by the container)" if limits.is_capped else ""


def _pids_max(machine: Machine) -> int | None:
    """Return the lowest limit on processes of the control groups this process is in."""
    lowest: int | None = None
    for folder in cgroup_folders(machine.read_text, controller="pids"):
        try:
            text = machine.read_text(f"{folder}/pids.max").strip()
        except OSError:
            continue
        if text.isdigit():
            lowest = int(text) if lowest is None else min(lowest, int(text))
    return lowest
