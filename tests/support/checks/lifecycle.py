"""Starting again, stopping, crashing: in each case no process is left and nothing hangs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import zmq

from tests.support.features import feature
from tests.support.kernels import EXIT_TIMEOUT_S
from tests.support.processes import wait_exit, wait_none_marked

if TYPE_CHECKING:
    from tests.support.kernels import Kernel

NOT_IN_STOCK = "the kernel process itself dies"


def busy(kernel: Kernel, code: str = "while True: pass") -> str:
    request = kernel.submit(f"print('ready', flush=True)\n{code}")
    kernel.wait_stdout(request, "ready\n")
    return request


def ended(kernel: Kernel) -> None:
    """Assert that the kernel ends by itself, all of it."""
    kernel.wait_exit()
    kernel.assert_gone()


@feature(own_kernel=True)
def check_restart(kernel: Kernel) -> None:
    before = {process.pid for process in kernel.processes()}
    ports = kernel.manager.get_connection_info()
    kernel.run("gone = 1")
    kernel.restart()
    assert kernel.execute("gone").content["ename"] == "NameError"
    assert kernel.execute("1").content["execution_count"] == 2
    assert kernel.manager.get_connection_info() == ports
    assert not before & {process.pid for process in kernel.processes()}


@feature(own_kernel=True)
def check_restart_while_busy(kernel: Kernel) -> None:
    kernel.run("gone = 1")
    busy(kernel, "import time\ntime.sleep(600)")
    kernel.restart()
    assert kernel.execute("gone").content["ename"] == "NameError"


@feature(own_kernel=True)
def check_shutdown(kernel: Kernel) -> None:
    request = kernel.send("shutdown_request", {"restart": False}, channel="control")
    replies = [
        kernel.wait_for(lambda m: m.type == "shutdown_reply" and m.channel == "control", "a reply"),
        kernel.wait_for(lambda m: m.type == "shutdown_reply" and m.channel == "iopub", "the news"),
    ]
    assert [m.content for m in replies] == [{"status": "ok", "restart": False}] * 2
    assert [m.parent_id for m in replies] == [request] * 2
    assert kernel.wait_exit() == 0
    kernel.assert_gone()


@feature(own_kernel=True)
def check_shutdown_ends_child_processes(kernel: Kernel) -> None:
    kernel.run("import subprocess\nchild = subprocess.Popen(['sleep', '600'])")
    kernel.shutdown()
    kernel.assert_gone()


@feature(own_kernel=True)
def check_shutdown_while_busy(kernel: Kernel) -> None:
    busy(kernel)
    kernel.shutdown()
    kernel.assert_gone()


@feature(own_kernel=True)
def check_shutdown_while_cells_wait(kernel: Kernel) -> None:
    busy(kernel, "import time\ntime.sleep(600)")
    for _ in range(10):
        kernel.submit("print('queued')")
    kernel.shutdown()
    kernel.assert_gone()


@feature(own_kernel=True)
def check_shutdown_during_input(kernel: Kernel) -> None:
    kernel.wait_input(kernel.submit("input()"))
    kernel.shutdown()
    kernel.assert_gone()


@feature(own_kernel=True)
def check_shutdown_runs_exit_handlers_once(kernel: Kernel) -> None:
    """Exit handlers run when the kernel is shut down, in the live state and nowhere else."""
    kernel.run(
        """
        import atexit
        def leave():
            with open("left", "a") as file: file.write("left\\n")
        atexit.register(leave);
        """
    )
    kernel.run("pass")
    kernel.shutdown()
    kernel.assert_gone()
    assert (kernel.cwd / "left").read_text() == "left\n"


@feature(own_kernel=True)
def check_forced_shutdown(kernel: Kernel) -> None:
    busy(kernel)
    kernel.manager.shutdown_kernel(now=True)
    kernel.assert_gone()


@feature(own_kernel=True)
def check_terminated(kernel: Kernel) -> None:
    kernel.run("kept = 1")
    os.kill(kernel.process().pid, signal.SIGTERM)
    ended(kernel)


@feature(own_kernel=True)
def check_killed(kernel: Kernel) -> None:
    kernel.run("kept = 1")
    os.kill(kernel.process().pid, signal.SIGKILL)
    ended(kernel)


@feature(own_kernel=True)
def check_killed_while_busy(kernel: Kernel) -> None:
    busy(kernel)
    os.kill(kernel.process().pid, signal.SIGKILL)
    ended(kernel)


@feature(own_kernel=True)
def check_exit(kernel: Kernel) -> None:
    (kept,) = kernel.execute("exit(keep_kernel=True)").ok().content["payload"]
    assert (kept["source"], kept["keepkernel"]) == ("ask_exit", True)
    assert kernel.run("print('still here')") == "still here\n"
    (left,) = kernel.execute("exit").ok().content["payload"]
    assert (left["source"], left["keepkernel"]) == ("ask_exit", False)
    ended(kernel)


@feature(own_kernel=True)
def check_quit(kernel: Kernel) -> None:
    (left,) = kernel.execute("quit()").ok().content["payload"]
    assert (left["source"], left["keepkernel"]) == ("ask_exit", False)
    ended(kernel)


@feature(own_kernel=True)
def check_ends_with_its_parent(kernel: Kernel) -> None:
    """A kernel whose server has died ends by itself."""
    mark = "orphan-" + kernel.folder.name + str(os.getpid())
    program = (
        "import os, sys; from pathlib import Path\n"
        "from tests.support.kernels import Kernel, Launch\n"
        "os.environ['ORPHAN_MARK'] = sys.argv[1]\n"
        "kernel = Kernel(Launch(argv=sys.argv[3:]), Path(sys.argv[2]))\n"
        "kernel.execute('kept = 1')\n"
        "os._exit(0)\n"
    )
    command = [sys.executable, "-c", program, mark, str(kernel.folder / "orphan")]
    subprocess.run([*command, *kernel.launch.argv], check=True, timeout=60)
    assert wait_none_marked("ORPHAN_MARK", mark, timeout_s=EXIT_TIMEOUT_S) == []


@feature()
def check_heartbeat_while_busy(kernel: Kernel) -> None:
    socket = kernel.manager.connect_hb()
    request = busy(kernel)
    try:
        for n in range(5):
            socket.send(b"beat %d" % n)
            assert socket.poll(10_000, zmq.POLLIN)
            assert socket.recv() == b"beat %d" % n
    finally:
        socket.close(linger=0)
    kernel.interrupt()
    kernel.finish(request)


def crash(kernel: Kernel, code: str, *facts: str) -> None:
    """A cell that ends its process fails, says why, aborts the queue; the kernel serves on."""
    request = kernel.submit(f"print('last words', flush=True)\nanswer = input()\n{code}")
    queued = kernel.submit("print('must not run')")
    kernel.wait_input(request)
    kernel.request("kernel_info_request", {}, channel="control").ok()
    kernel.answer("")
    outcome = kernel.finish(request)
    assert outcome.stdout == "last words\n"
    assert outcome.content["ename"] == "WorkerDied"
    for fact in facts:
        assert fact in outcome.content["evalue"]
    assert len(outcome.of_type("error")) == 1
    assert kernel.finish(queued).status == "aborted"
    assert kernel.run("print(6 * 7)") == "42\n"
    assert kernel.execute("display('shown')\n1 + 1").ok().result == {"text/plain": "2"}


@feature(untrue_of_stock=NOT_IN_STOCK)
def check_crash_by_exit(kernel: Kernel) -> None:
    crash(kernel, "import os\nos._exit(3)", "3")


@feature(untrue_of_stock=NOT_IN_STOCK)
def check_crash_by_segmentation_fault(kernel: Kernel) -> None:
    crash(kernel, "import ctypes\nctypes.string_at(0)", "SIGSEGV")


@feature(untrue_of_stock=NOT_IN_STOCK)
def check_crash_by_kill(kernel: Kernel) -> None:
    crash(kernel, "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "SIGKILL")


@feature(untrue_of_stock=NOT_IN_STOCK)
def check_crash_in_async_code_and_during_input(kernel: Kernel) -> None:
    crash(kernel, "import asyncio, os\nawait asyncio.sleep(0)\nos._exit(4)", "4")
    request = kernel.submit(
        "import os, threading\nthreading.Timer(0.05, os._exit, [5]).start()\ninput()"
    )
    assert kernel.finish(request).content["ename"] == "WorkerDied"
    assert kernel.run("print(input())", answers=["answered"]) == "answered\n"


@feature(untrue_of_stock=NOT_IN_STOCK)
def check_crash_while_idle(kernel: Kernel) -> None:
    """The state may end between cells, too; the next cell must not hang."""
    pid = kernel.run(
        "import os, threading\nprint(os.getpid())\nthreading.Timer(0.1, os._exit, [6]).start()"
    )
    assert wait_exit(int(pid), timeout_s=EXIT_TIMEOUT_S)
    assert kernel.run("print(6 * 7)") == "42\n"


@feature(untrue_of_stock=NOT_IN_STOCK)
def check_interrupt_after_a_crash(kernel: Kernel) -> None:
    crash(kernel, "import os\nos._exit(3)", "3")
    request = busy(kernel)
    kernel.interrupt()
    assert kernel.finish(request).content["ename"] == "KeyboardInterrupt"
