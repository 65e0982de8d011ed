"""``chex record`` with real engines: scripts do what Python does, and failures end well."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from chexpoint.project import Project
from chexpoint.project.batch import Batch, VersionRun
from chexpoint.project.batch_plan import plan_versions
from chexpoint.project.parameters import combinations
from chexpoint.project.sources import read_source
from tests.support.studies import write_notebook

pytestmark = pytest.mark.slow

TIMEOUT_S = 120.0


def notebook(path: Path, *sources: str) -> Path:
    return write_notebook(path, sources)


def script(path: Path, text: str) -> Path:
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project of most versions here: an engine is started once for a folder."""
    return tmp_path_factory.mktemp("project")


@pytest.fixture(scope="module")
def batch() -> Iterator[Batch]:
    with Batch(timeout_s=TIMEOUT_S) as started:
        yield started


def recorded(
    batch: Batch,
    file: Path,
    *options: str,
    project: Path | None = None,
    arguments: Sequence[str] = (),
) -> VersionRun:
    (task,) = plan_versions(
        [read_source(file)], combinations(options), folder=project, arguments=tuple(arguments)
    )
    return batch.record(task)


def outputs(run: VersionRun) -> list[dict[str, Any]]:
    """Return what all cells of a version showed, from the catalog."""
    project = Project.at(run.task.folder)
    version = project.version(f"{run.task.name}@{run.number}")
    assert [cell.node for cell in project.cells(version)] == [
        cell.node for cell in run.cells if cell.node is not None
    ]
    return [output for cell in project.cells(version) for output in project.outputs(cell.execution)]


def printed(run: VersionRun, name: str = "stdout") -> str:
    shown = [o for o in outputs(run) if o["output_type"] == "stream" and o["name"] == name]
    return "".join(output["text"] for output in shown)


def error_of(run: VersionRun) -> str:
    error = run.cells[-1].error
    return "" if error is None else f"{error.ename}: {error.evalue}"


# ---------------------------------------------------------------- scripts, as Python runs them

SCRIPTS = {
    "names": """\
        '''About.'''
        from __future__ import annotations
        import os, sys

        print(sorted(globals()), __doc__, __name__, __package__, __spec__, __cached__)

        "a string that is not the docstring"

        print(__doc__, __file__, sys.argv, sys.path, sys.orig_argv[1:], os.getcwd())
        x: Unknown = 1

        def f(a: Unknown) -> None: pass

        print(__annotations__, f.__annotations__, globals() is locals())
        import __main__
        print(__main__.x, sys.modules["__main__"] is __main__, type(__builtins__), type(__loader__))
        """,
    "no_ipython": """\
        import os, sys
        ls, l, x = 5, 2, 1

        ls -l

        print(ls -l)
        x
        for name in ("get_ipython", "display", "In", "_", "__IPYTHON__"):
            try:
                print(name, eval(name))
            except NameError as error:
                print(error)

        from IPython import get_ipython
        from IPython.display import display
        print(get_ipython(), hasattr(sys, "ps1"), exit, quit, open)
        display("shown as text")
        print([os.environ.get(name) for name in ("FORCE_COLOR", "MPLBACKEND", "PAGER", "TERM")])
        """,
    "streams": """\
        import io, sys
        print(sys.stdout.encoding, sys.stdout.errors, sys.stdout.name, sys.stdout.mode)
        print(type(sys.stdout), sys.stdout is sys.__stdout__, sys.stdout.fileno(), sys.stdin.read())
        sys.stdout.reconfigure(line_buffering=True)

        sys.stdout.buffer.write("bytes é\\n".encode())

        try:
            input("prompt> ")
        except EOFError as error:
            print(error)

        class Loud(io.TextIOBase):
            def write(self, text): return sys.__stdout__.write(text.upper())

        sys.stdout = Loud()

        print("loud")

        sys.stdout = sys.__stdout__

        print("quiet", file=sys.stdout)
        """,
    "loops": """\
        import asyncio

        async def main():
            await asyncio.sleep(0)
            return 1

        print(asyncio.run(main()))

        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)

        print(asyncio.get_event_loop() is loop, loop.run_until_complete(main()))

        loop.close()
        """,
    "exit_0": """\
        import atexit, sys
        atexit.register(print, "bye")

        file = open("exit_0.txt", "w")
        file.write("flushed at the end")

        print("before")
        if __name__ == "__main__":
            sys.exit()

        print("never")
        """,
    "exit_3": "print('before')\n\nexit(3)\n\nprint('never')\n",
    "exit_words": "import sys\n\nsys.exit('words')\n",
    "exit_256": "raise SystemExit(256)\n\nprint('never')\n",
    "end": """\
        import atexit, gzip, threading
        from concurrent.futures import ThreadPoolExecutor

        @atexit.register
        def last():
            print("last")

        go = threading.Event()

        def late(name):
            go.wait()
            with open(f"end_{name}.txt", "w") as file:
                file.write("late")

        threading.Thread(target=late, args=("thread",)).start()
        executor = ThreadPoolExecutor(1)
        future = executor.submit(late, "executor")

        text = open("end_open.txt", "w")
        text.write("flushed at the end")
        zipped = gzip.GzipFile("end_open.gz", "w", mtime=0)
        zipped.write(b"closed at the end")

        print("end")
        go.set()
        """,
    "failing": """\
        import logging, warnings
        logging.basicConfig(format="%(filename)s:%(lineno)d: %(message)s")

        # %% a mark
        def f(x):
            return 1 / x

        # %% [markdown]
        # Text, which is not run
        # %%
        warnings.warn("careful")
        logging.warning("more careful")

        # %%

        f(0)
        # %%
        print("never")
        """,
    "hook": """\
        import sys

        def hook(kind, value, traceback):
            print("hook", kind.__name__, value, traceback.tb_lineno)

        sys.excepthook = hook

        raise ValueError("no")
        """,
    "signals": """\
        import os, signal
        signal.signal(signal.SIGINT, lambda *_: print("handled"))

        os.kill(os.getpid(), signal.SIGINT)
        print("goes on")
        """,
    "processes": """\
        import multiprocessing, os, subprocess, sys

        def work(x):
            return x * x, __name__

        if __name__ == "__main__":
            for method in ("fork", "spawn"):
                with multiprocessing.get_context(method).Pool(1) as pool:
                    print(method, pool.map(work, range(3)))

        pid = os.fork()
        if pid == 0:
            open("processes_child.txt", "w").close()
            sys.exit(0)

        print(os.waitpid(pid, 0)[1])
        print(subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True).stdout)
        """,
    "inspecting": """\
        import dataclasses, inspect, pickle

        @dataclasses.dataclass
        class Point:
            x: int = 1


        def f():
            # inside
            return 1

        print(inspect.getsource(f), inspect.getsource(Point), f.__code__.co_firstlineno)
        print(pickle.loads(pickle.dumps(Point(2))), f.__module__, inspect.getsourcefile(f))
        """,
    "arguments": """\
        import argparse

        parser = argparse.ArgumentParser()
        parser.add_argument("--count", type=int)
        print(parser.parse_args().count)
        parser.print_help()
        """,
    "empty": "",
}


