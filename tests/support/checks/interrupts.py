"""Interrupting a cell, whatever it is doing, and signals that user code handles itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.features import feature
from tests.support.kernels import NoMessage

if TYPE_CHECKING:
    from tests.support.kernels import Kernel, Outcome


def interrupted(kernel: Kernel, code: str) -> Outcome:
    """Interrupt a cell once it has printed `ready`; it must then fail, and the kernel serve on.

    Python loses a signal that comes just before a lock begins to wait, so it may take two.
    """
    kernel.run("kept = 'state'")
    request = kernel.submit(code)
    kernel.wait_stdout(request, "ready")
    kernel.interrupt()
    try:
        outcome = kernel.finish(request, timeout_s=30)
    except NoMessage:
        kernel.interrupt()
        outcome = kernel.finish(request, timeout_s=60)
    assert kernel.run("print(kept)") == "state\n"
    return outcome


@feature()
def check_interrupt_sleep(kernel: Kernel) -> None:
    outcome = interrupted(kernel, "import time\nprint('ready', flush=True)\ntime.sleep(60)")
    assert outcome.content["ename"] == "KeyboardInterrupt"
    assert len(outcome.of_type("error")) == 1


@feature()
def check_interrupt_busy_loop(kernel: Kernel) -> None:
    outcome = interrupted(kernel, "print('ready', flush=True)\nwhile True: pass")
    assert outcome.content["ename"] == "KeyboardInterrupt"
    assert not [line for line in outcome.content["traceback"] if "chexpoint" in line]


@feature()
def check_interrupt_lock(kernel: Kernel) -> None:
    outcome = interrupted(
        kernel,
        """
        import threading
        lock = threading.Lock()
        lock.acquire()
        print("ready", flush=True)
        lock.acquire()
        """,
    )
    assert outcome.content["ename"] == "KeyboardInterrupt"


@feature()
def check_interrupt_subprocess(kernel: Kernel) -> None:
    """The program that the cell waits for is interrupted too."""
    outcome = interrupted(
        kernel,
        """
        import subprocess
        child = subprocess.Popen(["sleep", "60"])
        print("ready", flush=True)
        child.wait()
        """,
    )
    assert outcome.content["ename"] == "KeyboardInterrupt"
    # Its status may be lost to user code: the interrupt can fall between the wait and its result.
    kernel.run("child.wait();")
    assert not any("sleep" in process.command for process in kernel.processes())


@feature()
def check_interrupt_shell_commands(kernel: Kernel) -> None:
    for code in ("!echo ready; sleep 60", "%%bash\necho ready\nsleep 60"):
        interrupted(kernel, code)
        assert not any("sleep" in process.command for process in kernel.processes())


@feature(untrue_of_stock="nothing wakes the loop that waits, so the cell runs to its end")
def check_interrupt_async_sleep(kernel: Kernel) -> None:
    outcome = interrupted(
        kernel, "import asyncio\nprint('ready', flush=True)\nawait asyncio.sleep(60)"
    )
    assert outcome.content["ename"] in ("KeyboardInterrupt", "CancelledError")


@feature(untrue_of_stock="it only cancels the task, which code that never awaits does not notice")
def check_interrupt_async_busy_loop(kernel: Kernel) -> None:
    outcome = interrupted(
        kernel,
        """
        import asyncio
        await asyncio.sleep(0)
        print("ready", flush=True)
        while True: pass
        """,
    )
    assert outcome.content["ename"] in ("KeyboardInterrupt", "CancelledError")


@feature()
def check_interrupt_async_loop(kernel: Kernel) -> None:
    outcome = interrupted(
        kernel,
        """
        import asyncio
        print("ready", flush=True)
        while True: await asyncio.sleep(0.01)
        """,
    )
    assert outcome.content["ename"] in ("KeyboardInterrupt", "CancelledError")


@feature()
def check_interrupt_numeric_code(kernel: Kernel) -> None:
    outcome = interrupted(
        kernel,
        """
        import numpy as np
        a = np.ones((300, 300))
        print("ready", flush=True)
        while True: a = a @ a / 300
        """,
    )
    assert outcome.content["ename"] == "KeyboardInterrupt"


@feature()
def check_interrupt_by_message(kernel: Kernel) -> None:
    request = kernel.submit("import time\nprint('ready', flush=True)\ntime.sleep(60)")
    kernel.wait_stdout(request, "ready\n")
    kernel.request("interrupt_request", {}, channel="control").ok()
    assert kernel.finish(request).content["ename"] == "KeyboardInterrupt"


@feature()
def check_interrupt_aborts_queued_cells(kernel: Kernel) -> None:
    # Nothing tells when the second request has arrived: a busy machine may send it late.
    cell = "import time\ntime.sleep(0.5)\nprint('ready', flush=True)\ntime.sleep(60)"
    request = kernel.submit(cell)
    queued = kernel.submit("print('must not run')")
    kernel.wait_stdout(request, "ready\n")
    kernel.interrupt()
    assert kernel.finish(request).content["ename"] == "KeyboardInterrupt"
    assert kernel.finish(queued).status == "aborted"


@feature()
def check_interrupt_caught_by_the_cell(kernel: Kernel) -> None:
    outcome = interrupted(
        kernel,
        """
        import time
        try:
            print("ready", flush=True)
            time.sleep(60)
        except KeyboardInterrupt:
            print("caught")
        """,
    )
    assert outcome.ok().stdout == "ready\ncaught\n"


@feature()
def check_interrupt_while_idle(kernel: Kernel) -> None:
    kernel.run("kept = 'state'")
    for _ in range(5):
        kernel.interrupt()
        kernel.request("kernel_info_request", {}, channel="control").ok()
    assert kernel.run("print(kept)") == "state\n"


@feature()
def check_many_interrupts(kernel: Kernel) -> None:
    for _ in range(10):
        outcome = interrupted(kernel, "print('ready', flush=True)\nwhile True: pass")
        assert outcome.content["ename"] == "KeyboardInterrupt"


@feature()
def check_signal_handlers(kernel: Kernel) -> None:
    kernel.run(
        """
        import os, signal
        caught = []
        signal.signal(signal.SIGUSR1, lambda number, frame: caught.append(number))
        """
    )
    assert kernel.run("os.kill(os.getpid(), signal.SIGUSR1)\nprint(len(caught))") == "1\n"
    own = kernel.run(
        """
        before = signal.signal(signal.SIGINT, lambda number, frame: caught.append(number))
        os.kill(os.getpid(), signal.SIGINT)
        print(len(caught), before is signal.default_int_handler)
        """
    )
    assert own == "2 True\n"
    assert kernel.run("print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)") == (
        "True\n"
    )
    timer = kernel.run(
        """
        signal.signal(signal.SIGALRM, lambda number, frame: caught.append(number))
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        signal.pause()
        print(len(caught))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.signal(signal.SIGUSR1, signal.SIG_DFL);
        """
    )
    assert timer == "3\n"
