"""The command lines of the documentation run, and print what the pages show.

Each page has a world: a folder as its reader would have it.  What needs another machine, or a
person, is named with the reason.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chexpoint.model import CellAudit, CellLineage, CellRecord, NodeId
from chexpoint.project import Project
from tests.support.docs_blocks import DOCS, PAGES, Block, blocks_of, is_synopsis, shell_lines
from tests.support.docs_shell import Shell, Typed, typed_lines
from tests.support.studies import write_notebook

pytestmark = pytest.mark.slow

# Blocks that are not run, by something that is in them, and why.
NOT_RUN = {
    "python3 -m venv": "it is how CI begins",
    "jupyter lab": "the browser test starts it",
    "pip install": "the machine that tests has it all",
    "--scheduler tcp://": "it needs a cluster",
    "gpu.py --mib": "it needs a GPU",
    "pytest -m gpu": "it needs a GPU",
    "^C": "it is interrupted by hand",
    "Run it? [y/N]": "it asks a person; the tutorial does that",
    "PYTHONHASHSEED=0 ipython": "it is a shell of its own",
    "chex bench": "it measures for minutes",
    "chex graph best": "the tests of chex graph ask it for real models",
    "- run:": "it is for another machine",
    "--limit 20G": "it is for a package of gigabytes",
    "chex show 5f3a": "nodes have other digits",
    "chex replay --all-versions\n✓": "it shows one of each status",
}
TRAIN = '''\
"""Fit a line, step by step."""

import random

random.seed(1)

# parameters
lr = 0.1
depth = 1

slope = 0.0
for epoch in range(3):
    for step in range(depth):
        slope += lr * (1 - slope)
    print("slope", slope)
'''
# What the reader adds, and after which command line.
EDITED = {
    "how-to/log-in-hindsight.md": (
        "chex record train.py --name baseline",
        "train.py",
        '    print("left", 1 - slope)\n',
    )
}
# Pages that show figures of a larger project: whole numbers differ there, too.
LARGER = {"how-to/share-a-graph.md"}
SWEEP_MODEL = """\
class Model:
    def __init__(self, lr, depth):
        self.rate = lr / depth

    def score(self, data):
        return self.rate * len(data)


def fit(data, lr, depth):
    return Model(lr, depth)
