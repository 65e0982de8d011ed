"""``chex record``, then ``chex hindsight``, as a user runs them: real engines, real libraries."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

EPOCHS = 12
TIMEOUT_S = 120.0

# Sleeps in its steps because a loop that is over at once is not worth a second worker.
TRAINING = """\
import time
import numpy as np

rng = np.random.default_rng(3)
weights = np.zeros((8, 8))
history = []
for epoch in range(12):
    for step in range(3):
        gradient = rng.normal(size=(8, 8))
        weights += 0.1 * gradient
        time.sleep(0.015)
    history.append(float(weights.sum()))
    print("sum", history[-1])
print("done", len(history))
"""
NORM = '    print("norm", float(np.linalg.norm(weights)).hex())\n'
LARGEST = '        print("largest", float(abs(gradient).max()).hex())\n'

# With dropout, momentum and shuffled data: wrong without the states of all random numbers.
TORCH_TRAINING = """\
import time
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
data = torch.randn(64, 16)
batches = DataLoader(TensorDataset(data, data @ torch.randn(16, 1)), batch_size=16, shuffle=True)
model = torch.nn.Sequential(
    torch.nn.Linear(16, 64), torch.nn.Dropout(0.1), torch.nn.ReLU(), torch.nn.Linear(64, 1)
)
opt = torch.optim.Adam(model.parameters(), lr=0.01)
schedule = torch.optim.lr_scheduler.StepLR(opt, 3)


