"""The command line as a whole: help, exit codes, errors in one line."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

import pytest

import chexpoint
from chexpoint.cli import main
from chexpoint.cli.doctor import DoctorCommand
from chexpoint.cli.main import all_commands
from chexpoint.errors import ChexError, UnknownCheckpoint

VERBS = [command.name for command in all_commands()]


class Failing(ChexError):
    """An error with an exit code of its own."""

    exit_code = 9


def fail_with(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make ``chex doctor`` raise ``error``."""

    def run(_self: DoctorCommand, _args: argparse.Namespace) -> int:
        raise error

    monkeypatch.setattr(DoctorCommand, "run", run)


def exit_code_of(words: list[str]) -> int | str | None:
    """Return how ``chex`` ends, whether it returns or exits."""
    try:
        return main(words)
    except SystemExit as stop:
        return stop.code


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (Failing("it broke"), 9, "chex: it broke"),
        (Failing("two\n  lines"), 9, "chex: two lines"),
        (UnknownCheckpoint("fti", ("fit",)), 1, "chex: no checkpoint 'fti'. Did you mean fit?"),
        (PermissionError(13, "Permission denied", "/x"), 1, "Permission denied: '/x'"),
        (KeyboardInterrupt(), 130, "chex: interrupted"),
        (ZeroDivisionError("division by zero"), 70, "unexpected ZeroDivisionError"),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(
    error: BaseException,
    code: int,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("CHEX_DEBUG", raising=False)
    fail_with(error, monkeypatch)
    assert main(["doctor"]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("chex: ")
    assert captured.err.count("\n") == 1
    assert line in captured.err


def test_debug_variable_lets_the_traceback_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHEX_DEBUG", "1")
    fail_with(ZeroDivisionError("here"), monkeypatch)
    with pytest.raises(ZeroDivisionError, match="here"):
        main(["doctor"])


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["doctr"], "Did you mean doctor?"),
        (["xyzzy"], "Known: bench, completion, config, demo, diff, doctor"),
        (["doctor", "--nonsense"], "unrecognized arguments: --nonsense"),
        (["completion"], "the following arguments are required: shell"),
        (["completion", "tcsh"], "invalid choice: 'tcsh'"),
        (["install", "--user", "--sys-prefix"], "not allowed with argument"),
    ],
)
def test_a_wrong_command_line_is_one_line(
    words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code_of(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("chex: ")
    assert captured.err.count("\n") == 1
    assert line in captured.err


@pytest.mark.parametrize("verb", VERBS)
def test_help_teaches_with_an_example(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([verb, "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert "example:" in text
    assert f"chex {verb}" in text.split("example:")[1]


def test_verbs_are_listed_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert sorted(VERBS) == VERBS
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    assert all(command.summary.split()[0] in text for command in all_commands())


def test_no_verb_shows_help_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "verbs:" in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"chex {chexpoint.__version__}\n"


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_traceback() -> None:
    command = f"'{sys.executable}' -m chexpoint completion bash | true"
    result = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=True, env={**os.environ}
    )
    assert result.stderr == ""
