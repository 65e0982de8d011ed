"""``chex replay`` understands its words, and finds out what is wrong with them before it begins."""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chexpoint.cli import main
from chexpoint.cli.command import OneLineParser
from chexpoint.cli.replay import ReplayCommand, parse_duration, parse_workers
from chexpoint.cli.replay_signals import end_with, run_interruptibly
from chexpoint.cli.replay_source import (
    Source,
    chosen,
    is_package,
    project_source,
    replay_log,
)
from chexpoint.errors import ChexError, EngineTimeout, InvalidValue
from chexpoint.project import Project
from tests.unit.view.worlds import recorded


def parsed(*words: str) -> argparse.Namespace:
    parser = OneLineParser()
    ReplayCommand().prepare_parser(parser)
    return parser.parse_args(words)


def replay(*words: str) -> int:
    return ReplayCommand().run(parsed(*words))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return the project of the working folder, with some versions."""
    monkeypatch.chdir(tmp_path)
    return recorded(tmp_path)


# ---------------------------------------------------------------- words


def test_versions_and_options_come_in_any_order() -> None:
    args = parsed("base", "--budget", "2G", "tuned", "--json", "deep")
    assert args.words == ["base", "tuned", "deep"]
    assert args.given == ["base", "--budget", "2G", "tuned", "--json", "deep"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("10m", 600), ("1h30m", 5400), ("1h 30m", 5400), (".5h", 1800)],
)
def test_times_are_understood(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "0m", "soon", "1h30", "-5", "10m!", "inf", "nan"])
def test_other_words_are_no_times(text: str) -> None:
    with pytest.raises(InvalidValue, match=r"is not a time. Write for example 90, 90s, 10m or"):
        parse_duration(text)


@given(st.integers(0, 99), st.integers(0, 59), st.integers(1, 59))
def test_parts_of_a_time_add_up(hours: int, minutes: int, seconds: int) -> None:
    found = parse_duration(f"{hours}h{minutes}m{seconds}s")
    assert found == 3600 * hours + 60 * minutes + seconds


def test_workers_are_a_number_or_as_many_as_cores() -> None:
    assert parse_workers("3") == 3
    assert parse_workers("auto") == len(os.sched_getaffinity(0))
    for text in ("0", "-1", "many", "1.5", ""):
        with pytest.raises(InvalidValue, match="give 1 or more, or auto"):
            parse_workers(text)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["base", "--all-versions"], "leave one of them out"),
        (["a.chex", "--project", "."], "a package has its files in it"),
        (["--venv"], "name a .chex file first"),
        (["base", "--venv"], "name a .chex file first"),
        (["--json", "--events", "-"], "the last event is the result"),
        (["--budget", "much"], "'much' is not a budget"),
        (["--planner", "pc-mov"], r"no planner 'pc-mov'. Did you mean pc-move"),
        (["--rtol", "-1"], "rtol is a share from 0 to 1"),
        (["--within", "soon"], "'soon' is not a time"),
        (["--timeout", "0"], "'0' is not a time"),
        (["tunde"], r"no version 'tunde'. Did you mean tuned\?"),
        (["--project", "nowhere"], "no folder nowhere"),
        (["nothing.chex"], r"nothing\.chex cannot be read: No such file"),
    ],
)
@pytest.mark.usefixtures("project")
def test_what_cannot_be_meant_is_refused(words: list[str], complaint: str) -> None:
    with pytest.raises(ChexError, match=complaint):
        replay(*words)


@pytest.mark.usefixtures("project")
def test_a_wrong_command_line_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "tunde"]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("chex: no version 'tunde'")
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_a_package_is_told_from_a_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with zipfile.ZipFile("archive", "w") as archive:
        archive.writestr("a", "b")
    Path("notes").write_text("no zip file")
    assert [is_package(word) for word in ("a.chex", "./a", "archive", "notes", "base@2")] == [
        *(True, True, True),
        *(False, False),
    ]


# ---------------------------------------------------------------- versions


def test_part_of_a_recording_has_the_nodes_of_its_versions(project: Project) -> None:
    whole = project_source(str(project.folder), [], project.folder).recording
    assert chosen(whole, []) is whole
    assert len(whole.labels) > 1
    for label, version in whole.labels.items():
        part = chosen(whole, [label])
        assert list(part.labels) == [label]
        assert set(part.tree.nodes) == set(part.cells) == set(version.path)
    with pytest.raises(InvalidValue, match="no version 'other'"):
        chosen(whole, ["other"])


def test_the_log_of_the_same_versions_is_the_same_and_nobody_elses(project: Project) -> None:
    source = project_source(str(project.folder), [], project.folder)
    other = project_source(str(project.folder), ["tuned"], project.folder)
    with replay_log(source) as log, replay_log(other) as other_log:
        assert log is not None
        assert log.parent == project.folder / ".chex" / "replays"
        assert log != other_log
        with pytest.raises(ChexError, match="are being replayed by another"), replay_log(source):
            pass
    with replay_log(source) as again:
        assert again == log
    assert list((project.folder / ".chex" / "replays").iterdir()) == []


def test_a_replay_without_room_for_its_log_says_so(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    found = project_source(str(project.folder), [], project.folder)
    (project.folder / "file").touch()
    source = Source(
        recording=found.recording,
        files=found.files,
        logs=project.folder / "file" / "replays",
        scratch=project.folder,
    )
    with replay_log(source) as log:
        assert log is None
    assert "An interrupted replay will begin again" in capsys.readouterr().err


# ---------------------------------------------------------------- signals


class Replaying:
    """A replay that ends when it has been interrupted often enough."""

    def __init__(self, enough: int) -> None:
        self.interrupts = 0
        self._enough = enough
        self._is_over = threading.Event()

    def interrupt(self) -> None:
        self.interrupts += 1
        if self.interrupts >= self._enough:
            self._is_over.set()

    def run(self, *numbers: signal.Signals) -> str:
        for number in numbers:
            os.kill(os.getpid(), number)
        self._is_over.wait()
        return "over"


@pytest.fixture
def same_handlers() -> Iterator[None]:
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    yield
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.mark.usefixtures("same_handlers")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("enough", [1, 2])
def test_a_signal_interrupts_until_the_replay_is_over(number: signal.Signals, enough: int) -> None:
    replay = Replaying(enough)
    assert run_interruptibly(replay, lambda: replay.run(number), is_quiet=False) == "over"
    assert replay.interrupts >= enough


@pytest.mark.usefixtures("same_handlers")
def test_a_second_signal_waits_for_nothing() -> None:
    replay = Replaying(10**9)
    with pytest.raises(KeyboardInterrupt):
        run_interruptibly(replay, lambda: replay.run(signal.SIGINT, signal.SIGTERM), is_quiet=False)


@pytest.mark.usefixtures("same_handlers")
@pytest.mark.parametrize("error", [ChexError("no"), EngineTimeout("late"), TimeoutError()])
def test_what_goes_wrong_in_a_replay_is_raised(error: Exception) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        run_interruptibly(Replaying(1), fail, is_quiet=False)
    assert caught.value is error


def test_a_replay_ends_with_the_process_it_is_for() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    wakeup = signal.set_wakeup_fd(writer)
    try:
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
            end_with(child.pid)
            assert select.select([reader], [], [], 0) == ([], [], [])
        assert os.read(reader, 1) == bytes([signal.SIGTERM])
        end_with(child.pid)  # which is no process any more
        assert os.read(reader, 1) == bytes([signal.SIGTERM])
    finally:
        signal.set_wakeup_fd(wakeup)
        signal.signal(signal.SIGTERM, before)
        os.close(reader)
        os.close(writer)


# ---------------------------------------------------------------- files


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--report", "page.txt"], r"does not end in \.html: write --report FILE\.html"),
        (["--junit", "page.html"], r"does not end in \.xml: write --junit FILE\.xml"),
        (["--report", "folder.html"], "folder.html is a folder"),
        (["--report", "mine.html"], "mine.html exists and is not a page of chex replay"),
        (["--junit", "mine.xml"], "mine.xml exists and is not a page of chex replay"),
        (["--report", "file/page.html"], "cannot make the folder file"),
        (["--notebooks", "file"], "cannot make the folder file"),
        (["--notebooks", "mine"], r"mine/tuned\.ipynb exists and is not a notebook of chex replay"),
        (["--events", "folder.html"], "cannot write folder.html: Is a directory"),
    ],
)
def test_files_that_must_not_be_written_are_refused_at_once(
    words: list[str], complaint: str
) -> None:
    Path("folder.html").mkdir()
    Path("file").touch()
    Path("mine.html").write_text("<p>mine")
    Path("mine.xml").write_text("<?xml version='1.0'?><mine/>")
    Path("mine").mkdir()
    Path("mine/tuned.ipynb").write_text(json.dumps({"cells": [], "metadata": {}}))
    with pytest.raises(InvalidValue, match=complaint):
        replay(*words)
