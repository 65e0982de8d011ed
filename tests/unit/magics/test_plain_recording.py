"""Recording without a supervisor: what counts as a cell, what it showed, and when it fails."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from IPython.core.inputtransformer2 import TransformerManager
from jupyter_client.session import Session

from chexpoint.errors import CatalogError
from chexpoint.lineage import Auditor, Places, Step, code_hash
from chexpoint.magics.plain_link import Assembly
from chexpoint.magics.plain_outputs import CellOutputs, KernelOutputs
from chexpoint.magics.plain_scribe import Scribe
from chexpoint.magics.plain_shell import RunningCell
from chexpoint.project import Project

if TYPE_CHECKING:
    from collections.abc import Iterator

Message = dict[str, Any]


# ------------------------------------------------------------ what counts


def running(source: str) -> RunningCell:
    transform = TransformerManager().transform_cell
    info = SimpleNamespace(
        raw_cell=source, transformed_cell=transform(source), store_history=True, cell_id=None
    )
    return RunningCell(SimpleNamespace(transform_cell=transform), info)


@pytest.mark.parametrize(
    ("source", "is_nothing"),
    [
        ("# a comment", True),
        ("%chex_record v1", True),
        ("%load_ext chexpoint", True),
        ("# first\n%load_ext chexpoint\n%chex_record v1  # named\n", True),
        ("%reload_ext chexpoint\n%unload_ext chexpoint", True),
        ("exit", True),
        ("quit()", True),
        ("%load_ext another", False),
        ("%load_ext chexpoint\nx = 1", False),
        ("x = 1", False),
        ("if done:\n    exit()", False),
        ("text = '''\nexit\n'''", False),
        ("def f(:", False),
        ("!ls", False),
    ],
)
def test_comments_and_lines_for_chex_say_nothing(source: str, is_nothing: bool) -> None:
    assert running(source).says_nothing is is_nothing


@pytest.mark.parametrize(
    ("source", "has_run"),
    [
        ("%chex_record v1\nx = 1", False),
        ("%load_ext chexpoint\n%chex_record v1\nx = 1", False),
        ("%%chex_record v1\nx = 1", False),
        ("x = 1\n%chex_record v1", True),
        ("if True:\n    %chex_record v1", True),
        ("get_ipython().run_line_magic('chex_record', 'v1')", False),
        ("begin()  # runs %chex_record v1", True),
    ],
)
def test_what_comes_before_the_beginning_has_run(source: str, has_run: bool) -> None:
    assert running(source).runs_before_begin is has_run


def test_the_code_is_that_of_the_cell_before_it_ran() -> None:
    cell = running("%time x = 1")
    assert cell.code == code_hash("%time x = 1", TransformerManager().transform_cell)


# ------------------------------------------------------------ outputs


class Sent(list[Message]):
    """Takes what is sent."""

    def texts(self) -> list[list[str]]:
        return [[output["text"] for output in message["outputs"]] for message in self]


def stream(text: str) -> Message:
    return {"name": "stdout", "text": text}


IDLE = {"execution_state": "idle"}


def test_a_cell_is_complete_when_its_request_is_idle() -> None:
    sent = Sent()
    cells = Assembly(sent.append)
    cells.take("one", "stream", stream("too early"))
    cells.begin("one")
    cells.take("one", "stream", stream("a"))
    cells.take("another", "stream", stream("of another request"))
    cells.take("another", "status", IDLE)
    cells.take("one", "status", {"execution_state": "busy"})
    cells.end({"cell": 1}, is_late=True)
    cells.take("one", "stream", stream("b"))
    assert sent == []
    cells.take("one", "status", IDLE)
    cells.take("one", "stream", stream("too late"))
    assert sent.texts() == [["ab"]]
    assert sent[0]["cell"] == 1


def test_a_cell_without_a_request_is_complete_at_its_end() -> None:
    sent = Sent()
    cells = Assembly(sent.append)
    cells.begin("")
    cells.take("", "stream", stream("a"))
    cells.end({}, is_late=False)
    cells.end({}, is_late=False)
    assert sent.texts() == [["a"], []]


def test_the_next_cell_ends_one_whose_request_is_never_idle() -> None:
    sent = Sent()
    cells = Assembly(sent.append)
    cells.begin("one")
    cells.end({"cell": 1}, is_late=True)
    cells.begin("two")
    assert [message["cell"] for message in sent] == [1]
    cells.drop()
    cells.flush()
    assert len(sent) == 1


def test_too_much_is_cut_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chexpoint.magics.plain_outputs._MOST_CHARACTERS", 10)
    outputs = CellOutputs()
    for text in ("12345", "67890", "x", "y"):
        outputs.add("stream", stream(text))
    assert [output["text"] for output in outputs.outputs] == [
        "1234567890",
        "CHEX: what followed was too much to be recorded\n",
    ]
    outputs.add("clear_output", {"wait": False})
    outputs.add("stream", stream("again"))
    assert [output["text"] for output in outputs.outputs] == ["again"]


class Publisher:
    """Stands for the thread through which ipykernel publishes."""

    def __init__(self) -> None:
        self.published: list[list[bytes]] = []

    def send_multipart(self, frames: list[bytes]) -> None:
        self.published.append(frames)


def test_what_a_kernel_publishes_is_read_along_until_it_is_closed() -> None:
    publisher, session = Publisher(), Session(key=b"")
    request = session.msg("execute_request")
    kernel = SimpleNamespace(
        iopub_thread=publisher, session=session, get_parent=lambda _: {"header": request["header"]}
    )
    taken: list[tuple[str, str]] = []
    outputs = KernelOutputs(
        kernel, lambda job: job(), lambda mark, kind, _: taken.append((mark, kind))
    )

    def publish(kind: str) -> None:
        message = session.msg(kind, stream("a"), parent=request)
        publisher.send_multipart(session.serialize(message, ident=b"topic"))

    publish("stream")
    mark = outputs.begin()
    for kind in ("stream", "comm_msg", "status"):
        publish(kind)
    outputs.begin()
    publish("stream")
    outputs.close()
    publish("stream")
    assert taken == [(mark, "stream"), (mark, "status"), (mark, "stream")]
    assert mark == request["header"]["msg_id"]
    assert len(publisher.published) == 6
    assert vars(publisher).keys() == {"published"}


# ------------------------------------------------------------ writing


class Desk:
    """A scribe with a real project, whose lineages are waited for."""

    def __init__(self, folder: Path) -> None:
        self.project = Project.at(folder)
        self.told: list[Message] = []
        self._concluded = threading.Event()
        auditor = Auditor(str(folder), wake=self._concluded.set)
        auditor.start(0, Step(None), listener=None, mechanism="audit hook")
        self.scribe = Scribe(
            self.project, auditor, Places(str(folder)), session="here", tell=self.told.append
        )

    def begin(self, name: str, *, is_branch: bool = False, token: int = 0) -> None:
        self.scribe.take(
            {"op": "version", "name": name, "origin": "", "is_branch": is_branch, "token": token}
        )

    def run(self, *sources: str) -> None:
        for source in sources:
            cell = {
                "source": source,
                "code": source,
                "execution_count": 1,
                "seconds": 0.0,
                "size_bytes": 0,
                "status": "ok",
                "report": {},
            }
            self.scribe.take({"op": "cell", "cell": cell, "cell_id": "", "outputs": []})

    def finish(self) -> None:
        while self.scribe.is_waiting:
            assert self._concluded.wait(10)
            self._concluded.clear()
            self.scribe.conclude()

    def sources(self, version: str) -> list[str]:
        return [c.source for c in self.project.cells(self.project.version(version))]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    desk.project.close()


def test_cells_are_written_in_order_to_their_versions(desk: Desk) -> None:
    desk.begin("one", token=1)
    desk.run("a", "b")
    desk.begin("branch", is_branch=True, token=2)
    desk.run("c")
    desk.begin("two", token=3)
    desk.run("d")
    desk.finish()
    assert desk.told == [{"token": 1}, {"token": 2}, {"token": 3}]
    assert desk.sources("one") == ["a", "b"]
    assert desk.sources("branch") == ["a", "b", "c"]
    assert desk.sources("two") == ["d"]
    (first,) = desk.project.cells(desk.project.version("two"))
    assert desk.project.lineage(first.execution).number == 1


def test_a_name_that_is_refused_leaves_everything_as_it_was(desk: Desk) -> None:
    desk.begin("one")
    desk.run("a")
    desk.finish()
    desk.begin("not a name", token=7)
    desk.run("b")
    desk.finish()
    (refusal,) = [answer for answer in desk.told if "error" in answer]
    assert refusal["token"] == 7
    assert desk.sources("one") == ["a", "b"]


def test_nothing_is_written_after_a_failure(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.begin("one")
    desk.run("a")
    desk.finish()
    write = Project.record

    def refuse(*_: object, **__: object) -> int:
        raise CatalogError("the disk is full.")

    monkeypatch.setattr(Project, "record", refuse)
    desk.run("b")
    desk.finish()
    monkeypatch.setattr(Project, "record", write)
    desk.run("c")
    assert desk.told[-1] == {"problem": "the disk is full."}
    assert desk.sources("one") == ["a"]


# ------------------------------------------------------------ a shell of its own

SHELL = """
import builtins, json, sys, threading
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config
from chexpoint.magics import plain_recording as module

