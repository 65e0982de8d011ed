"""``%%chex_hindsight`` in real kernels, CHEX's own and the stock one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.kernels import CHEX, STOCK, Kernel, Launch

pytestmark = pytest.mark.slow

EPOCHS = 12

SET_UP = """\
import time
import numpy as np
rng = np.random.default_rng(3)
weights = np.zeros((8, 8))
"""
# Sleeps in its steps because a loop that is over at once is not worth a second worker.
TRAINING = """\
for epoch in range(12):
    for step in range(3):
        gradient = rng.normal(size=(8, 8))
        weights += 0.1 * gradient
        time.sleep(0.015)
    print("sum", weights.sum())
"""
OUTER = '    print("norm", float(np.linalg.norm(weights)).hex())\n'
INNER = '        print("largest", float(abs(gradient).max()).hex())\n'
LARGER = TRAINING.replace("0.1 *", "0.3 *")


def with_outer(cell: str) -> str:
    return cell.replace("    print(", OUTER + "    print(", 1)


IN_CHEX = pytest.mark.parametrize("kernel", [CHEX], indirect=True, ids=["chex"])
IN_BOTH = pytest.mark.parametrize("kernel", [CHEX, STOCK], indirect=True, ids=["chex", "stock"])


def with_inner(cell: str) -> str:
    return cell.replace("        time", INNER + "        time")


@pytest.fixture(scope="module")
def kernel(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kernel]:
    """A kernel with two versions of a training."""
    folder = tmp_path_factory.mktemp("hindsight") / "kernel"
    # Whether a state is worth keeping depends on the pace of the machine.
    env = {"TMPDIR": str(tmp_path_factory.mktemp("tmp")), "CHEX_OVERHEAD": "always"}
    launch = Launch(argv=request.param, env=env)
    with Kernel(launch, folder) as started:
        if request.param == STOCK:
            started.run("%load_ext chexpoint")
        # In the CHEX kernel, the cells of both have the same numbers.
        for version, cell in (("small", TRAINING), ("large", LARGER)):
            for source in (f"%chex_record {version}", f"name = {version!r}", SET_UP, cell):
                started.execute(source).ok()
        yield started


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What a run that logged it from the start has logged, by its first word."""
    file = tmp_path_factory.mktemp("truth") / "plain.py"
    file.write_text(SET_UP + with_inner(with_outer(TRAINING)), encoding="utf-8")
    text = subprocess.check_output([sys.executable, file], text=True)
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        found.setdefault(line.split()[0], []).append(line)
    return found


def table(kernel: Kernel, name: str) -> list[dict[str, object]]:
    """Return the rows of a table that a replay has left in a variable."""
    text = kernel.run(f"print({name}.to_json(orient='records'))")
    found: list[dict[str, object]] = json.loads(text)
    return found


@IN_BOTH
def test_added_statements_log_what_they_would_have_logged(
    kernel: Kernel, truth: dict[str, list[str]]
) -> None:
    before = kernel.run("print(weights.sum(), epoch, rng.bit_generator.state)")
    outcome = kernel.execute(f"%%chex_hindsight small --into norms\n{with_outer(TRAINING)}").ok()
    assert f"CHEX: {EPOCHS} values in " in outcome.stdout
    rows = table(kernel, "norms")
    assert [row["value"] for row in rows] == truth["norm"]
    assert [row["epoch"] for row in rows] == list(range(EPOCHS))
    assert {row["standing"] for row in rows} == {"exact"}
    # The kernel's own state is not touched.
    assert kernel.run("print(weights.sum(), epoch, rng.bit_generator.state)") == before


@IN_CHEX
def test_an_inner_loop_is_replayed_by_two_workers(
    kernel: Kernel, truth: dict[str, list[str]]
) -> None:
    cell = f"%%chex_hindsight small --workers 2 --into largest\n{with_inner(TRAINING)}"
    kernel.execute(cell).ok()
    rows = table(kernel, "largest")
    assert [row["value"] for row in rows] == truth["largest"]
    assert {row["standing"] for row in rows} == {"exact"}


@IN_CHEX
def test_all_versions_are_asked_at_once(kernel: Kernel, truth: dict[str, list[str]]) -> None:
    cell = "%%chex_hindsight --all-versions --epochs 10: --into both --plot\n"
    kernel.execute(cell + with_outer(TRAINING)).ok()
    rows = table(kernel, "both")
    assert {(row["version"], row["epoch"]) for row in rows} == {
        (version, epoch) for version in ("small", "large") for epoch in (10, 11)
    }
    assert [row["value"] for row in rows if row["version"] == "small"] == truth["norm"][10:]


@pytest.mark.parametrize(
    ("cell", "why"),
    [
        (TRAINING, "Nothing that was added logs a value"),
        (with_outer(TRAINING).replace("0.1 *", "0.2 *"), "was changed to"),
    ],
)
@IN_BOTH
def test_what_else_was_changed_is_told_in_a_line(kernel: Kernel, cell: str, why: str) -> None:
    outcome = kernel.execute(f"%%chex_hindsight small\n{cell}")
    assert outcome.content["ename"] == "UsageError"
    assert why in outcome.content["evalue"]
    assert "Traceback" not in outcome.stdout + outcome.stderr


@IN_CHEX
def test_a_statement_that_changes_the_training_is_found_out(kernel: Kernel) -> None:
    probe = TRAINING.replace("    print(", '    print("draw", rng.normal())\n    print(', 1)
    outcome = kernel.execute(f"%%chex_hindsight small --into draws\n{probe}").ok()
    assert "the statement added in line 6 changed rng" in outcome.stdout
    assert "diverged" in {row["standing"] for row in table(kernel, "draws")}


@IN_CHEX
def test_an_interrupted_training_is_replayed_as_far_as_it_went(
    kernel: Kernel, truth: dict[str, list[str]]
) -> None:
    long = TRAINING.replace("range(12)", "range(100000)")
    for source in ("%chex_record stopped", "name = 'stopped'", SET_UP):
        kernel.execute(source).ok()
    request = kernel.submit(long)
    wait_epochs(kernel, request)
    kernel.interrupt()
    assert kernel.finish(request).content["ename"] == "KeyboardInterrupt"
    cell = f"%%chex_hindsight stopped --epochs 0:{EPOCHS} --into stopped\n{with_outer(long)}"
    told = kernel.execute(cell).ok().stdout
    rows = table(kernel, "stopped")
    assert [row["value"] for row in rows] == truth["norm"], told


def wait_epochs(kernel: Kernel, request: str) -> None:
    """Wait until as many epochs have run as the other trainings have."""
    kernel.wait_for(
        lambda m: (
            m.parent_id == request
            and m.type == "stream"
            and sum(
                each.content["text"].count("sum")
                for each in kernel.log
                if each.parent_id == request and each.type == "stream"
            )
            > EPOCHS
        ),
        "some epochs",
    )


@IN_CHEX
def test_recording_can_be_switched_off(kernel: Kernel) -> None:
    kernel.execute("%chex_overhead off").ok()
    for source in (
        "%chex_record unseen",
        "name = 1",
        "a = 2",
        "b = 3",
        "c = 4",
        "d = 5",
        SET_UP,
        TRAINING,
    ):
        kernel.execute(source).ok()
    outcome = kernel.execute(f"%%chex_hindsight unseen\n{with_outer(TRAINING)}")
    kernel.execute("%chex_overhead 6%").ok()
    assert outcome.status == "error", outcome.stdout
    assert outcome.content["ename"] == "UsageError"
    assert outcome.content["evalue"].count("\n") == 0
