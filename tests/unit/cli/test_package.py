"""``chex package`` and ``chex unpack``: what they write, and what they say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chexpoint.cli.command import OneLineParser
from chexpoint.cli.package import PackageCommand, summary_lines
from chexpoint.cli.unpack import UnpackCommand
from chexpoint.errors import InvalidValue, PackageError
from chexpoint.package import PackageSummary, open_package
from tests.unit.package.worlds import DATA, full_recording, packed, small_recording
from tests.unit.view.worlds import recorded


def run(command: PackageCommand | UnpackCommand, *words: str | Path) -> int:
    """Run a verb with some words."""
    parser = OneLineParser()
    command.prepare_parser(parser)
    return command.run(parser.parse_args([str(word) for word in words]))


# ---------------------------------------------------------------- package


def test_all_current_versions_are_packed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(tmp_path)
    out = tmp_path / "paper.chex"
    assert run(PackageCommand(), out, "--project", tmp_path) == 0
    first, versions, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{out}: ")
    assert "with 2 versions of 6 cells and 0 input files" in first
    assert versions == "  versions: tuned, base"
    # Nobody has ever had the contents that these cells say they read.
    assert rest[0] == "  not in it:"
    assert "./data.csv: its contents were not kept" in rest[1]
    with open_package(out) as package:
        assert set(package.notebooks) == {"tuned", "base"}
        assert dict(package.recording.environment.packages)["numpy"]
        assert "numpy" in package.needed


def test_programs_are_told_how_far_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(tmp_path)
    out = tmp_path / "paper.chex"
    assert run(PackageCommand(), out, "--project", tmp_path, "--events", "-") == 0
    *progress, summary = map(json.loads, capsys.readouterr().out.splitlines())
    assert {event["kind"] for event in progress} <= {"progress"}
    assert summary["kind"] == "summary"
    assert "with 2 versions of 6 cells" in summary["text"]


def test_json_says_what_is_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(tmp_path)
    out = tmp_path / "paper.chex"
    assert run(PackageCommand(), out, "base@1", "--project", tmp_path, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["package"] == str(out)
    assert found["versions"] == ["base"]
    assert found["cells"] == 3
    assert found["size_bytes"] == out.stat().st_size


def test_nothing_is_replaced_unless_forced(tmp_path: Path) -> None:
    recorded(tmp_path)
    out = tmp_path / "paper.chex"
    out.write_text("mine")
    with pytest.raises(InvalidValue, match="exists: choose another name, or replace it with"):
        run(PackageCommand(), out, "--project", tmp_path)
    assert out.read_text() == "mine"
    assert run(PackageCommand(), out, "--project", tmp_path, "--force") == 0
    open_package(out).close()


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("base", r"does not end in \.chex: write chex package OUT\.chex"),
        ("nowhere/paper.chex", "no folder"),
        ("folder.chex", "is a folder"),
    ],
)
def test_a_name_that_will_not_do_is_explained(tmp_path: Path, name: str, complaint: str) -> None:
    (tmp_path / "folder.chex").mkdir()
    with pytest.raises(InvalidValue, match=complaint):
        run(PackageCommand(), tmp_path / name, "--project", tmp_path)


def test_an_unknown_version_is_explained(tmp_path: Path) -> None:
    recorded(tmp_path)
    with pytest.raises(InvalidValue, match="bas"):
        run(PackageCommand(), tmp_path / "paper.chex", "bas", "--project", tmp_path)
    assert not (tmp_path / "paper.chex").exists()


def test_the_summary_counts_in_words() -> None:
    summary = PackageSummary(
        title="",
        made_by="",
        versions=("a",),
        cells=1,
        files=1,
        files_bytes=2048,
        size_bytes=100,
        unpacked_bytes=1,
        lineage_bytes=1,
        left_out=("./x: gone",),
        notes=("look out",),
    )
    assert list(summary_lines("p.chex", summary)) == [
        "p.chex: 100 B, with 1 version of 1 cell and 1 input file (2.0 KB)",
        "  versions: a",
        "  not in it:",
        "    ./x: gone",
        "  note: look out",
    ]


# ---------------------------------------------------------------- unpack


def test_files_and_notebooks_are_put_into_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package = packed(tmp_path, small_recording())
    out = tmp_path / "out"
    assert run(UnpackCommand(), package, out) == 0
    assert (out / "data.csv").read_bytes() == DATA
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        f"{out}: 1 input file and 2 notebooks",
        "  base.ipynb: version base, with its recorded outputs",
        "  tuned.ipynb: version tuned, with its recorded outputs",
        f"next: chex replay {package} computes all versions again and compares them",
        f"      pip install -r {out}/requirements.lock installs what they need",
    ]


def test_json_says_where_everything_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package = packed(tmp_path, full_recording())
    assert run(UnpackCommand(), package, tmp_path / "out", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["files"] == ["data.csv", "sub/helper.py", "sub/z.txt"]
    assert found["notebooks"]["größe"] == "gr__e.ipynb"
    assert found["lock"] == "requirements.lock"
    assert any("private.csv" in note for note in found["notes"])


def test_an_unpacked_package_needs_room_of_its_own(tmp_path: Path) -> None:
    package = packed(tmp_path)
    with pytest.raises(InvalidValue, match="is a file: name a new folder"):
        run(UnpackCommand(), package, package)
    with pytest.raises(InvalidValue, match="is not empty"):
        run(UnpackCommand(), package, tmp_path)


def test_a_limit_is_kept(tmp_path: Path) -> None:
    package = packed(tmp_path)
    with pytest.raises(PackageError, match=r"and 1\.0 KB is allowed"):
        run(UnpackCommand(), package, tmp_path / "out", "--limit", "1K")
    assert not (tmp_path / "out").exists()
    with pytest.raises(InvalidValue, match="is not a size"):
        run(UnpackCommand(), package, tmp_path / "out", "--limit", "much")
    assert run(UnpackCommand(), package, tmp_path / "out", "--limit", "1M") == 0