shell = InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
recording = module.plain_recording(shell)

def run(source):
    return shell.run_cell(source, store_history=True)

def begin(name, **options):
    shell.push({"told": recording.begin(name, **options)}, interactive=False)
"""


def in_shell(folder: Path, script: str, *, hash_seed: str = "0") -> tuple[Any, str]:
    """Run a script beside a shell; return the JSON it prints last, and its standard error."""
    done = subprocess.run(
        [sys.executable, "-c", SHELL + script],
        cwd=folder,
        env={"PYTHONHASHSEED": hash_seed, "IPYTHONDIR": str(folder / "ipython")},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def gaps(folder: Path, version: str) -> list[tuple[str, ...]]:
    project = Project.at(folder)
    cells = project.cells(project.version(version))
    return [project.lineage(cell.execution).audit.gaps for cell in cells]


@pytest.mark.slow
def test_everything_is_put_back_when_it_is_closed(tmp_path: Path) -> None:
    script = """
def attributes():
    targets = [shell.display_pub, shell.displayhook, sys.stderr, builtins]
    names = ["publish", "clear_output", "write_format_data", "start_displayhook", "write", "input"]
    found = [str(vars(target).get(name)) for target in targets for name in names]
    hooks = [str(f) for event in shell.events.callbacks.values() for f in event]
    return [found, hooks, len(shell.input_transformers_cleanup), "_showtraceback" in vars(shell)]

