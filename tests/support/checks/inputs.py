"""Asking the user: `input`, `getpass`, and prompts that are interrupted or not possible."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.features import feature

if TYPE_CHECKING:
    from tests.support.kernels import Kernel


@feature()
def check_input(kernel: Kernel) -> None:
    request = kernel.submit("name = input('name? ')\nage = input()\nprint(name, age)")
    assert kernel.wait_input(request).content == {"prompt": "name? ", "password": False}
    kernel.answer("Ada Lovelace é😀")
    assert kernel.wait_input(request).content == {"prompt": "", "password": False}
    kernel.answer("")
    assert kernel.finish(request).ok().stdout == "Ada Lovelace é😀 \n"


@feature()
def check_getpass(kernel: Kernel) -> None:
    request = kernel.submit("import getpass\nsecret = getpass.getpass('key: ')\nprint(len(secret))")
    assert kernel.wait_input(request).content == {"prompt": "key: ", "password": True}
    kernel.answer("sesame")
    assert kernel.finish(request).ok().stdout == "6\n"


@feature()
def check_output_precedes_the_prompt(kernel: Kernel) -> None:
    request = kernel.submit("print('read this first', end='')\nanswer = input('ok? ')")
    kernel.wait_input(request)
    kernel.wait_stdout(request, "read this first")
    kernel.answer("")
    kernel.finish(request).ok()


@feature()
def check_input_in_a_loop_and_in_async_code(kernel: Kernel) -> None:
    looped = kernel.run(
        "total = 0\nfor n in range(3): total += int(input())\nprint(total)",
        answers=["1", "2", "3"],
    )
    assert looped == "6\n"
    awaited = kernel.run(
        """
        import asyncio
        await asyncio.sleep(0)
        print(input("async? "))
        """,
        answers=["yes"],
    )
    assert awaited == "yes\n"


@feature()
def check_input_not_allowed(kernel: Kernel) -> None:
    for code in ("input()", "import getpass\ngetpass.getpass()"):
        outcome = kernel.execute(code, allow_stdin=False)
        assert outcome.content["ename"] == "StdinNotImplementedError"
    assert kernel.run("print('still here')") == "still here\n"


@feature()
def check_interrupted_input(kernel: Kernel) -> None:
    for code in ("input('stuck? ')", "import getpass\ngetpass.getpass('stuck? ')"):
        request = kernel.submit(code)
        kernel.wait_input(request)
        kernel.interrupt()
        assert kernel.finish(request).content["ename"] == "KeyboardInterrupt"


@feature()
def check_late_answer_is_not_taken_for_the_next(kernel: Kernel) -> None:
    """The answer to a question that was interrupted must not answer another one."""
    request = kernel.submit("input('first? ')")
    kernel.wait_input(request)
    kernel.interrupt()
    kernel.finish(request)
    kernel.answer("too late")
    assert kernel.run("print('between')") == "between\n"
    assert kernel.run("print(input('second? '))", answers=["in time"]) == "in time\n"


@feature()
def check_pdb(kernel: Kernel) -> None:
    """The line debugger prompts through the front end."""
    request = kernel.submit(
        """
        import pdb
        def inspected():
            local = 41
            pdb.set_trace()
            return local + 1
        inspected()
        """
    )
    assert "pdb" in kernel.wait_input(request).content["prompt"]
    kernel.answer("p local")
    kernel.wait_input(request)
    kernel.answer("c")
    outcome = kernel.finish(request).ok()
    assert "41" in outcome.stdout
    assert outcome.result == {"text/plain": "42"}


@feature()
def check_post_mortem(kernel: Kernel) -> None:
    kernel.execute("def broken():\n    culprit = 13\n    1 / 0\nbroken()")
    request = kernel.submit("%debug")
    kernel.wait_input(request)
    kernel.answer("p culprit")
    kernel.wait_input(request)
    kernel.answer("q")
    assert "13" in kernel.finish(request).ok().stdout
