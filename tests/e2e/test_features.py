"""Every feature check, against CHEX in each of its modes, and on demand against ipykernel.

`fresh` is a kernel as started; `restored` runs each check in a state that was checkpointed and
restored twice before, and restored once more just before the check; `auto` takes a checkpoint
after every cell. `stock` is ipykernel itself, which proves that the checks say the truth about it:

    CHEX_FEATURE_MODES=stock pytest tests/e2e/test_features.py
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.features import Feature, all_features
from tests.support.kernels import CHEX, STOCK, Kernel, Launch

pytestmark = pytest.mark.slow

MODES = os.environ.get("CHEX_FEATURE_MODES", "fresh,restored,auto").split(",")
FEATURES = all_features()
CELLS = 6


def cases() -> Iterator[Any]:
    """Yield the checks: all in a restored kernel, and a third of them with automatic checkpoints.

    Those that need a kernel of their own are in one mode: starting kernels takes most of the time.
    Only these are in a fresh one, where the suites of others (`test_conformance`) look at the rest.
    """
    for number, mode in enumerate(MODES):
        for at, feature in enumerate(FEATURES):
            is_in_turn = at % len(MODES) == number and (feature.own_kernel or mode != "fresh")
            is_in_all = not feature.own_kernel and mode == "restored"
            if is_in_all or len(MODES) == 1 or is_in_turn:
                # With `-n 2 --dist loadgroup` each mode keeps its shared kernel in one process.
                marks = pytest.mark.xdist_group(mode)
                yield pytest.param(mode, feature, marks=marks, id=f"{mode}-{feature.name}")


@pytest.mark.parametrize(("mode", "feature"), list(cases()))
def test_feature(mode: str, feature: Feature, kernels: Kernels) -> None:
    if mode == "stock" and feature.untrue_of_stock:
        pytest.skip(f"not so in ipykernel: {feature.untrue_of_stock}")
    with kernels.lend(mode, feature) as kernel:
        feature.check(kernel)


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "stock"])
def test_mode_is_what_it_says(mode: str, tmp_path: Path) -> None:
    """The checks above would prove little if no checkpoint were taken or restored."""
    with start(mode, tmp_path / mode) as kernel:
        before = count_settled(kernel)
        for value in range(CELLS):
            kernel.run(f"value = {value}")
        taken = count_settled(kernel) - before
        # The rule may take one for a cell that a busy machine has held up.
        assert taken == CELLS if mode == "auto" else taken < CELLS / 2


def count_settled(kernel: Kernel) -> int:
    """The number of processes once the checkpoint of the last cell, if any, has been taken."""
    kernel.request("is_complete_request", {"code": "served after the checkpoint"})
    return len(kernel.processes())


class Kernels:
    """Lends kernels to checks: one for all checks of a mode that leave it clean."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._shared: dict[str, Kernel] = {}
        self._started = 0

    @contextmanager
    def lend(self, mode: str, feature: Feature) -> Iterator[Kernel]:
        if feature.own_kernel:
            with self._start(mode, feature) as kernel:
                yield kernel
            return
        kernel = self._shared.pop(mode) if mode in self._shared else self._start(mode, feature)
        try:
            if mode == "restored":
                kernel.execute("%chex_restore second").ok()
                kernel.forget()
            yield kernel
            kernel.run("pass")
        except BaseException as error:
            kernel.__exit__(type(error), error, None)
            raise
        kernel.forget()
        self._shared[mode] = kernel

    def close(self) -> None:
        for kernel in self._shared.values():
            kernel.close()

    def _start(self, mode: str, feature: Feature) -> Kernel:
        self._started += 1
        return start(mode, self._folder / f"k{self._started}", feature)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernels]:
    lender = Kernels(tmp_path_factory.mktemp("k"))
    yield lender
    lender.close()


def start(mode: str, folder: Path, feature: Feature | None = None) -> Kernel:
    """Start a kernel and bring it into a mode."""
    kernel = Kernel(
        Launch(
            argv=STOCK if mode == "stock" else CHEX,
            env={"CHEX_AUTO": "always"} if mode == "auto" else {},
            transport=feature.transport if feature else "tcp",
            encrypted=feature.encrypted if feature else False,
        ),
        folder,
    )
    if mode == "restored":
        restore_twice(kernel)
    return kernel


def restore_twice(kernel: Kernel) -> None:
    """Two rounds of checkpoint and restore, each shown to have brought the state back."""
    try:
        for name in ("first", "second"):
            kernel.run(f"position = {name!r}")
            kernel.execute(f"%chex_checkpoint {name}").ok()
            kernel.run("position = 'left behind'")
            kernel.execute(f"%chex_restore {name}").ok()
            assert kernel.run("print(position)") == f"{name}\n"
        kernel.execute("%chex_restore second").ok()
    except BaseException as error:
        kernel.__exit__(type(error), error, None)
        raise
    kernel.forget()
