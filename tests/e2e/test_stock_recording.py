"""Versions recorded with ``%load_ext chexpoint`` in kernels and shells that are not CHEX's."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import sqlite3
import sys
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import nbformat
import pexpect  # type: ignore[import-untyped]
import pytest
from nbclient import NotebookClient

from chexpoint.project import Project
from tests.support.kernels import STOCK, Kernel, Launch
from tests.support.processes import wait_exit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from chexpoint.model import CellLineage, Output, PathCell

pytestmark = pytest.mark.slow

LOAD = "%load_ext chexpoint"
BEFORE = "cells ran before recording began, and what they left is not known"
WHILE_OFF = "cells ran while recording was off, and what they left is not known"


# Leaves the kernel as it was.
CLOSE = """
from chexpoint.magics.plain_recording import plain_recording
plain_recording(get_ipython()).close()
assert "send_multipart" not in vars(get_ipython().kernel.iopub_thread)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One cell of a version, as the catalog has it."""

    cell: PathCell
    lineage: CellLineage
    outputs: tuple[Output, ...]

    @property
    def stdout(self) -> str:
        return "".join(o["text"] for o in self.outputs if o.get("name") == "stdout")


def recorded(folder: Path, version: str) -> list[Recorded]:
    """Return the cells of a version."""
    project = Project.at(folder)
    return [
        Recorded(
            cell=cell,
            lineage=project.lineage(cell.execution),
            outputs=project.outputs(cell.execution),
        )
        for cell in project.cells(project.version(version))
    ]


@contextmanager
def stock(folder: Path, **env: str) -> Iterator[Kernel]:
    """Give a stock kernel, without anything of CHEX in it yet."""
    with Kernel(Launch(argv=STOCK, env={"PYTHONHASHSEED": "0", **env}), folder) as kernel:
        yield kernel


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """Give a stock kernel that records one version after the other."""
    with stock(tmp_path_factory.mktemp("stock") / "kernel") as kernel:
        kernel.run(LOAD)
        yield kernel


@contextmanager
def version(kernel: Kernel, name: str) -> Iterator[list[Recorded]]:
    """Record what is run within as a version; what was recorded is in the list afterwards."""
    kernel.execute(f"%chex_record {name}").ok()
    found: list[Recorded] = []
    yield found
    # The next one begins when everything before it is written.
    kernel.execute("%chex_record next").ok()
    found += recorded(kernel.cwd, name)


# ------------------------------------------------------------ what is recorded

CLEARED = """
from IPython.display import HTML, clear_output, display
print('gone')
clear_output()
print('kept')
clear_output(wait=True)
display(HTML('<b>shown</b>'))
"""
THREAD = """
import threading
def work():
    print('in a thread')
    display({'thread': True})
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""
FORK = """
import os
child = os.fork()
if child == 0:
    print('in a fork', flush=True)
    os._exit(0)
_ = os.waitpid(child, 0)
"""
CELLS = [
    "x = 1",
    "print('a')\nprint('b')\nx",
    "import sys\nprint('out')\nprint('err', file=sys.stderr)\nprint('out again')",
    CLEARED,
    "shown = display({'a': 1}, display_id=True)\nprint('between')\nshown.update({'a': 2})",
    "display({'text/plain': 'raw', 'image/png': 'aWNvbg=='}, raw=True, metadata={'k': 1})",
    "import asyncio\nawait asyncio.sleep(0.001)\nprint('slept')\n'result'",
    "%%time\nprint('timed')",
    "!echo from a program",
    THREAD,
    FORK,
    "%matplotlib inline\nimport matplotlib.pyplot as plt\n_ = plt.plot([1, 2])",
    "def f(:\n    pass",
    "def f():\n    1 / 0\nprint('before')\nf()",
    "import warnings\nwarnings.warn('careful')",
    "x + 1;",
]


def test_outputs_are_those_that_a_front_end_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    sources = [LOAD, "%chex_record paper", *CELLS]
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    notebook = nbformat.v4.new_notebook(cells=cells)
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(
        notebook, timeout=60, allow_errors=True, coalesce_streams=True, resources=resources
    ).execute()

    found = recorded(tmp_path, "paper")

    assert [each.cell.source for each in found] == CELLS
    shown = {cell.source: cell for cell in notebook.cells}
    for each in found:
        cell = shown[each.cell.source]
        assert list(each.outputs) == [_plain(output) for output in cell.outputs]
        assert each.cell.execution_count == cell.execution_count
        failed = any(output.output_type == "error" for output in cell.outputs)
        assert each.cell.status == ("error" if failed else "ok")
    assert {each.lineage.audit.mechanism for each in found} == {"audit hook"}
    assert found[0].lineage.audit.gaps == ()
    nodes = [each.cell.node for each in found]
    assert [each.cell.parent for each in found][1:] == nodes[:-1]


