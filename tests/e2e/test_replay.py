"""Versions are replayed in real engines: each shared prefix once, and whatever goes wrong."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from chexpoint.errors import InvalidValue
from chexpoint.model import ReplayProgress
from chexpoint.project import Project, ProjectFiles, recording_of
from chexpoint.replay import Replayer
from tests.support.studies import Events, record, replay, statuses, write_notebook

pytestmark = pytest.mark.slow

MB = 2**20

# A state of 40 MB that takes a while, two ways on from it, and two from one of those.
BEGIN = "import array, random\nrandom.seed(3)\nbig = array.array('d', [1.5]) * 5_000_000"
SLOW = "total = sum(big[:400_000])\nfor _ in range(6): total += sum(big[:900_000])\ntotal"
VERSIONS = {
    "one": [BEGIN, SLOW, "name = 'one'; big[0] += 1; print(name, big[0])"],
    "two": [BEGIN, SLOW, "name = 'two'; big[1] += 2", "print(name, big[0], big[1])"],
    "three": [BEGIN, SLOW, "name = 'two'; big[1] += 2", "print(name, random.random())"],
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return record(tmp_path_factory.mktemp("study"), VERSIONS)


def no_engine_is_left() -> bool:
    return not [
        process
        for process in psutil.Process().children(recursive=True)
        if process.status() != psutil.STATUS_ZOMBIE and "chexpoint" in " ".join(process.cmdline())
    ]


# ---------------------------------------------------------------- what all is about


def test_each_shared_prefix_is_computed_once_and_everything_is_the_same(project: Project) -> None:
    events = Events()
    done = replay(project, watch=events)
    assert done.is_good
    assert {status for row in statuses(done).values() for status in row} == {"same"}
    assert done.cells_in_versions == 11
    assert done.computed_cells == len(done.recording.tree) == 6
    assert done.no_cache_seconds > sum(cell.seconds for cell in done.cells.values())
    assert no_engine_is_left()
    assert {event.version for event in events.of("version")} == {"one", "two", "three"}
    assert events.all[0].kind == "begin"
    assert events.all[-1].kind == "end"
    last = events.of("cell")[-1]
    assert (last.computed, last.to_compute) == (6, 6)
    assert events.all[-1].saved == 5


def test_only_the_versions_that_are_named_are_replayed(project: Project) -> None:
    done = replay(project, "one")
    assert list(statuses(done)) == ["one"]
    assert done.computed_cells == 3
    with pytest.raises(InvalidValue, match="Did you mean three"):
        recording_of(project, ["thre"])


def test_without_memory_each_version_is_computed_from_its_first_cell(project: Project) -> None:
    done = replay(project, budget_bytes=0)
    assert done.is_good
    assert done.computed_cells == done.cells_in_versions
    assert max((moment.held_bytes for moment in done.memory), default=0) < 30 * MB


def test_two_workers_do_the_same_work(project: Project) -> None:
    events = Events()
    done = replay(project, workers=2, watch=events)
    assert done.is_good
    assert done.workers == 2
    assert {event.worker for event in events.of("cell")} == {0, 1}
    assert no_engine_is_left()


def test_the_project_itself_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("41")
    cell = "n = int(open('in.txt').read())\nopen('out.txt', 'w').write(str(n + 1))"
    project = record(tmp_path, {"one": [cell, "print(open('out.txt').read())"]})
    (tmp_path / "out.txt").write_text("mine")
    (tmp_path / "in.txt").write_text("99")  # what was read is kept
    done = replay(project)
    assert done.is_good
    assert (tmp_path / "out.txt").read_text() == "mine"
    assert (tmp_path / "in.txt").read_text() == "99"


# ---------------------------------------------------------------- files


def test_going_back_brings_back_the_files_of_a_state(tmp_path: Path) -> None:
    begin = "log = open('log.txt', 'w')\nlog.write('begin ')\nlog.flush()"
    spend = "n = sum(range(8_000_000))"
    versions = {
        name: [
            begin,
            spend,
            f"log.write('{name}')\nlog.flush()\nopen('{name}.txt', 'w').close()",
            "import os\nprint(open('log.txt').read(), sorted(os.listdir()))",
        ]
        for name in ("one", "two", "six")
    }
    project = record(tmp_path, versions)
    done = replay(project)
    shown = {
        label: "".join(done.cells[version.path[-1]].outputs[0]["text"])
        for label, version in done.recording.labels.items()
    }
    assert done.computed_cells == 8
    for name in versions:
        assert shown[name].startswith(f"begin {name} ")


def test_versions_that_read_other_contents_of_a_file_get_them(tmp_path: Path) -> None:
    cells = ["pass", "text = open('data.txt').read()", "print(text)"]
    for name in ("one", "two"):
        (tmp_path / "data.txt").write_text(name)
        project = record(tmp_path, {name: cells})
    done = replay(project)
    assert done.is_good
    # The first cell does nothing: to run it again may take less than to hold it.
    assert done.computed_cells in {5, 6}
    texts = [done.cells[v.path[-1]].outputs[0]["text"] for v in done.recording.tree.versions]
    assert texts == ["one\n", "two\n"]


def test_a_version_whose_input_is_gone_is_named_and_the_others_are_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHEX_KEEP_FILES", "0")
    (tmp_path / "data.txt").write_text("5")
    project = record(
        tmp_path,
        {
            "reads": ["a = 1", "n = int(open('data.txt').read())", "print(n)"],
            "other": ["a = 1", "print(a)"],
        },
    )
    (tmp_path / "data.txt").unlink()
    done = replay(project)
    assert not done.is_good
    assert statuses(done) == {"reads": ["same", "failed", "skipped"], "other": ["same", "same"]}
    (node,) = (node for node, cell in done.cells.items() if cell.status == "failed")
    assert done.cells[node].reasons == ("./data.txt, which it reads, is gone",)


def test_a_folder_that_is_listed_has_the_names_it_had(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for name in ("a.csv", "b.csv"):
        (tmp_path / "data" / name).write_text(name)
    cell = "import glob\nprint(sorted(glob.glob('data/*.csv')))\nopen('data/made.csv', 'w').close()"
    project = record(tmp_path, {"one": ["k = 1", cell], "two": ["k = 2", cell]})
    done = replay(project)
    assert done.is_good, [cell.reasons for cell in done.cells.values()]


def test_the_name_of_the_folder_is_no_difference(tmp_path: Path) -> None:
    project = record(tmp_path, {"one": ["import os\nprint(os.path.abspath('a.csv'))"]})
    assert statuses(replay(project)) == {"one": ["close"]}


# ---------------------------------------------------------------- what differs, and what fails


def test_what_differs_is_told_and_why_that_is_no_surprise(tmp_path: Path) -> None:
    project = record(tmp_path, {"one": ["import random", "print(random.random())", "2 + 2"]})
    done = replay(project)
    assert statuses(done)["one"] == ["same", "different", "same"]
    (cell,) = (cell for cell in done.cells.values() if cell.status == "different")
    assert any("expected" in reason for reason in cell.reasons)
    assert not done.is_good


def test_tagged_cells_may_differ_or_are_not_run(tmp_path: Path) -> None:
    sources = [
        "import random",
        "# chex-volatile\nprint(random.random())",
        "open('sent.txt', 'w').write('mail')",
        "print('end')",
    ]
    project = record(tmp_path, {"one": sources})
    write_notebook(tmp_path / "one.ipynb", sources, {2: ["chex-skip"]})  # tagged afterwards
    (tmp_path / "sent.txt").unlink()
    done = replay(project)
    assert done.is_good
    assert statuses(done)["one"] == ["same", "different", "skipped", "same"]
    assert done.computed_cells == 3


def test_a_cell_that_fails_now_takes_only_its_own_versions_with_it(tmp_path: Path) -> None:
    flag = tmp_path / "outside"
    flag.mkdir()
    versions = {
        "fine": ["a = 1", "print(a)"],
        "fails": ["a = 1", f"import os\nos.rmdir({str(flag)!r})", "print('after')"],
    }
    project = record(tmp_path, versions)
    done = replay(project)
    assert statuses(done) == {"fine": ["same", "same"], "fails": ["same", "failed", "skipped"]}
    (cell,) = (cell for cell in done.cells.values() if cell.status == "failed")
    assert cell.reasons[0].startswith("FileNotFoundError")


def test_a_cell_that_failed_before_may_fail_again(tmp_path: Path) -> None:
    project = record(tmp_path, {"one": ["a = 1", "raise ValueError(a)"]})
    done = replay(project)
    assert done.is_good
    assert statuses(done)["one"] == ["same", "same"]


def test_a_state_that_cannot_be_held_is_computed_again(tmp_path: Path) -> None:
    begin = "import threading\nend = threading.Event()\nthread = threading.Thread(target=end.wait)"
    begin += "\nthread.start()\nn = sum(range(6_000_000))"
    finish = "end.set()\nthread.join()"
    project = record(
        tmp_path, {name: [begin, f"print('{name}', n)", finish] for name in ("one", "two")}
    )
    done = replay(project)
    assert done.is_good
    assert done.computed_cells == 6
    assert any("no checkpoint" in note for note in done.notes)


def test_a_cell_that_takes_too_long_fails(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    wait = f"import os, time\nwhile not os.path.exists({str(flag)!r}): time.sleep(0.01)"
    flag.touch()
    project = record(tmp_path, {"slow": ["a = 1", wait], "fine": ["a = 1", "print(a)"]})
    flag.unlink()
    done = replay(project, timeout_s=5.0)
    assert statuses(done) == {"slow": ["same", "failed"], "fine": ["same", "same"]}
    (cell,) = (cell for cell in done.cells.values() if cell.status == "failed")
    assert "did not end in 5.0 s" in cell.reasons[0]


# ---------------------------------------------------------------- kills and interrupts


def on_cell(number: int, do: Callable[[], None]) -> Callable[[ReplayProgress], None]:
    """Return a watcher that does something once, after some cells."""
    seen: list[ReplayProgress] = []

    def watch(progress: ReplayProgress) -> None:
        if progress.kind == "cell":
            seen.append(progress)
            if len(seen) == number:
                do()

    return watch


def engines() -> list[psutil.Process]:
    """Return the supervisors of this process."""
    return [
        process
        for process in psutil.Process().children()
        if process.status() != psutil.STATUS_ZOMBIE and "run_engine" in " ".join(process.cmdline())
    ]


def test_a_killed_engine_is_replaced_and_nothing_is_missing(project: Project) -> None:
    done = replay(project, watch=on_cell(3, lambda: os.kill(engines()[0].pid, signal.SIGKILL)))
    assert done.is_good
    assert {status for row in statuses(done).values() for status in row} == {"same"}
    assert any("computed again" in note for note in done.notes)
    assert no_engine_is_left()


@pytest.mark.parametrize("cells", [1, 2, 3, 4])
def test_killed_checkpoints_and_workers_are_computed_again(project: Project, cells: int) -> None:
    def kill_all_but_the_supervisor() -> None:
        for process in engines()[0].children(recursive=True):
            process.kill()

    done = replay(project, watch=on_cell(cells, kill_all_but_the_supervisor))
    assert done.is_good
    assert {status for row in statuses(done).values() for status in row} == {"same"}
    assert done.computed_cells > 6


def test_a_cell_that_always_kills_its_process_fails(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    die = (
        f"import os, signal\nif os.path.exists({str(flag)!r}): os.kill(os.getpid(), signal.SIGKILL)"
    )
    project = record(tmp_path, {"dies": ["a = 1", die, "print(1)"], "fine": ["a = 1", "print(a)"]})
    flag.touch()
    done = replay(project)
    assert statuses(done) == {"dies": ["same", "failed", "skipped"], "fine": ["same", "same"]}


def test_an_interrupted_replay_goes_on_where_it_ended(project: Project, tmp_path: Path) -> None:
    log = tmp_path / "replay.jsonl"
    recording, files = recording_of(project), ProjectFiles(project)

    def interrupt() -> None:
        first.interrupt()

    first = Replayer(recording, files, log=log, watch=on_cell(4, interrupt))
    stopped = first.run()
    assert stopped.is_interrupted
    assert not stopped.is_good
    assert 4 <= len(stopped.cells) < 6
    with log.open("a") as file:
        file.write('{"node": "torn')  # as a kill in the middle of a line leaves it
    events = Events()
    rest = Replayer(recording, files, log=log, watch=events).run(resume=True)
    assert rest.is_good
    assert rest.computed_cells < 6
    assert {status for row in statuses(rest).values() for status in row} == {"same"}
    assert not log.exists()


def test_an_interrupt_ends_a_cell_that_would_never_end(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    wait = f"import os\nif os.path.exists({str(pipe)!r}):\n"
    wait += f"    open({str(pipe)!r}, 'w').close()\n    while True: pass"
    project = record(tmp_path, {"slow": ["a = 1", wait]})
    os.mkfifo(pipe)
    replayer = Replayer(recording_of(project), ProjectFiles(project))

    def interrupt() -> None:
        pipe.read_text()  # returns when the cell is running
        replayer.interrupt()

    thread = threading.Thread(target=interrupt)
    thread.start()
    done = replayer.run()
    thread.join()
    assert done.is_interrupted
    assert statuses(done) == {"slow": ["same", ""]}
    assert no_engine_is_left()


def test_within_a_time_some_versions_are_replayed_and_the_others_named(project: Project) -> None:
    done = replay(project, within_s=0.001)
    assert done.is_good
    assert set(done.left_out) == {"one", "two", "three"}
    assert done.computed_cells == 0
    assert replay(project, within_s=3600).left_out == ()