def train_step(model, opt, rows, target):
    loss = ((model(rows) - target) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss


for epoch in range(12):
    for rows, target in batches:
        loss = train_step(model, opt, rows, target)
        time.sleep(0.01)
    schedule.step()
    print("loss", loss.item())
"""
TORCH_OUTER = '    print("norm", model[0].weight.norm().item())\n'
TORCH_INNER = '        print("grad", model[0].weight.grad.norm().item())\n'


def added(source: str, statement: str, *, before: str) -> str:
    """Return a program with one more statement."""
    assert source.count(before) == 1
    return source.replace(before, statement + before)


def environment(overhead: str) -> dict[str, str]:
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("CHEX_")},
        "COLUMNS": "100",
        "CHEX_OVERHEAD": overhead,
        "OMP_NUM_THREADS": "1",
    }


@dataclass(frozen=True, slots=True)
class Place:
    """A folder with a user's programs in it."""

    folder: Path
    overhead: str = "always"
    """What recording may cost; all, because what is worth it depends on the pace of the machine."""

    def write(self, name: str, source: str) -> str:
        (self.folder / name).write_text(source, encoding="utf-8")
        return name

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            argv,
            cwd=self.folder,
            env=environment(self.overhead),
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )

    def chex(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run the command; it may end badly, but not with a traceback."""
        done = self.run(sys.executable, "-m", "chexpoint", *words)
        assert "Traceback" not in done.stdout + done.stderr
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def record(self, source: str, version: str) -> None:
        self.chex("record", self.write(f"{version}.py", source), "--name", version)

    def hindsight(self, source: str, *words: str, code: int = 0) -> dict[str, Any]:
        """Return what the command says, for programs."""
        file = self.write("probed.py", source)
        done = self.chex("hindsight", file, *words, "--json", code=code)
        assert done.stderr == ""
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def printed(self, source: str) -> list[str]:
        """Return the lines that a program prints when Python itself runs it."""
        done = self.run(sys.executable, self.write("plain.py", source))
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()


def values(answer: dict[str, Any], start: str = "", version: int = 0) -> list[Any]:
    """Return what the added statements logged in a version."""
    rows = [row for row in answer["versions"][version]["rows"] if row["added"]]
    return [row["value"] for row in rows if str(row["value"]).startswith(start)]


def standings(answer: dict[str, Any]) -> set[str]:
    return {row["standing"] for version in answer["versions"] for row in version["rows"]}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Two versions of a training: the second one goes in larger steps."""
    made = Place(tmp_path_factory.mktemp("numpy"))
    made.record(TRAINING, "v1")
    made.record(TRAINING.replace("0.1 *", "0.3 *"), "v2")
    return made


@pytest.fixture(scope="module")
def torch_place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    made = Place(tmp_path_factory.mktemp("torch"))
    made.record(TORCH_TRAINING, "net")
    return made


# ---------------------------------------------------------------- the same values


def test_values_of_a_network_are_those_of_a_run_that_logged_them_from_the_start(
    torch_place: Place,
) -> None:
    outer = added(TORCH_TRAINING, TORCH_OUTER, before='    print("loss"')
    inner = added(TORCH_TRAINING, TORCH_INNER, before="        time.sleep")
    both = added(outer, TORCH_INNER, before="        time.sleep")
    lines = torch_place.printed(both)

    answer = torch_place.hindsight(outer)
    assert values(answer) == [line for line in lines if line.startswith("norm")]
    assert standings(answer) == {"exact"}
    assert answer["totals"]["skipped_blocks"] > 0

    answer = torch_place.hindsight(inner, "--version", "net", "--workers", "2")
    assert values(answer) == [line for line in lines if line.startswith("grad")]
    assert standings(answer) == {"exact"}
    assert answer["versions"][0]["workers"] == 2
    rows = [row for row in answer["versions"][0]["rows"] if row["added"]]
    assert [tuple(row["at"]) for row in rows] == [(i, j) for i in range(EPOCHS) for j in range(4)]


def test_values_in_both_loops_and_after_them_are_bit_equal(place: Place) -> None:
    probed = added(TRAINING, NORM, before="    history.append")
    probed = added(probed, LARGEST, before="        weights +=")
    lines = place.printed(probed)
    answer = place.hindsight(probed, "--version", "v1", "--workers", "2")
    assert values(answer, "norm") == [line for line in lines if line.startswith("norm")]
    assert values(answer, "largest") == [line for line in lines if line.startswith("largest")]
    assert standings(answer) == {"exact"}


def test_a_range_of_epochs_gives_their_values_alone(place: Place) -> None:
    probed = added(TRAINING, LARGEST, before="        weights +=")
    lines = [line for line in place.printed(probed) if line.startswith("largest")]
    answer = place.hindsight(probed, "--version", "v1", "--epochs", "7:9")
    assert values(answer) == lines[21:27]
    assert answer["versions"][0]["iterations"] == 2
    labels = [row["labels"] for row in answer["versions"][0]["rows"] if row["added"]]
    assert labels == [{"epoch": i, "step": j} for i in (7, 8) for j in range(3)]


def test_a_range_after_the_end_is_refused(place: Place) -> None:
    file = place.write("probed.py", added(TRAINING, NORM, before="    history.append"))
    done = place.chex("hindsight", file, "--version", "v1", "--epochs", "40:60", code=2)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "12" in done.stderr


def test_statements_are_carried_to_all_versions(place: Place) -> None:
    probed = added(TRAINING, NORM, before="    history.append")
    larger = place.printed(probed.replace("0.1 *", "0.3 *"))
    answer = place.hindsight(probed, "--all-versions")
    assert {version["version"] for version in answer["versions"]} == {"v1", "v2"}
    expected = {"v1": place.printed(probed), "v2": larger}
    for at, version in enumerate(answer["versions"]):
        lines = expected[version["version"]]
        assert values(answer, version=at) == [line for line in lines if line.startswith("norm")]
    assert standings(answer) == {"exact"}


def test_the_nearest_version_is_the_one_that_is_meant(place: Place) -> None:
    probed = added(TRAINING.replace("0.1 *", "0.3 *"), NORM, before="    history.append")
    answer = place.hindsight(probed, "--epochs", "11")
    assert [version["version"] for version in answer["versions"]] == ["v2"]


def test_a_table_can_be_written_and_text_is_shown(place: Place) -> None:
    probed = added(TRAINING, NORM, before="    history.append")
    file = place.write("probed.py", probed)
    done = place.chex("hindsight", file, "--version", "v1", "--epochs", "8:12", "--csv", "out.csv")
    assert "CHEX: 4 values in " in done.stdout
    table = list(csv.DictReader(io.StringIO((place.folder / "out.csv").read_text("utf-8"))))
    assert [row["epoch"] for row in table] == ["8", "9", "10", "11"]
    assert {(row["version"], row["via"]) for row in table} == {("v1", "print")}
    assert {row["standing"] for row in table} == {"exact"}


def test_values_before_a_state_that_was_kept_are_exact(place: Place) -> None:
    probed = added(TRAINING, NORM, before="    history.append")
    lines = [line for line in place.printed(probed) if line.startswith("norm")]
    answer = place.hindsight(probed, "--version", "v1", "--epochs", "2:6")
    assert values(answer) == lines[2:6]
    assert standings(answer) == {"exact"}


# ---------------------------------------------------------------- what cannot be


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("0.1 *", "0.2 *", ("Line 10", "was changed")),
        ("range(12)", "range(24)", ("Line 7", "was changed")),
        ("    history.append(float(weights.sum()))\n", "", ("history",)),
        ("        weights +=", "        weights *= 0.9\n        weights +=", ("weights *= 0.9",)),
        ("rng =", "rng = (", ("changed.py:4: ", "was never closed")),
        ("time.sleep(0.015)", "time.sleep(0.015)  # so", ("Nothing that was added logs",)),
    ],
)
def test_other_changes_are_explained(
    place: Place, old: str, new: str, why: tuple[str, ...]
) -> None:
    file = place.write("changed.py", TRAINING.replace(old, new, 1))
    done = place.run(sys.executable, "-m", "chexpoint", "hindsight", file, "--version", "v1")
    assert done.returncode in (1, 2)
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert all(line.startswith("chex: ") for line in done.stderr.splitlines())
    assert all(part in done.stderr for part in why), done.stderr