recording.close()
run("# as IPython leaves its streams")
before = attributes()
recording = module.plain_recording(shell)
begin("one")
run("x = 1")
run("1 / 0")
recording.close()
run("y = 2")
print(json.dumps([before == attributes(), module.plain_recording(shell) is recording]))
"""
    assert in_shell(tmp_path, script)[0] == [True, False]
    assert gaps(tmp_path, "one") == [(), ()]


@pytest.mark.slow
def test_cells_of_other_threads_and_lost_ones_are_gaps(tmp_path: Path) -> None:
    script = """
begin("one")
run("x = 1")
thread = threading.Thread(target=run, args=("y = 2",))
thread.start()
thread.join()
run("z = 3")
finish = recording._watch.finish

def interrupted(source):
    recording._watch.finish = finish
    raise KeyboardInterrupt

recording._watch.finish = interrupted
run("lost = 4")
run("found = 5")
recording.close()
print(json.dumps([module.ELSEWHERE, module.LOST]))
"""
    (elsewhere, lost), _ = in_shell(tmp_path, script)
    assert gaps(tmp_path, "one") == [(), (elsewhere,), (lost,)]


@pytest.mark.slow
def test_an_error_of_ours_stops_recording_and_nothing_else(tmp_path: Path) -> None:
    script = """
begin("one")
run("x = 1")

def broken(source):
    raise RuntimeError("a bug")

recording._watch.finish = broken
results = [run("x + 1").result, run("x + 2").result]
status = recording.status()
recording.close()
print(json.dumps([results, status.is_on, status.problem]))
"""
    answer, errors = in_shell(tmp_path, script)
    assert answer == [[2, 3], False, "RuntimeError: a bug"]
    assert errors == "CHEX: recording stopped: RuntimeError: a bug\n"
    assert gaps(tmp_path, "one") == [()]


@pytest.mark.slow
@pytest.mark.parametrize("hash_seed", ["0", "7", "random"])
def test_the_order_of_sets_is_known_or_said_not_to_be(tmp_path: Path, hash_seed: str) -> None:
    script = """
import os
os.environ["PYTHONHASHSEED"] = "5"  # too late to have any effect
print(json.dumps([module.hash_seed(), recording._begun(is_branch=False)]))
"""
    (found, told), _ = in_shell(tmp_path, script, hash_seed=hash_seed)
    assert found == hash_seed
    assert any("share no cells" in line for line in told) is (hash_seed == "random")
