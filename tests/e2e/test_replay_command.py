"""``chex replay`` with real engines: what it says, writes and returns; interrupts and packages."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import nbformat
import pexpect  # type: ignore[import-untyped]
import pytest

from chexpoint.cli import main
from chexpoint.package import open_package
from tests.support.kernels import MARK
from tests.support.processes import wait_none_marked, wait_until

pytestmark = pytest.mark.slow

TIMEOUT_S = 60.0
CHEX = (sys.executable, "-m", "chexpoint")
MARKED = uuid.uuid4().hex
STUDY = """\
    # parameters
    depth = 1

    numbers = [int(line) for line in open("data.txt")]

    print(depth * sum(numbers))

    import os, time
    gate = os.environ.get("GATE", "/no/gate")
    while os.path.exists(gate):
        open(f"{gate}.reached", "w").close()
        time.sleep(0.01)

    # chex-volatile
    import sys
    print(sys.prefix, os.environ.get("WORD"))
    """


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two versions of a script, and a package of them."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "study.py").write_text(textwrap.dedent(STUDY))
    (folder / "data.txt").write_text("1\n2\n3\n")
    os.environ.pop("GATE", None)
    assert main(["record", str(folder / "study.py"), "-p", "depth=1,2", "--quiet"]) == 0
    out = str(folder / "study.chex")
    assert main(["package", out, "--project", str(folder)]) == 0
    return folder


def environment(**variables: str) -> dict[str, str]:
    return {**os.environ, MARK: MARKED, **variables}


def chex(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run ``chex replay``."""
    return subprocess.run(
        [*CHEX, "replay", *words],
        cwd=folder,
        env=environment(**variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )


def test_versions_are_reproduced_and_everything_is_written(project: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in project.iterdir() if path.is_file()}
    page, suites, notebooks = tmp_path / "r" / "p.html", tmp_path / "j.xml", tmp_path / "books"
    outputs = ["--report", str(page), "--junit", str(suites), "--notebooks", str(notebooks)]
    result = chex(project, "--all-versions", "--workers", "2", *outputs, "--json", WORD="other")
    assert (result.returncode, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    assert found["reproduced"]
    assert [(each["label"], each["status"]) for each in found["versions"]] == [
        ("study,depth=1", "same"),
        ("study,depth=2", "same"),
    ]
    assert found["computed_cells"] <= found["cells_in_versions"] == 14
    assert "2 of 2 versions reproduced" in page.read_text()
    assert ElementTree.parse(suites).getroot().attrib["errors"] == "0"  # noqa: S314 - our own
    assert sorted(path.name for path in notebooks.iterdir()) == [
        "study,depth=1.ipynb",
        "study,depth=2.ipynb",
    ]
    for path in notebooks.iterdir():
        nbformat.validate(nbformat.read(path, as_version=4))
    assert {path: path.read_bytes() for path in project.iterdir() if path.is_file()} == before
    assert list((project / ".chex" / "replays").iterdir()) == []
    again = chex(project, "study,depth=2", *outputs)  # in place of what it has written itself
    assert again.returncode == 0
    assert again.stderr == "study,depth=2: same\n"
    assert "1 of 1 version reproduced: 1 same" in again.stdout
    assert f"wrote {page}\nwrote {suites}\nwrote 1 notebook into {notebooks}" in again.stdout


def test_what_is_not_reproduced_ends_with_1(tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text("import os\n\nprint('the word is', os.environ['WORD'])\n")
    record = [*CHEX, "record", "odd.py", "--quiet"]
    subprocess.run(record, cwd=tmp_path, env=environment(WORD="hop"), check=True, timeout=TIMEOUT_S)
    result = chex(tmp_path, WORD="skip")
    assert result.returncode == 1
    assert result.stderr.startswith("odd: different, ")
    assert "0 of 1 version reproduced: 1 different" in result.stdout


# ---------------------------------------------------------------- interrupts


@contextmanager
def waiting(folder: Path, gate: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Give a replay that runs a cell which waits as long as there is a gate."""
    gate.touch()
    with subprocess.Popen(
        [*CHEX, "replay", *words, "--events", "-"],
        cwd=folder,
        env=environment(GATE=str(gate)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            reached = gate.with_name("gate.reached")
            wait_until(lambda: reached.exists() or process.poll() is not None)
            assert process.poll() is None, process.communicate()
            yield process
        finally:
            process.kill()


def test_an_interrupted_replay_is_gone_on_with(project: Path, tmp_path: Path) -> None:
    page, gate = tmp_path / "page.html", tmp_path / "gate"
    words = ["study,depth=1", "--report", str(page)]
    with waiting(project, gate, *words) as process:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
    command = f"chex replay study,depth=1 --report {page} --events - --resume"
    assert err == f"chex: interrupted; go on with: {command}\n"
    last = json.loads(out.splitlines()[-1])
    assert last.pop("kind") == "result"
    assert last["interrupted"]
    assert [cell["status"] for cell in last["versions"][0]["cells"]] == ["same"] * 5 + [None] * 2
    assert "interrupted" in page.read_text()
    gate.unlink()
    result = chex(project, *words, "--resume", "--json")
    assert (result.returncode, result.stderr) == (0, "")
    assert not json.loads(result.stdout)["interrupted"]
    result = chex(project, *words, "--resume", "--quiet")
    told = "chex: nothing to resume: this begins with the first cell\n"
    assert (result.returncode, result.stderr) == (0, told)


def test_a_second_signal_ends_everything_at_once(project: Path, tmp_path: Path) -> None:
    with waiting(project, tmp_path / "gate", "study,depth=1", "--quiet") as process:
        # Stopped, so that both come together.
        for number in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
            process.send_signal(number)
        _, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, err) == (130, "chex: ended at once\n")
    assert wait_none_marked(MARK, MARKED, timeout_s=TIMEOUT_S) == []


# ---------------------------------------------------------------- a terminal


def on_terminal(folder: Path, *words: str) -> Any:
    return pexpect.spawn(
        CHEX[0],
        [*CHEX[1:], "replay", *words],
        cwd=str(folder),
        env=environment(TERM="xterm", COLUMNS="120"),
        encoding="utf-8",
        timeout=TIMEOUT_S,
        dimensions=(40, 120),
    )


def test_a_terminal_shows_bars_and_asks_before_it_runs_a_package(project: Path) -> None:
    terminal = on_terminal(project, "study.chex", "study,depth=2")
    terminal.expect(r"study\.chex: study.*, 1 version, 7 cells to compute")
    terminal.expect("versions: study,depth=2")
    terminal.expect("This runs the code of its author, with your rights, in .*chex-replay-")
    terminal.expect("The environment is the recorded one")
    terminal.expect_exact("Run it? [y/N] ")
    terminal.sendline("y")
    terminal.expect("all .* cells")
    terminal.expect("study,depth=2: same")
    terminal.expect("1 of 1 version reproduced: 1 same")
    terminal.expect(pexpect.EOF)
    assert terminal.wait() == 0


def test_a_package_is_not_run_if_nobody_agrees(project: Path) -> None:
    terminal = on_terminal(project, "study.chex")
    terminal.expect_exact("Run it? [y/N] ")
    terminal.sendline("")
    terminal.expect_exact("chex: nothing was run")
    terminal.expect(pexpect.EOF)
    assert terminal.wait() == 1
    result = chex(project, "study.chex")
    assert result.returncode == 2
    assert result.stderr.endswith(
        "chex: nobody is there to ask: add --yes to run the code of its author\n"
    )


# ---------------------------------------------------------------- packages


def test_a_package_needs_no_project(project: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    words = [str(project / "study.chex"), "--yes", "--json"]
    result = chex(tmp_path, *words, XDG_CACHE_HOME=str(cache))
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout)["reproduced"]
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]
    assert list((cache / "chexpoint" / "replays").iterdir()) == []


def made_environment(folder: Path, lock: str) -> None:
    """Make what ``--venv`` would make, out of the packages that are here."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    here = [path for path in sys.path if path.endswith(("site-packages", "/src"))]
    here.append(str(Path(main.__code__.co_filename).parents[2]))
    (packages / "here.pth").write_text("\n".join(here))
    (folder / "chex-complete").write_text(lock)


def test_a_package_is_replayed_in_its_own_environment(project: Path, tmp_path: Path) -> None:
    with open_package(project / "study.chex") as package:
        made_environment(tmp_path / "venv", package.lock)
    words = ["--yes", "--quiet", "--notebooks", str(tmp_path / "books"), "--venv"]
    # A package behind --venv is no folder for the environment.
    refused = chex(project, *words, "study.chex", "--project", ".")
    assert "a package has its files in it" in refused.stderr
    result = chex(project, "study.chex", "study,depth=1", *words, str(tmp_path / "venv"))
    assert (result.returncode, result.stderr) == (0, "")
    notebook = nbformat.read(tmp_path / "books" / "study,depth=1.ipynb", as_version=4)
    assert notebook.cells[-1].outputs[0].text == f"{tmp_path / 'venv'} None\n"
