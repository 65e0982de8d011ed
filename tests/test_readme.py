"""The README's commands are the ones CI runs, and what it links to is there."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def show(root: Path) -> subprocess.CompletedProcess[str]:
    """Return what ``.ci/run --show`` says in a tree."""
    return subprocess.run(
        [root / ".ci" / "run", "--show"], capture_output=True, text=True, check=False
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a tree with the CI script and no README."""
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    return tmp_path


def test_ci_runs_the_command_of_the_readme() -> None:
    command = show(ROOT).stdout.strip()
    assert command.endswith("pytest")
    assert f"<!-- test-command -->\n```bash\n{command}\n```" in README


def test_both_commands_stand_alone() -> None:
    blocks = re.findall(r"```bash\n(.*?)\n```", README, re.DOTALL)
    complete = [block for block in blocks if block.startswith("python3 -m venv .venv && ")]
    assert [block.split("/")[-1] for block in complete] == ["chex demo", "pytest"]


@pytest.mark.parametrize(
    "readme",
    [
        "",
        "```bash\npytest\n```\n",
        "<!-- test-command -->\n",
        "<!-- test-command -->\n```bash\n\n```\n",
        "<!-- another-command -->\n```bash\npytest\n```\n",
    ],
)
def test_ci_fails_without_the_command(tree: Path, readme: str) -> None:
    (tree / "README.md").write_text(readme)
    result = show(tree)
    assert result.returncode == 1
    assert result.stdout == ""
    assert "README.md has no block" in result.stderr


def test_ci_fails_without_a_readme(tree: Path) -> None:
    assert show(tree).returncode != 0


def test_ci_takes_the_marked_block_and_no_other(tree: Path) -> None:
    (tree / "README.md").write_text(
        "```bash\nfirst\n```\n<!-- test-command -->\n```bash\nsecond && \\\n  third\n```\n"
        "```bash\nfourth\n```\n"
    )
    assert show(tree).stdout == "second && \\\n  third\n"


def test_a_failing_test_command_fails_ci(tree: Path) -> None:
    (tree / "README.md").write_text("<!-- test-command -->\n```bash\nfalse\n```\n")
    result = subprocess.run([tree / ".ci" / "run"], capture_output=True, check=False)
    assert result.returncode != 0
    assert b"ruff" not in result.stderr
