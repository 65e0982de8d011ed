"""The journal writes off the loop, in order, and a disk that fails stops nobody."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from chexpoint.engine import CellText, FilesChecked, Looked, Result, Told
from chexpoint.lineage import Step, root_node
from chexpoint.lineage.trail import Cell, conclude_step
from chexpoint.model import CellAudit, CellRecord, Hint
from chexpoint.project import Project, ProjectJournal, version_name

ENVIRONMENT = "e0"
LUCKY = CellAudit(hints=(Hint(kind="random", what="it draws random numbers"),))


class Driver:
    """Runs cells that exist only in name, and tells the journal of them."""

    def __init__(self, folder: Path) -> None:
        self.journal = ProjectJournal(Project.at(folder))
        self._heard = threading.Semaphore(0)
        self.journal.attach(self._heard.release)
        self.root = Step(None)
        self.root.packages, self.root.node = ENVIRONMENT, root_node(ENVIRONMENT)
        self.root.strict = root_node(ENVIRONMENT)
        self.place = self.root

    def run(self, source: str, audit: CellAudit | None = None) -> Step:
        step = Step(self.place, source=source)
        cell = Cell(
            source=source,
            code=source,
            execution_count=step.number,
            seconds=1.0,
            size_bytes=10,
            status="ok",
            report={},
        )
        lineage = conclude_step(step, cell, audit or CellAudit(), ENVIRONMENT)
        assert step.parent is not None
        record = CellRecord(lineage=lineage, taint=step.taint, parent_taint=step.parent.taint)
        self.journal.record(step, record, is_again=False)
        self.place = step
        return step

    def result(self) -> Result:
        """Wait for the next thing that comes out."""
        assert self._heard.acquire(timeout=20)
        (found,) = self.journal.results()
        return found

    def look(self, source: str) -> Looked:
        self.journal.look(1, CellText(source), self.place, self.place)
        found = self.result()
        assert isinstance(found, Looked)
        return found


def paths(folder: Path) -> dict[str, list[str]]:
    """Return the sources of each version."""
    project = Project.at(folder)
    labels = project.tree().labels
    return {
        labels[version]: [cell.source for cell in project.cells(version)]
        for version in project.versions()
    }


def test_everything_is_written_in_order_when_it_is_closed(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    for source in ("a", "b", "c"):
        driver.run(source)
    driver.journal.close()
    assert paths(tmp_path) == {"run": ["a", "b", "c"]}


def test_without_a_cell_nothing_is_made(tmp_path: Path) -> None:
    journal = ProjectJournal(Project.at(tmp_path))
    journal.begin("v", Step(None), {})
    journal.hold(())
    journal.close()
    assert list(tmp_path.iterdir()) == []


def test_going_back_and_on_is_another_version_of_the_same_name(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.journal.begin("v", driver.root, {})
    first = driver.run("a")
    driver.run("b")
    driver.place = first
    driver.run("c")
    driver.journal.close()
    assert paths(tmp_path) == {"v@1": ["a", "b"], "v": ["a", "c"]}


def test_a_version_that_begins_elsewhere_has_the_cells_that_lead_there(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.journal.begin("v", driver.root, {})
    driver.run("a")
    driver.journal.begin("w", driver.place, {})
    driver.run("b")
    driver.journal.close()
    assert paths(tmp_path) == {"v": ["a"], "w": ["a", "b"]}


def test_a_version_may_begin_where_a_widget_has_changed_the_state(tmp_path: Path) -> None:
    """What the catalog has of the cell is what the cell did, not what came after it."""
    driver = Driver(tmp_path)
    driver.journal.begin("v", driver.root, {})
    driver.run("a")
    driver.look("b")  # "a" is written
    driver.place.touch()
    driver.journal.begin("w", driver.place, {})
    driver.run("b")
    driver.journal.close()
    assert driver.journal.status().problem == ""
    assert paths(tmp_path) == {"v": ["a"], "w": ["a", "b"]}


def test_a_cell_that_is_run_again_is_in_no_version(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.run("a")
    again = driver.run("b")
    assert again.record is not None
    driver.journal.record(again, CellRecord(lineage=again.record), is_again=True)
    driver.journal.close()
    assert paths(tmp_path) == {"run": ["a", "b"]}
    assert len(Project.at(tmp_path).nodes()) == 2


def test_cells_that_ran_while_it_was_off_are_written_if_a_version_needs_them(
    tmp_path: Path,
) -> None:
    driver = Driver(tmp_path)
    driver.journal.begin("v", driver.root, {})
    driver.run("a")
    driver.journal.pause(True)
    driver.run("b")
    driver.journal.pause(False)
    driver.run("c")
    driver.journal.close()
    found = paths(tmp_path)
    assert found["v"] == ["a", "b", "c"]


def test_a_disk_that_fails_is_told_once_and_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / ".chex").write_bytes(b"in the way")
    driver = Driver(tmp_path)
    driver.run("a")
    told = driver.result()
    driver.run("b")
    driver.run("c")
    assert isinstance(told, Told)
    assert told.text.startswith("recording stopped: ")
    status = driver.journal.status()
    assert not status.is_on
    assert status.problem
    (tmp_path / ".chex").unlink()
    driver.journal.pause(False)
    driver.run("d")
    driver.journal.close()
    assert driver.journal.results() == []
    assert list(paths(tmp_path).values()) == [["a", "b", "c", "d"]]


def test_a_cell_that_never_ran_here_is_novel(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.run("a")
    driver.run("b")
    found = driver.look("b")
    assert found.is_novel
    assert found.found is None
    driver.journal.close()


def test_a_doubtful_cell_is_not_found_and_the_reason_is_told(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.run("x = lucky()", LUCKY)
    driver.place = driver.root
    found = driver.look("x = lucky()")
    assert (found.found, found.is_novel) == (None, False)
    assert found.why == "it draws random numbers"
    driver.journal.close()


def test_a_name_that_a_version_cannot_have_is_refused(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.journal.look(1, CellText("x", version="a/b"), driver.root, driver.root)
    found = driver.result()
    assert isinstance(found, Looked)
    assert "cannot be in the name" in found.problem
    driver.journal.close()


def test_files_of_a_path_that_read_none_do_not_differ(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.run("a")
    driver.journal.check_files(driver.place, put_back=False)
    assert driver.result() == FilesChecked(())
    driver.journal.close()


@pytest.mark.parametrize(
    ("text", "name"),
    [("analysis", "analysis"), ("my notebook (1)", "my-notebook--1"), ("123", ""), ("", "")],
)
def test_a_version_is_called_after_its_notebook(text: str, name: str) -> None:
    assert version_name(text) == name
