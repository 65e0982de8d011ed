"""``chex doctor`` on the machine at hand and on restricted ones."""

from __future__ import annotations

import errno
import json
from dataclasses import dataclass, field

import pytest

from chexpoint.cli import main
from chexpoint.cli.capabilities import PROBES, Capability, examine
from chexpoint.cli.doctor import exit_code, render
from chexpoint.cli.machine import ThisMachine

GB = 1024**3

FILES = {
    "/proc/self/smaps_rollup": "Rss: 1 kB\n",
    "/proc/meminfo": "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n",
    "/proc/self/cgroup": "0::/user.slice\n",
    "/proc/self/maps": "00400000-00452000 r-xp 00000000 08:02 173521 /usr/bin/python\n",
    "/proc/sys/vm/overcommit_memory": "0\n",
    "/proc/thread-self/children": "",
    "/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
}


@dataclass
class FakeMachine:
    """A machine made of files and answers; whatever is in ``forbidden`` raises."""

    files: dict[str, str] = field(default_factory=lambda: dict(FILES))
    forbidden: frozenset[str] = frozenset()
    openmp: dict[str, bool] = field(default_factory=dict)
    libraries: frozenset[str] = frozenset()
    modules: frozenset[str] = frozenset({"debugpy", "numba"})
    nproc: int | None = None
    spec: str | None = "/prefix/share/jupyter/kernels/chex"
    fork_exit_code: int = 0
    filter_gives_up: bool = False

    def read_text(self, path: str) -> str:
        if path not in self.files:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return self.files[path]

    def fork_child(self) -> int:
        self._check("fork", errno.EAGAIN)
        return self.fork_exit_code

    def process_limit(self) -> int | None:
        return self.nproc

    def make_memfd(self) -> None:
        self._check("memfd", errno.ENOSYS)

    def become_subreaper(self) -> None:
        self._check("prctl", errno.EPERM)

    def openmp_libraries(self) -> dict[str, bool]:
        self._check("libraries", errno.EACCES)
        return self.openmp

    def has_library(self, name: str) -> bool:
        return name in self.libraries

    def has_module(self, name: str) -> bool:
        return name in self.modules

    def kernel_spec(self) -> str | None:
        self._check("jupyter", errno.EACCES)
        return self.spec

    def try_filter(self) -> bool:
        self._check("try_filter", errno.EBUSY)
        return self.filter_gives_up

    def _check(self, what: str, code: int) -> None:
        if what in self.forbidden:
            raise OSError(code, "forbidden here")


def found(machine: FakeMachine, name: str) -> Capability:
    """Return what the probes find about one capability."""
    (capability,) = [c for c in examine(machine) if c.name == name]
    return capability


def test_an_ordinary_machine_has_everything_but_a_gpu() -> None:
    states = {c.name: c.state for c in examine(FakeMachine())}
    assert states.pop("GPU") == "off"
    assert set(states.values()) == {"ok"}


def test_what_is_not_ok_comes_with_its_meaning() -> None:
    machine = FakeMachine(
        files={},
        forbidden=frozenset({"fork", "memfd", "prctl", "jupyter", "try_filter"}),
        modules=frozenset(),
    )
    capabilities = examine(machine)
    assert len(capabilities) == len(PROBES)
    assert "ok" not in {c.state for c in capabilities if c.name not in QUIET}
    assert all(c.detail for c in capabilities)


QUIET = {"process limit", "OpenMP repair"}
"""Capabilities that are fine where nothing can be read."""


def test_fork_forbidden_names_the_reason() -> None:
    capability = found(FakeMachine(forbidden=frozenset({"fork"})), "fork")
    assert capability.state == "off"
    assert "forbidden here" in capability.detail
    assert "without checkpoints" in capability.detail


@pytest.mark.parametrize(
    ("machine", "code"),
    [
        (FakeMachine(), 0),
        (FakeMachine(forbidden=frozenset({"fork"})), 1),
        (FakeMachine(forbidden=frozenset({"prctl"})), 1),
        (FakeMachine(forbidden=frozenset({"memfd", "jupyter"})), 0),
        (FakeMachine(files={}), 1),
    ],
    ids=["ordinary", "no fork", "no subreaper", "no memfd", "no /proc"],
)
def test_exit_code_tells_whether_checkpoints_are_possible(machine: FakeMachine, code: int) -> None:
    assert exit_code(examine(machine)) == code


def test_fork_whose_child_is_killed_is_off() -> None:
    assert found(FakeMachine(fork_exit_code=-9), "fork").state == "off"