def _plain(output: Any) -> Any:
    """Return an output of a notebook as a plain value."""
    return json.loads(json.dumps(output))


def test_files_are_inputs_and_effects(shared: Kernel) -> None:
    (shared.cwd / "data.csv").write_text("1,2")
    with version(shared, "files") as cells:
        shared.run("text = open('data.csv').read()\nopen('result.csv', 'w').write(text * 2)")
        shared.run("again = open('result.csv').read()")
    first, second = (each.lineage.audit for each in cells)
    assert [(each.kind, each.name) for each in first.inputs] == [("file", "./data.csv")]
    assert [(each.kind, each.path) for each in first.effects] == [("written", "./result.csv")]
    (read,) = second.inputs
    assert (read.name, read.digests) == ("./result.csv", ("cell:1",))


def test_a_cell_is_known_by_the_id_that_the_notebook_gives_it(shared: Kernel) -> None:
    with version(shared, "ids") as cells:
        content = {"code": "a = 1", "silent": False, "store_history": True}
        shared.finish(shared.send("execute_request", content, metadata={"cellId": "5ee"}))
    assert [each.cell.cell_id for each in cells] == ["5ee"]


def test_only_whole_cells_of_the_user_count(shared: Kernel) -> None:
    with version(shared, "whole") as cells:
        shared.run("get_ipython().run_cell('inner = 1\\nprint(inner)', store_history=True)")
        shared.run("get_ipython().run_cell('')\nouter = 2")
        shared.run("# nothing but a comment")
        shared.run("%chex_record")
        shared.run("")
        shared.execute("silent = 1", silent=True, store_history=False)
        shared.run("not_kept = 1", store_history=False)
        shared.run(LOAD)
    first, second = cells
    assert first.cell.source.startswith("get_ipython().run_cell('inner")
    assert first.stdout == "1\n"
    assert second.cell.source.endswith("outer = 2")


def test_a_cell_that_is_interrupted_has_failed(shared: Kernel) -> None:
    with version(shared, "stopped") as cells:
        for code in ("while True:\n    pass", "import asyncio\nwhile True: await asyncio.sleep(0)"):
            request = shared.submit(f"print('going', flush=True)\n{code}")
            shared.wait_stdout(request, "going")
            shared.interrupt()
            assert shared.finish(request).status == "error"
        shared.run("after = 1")
    assert [each.cell.status for each in cells] == ["error", "error", "ok"]
    for each in cells[:2]:
        assert [output["output_type"] for output in each.outputs] == ["stream", "error"]


def test_forked_processes_record_nothing(shared: Kernel) -> None:
    with version(shared, "forks") as cells:
        shared.run(
            """
            import multiprocessing, os

            def square(x):
                get_ipython().run_cell(f"x = {x}", store_history=True)
                return x * x

            with multiprocessing.get_context("fork").Pool(2) as pool:
                print(pool.map(square, range(3)))
            """
        )
        shared.run("after = 1")
    first, second = cells
    # IPython may say that a child wrote the same line of its history: not ours to forbid.
    assert "[0, 1, 4]" in first.stdout.splitlines()
    assert any("a child process was started" in gap for gap in first.lineage.audit.gaps)
    assert second.cell.source == "after = 1"


def test_a_question_to_the_user_is_a_hint(shared: Kernel) -> None:
    with version(shared, "question") as cells:
        shared.execute("name = input('name? ')", answers=["me"]).ok()
    (hint,) = cells[0].lineage.audit.hints
    assert (hint.kind, hint.line) == ("input", 1)


def test_locks_of_the_user_are_not_released(shared: Kernel) -> None:
    with version(shared, "locks"):
        shared.run("import fcntl\nheld = open('held.db', 'w+')\nfcntl.lockf(held, fcntl.LOCK_EX)")
        shared.run("held.write('changed')\nheld.flush()")
    with (shared.cwd / "held.db").open("r+") as file, pytest.raises(BlockingIOError):
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


# ------------------------------------------------------------ versions


def test_a_version_begins_at_a_fresh_interpreter_or_says_that_it_does_not(tmp_path: Path) -> None:
    with stock(tmp_path / "kernel") as kernel:
        told = kernel.run(f"# first\n{LOAD}\n%chex_record one\nx = 1")
        assert told == f"CHEX: recording version 'one' in {kernel.cwd}\n"
        kernel.run("x = 2")
        assert BEFORE in kernel.run("%chex_record two")
        kernel.run("x = 3")
        kernel.run(CLOSE)
        kernel.run("x = 4")
        folder = kernel.cwd
    first, second = recorded(folder, "one")
    assert first.cell.source.endswith("x = 1")
    assert first.lineage.audit.gaps == ()
    assert (first.cell.taint, second.cell.taint) == ("", "")
    (third,) = recorded(folder, "two")
    assert third.lineage.audit.gaps == (BEFORE,)
    assert third.lineage.number == 1
    assert third.cell.taint


