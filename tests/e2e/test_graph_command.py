"""The experiment graph of a real kernel: looked at from cells and from the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.support.kernels import Kernel
from tests.support.notebooks import kernel_at, run_cell

pytestmark = pytest.mark.slow

CELLS = [
    "import chexpoint, numpy as np\nfrom sklearn.linear_model import Perceptron, SGDClassifier",
    "X = np.arange(60.0).reshape(20, 3)\ny = (X[:, 0] > 30).astype(int)",
    "clf = SGDClassifier(random_state=0).fit(X, y)\nchexpoint.score(clf, 0.75)",
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("graph") / "project"


@pytest.fixture(scope="module")
def kernel(project: Path) -> Iterator[Kernel]:
    ledger = str(project / ".chex" / "graph.sqlite")
    with kernel_at(project, project.parent / "kernel", CHEX_GRAPH=ledger) as started:
        run_cell(started, "%chex_record first").ok()
        for code in CELLS:
            run_cell(started, code).ok()
        yield started


def said(kernel: Kernel, code: str) -> str:
    """Return what is printed below a cell."""
    outcome = run_cell(kernel, code).outcome
    return outcome.stdout + outcome.stderr


def graph(project: Path, *words: str) -> Any:
    """Return what ``chex graph --json`` prints."""
    done = subprocess.run(
        [sys.executable, "-m", "chexpoint", "graph", *words, "--project", str(project), "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_picture_has_what_the_cells_made(kernel: Kernel) -> None:
    (display,) = run_cell(kernel, "%chex_graph").ok().outcome.displays
    picture = display.content["data"]["text/html"]
    ElementTree.fromstring(picture)  # noqa: S314 - our own text
    for name in (">X<", ">y<", ">clf<", "score 0.75"):
        assert name in picture
    aimed = said(kernel, "%chex_graph --for clf --table")
    assert aimed.startswith("clf in about")


def test_why_tells_the_cell_and_what_became_of_it(kernel: Kernel) -> None:
    told = said(kernel, "%chex_why clf")
    assert told.startswith("clf: SGDClassifier")
    assert "of cell [" in told
    assert "X: ndarray" in said(kernel, "%chex_why")
    assert "no variable 'nobody' is known here" in said(kernel, "%chex_why nobody")


def test_a_training_begins_with_the_best_stored_model(kernel: Kernel, project: Path) -> None:
    made = "model = SGDClassifier(alpha=0.01, random_state=0)"
    used = "start = getattr(model, 'coef_', X) + 0"
    told = said(kernel, f"{made}\n%chex_warmstart model --data X y\n{used}\nmodel.fit(X, y)")
    assert "CHEX: 'model' begins with 'clf' (" in told
    assert "score 0.75" in told
    shown = run_cell(kernel, "(start == clf.coef_).all(), model.warm_start").ok()
    assert shown.result == "(np.True_, True)"
    assert not list((project / ".chex").glob("fetched-*"))
    # The same code without the warm start is another operation, and gives another model.
    run_cell(kernel, "%chex_record second").ok()
    for code in [*CELLS, f"{made}\n{used}\nmodel.fit(X, y)"]:
        run_cell(kernel, code).ok()
    assert run_cell(kernel, "model.warm_start").ok().result == "False"
    data = graph(project)
    names = {name for each in data["artifacts"] for name in each["group"]["names"]}
    assert {"X", "y", "clf"} <= names
    models = [each for each in data["artifacts"] if each["group"]["names"] == ["model"]]
    assert len({each["id"] for each in models}) == len(models) == 2


@pytest.mark.parametrize(
    ("cell", "why"),
    [
        ("m = Perceptron()\n%chex_warmstart m --data X y", "none of this class"),
        ("%chex_warmstart clf --data X y", "it is fitted already"),
        ("%chex_warmstart nobody --data X y", "there is no variable 'nobody'"),
        ("m = SGDClassifier()\nX = X + 1\n%chex_warmstart m --data X y", "'X' may change"),
        ("m = SGDClassifier()\n%chex_warmstart m --data other", "'other' is not in the graph"),
    ],
)
def test_where_there_is_nothing_to_begin_with_it_is_said(
    kernel: Kernel, cell: str, why: str
) -> None:
    assert why in said(kernel, cell)
