"""What a program logs is heard, and the program does not notice."""

# ruff: noqa: T201 - what is heard here is print

from __future__ import annotations

import builtins
import io
import json
import logging
import math
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from enum import IntEnum
from fractions import Fraction
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from chexpoint.hindsight.jsonable import LARGEST, from_jsonable, jsonable
from chexpoint.hindsight.loggers import Call, LogTap, log

PLAIN_PRINT = builtins.print


class Heard(list[Call]):
    """A tap, and what it has caught."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.tap = LogTap(self.append, **options)

    @property
    def values(self) -> list[tuple[str, str, Any]]:
        return [(call.via, call.name, call.value) for call in self]


@pytest.fixture
def heard() -> Iterator[Heard]:
    """A tap that is installed."""
    heard = Heard()
    heard.tap.install()
    yield heard
    heard.tap.remove()
    assert builtins.print is PLAIN_PRINT


# ------------------------------------------------------------ print


def test_print_is_heard_and_shown(heard: Heard, capsys: pytest.CaptureFixture[str]) -> None:
    print("loss", 0.5, sep="=")
    print(0.1 + 0.2)
    print(np.float32(0.1), file=sys.stderr)
    print(torch.tensor(2.5))
    print([1, 2])
    print(None)
    print()
    assert [call.value for call in heard] == [
        "loss=0.5",
        0.1 + 0.2,
        float(np.float32(0.1)),
        2.5,
        "[1, 2]",
        None,
        "",
    ]
    assert {(call.via, call.name) for call in heard} == {("print", "print")}
    out, err = capsys.readouterr()
    assert out == "loss=0.5\n0.30000000000000004\ntensor(2.5000)\n[1, 2]\nNone\n\n"
    assert err == "0.1\n"


def test_line_is_that_of_the_program(heard: Heard) -> None:
    here = sys._getframe().f_lineno
    print("a")
    log(b=1)
    assert [(call.line, call.file) for call in heard] == [
        (here + 1, __file__),
        (here + 2, __file__),
    ]


def test_line_is_that_of_the_nearest_frame_of_the_user() -> None:
    def is_user(code: CodeType) -> bool:
        return code.co_name.startswith("test_")

    def helper() -> None:
        print("from a helper")

    heard = Heard(is_user=is_user)
    heard.tap.install()
    try:
        line = sys._getframe().f_lineno + 1
        helper()
    finally:
        heard.tap.remove()
    assert [call.line for call in heard] == [line]


def test_print_to_a_file_is_not_a_log(heard: Heard) -> None:
    file = io.StringIO()
    print("to a file", file=file)
    assert file.getvalue() == "to a file\n"
    assert not heard


def test_text_of_an_object_is_made_once(heard: Heard, capsys: pytest.CaptureFixture[str]) -> None:
    class Counts:
        made = 0

        def __str__(self) -> str:
            self.made += 1
            print("inside")
            return f"text {self.made}"

    print(Counts(), "and")
    assert [call.value for call in heard] == ["text 1 and"]
    assert capsys.readouterr().out == "inside\ntext 1 and\n"


def test_errors_of_print_are_those_of_python(heard: Heard) -> None:
    class Silent:
        def __str__(self) -> str:
            raise LookupError("no text")

    with pytest.raises(LookupError, match="no text"):
        print(Silent())
    with pytest.raises(TypeError, match="sep must be None or a string"):
        print(1, 2, sep=3)  # type: ignore[call-overload]
    print("after")
    assert [call.value for call in heard] == ["after"]


def test_print_stays_what_it_is_in_classes_and_pickles(
    heard: Heard, capsys: pytest.CaptureFixture[str]
) -> None:
    class Reports:
        show = print

    Reports().show("no self")
    assert capsys.readouterr().out == "no self\n"
    assert [call.value for call in heard] == ["no self"]
    kept = print
    heard.tap.remove()
    assert pickle.loads(pickle.dumps(kept)) is PLAIN_PRINT  # noqa: S301 - our own
    kept("later")
    assert len(heard) == 1


def test_failing_to_take_is_not_seen(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(_: Call) -> None:
        raise RuntimeError("full")

    tap = LogTap(fail)
    tap.install()
    try:
        print("still shown")
        log(loss=1)
    finally:
        tap.remove()
    assert capsys.readouterr().out == "still shown\nloss: 1\n"


def test_other_threads_pass_through(heard: Heard, capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        print("other")
        log(other=1)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    print("own")
    assert [call.value for call in heard] == ["own"]
    assert capsys.readouterr().out == "other\nother: 1\nown\n"


def test_process_that_is_forked_off_is_not_heard(heard: Heard) -> None:
    reading, writing = os.pipe()
    if not (child := os.fork()):
        print("in the child")
        os.write(writing, str(len(heard)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 10) == b"0"
    os.close(reading)
    os.close(writing)
    print("in the parent")
    assert len(heard) == 1


def test_second_tap_takes_over(heard: Heard) -> None:
    other = Heard()
    other.tap.install()
    print("once")
    other.tap.remove()
    print("never")
    assert (len(heard), len(other)) == (0, 1)


def test_replaced_by_somebody_else_is_left_alone() -> None:
    heard = Heard()
    heard.tap.install()
    ours = builtins.print

    def wrapper(*args: Any, **kwargs: Any) -> None:
        ours(*args, **kwargs)

    try:
        builtins.print = wrapper
        print("through both")
        heard.tap.remove()
        assert builtins.print is wrapper
        print("after")
    finally:
        builtins.print = PLAIN_PRINT
    assert [call.value for call in heard] == ["through both"]


# ------------------------------------------------------------ log


def test_log_shows_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    log(loss=0.1234567891, epoch=3, name="x", worst=math.nan)
    assert capsys.readouterr().out == "loss: 0.123457  epoch: 3  name: x  worst: nan\n"


def test_log_is_heard_by_name_and_silent_in_a_replay(
    heard: Heard, capsys: pytest.CaptureFixture[str]
) -> None:
    heard.tap.forward = False
    log(loss=torch.tensor(0.5), parts=np.arange(3), facts={"a": [1]})
    assert heard.values == [
        ("log", "loss", 0.5),
        ("log", "parts", [0, 1, 2]),
        ("log", "facts", {"a": [1]}),
    ]
    assert capsys.readouterr().out == ""


# ------------------------------------------------------------ logging


def test_logging_of_the_program_is_heard(heard: Heard, caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("training")
    with caplog.at_level(logging.INFO):
        logger.info("loss %.2f", 0.5)
        logger.debug("not shown")
        logging.warning("root")  # noqa: LOG015 - users do
    assert heard.values == [
        ("logging", "training", "loss 0.50"),
        ("logging", "root", "root"),
    ]
    assert caplog.messages == ["loss 0.50", "root"]


def test_logging_of_libraries_is_not(heard: Heard, caplog: pytest.LogCaptureFixture) -> None:
    import asyncio

    with caplog.at_level(logging.DEBUG, logger="asyncio"):
        asyncio.new_event_loop().close()
    assert caplog.messages
    assert not heard


def test_logging_that_fails_fails_as_before(
    heard: Heard, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    logging.getLogger("training").warning("%d", "no number")
    assert not heard


# ------------------------------------------------------------ libraries, as programs use them

RUNNER = """
import json, runpy, sys
from chexpoint.hindsight.loggers import LogTap
calls = []
tap = LogTap(calls.append, forward=sys.argv[2] == "forward")
tap.install()
import builtins
builtins.refresh = tap.refresh
builtins.remove = tap.remove
runpy.run_path(sys.argv[1], run_name="__main__")
tap.remove()
with open("calls.json", "w") as out:
    json.dump([[c.via, c.name, c.value, c.line] for c in calls], out)