def test_a_statement_that_draws_random_numbers_is_found_out(place: Place) -> None:
    probed = added(TRAINING, '    print("draw", rng.normal())\n', before="    history.append")
    answer = place.hindsight(probed, "--version", "v1", code=1)
    (version,) = answer["versions"]
    assert "the statement added in line 12 changed rng" in version["findings"][0]["what"]
    assert "diverged" in standings(answer)


def test_a_statement_that_fails_is_the_users_own_error(place: Place) -> None:
    probed = added(TRAINING, '    print("x", weights.nrom())\n', before="    history.append")
    done = place.chex(
        "hindsight", place.write("probed.py", probed), "--version", "v1", "--json", code=1
    )
    assert "has no attribute 'nrom'" in json.loads(done.stdout)["versions"][0]["failed"]


def test_data_that_cannot_be_made_again_is_said(tmp_path: Path) -> None:
    """Nothing was kept of the loop, and its data came from nowhere."""
    made = Place(tmp_path, overhead="1e-9")
    training = TRAINING.replace("default_rng(3)", "default_rng()")
    training = training.replace("        time.sleep(0.015)\n", "")
    made.record(training, "once")
    answer = made.hindsight(added(training, NORM, before="    history.append"), code=1)
    (version,) = answer["versions"]
    assert standings(answer) == {"diverged"}
    assert "rng" in json.dumps([version["findings"], version["notes"]])


def test_data_that_was_kept_need_not_be_made_again(tmp_path: Path) -> None:
    made = Place(tmp_path)
    training = TRAINING.replace("default_rng(3)", "default_rng()")
    training = training.replace("sum", "norm").replace("weights.norm()", "np.linalg.norm(weights)")
    training = training.replace("history[-1])", "history[-1].hex())")
    made.record(training, "kept")
    answer = made.hindsight(added(training, NORM, before="    print("))
    assert standings(answer) == {"exact"}
    rows = answer["versions"][0]["rows"]
    recorded = [row["value"] for row in rows if not row["added"]]
    assert values(answer) == recorded
    assert len(recorded) == EPOCHS


# ---------------------------------------------------------------- the loggers that people have

LOGGERS = """\
import logging
import time
from tensorboardX import SummaryWriter

logging.basicConfig(level="INFO", format="%(message)s")
log = logging.getLogger("training")
board = SummaryWriter("board")
weight = 1.0
for epoch in range(12):
    for step in range(3):
        weight *= 0.9
        time.sleep(0.015)
    log.info("weight %s", weight)
board.close()
"""


def test_values_come_through_the_loggers_that_a_program_has(tmp_path: Path) -> None:
    made = Place(tmp_path)
    made.record(LOGGERS, "v")
    before = sorted(path.name for path in (tmp_path / "board").iterdir())
    probes = (
        '    board.add_scalar("half", weight / 2, epoch)\n    log.info("double %s", 2 * weight)\n'
    )
    answer = made.hindsight(added(LOGGERS, probes, before="    log.info"))
    assert standings(answer) == {"exact"}
    rows = [row for row in answer["versions"][0]["rows"] if row["added"]]
    found: dict[str, list[Any]] = {}
    for row in rows:
        found.setdefault(row["via"], []).append(row["value"])
    weights, weight = [], 1.0
    for _ in range(EPOCHS):
        for _ in range(3):
            weight *= 0.9
        weights.append(weight)
    assert found["tensorboard"] == [weight / 2 for weight in weights]
    assert found["logging"] == [f"double {2 * weight}" for weight in weights]
    # The replay has a board of its own.
    assert sorted(path.name for path in (tmp_path / "board").iterdir()) == before
