"""Standard output and error: from Python, from C, from threads and from child processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.features import feature

if TYPE_CHECKING:
    from tests.support.kernels import Kernel


@feature()
def check_print_to_both_streams(kernel: Kernel) -> None:
    outcome = kernel.execute(
        """
        import sys
        print("a", flush=True)
        print("b", file=sys.stderr, flush=True)
        print("c", end="", flush=True)
        written = sys.stdout.write("four")
        """
    ).ok()
    assert [(m.content["name"], m.content["text"]) for m in outcome.outputs] == [
        ("stdout", "a\n"),
        ("stderr", "b\n"),
        ("stdout", "c"),
        ("stdout", "four"),
    ]
    assert kernel.execute("written").ok().result == {"text/plain": "4"}


@feature()
def check_output_arrives_while_the_cell_runs(kernel: Kernel) -> None:
    request = kernel.submit("print('early')\nanswer = input()\nprint('late')")
    kernel.wait_stdout(request, "early\n")
    kernel.wait_input(request)
    kernel.answer("go on")
    assert kernel.finish(request).ok().stdout == "early\nlate\n"


@feature()
def check_stream_attributes(kernel: Kernel) -> None:
    facts = kernel.run(
        """
        import io, os, sys
        print(sys.stdout.encoding.lower(), sys.stdout.isatty(), sys.stdout.writable(),
              sys.stdout.name, sys.stderr.name, isinstance(sys.stdout, io.TextIOBase),
              os.fstat(sys.stdout.fileno()).st_mode > 0, sys.stdout.closed)
        """
    )
    assert facts == "utf-8 False True stdout stderr True True False\n"
    refused = kernel.execute("sys.stdout.write(b'bytes')")
    assert refused.reply.content["ename"] == "TypeError"


@feature()
def check_redirected_streams(kernel: Kernel) -> None:
    assert (
        kernel.run(
            """
            import contextlib, io
            kept = io.StringIO()
            with contextlib.redirect_stdout(kept), contextlib.redirect_stderr(kept):
                print("kept")
            print(repr(kept.getvalue()))
            """
        )
        == "'kept\\n'\n"
    )


@feature()
def check_writes_below_python(kernel: Kernel) -> None:
    """File descriptors 1 and 2, written by any means, end in the cell."""
    request = kernel.submit(
        """
        import ctypes, os, subprocess, sys
        os.write(1, b"descriptor\\n")
        os.write(2, b"error descriptor\\n")
        libc = ctypes.CDLL(None)
        libc.printf(b"printf %d\\n", 5)
        libc.fflush(None)
        libc.perror(b"perror")
        os.system("echo system")
        subprocess.run(["echo", "inherited"], check=True)
        print("dunder", file=sys.__stdout__, flush=True)
        """
    )
    kernel.finish(request).ok()
    for line in ("descriptor", "printf 5", "system", "inherited", "dunder"):
        kernel.wait_stdout(request, f"{line}\n")
    kernel.wait_stderr(request, "error descriptor\n")
    kernel.wait_stderr(request, "perror: ")


@feature(untrue_of_stock="a thread of its own reads the descriptors, sometimes too late")
def check_descriptor_output_precedes_idle(kernel: Kernel) -> None:
    for n in range(20):
        outcome = kernel.execute(f"import os\nignored = os.write(1, b'line {n}\\n')").ok()
        assert outcome.stdout == f"line {n}\n"


@feature()
def check_megabytes_through_the_descriptor(kernel: Kernel) -> None:
    request = kernel.submit(
        "import subprocess\nsubprocess.run(['seq', '1', '300000'], check=True);"
    )
    kernel.finish(request).ok()
    kernel.wait_stdout(request, "".join(f"{n}\n" for n in range(1, 300_001)))


@feature()
def check_huge_output(kernel: Kernel) -> None:
    assert kernel.run("print('x' * 20_000_000)") == "x" * 20_000_000 + "\n"


@feature()
def check_many_lines_in_order(kernel: Kernel) -> None:
    stdout = kernel.run("for i in range(100_000): print(i)")
    assert stdout == "".join(f"{i}\n" for i in range(100_000))


@feature()
def check_carriage_returns(kernel: Kernel) -> None:
    """A progress bar that redraws its line keeps its control characters."""
    outcome = kernel.execute(
        """
        import sys
        for i in range(3):
            sys.stderr.write(f"\\r{i}/3")
            sys.stderr.flush()
        sys.stderr.write("\\n")
        """
    ).ok()
    assert outcome.stderr == "\r0/3\r1/3\r2/3\n"


@feature()
def check_unicode(kernel: Kernel) -> None:
    text = "nul \0 accent é astral 😀 right-to-left \u202e combining e\u0301"
    assert kernel.run(f"print({text!r})") == f"{text}\n"
    assert kernel.execute(f"{text!r}").ok().result["text/plain"] == repr(text)
    assert kernel.execute("名前 = 1\nñandú = 2\n名前 + ñandú").ok().result == {"text/plain": "3"}


@feature()
def check_surrogates(kernel: Kernel) -> None:
    """Text that is not valid Unicode may be shown changed, but must not break the kernel."""
    assert kernel.execute("print('a\\udc80b')").ok().stdout == "a\ufffdb\n"
    kernel.execute("print('\\ud800 alone')")
    kernel.forget()
    assert kernel.run("print('still here')") == "still here\n"


@feature()
def check_logging_and_warnings(kernel: Kernel) -> None:
    outcome = kernel.execute(
        """
        import logging, sys, warnings
        logger = logging.getLogger("mine")
        logger.addHandler(logging.StreamHandler())
        logger.propagate = False
        logger.warning("careful %d", 3)
        warnings.warn("old", stacklevel=1)
        """
    ).ok()
    assert outcome.stderr.startswith("careful 3\n")
    assert "UserWarning: old" in outcome.stderr
    assert 'warnings.warn("old", stacklevel=1)' in outcome.stderr


@feature()
def check_thread_prints_during_its_cell(kernel: Kernel) -> None:
    stdout = kernel.run(
        """
        import threading
        def work(name):
            for i in range(500): print(f"{name} {i}\\n", end="")
        threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        """
    )
    lines = stdout.splitlines()
    for name in "abcd":
        assert [line for line in lines if line.startswith(name)] == [
            f"{name} {i}" for i in range(500)
        ]


@feature()
def check_thread_prints_after_its_cell(kernel: Kernel) -> None:
    """A thread that outlives its cell is heard; what it prints goes to the cell of the moment."""
    kernel.run(
        """
        import threading
        go, done = threading.Event(), threading.Event()
        def work():
            go.wait()
            print("from the thread", flush=True)
            display("shown by the thread")
            done.set()
        thread = threading.Thread(target=work)
        thread.start()
        """
    )
    outcome = kernel.execute("go.set(); done.wait(); thread.join()").ok()
    assert outcome.stdout == "from the thread\n"
    assert len(outcome.displays) == 1


@feature()
def check_thread_error_is_shown(kernel: Kernel) -> None:
    outcome = kernel.execute(
        """
        import threading
        thread = threading.Thread(target=lambda: 1 / 0)
        thread.start()
        thread.join()
        """
    ).ok()
    assert "ZeroDivisionError" in outcome.stderr


@feature()
def check_forked_pool(kernel: Kernel) -> None:
    stdout = kernel.run(
        """
        import multiprocessing
        def square(n):
            print(f"child {n}\\n", end="", flush=True)
            return n * n
        with multiprocessing.get_context("fork").Pool(2) as pool:
            squares = pool.map(square, range(8))
            pool.close()
            pool.join()
        print(squares)
        """
    )
    assert sorted(stdout.splitlines()) == sorted(
        [f"child {n}" for n in range(8)] + ["[0, 1, 4, 9, 16, 25, 36, 49]"]
    )


@feature()
def check_forked_process_prints(kernel: Kernel) -> None:
    stdout = kernel.run(
        """
        import multiprocessing, os
        def work(n):
            print(f"hello {n}\\n", end="")
        context = multiprocessing.get_context("fork")
        children = [context.Process(target=work, args=(n,)) for n in range(4)]
        for child in children: child.start()
        for child in children: child.join()
        print([child.exitcode for child in children])
        """
    )
    assert sorted(stdout.splitlines()) == [
        "[0, 0, 0, 0]",
        "hello 0",
        "hello 1",
        "hello 2",
        "hello 3",
    ]


@feature()
def check_process_pool_executors(kernel: Kernel) -> None:
    for method in ("fork", "spawn"):
        stdout = kernel.run(
            f"""
            import math, multiprocessing
            from concurrent.futures import ProcessPoolExecutor
            context = multiprocessing.get_context("{method}")
            with ProcessPoolExecutor(2, mp_context=context) as pool:
                print(list(pool.map(math.sqrt, [1, 4, 9])))
            """
        )
        assert stdout == "[1.0, 2.0, 3.0]\n"


@feature()
def check_thread_pool_executor(kernel: Kernel) -> None:
    kernel.run(
        """
        from concurrent.futures import ThreadPoolExecutor
        pool = ThreadPoolExecutor(3)
        """
    )
    assert kernel.run("print(sorted(pool.map(abs, [-3, 2, -1])))") == "[1, 2, 3]\n"
    assert kernel.run("print(pool.submit(pow, 2, 5).result())\npool.shutdown()") == "32\n"


@feature()
def check_user_fork(kernel: Kernel) -> None:
    stdout = kernel.run(
        """
        import os
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(write, b"from the child")
            os._exit(7)
        pid, status = os.waitpid(child, 0)
        print(pid == child, os.waitstatus_to_exitcode(status), os.read(read, 100))
        os.close(read); os.close(write)
        """
    )
    assert stdout == "True 7 b'from the child'\n"


@feature(own_kernel=True)
def check_children_are_the_users_own(kernel: Kernel) -> None:
    """User code that counts or awaits its children sees those it started and no others."""
    stdout = kernel.run(
        """
        import os, psutil, signal, subprocess
        print([child.name() for child in psutil.Process().children()])
        try:
            os.wait()
        except ChildProcessError:
            print("no children")
        print(signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL)
        """
    )
    assert stdout == "[]\nno children\nTrue\n"
