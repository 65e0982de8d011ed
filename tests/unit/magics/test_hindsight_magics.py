"""The magics of hindsight in a shell that is not CHEX's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def said(folder: Path, *lines: str) -> list[str]:
    """Run some lines in IPython; return what it says."""
    script = folder / "lines.ipy"
    script.write_text("\n".join(["%load_ext chexpoint", *lines]))
    done = subprocess.run(
        [sys.executable, "-m", "IPython", "--no-banner", "--quick", "--colors=NoColor", script],
        cwd=folder,
        env={"IPYTHONDIR": str(folder / "profile"), "PATH": "/usr/bin"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]


@pytest.mark.slow
def test_the_overhead_is_shown_and_set(tmp_path: Path) -> None:
    lines = ["%chex_overhead", "%chex_overhead 3%", "%chex_overhead off", "%chex_overhead"]
    assert said(tmp_path, *lines) == [
        "CHEX: keeping the states of loops may take 6.67% of their time",
        "CHEX: keeping the states of loops may take 3% of their time",
        "CHEX: loops are not recorded",
        "CHEX: loops are not recorded",
    ]


@pytest.mark.slow
def test_what_is_no_share_is_refused(tmp_path: Path) -> None:
    assert "'much' is not a share of time" in said(tmp_path, "%chex_overhead much")[-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("%%chex_hindsight", "no .chex folder in"),
        ("%%chex_hindsight --into 2x", "that cannot be the name of a variable"),
    ],
)
def test_what_cannot_be_replayed_is_told_in_one_line(tmp_path: Path, line: str, why: str) -> None:
    cell = f"{line}\nfor x in range(3): print(x)"
    (told,) = said(tmp_path, f"get_ipython().run_cell({cell!r});")
    assert told.startswith("UsageError: ")
    assert why in told
