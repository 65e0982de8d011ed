"""The code in the documentation does what the pages say."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.docs_blocks import DOCS, blocks_of
from tests.support.docs_kernel import CellRun, KernelRunner, NotebookCell, open_kernel
from tests.support.docs_shell import Shell, is_shown, typed_lines

pytestmark = pytest.mark.slow

# What the tutorial begins with is how CI itself begins, and the browser test starts JupyterLab.
ELSEWHERE = (
    "python3 -m venv .venv",
    ".venv/bin/pip install . jupyterlab",
    ". .venv/bin/activate",
    "jupyter lab",
)


def python_blocks(page: str) -> list[str]:
    """Return the Python code of a page, block by block."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def test_the_tutorial_leads_from_the_installation_to_a_colleague(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of the page: cells in a kernel, command lines in a shell."""
    monkeypatch.setenv("JPY_SESSION_NAME", "walk.ipynb")
    home, clone = tmp_path / "home", tmp_path / "clone"
    home.mkdir()
    clone.mkdir()
    shell = Shell(clone, home)
    blocks = blocks_of(DOCS / "tutorials" / "first-half-hour.md")
    counted = Counter(block.language for block in blocks)
    assert min(counted[language] for language in ("bash", "python", "text", "console")) > 1
    with ExitStack() as stack:
        kernel: KernelRunner | None = None
        run: CellRun | None = None
        for block in blocks:
            if block.title:
                (shell.folder / block.title).write_text(block.text, encoding="utf-8")
            elif block.language == "python":
                kernel = kernel or stack.enter_context(open_kernel(home, shell.folder))
                cell = NotebookCell(id=str(block.line), source=block.text, tags=frozenset())
                run = kernel.run(cell)
                assert run.status == "ok", f"{block}: {run.text}"
            elif block.language == "text":
                assert run is not None
                assert is_shown(tuple(block.text.splitlines()), run.text), f"{block}: {run.text}"
            else:
                stack.close()  # the page says so
                for typed in typed_lines(block):
                    if typed.line not in ELSEWHERE:
                        shell.check(typed, block)
    assert shell.folder == tmp_path / "clone" / "colleague"
    assert {"walk.chex", "unpacked"} <= {path.name for path in shell.folder.iterdir()}


def test_the_engine_works_without_jupyter() -> None:
    (block,) = [
        block for block in python_blocks("how-to/checkpoint-and-restore.md") if "Engine()" in block
    ]
    result = subprocess.run(
        [sys.executable, "-c", block], capture_output=True, text=True, check=True, timeout=60
    )
    assert result.stdout.strip() == "10"


def test_the_example_of_a_refusal_is_a_real_one(tmp_path: Path) -> None:
    page = (DOCS / "how-to" / "read-refusals.md").read_text(encoding="utf-8")
    code = (
        "import threading\n"
        "gate = threading.Event()\n"
        "def worker():\n"
        "    gate.wait()\n"
        "threading.Thread(target=worker, daemon=True).start()\n"
        "%chex_checkpoint"
    )
    with open_kernel(tmp_path) as kernel:
        run = kernel.run(NotebookCell(id="thread", source=code, tags=frozenset()))
    (message,) = re.findall(r"no checkpoint: .*", run.text)
    assert re.sub(r"Thread-\d+", "Thread-1", message) in page