"""


def run(folder: Path, program: str, *, forward: bool = True) -> list[list[Any]]:
    """Return what was heard of a program: via, name, value and line of each call."""
    (folder / "program.py").write_text(program)
    (folder / "runner.py").write_text(RUNNER)
    mode = "forward" if forward else "replay"
    local = {
        "WANDB_MODE": "offline",
        "WANDB_SILENT": "true",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_ALLOW_FILE_STORE": "true",
    }
    subprocess.run(
        [sys.executable, "runner.py", "program.py", mode],
        cwd=folder,
        env={**os.environ, **local, "HOME": str(folder)},
        check=True,
        timeout=120,
    )
    found: list[list[Any]] = json.loads((folder / "calls.json").read_text())
    return found


TENSORBOARD = """
from MODULE import SummaryWriter
writer = SummaryWriter("runs")
refresh()
original = type(writer).add_scalar.__wrapped__
writer.add_scalar("loss", 0.25, 1)
writer.add_scalars("acc", {"train": 0.5, "val": 0.75}, global_step=1)
writer.add_text(tag="note", text_string="hello")
writer.add_histogram("weights", __import__("numpy").array([1.0, 3.0]), 1)
writer.close()
remove()
assert type(writer).add_scalar is original
"""
TENSORBOARD_CALLS = [
    ["tensorboard", "loss", 0.25, 6],
    ["tensorboard", "acc/train", 0.5, 7],
    ["tensorboard", "acc/val", 0.75, 7],
    ["tensorboard", "note", "hello", 8],
    [
        "tensorboard",
        "weights",
        {"count": 2, "mean": 2.0, "std": 1.0, "min": 1.0, "max": 3.0},
        9,
    ],
]


@pytest.mark.slow
@pytest.mark.parametrize("module", ["torch.utils.tensorboard", "tensorboardX"])
@pytest.mark.parametrize("forward", [True, False])
def test_tensorboard(tmp_path: Path, module: str, forward: bool) -> None:
    pytest.importorskip("tensorboard" if module.startswith("torch") else module)
    found = run(tmp_path, TENSORBOARD.replace("MODULE", module), forward=forward)
    assert found == TENSORBOARD_CALLS
    sent = b"".join(path.read_bytes() for path in (tmp_path / "runs").rglob("*tfevents*"))
    assert (b"weights" in sent) == forward


MLFLOW = """
import mlflow
from mlflow import log_metric
mlflow.set_tracking_uri("file:mlruns")
refresh()
mlflow.log_metric("loss", 0.5, step=1)
mlflow.log_metrics({"a": 1.0, "b": float("nan")}, step=1)
assert mlflow.log_param("rate", 0.1) == 0.1
mlflow.log_params({"layers": 2})
log_metric("early", 2.0)
mlflow.end_run()
remove()
"""


@pytest.mark.slow
@pytest.mark.parametrize("forward", [True, False])
def test_mlflow(tmp_path: Path, forward: bool) -> None:
    pytest.importorskip("mlflow")
    found = run(tmp_path, MLFLOW, forward=forward)
    assert [call[:3] for call in found] == [
        ["mlflow", "loss", 0.5],
        ["mlflow", "a", 1.0],
        ["mlflow", "b", {"float": "nan"}],
        ["mlflow", "rate", 0.1],
        ["mlflow", "layers", 2],
        ["mlflow", "early", 2.0],
    ]
    assert [call[3] for call in found] == [6, 7, 7, 8, 9, 10]
    sent = {path.name for path in (tmp_path / "mlruns").rglob("metrics/*")}
    assert sent == ({"loss", "a", "b", "early"} if forward else set())


WANDB = """
import wandb
refresh()
run = wandb.init(project="p", dir=".")
refresh()
for epoch in range(2):
    wandb.log({"loss": 0.5 / (epoch + 1), "epoch": epoch})
