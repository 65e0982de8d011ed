"""The bundled notebooks run in the CHEX kernel, and do what they say."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

from chexpoint.cli.install import write_spec

if TYPE_CHECKING:
    from nbformat import NotebookNode

FOLDER = Path(__file__).parent.parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))

pytestmark = pytest.mark.slow


def execute(path: Path, scratch: Path) -> NotebookNode:
    """Return the notebook as the CHEX kernel leaves it."""
    write_spec(scratch / "kernels" / "chex", executable=sys.executable)
    notebook = nbformat.read(path, as_version=4)
    manager = AsyncKernelManager(
        kernel_name="chex",
        kernel_spec_manager=KernelSpecManager(
            kernel_dirs=[str(scratch / "kernels")], ensure_native_kernel=False
        ),
    )
    client = NotebookClient(
        notebook, km=manager, timeout=120, resources={"metadata": {"path": str(scratch)}}
    )
    return client.execute()


def text_of(cell: Any) -> str:
    """Return all text that a cell shows."""
    parts = []
    for output in cell.outputs:
        parts.append(output.get("text", ""))
        parts.append(output.get("data", {}).get("text/plain", ""))
    return "".join(parts)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_without_error(path: Path, tmp_path: Path) -> None:
    notebook = execute(path, tmp_path)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code)
    same = [text_of(cell) for cell in code if "same" in cell.metadata.get("tags", [])]
    assert len(set(same)) == min(len(same), 1)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_stored_for_chex_and_without_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "chex"
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None


def test_first_steps_goes_back_twice(tmp_path: Path) -> None:
    notebook = execute(FOLDER / "01_first_steps.ipynb", tmp_path)
    shown = {cell.id: text_of(cell) for cell in notebook.cells if cell.cell_type == "code"}
    assert shown["future"].split()[1:3] == ["25", "200000"]
    assert shown["future"] == shown["future-again"] == shown["future-twice"]
    assert "fitted" in shown["status"]
