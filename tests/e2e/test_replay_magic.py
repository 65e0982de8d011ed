"""``%chex_replay`` and ``%chex_package`` in real kernels."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from chexpoint.project import Project
from tests.support.kernels import CHEX, STOCK, Kernel, Launch, Outcome
from tests.support.messages import Message
from tests.support.processes import wait_until

pytestmark = pytest.mark.slow

BASE = ("%chex_record base", "data = list(range(100))", "total = sum(data)\nprint(total)")
DEEP = ("%chex_record deep", "data = list(range(100))", "print(max(data))")
# Goes on when a file outside of the project is gone, which is not there when it is recorded.
SLOW = (
    "%chex_record slow",
    "print('first')",
    """\
import os, time
while os.path.exists({gate!r}):
    open({gate!r} + '.reached', 'w').close()
    time.sleep(0.01)
""",
    "print('last')",
)


def record(kernel: Kernel, *versions: tuple[str, ...]) -> None:
    for cells in versions:
        for source in cells:
            kernel.execute(source).ok()


def pictures(outcome: Outcome) -> list[dict[str, Any]]:
    """Return what was shown in the place of the bar, from the first to the last."""
    (first,) = outcome.displays
    updates = outcome.of_type("update_display_data")
    ident = first.content["transient"]["display_id"]
    assert {update.content["transient"]["display_id"] for update in updates} == {ident}
    return [message.content["data"] for message in (first, *updates)]


def failure(outcome: Outcome) -> str:
    """Return the line that a cell failed with: no traceback."""
    assert outcome.content["ename"] == "UsageError"
    assert "Traceback" not in outcome.stdout + outcome.stderr
    return str(outcome.content["evalue"])


@contextmanager
def waiting(argv: tuple[str, ...], folder: Path) -> Iterator[tuple[Kernel, str, Path]]:
    """Give a kernel, a request in which a replay waits, and what it waits for to go."""
    gate = folder / "gate"
    env = {
        "PYTHONHASHSEED": "0",
        "TMPDIR": str(folder),
    }  # a kernel that is killed tidies up nothing
    with Kernel(Launch(argv=argv, env=env), folder / "kernel") as kernel:
        kernel.execute("%load_ext chexpoint").ok()
        record(kernel, tuple(source.replace("{gate!r}", repr(str(gate))) for source in SLOW))
        if argv == CHEX:  # an interrupted cell that waits must not be taken for one that hangs
            kernel.execute("%chex_checkpoint here").ok()
            kernel.execute("%chex_restore here").ok()
        gate.touch()
        request = kernel.submit("%chex_replay slow")
        kernel.wait_for(has_bar, "a bar after the first cell")
        assert wait_until(gate.with_name("gate.reached").exists)
        yield kernel, request, gate


def has_bar(message: Message) -> bool:
    text = message.content.get("data", {}).get("text/plain", "")
    return message.type == "update_display_data" and ": 1 of 3 cells" in text


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """A CHEX kernel with two versions that begin alike."""
    with Kernel(Launch(argv=CHEX), tmp_path_factory.mktemp("chex")) as started:
        record(started, BASE, DEEP)
        yield started


def test_a_replay_shows_how_far_it_is_and_then_what_came_of_it(kernel: Kernel) -> None:
    outcome = kernel.execute("%chex_replay --all-versions").ok()
    first, *_, last = pictures(outcome)
    assert first["text/plain"] == "CHEX: replaying: starting"
    assert "<progress" in first["text/html"]
    assert "2 of 2 versions reproduced: 2 same" in last["text/plain"]
    assert "report: .chex/replays/report.html" in last["text/plain"]
    assert "href='.chex/replays/report.html'" in last["text/html"]
    assert "2 of 2 versions" in (kernel.cwd / ".chex/replays/report.html").read_text()
    assert outcome.stderr == ""
    assert len(Project.at(kernel.cwd).tree().nodes) == 3  # those of the versions
    assert kernel.run("print(max(data))") == "99\n"  # the state is what it was


def test_replays_go_with_any_state_and_leave_no_trace_in_it(kernel: Kernel) -> None:
    kernel.execute("mark = 1\n%chex_checkpoint here").ok()
    kernel.execute("mark = 2").ok()
    kernel.execute("%chex_restore here").ok()
    result = json.loads(kernel.run("%chex_replay base --workers 2 --json"))
    assert result["reproduced"]
    assert [version["label"] for version in result["versions"]] == ["base"]
    told = kernel.execute("%chex_restore here").ok()
    assert "has changed on disk" not in told.stdout + told.stderr
    assert kernel.run("print(mark)") == "1\n"


def test_replays_go_on_a_cluster(kernel: Kernel) -> None:
    pytest.importorskip("distributed")
    result = json.loads(kernel.run("%chex_replay base --local-cluster 1 --json"))
    assert result["reproduced"]
    (host,) = result["hosts"]
    assert {cell["host"] for version in result["versions"] for cell in version["cells"]} == {
        host["name"]
    }


def test_a_cell_that_is_run_again_for_its_state_replays_nothing(kernel: Kernel) -> None:
    kernel.execute("%chex_checkpoint --auto never").ok()
    kernel.execute("%chex_record again").ok()
    kernel.execute("seen = []\n%chex_replay base").ok()
    (kernel.cwd / ".chex" / "replays" / "report.html").unlink()
    kernel.execute("%chex_checkout base").ok()
    assert "1 cell run again" in kernel.execute("%chex_checkout again").ok().stdout
    assert kernel.run("print(seen)") == "[]\n"
    assert not (kernel.cwd / ".chex" / "replays" / "report.html").exists()


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("%chex_replay base --store here", "--store is for a cluster"),
        ("%chex_replay bsae", r"no version 'bsae'\. Did you mean base\?"),
        ("%chex_replay paper.chex", "from a terminal"),
        ("%chex_replay --nonsense", "unrecognized arguments"),
        ("%chex_package paper.chex bsae", "no version 'bsae'"),
    ],
)
def test_what_is_wrong_is_one_line(kernel: Kernel, line: str, complaint: str) -> None:
    assert re.search(complaint, failure(kernel.execute(line)))


def test_versions_are_packed_where_the_cell_is(kernel: Kernel) -> None:
    kernel.execute("import os\nos.makedirs('sub')\nos.chdir('sub')").ok()
    first, *_, last = pictures(kernel.execute("%chex_package paper.chex base deep").ok())
    assert first["text/plain"] == "CHEX: packing: starting"
    assert "2 versions" in last["text/plain"]
    assert (kernel.cwd / "sub" / "paper.chex").is_file()
    assert "exists" in failure(kernel.execute("%chex_package paper.chex"))
    kernel.execute("%chex_package paper.chex base --force\nos.chdir('..')").ok()


def test_nothing_can_be_replayed_before_something_is_recorded(tmp_path: Path) -> None:
    with Kernel(Launch(argv=CHEX), tmp_path) as kernel:
        for line in ("%chex_replay", "%chex_package paper.chex"):
            assert "no version is recorded yet" in failure(kernel.execute(line))


@pytest.mark.parametrize("argv", [CHEX, STOCK], ids=["chex", "stock"])
def test_an_interrupted_replay_is_gone_on_with(argv: tuple[str, ...], tmp_path: Path) -> None:
    with waiting(argv, tmp_path) as (kernel, request, gate):
        # Whoever asks is answered although the cell runs.
        kernel.request("kernel_info_request", {}, channel="control")
        kernel.interrupt()
        outcome = kernel.finish(request)
        assert "%chex_replay --resume goes on" in failure(outcome)
        assert "interrupted" in pictures(outcome)[-1]["text/plain"]
        gate.unlink()
        result = json.loads(kernel.run("%chex_replay slow --resume --json"))
        assert result["reproduced"]
        assert (kernel.cwd / ".chex" / "replays" / "report.html").is_file()


@pytest.mark.parametrize("argv", [CHEX, STOCK], ids=["chex", "stock"])
def test_a_replay_ends_with_its_kernel(argv: tuple[str, ...], tmp_path: Path) -> None:
    with waiting(argv, tmp_path) as (kernel, _, _):
        kernel.process().kill()
        kernel.assert_gone()


def test_a_terminal_gets_lines(kernel: Kernel) -> None:
    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "IPython",
            "--quick",
            "-c",
            "%load_ext chexpoint\n%chex_replay base",
        ],
        cwd=kernel.cwd,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert result.stderr == ""
    assert result.stdout.startswith("CHEX: base: same\n")
    assert "1 of 1 version reproduced: 1 same" in result.stdout