@pytest.mark.parametrize(
    ("nproc", "pids", "state", "words"),
    [
        (None, "max", "ok", "none"),
        (4096, "max", "ok", "4096"),
        (4096, "64", "limited", "64"),
        (32, "max", "limited", "32"),
    ],
)
def test_the_lowest_process_limit_counts(
    nproc: int | None, pids: str, state: str, words: str
) -> None:
    files = {**FILES, "/sys/fs/cgroup/user.slice/pids.max": pids}
    capability = found(FakeMachine(files=files, nproc=nproc), "process limit")
    assert capability.state == state
    assert words in capability.detail


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({}, "8.0 GB; half of it, 4.0 GB"),
        (
            {
                "/sys/fs/cgroup/user.slice/memory.max": str(4 * GB),
                "/sys/fs/cgroup/user.slice/memory.current": str(3 * GB),
                "/sys/fs/cgroup/user.slice/memory.stat": f"anon 1\ninactive_file {GB}\n",
            },
            "2.0 GB (limited by the container); half of it, 1.0 GB",
        ),
        (
            {
                "/sys/fs/cgroup/memory.max": str(2 * GB),
                "/sys/fs/cgroup/memory.current": "0",
                "/sys/fs/cgroup/memory.stat": "",
            },
            "2.0 GB (limited by the container)",
        ),
        (
            {
                "/proc/self/cgroup": "4:cpu,memory:/docker/abc\n",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes": str(2 * GB),
                "/sys/fs/cgroup/memory/memory.usage_in_bytes": str(GB),
                "/sys/fs/cgroup/memory/memory.stat": "total_inactive_file 0\n",
            },
            "1.0 GB (limited by the container)",
        ),
        (
            {
                "/proc/self/cgroup": "4:memory:/\n",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
                "/sys/fs/cgroup/memory/memory.usage_in_bytes": "1",
                "/sys/fs/cgroup/memory/memory.stat": "",
            },
            "8.0 GB; half of it",
        ),
        (
            {
                "/sys/fs/cgroup/user.slice/memory.max": "max",
                "/sys/fs/cgroup/user.slice/memory.current": "1",
                "/sys/fs/cgroup/user.slice/memory.stat": "",
            },
            "8.0 GB; half of it",
        ),
    ],
)
def test_available_memory_respects_control_groups(extra: dict[str, str], words: str) -> None:
    assert words in found(FakeMachine(files={**FILES, **extra}), "available memory").detail


def test_hidden_memory_asks_for_a_budget() -> None:
    capability = found(FakeMachine(files={}), "available memory")
    assert capability.state == "limited"
    assert "%chex_budget" in capability.advice


def test_strict_overcommit_is_limited() -> None:
    files = {**FILES, "/proc/sys/vm/overcommit_memory": "2\n"}
    assert found(FakeMachine(files=files), "overcommit").state == "limited"


def test_huge_pages_never_is_limited() -> None:
    files = {**FILES, "/sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]\n"}
    assert found(FakeMachine(files=files), "huge pages").state == "limited"


@pytest.mark.parametrize(
    ("libraries", "state", "words"),
    [
        ({}, "ok", "not needed yet"),
        ({"libgomp.so.1": True}, "ok", "1 libgomp"),
        ({"a": True, "b": True}, "ok", "2 copies"),
        ({"libgomp.so.1": True, "/old/libgomp.so.1": False}, "limited", "/old/libgomp.so.1"),
    ],
)
def test_openmp(libraries: dict[str, bool], state: str, words: str) -> None:
    capability = found(FakeMachine(openmp=libraries), "OpenMP repair")
    assert capability.state == state
    assert words in capability.detail


@pytest.mark.parametrize(
    ("machine", "state", "words"),
    [
        (FakeMachine(), "ok", "every file"),
        (FakeMachine(filter_gives_up=True), "ok", "sudo"),
        (FakeMachine(forbidden=frozenset({"try_filter"})), "limited", "incomplete"),
    ],
)
def test_audit(machine: FakeMachine, state: str, words: str) -> None:
    capability = found(machine, "system-call audit")
    assert capability.state == state
    assert words in capability.detail


@pytest.mark.parametrize(
    ("libraries", "modules", "state"),
    [
        (set(), set(), "off"),
        ({"libcuda.so.1"}, set(), "limited"),
        ({"libcuda.so.1"}, {"cupy"}, "ok"),
    ],
)
def test_gpu(libraries: set[str], modules: set[str], state: str) -> None:
    machine = FakeMachine(libraries=frozenset(libraries), modules=frozenset(modules))
    assert found(machine, "GPU").state == state


def test_de_duplication_works_without_numba_but_more_slowly() -> None:
    capability = found(FakeMachine(modules=frozenset()), "de-duplication")
    assert (capability.state, capability.advice) == ("limited", "pip install 'chexpoint[jit]'")


def test_missing_kernel_spec_says_how_to_install_it() -> None:
    assert found(FakeMachine(spec=None), "kernel spec").advice == "chex install"


def test_each_capability_is_one_line() -> None:
    capabilities = examine(FakeMachine(files={}))
    lines = render(capabilities)
    assert len(lines) == len(capabilities)
    assert all("\n" not in line.plain for line in lines)


def test_this_machine_is_examined_without_harm() -> None:
    assert [capability.name for capability in examine(ThisMachine())] == list(PROBES)


def test_a_probe_that_fails_does_not_stop_the_others() -> None:
    machine = FakeMachine(forbidden=frozenset({"libraries"}))
    assert [capability.name for capability in examine(machine)] == list(PROBES)
    assert "could not be examined (forbidden here)" in found(machine, "OpenMP repair").detail


def test_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["doctor", "--json"])
    capabilities = json.loads(capsys.readouterr().out)["capabilities"]
    assert {c["state"] for c in capabilities} <= {"ok", "limited", "off"}
    assert code == 0


def test_text_has_one_line_for_each_probe(capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor"])
    assert len(capsys.readouterr().out.splitlines()) == len(PROBES)
