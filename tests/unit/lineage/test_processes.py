"""Processes by name, and what is read of their memory."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from chexpoint.lineage.processes import WORKER, Process, Processes, _import_folder

PAGE = 4096
LINE = b"\n"


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Return a function that starts a process which waits to be ended."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(code: str = "print(flush=True); input()") -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == LINE
        return process

    yield begin
    for process in started:
        with process:
            process.kill()


def under_this_process() -> Processes:
    processes = Processes()
    processes.set_worker(os.getpid())
    return processes


# ---------------------------------------------------------------- names


def test_the_worker_and_its_children_are_numbered(
    start: Callable[..., subprocess.Popen[bytes]],
) -> None:
    processes = under_this_process()
    one, two = start().pid, start().pid
    assert processes.add(os.getpid()).name == WORKER
    assert processes.add(two).name == "0.1"  # the first that does anything
    assert processes.add(one).name == "0.2"
    assert processes.find(two) is processes.add(two)


def test_a_grandchild_is_named_after_its_parent(
    start: Callable[..., subprocess.Popen[bytes]],
) -> None:
    code = "import os\npid = os.fork()\nif pid: print(flush=True)\ninput()"
    child = start(code)
    with open(f"/proc/{child.pid}/task/{child.pid}/children") as file:
        grandchild = int(file.read())
    processes = under_this_process()
    assert processes.add(child.pid).name == "0.1"
    assert processes.add(grandchild).name == "0.1.1"


def test_threads_belong_to_their_process(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    code = (
        "import threading\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "print(flush=True)\ninput()"
    )
    child = start(code)
    threads = sorted(int(name) for name in os.listdir(f"/proc/{child.pid}/task"))
    processes = under_this_process()
    assert len({id(processes.add(thread)) for thread in reversed(threads)}) == 1
    processes.set_worker(child.pid)
    assert [processes.add(thread).name for thread in threads] == [WORKER, WORKER]


def test_a_checkpoint_is_recognised_by_its_name(
    start: Callable[..., subprocess.Popen[bytes]],
) -> None:
    code = (
        "import ctypes\nctypes.CDLL(None).prctl(15, b'chex-checkpoint', 0, 0, 0)\n"
        "print(flush=True)\ninput()"
    )
    child = start(code)
    processes = under_this_process()
    assert processes.add(child.pid).is_ours
    assert processes.forget_dead() == []
    assert processes.find(child.pid) is not None


def test_a_process_that_has_gone_still_gets_a_name() -> None:
    child = subprocess.Popen(["/bin/true"])
    child.wait()
    assert under_this_process().add(child.pid).name == "0.1"


def test_the_dead_are_forgotten_and_the_living_are_told(
    start: Callable[..., subprocess.Popen[bytes]],
) -> None:
    processes = under_this_process()
    alive, dead = start(), start()
    processes.add(alive.pid)
    processes.add(dead.pid)
    dead.kill()
    os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)  # a zombie is dead
    (left,) = processes.forget_dead()
    assert left.pid == alive.pid
    assert processes.find(dead.pid) is None
    processes.restart_names([left])
    assert processes.add(start().pid).name == "0.3"
    processes.restart_names([])
    assert processes.add(start().pid).name == "0.1"


@pytest.mark.slow
def test_many_processes_one_after_the_other_cost_no_more_than_a_few(
    start: Callable[..., subprocess.Popen[bytes]],
) -> None:
    processes = under_this_process()
    living = start()
    kept = processes.add(living.pid)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(200):
        child = subprocess.Popen(["/bin/true"])
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        process = processes.add(child.pid)
        process.mem = os.open("/dev/null", os.O_RDONLY)
        child.wait()
    assert len(os.listdir("/proc/self/fd")) - before < 100
    assert processes.find(living.pid) is kept
    assert kept.name == "0.1"
    processes.set_worker(os.getpid())
    assert len(os.listdir("/proc/self/fd")) <= before


def test_another_worker_has_no_children_yet(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    processes = under_this_process()
    child = start()
    memory = processes.add(child.pid)
    memory.mem = os.open("/dev/null", os.O_RDONLY)
    processes.set_worker(os.getpid())
    assert memory.mem == -1
    assert processes.find(child.pid) is None
    assert processes.add(child.pid).name == "0.1"


# ---------------------------------------------------------------- namespaces


@pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to make namespaces")
def test_a_process_with_file_systems_of_its_own_is_told_from_one_without(
    start: Callable[..., subprocess.Popen[bytes]],
) -> None:
    code = (
        "import ctypes\nprint(flush=True); input()\n"
        "assert ctypes.CDLL(None).unshare(0x20000) == 0\nprint(flush=True); input()"
    )
    processes = under_this_process()
    plain, special = start(), start(code)
    found = processes.add(special.pid)
    found.mem = os.open("/dev/null", os.O_RDONLY)
    processes.namespace_changed()
    assert special.stdin is not None
    assert special.stdout is not None
    special.stdin.write(LINE)
    special.stdin.flush()
    assert special.stdout.readline() == LINE
    assert processes.find(special.pid) is found  # by the same name, with the same memory
    assert found.root == b"/proc/%d/root" % special.pid
    assert processes.add(plain.pid).root == b""
    processes.set_worker(special.pid)
    assert found.mem == -1
    assert processes.add(special.pid).root == b"/proc/%d/root" % special.pid


# ---------------------------------------------------------------- memory


def test_strings_are_read_from_memory() -> None:
    process = Process("0", os.getpid())
    texts = [b"", b"short", b"x" * 255, b"x" * 256, b"x" * 4000]
    buffers = [ctypes.create_string_buffer(text) for text in texts]
    try:
        assert [process.text(ctypes.addressof(buffer)) for buffer in buffers] == texts
        pointers = (ctypes.c_void_p * 4)(*[ctypes.addressof(b) for b in buffers[1:4]], None)
        assert process.strings(ctypes.addressof(pointers), 16) == texts[1:4]
        assert process.strings(ctypes.addressof(pointers), 2) == texts[1:3]
    finally:
        process.forget_memory()


def test_a_string_may_end_where_memory_ends() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    with mmap.mmap(-1, 2 * PAGE) as area:
        at = ctypes.addressof(ctypes.c_char.from_buffer(area))
        assert libc.munmap(ctypes.c_void_p(at + PAGE), PAGE) == 0
        ctypes.memmove(at + PAGE - 6, b"hello\0", 6)
        process = Process("0", os.getpid())
        try:
            assert process.text(at + PAGE - 6) == b"hello"
            ctypes.memmove(at + PAGE - 6, b"hello!", 6)
            assert process.text(at + PAGE - 6) is None
            assert process.text(at + PAGE) is None
        finally:
            process.forget_memory()
            # The mapping is closed as a whole.
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x10
            libc.mmap.restype = ctypes.c_void_p
            assert libc.mmap(ctypes.c_void_p(at + PAGE), PAGE, 3, flags, -1, 0) == at + PAGE


@pytest.mark.parametrize("address", [0, 1, 2**63, 2**64 - 1])
def test_nonsense_addresses_have_nothing_to_read(address: int) -> None:
    process = Process("0", os.getpid())
    try:
        assert process.text(address) is None
        assert process.strings(address, 4) == []
    finally:
        process.forget_memory()


def test_memory_is_found_again_when_a_process_becomes_another_program(
    start: Callable[..., subprocess.Popen[bytes]],
) -> None:
    child = start("import os\nprint(flush=True); os.read(0, 1)\nos.execv('/bin/cat', ['cat'])")
    process = Process("0.1", child.pid)
    with open(f"/proc/{child.pid}/maps") as file:
        first = int(file.readline().split("-")[0], 16)
    try:
        assert process.read(first, 4) == b"\x7fELF"
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(LINE + b"cat\n")
        child.stdin.flush()
        assert child.stdout.readline() == b"cat\n"
        with open(f"/proc/{child.pid}/maps") as file:
            first = int(file.readline().split("-")[0], 16)
        assert process.read(first, 4) == b"\x7fELF"
    finally:
        process.forget_memory()


# ---------------------------------------------------------------- Python children


@pytest.mark.parametrize(
    ("words", "folder"),
    [
        ("", b"/cwd"),
        ("-", b"/cwd"),
        ("-c code", b"/cwd"),
        ("-m module", b"/cwd"),
        ("-um module", b"/cwd"),
        ("script.py", b"/cwd"),
        ("sub/script.py -c x", b"/cwd/sub"),
        ("/other/script.py", b"/other"),
        ("-u -O /other/script.py", b"/other"),
        ("-W ignore /other/script.py", b"/other"),
        ("-Wonce::ImportWarning /other/script.py", b"/other"),
        ("-Ximporttime /other/script.py", b"/other"),
        ("-uX importtime /other/script.py", b"/other"),
        ("-I -c code", None),
        ("-Ic code", None),
        ("-sP /other/script.py", None),
        ("-cI", b"/cwd"),
        ("--version", b"/cwd"),
    ],
)
def test_where_a_python_looks_for_modules_first(words: str, folder: bytes | None) -> None:
    expected = () if folder is None else (folder,)
    assert _import_folder([b"python", *words.encode().split()], b"/cwd") == expected


@pytest.mark.parametrize(
    ("program", "imports"),
    [
        (b"/usr/bin/python3.11", True),
        (b"/opt/pypy3", True),
        (b"/usr/bin/python3-config", False),
        (b"/bin/cat", False),
    ],
)
def test_only_a_python_imports(program: bytes, imports: bool) -> None:
    processes = under_this_process()
    process = Process("0.1", os.getpid())
    process.unclear_lists.append("/cwd")
    process.import_folders.add(b"/before")
    words = [ctypes.create_string_buffer(word) for word in (b"x", b"-c", b"pass")]
    argv = (ctypes.c_void_p * 4)(*map(ctypes.addressof, words), None)
    processes.executes(process, os.getpid(), program, ctypes.addressof(argv))
    assert process.import_folders == {b"/before"}  # as long as what it did before is looked at
    processes.executed(process)
    assert process.mem == -1
    assert process.import_folders == ({os.fsencode(os.getcwd())} if imports else set())
    assert process.unclear_lists == []
