"""Which versions are recorded, of which cells, and as which path."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import xxhash

from chexpoint.errors import CatalogError, EngineError, InvalidValue
from chexpoint.model import CellAudit, CellError, CellLineage, CellResult, Effect, Hint, NodeId
from chexpoint.project import Project
from chexpoint.project.batch import Batch
from chexpoint.project.batch_plan import VersionTask, plan_versions, with_parameters
from chexpoint.project.parameters import combinations
from chexpoint.project.path_writer import PathWriter
from chexpoint.project.sources import SourceCell, SourceFile, SourceKind


def source_file(
    *sources: str | SourceCell, path: str = "train.py", kind: SourceKind | None = None
) -> SourceFile:
    cells = tuple(
        SourceCell(source=each, number=at, line=at) if isinstance(each, str) else each
        for at, each in enumerate(sources, start=1)
    )
    found: SourceKind = "script" if path.endswith(".py") else "notebook"
    return SourceFile(path=Path(path), kind=kind or found, cells=cells)


def tagged(source: str, *tags: str, is_head: bool = False) -> SourceCell:
    return SourceCell(source=source, number=1, tags=frozenset(tags), is_head=is_head)


def names(file: SourceFile, *options: str, name: str | None = None) -> list[str]:
    return [task.name for task in plan_versions([file], combinations(options), name=name)]


def task_of(file: SourceFile, folder: Path, *options: str) -> VersionTask:
    (task,) = plan_versions([file], combinations(options), folder=folder)
    return task


# ---------------------------------------------------------------- names


def test_versions_are_called_after_their_files_and_parameters() -> None:
    assert names(source_file(path="dir/train.py")) == ["train"]
    assert names(source_file(), "lr=0.1,0.01", "n=2") == ["train,lr=0.1,n=2", "train,lr=0.01,n=2"]


@pytest.mark.parametrize(
    ("path", "option", "name"),
    [
        ("My notebook (1).ipynb", "x=1", "My-notebook--1,x=1"),
        ("01.ipynb", "x=1", "run-01,x=1"),
        ("a.b.py", "x=a/b c", "a.b,x=a-b-c"),
        ("größe.py", "x=[1,2]", "größe,x=-1,2"),
        ("!!!.py", "x=-1", "run,x=-1"),
        ("a.py", "x=" + "y" * 200, "a,x=" + "y" * 78),
    ],
)
def test_letters_that_a_name_cannot_have_are_replaced(path: str, option: str, name: str) -> None:
    assert names(source_file(path=path), option) == [name]


def test_a_given_name_is_that_of_the_only_version_and_begins_those_of_several() -> None:
    assert names(source_file(), name="best") == ["best"]
    assert names(source_file(), "lr=1", name="best") == ["best"]
    assert names(source_file(), "lr=1,2", name="best") == ["best,lr=1", "best,lr=2"]
    with pytest.raises(InvalidValue, match="cannot be in the name"):
        names(source_file(), name="a/b")


def test_each_file_has_a_version_for_each_combination() -> None:
    files = [source_file(path="a.py"), source_file(path="b.py")]
    tasks = plan_versions(files, combinations(["x=1,2"]))
    assert [task.name for task in tasks] == ["a,x=1", "a,x=2", "b,x=1", "b,x=2"]


# ---------------------------------------------------------------- places


def test_a_project_is_the_folder_of_the_file_unless_told_otherwise(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    file = source_file("x = 1", path=str(tmp_path / "sub" / "a.py"))
    (here,) = plan_versions([file], [()])
    assert (here.folder, here.place) == (tmp_path / "sub", "a.py")
    there = task_of(file, tmp_path)
    assert (there.folder, there.place) == (tmp_path, "sub/a.py")


def test_places_are_right_where_folders_are_links(tmp_path: Path) -> None:
    (tmp_path / "real" / "sub").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real" / "sub")
    (tmp_path / "real" / "sub" / "a.py").symlink_to(tmp_path / "elsewhere.py")
    file = source_file(path=str(tmp_path / "link" / "a.py"))
    task = task_of(file, tmp_path / "link")
    assert (task.folder, task.place) == (tmp_path / "real" / "sub", "a.py")


def test_a_script_is_set_up_and_a_notebook_only_goes_to_its_folder(tmp_path: Path) -> None:
    script = source_file("x = 1", path=str(tmp_path / "sub" / "a.py"))
    first, second = task_of(script, tmp_path).cells()
    assert (first.kind, second.source) == ("set-up", "x = 1")
    assert first.source.startswith("# python sub/a.py\n")
    notebook = source_file("x = 1", path=str(tmp_path / "sub" / "a.ipynb"))
    first, second = task_of(notebook, tmp_path).cells()
    assert first.source.endswith("chdir('sub')")
    assert [cell.source for cell in task_of(notebook, tmp_path / "sub").cells()] == ["x = 1"]


def test_the_set_up_names_arguments_and_no_folder_of_this_machine(tmp_path: Path) -> None:
    file = source_file(path=str(tmp_path / "a b.py"))
    (task,) = plan_versions([file], [()], arguments=("--n", "3\n", "it's"))
    (cell,) = task.cells()
    assert str(tmp_path) not in cell.source
    assert cell.source.splitlines()[0].startswith("# python a b.py --n 3")
    assert cell.source.splitlines()[1].endswith("enter('a b.py', '--n', '3\\n', \"it's\")")


# ---------------------------------------------------------------- parameters


def kinds(file: SourceFile) -> list[str]:
    (parameters,) = combinations(["x=1"])
    return [
        "set" if cell.kind == "parameters" else cell.source
        for cell in with_parameters(file, parameters)
    ]


def test_parameters_come_after_the_cell_with_the_tag() -> None:
    assert kinds(source_file("a", tagged("b", "parameters"), "c")) == ["a", "b", "set", "c"]
    twice = source_file(tagged("a", "parameters"), tagged("b", "parameters"))
    assert kinds(twice) == ["a", "set", "b"]


def test_parameters_that_papermill_has_added_are_replaced() -> None:
    file = source_file(tagged("a", "parameters"), "b", tagged("c", "injected-parameters"), "d")
    assert kinds(file) == ["a", "b", "set", "d"]


def test_without_a_tag_parameters_come_first_but_below_the_docstring() -> None:
    assert kinds(source_file("a", "b")) == ["set", "a", "b"]
    assert kinds(source_file(tagged("doc", is_head=True), "a")) == ["doc", "set", "a"]
    assert kinds(source_file(tagged("doc", is_head=True))) == ["doc", "set"]
    assert kinds(source_file()) == ["set"]


def test_parameters_that_a_later_cell_sets_are_told(tmp_path: Path) -> None:
    options = ["lr=1", "n=1", "m=1", "k=1"]
    file = source_file("lr = 2", "if k: k = 3", "print(n); m: int = 4", "%time n = 1", "(k := 1)")
    assert task_of(file, tmp_path, *options).overridden() == ("lr", "m")
    marked = source_file(tagged("lr = 2", "parameters"), "print(lr)")
    assert task_of(marked, tmp_path, *options).overridden() == ()


# ---------------------------------------------------------------- paths


def lineage(*codes: str, doubt: str = "") -> CellLineage:
    """Return the last cell of a path that cells with these codes make."""
    hints = (Hint(kind="time", what=doubt),) if doubt else ()
    nodes = ["0" * 32] + ["-".join(codes[: at + 1]).ljust(32, "0") for at in range(len(codes))]
    return CellLineage(
        node=NodeId(nodes[-1]),
        parent=NodeId(nodes[-2]),
        code=codes[-1],
        strict="",
        number=len(codes),
        execution_count=len(codes),
        source=codes[-1],
        audit=CellAudit(hints=hints),
        seconds=1.0,
        size_bytes=10,
    )


def asked(*path: CellLineage) -> Callable[..., tuple[CellLineage, ...]]:
    """Return an engine's answer to which cell was the last."""
    return lambda last: path if last is None else path[-last:]


