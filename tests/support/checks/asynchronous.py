"""The event loop as user code sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.features import feature

if TYPE_CHECKING:
    from tests.support.kernels import Kernel


@feature()
def check_top_level_await(kernel: Kernel) -> None:
    outcome = kernel.execute(
        """
        import asyncio, contextlib
        async def numbers():
            for i in range(3):
                await asyncio.sleep(0)
                yield i
        @contextlib.asynccontextmanager
        async def inside():
            yield "inside"
        async with inside() as where:
            print(where)
        async for i in numbers():
            print(i)
        [i async for i in numbers()], await asyncio.sleep(0, "slept")
        """
    ).ok()
    assert outcome.stdout == "inside\n0\n1\n2\n"
    assert outcome.result == {"text/plain": "([0, 1, 2], 'slept')"}


@feature()
def check_error_in_async_cell(kernel: Kernel) -> None:
    outcome = kernel.execute("import asyncio\nawait asyncio.sleep(0)\n1 / 0")
    assert outcome.content["ename"] == "ZeroDivisionError"
    queued = kernel.submit("await asyncio.sleep(0)\nanswer = input()\n1 / 0")
    aborted = kernel.submit("print('must not run')")
    kernel.wait_input(queued)
    kernel.answer("")
    assert kernel.finish(queued).status == "error"
    assert kernel.finish(aborted).status == "aborted"


@feature()
def check_one_loop_for_all_cells(kernel: Kernel) -> None:
    kernel.run("import asyncio\nloop = asyncio.get_running_loop()\nevent = asyncio.Event()")
    kernel.run("async def waits():\n    await event.wait()\n    return 'woken'")
    kernel.run("task = asyncio.create_task(waits())")
    assert kernel.run("print(task.done(), loop is asyncio.get_running_loop())") == "False True\n"
    assert kernel.run("event.set()\nprint(await task)") == "woken\n"
    # Kept and closed: Python warns of it otherwise, whenever it is collected.
    refused = kernel.execute("unused = waits()\nasyncio.run(unused)")
    kernel.run("unused.close()")
    assert refused.content["ename"] == "RuntimeError"


@feature()
def check_background_task_outlives_its_cell(kernel: Kernel) -> None:
    """What a task prints later belongs to the cell that started it."""
    request = kernel.submit(
        """
        import asyncio
        go = asyncio.Event()
        async def later():
            await go.wait()
            print("later", flush=True)
            display("shown later")
        task = asyncio.create_task(later())
        """
    )
    kernel.finish(request).ok()
    assert kernel.run("go.set()\nprint('set')") == "set\n"
    kernel.wait_stdout(request, "later\n")
    kernel.wait_published(request, "display_data")
    assert kernel.run("print(task.done())") == "True\n"


@feature()
def check_background_task_runs_between_cells(kernel: Kernel) -> None:
    """Timers fire while the kernel is idle, without any request to wake it."""
    request = kernel.submit(
        """
        import asyncio
        async def ticks():
            for i in range(5):
                await asyncio.sleep(0.02)
                print("tick", i, flush=True)
        task = asyncio.create_task(ticks())
        """
    )
    kernel.finish(request).ok()
    kernel.wait_stdout(request, "tick 4\n")


@feature()
def check_cells_do_not_overlap(kernel: Kernel) -> None:
    first = kernel.submit(
        """
        import asyncio
        order = ["first begins"]
        await asyncio.sleep(0.05)
        order.append("first ends")
        """
    )
    second = kernel.submit("order.append('second')\nprint(order)")
    kernel.finish(first).ok()
    assert kernel.finish(second).ok().stdout == "['first begins', 'first ends', 'second']\n"


@feature()
def check_threads_and_the_loop(kernel: Kernel) -> None:
    stdout = kernel.run(
        """
        import asyncio, threading, time
        loop = asyncio.get_running_loop()
        print(await asyncio.to_thread(pow, 2, 10))
        print(await loop.run_in_executor(None, sum, [1, 2, 3]))
        future = loop.create_future()
        thread = threading.Thread(
            target=lambda: loop.call_soon_threadsafe(future.set_result, "from a thread")
        )
        thread.start()
        print(await asyncio.wait_for(future, 10))
        """
    )
    assert stdout == "1024\n6\nfrom a thread\n"
    nested = kernel.run(
        """
        import concurrent.futures
        async def inner(): return await asyncio.sleep(0, "own loop")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            print(pool.submit(asyncio.run, inner()).result())
        """
    )
    assert nested == "own loop\n"


@feature()
def check_async_subprocess_and_streams(kernel: Kernel) -> None:
    stdout = kernel.run(
        """
        import asyncio
        process = await asyncio.create_subprocess_exec(
            "cat", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
        out, err = await process.communicate(b"through a pipe")
        print(out, process.returncode)
        async def serve(reader, writer):
            writer.write((await reader.readline()).upper())
            writer.close()
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"echo\\n")
        print(await reader.read())
        writer.close()
        server.close()
        """
    )
    assert stdout == "b'through a pipe' 0\nb'ECHO\\n'\n"


@feature()
def check_unawaited_error_is_reported(kernel: Kernel) -> None:
    outcome = kernel.execute(
        """
        import asyncio, gc
        async def fails(): raise ValueError("nobody awaits me")
        task = asyncio.create_task(fails())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        del task
        gc.collect();
        """
    ).ok()
    assert "nobody awaits me" in outcome.stderr
