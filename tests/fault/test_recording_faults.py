"""Kernels that are killed while they record, and disks and catalogs that do not let them."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from chexpoint.project import Project
from tests.support.kernels import CHEX, Kernel, Launch
from tests.support.notebooks import kernel_at, kill_now, launch, reused, run_all, run_cell, value

pytestmark = pytest.mark.slow

CELLS = [f"x{n} = {n}\nprint(x{n})" for n in range(12)]


@contextmanager
def doomed(project: Path, folder: Path) -> Iterator[Kernel]:
    """Run a kernel that the test kills; nothing of it may be left."""
    kernel = Kernel(launch(project), folder)
    try:
        yield kernel
        kill_now(kernel)
    finally:
        kernel.close(now=True)


def recorded(project: Path, version: str) -> list[str]:
    found = Project.at(project)
    return [cell.source for cell in found.cells(found.version(version))]


# ---------------------------------------------------------------- kills


def wait_recorded(kernel: Kernel, cells: int) -> None:
    """Wait until so many cells of the version are in the catalog."""
    while json.loads(run_cell(kernel, "%chex_record --json").ok().outcome.stdout)["cells"] < cells:
        pass


def told_at_last(kernel: Kernel) -> str:
    """Return what the user was told of the recording since `forget`; at the latest, by now."""
    while not (texts := [t for m in kernel.log if "stopped" in (t := str(m.content.get("text")))]):
        kernel.wait_reply(kernel.submit("'something to show it under'"))
    (text,) = texts
    assert text.startswith("CHEX: recording stopped: ")
    assert text.count("\n") == 1
    return text


def test_cells_are_kept_when_the_kernel_is_killed_in_the_middle_of_one(tmp_path: Path) -> None:
    project = tmp_path / "project"
    with doomed(project, tmp_path / "first") as kernel:
        assert reused(run_all(kernel, CELLS, version="v")) == "c" * 12
        wait_recorded(kernel, 12)
        request = kernel.submit("import time\nprint('running', flush=True)\ntime.sleep(600)")
        kernel.wait_stdout(request, "running")
    assert recorded(project, "v") == CELLS
    with kernel_at(project, tmp_path / "second") as kernel:
        assert reused(run_all(kernel, CELLS, version="v")) == "r" * 12
        assert value(kernel, "x11") == "11"


@pytest.mark.parametrize("replies", [1, 5, 9])
def test_a_kill_at_any_moment_leaves_the_first_cells_and_a_catalog_that_can_be_used(
    replies: int, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    with doomed(project, tmp_path / "first") as kernel:
        run_all(kernel, CELLS[:1], version="v")
        wait_recorded(kernel, 1)
        requests = [kernel.submit(cell) for cell in CELLS[1:]]
        kernel.wait_reply(requests[replies - 1])
    sources = recorded(project, "v")
    assert sources == CELLS[: len(sources)]
    with kernel_at(project, tmp_path / "second") as kernel:
        again = run_all(kernel, CELLS, version="v")
        assert reused(again) == "r" * len(sources) + "c" * (12 - len(sources))
        assert "".join(shown.text for shown in again) == "".join(f"{n}\n" for n in range(12))
        assert value(kernel, "x0, x11") == "(0, 11)"


# ---------------------------------------------------------------- disks


def in_a_small_file_system(top: Path, options: str, *words: str) -> Launch:
    """Return how to start a kernel in a folder ``project`` on a file system of its own."""
    project = top / "project"
    mount = f'mount -t tmpfs -o {options} tmpfs "{top}" && mkdir "{project}" && cd "{project}"'
    script = " && ".join([mount, *words, 'exec "$@"'])
    return Launch(argv=("unshare", "-rm", "sh", "-c", script, "sh", *CHEX))


def can_mount() -> bool:
    words = ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


needs_mount = pytest.mark.skipif(not can_mount(), reason="no file systems of one's own here")

FILL = """
import os
fill = os.open("../fill", os.O_CREAT | os.O_WRONLY)
try:
    while True:
        os.write(fill, bytes(4096))