CELL = SourceCell(source="x", number=1, cell_id="id")
FAILED = CellResult(
    status="error",
    execution_count=None,
    outputs=(),
    seconds=2.0,
    error=CellError(ename="WorkerDied", evalue="died", traceback=()),
)


@pytest.fixture
def writer(tmp_path: Path) -> PathWriter:
    task = task_of(source_file(path=str(tmp_path / "a.ipynb")), tmp_path, "lr=0.1")
    return PathWriter(Project.at(tmp_path), task)


def add(writer: PathWriter, *codes: str, doubt: str = "") -> None:
    found = writer.follow(asked(lineage(*codes, doubt=doubt)), codes[-1])
    assert found is not None
    writer.add(found, [{"output_type": "stream", "name": "stdout", "text": codes[-1]}], CELL)


def test_cells_are_recorded_with_all_that_is_known(tmp_path: Path, writer: PathWriter) -> None:
    writer.begin()
    add(writer, "a")
    add(writer, "a", "b", doubt="the clock is read")
    add(writer, "a", "b", "c")
    project = Project.at(tmp_path)
    (version,) = project.versions()
    assert (version.name, version.origin) == ("a,lr=0.1", "a.ipynb")
    assert version.parameters == (("lr", "0.1"),)
    assert version.status == "ok"
    first, second, third = project.cells(version)
    assert [cell.source for cell in (first, second, third)] == ["a", "b", "c"]
    assert not first.taint
    assert second.taint == third.taint != ""
    assert first.cell_id == "id"
    assert project.outputs(second.execution)[0]["text"] == "b"
    assert writer.number() == 1