run.log(data={"acc": 1})
wandb.finish()
remove()
"""
WANDB_AFTER = """
import wandb
run = wandb.init(project="p", dir=".")
refresh()
wandb.log({"loss": 0.5})
run.log({"acc": 1})
remove()
wandb.log({"unheard": 1})
wandb.finish()
"""


@pytest.mark.slow
@pytest.mark.parametrize("forward", [True, False])
def test_wandb(tmp_path: Path, forward: bool) -> None:
    pytest.importorskip("wandb")
    assert run(tmp_path, WANDB, forward=forward) == [
        ["wandb", "loss", 0.5, 7],
        ["wandb", "epoch", 0, 7],
        ["wandb", "loss", 0.25, 7],
        ["wandb", "epoch", 1, 7],
        ["wandb", "acc", 1, 8],
    ]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["offline", "disabled"])
def test_wandb_that_was_begun_before(tmp_path: Path, mode: str) -> None:
    pytest.importorskip("wandb")
    program = WANDB_AFTER.replace('dir="."', f'dir=".", mode="{mode}"')
    found = run(tmp_path, program)
    assert found == [["wandb", "loss", 0.5, 5], ["wandb", "acc", 1, 6]]


def test_nothing_is_imported(tmp_path: Path) -> None:
    program = """