def test_a_branch_begins_with_the_cells_so_far(shared: Kernel) -> None:
    with version(shared, "trunk"):
        shared.run("a = 1")
        shared.run("b = 2")
        told = shared.run("%chex_record twig --here")
        assert told == (
            f"CHEX: recording version 'twig' in {shared.cwd}, after the 2 cells recorded so far\n"
        )
        shared.run("c = 3")
    assert [each.cell.source for each in recorded(shared.cwd, "trunk")] == ["a = 1", "b = 2"]
    twig = recorded(shared.cwd, "twig")
    assert [each.cell.source for each in twig] == ["a = 1", "b = 2", "c = 3"]
    assert twig[2].cell.parent == twig[1].cell.node


def test_what_runs_while_recording_is_off_is_a_gap(shared: Kernel) -> None:
    with version(shared, "pause") as cells:
        shared.run("a = 1")
        shared.run("%chex_record --off")
        assert "recording is off" in shared.run("%chex_record")
        shared.run("b = 2")
        assert WHILE_OFF in shared.run("%chex_record --on")
        shared.run("c = 3")
        shared.run("d = 4")
    assert [each.cell.source for each in cells] == ["a = 1", "c = 3", "d = 4"]
    assert [each.lineage.audit.gaps for each in cells] == [(BEFORE,), (WHILE_OFF,), ()]


def test_a_first_line_names_the_version_of_a_cell(shared: Kernel) -> None:
    first = shared.execute("%%chex_record header\na = 1\na").ok()
    assert first.result["text/plain"] == "1"
    assert "CHEX: recording version 'header'" in first.stderr
    failed = shared.execute("%%chex_record header\n\n1 / 0")
    assert "line 3" in re.sub(r"\x1b\[[0-9;]*m", "", "".join(failed.content["traceback"]))
    shared.run("%%chex_record header\nimport asyncio\nawait asyncio.sleep(0)\nprint('slept')")
    shared.execute("%%chex_record header\n%%time\nb = 2").ok()
    help_text = shared.execute("%%chex_record?").content["payload"][0]["data"]["text/plain"]
    assert "Record the cells" in help_text
    refused = shared.execute("%%chex_record not a name\nc = 3").ok()
    assert "CHEX: version 'not a name' does not get this cell: ' ' cannot be" in refused.stderr
    shared.execute("%chex_record next").ok()
    cells = recorded(shared.cwd, "header")
    assert [each.cell.status for each in cells] == ["ok", "error", "ok", "ok", "ok", "ok"]
    assert cells[2].stdout == "slept\n"
    # What CHEX itself says is no output of the cell.
    assert [output["output_type"] for output in cells[0].outputs] == ["execute_result"]


# ------------------------------------------------------------ when things go wrong


def test_nothing_is_written_before_it_is_asked_for(tmp_path: Path) -> None:
    with stock(tmp_path / "kernel") as kernel:
        kernel.execute("x = 1", silent=True, store_history=False)
        kernel.run(LOAD)
        assert "already loaded" in kernel.execute(LOAD).stdout
        assert "recording is off, no version yet" in kernel.run("%chex_record")
        assert not (kernel.cwd / ".chex").exists()
        assert [process.pid for process in kernel.processes()] == [kernel.process().pid]
        # No cell has run, but there is a variable.
        assert BEFORE in kernel.run("%chex_record one")
        kernel.run("y = x")
        folder = kernel.cwd
    assert recorded(folder, "one")[0].lineage.audit.gaps == (BEFORE,)


def test_a_catalog_that_cannot_be_written_is_told_in_one_line(tmp_path: Path) -> None:
    def refusal() -> str:
        refused = kernel.execute("%chex_record one")
        assert refused.status == "error"
        (line,) = refused.stderr.splitlines()
        status = json.loads(kernel.run("%chex_record --json"))
        assert not status["is_on"]
        assert line == f"UsageError: {status['problem']}"
        assert kernel.run("# still here\nprint(6 * 7)", store_history=False) == "42\n"
        return line

    with stock(tmp_path / "kernel") as kernel:
        kernel.run(LOAD)
        folder = kernel.cwd / ".chex"
        folder.write_text("in the way")
        assert str(folder) in refusal()
        folder.unlink()
        folder.mkdir()
        with closing(sqlite3.connect(folder / "catalog.sqlite")) as connection:
            connection.execute(f"PRAGMA application_id = {int.from_bytes(b'CHEX')}")
            connection.execute("PRAGMA user_version = 999")
        assert "Update chexpoint" in refusal()
        (folder / "catalog.sqlite").unlink()
        assert BEFORE not in kernel.run("%chex_record one")
        kernel.run("x = 1")
    assert [each.cell.source for each in recorded(kernel.cwd, "one")] == ["x = 1"]


