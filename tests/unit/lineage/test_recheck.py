"""What has changed since a cell ran is seen, whatever it is; what has not is not in doubt."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import xxhash

from chexpoint.engine import Engine
from chexpoint.errors import ChexError
from chexpoint.lineage import Auditor, Cell, Places, Step
from chexpoint.lineage.recheck import (
    Lost,
    Present,
    files_seen,
    put_back,
    worth_keeping,
)
from chexpoint.lineage.variables import value_digest
from chexpoint.model import CellLineage, Effect, Input, lineage_from_json, to_json
from tests.support.audited import run

TIMEOUT_S = 60
LARGE = b"large" * 50_000


def digest_of(data: bytes) -> str:
    return xxhash.xxh3_128_hexdigest(data)


class Notebook:
    """Cells in a project folder, audited by an `Auditor` that is told what they do."""

    def __init__(self, project: Path, cache: Path, worker: int = 0) -> None:
        self.project = project
        self._awake = threading.Event()
        self._auditor = Auditor(str(project), wake=self._awake.set, cache_folder=str(cache))
        self._step = Step(None)
        self._auditor.start(worker, self._step, listener=None, mechanism="audit hook")
        self._opened: list[list[Any]] = []
        self.path: list[CellLineage] = []

    # what a cell does

    def read(self, name: str) -> None:
        self._opened.append(["read", *self._as_it_is(name)])

    def list_folder(self, name: str) -> None:
        self._opened.append(["list", *self._as_it_is(name)])

    def write(self, name: str, data: bytes) -> None:
        self._opened.append(["write", *self._as_it_is(name)])
        (self.project / name).write_bytes(data)

    def delete(self, name: str) -> None:
        self._opened.append(["delete", *self._as_it_is(name)])
        (self.project / name).unlink()

    def mkdir(self, name: str) -> None:
        self._opened.append(["folder", *self._as_it_is(name)])
        (self.project / name).mkdir()

    def symlink(self, target: str, name: str) -> None:
        old, new = self._as_it_is(target), self._as_it_is(name)
        self._opened.append(["link", *old, *new])
        (self.project / name).symlink_to(target)

    def _as_it_is(self, name: str) -> list[Any]:
        path = str(self.project / name)
        try:
            info = os.stat(path)
        except OSError:
            return [path, None]
        times = [info.st_mtime_ns, info.st_ctime_ns]
        return [path, [info.st_dev, info.st_ino, info.st_size, *times]]

    def end(self, **report: object) -> CellLineage:
        """End the cell and begin the next; return what is recorded of the one that has ended."""
        self._step = Step(self._step)
        self._auditor.begin(self._step)
        self._auditor.end(
            Cell(
                source="",
                code="code",
                execution_count=len(self.path) + 1,
                seconds=1.0,
                size_bytes=1,
                status="ok",
                report={"opened": self._opened, **report},
            )
        )
        self._opened = []
        while not (audited := self._auditor.take_audited()):
            assert self._awake.wait(TIMEOUT_S)
            self._awake.clear()
        # Through JSON, as the catalog keeps it.
        found = lineage_from_json(json.loads(json.dumps(to_json(audited[0].lineage))))
        self.path.append(found)
        return found


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "project"
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which the digests of installed packages are kept, to save time."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def notebook(project: Path, cache: Path) -> Notebook:
    return Notebook(project, cache)


@pytest.fixture
def present(project: Path, cache: Path) -> Present:
    return Present(str(project), cache_folder=str(cache), environ={})


def with_inputs(cell: CellLineage, *inputs: Input) -> CellLineage:
    return replace(cell, audit=replace(cell.audit, inputs=inputs))


def with_effects(cell: CellLineage, *effects: Effect) -> CellLineage:
    return replace(cell, audit=replace(cell.audit, effects=effects))


# ---------------------------------------------------------------- files that were read


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def instead(make: Callable[[Path], object]) -> Callable[[Path], None]:
    """Return what puts something else in the place of a file or an empty folder."""

    def edit(path: Path) -> None:
        path.rmdir() if path.is_dir() else path.unlink()
        make(path)

    return edit


EDITS: list[tuple[str, Callable[[Path], object], str]] = [
    ("contents", lambda path: path.write_bytes(b"edited"), "has other contents now"),
    ("one byte", lambda path: path.write_bytes(b"L" + LARGE[1:]), "has other contents now"),
    ("growth", append, "has other contents now"),
    ("deletion", Path.unlink, "is not there any more"),
    ("a folder", instead(Path.mkdir), "is a folder now"),
    ("a pipe", instead(os.mkfifo), "is a pipe now"),
    ("a link", instead(lambda path: path.symlink_to("same")), "leads elsewhere now"),
]


@pytest.mark.parametrize(("edit", "why"), [each[1:] for each in EDITS], ids=[e[0] for e in EDITS])
def test_every_edit_of_a_file_is_seen(
    project: Path, notebook: Notebook, present: Present, edit: Callable[[Path], object], why: str
) -> None:
    (project / "data").mkdir()
    for name in ("file", "same", "beside"):
        (project / "data" / name).write_bytes(LARGE)
        notebook.read(f"data/{name}")
    notebook.end()
    for _ in range(2):
        assert present.changed_inputs(notebook.path) == ()
    edit(project / "data" / "file")
    assert present.changed_inputs(notebook.path) == (f"./data/file {why}",)


def test_a_file_goes_with_its_folder(project: Path, notebook: Notebook, present: Present) -> None:
    (project / "data").mkdir()
    (project / "data" / "file").write_bytes(b"x")
    notebook.read("data/file")
    notebook.end()
    (project / "data").rename(project / "moved")
    assert present.changed_inputs(notebook.path) == ("./data/file is not there any more",)
    (project / "data").symlink_to("moved")
    assert present.changed_inputs(notebook.path) == ("./data/file leads elsewhere now",)
    (project / "data").unlink()
    (project / "moved").rename(project / "data")
    assert present.changed_inputs(notebook.path) == ()


def test_the_same_contents_again_are_the_same(
    project: Path, notebook: Notebook, present: Present
) -> None:
    (project / "file").write_bytes(b"same")
    notebook.read("file")
    notebook.end()
    (project / "file").write_bytes(b"edited")
    assert present.changed_inputs(notebook.path) == ("./file has other contents now",)
    (project / "file").unlink()
    (project / "file").write_bytes(b"same")
    (project / "file").chmod(0o600)
    assert present.changed_inputs(notebook.path) == ()


@pytest.mark.parametrize(
    "make", [lambda path: path.write_bytes(b""), lambda path: path.mkdir(), os.mkfifo]
)
def test_a_file_that_was_not_there_must_not_be_there(
    project: Path, notebook: Notebook, present: Present, make: Callable[[Path], object]
) -> None:
    for name in ("none", "no/folder"):
        notebook.read(name)
    notebook.end()
    assert present.changed_inputs(notebook.path) == ()
    make(project / "none")
    (project / "no").mkdir()
    (changed,) = present.changed_inputs(notebook.path)
    assert changed.startswith("./none is ")


def test_names_that_are_no_text_are_looked_at_and_told_on_one_line(
    project: Path, notebook: Notebook, present: Present
) -> None:
    names = [os.fsdecode(raw) for raw in (b"line\nbreak", b"\xff\xfe", b"\x1b[2J", b"*")]
    for name in names:
        (project / name).write_bytes(b"x")
        notebook.read(name)
    notebook.end()
    assert present.changed_inputs(notebook.path) == ()
    for name in names:
        (project / name).write_bytes(b"y")
    changed = present.changed_inputs(notebook.path)
    assert len(changed) == len(names)
    assert all(why.isprintable() for why in changed)


@pytest.mark.parametrize("name", ["link", "folder/file", "folder/../folder/file", "folder/none"])
def test_links_that_led_to_a_file_must_lead_there_now(
    project: Path, notebook: Notebook, present: Present, name: str
) -> None:
    for folder in ("one", "two"):
        (project / folder).mkdir()
        (project / folder / "file").write_bytes(b"x")
    link = project / name.partition("/")[0]
    link.symlink_to("one" if "/" in name else "one/file")
    notebook.read(name)
    notebook.end()
    assert present.changed_inputs(notebook.path) == ()
    link.unlink()
    link.symlink_to("two" if "/" in name else "two/file")
    changed = f"the link ./{link.name} leads elsewhere now"
    assert present.changed_inputs(notebook.path) == (changed,)
    link.unlink()
    (project / "one").rename(link)
    assert changed in present.changed_inputs(notebook.path)


@pytest.mark.parametrize(
    "digests",
    [
        ("volatile",),
        ("unreadable",),
        ("fifo",),
        ("socket",),
        ("device",),
        ("absent", digest_of(b"x")),
        (digest_of(b"x"), digest_of(b"y")),
        ("cell:1",),
        ("cell:9",),
        ("cell:",),
        ("something new",),
        (),
    ],
)
def test_what_is_not_known_for_sure_is_not_the_same(
    project: Path, notebook: Notebook, present: Present, digests: tuple[str, ...]
) -> None:
    (project / "file").write_bytes(b"x")
    cell = with_inputs(notebook.end(), Input(kind="file", name="./file", digests=digests))
    (changed,) = present.changed_inputs([cell])
    assert changed.startswith("./file ")


@pytest.mark.parametrize("name", ["$TMP/tmp*", "/dev/shm/psm_*", "./../outside", "file", "~user/x"])
@pytest.mark.parametrize("digest", ["absent", digest_of(b"x")])
def test_a_name_that_leads_to_no_single_file_is_not_sure(
    notebook: Notebook, present: Present, name: str, digest: str
) -> None:
    cell = with_inputs(notebook.end(), Input(kind="file", name=name, digests=(digest,)))
    (changed,) = present.changed_inputs([cell])
    assert changed.startswith(f"{name} cannot be found again")


def test_a_huge_file_is_known_by_size_and_time(
    project: Path, notebook: Notebook, present: Present
) -> None:
    with open(project / "huge", "wb") as file:
        file.truncate(2**32 + 1)
    notebook.read("huge")
    notebook.end()
    assert present.changed_inputs(notebook.path) == ()
    os.utime(project / "huge", ns=(1, 1))
    assert present.changed_inputs(notebook.path) == ("./huge has other contents now",)


def test_there_is_nothing_to_object_to_before_the_first_cell(present: Present) -> None:
    assert present.changed_inputs(()) == ()


# ---------------------------------------------------------------- files of earlier cells


def test_what_an_earlier_cell_left_must_be_as_it_left_it(
    project: Path, notebook: Notebook, present: Present
) -> None:
    notebook.write("out", b"made")
    notebook.end()
    notebook.read("out")
    cell = notebook.end()
    assert [found.digests for found in cell.audit.inputs] == [("cell:1",)]
    assert present.changed_inputs(notebook.path) == ()
    (project / "out").write_bytes(b"edited")
    assert present.changed_inputs(notebook.path) == ("./out has other contents now",)
    assert present.changed_inputs(notebook.path, restored={"./out"}) == ()


def test_what_counts_is_the_run_that_led_here(
    project: Path, notebook: Notebook, present: Present, cache: Path
) -> None:
    notebook.write("out", b"made at ten")
    notebook.end()
    notebook.read("out")
    second = notebook.end()
    again = Notebook(project, cache)
    again.write("out", b"made at eleven")
    first = again.end()
    assert present.changed_inputs([first, second]) == ()
    assert present.changed_inputs(notebook.path) != ()


def test_what_no_cell_of_the_path_has_left_is_not_sure(
    notebook: Notebook, present: Present
) -> None:
    notebook.write("out", b"made")
    notebook.end()
    notebook.read("out")
    first, second = notebook.path[0], notebook.end()
    without = with_effects(first)
    assert present.changed_inputs([without, second]) == ("./out is not known as a cell left it",)
    # Nothing could be put back, either.
    assert present.changed_inputs([without, second], restored={"./out"}) != ()


# ---------------------------------------------------------------- other inputs


def test_entries_that_come_and_go_are_seen(
    project: Path, notebook: Notebook, present: Present
) -> None:
    (project / "data").mkdir()
    (project / "data" / "a").write_bytes(b"x")
    for name in ("data", "."):
        notebook.list_folder(name)
    notebook.end()
    (project / "data" / "a").write_bytes(b"y")
    (project / "data" / ".ipynb_checkpoints").mkdir()
    assert present.changed_inputs(notebook.path) == ()
    (project / "data" / "b").write_bytes(b"")
    assert present.changed_inputs(notebook.path) == ("the entries of ./data are not the same now",)
    (project / "data" / "b").unlink()
    assert present.changed_inputs(notebook.path) == ()
    (project / "data").rename(project / "moved")
    assert present.changed_inputs(notebook.path) == (
        "the entries of . are not the same now",
        "./data is not there any more",
    )
    (project / "data").symlink_to("moved")
    assert "./data leads elsewhere now" in present.changed_inputs(notebook.path)


def test_a_folder_that_changed_while_the_cell_ran_is_not_sure(
    project: Path, notebook: Notebook, present: Present
) -> None:
    (project / "data").mkdir()
    now = present._files.listings(["./data"])["./data"]
    found = Input(kind="folder", name="./data", digests=("0" * 32, now))
    (changed,) = present.changed_inputs([with_inputs(notebook.end(), found)])
    assert changed == "the entries of ./data changed while the cell ran"


@pytest.mark.parametrize("word", ["absent", "unreadable", "volatile"])
def test_a_folder_without_entries_to_compare_is_not_sure(
    notebook: Notebook, present: Present, word: str
) -> None:
    found = Input(kind="folder", name="./none", digests=(word,))
    (changed,) = present.changed_inputs([with_inputs(notebook.end(), found)])
    assert changed == "./none is not there any more"


def test_variables_from_outside_are_compared_and_those_of_cells_are_not(
    project: Path, notebook: Notebook, cache: Path
) -> None:
    places = Places(str(project))
    variables = {
        "HERE": value_digest(f"{project}/data", places.normalise),
        "MADE": "set",
        "NONE": None,
        "PYTHONHASHSEED": value_digest("0", str),
    }
    notebook.end(variables=variables)

    def changed(**environ: str) -> tuple[str, ...]:
        present = Present(str(project), cache_folder=str(cache), environ=environ)
        return present.changed_inputs(notebook.path)

    here = f"{project}/data"
    assert changed(HERE=here) == ()
    assert changed(HERE=here, MADE="x", OTHER="y", PYTHONHASHSEED="0") == ()
    assert changed(HERE="/data") == ("the environment variable HERE has another value now",)
    assert changed() == ("the environment variable HERE is not set now",)
    assert changed(HERE=here, NONE="") == ("the environment variable NONE is set now",)
    assert len(changed(HERE=here, PYTHONHASHSEED="1")) == 1


def test_the_network_is_never_sure(notebook: Notebook, present: Present) -> None:
    notebook._opened.append(["connect", "192.0.2.1:80", None])
    notebook.end()
    assert present.changed_inputs(notebook.path) == (
        "the network was used: what it answers is not known",
    )


def test_packages_must_be_those_of_the_root_or_of_the_last_cell_that_changed_them(
    notebook: Notebook, present: Present
) -> None:
    first, second = notebook.end(), notebook.end()
    now, then = present.packages(), "0" * 32
    changed = ("the installed packages are not the same now",)

    def after(cell: CellLineage, packages: str) -> CellLineage:
        return with_inputs(cell, Input(kind="packages", name="", digests=(packages,)))

    assert present.changed_inputs([first, second]) == ()
    assert present.changed_inputs([after(first, then), second]) == changed
    assert present.changed_inputs([first, after(second, then)]) == changed
    assert present.changed_inputs([after(first, then), after(second, now)]) == ()
    elsewhere = replace(first, parent=second.node)
    assert present.changed_inputs([elsewhere, second]) == (
        "Python or the installed packages are not the same now",
    )
    assert present.changed_inputs([elsewhere, after(second, now)]) == ()


def test_startup_files_are_part_of_the_packages(
    project: Path, tmp_path: Path, present: Present, cache: Path
) -> None:
    startup = tmp_path / "00-first.py"
    startup.write_text("x = 1")
    other = Present(str(project), cache_folder=str(cache), startup=[str(startup)])
    assert other.packages() == other.packages() != present.packages()


def test_packages_are_known_to_the_next_process(project: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    found = Present(str(project), cache_folder=str(cache)).packages()
    assert [path.name.split("-")[0] for path in cache.iterdir()] == ["packages"]
    assert Present(str(project), cache_folder=str(cache)).packages() == found


# ---------------------------------------------------------------- effects


def test_effects_that_are_there_are_not_lost(
    project: Path, notebook: Notebook, present: Present
) -> None:
    (project / "old").write_bytes(b"x")
    notebook.delete("old")
    notebook.mkdir("out")
    notebook.write("out/file", LARGE)
    notebook.write("scratch", b"x")
    notebook.delete("scratch")
    cell = notebook.end()
    assert sorted(effect.kind for effect in cell.audit.effects) == [
        "deleted",
        "folder",
        "transient",
        "written",
    ]
    (project / "scratch").write_bytes(b"of somebody else")
    assert present.changed_effects(cell) == ()
    (project / "out" / "file").chmod(0o600)
    assert present.changed_effects(cell) == ()


@pytest.mark.parametrize(
    ("edit", "name", "why"),
    [
        (lambda p: (p / "out/file").write_bytes(b"y"), "./out/file", "has other contents now"),
        (lambda p: (p / "out/file").unlink(), "./out/file", "is not there any more"),
        (lambda p: (p / "old").write_bytes(b"x"), "./old", "is there now"),
        (lambda p: (p / "old").symlink_to("none"), "./old", "leads elsewhere now"),
        (lambda p: (p / "made").rmdir(), "./made", "is no folder any more"),
        (lambda p: instead(os.mkfifo)(p / "made"), "./made", "is no folder any more"),
        (lambda p: instead(lambda q: q.symlink_to("out"))(p / "made"), "./made", "is no folder"),
    ],
)
def test_lost_effects_are_named(
    project: Path,
    notebook: Notebook,
    present: Present,
    edit: Callable[[Path], object],
    name: str,
    why: str,
) -> None:
    (project / "old").write_bytes(b"x")
    notebook.delete("old")
    notebook.mkdir("out")
    notebook.mkdir("made")
    notebook.write("out/file", b"x")
    cell = notebook.end()
    edit(project)
    (lost,) = present.changed_effects(cell)
    assert lost.effect.path == name
    assert lost.path == str(project / name)
    assert lost.why.startswith(f"{name} {why}")


def test_a_folder_that_is_gone_takes_its_files_with_it(
    project: Path, notebook: Notebook, present: Present
) -> None:
    notebook.mkdir("out")
    notebook.write("out/file", b"x")
    cell = notebook.end()
    (project / "out").rename(project / "elsewhere")
    assert [lost.effect.path for lost in present.changed_effects(cell)] == ["./out", "./out/file"]


@pytest.mark.parametrize(
    "effect",
    [
        Effect(path="./held", kind="held"),
        Effect(path="./file", kind="written", digest="unreadable"),
        Effect(path="./file", kind="written", digest="fifo"),
        Effect(path="./file", kind="written", digest="link"),
        Effect(path="$TMP/tmp*", kind="written", digest=digest_of(b"x")),
        Effect(path="$TMP/tmp*", kind="deleted"),
        Effect(path="$TMP/tmp*", kind="folder"),
    ],
)
def test_effects_that_are_not_known_for_sure_are_lost(
    project: Path, notebook: Notebook, present: Present, effect: Effect
) -> None:
    for name in ("held", "file"):
        (project / name).write_bytes(b"x")
    (lost,) = present.changed_effects(with_effects(notebook.end(), effect))
    assert lost.effect == effect


def test_a_file_that_is_still_open_counts_by_its_contents(
    project: Path, present: Present, cache: Path
) -> None:
    notebook = Notebook(project, cache, worker=os.getpid())
    with open(project / "log", "wb") as file:
        notebook.write("log", b"line")
        cell = notebook.end()
        (effect,) = cell.audit.effects
        assert (effect.kind, effect.digest) == ("held", digest_of(b"line"))
        assert present.changed_effects(cell) == ()
        file.write(b"another line")
    assert len(present.changed_effects(cell)) == 1


def test_a_link_is_known_by_where_it_leads(
    project: Path, notebook: Notebook, present: Present
) -> None:
    notebook.symlink("one", "link")
    cell = notebook.end()
    assert present.changed_effects(cell) == ()
    (project / "link").unlink()
    (project / "link").symlink_to("two")
    (lost,) = present.changed_effects(cell)
    assert lost.why == "./link is not the link that it was"


# ---------------------------------------------------------------- putting back


def lost(project: Path, name: str = "./file", **fields: Any) -> Lost:
    effect = Effect(path=name, **{"kind": "written", "digest": digest_of(b"x"), **fields})
    return Lost(effect=effect, path=str(project / name), why="")


def test_what_is_put_back_is_no_longer_lost(
    project: Path, notebook: Notebook, present: Present, tmp_path: Path
) -> None:
    notebook.mkdir("out")
    notebook.mkdir("out/empty")
    notebook.write("out/file", LARGE)
    cell = notebook.end()
    kept = tmp_path / "kept"
    (project / "out" / "file").rename(kept)
    (project / "out" / "empty").rmdir()
    (project / "out").rmdir()
    for each in present.changed_effects(cell):
        put_back(each, kept if each.effect.kind == "written" else None)
    assert present.changed_effects(cell) == ()
    assert (project / "out" / "file").read_bytes() == LARGE


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "~/file"},
        {"name": "/etc/hosts"},
        {"kind": "deleted", "digest": ""},
        {"kind": "transient", "digest": ""},
        {"digest": ""},
        {"digest": "size:1:2"},
        {"digest": "link"},
        {"digest": digest_of(b"y")},
    ],
)
def test_what_must_not_be_put_back_is_refused_in_one_line(
    project: Path, tmp_path: Path, fields: dict[str, Any]
) -> None:
    kept = tmp_path / "kept"
    kept.write_bytes(b"x")
    (project / "file").write_bytes(b"edited")
    with pytest.raises(ChexError) as caught:
        put_back(lost(project, **fields), kept)
    assert str(caught.value).isprintable()
    assert (project / "file").read_bytes() == b"edited"


def test_nothing_is_put_back_without_a_path_or_contents(project: Path, tmp_path: Path) -> None:
    with pytest.raises(ChexError, match="cannot be put back"):
        put_back(lost(project), None)
    with pytest.raises(ChexError, match=r"cannot be put back: No such file or directory; run"):
        put_back(lost(project), tmp_path / "nowhere")
    with pytest.raises(ChexError, match="not put back"):
        put_back(replace(lost(project), path=""), tmp_path)
    assert os.listdir(project) == []


# ---------------------------------------------------------------- what a state has seen


def test_of_several_cells_the_last_to_see_a_file_counts(
    project: Path, notebook: Notebook, present: Present
) -> None:
    for name in ("in", "edited", "gone"):
        (project / name).write_bytes(b"x")
    for name in ("in", "edited", "gone", "none"):
        notebook.read(name)
    notebook.list_folder(".")
    notebook.end()
    notebook.write("out", b"first")
    notebook.mkdir("folder")
    notebook.delete("gone")
    notebook.end()
    (project / "edited").write_bytes(b"y")
    notebook.read("edited")
    notebook.read("out")
    notebook.end()
    expected = {
        "./edited": digest_of(b"y"),
        "./gone": "absent",
        "./in": digest_of(b"x"),
        "./none": "absent",
        "./out": digest_of(b"first"),
    }
    assert files_seen(notebook.path) == expected
    assert list(files_seen(notebook.path)) == sorted(expected)
    assert present.different_files(notebook.path) == ()
    assert files_seen(notebook.path[:1]) == {
        **dict.fromkeys(("./edited", "./gone", "./in"), digest_of(b"x")),
        "./none": "absent",
    }


def test_files_that_differ_from_what_a_state_saw_are_named(
    project: Path, notebook: Notebook, present: Present
) -> None:
    for name in ("in", "out"):
        (project / name).write_bytes(b"x")
    for name in ("in", "none"):
        notebook.read(name)
    notebook.write("out", b"made")
    notebook.end()
    (project / "in").write_bytes(b"y")
    (project / "none").write_bytes(b"")
    (project / "out").unlink()
    found = present.different_files(notebook.path)
    assert [(each.name, each.path, each.expected, each.why) for each in found] == [
        ("./in", f"{project}/in", digest_of(b"x"), "./in has other contents now"),
        ("./none", f"{project}/none", "absent", "./none is there now"),
        ("./out", f"{project}/out", digest_of(b"made"), "./out is not there any more"),
    ]


def test_what_is_not_known_is_not_compared(notebook: Notebook) -> None:
    cell = with_inputs(
        notebook.end(),
        Input(kind="file", name="./volatile", digests=("volatile",)),
        Input(kind="file", name="./left", digests=("cell:7",)),
        Input(kind="file", name="$TMP/tmp*", digests=(digest_of(b"x"),)),
        Input(kind="folder", name="./folder", digests=(digest_of(b"x"),)),
    )
    cell = with_effects(
        cell,
        Effect(path="./link", kind="written", digest="link:0"),
        Effect(path="./pipe", kind="written", digest="fifo"),
        Effect(path="./held", kind="held"),
        Effect(path="./scratch", kind="transient"),
    )
    assert files_seen([cell]) == {}


def test_of_too_many_files_some_are_compared_and_it_says_so(
    notebook: Notebook, present: Present, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chexpoint.lineage.recheck._MOST_COMPARED", 3)
    names = [f"./{n:04}" for n in range(1003)]
    inputs = [Input(kind="file", name=name, digests=(digest_of(b"x"),)) for name in names]
    *found, last = present.different_files([with_inputs(notebook.end(), *inputs)])
    assert [each.name for each in found] == names[:3]
    assert (last.name, last.why) == ("", "1,000 more files were not compared")


def test_contents_worth_keeping_are_those_read_and_written_in_the_project(
    project: Path, notebook: Notebook
) -> None:
    for name in ("in", "changed", "../outside", "gone", "later"):
        (project / name).write_bytes(b"1234")
        notebook.read(name)
    notebook.read("none")
    notebook.list_folder(".")
    notebook.write("out", b"made")
    notebook.write("../outside too", b"made")
    notebook.delete("gone")
    notebook.end()
    notebook.read("out")
    second = notebook.end()
    (project / "later").unlink()
    places = Places(str(project))
    found = worth_keeping(notebook.path[0], places)
    assert [(each.name, each.path, each.digest, each.size_bytes) for each in found] == [
        ("./changed", f"{project}/changed", digest_of(b"1234"), 4),
        ("./in", f"{project}/in", digest_of(b"1234"), 4),
        ("./out", f"{project}/out", digest_of(b"made"), 4),
    ]
    assert worth_keeping(second, places) == ()
    odd = with_effects(
        second,
        Effect(path="./huge", kind="written", digest="size:1:2", size_bytes=1),
        Effect(path="./link", kind="written", digest="link:0"),
        Effect(path="./held", kind="held", digest=digest_of(b"x")),
        Effect(path="./../up", kind="written", digest=digest_of(b"x")),
    )
    assert worth_keeping(odd, places) == ()


# ---------------------------------------------------------------- cells that really ran


@pytest.mark.slow
def test_cells_that_ran_are_compared_with_the_world_as_it_is(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLOUR", "blue")
    monkeypatch.delenv("MPLBACKEND", raising=False)  # the worker then sets it
    (project / "in.txt").write_text("1")
    cells = [
        "import os, subprocess\nos.environ['SHADE'] = 'dark'\nos.environ['MPLBACKEND']",
        "x = subprocess.run(['cat', 'in.txt'], capture_output=True).stdout",
        "os.listdir('.'), os.environ['COLOUR'], os.environ['SHADE']",
        "open('out.txt', 'wb').write(x)",
        "print(open('out.txt').read(), os.path.exists('none'))",
    ]
    with Engine(cwd=str(project)) as engine:
        path = [run(engine, cell) for cell in cells]
    present = Present(str(project))

    def changed() -> list[tuple[str, ...]]:
        return [present.changed_inputs(path[: n + 1]) for n in range(len(path))]

    files = ("the entries of . are not the same now",)
    assert changed() == [(), (), files, (), ()]
    assert present.changed_effects(path[3]) == ()
    assert present.different_files(path) == ()
    (project / "out.txt").unlink()
    monkeypatch.setenv("COLOUR", "red")
    monkeypatch.setenv("MPLBACKEND", "agg")
    (project / "in.txt").write_text("2")
    assert changed() == [
        ("the environment variable MPLBACKEND is set now",),
        ("./in.txt has other contents now",),
        ("the environment variable COLOUR has another value now",),
        (),
        ("./out.txt is not there any more",),
    ]
