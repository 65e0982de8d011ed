"""The folder of a replay becomes what it was, whatever cells did to it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chexpoint.replay.scratch import Scratch

NAMES = ("a", "b", "sub", "sub/c", "sub/deep/d")


def picture(folder: Path) -> dict[str, object]:
    """Return everything that is in a folder."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        elif path.is_dir():
            found[name] = "folder"
        else:
            found[name] = path.read_bytes()
    return found


def change(folder: Path, name: str, what: str, text: str) -> None:
    """Do what a cell might."""
    path = folder / name
    try:
        if what == "write":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif what == "folder":
            path.mkdir(parents=True)
        elif what == "link":
            path.symlink_to(text or "nowhere")
        elif path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()
    except OSError:
        pass  # as a cell would get an error


changes = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        st.sampled_from(("write", "folder", "link", "remove")),
        st.text("xy", max_size=2),
    ),
    max_size=8,
)


@given(changes, changes, changes)
@settings(deadline=None)
def test_going_back_makes_the_folder_what_it_was(
    first: list[tuple[str, str, str]],
    second: list[tuple[str, str, str]],
    third: list[tuple[str, str, str]],
) -> None:
    with tempfile.TemporaryDirectory() as base:
        scratch = Scratch(Path(base))
        pictures, states = [], []
        for made in (first, second, third):
            for name, what, text in made:
                change(scratch.folder, name, what, text)
            # Files change within one tick of the clock here: an audit would tell.
            scratch.touched(name for name, _, _ in made)
            states.append(scratch.state())
            pictures.append(picture(scratch.folder))
        for at in (0, 2, 1, 0):
            scratch.go_back(states[at])
            assert picture(scratch.folder) == pictures[at]


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    return Scratch(tmp_path)


def test_a_file_that_is_open_stays_the_same_file(scratch: Scratch) -> None:
    (scratch.folder / "log").write_text("one")
    state = scratch.state()
    with (scratch.folder / "log").open("a") as file:
        file.write(" two")
        file.flush()
        scratch.touched(["log"])
        scratch.go_back(state)
        assert os.fstat(file.fileno()).st_ino == (scratch.folder / "log").stat().st_ino
    assert (scratch.folder / "log").read_text() == "one"


def test_a_placed_file_is_a_copy_that_cells_may_change(scratch: Scratch, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("data")
    source.chmod(0o400)
    scratch.place("in/data", source)
    (scratch.folder / "in/data").write_text("changed")
    assert source.read_text() == "data"
    scratch.touched(["in/data"])
    scratch.place("in/data", source)
    assert (scratch.folder / "in/data").read_text() == "data"


def test_a_file_that_is_as_it_should_be_is_not_copied_again(
    scratch: Scratch, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.write_text("data")
    scratch.place("data", source)
    before = (scratch.folder / "data").stat().st_ctime_ns
    scratch.place("data", source)
    scratch.go_back(scratch.state())
    assert (scratch.folder / "data").stat().st_ctime_ns == before
