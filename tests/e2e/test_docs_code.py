"""The code in the documentation does what the pages say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.docs_kernel import NotebookCell, open_kernel

DOCS = Path(__file__).parent.parent.parent / "docs"

pytestmark = pytest.mark.slow


def python_blocks(page: str) -> list[str]:
    """Return the Python code of a page, block by block."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def test_the_tutorial_works_cell_by_cell(tmp_path: Path) -> None:
    with open_kernel(tmp_path) as kernel:
        shown = []
        for number, block in enumerate(python_blocks("tutorials/first-steps.md")):
            run = kernel.run(NotebookCell(id=str(number), source=block, tags=frozenset()))
            assert run.status == "ok", run.text
            if block.startswith("print("):
                shown.append(run.text.split())
    before, after = shown
    assert after[:2] == before
    assert after[2:] == ["200000", "40"]


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
