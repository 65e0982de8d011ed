"""The bundled notebooks run in the CHEX kernel, and do what they say."""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Iterator
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


# What a terminal obeys instead of showing it.
CONTROL = re.compile(r"[^\n\t\x20-\x7e\x80-\U0010ffff]|[\x80-\x9f]")
REPLAYED = (
    "%chex_record base",
    "data = list(range(100))",
    "print(sum(data))",
    "%chex_record deep",
    "data = list(range(100))",
    "print(max(data))",
    "%chex_replay --all-versions",
    "%chex_package study.chex",
)


class Listening(NotebookClient):
    """Executes a notebook, and keeps the text of everything that was ever shown."""

    texts: dict[str, list[str]]

    def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
        content = msg["content"]
        shown = content.get("text", "") or content.get("data", {}).get("text/plain", "")
        if shown:
            self.texts.setdefault(cell.id, []).append(shown)
        return super().process_message(msg, cell, cell_index)


class Executed:
    """Notebooks as the CHEX kernel leaves them, each executed once."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._done: dict[str, NotebookNode] = {}
        self.texts: dict[str, dict[str, list[str]]] = {}
        """For each notebook and cell, what was shown one after the other: also bars."""

    def notebook(self, name: str) -> NotebookNode:
        """Return a bundled notebook."""
        if name not in self._done:
            source = nbformat.read(NOTEBOOK_FOLDER / f"{name}.ipynb", as_version=4)
            self.execute(name, source)
        return self._done[name]

    def execute(self, name: str, notebook: NotebookNode) -> None:
        """Execute a notebook in a folder of its own."""
        folder = self._home / name
        folder.mkdir()
        resources = {"metadata": {"path": str(folder)}}
        client = Listening(notebook, timeout=120, resources=resources)
        client.texts = self.texts[name] = {}
        self._done[name] = client.execute()

    def shown(self, name: str) -> dict[str, str]:
        """Return the text that each cell shows."""
        cells = self.notebook(name).cells
        return {cell.id: text_of(cell) for cell in cells if cell.cell_type == "code"}


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Executed]:
    home = tmp_path_factory.mktemp("notebooks")
    write_spec(home / "jupyter" / "kernels" / "chex")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(home / "jupyter"))
        patch.setenv("IPYTHONDIR", str(home / "ipython"))
        yield Executed(home)


def text_of(cell: Any) -> str:
    """Return all text that a cell shows."""
    parts = []
    for output in cell.outputs:
        parts.append(output.get("text", ""))
        parts.append(output.get("data", {}).get("text/plain", ""))
    return "".join(parts)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_without_error(path: Path, executed: Executed) -> None:
    notebook = executed.notebook(path.stem)
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


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_all_that_was_ever_shown_is_plain_text(path: Path, executed: Executed) -> None:
    executed.notebook(path.stem)
    shown = [text for texts in executed.texts[path.stem].values() for text in texts]
    assert shown
    assert [text for text in shown if CONTROL.search(text)] == []


def test_bars_are_lines_of_text(executed: Executed) -> None:
    """Here nothing draws a bar: what it says is read in a log, or in the notebook that is left."""
    notebook = nbformat.v4.new_notebook(
        metadata={"kernelspec": {"name": "chex", "display_name": "CHEX"}},
        cells=[
            nbformat.v4.new_code_cell(source, id=f"cell-{number}")
            for number, source in enumerate(REPLAYED)
        ],
    )
    executed.execute("replayed", notebook)
    replayed, packed = (executed.texts["replayed"][f"cell-{number}"] for number in (6, 7))
    assert not any(CONTROL.search(text) for text in (*replayed, *packed))
    *bar, end = replayed
    assert bar[0] == "CHEX: replaying: starting"
    assert all(text.startswith("CHEX: replaying: ") for text in bar)
    assert "2 of 2 versions" in bar[-1]
    assert "2 of 2 versions reproduced: 2 same" in end
    assert packed[0] == "CHEX: packing: starting"
    assert "study.chex: " in packed[-1]
    # What is left in the notebook is the end of it, once.
    assert [text_of(cell) for cell in notebook.cells[6:]] == [end, packed[-1]]
    executed.notebook("05_hindsight")
    *bar, end = executed.texts["05_hindsight"]["inner"]
    assert bar[0] == "CHEX: replaying: starting"
    assert "iterations" in bar[1]
    assert "180 values" in end


def test_first_steps_goes_back_twice(executed: Executed) -> None:
    shown = executed.shown("01_first_steps")
    assert shown["future"].split()[1:3] == ["25", "200000"]
    assert shown["future"] == shown["future-again"] == shown["future-twice"]
    assert "fitted" in shown["status"]


def test_lineage_is_told_in_the_notebook(executed: Executed) -> None:
    shown = executed.shown("02_lineage")
    assert "lineage-example/statistics_helper.py" in shown["lineage"]
    assert "lineage-example/size.txt" in shown["child-lineage"]
    assert "line 4" in shown["hint-lineage"]
    assert "line 5" in shown["hint-lineage"]


def test_versions_share_cells_and_come_back(executed: Executed) -> None:
    shown = executed.shown("03_versions")
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


def test_a_state_comes_back_from_disk(executed: Executed) -> None:
    shown = executed.shown("04_states_on_disk")
    assert shown["again"] == shown["path"]
    assert "at 4 " in shown["checkout"]
    assert "run again" not in shown["checkout"]
    assert "on disk: " in shown["status"]


def test_a_training_answers_in_hindsight(executed: Executed) -> None:
    shown = executed.shown("05_hindsight")
    # Computed directly in this kernel, against what the replays have given, bit by bit.
    assert literal_eval(shown["compare"]) == (True, True)
    for name, values in (("outer", 20), ("inner", 3 * 60)):
        assert f"CHEX: {values} values in " in shown[name]
        # Whether a value is exact or unverified depends on which checkpoints are on disk by then.
        assert "diverged" not in shown[name]
    assert shown["training"].count("loss") == 20
    assert "3" in shown["overhead"]


def test_what_ada_has_computed_grace_need_not(executed: Executed) -> None:
    shown = executed.shown("06_experiment_graph")
    reused = {name for name, text in shown.items() if "CHEX: reused, saved" in text}
    assert reused == {"imports-again", "data-again", "features-again"}
    assert shown["counts"].endswith("(750, 750)")
    assert shown["features-again"].startswith(shown["features"])
    assert "X_train: ndarray" in shown["why"]
    assert "'larger' begins with 'forest'" in shown["warm"]
    # The header, and both models.
    assert len(shown["best"].splitlines()) == 3
    assert "larger" in shown["best"]
    assert "forest" in shown["best"]
    assert "a picture" in shown["picture"]
    assert "operations:  8 in 8 runs" in shown["table"]
