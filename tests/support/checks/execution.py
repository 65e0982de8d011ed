"""Running cells: the options of a request, its reply, errors, and what follows an error."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING

from tests.support.features import feature

if TYPE_CHECKING:
    from tests.support.kernels import Kernel, Outcome


def plain(outcome: Outcome) -> str:
    """The traceback of a failed cell without its colors."""
    assert outcome.status == "error"
    return re.sub(r"\x1b\[[\d;]*m", "", "\n".join(outcome.content["traceback"]))


@feature()
def check_execution_count(kernel: Kernel) -> None:
    first = kernel.execute("1").ok().content["execution_count"]
    assert kernel.execute("2").ok().content["execution_count"] == first + 1
    failed = kernel.execute("1 / 0")
    assert failed.content["execution_count"] == first + 2
    assert failed.published[1].content["execution_count"] == first + 2
    assert kernel.execute("").ok().content["execution_count"] == first + 2
    assert kernel.execute("3").ok().content["execution_count"] == first + 3


@feature()
def check_silent(kernel: Kernel) -> None:
    count = kernel.execute("quiet = 0").ok().content["execution_count"]
    outcome = kernel.execute("quiet = 1\nquiet", silent=True).ok()
    assert outcome.outputs == []
    assert outcome.of_type("execute_input") == []
    assert outcome.content["execution_count"] == count
    assert kernel.execute("quiet").ok().content["execution_count"] == count + 1


@feature()
def check_unstored(kernel: Kernel) -> None:
    count = kernel.execute("stored = 0").ok().content["execution_count"]
    outcome = kernel.execute("'unstored'", store_history=False).ok()
    assert outcome.result == {"text/plain": "'unstored'"}
    assert kernel.execute("stored").ok().content["execution_count"] == count + 1
    assert "unstored" not in kernel.run("print(In[-3:])")


@feature()
def check_user_expressions(kernel: Kernel) -> None:
    outcome = kernel.execute(
        """
        class Shown:
            def __repr__(self): return "plain"
            def _repr_html_(self): return "<b>rich</b>"
        """,
        user_expressions={"sum": "1 + 1", "rich": "Shown()", "missing": "nowhere"},
    ).ok()
    answers = outcome.content["user_expressions"]
    assert answers["sum"] == {"status": "ok", "data": {"text/plain": "2"}, "metadata": {}}
    assert answers["rich"]["data"]["text/html"] == "<b>rich</b>"
    assert (answers["missing"]["status"], answers["missing"]["ename"]) == ("error", "NameError")


@feature()
def check_reply_metadata(kernel: Kernel) -> None:
    """Front ends compute the run time of a cell from these."""
    outcome = kernel.execute("pass").ok()
    started = datetime.fromisoformat(outcome.reply.metadata["started"])
    assert outcome.published[0].date <= started <= outcome.reply.date
    assert outcome.published[0].date <= outcome.reply.date <= outcome.published[-1].date


@feature()
def check_payloads(kernel: Kernel) -> None:
    (kernel.cwd / "loaded.py").write_text("loaded = 1\n")
    (load,) = kernel.execute("%load loaded.py").ok().content["payload"]
    assert load["source"] == "set_next_input"
    assert load["text"] == "# %load loaded.py\nloaded = 1\n"
    assert load["replace"] is True
    (page,) = kernel.execute("len?").ok().content["payload"]
    assert page["source"] == "page"
    assert "Return the number of items" in page["data"]["text/plain"]
    (source,) = kernel.execute("import textwrap\ntextwrap.dedent??").ok().content["payload"]
    assert "def dedent" in re.sub(r"\x1b\[[\d;]*m", "", source["data"]["text/plain"])
    (following,) = kernel.execute(
        "for i in range(3): get_ipython().set_next_input(f'next {i}')"
    ).content["payload"]
    assert following["text"] == "next 2"
    assert kernel.execute("pass").content["payload"] == []


@feature()
def check_error(kernel: Kernel) -> None:
    outcome = kernel.execute("def broken(n):\n    return 1 / n\n\nbroken(0)")
    (error,) = outcome.of_type("error")
    for content in (outcome.content, error.content):
        assert (content["ename"], content["evalue"]) == ("ZeroDivisionError", "division by zero")
    assert error.content["traceback"] == outcome.content["traceback"]
    text = plain(outcome)
    assert "----> 4 broken(0)" in text
    assert "----> 2     return 1 / n" in text
    assert f"Cell In[{outcome.content['execution_count']}], line 4" in text
    assert "\x1b[" in "".join(outcome.content["traceback"])


@feature()
def check_error_in_code_of_an_earlier_cell(kernel: Kernel) -> None:
    count = kernel.execute("def earlier(n):\n    return 1 / n").ok().content["execution_count"]
    text = plain(kernel.execute("earlier(0)"))
    assert f"Cell In[{count}], line 2" in text
    assert "return 1 / n" in text
    assert "ZeroDivisionError" in kernel.execute("%tb").stdout + plain(kernel.execute("1 / 0"))


@feature()
def check_syntax_errors(kernel: Kernel) -> None:
    outcome = kernel.execute("a = 1\nb = = 2")
    assert outcome.content["ename"] == "SyntaxError"
    assert "b = = 2" in plain(outcome)
    assert kernel.execute("if True:\npass").content["ename"] == "IndentationError"
    assert kernel.execute("return 1").content["ename"] == "SyntaxError"
    assert "a" not in kernel.run("print([name for name in ('a',) if name in globals()])")


@feature()
def check_chained_and_grouped_errors(kernel: Kernel) -> None:
    text = plain(
        kernel.execute("try:\n    {}['k']\nexcept KeyError as e:\n    raise ValueError('v') from e")
    )
    assert "KeyError" in text
    assert "direct cause" in text
    grouped = kernel.execute(
        "raise ExceptionGroup('several', [ValueError('one'), KeyError('two')])"
    )
    assert grouped.content["ename"] == "ExceptionGroup"
    assert "several" in grouped.content["evalue"]


@feature()
def check_custom_tracebacks(kernel: Kernel) -> None:
    outcome = kernel.execute(
        """
        class Own(Exception):
            def _render_traceback_(self): return ["rendered by itself"]
        raise Own("x")
        """
    )
    assert outcome.content["traceback"] == ["rendered by itself"]
    handled = kernel.execute(
        """
        def handler(shell, kind, value, tb, tb_offset=None):
            print("handled", value)
        class Other(Exception): pass
        get_ipython().set_custom_exc((Other,), handler)
        raise Other("it")
        """
    )
    assert handled.stdout == "handled it\n"
    kernel.run("get_ipython().set_custom_exc((), None)")


@feature()
def check_recursion_error(kernel: Kernel) -> None:
    outcome = kernel.execute("def forever(): return forever()\nforever()")
    assert outcome.content["ename"] == "RecursionError"
    assert kernel.run("print('still here')") == "still here\n"


@feature()
def check_memory_error(kernel: Kernel) -> None:
    assert kernel.execute("bytearray(2**62)").content["ename"] == "MemoryError"
    assert kernel.run("print('still here')") == "still here\n"


@feature()
def check_system_exit(kernel: Kernel) -> None:
    """Leaving a cell with SystemExit fails the cell and keeps the kernel."""
    kernel.run("kept = 'state'")
    for code, value in (("import sys\nsys.exit(3)", "3"), ("raise SystemExit", "")):
        outcome = kernel.execute(code)
        assert outcome.status == "error"
        assert (outcome.content["ename"], outcome.content["evalue"]) == ("SystemExit", value)
    assert kernel.run("print(kept)") == "state\n"


@feature()
def check_error_aborts_queued_cells_only(kernel: Kernel) -> None:
    failing = kernel.submit("answer = input()\nraise ValueError(answer)")
    queued = [kernel.submit(f"ran = {n}") for n in range(3)]
    question = kernel.send("is_complete_request", {"code": "a"})
    kernel.wait_input(failing)
    kernel.answer("stop")
    assert kernel.finish(failing).content["evalue"] == "stop"
    for request in queued:
        aborted = kernel.finish(request)
        assert aborted.status == "aborted"
        assert aborted.outputs == []
    assert kernel.finish(question).content["status"] == "complete"
    assert kernel.run("print('ran' in globals())") == "False\n"


@feature()
def check_error_may_not_abort(kernel: Kernel) -> None:
    failing = kernel.submit("answer = input()\nraise ValueError(answer)", stop_on_error=False)
    queued = kernel.submit("went_on = True")
    kernel.wait_input(failing)
    kernel.answer("go on")
    assert kernel.finish(failing).status == "error"
    kernel.finish(queued).ok()
    assert kernel.run("print(went_on)") == "True\n"


@feature(untrue_of_stock="a request that arrives while it aborts is aborted too")
def check_cell_sent_after_an_error_runs(kernel: Kernel) -> None:
    for n in range(20):
        kernel.wait_reply(kernel.submit("1 / 0"))
        assert kernel.run(f"print({n})") == f"{n}\n"


@feature()
def check_events(kernel: Kernel) -> None:
    """Extensions hook into the cycle of a cell."""
    stdout = kernel.run(
        """
        order = []
        def before(info): order.append(("before", info.raw_cell[:4]))
        def after(result): order.append(("after", result.success))
        events = get_ipython().events
        events.register("pre_run_cell", before)
        events.register("post_run_cell", after)
        """
    )
    assert stdout == ""
    kernel.run("1 + 1")
    kernel.run(
        "events.unregister('pre_run_cell', before); events.unregister('post_run_cell', after)"
    )
    assert kernel.run("print(order[:2])") == "[('after', True), ('before', '1 + ')]\n"


@feature()
def check_input_transformers(kernel: Kernel) -> None:
    kernel.run(
        """
        def shout(lines):
            return [line.replace("SHOUT", "print") for line in lines]
        get_ipython().input_transformers_cleanup.append(shout)
        """
    )
    assert kernel.run("SHOUT('transformed')") == "transformed\n"
    kernel.run("get_ipython().input_transformers_cleanup.remove(shout)")


@feature()
def check_contextvars_live_on(kernel: Kernel) -> None:
    kernel.run("import contextvars\nvar = contextvars.ContextVar('var', default='default')")
    kernel.run("token = var.set('set')")
    assert kernel.run("print(var.get())") == "set\n"
    kernel.run("var.reset(token)")
    assert kernel.run("print(var.get())") == "default\n"