except OSError as error:
    print(error.strerror)
os.close(fill)
"""


@needs_mount
def test_a_full_disk_is_told_once_and_loses_nothing(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    with Kernel(in_a_small_file_system(top, "size=2m"), tmp_path / "kernel") as kernel:
        run_all(kernel, ["a = 1", "b = 2"], version="v")
        wait_recorded(kernel, 2)
        kernel.forget()
        cells = [FILL, *(f"c{n} = {n}\nprint(c{n}, 'x' * 100_000)" for n in range(3))]
        for request in [kernel.submit(cell) for cell in cells]:
            assert kernel.wait_reply(request).content["status"] == "ok"
        assert "the disk is full" in told_at_last(kernel)
        assert "recording is off" in run_cell(kernel, "%chex_record").ok().told
        # Going on does not help as long as there is no room, but loses nothing.
        run_cell(kernel, FILL).ok()
        run_cell(kernel, "%chex_record --on").ok()
        kernel.forget()
        kernel.wait_reply(kernel.submit("d = c2 + 2\nprint(d, 'x' * 100_000)"))
        assert "the disk is full" in told_at_last(kernel)
        run_cell(kernel, "os.unlink('../fill')").ok()
        run_cell(kernel, "%chex_record --on").ok()
        run_cell(kernel, "e = d + 1").ok()
        wait_recorded(kernel, 10)
        assert "recording is on" in run_cell(kernel, "%chex_record").ok().told
        (log,) = run_cell(kernel, "%chex_log").ok().outcome.displays
        text = log.content["data"]["text/plain"]
        assert all(f"c{n} = {n}" in text for n in range(3))
        assert "d = c2 + 2" in text
        assert reused(run_all(kernel, ["a = 1", "b = 2"], version="v")) == "rr"


@needs_mount
def test_a_folder_that_cannot_be_written_is_told_once_and_cells_run(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    shut = in_a_small_file_system(top, "size=2m", f'mount -o remount,ro "{top}"')
    with Kernel(shut, tmp_path / "kernel") as kernel:
        requests = [kernel.submit(cell) for cell in ("%chex_record v", "x = 1", "x += 1")]
        assert kernel.wait_reply(requests[-1]).content["status"] == "ok"
        assert "cannot be" in told_at_last(kernel)
        assert value(kernel, "x") == "2"


# ---------------------------------------------------------------- catalogs


def newer(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA application_id = {int.from_bytes(b'CHEX')}")
        connection.execute("PRAGMA user_version = 999")
        connection.execute("CREATE TABLE future (x)")


def garbage(path: Path) -> None:
    path.write_bytes(b"no catalog at all" * 1000)


def torn(path: Path) -> None:
    """Half of a real one."""
    Project(path.parent.parent).new_version("v", session="s")
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


@pytest.mark.parametrize("spoil", [newer, garbage, torn])
def test_a_catalog_that_cannot_be_used_is_told_once_and_cells_run(
    spoil: object, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    (project / ".chex").mkdir(parents=True)
    assert callable(spoil)
    catalog = project / ".chex" / "catalog.sqlite"
    spoil(catalog)
    before = catalog.read_bytes()
    with kernel_at(project, tmp_path / "kernel") as kernel:
        requests = [kernel.submit(c) for c in ("%chex_record v", "x = 1", "x += 1", "x += 1")]
        assert kernel.wait_reply(requests[-1]).content["status"] == "ok"
        assert str(catalog) in told_at_last(kernel)
        assert value(kernel, "x") == "3"
        refused = run_cell(kernel, "%chex_versions")
        assert str(catalog) in refused.outcome.stderr
        assert "Traceback" not in refused.outcome.stderr
        # Out of the way, as the message says, and everything is recorded after all.
        assert catalog.read_bytes() == before
        for file in (project / ".chex").iterdir():
            os.unlink(file)
        run_cell(kernel, "%chex_record --on").ok()
        run_cell(kernel, "x += 1").ok()
        assert reused(run_all(kernel, ["x = 1", "x += 1", "x += 1"], version="v")) == "rrr"