import sys
refresh()
assert not {"torch", "mlflow", "wandb", "tensorboardX", "numpy"} & set(sys.modules)
print("x")
"""
    assert run(tmp_path, program) == [["print", "print", "x", 5]]


# ------------------------------------------------------------ values


class Color(IntEnum):
    RED = 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, True),
        (Color.RED, 1),
        (math.inf, {"float": "inf"}),
        (np.float32(0.1), 0.10000000149011612),
        (np.int8(-3), -3),
        (np.bool_(True), True),
        (np.float64("nan"), {"float": "nan"}),
        (np.array(7), 7),
        (np.array([[1.5, math.nan]]), [[1.5, {"float": "nan"}]]),
        (torch.tensor([1, 2]), [1, 2]),
        (torch.tensor(0.5, requires_grad=True), 0.5),
        (torch.tensor(0.5, dtype=torch.bfloat16), 0.5),
        ((1, "a", None), [1, "a", None]),
        ({1: {"x": 2.0}}, {"1": {"x": 2.0}}),
        (Fraction(1, 3), "Fraction(1, 3)"),
        (np.longdouble(1.5), repr(np.longdouble(1.5))),
    ],
)
def test_value_as_json(value: object, expected: object) -> None:
    found = jsonable(value)
    assert found == expected
    assert type(found) is type(expected)
    assert jsonable(found) == found
    json.dumps(found, allow_nan=False)


def test_numbers_of_any_length_come_back() -> None:
    for number in (7**5000, -(7**5000)):
        text = json.dumps(jsonable(number))
        assert from_jsonable(json.loads(text)) == number


def test_large_values_are_shortened() -> None:
    deep: list[Any] = []
    for _ in range(2000):
        deep = [deep]
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    for value in (list(range(10**6)), np.zeros(LARGEST + 1), "x".join, deep, cyclic, [[0] * 8] * 9):
        found = jsonable(value)
        assert isinstance(found, str)
        assert len(found) <= 200
    assert jsonable("y" * 1000) == "y" * 1000
    assert jsonable(np.zeros((8, 8))) == [[0.0] * 8] * 8


def test_value_that_cannot_be_shown() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError

        @property
        def shape(self) -> tuple[int, ...]:
            raise RuntimeError

    assert jsonable(Odd()) == "<Odd>" or "Odd instance" in jsonable(Odd())


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=20,
    )
)
def test_value_comes_back(value: Any) -> None:
    text = json.dumps(jsonable(value), allow_nan=False)
    assert repr(from_jsonable(json.loads(text))) == repr(value)