def files_in(folder: Path, but: set[str]) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if path.is_file() and path.name not in but
    }


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_does_what_python_does(name: str, folder: Path, batch: Batch) -> None:
    file = script(folder / f"{name}.py", SCRIPTS[name])
    before = {path.name for path in folder.iterdir()}
    arguments = ["--count", "3"] if name == "arguments" else []
    real = subprocess.run(
        [sys.executable, file.name, *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    written = files_in(folder, but=before)
    for each in written:
        (folder / each).unlink()

    run = recorded(batch, file, arguments=arguments)

    assert printed(run) == real.stdout
    assert files_in(folder, but=before) == written
    assert (run.status == "ok") is (real.returncode == 0), error_of(run)
    errors = [output for output in outputs(run) if output["output_type"] == "error"]
    tracebacks = "".join(f"{line}\n" for output in errors for line in output["traceback"])
    if name not in {"exit_3", "exit_words", "hook"}:  # Python prints no traceback there
        assert printed(run, "stderr") + tracebacks == real.stderr


def test_cells_of_a_script_are_its_lines_and_have_their_hashes(folder: Path, batch: Batch) -> None:
    file = script(folder / "plain.py", "import os\n\n\n# a comment\nx = 1\n")
    run = recorded(batch, file)
    assert [cell.cell.source for cell in run.cells[1:]] == ["import os\n\n", "# a comment\nx = 1"]
    again = script(folder / "plain.py", "import   os\n\nx = (1)\n\ny = 2\n")
    assert [cell.node for cell in recorded(batch, again).cells[:3]] == [
        cell.node for cell in run.cells
    ]
    other = script(folder / "other.py", "import os\n\nx = 1\n")
    assert recorded(batch, other).cells[0].node != run.cells[0].node  # another __file__


def test_nothing_is_read_that_the_script_does_not_read(folder: Path, batch: Batch) -> None:
    """Else an edit further down would change the lineage of the cells above it."""
    text = "import warnings\n\nwarnings.warn('w')\n\ndef f():\n    1 / 0\n\nf()\n"
    run = recorded(batch, script(folder / "reads.py", text))
    assert run.status == "error"
    project = Project.at(folder)
    for cell in project.cells(project.version("reads")):
        inputs = [each.name for each in project.lineage(cell.execution).audit.inputs]
        assert inputs == [], cell.source


def test_a_recorded_script_can_be_run_again_from_its_cells_alone(
    tmp_path: Path, folder: Path, batch: Batch
) -> None:
    file = script(folder / "again.py", "import sys\n\nprint(sys.argv, __file__)\n\nsys.exit(0)\n")
    run = recorded(batch, file, arguments=["a b"])
    project = Project.at(folder)
    cells = project.cells(project.version("again"))
    copy = notebook(tmp_path / "copy.ipynb", *(cell.source for cell in cells))
    with Batch() as other:
        elsewhere = recorded(other, copy)
    assert [cell.node for cell in elsewhere.cells] == [cell.node for cell in run.cells]
    assert printed(elsewhere) == printed(run).replace(str(folder), str(tmp_path))


def test_parameters_are_set_below_their_defaults(folder: Path, batch: Batch) -> None:
    text = "'''Doc.'''\n\n# parameters\nlr, n = 1, 2\n\nprint(lr, n, __doc__)\n1 / 0\n"
    file = script(folder / "tuned.py", text)
    run = recorded(batch, file, "lr=0.5")
    assert printed(run) == "0.5 2 Doc.\n"
    assert [cell.cell.kind for cell in run.cells] == [
        *("set-up", "cell", "cell", "parameters", "cell")
    ]
    error = run.cells[-1].error
    assert error is not None
    assert "line 7, in <module>" in error.traceback[-2]  # the added cell does not count


# ---------------------------------------------------------------- notebooks


def test_a_notebook_runs_as_in_jupyter(tmp_path: Path, batch: Batch) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "data.txt").write_text("data")
    file = notebook(
        tmp_path / "sub" / "a.ipynb",
        "x = open('data.txt').read()",
        "# only a comment",
        "%chex_status",
        "x + '!'",
        "import asyncio; await asyncio.sleep(0)",
        "!echo from the shell",
    )
    run = recorded(batch, file, project=tmp_path)
    assert run.status == "ok", error_of(run)
    project = Project.at(tmp_path)
    version = project.version("a")
    assert version.origin == "sub/a.ipynb"
    cells = project.cells(version)
    assert [cell.cell_id for cell in cells] == ["", "cell-0", "cell-3", "cell-4", "cell-5"]
    assert project.outputs(cells[2].execution)[0]["data"]["text/plain"] == "'data!'"
    assert [cell.node is None for cell in run.cells] == [False, False, True, True, *[False] * 3]
    inputs = project.lineage(cells[1].execution).audit.inputs
    assert [each.name for each in inputs] == ["./sub/data.txt"]


def test_every_version_begins_in_a_fresh_state(folder: Path, batch: Batch) -> None:
    first = notebook(folder / "first.ipynb", "x = 1", "%chex_checkpoint mine", "y = 2")
    run = recorded(batch, first)
    second = notebook(folder / "second.ipynb", "x = 1", "'y' in globals()", "%chex_restore mine")
    again = recorded(batch, second)
    assert again.cells[0].node == run.cells[0].node
    assert outputs(again)[0]["data"]["text/plain"] == "False"
    assert "no checkpoint 'mine'" in error_of(again)  # it was another version's


def test_going_back_in_a_notebook_leads_to_another_version(folder: Path, batch: Batch) -> None:
    cells = ("x = 1\n%chex_checkpoint a", "x = 2", "%chex_restore a", "print(x)")
    run = recorded(batch, notebook(folder / "back.ipynb", *cells))
    assert (run.status, run.number) == ("ok", 2)
    project = Project.at(folder)
    paths = [
        [cell.source for cell in project.cells(version)]
        for version in project.versions()
        if version.name == "back"
    ]
    assert paths == [[cells[0], cells[1]], [cells[0], cells[3]]]


FAILURES = {
    "error": ("1 / 0", "ZeroDivisionError: division by zero"),
    "syntax": ("x = = 1", "SyntaxError: invalid syntax"),
    "magic": ("%%no_such_magic\nx = 1", "UsageError: Cell magic `%%no_such_magic` not found."),
    "killed": ("import os; os.kill(os.getpid(), 9)", "WorkerDied: The worker process died"),
    "ended": ("exit()", "WorkerDied: the cell has ended the process that runs the cells"),
    "input": ("input()", "StdinNotImplementedError"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_version_ends_with_the_cell_that_fails(name: str, folder: Path, batch: Batch) -> None:
    source, message = FAILURES[name]
    run = recorded(batch, notebook(folder / f"{name}.ipynb", "x = 1", source, "y = 2"))
    assert run.status == "error"
    assert error_of(run).startswith(message)
    project = Project.at(folder)
    version = project.version(f"{name}@{run.number}")
    assert version.status == "error"
    assert [cell.source for cell in project.cells(version)] == ["x = 1", source]
    assert [cell.status for cell in project.cells(version)] == ["ok", "error"]


def test_a_cell_may_take_so_long_and_no_longer(tmp_path: Path) -> None:
    # Waiting costs nothing, and a cell that does little ends in time on any machine.
    file = notebook(tmp_path / "a.ipynb", "import time\nwhile True: time.sleep(1)", "y = 2")
    with Batch(timeout_s=5.0) as impatient:
        run = recorded(impatient, file)
        assert error_of(run) == "EngineTimeout: the cell did not end in 5.0 s, and was interrupted"
        quick = recorded(impatient, notebook(tmp_path / "b.ipynb", "x = 1"))
        assert quick.status == "ok"
    assert [version.status for version in Project.at(tmp_path).versions()] == ["error", "ok"]


# ---------------------------------------------------------------- the command

CHEX = [sys.executable, "-m", "chexpoint", "record"]


def chex(folder: Path, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CHEX, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
        **options,
    )


def test_files_times_parameters(tmp_path: Path) -> None:
    script(tmp_path / "train.py", "# parameters\nlr = 1\n\nprint(lr)\n")
    notebook(tmp_path / "bad.ipynb", "x = 1", "1 / 0", "y = 2")
    (tmp_path / "broken.ipynb").write_text("{")
    done = chex(tmp_path, "train.py", "-p", "lr=0.1,0.2", "bad.ipynb", "broken.ipynb", "--json")
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert [version["label"] for version in told["versions"]] == [
        *("train,lr=0.1", "train,lr=0.2", "bad,lr=0.1", "bad,lr=0.2")
    ]
    first, _, third, _ = told["versions"]
    assert first["parameters"] == {"lr": 0.1}
    assert first["project"] == str(tmp_path)
    assert [cell["number"] for cell in first["cells"]] == [None, 1, None, 2]
    assert third["status"] == "error"
    assert [cell["error"] for cell in third["cells"]] == [
        *(None, None, "ZeroDivisionError: division by zero")
    ]
    assert told["unread"][0]["file"] == "broken.ipynb"
    lines = done.stderr.splitlines()
    assert lines[0].startswith("chex: broken.ipynb: not JSON")
    assert lines[1] == "chex: bad.ipynb: cell 2 of bad,lr=0.1: ZeroDivisionError: division by zero"
    assert len(lines) == 3
    project = Project.at(tmp_path)
    assert printed_by(project, "train,lr=0.2") == "0.2\n"


def printed_by(project: Project, ref: str) -> str:
    shown = [
        o for cell in project.cells(project.version(ref)) for o in project.outputs(cell.execution)
    ]
    return "".join(output["text"] for output in shown)


def test_an_interrupt_ends_the_cell_and_keeps_what_is_recorded(tmp_path: Path) -> None:
    script(tmp_path / "quick.py", "x = 1\n")
    text = "x = 1\n\nopen('ready', 'w').close()\nimport time\nwhile True: time.sleep(1)\n\ny = 2\n"
    script(tmp_path / "slow.py", text)
    os.mkfifo(tmp_path / "ready")
    command = subprocess.Popen(
        [*CHEX, "quick.py", "slow.py", "quick.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    (tmp_path / "ready").read_bytes()  # the cell has begun
    command.send_signal(signal.SIGINT)
    told, errors = command.communicate(timeout=TIMEOUT_S)
    assert command.returncode == 130
    assert errors == "chex: interrupted\n"
    assert "slow: 3 cells" in told
    versions = Project.at(tmp_path).versions()
    assert [(version.name, version.status) for version in versions] == [
        *(("quick", "ok"), ("slow", "error"))
    ]


# Only the command has no room: the engine runs already when it is taken away.
FULL_DISK = """
import resource, sys
from chexpoint.cli.record import record_all
from chexpoint.cli.record_report import Report
from chexpoint.project import plan_versions, read_source

def watch(task, done, total):
    if task.name == "large":
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))

report = Report()
record_all(plan_versions([read_source(name) for name in sys.argv[1:]], [()]), report, watch)
sys.exit(report.exit_code)
"""


def test_a_full_disk_is_told_and_loses_nothing(tmp_path: Path) -> None:
    script(tmp_path / "small.py", "print('small')\n")
    large = "import random\n\nprint('x')\n\nprint(random.randbytes(2_000_000).hex())\n\ny = 2\n"
    script(tmp_path / "large.py", large)
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, "small.py", "large.py", "small.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "the disk is full" in line
    project = Project.at(tmp_path)
    assert [version.name for version in project.versions()] == ["small", "large"]
    assert printed_by(project, "small") == "small\n"
    assert printed_by(project, "large") == "x\n"


def test_two_files_cannot_have_one_name(tmp_path: Path) -> None:
    done = chex(tmp_path, "a.py", "b.py", "--name", "x")
    assert done.returncode == 2
    assert "one by one" in done.stderr
