"""The bundled notebooks run in the CHEX kernel, and do what they say."""

from __future__ import annotations

from ast import literal_eval
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from nbclient import NotebookClient

from chexpoint.cli.install import write_spec

if TYPE_CHECKING:
    from nbformat import NotebookNode

NOTEBOOK_FOLDER = Path(__file__).parent.parent.parent / "notebooks"
NOTEBOOKS = sorted(NOTEBOOK_FOLDER.glob("*.ipynb"))

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder in which Jupyter finds the CHEX kernel, and in which to work."""
    write_spec(tmp_path / "jupyter" / "kernels" / "chex")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    return tmp_path


def execute(path: Path, folder: Path) -> NotebookNode:
    """Return the notebook as the CHEX kernel leaves it."""
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(folder)}}
    return NotebookClient(notebook, timeout=120, resources=resources).execute()


def text_of(cell: Any) -> str:
    """Return all text that a cell shows."""
    parts = []
    for output in cell.outputs:
        parts.append(output.get("text", ""))
        parts.append(output.get("data", {}).get("text/plain", ""))
    return "".join(parts)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_without_error(path: Path, folder: Path) -> None:
    notebook = execute(path, folder)
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


def test_first_steps_goes_back_twice(folder: Path) -> None:
    notebook = execute(NOTEBOOK_FOLDER / "01_first_steps.ipynb", folder)
    shown = {cell.id: text_of(cell) for cell in notebook.cells if cell.cell_type == "code"}
    assert shown["future"].split()[1:3] == ["25", "200000"]
    assert shown["future"] == shown["future-again"] == shown["future-twice"]
    assert "fitted" in shown["status"]


def test_lineage_is_told_in_the_notebook(folder: Path) -> None:
    notebook = execute(NOTEBOOK_FOLDER / "02_lineage.ipynb", folder)
    shown = {cell.id: text_of(cell) for cell in notebook.cells if cell.cell_type == "code"}
    assert "lineage-example/statistics_helper.py" in shown["lineage"]
    assert "lineage-example/size.txt" in shown["child-lineage"]
    assert "line 4" in shown["hint-lineage"]
    assert "line 5" in shown["hint-lineage"]


def test_versions_share_cells_and_come_back(folder: Path) -> None:
    notebook = execute(NOTEBOOK_FOLDER / "03_versions.ipynb", folder)
    shown = {cell.id: text_of(cell) for cell in notebook.cells if cell.cell_type == "code"}
    reused = {name for name, text in shown.items() if "CHEX: reused, saved" in text}
    assert reused == {"river-again", "clean-again"}
    for name in ("river", "clean"):
        assert shown[f"{name}-again"].startswith(shown[name])
    baseline, strict = (literal_eval(shown[f"{name}-state"]) for name in ("baseline", "strict"))
    assert (baseline[0], strict[0]) == (20, 35)
    assert 0 < strict[1] < baseline[1]
    assert baseline[3] == strict[3]
    for name in ("baseline", "strict"):
        assert f"at {name} " in shown[f"checkout-{name}"]
        assert shown[f"{name}-state-again"] == shown[f"{name}-state"]
    assert sum(literal_eval(shown["decades"])) == baseline[1]
    assert "6 cells, 2 versions" in shown["tree"]
    assert "8 cells, 3 versions" in shown["tree-of-three"]
    assert "- threshold = 20\n" in shown["diff"]
    assert "+ threshold = 35\n" in shown["diff"]