"""


def write_version(
    project: Project, name: str, *cells: tuple[str, float, int, str], when: int
) -> None:
    """Record a version of which only source, seconds, bytes and what was printed are known."""
    session = f"{name}-{when}"
    version = project.new_version(name, session=session, origin="paper.ipynb")
    parent = "0" * 32
    for number, (source, seconds, size, printed) in enumerate(cells, start=1):
        node = random.Random(parent + source).randbytes(16).hex()
        lineage = CellLineage(
            node=NodeId(node),
            parent=NodeId(parent),
            code=source,
            strict="57",
            number=number,
            execution_count=number,
            source=source,
            audit=CellAudit(),
            seconds=seconds,
            size_bytes=size,
            status="ok",
        )
        stdout = {"output_type": "stream", "name": "stdout", "text": printed}
        record = CellRecord(
            lineage=lineage, outputs=(stdout,) if printed else (), cell_id=f"c{number}"
        )
        project.record(record, session=session, version=version)
        parent = node


# ---------------------------------------------------------------- worlds


def a_script(folder: Path, shell: Shell) -> None:
    (folder / "train.py").write_text(TRAIN)
    write_notebook(folder / "analysis.ipynb", ["x = 1", "print(x)"])


def a_script_with_its_model(folder: Path, shell: Shell) -> None:
    (folder / "data.csv").write_text("a\n1\n2\n")
    (folder / "model.py").write_text(SWEEP_MODEL)


def three_depths(folder: Path, shell: Shell) -> None:
    (folder / "train.py").write_text(TRAIN)
    (folder / "tests").mkdir()
    _run(shell, "chex record train.py -p depth=1:3")


def two_names(folder: Path, shell: Shell) -> None:
    (folder / "train.py").write_text(TRAIN)
    _run(shell, "chex record train.py --name baseline")
    _run(shell, "chex record train.py --name tuned -p lr=0.2")


def kept_states(folder: Path, shell: Shell) -> None:
    (folder / "train.py").write_text(TRAIN)
    _run(shell, "CHEX_OVERHEAD=always chex record train.py --name baseline")


def versions_of_a_paper(folder: Path, shell: Shell) -> None:
    project = Project.at(folder)
    begin = ("import numpy as np", 2.5, 2**20, "")
    mean = ("x.mean()", 2.5, 3 * 2**20, "the mean\n")
    base = begin, ("x = np.arange(10)", 2.5, 2 * 2**20, "4.5\n"), mean
    tuned = begin, ("x = np.arange(20)", 2.5, 2 * 2**20, "9.5\n"), mean
    write_version(project, "base", *base, when=1)
    write_version(project, "tuned", *tuned, ("x.std()", 2.5, 4 * 2**20, ""), when=2)
    write_version(project, "base", *base, when=3)


def versions_to_plan(folder: Path, shell: Shell) -> None:
    project = Project.at(folder)
    begin = ("import numpy", 10.0, 2**27, ""), ("x = load()", 590.0, 2**29, "")
    plot = ("plot(x)", 1.0, 2**30, "")
    write_version(project, "base", *begin, ("fit(x, 3)", 60.0, 2**30, ""), plot, when=1)
    write_version(project, "deeper", *begin, ("fit(x, 5)", 120.0, 2**30, ""), plot, when=2)


def a_graph(folder: Path, shell: Shell) -> None:
    sources = [
        "train = {'income': list(range(10_000))}",
        "features = [value * value for value in train['income']]",
        "print(sum(features))",
    ]
    write_notebook(folder / "train.ipynb", sources)


def nothing(folder: Path, shell: Shell) -> None:
    pass


World = Callable[[Path, Shell], None]
WORLDS: dict[str, World] = {
    "how-to/choose-the-overhead-of-recording.md": a_script,
    "how-to/free-disk-space.md": kept_states,
    "how-to/keep-states-on-disk.md": kept_states,
    "how-to/log-in-hindsight.md": a_script,
    "how-to/look-at-versions.md": versions_of_a_paper,
    "how-to/plan-a-replay.md": versions_to_plan,
    "how-to/plan-for-a-cluster.md": nothing,
    "how-to/read-a-replay-report.md": two_names,
    "how-to/record-from-the-command-line.md": a_script,
    "how-to/repair-a-store.md": kept_states,
    "how-to/replay-all-versions.md": three_depths,
    "how-to/replay-in-ci.md": three_depths,
    "how-to/see-what-a-cell-read.md": two_names,
    "how-to/share-a-graph.md": a_graph,
    "how-to/share-a-package.md": two_names,
    "how-to/sweep-parameters.md": a_script_with_its_model,
    "reference/cli.md": nothing,
    "reference/configuration.md": nothing,
    "reference/formats.md": nothing,
}


def _run(shell: Shell, line: str) -> None:
    done = shell.run(Typed(line=line, shown=()))
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"


def why_not(block: Block) -> str:
    """Return why a block is not run; nothing if it is."""
    whole = block.text.replace("$ ", "")
    found = [why for part, why in NOT_RUN.items() if part in whole]
    return found[0] if found else ""


def shell_blocks(page: Path) -> Iterator[Block]:
    """Yield the blocks of a page that are typed into a shell."""
    for block in blocks_of(page, "console", "bash", ""):
        lines = list(shell_lines(block))
        if lines and not any(is_synopsis(line) for line in lines):
            yield block


class Made:
    """Worlds, each made once and copied for every page that needs it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[World, Path] = {}

    def copy(self, world: World, folder: Path) -> Shell:
        """Return a shell in a copy of a world."""
        if world not in self._made:
            made = self._folder / world.__name__
            made.mkdir()
            world(made, Shell(made, self._folder))
            self._made[world] = made
        shutil.copytree(self._made[world], folder / "study")
        (folder / "home").mkdir()
        return Shell(folder / "study", folder / "home")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("worlds"))


@pytest.mark.parametrize("name", WORLDS)
def test_what_the_page_says_happens(name: str, made: Made, tmp_path: Path) -> None:
    shell = made.copy(WORLDS[name], tmp_path)
    last, edited, added = EDITED.get(name, ("", "", ""))
    for block in blocks_of(DOCS / name):
        if block.title:
            (shell.folder / block.title).write_text(block.text)
        elif block in shell_blocks(DOCS / name) and not why_not(block):
            for typed in typed_lines(block):
                shell.check(typed, block, is_larger=name in LARGER)
                if typed.line == last:
                    with (shell.folder / edited).open("a") as file:
                        file.write(added)


def test_every_block_is_run_or_said_why_not() -> None:
    run: list[str] = []
    left: list[str] = []
    for page in PAGES:
        for block in shell_blocks(page):
            if why_not(block) or page.parent.name == "tutorials":
                continue
            is_run = page.is_relative_to(DOCS) and str(page.relative_to(DOCS)) in WORLDS
            (run if is_run else left).append(str(block))
    assert left == []
    assert len(run) > 40


def test_every_reason_is_needed() -> None:
    texts = [b.text.replace("$ ", "") for page in PAGES for b in blocks_of(page)]
    assert [part for part in NOT_RUN if not any(part in text for text in texts)] == []
