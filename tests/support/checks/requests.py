"""Requests other than running cells: completion, inspection, history and facts of the kernel."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from jupyter_client.blocking.client import BlockingKernelClient

from tests.support.features import feature

if TYPE_CHECKING:
    from tests.support.kernels import Kernel
    from tests.support.messages import Content


def complete(kernel: Kernel, code: str, cursor: int | None = None) -> Content:
    position = len(code) if cursor is None else cursor
    return kernel.request("complete_request", {"code": code, "cursor_pos": position}).ok().content


def inspect(kernel: Kernel, code: str, level: int = 0) -> Content:
    content = {"code": code, "cursor_pos": len(code), "detail_level": level}
    return kernel.request("inspect_request", content).ok().content


def history(kernel: Kernel, **options: Any) -> list[tuple[Any, ...]]:
    content = {"output": False, "raw": True, **options}
    entries = kernel.request("history_request", content).ok().content["history"]
    return [tuple(entry) for entry in entries]


@feature()
def check_completion_of_names(kernel: Kernel) -> None:
    kernel.run("albatross = alpaca = 5\ndef alloy(metal, other=1): return metal")
    found = complete(kernel, "x = al")
    assert {"albatross", "alpaca", "alloy"} <= set(found["matches"])
    assert (found["cursor_start"], found["cursor_end"]) == (4, 6)
    assert "other=" in complete(kernel, "alloy(ot")["matches"]


@feature()
def check_completion_of_attributes_and_keys(kernel: Kernel) -> None:
    kernel.run("import collections\ntable = {'left': 1, 'length': 2}\ntext = 'abc'")
    assert "text.startswith" in with_prefix(complete(kernel, "text.starts"), "text.")
    assert {"left", "length"} <= {m.strip("'\"]") for m in complete(kernel, "table['le")["matches"]}
    assert "OrderedDict" in complete(kernel, "from collections import Ord")["matches"]


def with_prefix(found: Content, prefix: str) -> list[str]:
    return [match if match.startswith(prefix) else prefix + match for match in found["matches"]]


@feature()
def check_completion_of_magics_and_files(kernel: Kernel) -> None:
    assert "%timeit" in complete(kernel, "%timei")["matches"]
    (kernel.cwd / "measurements.csv").touch()
    assert any("measurements.csv" in m for m in complete(kernel, "open('measur")["matches"])


@feature()
def check_completion_metadata(kernel: Kernel) -> None:
    """Front ends draw the kind and signature of each match from this metadata."""
    kernel.run("def carnation(petals): return petals\nclass Carnivore: pass")
    found = complete(kernel, "carn")
    described = {d["text"]: d for d in found["metadata"]["_jupyter_types_experimental"]}
    assert described["carnation"]["type"] == "function"
    assert described["carnation"]["signature"] == "(petals)"
    assert {(d["start"], d["end"]) for d in described.values()} == {(0, 4)}
    deep = complete(kernel, "import threading\nthreading.Thr")
    kinds = {d["text"]: d["type"] for d in deep["metadata"]["_jupyter_types_experimental"]}
    assert kinds["Thread"] == "class"


@feature()
def check_completion_positions_count_characters(kernel: Kernel) -> None:
    kernel.run("zebra_crossing = 1")
    code = "s = '😀é'; zebra_"
    found = complete(kernel, code)
    assert found["matches"] == ["zebra_crossing"]
    assert (found["cursor_start"], found["cursor_end"]) == (len(code) - 6, len(code))
    inner = complete(kernel, "zebra_ + 1", 6)
    assert (inner["cursor_start"], inner["cursor_end"]) == (0, 6)


@feature()
def check_inspection(kernel: Kernel) -> None:
    kernel.run(
        """
        def inspected(a, b: int = 2) -> str:
            "The docstring."
            return str(a) * b  # the source
        """
    )
    brief = inspect(kernel, "inspected")
    assert brief["found"]
    assert "The docstring." in brief["data"]["text/plain"]
    assert "# the source" not in brief["data"]["text/plain"]
    assert "# the source" in inspect(kernel, "inspected", 1)["data"]["text/plain"]
    assert "inspected(" in inspect(kernel, "inspected(3, ")["data"]["text/plain"].replace(
        "\x1b", ""
    )
    assert inspect(kernel, "no_such_name") == {
        "status": "ok",
        "found": False,
        "data": {},
        "metadata": {},
    }
    assert "Time execution" in inspect(kernel, "%timeit")["data"]["text/plain"]


@feature()
def check_history_requests(kernel: Kernel) -> None:
    codes = ["first_in_history = 1", "second_in_history = 2", "second_in_history = 2"]
    for code in codes:
        count = kernel.execute(code).ok().reply.content["execution_count"]
    tail = history(kernel, hist_access_type="tail", n=3)
    assert [entry[2] for entry in tail] == codes
    assert [entry[1] for entry in tail] == [count - 2, count - 1, count]
    session = tail[0][0]
    here = history(kernel, hist_access_type="range", session=0, start=count - 2, stop=count)
    assert [entry[1:] for entry in here] == [(count - 2, codes[0]), (count - 1, codes[1])]
    by_number = history(
        kernel, hist_access_type="range", session=session, start=count - 2, stop=count
    )
    assert [entry[1:] for entry in by_number] == [entry[1:] for entry in here]
    found = history(kernel, hist_access_type="search", pattern="*_in_history = 2", n=10)
    assert [entry[2] for entry in found] == codes[1:]
    unique = history(
        kernel, hist_access_type="search", pattern="*_in_history = 2", n=10, unique=True
    )
    assert [entry[2] for entry in unique] == codes[1:2]


@feature()
def check_history_of_outputs(kernel: Kernel) -> None:
    kernel.run("%config HistoryManager.db_log_output = False")
    count = kernel.execute("6 * 7").ok().reply.content["execution_count"]
    (entry,) = history(
        kernel,
        hist_access_type="range",
        session=0,
        start=count,
        stop=count + 1,
        output=True,
    )
    assert entry[1:] == (count, ["6 * 7", "42"])


@feature()
def check_history_magics(kernel: Kernel) -> None:
    kernel.run("remembered = 1")
    outcome = kernel.execute("print('counted')").ok()
    count = outcome.reply.content["execution_count"]
    assert kernel.run(f"%history -n {count - 1}-{count}") == (
        f"{count - 1:>4}: remembered = 1\n{count:>4}: print('counted')\n"
    )
    assert kernel.run(f"%rerun {count}").endswith("counted\n")
    assert "remembered = 1" in kernel.run("%history -g remembered")


@feature(own_kernel=True)
def check_history_outlives_the_kernel(kernel: Kernel) -> None:
    """With an IPython folder of their own, kernels that follow one another share a history."""
    codes = ["kept_forever = 1", "kept_forever = 2"]
    for code in codes:
        kernel.run(code)
    kernel.run("not_kept = 1", store_history=False)
    (old_session, _, _) = history(kernel, hist_access_type="tail", n=1)[0]
    kernel.restart()
    assert [e[2] for e in history(kernel, hist_access_type="tail", n=2)] == codes
    kernel.run("after = 1")
    tail = history(kernel, hist_access_type="tail", n=3)
    assert [e[2] for e in tail] == [*codes, "after = 1"]
    assert tail[0][0] == old_session
    assert tail[2][0] > old_session
    found = history(kernel, hist_access_type="search", pattern="kept*", n=10)
    assert [e[2] for e in found] == codes
    assert kernel.run("%history ~1/1-~1/9").count("kept_forever") == len(codes)


@feature()
def check_is_complete(kernel: Kernel) -> None:
    def ask(code: str) -> tuple[str, str | None]:
        content = kernel.request("is_complete_request", {"code": code}).reply.content
        return content["status"], content.get("indent")

    assert ask("a = 1") == ("complete", None)
    assert ask("for i in x:") == ("incomplete", "    ")
    assert ask("def f():\n    if a:") == ("incomplete", "        ")
    assert ask("a = (1,")[0] == "incomplete"
    assert ask("'''open")[0] == "incomplete"
    assert ask("a = = 1")[0] == "invalid"
    assert ask("%%bash\nls")[0] in ("incomplete", "complete")
    assert ask("!ls")[0] == "complete"


@feature()
def check_kernel_info(kernel: Kernel) -> None:
    info = kernel.request("kernel_info_request", {}).ok().content
    assert info["protocol_version"].startswith("5.")
    assert info["language_info"]["name"] == "python"
    assert info["language_info"]["version"] == ".".join(map(str, sys.version_info[:3]))
    assert info["language_info"]["file_extension"] == ".py"
    assert info["language_info"]["codemirror_mode"] == {"name": "ipython", "version": 3}
    assert "debugger" in info["supported_features"]
    assert f"Python {info['language_info']['version']}" in info["banner"]
    assert any(link["text"] == "NumPy Reference" for link in info["help_links"])
    on_control = kernel.request("kernel_info_request", {}, channel="control").ok().content
    assert on_control["language_info"] == info["language_info"]


@feature(untrue_of_stock="it picks the tip in its banner with the user's random generator")
def check_requests_leave_random_numbers_alone(kernel: Kernel) -> None:
    kernel.run("import random\nrandom.seed(7)\nexpected = random.Random(7).random()")
    kernel.request("complete_request", {"code": "ran", "cursor_pos": 3})
    kernel.request("kernel_info_request", {})
    kernel.request("kernel_info_request", {}, channel="control")
    assert kernel.run("print(random.random() == expected)") == "True\n"


@feature()
def check_control_channel_answers_while_busy(kernel: Kernel) -> None:
    request = kernel.submit("answer = input('wait')")
    kernel.wait_input(request)
    info = kernel.request("kernel_info_request", {}, channel="control").ok()
    usage = kernel.request("usage_request", {}, channel="control").reply.content
    assert info.content["implementation"]
    assert usage["cpu_count"] == os.cpu_count()
    kernel.answer("")
    kernel.finish(request).ok()


@feature(own_kernel=True)
def check_usage_counts_the_users_memory(kernel: Kernel) -> None:
    def used() -> int:
        content = kernel.request("usage_request", {}, channel="control").reply.content
        assert content["kernel_cpu"] >= 0
        assert content["host_virtual_memory"]["total"] > content["kernel_memory"]
        memory: int = content["kernel_memory"]
        return memory

    before = used()
    kernel.run("block = bytearray(300_000_000)\nfor i in range(0, len(block), 4096): block[i] = 1")
    # While a checkpoint comes to life, its share of the memory may not be counted yet.
    assert any(used() - before > 250_000_000 for _ in range(100))
    kernel.run("del block")


@feature()
def check_usage_counts_child_processes(kernel: Kernel) -> None:
    kernel.run("import subprocess, psutil\nchild = subprocess.Popen(['sleep', '60'])")
    usage = kernel.request("usage_request", {}, channel="control").reply.content
    names = kernel.run(f"print([p.name() for p in psutil.Process({usage['pid']}).children(True)])")
    assert "'sleep'" in names
    kernel.run("child.kill(); ignored = child.wait()")


@feature()
def check_connect_request(kernel: Kernel) -> None:
    ports = kernel.request("connect_request", {}).reply.content
    expected = kernel.manager.get_connection_info()
    for name in ("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port"):
        assert ports[name] == expected[name]


@feature()
def check_unknown_and_malformed_requests(kernel: Kernel) -> None:
    """Requests the kernel cannot serve are ignored or refused; the next ones are served."""
    request = kernel.send("no_such_request", {})
    kernel.wait_published(request, "status", 2)
    request = kernel.send("execute_request", {"not_code": 1})
    kernel.wait_published(request, "status", 2)
    session = kernel.client.session.clone()
    session.key = b"a wrong key"
    session.send(kernel.client.shell_channel.socket, "kernel_info_request", {})
    assert kernel.run("print('still here')") == "still here\n"


@feature()
def check_requests_are_served_in_order(kernel: Kernel) -> None:
    requests = []
    for n in range(20):
        requests.append(kernel.submit(f"served = {n}"))
        requests.append(kernel.send("complete_request", {"code": "serv", "cursor_pos": 4}))
    for request in requests:
        kernel.finish(request).ok()
    replies = [m.parent_id for m in kernel.log if m.channel == "shell"]
    assert replies == requests


@feature(own_kernel=True)
def check_first_subscriber_is_welcomed(kernel: Kernel) -> None:
    """A client learns when its subscription is in force: nothing published later is missed."""
    kernel.manager.restart_kernel()
    welcome = kernel.wait_for(lambda m: m.type == "iopub_welcome", "the welcome")
    assert welcome.content == {"subscription": ""}
    assert kernel.run("print('heard')") == "heard\n"


@feature()
def check_second_client(kernel: Kernel) -> None:
    """Any number of clients may talk to the kernel; all see what it publishes."""
    other = BlockingKernelClient(connection_file=kernel.manager.connection_file)
    other.load_connection_file()
    other.start_channels(hb=False)
    try:
        other.wait_for_ready(timeout=20)
        kernel.run("print('for all clients')")
        while other.get_iopub_msg(timeout=20)["msg_type"] != "stream":
            pass
        reply = other.execute("shared = 1", reply=True, timeout=20)
        assert reply["content"]["status"] == "ok"
        seen = kernel.wait_for(
            lambda m: m.type == "execute_input" and m.content["code"] == "shared = 1",
            "the other client's cell",
        )
        assert seen.parent_id == reply["parent_header"]["msg_id"]
    finally:
        other.stop_channels()
    assert kernel.run("print(shared)") == "1\n"
