"""Kernels on machines that do not let CHEX do everything, and bad input to the magics."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kernels import CHEX, STOCK, Kernel, Launch

HIDE_PROC = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh")


def can_hide_proc() -> bool:
    if shutil.which("unshare") is None:
        return False
    tried = subprocess.run([*HIDE_PROC, "true"], check=False, capture_output=True)
    return tried.returncode == 0


@pytest.mark.skipif(not can_hide_proc(), reason="needs the right to hide /proc")
def test_without_proc_it_is_a_plain_kernel_that_says_so(tmp_path: Path) -> None:
    with Kernel(Launch(argv=[*HIDE_PROC, *CHEX]), tmp_path) as kernel:
        assert kernel.run("x = 6 * 7; print(x)") == "42\n"
        status = json.loads(kernel.run("%chex_status --json"))
        assert "/proc is not readable" in status["missing"][0]
        refused = kernel.execute("%chex_checkpoint a")
        assert "/proc is not readable" in refused.stderr
        assert kernel.run("print(x)") == "42\n"


def test_where_no_process_can_be_started_the_stock_kernel_runs(tmp_path: Path) -> None:
    program = (
        "import errno, os, sys\n"
        "def fail(*a, **k): raise OSError(errno.EAGAIN, 'Resource temporarily unavailable')\n"
        "os.posix_spawn = fail\n"
        "from chexpoint.kernel.launch import launch\n"
        "sys.exit(launch(sys.argv[1:]))"
    )
    argv = [sys.executable, "-c", program, "-f", "{connection_file}"]
    with Kernel(Launch(argv=argv), tmp_path) as kernel:
        assert kernel.run("print(6 * 7)") == "42\n"
        assert "Resource temporarily unavailable" in kernel.run("%chex_status")
        assert "no checkpoints" in kernel.execute("%chex_checkpoint").stderr


def test_in_the_stock_kernel_the_magics_say_which_kernel_to_choose(tmp_path: Path) -> None:
    with Kernel(Launch(argv=STOCK), tmp_path) as kernel:
        kernel.run("%load_ext chexpoint")
        assert "choose the kernel CHEX" in kernel.run("%chex_status")
        for magic in ("%chex_checkpoint a", "%chex_restore a", "%chex_budget 1G", "%chex_evict a"):
            outcome = kernel.execute(magic)
            assert "choose the kernel CHEX" in outcome.stderr
            assert "Traceback" not in outcome.stderr


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("%chex_restore claen", "Did you mean clean?"),
        ("%chex_restore", "the following arguments are required"),
        ("%chex_evict root", "always held"),
        ("%chex_evict nothing", "no checkpoint 'nothing'"),
        ("%chex_budget lots", "The budget stays"),
        ("%chex_budget -3G", ""),
        ("%chex_checkpoint c1", "choose another name"),
        ("%chex_checkpoint --auto sometimes", "invalid choice"),
        ("%chex_restore clean\nx = 1", "last line of its cell"),
    ],
)
def test_bad_input_gets_one_clear_line_and_loses_nothing(
    line: str, says: str, kernel_with_checkpoint: Kernel
) -> None:
    kernel = kernel_with_checkpoint
    outcome = kernel.execute(line)
    assert outcome.status == "error"
    assert "Traceback" not in outcome.stderr
    assert says in outcome.stderr
    assert len(outcome.stderr.strip().splitlines()) <= 4
    assert kernel.run("print(x)") == "1\n"
    before = json.loads(kernel.run("%chex_status --json"))
    assert "clean" in [c["name"] for c in before["checkpoints"]]


@pytest.fixture(scope="module")
def kernel_with_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with Kernel(Launch(argv=CHEX), tmp_path_factory.mktemp("kernel")) as kernel:
        kernel.run("x = 1\n%chex_checkpoint clean")
        yield kernel


def test_status_is_a_table_for_people(kernel_with_checkpoint: Kernel) -> None:
    (shown,) = kernel_with_checkpoint.execute("%chex_status").displays
    data = shown.content["data"]
    for text in (data["text/plain"], data["text/html"]):
        for word in ("live state", "checkpoints", "clean", "automatic"):
            assert word in text


def test_magics_explain_themselves(kernel_with_checkpoint: Kernel) -> None:
    for name in ("checkpoint", "restore", "checkout", "status", "budget", "evict"):
        outcome = kernel_with_checkpoint.request(
            "inspect_request", {"code": f"%chex_{name}", "cursor_pos": 8, "detail_level": 0}
        )
        assert "Example" in json.dumps(outcome.content["data"])


def test_names_complete(kernel_with_checkpoint: Kernel) -> None:
    code = "%chex_restore cl"
    reply = kernel_with_checkpoint.request(
        "complete_request", {"code": code, "cursor_pos": len(code)}
    )
    assert "clean" in reply.content["matches"]
