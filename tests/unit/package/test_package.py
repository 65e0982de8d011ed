"""What goes into a package comes out of it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from chexpoint.errors import InvalidValue, PackageError
from chexpoint.model import ExecutionTree, Recording, Version
from chexpoint.package import open_package, write_package
from chexpoint.package.documents import portable
from tests.unit.package.worlds import (
    DATA,
    EXTRA,
    HELPER,
    NEEDS,
    cell,
    digest,
    files_in,
    full_recording,
    ident,
    members_of,
    node_of,
    notebook,
    packed,
    shown,
    small_recording,
    stream,
    with_events,
    with_variables,
)


@pytest.mark.parametrize("recording", [small_recording(), full_recording()])
def test_a_recording_comes_out_as_it_went_in(tmp_path: Path, recording: Recording) -> None:
    with open_package(packed(tmp_path, recording)) as package:
        assert package.recording == recording
        assert list(package.recording.labels) == list(recording.labels)


def test_every_field_of_the_full_recording_is_used() -> None:
    # So that a field that is added to the model is not forgotten here, and in packages.
    recording = full_recording()
    unset = Recording(tree=ExecutionTree(), cells={})
    assert [
        name
        for name in unset.__dataclass_fields__
        if getattr(recording, name) == getattr(unset, name)
    ] == []
    for values in (
        list(recording.tree.nodes.values()),
        list(recording.tree.versions),
        [each.lineage for each in recording.cells.values()],
        list(recording.cells.values()),
        [recording.environment],
    ):
        for name in values[0].__dataclass_fields__:
            # What the graph knows of variables stays at home.
            assert name == "variables" or any(getattr(value, name) for value in values), name


def test_events_and_paths_of_the_machine_are_left_out(tmp_path: Path) -> None:
    recording = with_variables(with_events(small_recording()))
    tree = recording.tree
    moved = [replace(v, origin=f"/home/somebody/{v.origin}") for v in tree.versions]
    there = replace(recording, tree=ExecutionTree(tree.nodes.values(), moved))
    with open_package(packed(tmp_path, there)) as package:
        assert package.recording == small_recording()
    everything = b"".join(members_of(tmp_path / "paper.chex").values())
    assert b"somebody" not in everything
    assert os.fsencode(tmp_path) not in everything


def test_where_the_project_was_is_told_only_if_outputs_tell(tmp_path: Path) -> None:
    recording = replace(small_recording(), folder="/home/somebody")
    with open_package(packed(tmp_path, recording)) as package:
        assert package.recording.folder == ""
    first = replace(recording.cells[ident(1)], outputs=(stream("at /home/somebody/a.py\n"),))
    telling = replace(recording, cells={**recording.cells, ident(1): first})
    with open_package(packed(tmp_path, telling)) as package:
        assert package.recording == telling


def test_the_same_recording_and_files_give_the_same_bytes(tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "another"]
    for folder in folders:
        folder.mkdir()
    first, second = (packed(folder, full_recording()).read_bytes() for folder in folders)
    assert first == second
    code = (
        "import sys; from pathlib import Path; from tests.unit.package import worlds;"
        "worlds.packed(Path(sys.argv[1]), worlds.full_recording())"
    )
    third = tmp_path / "third"
    third.mkdir(mode=0o700)
    environ = {**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"}
    subprocess.run([sys.executable, "-c", code, third], check=True, env=environ, timeout=60)
    assert (third / "paper.chex").read_bytes() == first


def test_input_files_are_kept_once_and_by_content(tmp_path: Path) -> None:
    members = members_of(packed(tmp_path, full_recording()))
    for data in (DATA, HELPER, EXTRA):
        assert members[f"files/{digest(data)[:2]}/{digest(data)}"] == data
    assert sum(name.startswith("files/") for name in members) == 3


def test_big_outputs_are_kept_once(tmp_path: Path) -> None:
    members = members_of(packed(tmp_path, full_recording()))
    (picture,) = (data for name, data in members.items() if name.startswith("outputs/"))
    assert json.loads(picture)["data"]["image/png"].startswith("iVBOR")
    assert b"iVBOR" not in members["outputs.json"]


def test_what_is_not_in_it_is_told_with_the_reason(tmp_path: Path) -> None:
    contents = tmp_path / "contents"
    contents.mkdir()
    out = tmp_path / "paper.chex"
    summary = write_package(out, full_recording(), files_in(contents), None, needs=NEEDS)
    told = "\n".join(summary.left_out)
    assert "~/private.csv: it is outside of the project" in told
    assert "./huge.bin: it was too large or too far away" in told
    assert "./gone\\udce9.csv: its contents were not kept, and it has changed since" in told
    assert "./sub/large.bin: no cell has read it" in told
    assert "data.csv" not in told
    assert "new.csv" not in told
    with open_package(out) as package:
        assert package.summary == summary
        assert dict(package.notebooks) == {}


def test_a_file_with_other_contents_is_left_out(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_bytes(b"something else")
    out = tmp_path / "paper.chex"
    summary = write_package(out, small_recording(), lambda _name, _digest: wrong, None, needs=NEEDS)
    assert summary.files == 0
    assert len(summary.left_out) == 1
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert (
        write_package(out, small_recording(), lambda _name, _digest: pipe, None, needs=NEEDS).files
        == 0
    )


def test_the_summary_says_what_is_in_it(tmp_path: Path) -> None:
    out = packed(tmp_path, small_recording())
    with open_package(out) as package:
        summary = package.summary
    assert summary.versions == ("base", "tuned")
    assert (summary.cells, summary.files, summary.files_bytes) == (3, 1, len(DATA))
    assert summary.size_bytes == out.stat().st_size
    assert summary.unpacked_bytes == sum(map(len, members_of(out).values()))
    assert 0 < summary.lineage_bytes < summary.size_bytes
    assert summary.made_by.startswith("chexpoint ")


def test_each_version_is_there_as_a_notebook(tmp_path: Path) -> None:
    out = packed(tmp_path, full_recording())
    members = members_of(out)
    with open_package(out) as package:
        names = {label: json.loads(members[name]) for label, name in package.notebooks.items()}
    assert {label: each["metadata"]["name"] for label, each in names.items()} == {
        "Base": "Base",
        "Base@2": "Base",
        "base": "base",
        "größe": "größe",
    }


def test_the_readme_tells_what_the_versions_are(tmp_path: Path) -> None:
    text = members_of(packed(tmp_path, full_recording()))["README.md"].decode()
    assert text.startswith("# a title\n")
    assert "| Base | 3 | 250 ms | notebooks/Base.ipynb |" not in text
    assert "| größe | 2 |" in text
    assert "python3.12 -m venv" in text
    assert "- ~/private.csv: it is outside of the project" in text


def test_a_package_that_cannot_be_finished_leaves_what_was_there(tmp_path: Path) -> None:
    contents = tmp_path / "contents"
    contents.mkdir()
    find = files_in(contents)
    out = tmp_path / "paper.chex"
    out.write_bytes(b"what was there")

    def interrupt(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_package(out, small_recording(), find, None, interrupt, needs=NEEDS)
    assert out.read_bytes() == b"what was there"
    assert {path.name for path in tmp_path.iterdir()} == {"paper.chex", "contents"}


def test_a_file_that_changes_while_it_is_packed_is_noticed(tmp_path: Path) -> None:
    contents = tmp_path / "contents"
    contents.mkdir()
    find = files_in(contents)

    def change(_done: int, _total: int) -> None:
        with (contents / digest(DATA)).open("ab") as file:
            file.write(b"more" if _done == len(DATA) else b"")

    with pytest.raises(PackageError, match=r"\./data\.csv changed while it was being packed"):
        write_package(tmp_path / "paper.chex", small_recording(), find, None, change, needs=NEEDS)


def test_sentences_are_made_fit_for_a_terminal() -> None:
    found = portable(replace(small_recording(), title="a\x1b[2J\nb", notes=("c\td\udc80",)))
    assert (found.title, found.notes) == ("a\\x1b[2J b", ("c d\\udc80",))


def test_a_recording_that_is_not_whole_is_not_packed(tmp_path: Path) -> None:
    recording = small_recording()
    out = tmp_path / "paper.chex"
    with pytest.raises(PackageError, match="nothing is recorded of node"):
        write_package(out, replace(recording, cells={}), lambda *_: None)
    broken = Version(name="broken", path=(ident(2),))
    tree = ExecutionTree(recording.tree.nodes.values(), [broken])
    with pytest.raises(PackageError, match="the path of version broken is not whole"):
        write_package(out, replace(recording, tree=tree), lambda *_: None)
    deep: object = "deep"
    for _ in range(200):
        deep = [deep]
    nested = replace(recording.cells[ident(1)], outputs=(shown(**{"application/json": deep}),))
    with pytest.raises(PackageError, match="nested too deep"):
        write_package(
            out,
            replace(recording, cells={**recording.cells, ident(1): nested}),
            lambda *_: None,
            needs=NEEDS,
        )
    assert not out.exists()


def test_nodes_of_no_version_are_left_out(tmp_path: Path) -> None:
    recording = small_recording()
    lonely = cell(9, None)
    more = ExecutionTree([*recording.tree.nodes.values(), node_of(lonely)], recording.tree.versions)
    cells = {**recording.cells, lonely.node: lonely}
    with open_package(packed(tmp_path, replace(recording, tree=more, cells=cells))) as package:
        assert package.recording == recording


def test_numbers_that_are_none_survive_in_outputs(tmp_path: Path) -> None:
    recording = small_recording()
    first = replace(
        recording.cells[ident(1)], outputs=(shown(**{"application/json": float("nan")}),)
    )
    out = packed(tmp_path, replace(recording, cells={**recording.cells, ident(1): first}))
    with open_package(out) as package:
        (output,) = package.recording.cells[ident(1)].outputs
    assert str(output["data"]["application/json"]) == "nan"


# ---------------------------------------------------------------- extracting


def test_contents_are_found_once_they_are_extracted(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    with open_package(packed(tmp_path, full_recording())) as package:
        assert package.find("./data.csv", digest(DATA)) is None
        package.extract_files(scratch)
    path = package.find("./data.csv", digest(DATA))
    assert path is not None
    assert path.read_bytes() == DATA
    assert package.find("./data.csv", digest(b"other")) is None
    assert package.find("./data.csv", "../../paper.chex") is None
    modes = {stat.S_IMODE(each.stat().st_mode) for each in (scratch, path.parent, path)}
    assert modes == {0o700, 0o600}


def test_contents_are_extracted_into_an_empty_folder_only(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch" / "mine").touch()
    with (
        open_package(packed(tmp_path)) as package,
        pytest.raises(InvalidValue, match="is not empty"),
    ):
        package.extract_files(tmp_path / "scratch")


def test_a_package_that_changes_after_it_was_opened_is_noticed(tmp_path: Path) -> None:
    out = packed(tmp_path)
    with open_package(out) as package:
        with zipfile.ZipFile(out) as archive:
            at = archive.getinfo(f"files/{digest(DATA)[:2]}/{digest(DATA)}").header_offset
        with out.open("r+b") as file:
            file.seek(at + 30 + len("files/") + 35 + 4)
            file.write(b"\0\0\0")
        with pytest.raises(PackageError, match="it is damaged"):
            package.extract_files(tmp_path / "scratch")


def test_an_opened_package_can_be_read_by_others(tmp_path: Path) -> None:
    with zipfile.ZipFile(packed(tmp_path, full_recording())) as archive:
        assert archive.testzip() is None
        assert archive.namelist()[0] == "chex.json"
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {info.external_attr >> 16 for info in archive.infolist()} == {0o100644}


def test_a_notebook_is_asked_for_each_version_as_it_was_given(tmp_path: Path) -> None:
    asked: list[Version] = []
    out = tmp_path / "paper.chex"

    def ask(version: Version) -> dict[str, object]:
        asked.append(version)
        return notebook(version)

    write_package(out, full_recording(), lambda *_: None, ask, needs=NEEDS)
    assert tuple(asked) == full_recording().tree.versions