def test_a_cell_that_leads_nowhere_is_not_recorded(tmp_path: Path, writer: PathWriter) -> None:
    assert writer.follow(asked(), "%chex_status") is None
    add(writer, "a")
    assert writer.follow(asked(lineage("a")), "%chex_restore x") is None
    assert [len(version.path) for version in Project.at(tmp_path).versions()] == [1]


def test_going_back_begins_another_version_of_the_name(tmp_path: Path, writer: PathWriter) -> None:
    for codes in (["a"], ["a", "b"], ["a", "b", "c"]):
        add(writer, *codes)
    assert writer.follow(asked(lineage("a")), "%chex_restore x") is None
    add(writer, "a", "d")
    assert writer.follow(asked(), "%chex_status") is None
    add(writer, "e")
    project = Project.at(tmp_path)
    paths = [[cell.source for cell in project.cells(each)] for each in project.versions()]
    assert paths == [["a", "b", "c"], ["a", "d"], ["e"]]
    assert [version.number for version in project.versions()] == [1, 2, 3]
    assert writer.number() == 3


def test_a_version_that_the_notebook_names_is_called_so(tmp_path: Path, writer: PathWriter) -> None:
    add(writer, "a")
    assert writer.follow(asked(), "%chex_record other") is None
    add(writer, "b")
    add(writer, "b", "c")
    assert writer.follow(asked(lineage("a")), "%chex_checkout a") is None
    add(writer, "a", "d")
    project = Project.at(tmp_path)
    paths = {
        project.tree().labels[each]: [cell.source for cell in project.cells(each)]
        for each in project.versions()
    }
    assert paths == {"a,lr=0.1": ["a"], "other@1": ["b", "c"], "other": ["a", "d"]}


def test_a_state_that_was_never_recorded_is_an_error(writer: PathWriter) -> None:
    add(writer, "a")
    for strange in (lineage("b"), lineage("b", "c"), lineage("a", "b", "c")):
        with pytest.raises(EngineError, match="is not recorded"):
            writer.follow(asked(strange), "%chex_restore x")


def test_a_cell_whose_process_died_is_recorded_as_failed(
    tmp_path: Path, writer: PathWriter
) -> None:
    add(writer, "a")
    lost = writer.failed(CELL, FAILED, root=lambda: NodeId("unused"))
    writer.add(lost, [], CELL)
    project = Project.at(tmp_path)
    (version,) = project.versions()
    assert version.status == "error"
    first, last = project.cells(version)
    assert (last.parent, last.status, last.seconds) == (first.node, "error", 2.0)
    assert "it failed" in lost.doubt()
    assert last.taint


def test_the_first_cell_may_be_the_one_that_failed(writer: PathWriter) -> None:
    lost = writer.failed(CELL, FAILED, root=lambda: NodeId("root"))
    assert (lost.parent, lost.number) == ("root", 1)


@pytest.mark.parametrize(("largest", "is_kept"), [("", True), ("2", False), ("0", False)])
def test_files_that_cells_wrote_are_kept_unless_they_are_too_large(
    tmp_path: Path,
    writer: PathWriter,
    monkeypatch: pytest.MonkeyPatch,
    largest: str,
    is_kept: bool,
) -> None:
    monkeypatch.setenv("CHEX_KEEP_FILES", largest)
    (tmp_path / "out.txt").write_bytes(b"abc")
    digest = xxhash.xxh3_128_hexdigest(b"abc")
    effect = Effect(path="./out.txt", kind="written", digest=digest, size_bytes=3)
    cell = replace(lineage("a"), audit=CellAudit(effects=(effect,)))
    writer.add(cell, [], CELL)
    assert (Project.at(tmp_path).kept_file(digest) is not None) is is_kept


# ---------------------------------------------------------------- no engine


def test_a_catalog_that_cannot_be_written_costs_no_work(tmp_path: Path) -> None:
    (tmp_path / ".chex").write_text("in the way")
    (tmp_path / "a.py").write_text("open('ran', 'w')\n")
    file = source_file("open('ran', 'w')", path=str(tmp_path / "a.py"))
    with Batch() as batch, pytest.raises(CatalogError):
        batch.record(task_of(file, tmp_path))
    assert sorted(os.listdir(tmp_path)) == [".chex", "a.py"]


def test_a_notebook_without_cells_is_no_version(tmp_path: Path) -> None:
    with Batch() as batch:
        run = batch.record(task_of(source_file(path=str(tmp_path / "a.ipynb")), tmp_path))
    assert (run.status, run.cells, run.number) == ("ok", (), None)
    assert not (tmp_path / ".chex").exists()
