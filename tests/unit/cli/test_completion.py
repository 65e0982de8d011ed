"""The tab key, in real shells."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from chexpoint.cli import main
from chexpoint.cli.completion import Argument, Verb, bash_script, fish_script, zsh_script

PROBE = r"""
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_chex
printf '%s\n' "${COMPREPLY[@]}"
"""

MADE_UP = (
    Verb(
        name="replay",
        summary="it's a [test]: 100%",
        arguments=(
            Argument(flags=("-h", "--help"), summary="help"),
            Argument(flags=("--planner",), summary="how", choices=("pc", "lfu"), takes_value=True),
            Argument(flags=("--report",), summary="where", takes_value=True, is_path=True),
            Argument(flags=(), summary="package", takes_value=True, is_path=True),
        ),
    ),
)


@pytest.fixture
def script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """Return the bash script of the real command line."""
    main(["completion", "bash"])
    path = tmp_path / "chex.bash"
    path.write_text(capsys.readouterr().out)
    return path


def complete(script: Path, *words: str, cwd: Path | None = None) -> list[str]:
    """Return what bash offers after ``words``, the last of which is being typed."""
    result = subprocess.run(
        ["bash", "--norc", "-c", PROBE, "probe", str(script), *words],
        check=True,
        capture_output=True,
        text=True,
        cwd=cwd,
    )
    assert result.stderr == ""
    return result.stdout.split()


def test_bash_offers_every_verb(script: Path) -> None:
    offered = complete(script, "chex", "")
    assert {"completion", "demo", "doctor", "install", "--help", "--version"} <= set(offered)


def test_bash_narrows_a_verb(script: Path) -> None:
    assert complete(script, "chex", "doc") == ["doctor"]


def test_bash_offers_options_of_the_verb(script: Path) -> None:
    assert complete(script, "chex", "install", "--s") == ["--sys-prefix"]
    assert complete(script, "chex", "doctor", "--j") == ["--json"]
    assert complete(script, "chex", "doctor", "--s") == []


def test_bash_offers_values(script: Path) -> None:
    assert complete(script, "chex", "completion", "f") == ["fish"]


def test_bash_offers_folders_for_a_path(script: Path, tmp_path: Path) -> None:
    (tmp_path / "environment").mkdir()
    assert complete(script, "chex", "install", "--prefix", "env", cwd=tmp_path) == ["environment"]


def test_bash_offers_nothing_for_an_unknown_verb(script: Path) -> None:
    assert complete(script, "chex", "nonsense", "") == []


def test_bash_handles_paths_choices_and_quotes(tmp_path: Path) -> None:
    path = tmp_path / "made_up.bash"
    path.write_text(bash_script(MADE_UP))
    (tmp_path / "paper.chex").touch()
    assert complete(path, "chex", "replay", "--planner", "") == ["pc", "lfu"]
    assert complete(path, "chex", "replay", "--report", "pa", cwd=tmp_path) == ["paper.chex"]
    assert complete(path, "chex", "replay", "pa", cwd=tmp_path) == ["paper.chex"]
    assert complete(path, "chex", "replay", "--p") == ["--planner"]


def test_bash_script_survives_strict_mode(script: Path) -> None:
    subprocess.run(["bash", "-euo", "pipefail", str(script)], check=True)


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_accepts_the_script(tmp_path: Path) -> None:
    path = tmp_path / "_chex"
    path.write_text(zsh_script(MADE_UP))
    subprocess.run(["zsh", "-n", str(path)], check=True)
    sourced = "autoload -U compinit && compinit -u && source $0 && print $_comps[chex]"
    result = subprocess.run(
        ["zsh", "-f", "-c", sourced, str(path)],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    assert result.stdout.strip() == "_chex"


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes(tmp_path: Path) -> None:
    path = tmp_path / "chex.fish"
    path.write_text(fish_script(MADE_UP))
    for typed, offered in (("chex re", "replay"), ("chex replay --planner l", "lfu")):
        result = subprocess.run(
            ["fish", "--no-config", "-c", f"source {path}; complete -C '{typed}'"],
            check=True,
            capture_output=True,
            text=True,
        )
        assert offered in result.stdout


def test_scripts_for_other_shells_name_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in ("zsh", "fish"):
        assert main(["completion", shell]) == 0
        written = capsys.readouterr().out
        assert all(verb in written for verb in ("completion", "demo", "doctor", "install"))