def test_cells_go_on_when_what_writes_is_gone(tmp_path: Path) -> None:
    with stock(tmp_path / "kernel") as kernel:
        kernel.run(LOAD)
        kernel.run("%chex_record one")
        kernel.run("x = 1")
        kernel.run("%chex_record two")
        (scribe,) = [p for p in kernel.processes() if "plain_scribe" in p.command]
        os.kill(scribe.pid, signal.SIGKILL)
        assert wait_exit(scribe.pid)
        lines = ""
        for _ in range(100):  # the kernel hears of it at about the same time
            outcome = kernel.execute("x += 1\nx").ok()
            assert int(outcome.result["text/plain"]) > 1
            lines += outcome.stderr
            if lines:
                break
        assert lines == "CHEX: recording stopped: the process that writes has ended\n"
        kernel.run("x += 1")
        kernel.run("%chex_record three")
        kernel.run("y = 1")
        folder = kernel.cwd
    assert [each.cell.source for each in recorded(folder, "one")] == ["x = 1"]
    (third,) = recorded(folder, "three")
    assert third.lineage.audit.gaps == (BEFORE,)


def test_what_ran_before_a_kill_is_recorded(tmp_path: Path) -> None:
    kernel = Kernel(Launch(argv=STOCK), tmp_path / "kernel")
    try:
        kernel.run(LOAD)
        kernel.run("%chex_record one")
        kernel.run("x = 1")
        # It holds what the kernel has open, and lives on.
        fork = "import os, signal\nif not (pid := os.fork()): signal.pause()\nprint(pid)"
        child = int(kernel.run(fork))
        scribe = next(p.pid for p in kernel.processes() if "plain_scribe" in p.command)
        request = kernel.submit("print('going', flush=True)\nwhile True: pass")
        kernel.wait_stdout(request, "going")
        kernel.process().kill()
        assert wait_exit(scribe)
        os.kill(child, signal.SIGKILL)
    finally:
        kernel.close(now=True)
    sources = [each.cell.source for each in recorded(kernel.cwd, "one")]
    assert sources[0] == "x = 1"
    assert len(sources) == 2


# ------------------------------------------------------------ a terminal


def test_ipython_in_a_terminal(tmp_path: Path) -> None:
    env = {**os.environ, "IPYTHONDIR": str(tmp_path / "ipython"), "TERM": "xterm"}
    # Nobody answers where the cursor is.
    env |= {"PYTHONHASHSEED": "0", "PROMPT_TOOLKIT_NO_CPR": "1"}
    shell = pexpect.spawn(
        sys.executable,
        ["-m", "IPython", "--no-banner", "--colors=NoColor"],
        cwd=str(tmp_path),
        env=env,
        encoding="utf-8",
        timeout=40,
    )
    sources = [
        "import sys; print('out', sys.stdout.isatty(), sys.stdout.fileno()); 'result'",
        "print('oops', file=sys.stderr)",
        "print('a'); display({'k': 1}); print('b')",
        "from IPython.display import clear_output; print('gone'); clear_output(); print('kept')",
        "1 / 0",
        "import asyncio; await asyncio.sleep(0); print('slept')",
    ]
    for number, source in enumerate([LOAD, "%chex_record term", *sources], 1):
        shell.expect_exact(f"In [{number}]:")
        shell.send(f"{source}\r")
    shell.expect_exact("In [9]:")
    shell.send("exit\r")
    shell.expect(pexpect.EOF)
    shell.close()
    assert shell.exitstatus == 0

    cells = recorded(tmp_path, "term")
    assert [each.cell.source for each in cells] == sources
    assert [each.cell.status for each in cells] == ["ok", "ok", "ok", "ok", "error", "ok"]
    stream, result = cells[0].outputs
    assert stream["text"] == "out True 1\n"
    assert (result["output_type"], result["data"]) == ("execute_result", {"text/plain": "'result'"})
    assert result["execution_count"] == 3
    assert cells[1].outputs == ({"output_type": "stream", "name": "stderr", "text": "oops\n"},)
    assert [o["output_type"] for o in cells[2].outputs] == ["stream", "display_data", "stream"]
    assert cells[2].outputs[1]["data"] == {"text/plain": "{'k': 1}"}
    assert cells[3].stdout == "kept\n"
    (error,) = cells[4].outputs
    assert (error["output_type"], error["ename"]) == ("error", "ZeroDivisionError")
    assert cells[5].stdout == "slept\n"
    assert all(not each.lineage.audit.gaps for each in cells)
