"""Checkpoints and the debugger: its threads do not survive a fork."""

from __future__ import annotations

from pathlib import Path

from tests.support.checks.debugger import CLIENT, debug, stop_and_go_on
from tests.support.kernels import CHEX, Kernel, Launch


def test_no_checkpoint_while_debugging_and_a_fresh_debugger_after_a_restore(
    tmp_path: Path,
) -> None:
    with Kernel(Launch(argv=CHEX), tmp_path) as kernel:
        kernel.run("x = 1\n%chex_checkpoint before")
        debug(kernel, "initialize", **CLIENT)
        debug(kernel, "attach")
        refused = kernel.execute("x = 2\n%chex_checkpoint during")
        assert "the debugger is attached" in refused.stderr
        assert "back at" in kernel.run("%chex_restore before")
        assert kernel.run("print(x)") == "1\n"
        assert debug(kernel, "debugInfo")["isStarted"] is False
        debug(kernel, "initialize", **CLIENT)
        debug(kernel, "attach")
        kernel.forget()
        stop_and_go_on(kernel)
